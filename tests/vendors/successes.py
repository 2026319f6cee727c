"""A good reply of each vendor, in its own shape, made from the request so that another query gets other rows."""

from __future__ import annotations

import functools
import html
import json
import re
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

import providers
from tests.vendors.cloned import clone, what_is_asked
from tests.vendors.engines import ENGINES, HEADERS
from tests.vendors.plays import EVENTS, JSON, PAGE, Play, Request

_SITE = re.compile(r"(?<!\S)\(?site:([^\s()]+)\)?")
_OPERATOR = re.compile(r"(?<!\S)\(?-?site:\S+(?: OR)?")


class Made(NamedTuple):
    """One row before a vendor dresses it."""

    title: str
    url: str
    text: str
    day: int


class Asked(NamedTuple):
    """What a request wants to know, and the hosts it must be held to."""

    text: str
    hosts: Sequence[str] = ()


def success(
    provider: str, n_rows: int = 5, marker: str = "", hosts: Sequence[str] = (), **how: Any
) -> Callable[[Request], Play]:
    """A reply with `n_rows` rows that name the query and `marker`.

    The rows are on `hosts`, else on the hosts that the request asks for, else on one of the vendor's own. `how` are
    further fields of `Play`. Raises KeyError for a vendor that is not played.
    """
    asked, dress, headers = _vendor(provider)

    def play(request: Request) -> Play:
        wanted = asked(request)
        made = list(_made(wanted, provider, n_rows, marker, hosts))
        told = dress(wanted.text, made, request)
        return Play(200, EVENTS if told.startswith("data:") else headers, told.encode(), **how)

    return play


def played_names() -> tuple[str, ...]:
    """Every vendor that can be played: all there are, and Grok's second way in."""
    return (*providers.names(), "grok_relay")


def _made(asked: Asked, provider: str, n_rows: int, marker: str, hosts: Sequence[str]) -> Iterator[Made]:
    where = hosts or asked.hosts or (f"{provider.replace('_', '-')}.example",)
    number = zlib.crc32(f"{asked.text}\0{marker}".encode("utf-8", "replace"))
    words = f"{asked.text} {marker}".strip()
    for n in range(n_rows):
        url = f"https://{where[n % len(where)]}/{number:08x}/{n}"
        yield Made(f"{words}: page {n}", url, f"What {provider} found about {words} on page {n}.", n % 27 + 1)


# ---------------------------------------------------------------------------------------------------------------------
# what was asked


def _json_asked(text: str, hosts: str) -> Callable[[Request], Asked]:
    def asked(request: Request) -> Asked:
        wanted = request.json.get(hosts) or []
        return Asked(request.json[text], wanted.replace("|", ",").split(",") if isinstance(wanted, str) else wanted)

    return asked


def _words_asked(request: Request) -> Asked:
    fields = parse_qs(urlsplit(request.path).query) | parse_qs(request.body.decode())
    text = fields.get("q", [""])[0]
    return Asked(_OPERATOR.sub("", text).strip() if "site:" in text else text, _SITE.findall(text))


def _any_asked(request: Request) -> Asked:
    text, hosts = what_is_asked(request)
    return Asked(_OPERATOR.sub("", text).strip() if "site:" in text else text, [*_SITE.findall(text), *hosts])


def _chat_asked(request: Request) -> Asked:
    messages = request.json.get("input") or request.json["messages"]
    content = messages if isinstance(messages, str) else messages[-1]["content"]
    text = content if isinstance(content, str) else " ".join(str(part.get("text", "")) for part in content)
    filters = [tool.get("filters") or {} for tool in request.json.get("tools") or ()]
    return Asked(text, [host for each in filters for host in each.get("allowed_domains") or ()])


# ---------------------------------------------------------------------------------------------------------------------
# how it is told


_dump = json.JSONEncoder(ensure_ascii=False).encode


def _bocha(text: str, made: list[Made], _: Request) -> str:
    rows = [
        {
            "id": f"#WebPages.{n}",
            "name": row.title,
            "url": row.url,
            "snippet": row.text[:20],
            "summary": row.text,
            "datePublished": f"2026-09-{row.day:02}T11:58:00+08:00",
            "dateLastCrawled": f"2026-09-{row.day:02}T11:58:00Z",
            "language": None,
        }
        for n, row in enumerate(made)
    ]
    data = {"_type": "SearchResponse", "queryContext": {"originalQuery": text}, "webPages": {"value": rows}}
    return _dump({"code": 200, "log_id": "0f1e2d", "msg": None, "data": data})


def _tavily(text: str, made: list[Made], _: Request) -> str:
    rows = [
        {
            "title": row.title,
            "url": row.url,
            "content": row.text,
            "score": 0.9,
            "raw_content": None,
            "published_date": f"Tue, {row.day:02} Sep 2026 08:30:00 GMT",
        }
        for row in made
    ]
    return _dump({"query": text, "answer": None, "images": [], "results": rows, "response_time": 0.84})


