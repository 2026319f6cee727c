"""Brave web search. api-dashboard.search.brave.com, pages "Web search" and "Response headers" (read 2026-11)."""

from __future__ import annotations

import re
from itertools import zip_longest
from typing import ClassVar, NamedTuple

import httpx2

from providers._http import HTTPProvider
from providers._reading import member, result, rows
from providers._wire import Wire
from providers._words import Left, Limits, Option, Outcome, Query, Result, Results, Row, Said, monthly

FRESHNESS = {"day": "pd", "week": "pw", "month": "pm", "year": "py"}

LONG_WINDOW_S = 3600
"""A window longer than this is a quota; a shorter one is a rate (inferred: the known ones are a second and a month)."""


class Window(NamedTuple):
    """One of the windows in which requests are counted."""

    length_s: int
    limit: int
    remaining: int | None
    reset_s: int | None


class Brave(HTTPProvider):
    name = "brave"
    title = "Brave Search"
    priority = 60
    home = "https://api.search.brave.com/res/v1/web/search"
    credential = "BRAVE_API_KEY"
    limits = Limits(results=20, query=400, words=50)
    budget = monthly(1000, reset_day=15)
    min_interval_ms = 1000
    domains = 1
    operators = True
    may_store = False
    options: ClassVar = {
        "may_store": Option(
            bool, False, "results may be kept on disk; the terms allow it on plans with storage rights"
        ),
    }

    errors = (
        # codes decide whatever the status: a bad key is 422, and failures have been seen under 200
        Row(None, Outcome.AUTH_FAILURE, code="SUBSCRIPTION_TOKEN_INVALID"),
        Row(None, Outcome.AUTH_FAILURE, code="SUBSCRIPTION_TOKEN_MISSING"),
        Row(422, Outcome.AUTH_FAILURE, code="header/x-subscription-token"),  # VALIDATION: Field required
        Row(422, Outcome.REQUEST_ERROR, code="VALIDATION"),  # Unable to validate request parameter(s)
        Row(None, Outcome.REQUEST_ERROR, code="OPTION_NOT_IN_PLAN"),  # our reading: an optional field, not the key
        Row(None, Outcome.AUTH_FAILURE, code="RESOURCE_NOT_ALLOWED"),  # Not allowed for this subscription
        Row(None, Outcome.AUTH_FAILURE, code="SUBSCRIPTION_NOT_FOUND"),
        Row(429, Outcome.QUOTA_EXHAUSTED, code="quota_current"),  # its counters: all is used
        Row(None, Outcome.RATE_LIMITED, code="RATE_LIMITED"),  # Request rate limit exceeded for plan
        Row(None, Outcome.QUOTA_EXHAUSTED, code="QUOTA_LIMITED"),  # Request quota limit exceeded for plan
        Row(429, Outcome.QUOTA_EXHAUSTED, code="x-ratelimit-remaining"),  # inferred: a long window is empty
        Row(429, Outcome.RATE_LIMITED),
    )

    def request(self, query: Query, key: str) -> httpx2.Request:
        fields = {"q": query.text, "count": str(query.max_results), "result_filter": "web", "text_decorations": "false"}
        if query.freshness:
            fields["freshness"] = FRESHNESS[query.freshness]
        headers = {"X-Subscription-Token": key, "Accept": "application/json", "Accept-Encoding": "gzip"}
        return httpx2.Request("GET", self.endpoint(), headers=headers, params=fields)

    def results(self, body: object) -> Results | None:
        # without its marks a body is not an answer, so it is no empty one either
        known = member(body, "type") == "search" or isinstance(member(body, "query"), dict)
        web = member(body, "web")
        if web is None:
            return Results() if known else None
        items = member(web, "results")
        if items is None and isinstance(web, dict) and known:
            return Results()
        kept = rows(items, self._row)
        return Results(kept) if kept or (known and kept is not None) else None

    def _row(self, row: dict[str, object]) -> Result | None:
        return result(row.get("title"), row.get("url"), snippet=row.get("description"), published=row.get("page_age"))

    def said(self, wire: Wire, body: object) -> Said:
        codes: list[object] = []
        for fault in _faults(body):
            meta = fault.get("meta")
            codes.append(fault.get("code"))
            faulty = member(meta, "errors")
            for place in (member(each, "loc") for each in (faulty if isinstance(faulty, list) else ())):
                codes += ["/".join(map(str, place))] if isinstance(place, list) else []
            used, quota = member(meta, "quota_current"), member(meta, "quota_limit")
            codes += ["quota_current"] if isinstance(used, int) and isinstance(quota, int) and 0 < quota <= used else []
        codes += ["x-ratelimit-remaining"] if _spent(_windows(wire)) else []
        details = [text for fault in _faults(body) if isinstance(text := fault.get("detail"), str)]
        message = details[0] if details else super().said(wire, body).message
        return Said(tuple(code for code in codes if isinstance(code, str)), message)

    def status(self, wire: Wire, body: object) -> int:
        """A failure that comes under 200 carries its own status."""
        if wire.status == 200 and member(body, "type") == "ErrorResponse":
            told = [str(fault.get("status")) for fault in _faults(body)]
            return int(told[0]) if told and re.fullmatch("[45][0-9]{2}", told[0]) else 500
        return wire.status

    def rest(self, wire: Wire, body: object, outcome: Outcome) -> float | None:
        told, windows = super().rest(wire, body, outcome), _windows(wire)
        if told is None and windows and outcome is Outcome.QUOTA_EXHAUSTED:
            return (_spent(windows) or windows)[-1].reset_s
        if told is None and windows and outcome is Outcome.RATE_LIMITED:
            return windows[0].reset_s
        return told

    def left(self, wire: Wire, body: object) -> Left | None:
        """Of several quotas the longest counts; before it one of which nothing is left."""
        windows = _windows(wire)
        quotas = _spent(windows) or _quotas(windows)
        if not quotas or quotas[-1].remaining is None or quotas[-1].remaining > quotas[-1].limit:
            return None
        return Left(quotas[-1].remaining, quotas[-1].limit, quotas[-1].reset_s)


def _faults(body: object) -> list[dict[str, object]]:
    """The failures in a body: one in `error` as seen live, several in `errors` as in the documentation."""
    several = member(body, "errors")
    faults = [member(body, "error"), *(several if isinstance(several, list) else ())]
    return [fault for fault in faults if isinstance(fault, dict)]


def _windows(wire: Wire) -> list[Window]:
    """The capped windows of the headers, shortest first. Lists pair by position; a limit of 0 caps nothing."""
    lists = [
        wire.headers.get(f"x-ratelimit-{name}", "").split(",") for name in ("policy", "limit", "remaining", "reset")
    ]
    found = []
    for policy, *texts in zip_longest(*lists, fillvalue=""):
        length = re.search(r";\s*w=([0-9]{1,10})\b", policy)
        limit, remaining, reset = (int(text) if re.fullmatch(r" *[0-9]{1,10} *", text) else None for text in texts)
        if length and limit:
            # a window that is renewed after its own length cannot be (a moment instead of seconds, perhaps)
            sane = reset if reset is not None and reset <= int(length[1]) else None
            found.append(Window(int(length[1]), limit, remaining, sane))
    return sorted(found, key=lambda window: window.length_s)


def _quotas(windows: list[Window]) -> list[Window]:
    return [window for window in windows if window.length_s > LONG_WINDOW_S]


def _spent(windows: list[Window]) -> list[Window]:
    """The quotas of which nothing is left."""
    return [window for window in _quotas(windows) if window.remaining == 0]
