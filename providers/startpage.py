"""Startpage, its pages. Undocumented: searxng's engine; Aas-ee/open-webSearch for the page between (read 2026-11)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import ClassVar
from urllib.parse import urlsplit

import httpx2
from selectolax.lexbor import LexborHTMLParser

from providers._browser import is_of, leads_to, read_page
from providers._reading import MOST_ROWS, host_of, member, result, rows, web_url
from providers._visiting import Ticket, VisitingProvider, hidden_fields, page_before
from providers._wire import Wire
from providers._words import Option, Outcome, Query, Result, Results, Row, Said

_SEARCH = "sp/search"


class Startpage(VisitingProvider):
    name = "startpage"
    title = "Startpage"
    priority = 180
    home = f"https://www.startpage.com/{_SEARCH}"
    joins = "if_listed"
    domains = 1
    operators = True
    enforces_freshness = False
    min_interval_ms = 4000
    timeout_s = 8.0
    keep_s = 3600.0
    lacks = "no sc on the first page"
    lacking_means = Outcome.RATE_LIMITED
    options: ClassVar = {
        "language": Option(str, "english", "language of the pages, as the engine calls it: english, deutsch, …"),
        "safe_search": Option(str, "moderate", "how much is filtered", choices=("none", "moderate", "heavy")),
    }

    errors = (
        # what the engine does                         what it means           where it has been seen
        Row(None, Outcome.RATE_LIMITED, code="captcha"),  # sent to /sp/captcha
        Row(200, Outcome.SERVER_ERROR, code="interstitial"),  # a script that would post the form again, with "sgt"
        Row(403, Outcome.RATE_LIMITED),
        Row(418, Outcome.RATE_LIMITED),
        Row(429, Outcome.RATE_LIMITED),
    )

    def request(self, query: Query, key: str) -> httpx2.Request:
        language, safe_search = str(self.option("language")), str(self.option("safe_search"))
        form = {
            "query": query.text,
            "cat": "web",
            "t": "device",
            "with_date": "",
            "abd": "1",
            "abe": "1",
            "qsr": "all",
            "qadf": safe_search,
            "language": language,
            "lui": language,
        }
        front = self._front_page()
        headers = {
            "Accept-Language": "en-US,en;q=0.9",
            "Cookie": f"preferences={_preferences(language, safe_search)}",
            "Origin": front.rstrip("/"),
            "Referer": front,
            "Sec-Fetch-Site": "same-origin",
        }
        return httpx2.Request("POST", self.endpoint(), headers=headers, data=form)

    def _front_page(self) -> str:
        return self.endpoint().removesuffix(_SEARCH)

    def first(self, search: httpx2.Request) -> httpx2.Request:
        return page_before(search, self._front_page())

    def ticket(self, wire: Wire, page: LexborHTMLParser | None) -> Ticket | None:
        form = None if page is None else page.css_first("form#search")
        fields = () if form is None else hidden_fields(form) or ()
        codes = [(name, value) for name, value in fields if name == "sc" and value]
        return Ticket(fields=tuple(codes[:1])) if codes else None

    def decode(self, wire: Wire) -> LexborHTMLParser:
        page = read_page(wire.text)
        page.strip_tags(["style"])  # each link and text has some inside
        return page

    def results(self, body: object) -> Results | None:
        if not isinstance(body, LexborHTMLParser):
            return None
        mainline = _mainline(body)
        if mainline is None:
            # the variant for browsers without scripts says nothing that would tell an honest "nothing found"
            kept = rows(_html_rows(body), _result)
            return Results(kept) if kept else None
        # advertisements, news and pictures come in display types of their own
        lists = [member(each, "results") for each in mainline if member(each, "display_type") == "web-google"]
        if not all(isinstance(each, list) for each in lists):
            return None
        kept = rows([row for each in lists if isinstance(each, list) for row in each], _result)
        return None if kept is None else Results(kept)

    def said(self, wire: Wire, body: object) -> Said:
        target = leads_to(wire, self.endpoint(), "startpage.com")
        if target is not None and target.path.startswith("/sp/captcha"):
            return Said(codes=("captcha",))
        is_between = isinstance(body, LexborHTMLParser) and any("sgt" in form for form in _after(body, "var data", "="))
        return Said(codes=("interstitial",)) if is_between and self.results(body) is None else Said()


def _preferences(language: str, safe_search: str) -> str:
    """The cookie in which the engine's own settings page writes what was chosen."""
    chosen = {
        "date_time": "world",
        "disable_family_filter": safe_search,
        "disable_open_in_new_window": "0",
        "enable_post_method": "1",
        "enable_proxy_safety_suggest": "1",
        "enable_stay_control": "1",
        "instant_answers": "1",
        "lang_homepage": "s/device/en/",
        "num_of_results": "10",
        "suggestions": "1",
        "wt_unit": "celsius",
        "language": language,
        "language_ui": language,
    }
    return "N1N".join(f"{name}EEE{value}" for name, value in chosen.items())


# ---------------------------------------------------------------------------------------------------------------------
# pages


def _mainline(page: LexborHTMLParser) -> list[object] | None:
    """The list that the page's script draws as its middle column; None when there is none to be found."""
    for props in _after(page, "React.createElement(UIStartpage.AppSerpWeb", ","):
        mainline = member(props, "render", "presenter", "regions", "mainline")
        if isinstance(mainline, list):
            return mainline
    return None


_DECODER = json.JSONDecoder()
_MAX_MARKS = 50
"""Places that are tried: each that holds no JSON costs a look at the whole script."""


def _after(page: LexborHTMLParser, mark: str, sign: str) -> Iterator[dict[str, object]]:
    """The JSON objects that stand behind `mark` and `sign` in the scripts of the page."""
    tried = 0
    for text in (script.text() for script in page.css("script")):
        at = text.find(mark)
        while at >= 0 and tried < _MAX_MARKS:
            at = _past_blanks(text, at + len(mark))
            if text.startswith(sign, at):
                tried += 1
                try:
                    value, at = _DECODER.raw_decode(text, _past_blanks(text, at + len(sign)))
                except (ValueError, RecursionError):
                    value = None  # a text that only mentions the mark
                if isinstance(value, dict):
                    yield value
            at = text.find(mark, at)


def _past_blanks(text: str, at: int) -> int:
    near = text[at : at + 1000]
    return at + len(near) - len(near.lstrip())


def _html_rows(page: LexborHTMLParser) -> list[dict[str, object]]:
    """The rows of the variant for browsers without scripts: a link, and the text that follows it."""
    found: list[dict[str, object]] = []
    for node in page.css("a.result-title.result-link, p.description")[: 2 * MOST_ROWS]:
        if node.tag == "a":
            url = web_url(node.attributes.get("href"))
            # its own host and Google's counter are advertisements (searxng's engine, before 2024)
            is_ad = url is not None and (is_of(host_of(url), "startpage.com") or _is_google_ad(url))
            title = node.css_first("h2") or node
            found.append({"title": title.inner_html, "clickUrl": None if is_ad else url})
        elif found:
            found[-1].setdefault("description", node.inner_html)
    return found


def _is_google_ad(url: str) -> bool:
    return host_of(url).startswith(("google.", "www.google.")) and urlsplit(url).path == "/aclk"


def _result(row: dict[str, object]) -> Result | None:
    return result(row.get("title"), row.get("clickUrl"), snippet=row.get("description"))
