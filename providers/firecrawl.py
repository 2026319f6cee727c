"""Firecrawl search. docs.firecrawl.dev, pages "Search", "Errors" and "Rate limits", and its server's source
(read 2026-11). The host may be a copy of one's own; one that has only the older interface is written with its `/v1`.
"""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime
from typing import ClassVar, TypeGuard
from urllib.parse import urlsplit

import httpx2

from providers import _cutting
from providers._http import HTTPProvider
from providers._reading import iso_date, member, result, rows
from providers._wire import Wire
from providers._words import Left, Limits, Option, Outcome, Query, Result, Results, Row, Said, one_time

FRESHNESS = {"day": "qdr:d", "week": "qdr:w", "month": "qdr:m", "year": "qdr:y"}

_CAPPED = r"(?:limits?|caps?|quota|allowance|credits?|requests?|usage|access|search(?:es)?|exhausted|exceeded)"
DAILY_CAP = re.compile(
    rf"\b(?:daily|keyless)\b(?: \w+){{0,4}} {_CAPPED}\b|\b{_CAPPED}\b(?: \w+){{0,4}} (?:daily|keyless)\b", re.IGNORECASE
)
"""The caps of searches without a key, per address and day. They are documented; how they are worded is inferred."""

STATUSES = {
    "Invalid JSON": 400,
    "Unauthorized": 401,
    "Payment Required": 402,
    "Insufficient credits": 402,
    "Forbidden": 403,
    "This website is no longer supported": 403,
    "Request Timeout": 408,
    "Payload Too Large": 413,
    "Rate limit exceeded": 429,
    "Concurrency limit reached": 429,
}
"""The status that each sentence, or its beginning, has when it does not come under 200."""


