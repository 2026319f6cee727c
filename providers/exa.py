"""Exa search. exa.ai/docs/reference, pages "Search", "Error codes" and "Rate limits" (read 2026-11)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import ClassVar

import httpx2

from providers._http import HTTPProvider
from providers._reading import member, result, rows
from providers._wire import Wire
from providers._words import MANY, Limits, Option, Outcome, Query, Result, Results, Row, Said, monthly


class Exa(HTTPProvider):
    name = "exa"
    title = "Exa"
    priority = 80
    home = "https://api.exa.ai/search"
    credential = "EXA_API_KEY"
    limits = Limits(results=100)
    budget = monthly(800)
    domains = MANY
    options: ClassVar = {
        "type": Option(
            str,
            "auto",
            "kind of search",
            ("auto", "fast", "instant", "lite", "neural", "deep-lite", "deep", "deep-reasoning"),
        ),
        "text": Option(bool, False, "ask for page text instead of highlights"),
    }

    errors = (
        Row(400, Outcome.REQUEST_ERROR, code="INVALID_REQUEST_BODY"),
        Row(400, Outcome.REQUEST_ERROR, code="INVALID_REQUEST"),
        Row(400, Outcome.REQUEST_ERROR, code="INVALID_NUM_RESULTS"),
        Row(400, Outcome.REQUEST_ERROR, code="NUM_RESULTS_EXCEEDED"),  # the plan's cap on rows
        Row(None, Outcome.AUTH_FAILURE, code="INVALID_API_KEY"),
        Row(401, Outcome.AUTH_FAILURE),
        Row(None, Outcome.QUOTA_EXHAUSTED, code="NO_MORE_CREDITS"),
        Row(None, Outcome.QUOTA_EXHAUSTED, code="API_KEY_BUDGET_EXCEEDED"),
        Row(None, Outcome.QUOTA_EXHAUSTED, code="TEAM_BUDGET_EXCEEDED"),
        Row(402, Outcome.AUTH_FAILURE, code="X402"),  # inferred: a payment challenge means that no key arrived
        Row(402, Outcome.QUOTA_EXHAUSTED),
        Row(403, Outcome.AUTH_FAILURE, code="ACCESS_DENIED"),
        Row(403, Outcome.AUTH_FAILURE, code="FEATURE_DISABLED"),
        Row(403, Outcome.AUTH_FAILURE, code="INSUFFICIENT_SCOPE"),
        Row(403, Outcome.AUTH_FAILURE, code="TEAM_BLOCKED"),
        Row(403, Outcome.REQUEST_ERROR, code="PROHIBITED_CONTENT"),  # the query is refused, the key is fine
        Row(403, Outcome.REQUEST_ERROR, code="CONTENT_FILTER_ERROR"),
        Row(403, Outcome.REQUEST_ERROR, code="ROBOTS_FILTER_FAILED"),
        Row(None, Outcome.RATE_LIMITED, code="RATE_LIMIT_EXCEEDED"),
        Row(429, Outcome.RATE_LIMITED),  # You've exceeded your Exa rate limit; often without a tag
        Row(503, Outcome.SERVER_ERROR, code="SERVICE_OVERLOADED"),
    )

    def request(self, query: Query, key: str) -> httpx2.Request:
        body: dict[str, object] = {
            "query": query.text,
            "type": self.option("type"),
            "numResults": query.max_results,
            # whole pages of text would burst the reply; this many characters is what the vendor's own client asks for
            "contents": {"text": {"maxCharacters": 10_000}} if self.option("text") else {"highlights": True},
        }
        if query.freshness:
            since = self.since(query.freshness)
            body["startPublishedDate"] = since.strftime("%Y-%m-%dT%H:%M:%S.000Z")
        if query.include_domains:
            body["includeDomains"] = list(query.include_domains)
        if query.exclude_domains:
            body["excludeDomains"] = list(query.exclude_domains)
        return httpx2.Request("POST", self.endpoint(), headers={"x-api-key": key}, json=body)

    def unmet(self, query: Query) -> Iterator[str]:
        if query.freshness:
            yield "exa: pages without a known date are left out by freshness"

    def results(self, body: object) -> Results | None:
        kept = rows(member(body, "results"), self._row)
        return None if kept is None else Results(kept, notes=tuple(_remarks(body)))

    def _row(self, row: dict[str, object]) -> Result | None:
        marked = row.get("highlights")
        highlights = " … ".join(_texts(marked)) if isinstance(marked, list) else ""
        return result(
            row.get("title"),
            row.get("url"),
            snippet=highlights,
            content="" if highlights else row.get("text"),
            published=row.get("publishedDate"),
        )

    def said(self, wire: Wire, body: object) -> Said:
        tag, text = member(body, "tag"), member(body, "error")
        code = tag if isinstance(tag, str) else ""
        if code.upper().startswith("X402") or member(body, "x402Version") is not None:
            code = "X402"  # the tags of a payment challenge begin so; a bare challenge names its version instead
        message = text if isinstance(text, str) else super().said(wire, body).message
        return Said((code,) if code else (), message)


def _texts(parts: list[object]) -> list[str]:
    return [part.strip() for part in parts if isinstance(part, str) and part.strip()]


def _remarks(body: object) -> Iterator[str]:
    """What the vendor did otherwise than asked: a filter dropped because nothing matched, a field without effect."""
    for list_name, code, words in (
        ("notices", "RESTRICTIONS_RELAXED", "nothing matched {}, so the vendor dropped that filter"),
        ("warnings", "IGNORED_FIELD", "{} had no effect"),
    ):
        items = member(body, list_name)
        for item in items if isinstance(items, list) else ():
            if member(item, "code") == code:
                path = member(item, "path")
                known = isinstance(path, str) and re.fullmatch(r"[A-Za-z.]{1,40}", path)
                yield "exa: " + words.format(
                    path if known else "one of the filters" if list_name == "notices" else "a field"
                )
