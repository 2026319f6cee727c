"""DuckDuckGo's pages without scripts, html and lite. Undocumented: searxng's engine, ddgs 8.1 (read 2026-11)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import ClassVar
from urllib.parse import parse_qs, urljoin, urlsplit

import httpx2
from selectolax.lexbor import LexborHTMLParser, LexborNode

from providers import _cutting
from providers._browser import BrowserProvider
from providers._reading import MOST_ROWS, iso_date, plain_text, result, rows
from providers._wire import Wire
from providers._words import Limits, Option, Outcome, Query, Result, Results, Row, Said


class DuckDuckGo(BrowserProvider):
    name = "duckduckgo"
    title = "DuckDuckGo"
    priority = 110
    home = "https://html.duckduckgo.com/html/"
    limits = Limits(query=499)
    domains = 1
    min_interval_ms = 2000
    rest_default_s = 900.0  # a block lasted about an hour without requests; nobody knows what it is now
    rest_max_s = 21600.0
    options: ClassVar = {
        "region": Option(str, "wt-wt", "country and language, such as us-en or cn-zh; wt-wt is everywhere"),
    }

    errors = (
        # what the engine says                          what it means           the engine's words, shortened
        Row(None, Outcome.RATE_LIMITED, code="challenge"),  # "bots use DuckDuckGo too", under 200 or 202
        Row(202, Outcome.RATE_LIMITED),  # the challenge's own status, with an empty body too
        Row(301, Outcome.RATE_LIMITED),
        Row(303, Outcome.REQUEST_ERROR),  # a !bang sends the browser elsewhere
        Row(400, Outcome.RATE_LIMITED),
        Row(403, Outcome.RATE_LIMITED),
        Row(418, Outcome.RATE_LIMITED),
        Row(429, Outcome.RATE_LIMITED),
    )

    def fit(self, query: Query) -> tuple[Query, tuple[str, ...]] | None:
        return _cutting.fit(
            replace(query, text=without_bangs(query.text)), self.limits, self.name, _cutting.site_operators(query)
        )

    def request(self, query: Query, key: str) -> httpx2.Request:
        form = {"q": query.text, "b": "", "kl": str(self.option("region"))}
        if query.freshness:
            form["df"] = query.freshness[0]
        headers = {
            "Referer": urljoin(self._page(), "/"),
            "Accept-Language": "en-US,en;q=0.9",
            "Sec-Fetch-Dest": "document",
            "Sec-Fetch-Mode": "navigate",
            "Sec-Fetch-Site": "same-origin",
            "Sec-Fetch-User": "?1",
        }
        return httpx2.Request("POST", self._page(), headers=headers, data=form)

    def _page(self) -> str:
        """The html page, or the lite one when that is where the configured address leads."""
        base = (self.settings.base_url or self.home).rstrip("/")
        # without the slash at the end the engine redirects, which counts as a block
        return (base if base.endswith("/lite") else self.endpoint()) + "/"

    def results(self, body: object) -> Results | None:
        if not isinstance(body, LexborHTMLParser):
            return None
        found = [*_html_rows(body), *_lite_rows(body)]
        organic = [row for row in found if not row["ad"]]
        if organic:
            kept = rows(organic, _row)
            return None if kept is None else Results(kept)
        # a page of nothing but advertisements has no hits; any other page without rows has to say so
        return Results() if found or _says_nothing_found(body) else None

    def said(self, wire: Wire, body: object) -> Said:
        # the query is echoed on every page, so markers count only where there are no rows and no words are compared
        if isinstance(body, LexborHTMLParser) and not _has_rows(body) and _is_challenge(body):
            return Said(codes=("challenge",))
        return Said()

    def status(self, wire: Wire, body: object) -> int:
        # 202 is the challenge's status; a page of results under it is a page of results
        if wire.status == 202 and isinstance(body, LexborHTMLParser) and _has_rows(body):
            return 200
        return wire.status


_BANG = re.compile(r"(?<!\S)(![^\s\"]*)(?!\S)")


def without_bangs(text: str) -> str:
    """`text` with every `!word` in quotation marks: bare, it sends the browser to another site."""
    return _BANG.sub(r'"\1"', text)


# ---------------------------------------------------------------------------------------------------------------------
# pages


def _has_rows(page: LexborHTMLParser) -> bool:
    return any(not row["ad"] for row in (*_html_rows(page), *_lite_rows(page)))


def _html_rows(page: LexborHTMLParser) -> Iterator[dict[str, object]]:
    for node in page.css("div.result")[:MOST_ROWS]:
        link = node.css_first("a.result__a")
        if link is None:
            continue
        snippet = node.css_first(".result__snippet")
        url = _target(link.attributes.get("href"))
        yield {
            "title": link.inner_html,
            "url": url,
            "snippet": snippet.inner_html if snippet is not None else "",
            "published": _date(node.css(".result__extras span")),
            "ad": url == _AD or "result--ad" in (node.attributes.get("class") or "").split(),
        }


def _lite_rows(page: LexborHTMLParser) -> Iterator[dict[str, object]]:
    """Rows of the lite page: a hit is a line of the table with its link, and the lines up to the next link."""
    for link in page.css("a.result-link")[:MOST_ROWS]:
        line = _up_to(link, "tr")
        lines = [] if line is None else [line]
        while line is not None and (line := line.next) is not None and line.css_first("a.result-link") is None:
            lines.append(line)
        texts = [text for each in lines for text in each.css("td.result-snippet")]
        url = _target(link.attributes.get("href"))
        sponsored = any("result-sponsored" in (each.attributes.get("class") or "").split() for each in lines[:1])
        yield {
            "title": link.inner_html,
            "url": url,
            "snippet": texts[0].inner_html if texts else "",
            "published": _date([span for each in lines for span in each.css("span")]),
            "ad": url == _AD or sponsored,
        }


def _row(row: dict[str, object]) -> Result | None:
    return result(row["title"], row["url"], snippet=row["snippet"], published=row["published"])


def _up_to(node: LexborNode, tag: str) -> LexborNode | None:
    at: LexborNode | None = node
    while at is not None and at.tag != tag:
        at = at.parent
    return at


def _date(spans: list[LexborNode]) -> str | None:
    """The first date among `spans`, without the seven digits of fraction that the engine writes."""
    for span in spans:
        if (date := iso_date(plain_text(span.inner_html))) is not None:
            whole, _, fraction = date.partition(".")
            return whole if fraction.isdigit() else date
    return None


_AD = "ad"


def _target(href: str | None) -> str | None:
    """Where a link leads, out of the engine's wrapper; `_AD` for an advertisement."""
    if not (href or "").lstrip().startswith(("http:", "https:", "//", "/l/?", "/y.js")):
        return None  # no link at all, or one that stays on the engine's page
    for _ in range(2):
        try:
            url = urljoin("https://duckduckgo.com/", (href or "").strip())
            parts = urlsplit(url)
            host = parts.hostname or ""
            wrapped = parse_qs(parts.query).get("uddg") if parts.path == "/l/" else None
        except ValueError:
            return None
        ours = host == "duckduckgo.com" or host.endswith(".duckduckgo.com")
        if (ours and parts.path == "/y.js") or url.startswith(
            ("http://www.google.com/search?q=", "https://www.google.com/search?q=")
        ):
            return _AD
        if not (ours and parts.path == "/l/"):
            return url
        if not wrapped:
            return None
        href = wrapped[0]
    return None


def _is_challenge(page: LexborHTMLParser) -> bool:
    if page.css_first("#challenge-form, [class*='anomaly-modal']") is not None:
        return True
    actions = [form.attributes.get("action") or "" for form in page.css("form[action]")]
    return any(action.partition("?")[0].endswith("/anomaly.js") for action in actions)


_NOTHING = ("No results.", "No more results.")
"""What the html page (with two spaces) and the lite page say when there is nothing."""

_NO_TEXT = ("script", "style", "textarea", "title", "option")
"""Elements whose text is not the page's own: code, and places where the query is echoed."""


def _says_nothing_found(page: LexborHTMLParser) -> bool:
    """Whether the page says so itself, at the start of a text of its own."""
    if page.body is None:
        return False
    for node in page.body.traverse(include_text=True):
        if node.is_text_node and node.parent is not None and node.parent.tag not in _NO_TEXT:
            words = " ".join((node.text_content or "")[:100].split())
            if words.startswith(_NOTHING):
                return True
    return False
