"""DeepSeek search. api-docs.deepseek.com, pages "Search & Fetch", "Search API" and "Error codes" (read 2026-11)."""

from __future__ import annotations

import re

import httpx2

from providers import _cutting
from providers._http import HTTPProvider
from providers._reading import member, result, rows
from providers._wire import Wire, read_json
from providers._words import MANY, Limits, Outcome, Query, Result, Results, Row

KEEP_ALIVE = re.compile(r"\A(?:[\s\ufeff]++|:[^\r\n]*+)*+")
"""Blank lines and event-stream comments that come while a slow call is at work.

Documented for the vendor's models, inferred for his search.
"""


class DeepSeek(HTTPProvider):
    name = "deepseek"
    title = "DeepSeek"
    priority = 30
    home = "https://api.deepseek.com/v1/tools/search"
    credential = "DEEPSEEK_API_KEY"
    joins = "if_listed"
    limits = Limits(results=50, query=128)
    min_interval_ms = 200
    domains = MANY

    errors = (
        # The status decides. The codes mislead: an empty balance has "invalid_request_error", as a wrong key has
        Row(400, Outcome.REQUEST_ERROR),  # Invalid Format
        Row(401, Outcome.AUTH_FAILURE),  # Authentication Fails
        Row(402, Outcome.QUOTA_EXHAUSTED),  # Insufficient Balance
        Row(422, Outcome.REQUEST_ERROR),  # Invalid Parameters
        Row(429, Outcome.RATE_LIMITED),  # Rate Limit Reached
        Row(500, Outcome.SERVER_ERROR),
        Row(503, Outcome.SERVER_ERROR),  # overloaded; at a relay: no available channels for the key's group
    )

    def fit(self, query: Query) -> tuple[Query, tuple[str, ...]] | None:
        operators = _cutting.site_operators(query)
        if query.freshness:
            since = self.since(query.freshness)
            operators.append(f"after:{since:%Y-%m-%d}")
        return _cutting.fit(query, self.limits, self.name, operators)

    def request(self, query: Query, key: str) -> httpx2.Request:
        body = {"query": query.text, "count": query.max_results}
        return httpx2.Request("POST", self.endpoint(), headers={"Authorization": f"Bearer {key}"}, json=body)

    def decode(self, wire: Wire) -> object:
        return read_json(KEEP_ALIVE.sub("", wire.text, count=1))

    def results(self, body: object) -> Results | None:
        items = member(body, "results")
        if items is None and member(body, "type") == "message":
            items = _found(member(body, "content"))
        kept = rows(items, self._row)
        return None if kept is None else Results(kept)

    def _row(self, row: dict[str, object]) -> Result | None:
        return result(
            row.get("title"),
            row.get("url"),
            snippet=row.get("snippet"),
            content=row.get("summary"),
            published=row.get("date") or row.get("page_age"),
        )


def _found(blocks: object) -> list[object] | None:
    """The rows in an answer of the vendor's Anthropic-compatible interface, which searches too.

    None without a block of results: that is a failure, no empty search.
    """
    found = [
        items
        for block in (blocks if isinstance(blocks, list) else ())
        if member(block, "type") == "web_search_tool_result" and isinstance(items := member(block, "content"), list)
    ]
    return [item for items in found for item in items] if found else None
