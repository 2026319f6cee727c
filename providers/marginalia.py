"""Marginalia, an index of the small web in English. MarginaliaSearch's api-service, searxng's engine (read 2026-11).

The results are licensed CC-BY-NC-SA 4.0: for non-commercial use, under the same licence. The shared key `public` is of
no use; a key of one's own is free for the asking.
"""

from __future__ import annotations

import re
from typing import ClassVar

import httpx2

from providers._http import HTTPProvider
from providers._reading import member, plain_text, result, rows
from providers._wire import Wire
from providers._words import Left, Limits, Option, Outcome, Query, Result, Results, Row, Said, daily

CAPACITY = "api-remaining-daily-capacity"


class Marginalia(HTTPProvider):
    name = "marginalia"
    title = "Marginalia"
    priority = 160
    home = "https://api2.marginalia-search.com/search"
    credential = "MARGINALIA_API_KEY"
    joins = "if_listed"
    limits = Limits(results=20)
    budget = daily(2000)  # what the database gives a key by default
    enforces_freshness = False
    rest_default_s = 60.0  # searches are counted by the minute
    options: ClassVar = {
        "safe": Option(bool, True, "leave adult and dangerous pages out"),
        "filter": Option(str, None, "name of a filter that was made for the key"),
        "per_domain": Option(int, None, "at most this many pages of one domain; the vendor decides when absent"),
    }

    errors = (
        # sentences without an envelope, and bodies without a word
        Row(400, Outcome.AUTH_FAILURE, phrase="Missing API-Key header"),
        Row(400, Outcome.REQUEST_ERROR),  # no query; on the older path also a key of this one
        Row(401, Outcome.AUTH_FAILURE),
        Row(429, Outcome.RATE_LIMITED, phrase="QPM Limit Exceeded"),
        Row(429, Outcome.QUOTA_EXHAUSTED, phrase="Daily Limit Exceeded"),
        Row(429, Outcome.QUOTA_EXHAUSTED, phrase="API-Limit-Billable-Requests"),  # exceeds the caller's own cap
        Row(429, Outcome.QUOTA_EXHAUSTED, code=CAPACITY),  # inferred: its header says 0, whatever the body
        Row(None, Outcome.SERVER_ERROR, phrase="Query Execution Failed"),  # under 500, and under 200
        Row(503, Outcome.RATE_LIMITED, code="nothing"),  # the older path's way of saying that it is too much
    )

    def request(self, query: Query, key: str) -> httpx2.Request:
        fields = {"query": query.text, "count": str(query.max_results), "nsfw": "1" if self.option("safe") else "0"}
        if name := self.option("filter"):
            fields["filter"] = str(name)
        if most := self.option("per_domain"):
            fields["dc"] = str(most)
        return httpx2.Request("GET", self.endpoint(), headers={"API-Key": key}, params=fields)

    def results(self, body: object) -> Results | None:
        kept = rows(member(body, "results"), self._row)
        return None if kept is None else Results(kept)

    def _row(self, row: dict[str, object]) -> Result | None:
        return result(row.get("title"), row.get("url"), snippet=row.get("description"))

    def said(self, wire: Wire, body: object) -> Said:
        codes = [CAPACITY] if _capacity(wire) == 0 else []
        if not wire.body.strip():
            return Said((*codes, "nothing"))
        if body is None and not wire.text.lstrip().startswith("<"):
            return Said(tuple(codes), plain_text(wire.text[:500]))  # whatever type it is sent as
        return Said(tuple(codes), body if isinstance(body, str) else super().said(wire, body).message)

    def left(self, wire: Wire, body: object) -> Left | None:
        """What is left of the day's requests; when the day ends is not told."""
        capacity = _capacity(wire)
        return None if capacity is None else Left(capacity)


def _capacity(wire: Wire) -> int | None:
    told = wire.headers.get(CAPACITY, "").strip()
    return int(told) if re.fullmatch(r"[0-9]{1,10}", told) else None
