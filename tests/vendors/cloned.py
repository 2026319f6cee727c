"""A vendor played from its own recordings: the rows of its first good reply, about whatever is asked."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

from providers._reading import plain_text
from tests.vendors.plays import RECORDINGS, Request

QUERY_NAMES = ("q", "query", "search_query", "srsearch", "search_queries", "messages", "input")
"""Members of requests in which vendors take the query."""

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
        if isinstance(first, dict) and {title, url} & {plain_text(each) for each in _strings(first)}:
            return Clone(body, path, case["headers"], title, url, text)
    raise KeyError(f"{provider}: write how it is played into tests/vendors/successes.py or engines.py")


def what_is_asked(request: Request) -> tuple[str, list[str]]:
    """The query of any vendor's request, and the hosts that it names in lists of its own."""
    fields: dict[str, Any] = dict(parse_qs(urlsplit(request.path).query))
    try:
        told = request.json
        fields |= told if isinstance(told, dict) else {}
    except ValueError:
        fields |= parse_qs(request.body.decode())
    for name in QUERY_NAMES:
        if texts := list(_strings(fields.get(name))):
            return texts[-1], list(_hosts(fields))
    return max(_strings(fields), key=len, default=""), list(_hosts(fields))


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


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _strings(inner)


def _hosts(value: Any, wanted: bool = False) -> Iterator[str]:
    """Hosts in members that are called after domains or sites, but for those to be left out."""
    if isinstance(value, str) and wanted and not value.startswith("-"):
        yield value
    elif isinstance(value, list):
        for each in value:
            yield from _hosts(each, wanted)
    elif isinstance(value, dict):
        for name, inner in value.items():
            low = name.lower()
            yield from _hosts(inner, (wanted or "domain" in low or "site" in low) and "exclude" not in low)


def _exchanged(value: Any, pairs: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        return pairs.get(plain_text(value), value)
    if isinstance(value, list):
        return [_exchanged(each, pairs) for each in value]
    if isinstance(value, dict):
        return {name: _exchanged(inner, pairs) for name, inner in value.items()}
    return value
