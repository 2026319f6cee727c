"""Tavily Search. docs.tavily.com, pages "Search" and "Rate limits" (read 2026-11)."""

from __future__ import annotations

import math
from typing import ClassVar, TypeGuard

import httpx2

from providers._http import HTTPProvider
from providers._reading import member, result, rows
from providers._wire import Wire
from providers._words import MANY, Left, Limits, Option, Outcome, Query, Result, Results, Row, Said, monthly


class Tavily(HTTPProvider):
    name = "tavily"
    title = "Tavily"
    priority = 40
    home = "https://api.tavily.com/search"
    credential = "TAVILY_API_KEY"
    limits = Limits(results=20, query=400)
    budget = monthly(1000, reset_day=2)
    domains = MANY
    usage_every_s = 60  # the endpoint takes 10 questions in 10 minutes
    options: ClassVar = {
        "depth": Option(
            str, "basic", "search depth; advanced costs two credits", ("basic", "advanced", "fast", "ultra-fast")
        ),
        "topic": Option(str, "general", "what to search", ("general", "news", "finance")),
    }

    errors = (
        Row(400, Outcome.REQUEST_ERROR),  # a bad field, a query too long
        Row(401, Outcome.AUTH_FAILURE),  # missing or invalid API key
        Row(403, Outcome.REQUEST_ERROR, phrase="URL is not supported"),  # map and crawl: the target, not the key
        Row(429, Outcome.RATE_LIMITED, code="hourly_cap_reached"),  # without a key: Keyless hourly limit reached
        Row(429, Outcome.RATE_LIMITED),  # blocked due to excessive requests
        Row(432, Outcome.QUOTA_EXHAUSTED),  # the plan's or the key's set usage limit
        Row(433, Outcome.QUOTA_EXHAUSTED),  # the pay-as-you-go limit
    )

    def request(self, query: Query, key: str) -> httpx2.Request:
        body: dict[str, object] = {
            "query": query.text,
            "max_results": query.max_results,  # the vendor's default has moved: always sent
            "search_depth": self.option("depth"),
            "topic": self.option("topic"),
            "include_published_date": True,
        }
        if query.freshness:
            body["time_range"] = query.freshness
        if query.include_domains:
            # without the mode the list is a soft preference; with the mode but no list the vendor answers 400
            body |= {"include_domains": list(query.include_domains), "include_domains_mode": "restrict"}
        if query.exclude_domains:
            body["exclude_domains"] = list(query.exclude_domains)
        return httpx2.Request("POST", self.endpoint(), headers={"Authorization": f"Bearer {key}"}, json=body)

    def results(self, body: object) -> Results | None:
        items = member(body, "results")
        if items is None and isinstance(member(body, "query"), str) and member(body, "response_time") is not None:
            items = []  # the vendor's own client takes an answer without the list for an empty one
        kept = rows(items, self._row)
        return None if kept is None else Results(kept)

    def _row(self, row: dict[str, object]) -> Result | None:
        return result(row.get("title"), row.get("url"), content=row.get("content"), published=row.get("published_date"))

    def said(self, wire: Wire, body: object) -> Said:
        code = member(body, "error", "code")
        detail = member(body, "detail")
        first = detail[0] if isinstance(detail, list) and detail else None
        texts = (
            member(detail, "error"),
            detail,
            member(first, "msg"),
            member(body, "error"),
            member(body, "error", "message"),
        )
        return Said(
            codes=(code,) if isinstance(code, str) else (),
            message=next((text for text in texts if isinstance(text, str)), ""),
        )

    # what is left, in credits. How the bodies look is inferred: the vendor's page was read in third-party copies

    def usage_request(self, key: str) -> httpx2.Request:
        url = self.endpoint().removesuffix("/search") + "/usage"
        return httpx2.Request("GET", url, headers={"Authorization": f"Bearer {key}"})

    def usage(self, body: object) -> Left | None:
        """The stricter of the key's own limit and the account's, whose pay-as-you-go comes on top of the plan."""
        key, account = member(body, "key"), member(body, "account")
        own = _left(member(key, "usage"), member(key, "limit"))  # null: the key has no limit of its own
        plan = _left(member(account, "plan_usage"), member(account, "plan_limit"))
        more = _left(member(account, "paygo_usage"), member(account, "paygo_limit"))
        if plan is not None and more is not None:
            plan = Left(plan.remaining + more.remaining, (plan.limit or 0) + (more.limit or 0))
        return min((left for left in (own, plan) if left is not None), key=lambda left: left.remaining, default=None)


def _left(used: object, limit: object) -> Left | None:
    """What is left of `limit`; None unless both are counts. More than all can have been used."""
    if not (_is_count(used) and _is_count(limit)):
        return None
    return Left(max(0, int(limit) - math.ceil(used)), int(limit))


def _is_count(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e12
