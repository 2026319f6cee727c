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

COMMAND = re.compile(r"(?<!\S)(?:[!:]+|<(?=\d))")
"""At the start of any word: `!` picks engines or leaves for another site, `:` picks a language, `<3` a time limit."""

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
            "Accept-Language": "en",  # engines' reasons come in this language
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
            return Said(("a page",) if wire.is_page else (), plain_text(wire.text[:500]))
        if not member(body, "results") and (failing := _unresponsive(body)):
            reasons = {reason for _, reason in failing}
            code = (
                "all engines blocked"
                if reasons <= BLOCKED
                else "all engines timed out"
                if reasons == {"timeout"}
                else "engines failed"
            )
            return Said((code,), ", ".join(f"{engine}: {reason}" for engine, reason in failing))
        return super().said(wire, body)


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
