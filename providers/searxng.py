"""A SearXNG instance of one's own, JSON search. Read in its source: webapp, webadapter, query, limiter (2026-08)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

import httpx2

from providers import _cutting
from providers._addresses import basic_auth, cleaned
from providers._http import HTTPProvider
from providers._reading import member, one_line, plain_text, result, rows
from providers._wire import Wire
from providers._words import Option, Outcome, Query, Result, Results, Row, Said

JSON_HINT = (
    "SearXNG refused JSON: add json to search.formats in its settings.yml; "
    "if it is there, a reverse proxy in front of it has a rule against us"
)
ADDRESS_HINT = (
    "SEARXNG_URL gave a web page instead of JSON: check that it is the instance's own address and that json is in "
    "search.formats of its settings.yml; its limiter also sends clients it suspects to its front page"
)
LANGUAGE_HINT = (
    "SearXNG knows no such language: options.language of searxng must be all, auto, or a code such as de or pt-BR"
)

NOBODY_ASKED = "SearXNG asked none of its engines: none of those chosen can do what was asked, such as a time range"
"""What an empty answer means in which no engine answered and none failed."""

COMMAND = re.compile(r"(?<!\S)(?:[!:]+|<(?=\d))")
"""At the start of any word: `!` picks engines or leaves for another site, `:` picks a language, `<3` a time limit."""

ANSWERED = re.compile(r"\btotal_\d+_")
"""In SearXNG's Server-Timing, beside `total` and `render`: one for each engine that answered, be it with nothing."""

BLOCKED = {"too many requests", "captcha", "access denied"}


class SearXNG(HTTPProvider):
    name = "searxng"
    title = "SearXNG"
    priority = 90
    home = "http://localhost:8080/search"
    credential = "SEARXNG_URL"
    keys_are_addresses = True
    domains = 1
    options: ClassVar = {
        "categories": Option(str, None, "comma-separated categories; the instance's default when absent"),
        "engines": Option(str, None, "comma-separated engines; those of the categories when absent"),
        "language": Option(str, None, "all, auto, or a code such as de or pt-BR; the instance's default when absent"),
    }

    errors = (
        Row(403, Outcome.REQUEST_ERROR, setup=True, hint=JSON_HINT),  # abort(403) unless format is in search.formats
        Row(401, Outcome.AUTH_FAILURE),  # basic auth of a reverse proxy
        Row(400, Outcome.REQUEST_ERROR, phrase="for parameter language", setup=True, hint=LANGUAGE_HINT),
        Row(400, Outcome.REQUEST_ERROR),  # No query; Invalid value X for parameter Y
        Row(404, Outcome.REQUEST_ERROR, setup=True, hint=ADDRESS_HINT),  # inferred: a wrong base path
        Row(500, Outcome.SERVER_ERROR),  # search error, in the instance's language
        Row(429, Outcome.RATE_LIMITED, phrase="IP is on BLOCKLIST"),
        Row(429, Outcome.RATE_LIMITED),  # Too Many Requests
        Row(302, Outcome.REQUEST_ERROR, setup=True, hint=ADDRESS_HINT),  # to its index, or away by an external bang
        Row(200, Outcome.REQUEST_ERROR, code="a page", setup=True, hint=ADDRESS_HINT),
        # no rows, and engines that did not answer: nobody knows whether there is nothing (the mapping is ours)
        Row(200, Outcome.RATE_LIMITED, code="all engines blocked"),
        Row(200, Outcome.TIMEOUT, code="all engines timed out"),
        Row(200, Outcome.SERVER_ERROR, code="engines failed"),
        # nor when it skips every engine without a word, as it does with those that cannot search by time
        Row(200, Outcome.REQUEST_ERROR, code="no engine asked"),
    )

    def fit(self, query: Query) -> tuple[Query, tuple[str, ...]] | None:
        words = " ".join(COMMAND.sub("", query.text).split())
        notes = (
            ()
            if words == " ".join(query.text.split())
            else ("searxng: the marks ! : < that give it orders were left out",)
        )
        fitted = _cutting.fit(
            replace(query, text=words or f'"{query.text}"'), self.limits, self.name, _cutting.site_operators(query)
        )
        return fitted and (fitted[0], (*notes, *fitted[1]))

    def request(self, query: Query, key: str) -> httpx2.Request:
        fields = {"q": query.text, "format": "json"}
        fields |= {name: str(value) for name in self.options if (value := self.option(name))}
        if query.freshness:
            fields["time_range"] = query.freshness
        address = cleaned(key)
        if address is None:
            raise ValueError("no address")
        headers = {
            # its limiter refuses clients that do not look like a browser, and counts JSON asked for by GET
            "Accept": "application/json, text/html;q=0.5",
            "Accept-Encoding": "gzip, deflate",
            # blank is refused; a language would be the one that is searched in, where the instance has none of its own;
            # with none to choose from, engines' reasons are in English
            "Accept-Language": "*",
            **basic_auth(address),
        }
        return httpx2.Request("POST", self.endpoint(address), headers=headers, data=fields)

    def results(self, body: object) -> Results | None:
        kept = rows(member(body, "results"), self._row)
        if kept is None:
            return None
        silent = len(_unresponsive(body))
        return Results(kept, notes=(f"searxng: {silent} of its engines did not answer",) if silent else ())

    def _row(self, row: dict[str, object]) -> Result | None:
        return result(row.get("title"), row.get("url"), snippet=row.get("content"), published=row.get("publishedDate"))

    def said(self, wire: Wire, body: object) -> Said:
        if body is None:
            begins = wire.text[:500]
            return Said(("a page",) if wire.is_page else (), plain_text(begins.rpartition("<")[0] or begins))
        if member(body, "results"):
            return super().said(wire, body)
        if failing := _unresponsive(body):
            reasons = {reason for _, reason in failing}
            code = (
                "all engines blocked"
                if reasons <= BLOCKED
                else "all engines timed out"
                if reasons == {"timeout"}
                else "engines failed"
            )
            return Said((code,), ", ".join(f"{engine}: {reason}" for engine, reason in failing))
        if isinstance(member(body, "results"), list) and _nobody_answered(wire):
            return Said(("no engine asked",), NOBODY_ASKED)
        return super().said(wire, body)


def _nobody_answered(wire: Wire) -> bool:
    """Whether SearXNG's own times say that no engine answered. A proxy may leave the header out: then nobody knows."""
    times = wire.headers.get("server-timing", "")
    return "render;dur=" in times and not ANSWERED.search(times)


def _unresponsive(body: object) -> Sequence[tuple[str, str]]:
    """Name and reason of each engine that did not answer; a reason that cannot be read is ""."""
    items = member(body, "unresponsive_engines")
    if not items:
        return ()
    found = []
    for item in items if isinstance(items, list) else [items]:
        parts = [one_line(part) if isinstance(part, str) else "" for part in item] if isinstance(item, list) else []
        engine, reason = (*parts, "", "")[:2]
        found.append((engine, reason.lower().removeprefix("suspended:").strip()))
    return found