class Firecrawl(HTTPProvider):
    name = "firecrawl"
    title = "Firecrawl"
    priority = 85
    home = "https://api.firecrawl.dev/v2/search"
    credential = "FIRECRAWL_API_KEY"
    joins = "if_listed"
    limits = Limits(results=100, query=500)
    budget = one_time(450)  # a search costs two credits of a thousand
    domains = 1
    timeout_s = 20.0
    usage_every_s = 60  # ours: no limit is known
    options: ClassVar = {
        "country": Option(str, None, "country code such as DE; US when absent"),
        "location": Option(str, None, "place to search from, in words"),
        "scrape": Option(bool, False, "ask for page text; slower, and each page costs a credit more"),
    }

    errors = (
        Row(None, Outcome.REQUEST_ERROR, code="BAD_REQUEST_INVALID_JSON"),
        Row(None, Outcome.REQUEST_ERROR, code="CATEGORY_REMOVED"),
        Row(400, Outcome.REQUEST_ERROR),
        Row(401, Outcome.AUTH_FAILURE),  # Unauthorized: Invalid token; Token missing
        Row(402, Outcome.QUOTA_EXHAUSTED),  # Insufficient credits: also when fewer are left than the limit would cost
        Row(None, Outcome.AUTH_FAILURE, code="THIRD_PARTY_DATA_TERMS_REQUIRED"),  # inferred: the account must accept
        Row(403, Outcome.REQUEST_ERROR, phrase="This website is no longer supported"),  # the target, not the key
        Row(None, Outcome.TIMEOUT, code="SCRAPE_TIMEOUT"),
        Row(None, Outcome.TIMEOUT, code="MAP_TIMEOUT"),
        Row(408, Outcome.TIMEOUT),
        Row(429, Outcome.QUOTA_EXHAUSTED, code="daily cap"),
        Row(429, Outcome.RATE_LIMITED),  # Rate limit exceeded. … retry after 54s; Concurrency limit reached
        Row(None, Outcome.REQUEST_ERROR, code="SCRAPE_DNS_RESOLUTION_ERROR"),  # inferred: the target's fault
        Row(None, Outcome.REQUEST_ERROR, code="SCRAPE_SSL_ERROR"),
    )

    def fit(self, query: Query) -> tuple[Query, tuple[str, ...]] | None:
        # the vendor makes operators of its own domain lists, but takes only one of the two, and older copies take none
        return _cutting.fit(query, self.limits, self.name, _cutting.site_operators(query))

    def request(self, query: Query, key: str) -> httpx2.Request:
        # the limit is always sent: its default has moved
        body: dict[str, object] = {"query": query.text, "limit": query.max_results}
        body |= {name: place for name in ("country", "location") if (place := self.option(name))}
        if query.freshness:
            body["tbs"] = FRESHNESS[query.freshness]
        if self.option("scrape"):
            body["scrapeOptions"] = {"formats": ["markdown"]}
        return httpx2.Request("POST", self._address(), headers={"Authorization": f"Bearer {key}"}, json=body)

    def _address(self) -> str:
        is_older = re.search(r"/v1(?:/search)?/*$", urlsplit(self.settings.base_url or "").path)
        return self.endpoint(path="/v1/search" if is_older else None)

    def results(self, body: object) -> Results | None:
        kept = rows(_found(member(body, "data")), self._row)
        # an outage behind the vendor looks the same as nothing found: a success without rows
        return Results(kept) if kept or (kept is not None and member(body, "success") is True) else None

    def _row(self, row: dict[str, object]) -> Result | None:
        return result(
            row.get("title"),
            row.get("url"),
            snippet=row.get("description") or row.get("snippet"),
            content=None if _scrape_failed(row.get("metadata")) else row.get("markdown"),
            published=row.get("date"),  # of news, and text for eyes: what is no date is left out
        )

    def said(self, wire: Wire, body: object) -> Said:
        code, message = member(body, "code"), super().said(wire, body).message
        codes = [code] if isinstance(code, str) else []
        return Said((*codes, "daily cap") if DAILY_CAP.search(message[:1000]) else tuple(codes), message)

    def status(self, wire: Wire, body: object) -> int:
        """A failure that comes under 200 has no status of its own, but a sentence that has one elsewhere."""
        success = member(body, "success")
        if wire.status != 200 or success is True or (success is None and not isinstance(member(body, "error"), str)):
            return wire.status
        message = self.said(wire, body).message[:1000].lower()
        if DAILY_CAP.search(message):
            return 429
        return next((status for words, status in STATUSES.items() if message.startswith(words.lower())), 500)

    # what is left, in credits

    def usage_request(self, key: str) -> httpx2.Request:
        url = self._address().removesuffix("/search") + "/team/credit-usage"
        return httpx2.Request("GET", url, headers={"Authorization": f"Bearer {key}"})

    def usage(self, body: object) -> Left | None:
        """Bought credits come on top of the plan's: then the whole is not told."""
        remaining, plan = member(body, "data", "remainingCredits"), member(body, "data", "planCredits")
        if not _is_count(remaining):
            return None
        limit = int(plan) if _is_count(plan) and remaining <= plan else None
        return Left(math.floor(remaining), limit, self._until(member(body, "data", "billingPeriodEnd")))

    def _until(self, end: object) -> float | None:
        told = iso_date(end)
        if told is None:
            return None
        moment = datetime.fromisoformat(told)
        seconds = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() - self.clock()
        return seconds if seconds > 0 else None


def _found(data: object) -> object:
    """The rows of both versions: v1 has a list, v2 one for each source."""
    if not isinstance(data, dict):
        return data
    if data and not data.keys() & {"web", "news", "images"}:
        return None
    found: list[object] = []
    for part in (data.get("web"), data.get("news")):
        if isinstance(part, list):
            found += part
        elif part is not None:
            return None
    return found


def _scrape_failed(page: object) -> bool:
    """Whether the text of a page is that of its error; the row is a good one all the same."""
    status = member(page, "statusCode")
    return bool(member(page, "error")) or (isinstance(status, int) and status >= 400)


def _is_count(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e12
