"""A vendor played from its own recordings: the rows of its first good reply, about whatever is asked."""

from __future__ import annotations

import copy
import functools
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlsplit

import providers
from providers import Draft, Query
from providers._reading import plain_text
from tests.vendors.plays import RECORDINGS, Request

Path = tuple[str | int, ...]


class Clone(NamedTuple):
    """A good reply as a value, the place of its rows in it, and the texts of the first row that are exchanged."""

    body: Any
    rows: Path
    headers: Mapping[str, str]
    title: str
    url: str
    text: str

    def told(self, made: Sequence[Any]) -> str:
        """The reply with a row for each of `made` (they have `title`, `url` and `text`)."""
        whole = copy.deepcopy(self.body)
        rows = at(whole, self.rows)
        first = rows[0]
        rows[:] = [
            _exchanged(first, {self.url: row.url, self.title: row.title, self.text: row.text} | {"": ""})
            for row in made
        ]
        return json.dumps(whole, ensure_ascii=False)


def clone(provider: str) -> Clone:
    """The first good reply of `provider`. Raises KeyError when its rows cannot be told from the rest."""
    cases = json.loads((RECORDINGS / f"{provider}.json").read_text(encoding="utf-8"))
    case = next((each for each in cases if each["expect"]["outcome"] == "ok" and each["expect"]["results"]), None)
    try:
        body = json.loads(case["body"]) if case else None
    except ValueError:
        body = None
    fields = case["expect"]["results"][0] if case else {}
    title, url = fields.get("title", ""), fields.get("url", "")
    text = fields.get("content") or fields.get("snippet") or ""
    for path in lists(body):
        first = at(body, path)[0]
        if isinstance(first, dict) and {title, url} & {plain_text(each) for _, each in _texts(first)}:
            return Clone(body, path, case["headers"], title, url, text)
    raise KeyError(f"{provider}: write how it is played into tests/vendors/successes.py or engines.py")


def what_is_asked(request: Request) -> tuple[str, list[str]]:
    """The query of any vendor's request, and the hosts to search that it names in a list of its own."""
    query, hosts = _places(request.provider)
    fields = _fields(request.path, request.body)
    texts = [text for path, text in _texts(fields) if path == query]
    listed = [text for path, text in _texts(fields) if hosts is not None and path[: len(hosts)] == hosts]
    named = (host for text in listed for host in text.replace("|", ",").split(","))
    return (texts or [""])[0], [host for host in named if not host.startswith("-")]


_WORD, _HOST = "zugzwang", "in.zugzwang.example"


@functools.cache
def _places(provider: str) -> tuple[Path, Path | None]:
    """Where requests of `provider` hold the query, and the list of hosts to search: seen by asking something unusual.

    Raises KeyError when the query is nowhere to be found.
    """
    vendor = providers.find(provider.removesuffix("_relay"))()
    key = "http://k.example" if vendor.keys_are_addresses else "k"
    plain, held = (vendor.draft(Query(f"{_WORD} 海", include_domains=hosts), key) for hosts in ((), (_HOST,)))
    query = [path for path, text in _drafted(plain) if _WORD in text]
    if not query:
        raise KeyError(f"{provider}: its query stands nowhere in its request")
    lists = [path for path, text in _drafted(held) if text.split(",")[0] == _HOST]
    place = lists[0] if lists else None
    return query[0], place[:-1] if place is not None and isinstance(place[-1], int) else place


def _drafted(draft: object) -> list[tuple[Path, str]]:
    if not isinstance(draft, Draft):
        return []
    return list(_texts(_fields(str(draft.request.url), draft.request.read())))


def _fields(address: str, body: bytes) -> Any:
    """What a request says: its parameters, and its form or JSON."""
    try:
        told = json.loads(body)
    except ValueError:
        told = dict(parse_qsl(body.decode(errors="replace")))
    return {"params": dict(parse_qsl(urlsplit(address).query)), "body": told}


def _texts(value: Any, here: Path = ()) -> Iterator[tuple[Path, str]]:
    """Every text in `value`, and its place."""
    if isinstance(value, str):
        yield here, value
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, inner in members:
        yield from _texts(inner, (*here, name))


def at(value: Any, path: Path) -> Any:
    """What stands at `path`."""
    for step in path:
        value = value[step]
    return value


def lists(value: Any, here: Path = ()) -> Iterator[Path]:
    """The places of all lists in `value` that hold something."""
    if isinstance(value, list) and value:
        yield here
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, inner in members:
        yield from lists(inner, (*here, name))


def _exchanged(value: Any, pairs: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        return pairs.get(plain_text(value), value)
    if isinstance(value, list):
        return [_exchanged(each, pairs) for each in value]
    if isinstance(value, dict):
        return {name: _exchanged(inner, pairs) for name, inner in value.items()}
    return value
