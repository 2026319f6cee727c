"""360 Search (so.com), its pages. Undocumented: searxng's engine, its issues 5526 and 6035, RSSHub 13936 (2026-11)."""

from __future__ import annotations

import re
from itertools import chain
from typing import ClassVar
from urllib.parse import urljoin, urlsplit

import httpx2
from selectolax.lexbor import LexborHTMLParser, LexborNode

from providers._browser import is_of, leads_to
from providers._reading import MOST_ROWS, result, rows, web_url
from providers._visiting import Ticket, VisitingProvider, page_before
from providers._wire import Wire
from providers._words import Outcome, Query, Result, Results, Row, Said


class So360(VisitingProvider):
    name = "so360"
    title = "360 Search"
    priority = 130
    home = "https://www.so.com/s"
    joins = "last_resort"
    domains = 1
    operators = True
    enforces_freshness = False
    min_interval_ms = 2000
    timeout_s = 8.0
    keep_s = 3600.0
    lacks = "no cookie on the first page"
    lacking_means = Outcome.RATE_LIMITED
    harmless: ClassVar = frozenset({"blank", "loop"})  # the visit is about the cookie, and not about the page

    errors = (
        # what the engine does                         what it means           where it has been seen
        Row(200, Outcome.RATE_LIMITED, code="blank"),  # an empty page: addresses outside China, data centres
        Row(None, Outcome.RATE_LIMITED, code="captcha"),  # sent to qcaptcha.so.com
        Row(None, Outcome.RATE_LIMITED, code="loop"),  # sent back to where it came from
        Row(403, Outcome.RATE_LIMITED),
        Row(418, Outcome.RATE_LIMITED),
        Row(429, Outcome.RATE_LIMITED),
    )

    def speaks(self, query: Query) -> bool:
        return _EAST_ASIAN.search(query.text) is not None

    def request(self, query: Query, key: str) -> httpx2.Request:
        headers = {"Accept-Language": "zh-CN,zh;q=0.9,en;q=0.6"}
        return httpx2.Request("GET", self.endpoint(), headers=headers, params={"q": query.text, "pn": "1"})

    def first(self, search: httpx2.Request) -> httpx2.Request:
        return page_before(search, search.url)

    def ticket(self, wire: Wire, page: LexborHTMLParser | None) -> Ticket | None:
        return Ticket(cookies=wire.cookies[:1]) if wire.cookies else None

    def results(self, body: object) -> Results | None:
        if not isinstance(body, LexborHTMLParser):
            return None
        found = [_row(node) for node in body.css("li.res-list")[:MOST_ROWS]]
        organic = [row for row in found if not row["is_ad"]]
        if kept := rows(organic, _result):
            return Results(kept)
        # inferred: nobody has written down what the page without hits looks like, so its words do not count
        says_so = body.css_first("#no-result") is not None
        return Results() if says_so or (found and not organic) else None

    def said(self, wire: Wire, body: object) -> Said:
        if wire.status == 200 and not wire.body.strip():
            return Said(codes=("blank",))
        here = self.endpoint()
        target = leads_to(wire, here)
        if target is not None and "captcha" in (target.hostname or ""):
            return Said(codes=("captcha",))
        back = leads_to(wire, here, "so.com") if 300 <= wire.status < 400 else None
        return Said(codes=("loop",)) if back is not None and back.path == urlsplit(here).path else Said()


_EAST_ASIAN = re.compile(
    "[\u3005\u3007\u3041-\u30ff\u3105-\u312f\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3\uf900-\ufaff\U00020000-\U0003ffff]"
)
"""Letters of Chinese, Japanese and Korean: of pages without any the engine knows few."""


def _row(node: LexborNode) -> dict[str, object]:
    headline = node.css_first("h3.res-title")
    link = None if headline is None else headline.css_first("a")
    # the class alone: paragraphs with a second one are not the page's text
    plain = (each for each in node.css("p.res-desc") if (each.attributes.get("class") or "").split() == ["res-desc"])
    texts = (each.inner_html or "" for each in chain(plain, node.css("span.res-list-summary")))
    attributes = {} if link is None else link.attributes
    href = attributes.get("href") or ""
    return {
        "title": "" if link is None else link.inner_html,
        "url": web_url(attributes.get("data-mdurl")) or _target(href),
        "snippet": next((text for text in texts if text.strip()), ""),
        "is_ad": _host(href) == "e.so.com",  # advertisements go through there (user-reported)
    }


def _result(row: dict[str, object]) -> Result | None:
    return result(row["title"], row["url"], snippet=row["snippet"])


def _target(href: str) -> str | None:
    """Where a link leads: away from the engine, or through its redirector; None for what stays on its own page."""
    if not href.strip().lower().startswith(("http:", "https:", "//", "/link?")):
        return None
    try:
        url = urljoin("https://www.so.com/", href.strip())
        parts = urlsplit(url)
    except ValueError:
        return None
    return None if is_of(parts.hostname, "www.so.com", "m.so.com") and parts.path != "/link" else url


def _host(href: str) -> str | None:
    try:
        return urlsplit(href.strip()).hostname
    except ValueError:
        return None
