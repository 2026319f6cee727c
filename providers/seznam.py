"""Seznam, its pages. Undocumented: searxng's engine (read 2026-11)."""

from __future__ import annotations

import httpx2
from selectolax.lexbor import LexborHTMLParser, LexborNode

from providers._browser import is_of, leads_to
from providers._reading import MOST_ROWS, host_of, result, rows, web_url
from providers._visiting import Ticket, VisitingProvider, hidden_fields, page_before
from providers._wire import Wire
from providers._words import Outcome, Query, Result, Results, Row, Said

# names of a build, which change without notice: pages with others are no pages that we can read
_ROW = "f2c528"
_TEXT = "div.c8774a, div.e69e8d.a11657"


class Seznam(VisitingProvider):
    name = "seznam"
    title = "Seznam"
    priority = 140
    home = "https://search.seznam.cz/"
    joins = "last_resort"
    domains = 1
    operators = True
    enforces_freshness = False
    min_interval_ms = 2000
    timeout_s = 8.0
    lacks = "an unknown first page"
    lacking_means = Outcome.SERVER_ERROR

    errors = (
        # what the engine does                         what it means           where it has been seen
        Row(None, Outcome.RATE_LIMITED, code="verify"),  # sent to /verify: searxng calls it "access denied"
        Row(403, Outcome.RATE_LIMITED),
        Row(418, Outcome.RATE_LIMITED),
        Row(429, Outcome.RATE_LIMITED),
    )

    def request(self, query: Query, key: str) -> httpx2.Request:
        headers = {"Accept-Language": "cs,en;q=0.7", "Referer": self.endpoint(), "Sec-Fetch-Site": "same-origin"}
        return httpx2.Request("GET", self.endpoint(), headers=headers, params={"q": query.text, "oq": query.text})

    def first(self, search: httpx2.Request) -> httpx2.Request:
        return page_before(search, search.url.copy_with(query=None))

    def ticket(self, wire: Wire, page: LexborHTMLParser | None) -> Ticket | None:
        if page is None or not 200 <= wire.status < 300:
            return None
        fields = hidden_fields(page)
        is_front_page = bool(fields or wire.cookies) or page.css_first('input[name="q"]') is not None
        return Ticket(wire.cookies, fields) if fields is not None and is_front_page else None

    def results(self, body: object) -> Results | None:
        if not isinstance(body, LexborHTMLParser):
            return None
        column = _column(body)
        if column is None:
            return None
        nodes = [node for node in column.iter() if _ROW in (node.attributes.get("class") or "").split()]
        found = [_row(node) for node in nodes[:MOST_ROWS]]
        organic = [row for row in found if not row["is_ad"]]
        if kept := rows(organic, _result):
            return Results(kept)
        # nobody has written down what the page without hits looks like: it cannot be told from a block
        return Results() if found and not organic else None

    def said(self, wire: Wire, body: object) -> Said:
        target = leads_to(wire, self.endpoint(), "seznam.cz")
        return Said(codes=("verify",)) if target is not None and target.path.startswith("/verify") else Said()


def _column(page: LexborHTMLParser) -> LexborNode | None:
    """The left one, where the results are. (One selector for it all would look through every page many times.)"""
    root = page.css_first("div#searchpage-root")
    return None if root is None else root.css_first("div.Layout--left")


def _row(node: LexborNode) -> dict[str, object]:
    link = node.css_first("h3 a")
    text = node.css_first(_TEXT)
    url = None if link is None else web_url(link.attributes.get("href"))
    return {
        "title": "" if link is None else link.inner_html,
        "url": url,
        "snippet": "" if text is None else text.inner_html,
        "is_ad": url is not None and is_of(host_of(url), "c.seznam.cz"),  # the advertisements' counter (user-reported)
    }


def _result(row: dict[str, object]) -> Result | None:
    return result(row["title"], row["url"], snippet=row["snippet"])
