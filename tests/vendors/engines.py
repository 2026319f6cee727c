"""Search engines without a key, dressed: a page of results for the rows that were made, and the page before it."""

from __future__ import annotations

import html
import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, quote_plus, urlsplit

from tests.vendors.plays import PAGE, Play, Request

if TYPE_CHECKING:
    from tests.vendors.successes import Made

Dress = Callable[[str, Sequence["Made"], Request], str]
"""From the query, the rows and the request to the page that is sent back."""


def so360(text: str, made: Sequence[Made], request: Request) -> str:
    """With a cookie the results, without one a page that only sets it (see `HEADERS`)."""
    asked = html.escape(text)
    head = f'<!DOCTYPE html><html><head><meta charset="utf-8"><title>{asked}_360</title></head>'
    box = f'<form id="searchForm" action="/s"><input name="q" value="{asked}"></form>'
    if "cookie" not in request.headers:
        return f"{head}<body>{box}</body></html>"
    rows = "".join(
        '<li class="res-list" data-lazyload="1"><h3 class="res-title "><a href="https://www.so.com/link?m=a%2F2b"'
        f' data-mdurl="{html.escape(row.url)}" target="_blank">{html.escape(row.title)}</a></h3>'
        f'<p class="res-desc">{html.escape(row.text)}</p></li>'
        for row in made
    )
    return f'{head}<body>{box}<div id="main"><ul class="result">{rows}</ul></div></body></html>'


def seznam(text: str, made: Sequence[Made], request: Request) -> str:
    """With a query the results, without one the front page: its form, and what that hides."""
    asked = html.escape(text)
    if not urlsplit(request.path).query:
        hidden = '<input type="hidden" name="oq" value=""><input type="hidden" name="aq" value="-1">'
        box = f'<form action="/"><input type="text" name="q" value="">{hidden}</form>'
        return f"<!DOCTYPE html><html><head><title>Seznam</title></head><body>{box}</body></html>"
    rows = "".join(
        f'<div class="f2c528"><div><h3><a href="{html.escape(row.url)}">{html.escape(row.title)}</a></h3></div>'
        f'<div class="c8774a">{html.escape(row.text)}</div></div>'
        for row in made
    )
    column = f'<div id="searchpage-root"><div class="Layout"><div class="Layout--left">{rows}</div></div></div>'
    box = f'<input type="text" name="q" value="{asked}">'
    return f"<!DOCTYPE html><html><head><title>{asked}</title></head><body>{box}{column}</body></html>"


def startpage(text: str, made: Sequence[Made], request: Request) -> str:
    """For a form that was posted the results, else the front page with the code that the form has to hold."""
    asked = html.escape(text)
    form = (
        '<form id="search" action="/sp/search" method="post">'
        f'<input type="text" name="query" value="{asked}"><input type="hidden" name="t" value="device">'
        '<input type="hidden" name="sc" value="Q7Mt5TRqowKB00"></form>'
    )
    script = ""
    if request.method == "POST":
        advertisement = {"clickUrl": "https://shop.example/", "title": f"Buy {text}", "description": "Now."}
        rows = [{"clickUrl": row.url, "title": f"<b>{row.title}</b>", "description": row.text} for row in made]
        mainline = [
            {"display_type": "ads-google", "results": [advertisement]},
            {"display_type": "web-google", "results": rows},
        ]
        drawn = {"query": text, "render": {"presenter": {"regions": {"mainline": mainline}}}}
        told = json.dumps(drawn, ensure_ascii=False).replace("</", "<\\/")  # only its own end may end a script
        script = f"<script>ReactDOM.hydrate(React.createElement(UIStartpage.AppSerpWeb, {told}), root);</script>"
    return f"<!DOCTYPE html><html><head><title>{asked}</title></head><body>{form}{script}</body></html>"


def mojeek(text: str, made: Sequence[Made], request: Request) -> str:
    asked = html.escape(text)
    rows = "".join(
        f'<li><a class="ob" href="{html.escape(row.url)}"></a>'
        f'<h2><a class="title" href="{html.escape(row.url)}">{html.escape(row.title)}</a></h2>'
        f'<p class="s">{html.escape(row.text)}</p></li>'
        for row in made
    )
    box = f'<form action="/search"><input type="search" name="q" value="{asked}"></form>'
    found = f'<div class="results"><ul class="results-standard">{rows}</ul></div>'
    return f"<!DOCTYPE html><html><head><title>{asked} - Mojeek</title></head><body>{box}{found}</body></html>"


def bing_rss(text: str, made: Sequence[Made], request: Request) -> str:
    """A feed. The query that it repeats is the one that was sent, operators included."""
    sent = parse_qs(urlsplit(request.path).query).get("q", [text])[0]
    rows = "".join(
        f"<item><title>{html.escape(row.title)}</title><link>{html.escape(row.url)}</link>"
        f"<description>{html.escape(row.text)}</description>"
        f"<pubDate>Tue, {row.day:02} Sep 2026 07:40:00 GMT</pubDate></item>"
        for row in made
    )
    link = html.escape(f"http://www.bing.com:80/search?q={quote_plus(sent)}")
    head = f"<title>Bing: {html.escape(sent)}</title><link>{link}</link><description>Search results</description>"
    return f'<?xml version="1.0" encoding="utf-8" ?><rss version="2.0"><channel>{head}{rows}</channel></rss>'


ENGINES: Mapping[str, Dress] = {
    "so360": so360,
    "seznam": seznam,
    "startpage": startpage,
    "mojeek": mojeek,
    "bing_rss": bing_rss,
}

HEADERS: Mapping[str, Mapping[str, str]] = {
    # two spellings of one name are two cookies
    "so360": {**PAGE, "set-cookie": "QiHooGUID=5F1C0A7E.1790000000; path=/", "Set-Cookie": "_S=none; path=/"},
    "seznam": {
        **PAGE,
        "set-cookie": "sid=id=7f3a|t=17; Path=/",
        "Set-Cookie": "ab=1; Expires=Fri, 31 Dec 2027 00:00:00 GMT",
    },
    "startpage": PAGE,
    "mojeek": PAGE,
    "bing_rss": {"content-type": "text/xml; charset=utf-8"},
}
"""What goes before each page."""

BLOCKS: Mapping[str, Play] = {
    "so360": Play(200, PAGE, b" \n"),
    "seznam": Play(302, {"location": "https://search.seznam.cz/verify?q=x"}),
    "startpage": Play(302, {"location": "https://www.startpage.com/sp/captcha?x=1"}),
}
"""How those that want a visit turn a client away, each in its own manner."""
