"""Bocha web search (博查). open.bochaai.com, page "Web Search API" (read 2026-11)."""

from __future__ import annotations

from typing import ClassVar

import httpx2

from providers._http import HTTPProvider
from providers._reading import iso_date, member, result, rows
from providers._wire import Wire
from providers._words import MANY, Limits, Option, Outcome, Query, Result, Results, Row, monthly

FRESHNESS = {"day": "oneDay", "week": "oneWeek", "month": "oneMonth", "year": "oneYear"}


class Bocha(HTTPProvider):
    name = "bocha"
    title = "Bocha"
    priority = 10
    home = "https://api.bochaai.com/v1/web-search"
    credential = "BOCHA_API_KEY"
    limits = Limits(results=50)
    budget = monthly(1000)
    domains = MANY
    options: ClassVar = {
        "summary": Option(bool, True, "ask for the long summary of each page"),
    }

    message_at = (("message",), ("msg",), *HTTPProvider.message_at)  # failures say `message`, successes `msg`

    errors = (
        Row(403, Outcome.QUOTA_EXHAUSTED, phrase="You do not have enough money"),  # the balance, not the key
        Row(400, Outcome.AUTH_FAILURE, phrase="The API KEY is missing"),
        Row(400, Outcome.REQUEST_ERROR),  # Missing parameter query
        Row(401, Outcome.AUTH_FAILURE),  # Invalid API KEY
        Row(429, Outcome.RATE_LIMITED),  # You have reached the request limit
        Row(500, Outcome.SERVER_ERROR),
        Row(402, Outcome.QUOTA_EXHAUSTED),  # not on the page: arrears, reported by users
    )

    def request(self, query: Query, key: str) -> httpx2.Request:
        body: dict[str, object] = {
            "query": query.text,
            "count": query.max_results,
            "summary": self.option("summary"),
        }
        if query.freshness:
            body["freshness"] = FRESHNESS[query.freshness]
        if query.include_domains:
            body["include"] = "|".join(query.include_domains)
        if query.exclude_domains:
            body["exclude"] = "|".join(query.exclude_domains)
        return httpx2.Request("POST", self.endpoint(), headers={"Authorization": f"Bearer {key}"}, json=body)

    def results(self, body: object) -> Results | None:
        data = member(body, "data")
        if not isinstance(data, dict):
            return None
        pages = data.get("webPages")  # null or missing when nothing was found
        items = pages.get("value") if isinstance(pages, dict) else pages
        kept = rows([] if items is None else items, self._row)
        # without its code a body is no empty answer of this vendor
        return Results(kept) if kept or (kept is not None and str(member(body, "code")) == "200") else None

    def _row(self, row: dict[str, object]) -> Result | None:
        crawled = row.get("dateLastCrawled")
        if isinstance(crawled, str) and crawled.endswith("Z"):
            crawled = crawled[:-1] + "+08:00"  # the Z is wrong: the page says that this is Beijing time
        return result(
            row.get("name"),
            row.get("url"),
            snippet=row.get("snippet"),
            content=row.get("summary"),
            published=iso_date(row.get("datePublished")) or crawled,
        )

    def status(self, wire: Wire, body: object) -> int:
        """The code in the body when it tells of a failure: a string there, in successes the number 200."""
        code = member(body, "code")
        told = str(code).strip()
        if code is None or told == "200":
            return wire.status
        if told.isdecimal() and len(told) == 3:
            return int(told)
        return 500 if wire.status == 200 else wire.status
