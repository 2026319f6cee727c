"""Serper, Google's results. serper.dev; it publishes no table of errors, so those are users' reports (read 2026-11):
crewAI #633, MiroFlow #7, DeepResearch #21, openfactcheck #1, google-search-results-python #82.
"""

from __future__ import annotations

import math
from typing import ClassVar

import httpx2

from providers._http import HTTPProvider
from providers._reading import member, result, rows
from providers._wire import Wire
from providers._words import Left, Limits, Option, Outcome, Query, Result, Results, Row, one_time

FRESHNESS = {"day": "qdr:d", "week": "qdr:w", "month": "qdr:m", "year": "qdr:y"}

MARKS = ("searchParameters", "knowledgeGraph", "answerBox", "peopleAlsoAsk", "relatedSearches")
"""Members of an answer beside its rows; without any of them a body without rows is no empty answer of this vendor."""


class Serper(HTTPProvider):
    name = "serper"
    title = "Serper"
    priority = 70
    home = "https://google.serper.dev/search"
    credential = "SERPER_API_KEY"
    joins = "if_listed"
    limits = Limits(results=10)  # Google gives no more on a page; whoever asks for more pays twice
    budget = one_time(2500)  # free credits, given once
    min_interval_ms = 1000
    domains = 1
    operators = True
    usage_every_s = 60  # ours: no limit is published
    options: ClassVar = {
        "kind": Option(str, "search", "what to search: the web or news", ("search", "news")),
        "country": Option(str, None, "country code such as de; us when absent"),
        "language": Option(str, None, "language code such as de; en when absent"),
        "location": Option(str, None, "place to search from, in words"),
    }

    message_at = (("message",), *HTTPProvider.message_at)  # a wrong path has a shorter `error` beside it

    errors = (
        # of a 400 the sentence is all there is to tell them apart by
        Row(400, Outcome.QUOTA_EXHAUSTED, phrase="Not enough credits"),
        Row(400, Outcome.REQUEST_ERROR, phrase="Query pattern not allowed for free accounts"),  # others can search it
        Row(400, Outcome.REQUEST_ERROR),
        Row(403, Outcome.AUTH_FAILURE, phrase="Unauthorized"),  # a bad key; with "Sign up for a free account.", none
        Row(401, Outcome.AUTH_FAILURE),
        Row(429, Outcome.RATE_LIMITED),  # bursts; no waiting time is known to come with it
    )

    def request(self, query: Query, key: str) -> httpx2.Request:
        body: dict[str, object] = {"q": query.text, "num": query.max_results}
        places = {"gl": self.option("country"), "hl": self.option("language"), "location": self.option("location")}
        body |= {name: value for name, value in places.items() if value}
        if query.freshness:
            body["tbs"] = FRESHNESS[query.freshness]
        return httpx2.Request("POST", self._address(str(self.option("kind"))), headers={"X-API-KEY": key}, json=body)

    def _address(self, name: str) -> str:
        return self.endpoint().removesuffix("search") + name

    def results(self, body: object) -> Results | None:
        items = member(body, "organic")
        if items is None:
            items = member(body, "news")
        if items is None and any(isinstance(member(body, mark), dict | list) for mark in MARKS):
            items = []  # the list is left out when there is nothing in it
        kept = rows(items, self._row)
        return None if kept is None else Results(kept)

    def _row(self, row: dict[str, object]) -> Result | None:
        # the date is text for eyes, such as "3 days ago": what is no date is left out
        return result(row.get("title"), row.get("link"), snippet=row.get("snippet"), published=row.get("date"))

    def status(self, wire: Wire, body: object) -> int:
        """A failure repeats its status in the body, so one that came under 200 would have it there (inferred)."""
        told = str(member(body, "statusCode"))
        is_failure = len(told) == 3 and told.isascii() and told.isdecimal() and told[0] in "45"
        return int(told) if wire.status == 200 and is_failure else wire.status

    # what is left, in credits. How the body looks is reported by users: `balance`, in some code `credits`

    def usage_request(self, key: str) -> httpx2.Request:
        return httpx2.Request("GET", self._address("account"), headers={"X-API-KEY": key})

    def usage(self, body: object) -> Left | None:
        told = member(body, "balance")
        told = member(body, "credits") if told is None else told
        if not isinstance(told, int | float) or isinstance(told, bool) or not 0 <= told < 1e12:
            return None
        return Left(math.floor(told))