def _brave(text: str, made: list[Made], _: Request) -> str:
    rows = [
        {
            "title": html.escape(row.title),
            "url": row.url,
            "description": f"<strong>{html.escape(row.text)}</strong>",
            "age": f"September {row.day}, 2026",
            "page_age": f"2026-09-{row.day:02}T00:00:00",
            "meta_url": {"hostname": "brave.example"},
        }
        for row in made
    ]
    query = {"original": text, "altered": None, "more_results_available": True}
    return _dump({"type": "search", "query": query, "web": {"type": "search", "results": rows}})


def _exa(text: str, made: list[Made], _: Request) -> str:
    rows = [
        {
            "id": row.url,
            "title": row.title,
            "url": row.url,
            "publishedDate": f"2026-09-{row.day:02}T00:00:00.000Z",
            "author": None,
            "text": row.text,
            "highlights": [row.text],
        }
        for row in made
    ]
    return _dump({"requestId": "5d4c", "searchTime": 412.5, "results": rows, "costDollars": {"total": 0.007}})


def _searxng(text: str, made: list[Made], _: Request) -> str:
    rows = [
        {
            "url": row.url,
            "title": row.title,
            "content": row.text,
            "engine": "mojeek",
            "publishedDate": f"2026-09-{row.day:02}T00:00:00",
        }
        for row in made
    ]
    rest: dict[str, list[Any]] = {"answers": [], "corrections": [], "suggestions": [], "unresponsive_engines": []}
    return _dump({"query": text, "results": rows} | rest)


def _duckduckgo(text: str, made: list[Made], _: Request) -> str:
    rows = "".join(
        '<div class="result results_links results_links_deep web-result"><div class="links_main result__body">'
        f'<h2 class="result__title"><a class="result__a" href="{row.url}">{html.escape(row.title)}</a></h2>'
        f'<div class="result__extras"><a class="result__url" href="{row.url}">{row.url}</a>'
        f"<span>&nbsp; &nbsp; 2026-09-{row.day:02}T00:00:00.0000000</span></div>"
        f'<a class="result__snippet" href="{row.url}">{html.escape(row.text)}</a></div></div>'
        for row in made
    )
    asked = html.escape(text)
    head = f"<!DOCTYPE html><html><head><title>{asked} at DuckDuckGo</title></head>"
    box = f'<input name="q" value="{asked}">'
    return f'{head}<body>{box}<div id="links" class="results">{rows}</div></body></html>'


def _grok(text: str, made: list[Made], _: Request) -> str:
    said = ""
    marks: list[dict[str, object]] = []
    for row in made:
        said += f"{row.text} "
        link = f"[[{len(marks) + 1}]]({row.url})"
        marks.append(
            {
                "type": "url_citation",
                "url": row.url,
                "title": row.title,
                "start_index": len(said),
                "end_index": len(said) + len(link),
            }
        )
        said += f"{link}\n"
    output = [
        {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": text}},
        {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": said, "annotations": marks}],
        },
    ]
    whole = {"id": "resp_1", "object": "response", "status": "completed", "output": output}
    return _dump(whole | {"citations": [row.url for row in made]})


def _grok_relay(text: str, made: list[Made], request: Request) -> str:
    said = "\n".join(f"{row.text} [{row.title}]({row.url})" for row in made)
    if not request.json.get("stream"):
        choice = {"index": 0, "message": {"role": "assistant", "content": said}, "finish_reason": "stop"}
        return _dump({"id": "c", "object": "chat.completion", "choices": [choice]})
    pieces = [said[at : at + 40] for at in range(0, len(said), 40)]
    events = [
        {"id": "c", "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": {"content": piece}}]}
        for piece in pieces
    ]
    return "".join(f"data: {_dump(event)}\n\n" for event in events) + "data: [DONE]\n\n"


_Dress = Callable[[str, list[Made], Request], str]
_VENDORS: Mapping[str, tuple[Callable[[Request], Asked], _Dress, Mapping[str, str]]] = {
    "bocha": (_json_asked("query", "include"), _bocha, JSON),
    "tavily": (_json_asked("query", "include_domains"), _tavily, JSON),
    "brave": (_words_asked, _brave, JSON),
    "exa": (_json_asked("query", "includeDomains"), _exa, JSON),
    "searxng": (_words_asked, _searxng, JSON),
    "duckduckgo": (_words_asked, _duckduckgo, PAGE),
    "grok": (_chat_asked, _grok, JSON),
    "grok_relay": (_chat_asked, _grok_relay, JSON),
}


@functools.cache
def _vendor(name: str) -> tuple[Callable[[Request], Asked], _Dress, Mapping[str, str]]:
    """How a vendor is played: as written here, else from its own recordings. Raises KeyError."""
    if name in _VENDORS:
        return _VENDORS[name]
    if name in ENGINES:
        return _any_asked, ENGINES[name], HEADERS[name]
    copied = clone(name)
    return _any_asked, lambda _, made, __: copied.told(made), copied.headers
