"""What is sent to a vendor that is a table: JSON in which `{placeholders}` stand for the query's parts. Pure.

A text that is one placeholder takes its value with its type; in any other text it stands as words, the hosts of a list
joined by commas. In a list, an element that names a list of hosts stands for one element a host. What has no value is
left out: a member, an element, and an object or list of which nothing is left. `{{` and `}}` are braces.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Collection, Iterator, Mapping
from datetime import datetime
from typing import Final, NamedTuple
from urllib.parse import quote

from providers._sections import Findings, Unfit, did_you_mean, shown

HOSTS = ("include_domains", "exclude_domains")
NAMES = ("query", "max_results", "key", "freshness", *HOSTS)
"""Placeholders; beside these `after:` with the form of a date, and `options.` with the name of one."""

MOST_LEVELS = 32
_SIGNS = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")
_DATE = re.compile(r"(?:[^%]|%[YymdHMSjBbz%])*%[YymdHMSjBbz](?:[^%]|%[YymdHMSjBbz%])*")

Values = Mapping[str, object]


class Slot(NamedTuple):
    """A place for a value."""

    name: str


class _Absent:
    """What stands for a member that is left out."""


ABSENT: Final = _Absent()


@functools.lru_cache(maxsize=1024)  # each request asks for the same few
def parse(written: str) -> tuple[str | Slot, ...]:
    """The pieces of a text. Raises `Unfit` for a brace that stands alone."""
    pieces: list[str | Slot] = []
    end = 0
    for sign in _SIGNS.finditer(written):
        pieces.append(written[end : sign.start()])
        end = sign.end()
        if sign[0] in ("{", "}"):
            raise Unfit("holds a brace that belongs to no placeholder; {{ and }} stand for braces themselves")
        pieces.append(Slot(sign[1]) if sign[1] is not None else sign[0][0])
    pieces.append(written[end:])
    return tuple(piece for piece in pieces if piece)


def _slots(written: str) -> list[str]:
    return [piece.name for piece in parse(written) if isinstance(piece, Slot)]


# ---------------------------------------------------------------------------------------------------------------------
# checking


def check(template: object, place: str, known: Collection[str], findings: Findings, level: int = 0) -> Iterator[str]:
    """The names of all placeholders in `template`, every mistake told.

    `known` are the options' placeholders, `options.depth`.
    """
    if isinstance(template, str):
        yield from _checked(template, place, known, findings)
    elif level > MOST_LEVELS:
        findings.wrong(place, f"has more than {MOST_LEVELS} levels")
    elif isinstance(template, list):
        for index, each in enumerate(template):
            if isinstance(each, str) and len([slot for slot in names(each) if slot in HOSTS]) > 1:
                findings.wrong(f"{place}[{index}]", "names two lists; an element stands for one host")
            yield from check(each, f"{place}[{index}]", known, findings, level + 1)
    elif isinstance(template, dict):
        for index, (name, each) in enumerate(template.items()):
            inner = f"{place}.{shown(name, index)}"
            if not _is_text(name):
                findings.wrong(inner, "has a name that is no text")
            yield from check(each, inner, known, findings, level + 1)
        for name in getattr(template, "repeated", ()):
            findings.wrong(f"{place}.{shown(name, list(template).index(name))}", "stands there more than once")
    elif isinstance(template, float) and not math.isfinite(template):
        findings.wrong(place, "is a number that JSON does not have")


def names(written: str) -> list[str]:
    """The names of the placeholders of one text; none when it cannot be read."""
    try:
        return _slots(written)
    except Unfit:
        return []


def _checked(written: str, place: str, known: Collection[str], findings: Findings) -> Iterator[str]:
    if not _is_text(written):
        findings.wrong(place, "holds signs that are no text")
        return
    try:
        slots = _slots(written)
    except Unfit as unfit:
        findings.wrong(place, str(unfit))
        return
    for name in slots:
        if name.startswith("after:"):
            if not _DATE.fullmatch(name.removeprefix("after:")):
                findings.wrong(place, "{after:…} needs the form of a date, such as {after:%Y-%m-%d}")
                continue
        elif name not in NAMES and name not in known:
            everything = (*NAMES, "after:%Y-%m-%d", *known)
            near = did_you_mean(name, everything) or f"; there are: {', '.join(everything)}"
            what = f"{{{name}}}" if re.fullmatch(r"[a-z_]{1,20}(\.[a-z_]{1,20})?", name) else "what is written there"
            findings.wrong(place, f"no placeholder is called {what}{near}")
            continue
        yield name


def _is_text(written: str) -> bool:
    """Whether it can be sent: a file may spell half of a character."""
    try:
        written.encode()
    except UnicodeEncodeError:
        return False
    return True


# ---------------------------------------------------------------------------------------------------------------------
# filling


def fill(template: object, values: Values) -> object:
    """`template` with its values; `ABSENT` when it has none."""
    if isinstance(template, str):
        return _filled(template, values)
    if isinstance(template, list):
        elements = [element for each in template for element in _elements(each, values)]
        return elements if elements or not template else ABSENT
    if isinstance(template, dict):
        filled = ((name, fill(each, values)) for name, each in template.items())
        members = {name: value for name, value in filled if value is not ABSENT}
        return members if members or not template else ABSENT
    return template


def _filled(written: str, values: Values) -> object:
    pieces = parse(written)
    if len(pieces) == 1 and isinstance(pieces[0], Slot):
        value = values.get(pieces[0].name)
        return ABSENT if value is None else list(value) if isinstance(value, tuple) else value
    told = [piece if isinstance(piece, str) else values.get(piece.name) for piece in pieces]
    return ABSENT if None in told else "".join(as_text(each) for each in told)


def _elements(template: object, values: Values) -> Iterator[object]:
    lists = [name for name in _slots(template) if name in HOSTS] if isinstance(template, str) else []
    hosts = values.get(lists[0]) if lists else None
    for each in hosts if isinstance(hosts, tuple) else (None,):
        value = fill(template, {**values, lists[0]: each} if lists else values)
        if value is not ABSENT:
            yield value


def as_text(value: object) -> str:
    """A value where only text can stand."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return ",".join(as_text(each) for each in value)
    return str(value)


def pairs(template: Mapping[str, object], values: Values) -> list[tuple[str, str]]:
    """The parameters of an address; one that is written as a list stands there as often as it has elements."""
    found: list[tuple[str, str]] = []
    for name, each in template.items():
        value = fill(each, values)
        several = value if isinstance(each, list) and isinstance(value, list) else [value]
        found += [(name, as_text(one)) for one in several if one is not ABSENT]
    return found


def segments(path: str, values: Values) -> str:
    """The path of an address; a part without a value is left out."""
    parts = (_filled(part, values) if "{" in part or "}" in part else None for part in path.split("/"))
    told = zip(path.split("/"), parts, strict=True)
    return "/".join(part if value is None else _quoted(as_text(value)) for part, value in told if value is not ABSENT)


def _quoted(text: str) -> str:
    # a part that is nothing but dots is a step up, however it is spelled; with a blank behind it is not
    return quote(text if text.strip(".") else f"{text} ", safe="")


def date(slot: str, since: datetime) -> str:
    """What `{after:…}` becomes."""
    return since.strftime(slot.removeprefix("after:"))
