"""Zhipu 智谱 web search. docs.bigmodel.cn, pages "Web Search API" and "API error codes"; docs.z.ai (read 2026-11).

The same at https://api.z.ai for keys of Z.AI: its address goes into `base_url`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from typing import ClassVar

import httpx2

from providers._http import HTTPProvider
from providers._reading import member, result, rows
from providers._wire import Wire
from providers._words import Limits, Option, Outcome, Query, Result, Results, Row, Said

FRESHNESS = {"day": "oneDay", "week": "oneWeek", "month": "oneMonth", "year": "oneYear"}

BESIDE_ROWS = {"id", "created", "request_id", "search_intent"}
"""All that an answer has beside its rows."""

CODE_BEFORE_SENTENCE = re.compile(r"\s*\[(\d{4})\]")
"""The interface for Claude clients puts it there: `[1308][Usage limit reached …][request id]`."""

RESET = re.compile(r"(?:\breset at|将[在于])\s*(\d{4}-\d{2}-\d{2}[ T]\d{2}:\d{2}(?::\d{2})?)", re.IGNORECASE)
"""`Your limit will reset at 2026-09-09 05:38:28`, `您的限额将在 2026-08-25 07:41:44 重置`."""


def _each(outcome: Outcome, *codes: int) -> tuple[Row, ...]:
    return tuple(Row(None, outcome, code=str(code)) for code in codes)


class Zhipu(HTTPProvider):
    name = "zhipu"
    title = "Zhipu"
    priority = 20
    home = "https://open.bigmodel.cn/api/paas/v4/web_search"
    credential = "ZHIPU_API_KEY"
    joins = "if_listed"
    limits = Limits(results=50, query=70)
    domains = 1
    options: ClassVar = {
        "engine": Option(
            str,
            "search_std",  # the example of the vendor's page, and the cheapest (prices are reported by users)
            "search engine; search_pro costs three times as much, the other two five times",
            # the last two are older spellings at z.ai
            ("search_std", "search_pro", "search_pro_sogou", "search_pro_quark", "search-std", "search-prime"),
        ),
        "content_size": Option(str, None, "how long the texts are; the vendor decides when absent", ("medium", "high")),
    }

    errors = (
        # 429 covers frequency, an empty balance and a locked account alike, so the code decides whatever the status
        *_each(Outcome.AUTH_FAILURE, 1000, 1001, 1002, 1003, 1004, 1005),  # token missing, invalid, expired; 2FA
        *_each(Outcome.AUTH_FAILURE, 1100, 1110, 1111, 1112, 1120, 1121),  # account inactive, missing, locked
        *_each(Outcome.QUOTA_EXHAUSTED, 1113),  # 余额不足或无可用资源包: arrears, no resource package
        *_each(Outcome.SERVER_ERROR, 1200),  # internal
        *_each(Outcome.REQUEST_ERROR, 1210, 1211, 1212, 1213, 1214, 1215),  # parameters, model
        *_each(Outcome.AUTH_FAILURE, 1220),  # 您无权访问: no permission for this interface
        *_each(Outcome.REQUEST_ERROR, 1221, 1222),  # the interface is off line
        *_each(Outcome.SERVER_ERROR, 1230, 1234),  # call flow; network error
        *_each(Outcome.REQUEST_ERROR, 1231, 1261),  # 您已有请求: the request id was used before; too long
        *_each(Outcome.REQUEST_ERROR, 1300, 1301),  # policy, sensitive content: the query is refused, the key is fine
        *_each(Outcome.RATE_LIMITED, 1302, 1303),  # too many at once, too often
        *_each(Outcome.QUOTA_EXHAUSTED, 1304),  # the day's calls are spent
        *_each(Outcome.RATE_LIMITED, 1305),  # the platform is overloaded
        *_each(Outcome.QUOTA_EXHAUSTED, 1308, 1309, 1310, 1311),  # window spent, plan expired, week spent, not in plan
        *_each(Outcome.RATE_LIMITED, 1312),  # the model is overloaded
        *_each(Outcome.QUOTA_EXHAUSTED, 1313),  # fair use
        *_each(Outcome.QUOTA_EXHAUSTED, 1316, 1317, 1318, 1319, 1320, 1321),  # a package's limit
        Row(434, Outcome.AUTH_FAILURE),  # no permission for a beta
    )

    def request(self, query: Query, key: str) -> httpx2.Request:
        engine, count = self.option("engine"), query.max_results
        if engine == "search_pro_sogou":
            count = -(-count // 10) * 10  # takes 10, 20, 30, 40 or 50; the price is the same
        body: dict[str, object] = {
            "search_query": query.text,
            "search_engine": engine,
            "search_intent": False,  # somebody has decided to search already
            "count": count,
        }
        if query.freshness:
            body["search_recency_filter"] = FRESHNESS[query.freshness]
        if len(query.include_domains) == 1:
            body["search_domain_filter"] = query.include_domains[0]
        if size := self.option("content_size"):
            body["content_size"] = size
        return httpx2.Request("POST", self.endpoint(), headers={"Authorization": f"Bearer {key}"}, json=body)

    def leaves_out(self, query: Query) -> bool:
        return False

    def unmet(self, query: Query) -> Iterator[str]:
        if len(query.include_domains) > 1:
            yield "zhipu: takes a single domain, so it was not told of the list"
        if query.exclude_domains:
            yield "zhipu: cannot leave domains out, so it was not told of them"

    def results(self, body: object) -> Results | None:
        items = member(body, "search_result")
        if items is None and _has_no_rows(body):
            items = []
        kept = rows(items, self._row)
        return None if kept is None else Results(kept)

    def _row(self, row: dict[str, object]) -> Result | None:
        return result(row.get("title"), row.get("link"), content=row.get("content"), published=row.get("publish_date"))

    def said(self, wire: Wire, body: object) -> Said:
        message = super().said(wire, body).message
        if body is None and not wire.is_page:
            message = wire.text[:500]  # the sentence without its envelope
        # documented as a string in error.code; seen in error.type; without the envelope inferred
        told = [member(body, "error", "code"), member(body, "error", "type"), member(body, "code")]
        codes = [str(code).strip() for code in told if isinstance(code, str | int)]
        before = None if member(body, "search_result") else CODE_BEFORE_SENTENCE.match(message)
        return Said((*codes, *(before.groups() if before else ())), message)

    def rest(self, wire: Wire, body: object, outcome: Outcome) -> float | None:
        """The reset time stands in the sentence alone, as Beijing time, at z.ai too (reported by users)."""
        told = super().rest(wire, body, outcome)
        stamp = RESET.search(self.said(wire, body).message)
        if told is not None or stamp is None:
            return told
        try:
            seconds = datetime.fromisoformat(f"{stamp[1]}+08:00").timestamp() - wire.now
        except ValueError:
            return None
        return seconds if seconds >= 0 else None


def _has_no_rows(body: object) -> bool:
    """Whether this is an answer whose rows were left out: nothing found, or nothing to search for (SEARCH_NONE)."""
    told = {name for name, value in body.items() if value is not None} if isinstance(body, dict) else set()
    return bool(told) and told <= BESIDE_ROWS
