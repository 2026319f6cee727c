"""Mojeek, its pages. Undocumented: searxng's engine; `since`: mojeek.com, page "Request Parameters" (read 2026-11)."""

from __future__ import annotations

from typing import ClassVar

import httpx2
from selectolax.lexbor import LexborHTMLParser, LexborNode

from providers._browser import BrowserProvider
from providers._reading import MOST_ROWS, result, rows
from providers._words import Option, Outcome, Query, Result, Results, Row

_COOKIES = {"language": "lb", "region": "arc"}

_CONTAINERS = "ul.results-standard, div.results"
_LINKS = "a.ob[href], a.title[href], h2 a[href], h3 a[href]"
"""What makes a row of something inside a container, known to us or not."""


class Mojeek(BrowserProvider):
    name = "mojeek"
    title = "Mojeek"
    priority = 170
    home = "https://www.mojeek.com/search"
    joins = "if_listed"
    domains = 1
    operators = True
    min_interval_ms = 4000
    timeout_s = 8.0
    rest_default_s = 240.0  # about ten requests per address, full again after some four minutes, as users report
    options: ClassVar = {
        "language": Option(str, None, "language of the pages, such as de; any when absent"),
        "region": Option(str, None, "region of the pages, such as gb or de; any when absent"),
        "safe_search": Option(bool, False, "leave out pages for adults"),
    }

    errors = (Row(403, Outcome.RATE_LIMITED),)  # 403 - Forbidden

    def request(self, query: Query, key: str) -> httpx2.Request:
        # no `s`, which is where the rows begin: with s=0 the first page is refused
        fields = {"q": query.text, "safe": str(int(bool(self.option("safe_search"))))}
        if query.freshness:
            since = self.since(query.freshness)
            fields["since"] = since.strftime("%Y%m%d")
        cookies = [f"{cookie}={value}" for name, cookie in _COOKIES.items() if (value := self.option(name))]
        headers = {"Cookie": "; ".join(cookies)} if cookies else {}
        return httpx2.Request("GET", self.endpoint(), headers=headers, params=fields)

    def results(self, body: object) -> Results | None:
        if not isinstance(body, LexborHTMLParser):
            return None
        nodes = body.css("ul.results-standard > li")[:MOST_ROWS]
        found = [_row(node, link) for node in nodes if (link := _link(node)) is not None]
        if found:
            kept = rows(found, _result)
            return None if kept is None else Results(kept)
        return Results() if _is_empty(body) else None


def _link(node: LexborNode) -> LexborNode | None:
    return node.css_first("a.ob[href]") or node.css_first("h2 a[href]")


def _row(node: LexborNode, link: LexborNode) -> dict[str, object]:
    title, text = node.css_first("h2 a"), node.css_first("p.s")
    return {
        "title": title.inner_html if title is not None else "",
        "url": link.attributes.get("href"),
        "snippet": text.inner_html if text is not None else "",
    }


def _result(row: dict[str, object]) -> Result | None:
    return result(row["title"], row["url"], snippet=row["snippet"])


def _is_empty(page: LexborHTMLParser) -> bool:
    """Whether the page has its place for results, whole and with none in it (inferred: how it says so is not known)."""
    containers = page.css(_CONTAINERS)
    if any(node.css_first(f"li, form, input, iframe, script, {_LINKS}") is not None for node in containers):
        return False  # rows, but not as we know them; or something that wants to know who we are
    return any(_is_closed(node, page.raw_html or b"") for node in containers)


def _is_closed(node: LexborNode, source: bytes) -> bool:
    """Whether a container ends in the page's source: in one that was cut off, rows may have come after it."""
    opened = source.lower().rfind(f"<{node.tag}".encode())
    return source.lower().find(f"</{node.tag}".encode(), max(opened, 0)) >= 0
