"""Baidu Qianfan 百度千帆 AI search, raw references. cloud.baidu.com/doc/qianfan and ai.baidu.com/ai-doc/AppBuilder,
pages "Web search" and "Error codes" (read 2026-11).
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from typing import ClassVar

import httpx2

from providers._http import HTTPProvider
from providers._reading import iso_date, member, result, rows
from providers._wire import Wire
from providers._words import (
    FRESHNESS_DAYS,
    MANY,
    Limits,
    Option,
    Outcome,
    Query,
    Result,
    Results,
    Row,
    Said,
    monthly,
)

BEIJING = timezone(timedelta(hours=8))


class Qianfan(HTTPProvider):
    name = "qianfan"
    title = "Baidu Qianfan"
    priority = 50
    home = "https://qianfan.baidubce.com/v2/ai_search/web_search"
    credential = "QIANFAN_API_KEY"
    joins = "if_listed"
    limits = Limits(results=50, query=72, wide_count_two=True)
    budget = monthly(1500)
    min_interval_ms = 1000
    domains = MANY
    options: ClassVar = {
        "edition": Option(str, "standard", "lite is faster and finds a little less", ("standard", "lite")),
    }

    errors = (
        # codes decide whatever the status, as three generations of envelopes disagree on it. The search's own page:
        Row(None, Outcome.RATE_LIMITED, code="RATE_LIMIT_TOTAL_QPS"),
        Row(None, Outcome.RATE_LIMITED, code="RATE_LIMIT_SEARCH_TOTAL_QPS"),
        Row(None, Outcome.RATE_LIMITED, code="RATE_LIMIT_SEARCH_QPS"),
        Row(None, Outcome.QUOTA_EXHAUSTED, code="QUOTA_USER_DAILY_REQUEST"),  # under 429
        Row(None, Outcome.QUOTA_EXHAUSTED, code="QUOTA_USER_DAILY_FREE"),  # under 429
        Row(None, Outcome.QUOTA_EXHAUSTED, code="BILLING_INSUFFICIENT_BALANCE"),  # under 429
        # the platform's
        Row(None, Outcome.RATE_LIMITED, code="rpm_rate_limit_exceeded"),
        Row(None, Outcome.RATE_LIMITED, code="tpm_rate_limit_exceeded"),
        Row(None, Outcome.QUOTA_EXHAUSTED, code="QuotaLimitExceeded"),  # under 400
        Row(None, Outcome.QUOTA_EXHAUSTED, code="QuotaLimitExpired"),  # under 400
        Row(None, Outcome.AUTH_FAILURE, code="PermissionDeniedError"),  # under 400
        Row(None, Outcome.AUTH_FAILURE, code="TokenStatusInvalidError"),  # under 400
        Row(None, Outcome.REQUEST_ERROR, code="RequestExpired"),  # a signature's clock
        Row(None, Outcome.REQUEST_ERROR, code="malformed_json"),
        Row(None, Outcome.REQUEST_ERROR, code="invalid_messages"),
        Row(None, Outcome.REQUEST_ERROR, code="invalid_argument"),
        Row(None, Outcome.REQUEST_ERROR, code="characters_too_long"),
        Row(None, Outcome.REQUEST_ERROR, code="tokens_too_long"),
        Row(None, Outcome.AUTH_FAILURE, code="invalid_iam_token"),  # IAM Certification failed
        Row(None, Outcome.AUTH_FAILURE, code="no_parameter_permission"),
        Row(None, Outcome.AUTH_FAILURE, code="invalid_appid"),
        Row(None, Outcome.QUOTA_EXHAUSTED, code="account_overdue"),
        Row(None, Outcome.SERVER_ERROR, code="internal_error"),
        # the oldest, inside a 200
        Row(None, Outcome.QUOTA_EXHAUSTED, code="17"),  # Open api daily request limit reached
        Row(None, Outcome.RATE_LIMITED, code="18"),  # Open api qps request limit reached
        Row(None, Outcome.QUOTA_EXHAUSTED, code="19"),  # Open api total request limit reached
        Row(None, Outcome.AUTH_FAILURE, code="110"),  # Access token invalid or no longer valid
        Row(None, Outcome.AUTH_FAILURE, code="111"),  # Access token expired
        Row(None, Outcome.RATE_LIMITED, code="336501"),  # requests per minute
        Row(None, Outcome.RATE_LIMITED, code="336502"),  # tokens per minute
    )

    def request(self, query: Query, key: str) -> httpx2.Request:
        body: dict[str, object] = {
            "messages": [{"role": "user", "content": query.text}],
            "search_source": "baidu_search_v2",
            "edition": self.option("edition"),
            "resource_type_filter": [{"type": "web", "top_k": query.max_results}],
        }
        wanted: dict[str, object] = {}
        if query.include_domains:
            wanted["match"] = {"site": list(query.include_domains)}
        if query.freshness == "day":  # the vendor's filter begins at a week
            since = datetime.fromtimestamp(self.clock(), BEIJING) - timedelta(days=FRESHNESS_DAYS["day"])
            wanted["range"] = {"page_time": {"gte": f"{since:%Y-%m-%d}"}}
        elif query.freshness:
            body["search_recency_filter"] = query.freshness
        if wanted:
            body["search_filter"] = wanted
        return httpx2.Request("POST", self.endpoint(), headers={"Authorization": f"Bearer {key}"}, json=body)

    def leaves_out(self, query: Query) -> bool:
        return False

    def unmet(self, query: Query) -> Iterator[str]:
        if query.exclude_domains:
            # a block list exists, under names that differ from page to page
            yield "qianfan: was not told of the domains to leave out"

    def results(self, body: object) -> Results | None:
        items = member(body, "references")
        if items is None and _has_no_references(body):
            items = []
        pages = [item for item in items if _is_page(item)] if isinstance(items, list) else None
        kept = rows(pages, self._row)
        # an error whose code is in no row is no empty answer
        return None if kept is None or (not kept and _codes(body)) else Results(kept)

    def _row(self, row: dict[str, object]) -> Result | None:
        published = iso_date(row.get("date"))
        if published and "T" in published and datetime.fromisoformat(published).tzinfo is None:
            published += "+08:00"  # inferred
        return result(
            row.get("title"),
            row.get("url"),
            snippet=row.get("snippet"),
            content=row.get("content"),
            published=published,
        )

    def said(self, wire: Wire, body: object) -> Said:
        legacy = member(body, "error_msg")
        return Said(_codes(body), legacy if isinstance(legacy, str) else super().said(wire, body).message)


def _codes(body: object) -> tuple[str, ...]:
    """The codes of all three envelopes: strings, in the oldest a number. "0" is no failure."""
    told = (member(body, "code"), member(body, "error", "code"), member(body, "error_code"))
    codes = [str(code).strip() for code in told if isinstance(code, str | int)]
    return tuple(code for code in codes if code not in ("", "0"))


def _is_page(item: object) -> bool:
    """Whether a reference is a page: images, videos and cards come in the same list, and nothing else was asked for."""
    kind = member(item, "type")
    return not isinstance(kind, str) or kind.lower() in ("", "web")


def _has_no_references(body: object) -> bool:
    """Whether this is an answer that says nothing but its own name, as it does when nothing was found."""
    if not isinstance(body, dict) or not isinstance(body.get("request_id"), str) or _codes(body):
        return False
    told = {name for name, value in body.items() if value}
    return told <= ({"request_id", "code", "message"} if str(body.get("code")) == "0" else {"request_id"})
