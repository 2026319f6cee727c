"""Bing's results as a feed. Unofficial: DDDMUC/dsh-free-search#38, serpapi/public-roadmap#4074 (read 2026-11)."""

from __future__ import annotations

import binascii
import re
from base64 import urlsafe_b64decode
from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar
from urllib.parse import parse_qs, unquote, urlsplit
from xml.etree.ElementTree import Element, ParseError, fromstring

import httpx2

from providers._browser import MAX_ELEMENTS, BrowserProvider, is_of
from providers._matching import share, words
from providers._reading import MOST_ROWS, result, rows
from providers._wire import Unreadable, Wire
from providers._words import Option, Outcome, Query, Reply, Result, Results, Row, Said

_UNRELATED = Reply(Outcome.NO_RESULTS, detail="unrelated", row="shape of a success: only unrelated rows")


class BingRSS(BrowserProvider):
    """The body that `results` gets is the root of the feed."""

    name = "bing_rss"
    title = "Bing RSS"
    priority = 150
    home = "https://www.bing.com/search"
    joins = "last_resort"
    domains = 1
    operators = True
    enforces_freshness = False
    sends_unrelated = True
    min_interval_ms = 2000
    timeout_s = 8.0
    options: ClassVar = {
        "market": Option(str, "en-US", "language and country of the results, such as de-DE or zh-CN"),
    }

    errors = (
        # what the engine says                          what it means           where it is from
        Row(200, Outcome.RATE_LIMITED, code="a page"),  # a challenge, or consent, instead of the feed: reported
        Row(429, Outcome.RATE_LIMITED),  # inferred
        Row(403, Outcome.RATE_LIMITED),  # inferred
    )

    def request(self, query: Query, key: str) -> httpx2.Request:
        market = str(self.option("market"))
        language = market.partition("-")[0]
        # without all three the language of the results follows the client's address
        fields = {"q": query.text, "format": "rss", "mkt": market, "setlang": language}
        return httpx2.Request(
            "GET", self.endpoint(), headers={"Accept-Language": f"{market},{language};q=0.9"}, params=fields
        )

    def decode(self, wire: Wire) -> object:
        return _feed(_text(wire))

    def results(self, body: object) -> Results | Reply | None:
        channel = body.find("channel") if isinstance(body, Element) and body.tag == "rss" else None
        if channel is None:
            return None
        found = [_row(item) for item in channel.findall("item")[:MOST_ROWS]]
        organic = [row for row in found if row["url"] != _AD]
        if not organic:
            # a feed of nothing but advertisements has no hits; one without rows must be this engine's
            return Results() if found or _is_empty(channel) else None
        kept = rows(organic, _result)
        return None if kept is None else _related(kept, words(_echo(channel)))

    def said(self, wire: Wire, body: object) -> Said:
        return Said(codes=("a page",)) if _is_page(wire) else Said()


# ---------------------------------------------------------------------------------------------------------------------
# the feed

_DECLARED = re.compile(
    rb"""(?:\xef\xbb\xbf)?\s*<\?xml\s[^>]{0,100}?encoding\s*=\s*["'](?!utf-?16|utf-?32)([\w.-]{1,40})["']""",
    re.IGNORECASE,
)
_PROLOG = r"(?>\s+|<\?(?>.*?\?>)|<!--(?>.*?-->))*+"
_DOCTYPE = re.compile(f"{_PROLOG}<!doctype", re.DOTALL | re.IGNORECASE)
_PAGE = re.compile(rf"{_PROLOG}<(?:!doctype\s+html|html|head|body)\b", re.DOTALL | re.IGNORECASE)
_DATA = ("<?xml", "<rss", "<feed", "<rdf")


def _text(wire: Wire) -> str:
    """The body from its first sign on, in the character set of its header, else of its XML declaration, else UTF-8."""
    declared = _DECLARED.match(wire.body)
    if declared and "charset=" not in wire.headers.get("content-type", "").lower():
        wire = replace(wire, headers={"content-type": f"text/xml; charset={declared[1].decode()}"})
    return wire.text.strip("\ufeff \t\r\n")


def _feed(text: str) -> Element:
    """The root of an XML document. Raises `Unreadable`, also for one that brings definitions of its own."""
    if _DOCTYPE.match(text):
        raise Unreadable("a document type: entities in it can grow without end")
    if text.count("<") > 2 * MAX_ELEMENTS:
        raise Unreadable("too many elements")
    try:
        return fromstring(text.encode("utf-8", "replace").decode())
    except (ParseError, ValueError):
        raise Unreadable from None


def _is_page(wire: Wire) -> bool:
    """Whether this is HTML. A feed may come under the type of a page, and a page may begin like XML."""
    text = _text(wire)
    if _PAGE.match(text):
        return True
    head = text[:10].lower()
    typed = "text/html" in wire.headers.get("content-type", "").lower()
    return typed and head.startswith("<") and not head.startswith(_DATA)


def _is_empty(channel: Element) -> bool:
    """Whether a channel in which we know no rows has none, and is this engine's own."""
    if any(node.tag.rpartition("}")[2].lower() in ("item", "entry") for node in channel.iter()):
        return False
    return _told(channel, "title").lower().startswith("bing") or _is_bing(_told(channel, "link"))


def _echo(channel: Element) -> str:
    """The query, as the feed repeats it in the link to its page and in its title; "" when neither can be read."""
    link, title = _told(channel, "link"), _told(channel, "title")
    try:
        asked = parse_qs(urlsplit(link).query).get("q", [])
    except ValueError:
        asked = []
    if title.lower().startswith("bing:"):
        asked.append(title[5:])
    return "" if any("\ufffd" in each for each in asked) else " ".join(asked)


def _told(node: Element, name: str) -> str:
    """The text of the first child called `name`, mark-up inside it left out; "" when there is none."""
    child = node.find(name)
    return "" if child is None else "".join(child.itertext()).strip()


# ---------------------------------------------------------------------------------------------------------------------
# rows

_AD = "ad"


def _row(item: Element) -> dict[str, object]:
    # pubDate is when the page was crawled
    return {"title": _told(item, "title"), "url": _target(_told(item, "link")), "snippet": _told(item, "description")}


def _result(row: dict[str, object]) -> Result | None:
    return result(row["title"], row["url"], snippet=row["snippet"])


def _related(kept: Sequence[Result], asked: frozenset[str]) -> Results | Reply:
    """`kept` without rows that share no word with the query: the engine sends those when it has nothing."""
    related = tuple(row for row in kept if share(asked, row.title, row.snippet, unquote(row.url)))
    if not related:
        return _UNRELATED
    dropped = len(kept) - len(related)
    note = f"bing_rss: {dropped} of its {len(kept)} results shared no word with the query"
    return Results(related, notes=(note,) if dropped else ())


def _is_bing(url: str) -> bool:
    try:
        return is_of(urlsplit(url).hostname, "bing.com")
    except ValueError:
        return False


def _target(link: str) -> str | None:
    """Where a link leads, out of the engine's wrapper; `_AD` for an advertisement, None when it cannot be told."""
    for _ in range(2):
        if not _is_bing(link):
            return link
        parts = urlsplit(link)
        if parts.path.startswith("/aclick"):
            return _AD
        if not parts.path.startswith("/ck/a"):
            return link
        wrapped = parse_qs(parts.query).get("u", [""])[0]
        if not wrapped.startswith("a1"):
            return None
        try:
            code = wrapped[2:]
            link = urlsafe_b64decode(code + "=" * (-len(code) % 4)).decode()
        except (binascii.Error, ValueError):
            return None
    return None
