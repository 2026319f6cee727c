"""The text of a query: cleaned, and its `site:` operators made into domain lists. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import unquote

from gateway.domains import readable_host, split_host

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_SURROGATE = re.compile(r"[\ud800-\udfff]")
# Invisible, and no part of any word. Joiners (U+200C, U+200D) are: in Persian, in Hindi, in emoji.
_INVISIBLE = re.compile(r"[\u00ad\u200b\u200e\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f\ufeff]")

_QUOTED = re.compile(r'("[^"]*"|“[^“”]*”)')
_QUOTE = "\x00"  # a quoted phrase while operators are looked for; `clean` has left no such character in the text
_TAKEN = "\x01"  # an operator that was taken out

_NOT = re.compile(r"(?<!\S)NOT\s+(?=\(?\s*site[:：])", re.IGNORECASE)
_NOT_GROUP = re.compile(r"(?<![^\s(])-\(([^()\x00]*)\)")
# Chinese and Japanese put no space before it, and their keyboards have a wide colon.
# (only the word is without case: to fold the range of characters before it would take ten milliseconds)
_OPERATOR = re.compile(r"(?<![^\s(|\x00\u2e80-\uffef])(-?)(?i:site)[:：]([^\s\x00|]+)")
_OR = r"(?:OR|AND|\|{1,2})"
_RUN = re.compile(rf"{_TAKEN}(?:\s*{_OR}?\s*{_TAKEN})+")
_GROUP = re.compile(rf"\(\s*{_TAKEN}\s*\)")
_DANGLING = re.compile(rf"(?:(?:(?<!\S)(?:OR|AND)|\|{{1,2}})\s*)?{_TAKEN}(?:\s*(?:(?:OR|AND)(?!\S)|\|{{1,2}}))?")
_BESIDE_BRACKET = re.compile(rf"(?<=\(){_TAKEN}\s*|\s*{_TAKEN}(?=\))")
_DEEPEST = 8  # brackets around brackets; people write one, and each costs a pass
_PATH = re.compile(r"[/\\?#&=+]+")


@dataclass(frozen=True, slots=True)
class Words:
    """A query without its `site:` operators: the words, and the hosts they named, canonical, in order."""

    words: str
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()


def clean(text: str) -> str:
    """`text` on one line: controls are spaces, lone surrogates U+FFFD, invisible signs gone, runs of spaces one."""
    text = _INVISIBLE.sub("", _SURROGATE.sub("\ufffd", _CONTROL.sub(" ", text)))
    return " ".join(text.split())


def take_out(text: str) -> Words:
    """Read the unquoted `site:host` and `-site:host` of a clean query, with the `OR` and the brackets around them.

    `site:host/path` leaves the path as words. A query that was nothing else keeps the hosts as its words. What only
    looks like an operator (`site:` before no host) stays.
    """
    include: dict[str, None] = {}
    exclude: dict[str, None] = {}

    def take(found: re.Match[str]) -> str:
        value, after = _unbracketed(found[2])
        host, rest = split_host(value.rstrip(",.;:!"))
        if host is None:
            return found[0]
        (exclude if found[1] else include)[host] = None
        path = " ".join(piece for piece in _PATH.split(clean(unquote(rest))) if piece.strip("*"))
        return f"{_TAKEN} {path}{after}" if path else f"{_TAKEN}{after}"

    pieces = _QUOTED.split(text)
    bare = _NOT_GROUP.sub(_negated, _NOT.sub("-", _QUOTE.join(pieces[::2])))
    bare = _OPERATOR.sub(take, bare)
    if not include and not exclude:
        return Words(text)
    for _ in range(_DEEPEST):
        bare = _GROUP.sub(_TAKEN, _RUN.sub(_TAKEN, bare))
    bare = _DANGLING.sub(_TAKEN, bare)
    bare = _BESIDE_BRACKET.sub("", bare).replace(_TAKEN, " ")
    quoted = iter(pieces[1::2])
    words = clean("".join(next(quoted) if sign == _QUOTE else sign for sign in bare))
    if not words.strip("()| "):
        words = " ".join(readable_host(host) for host in include or exclude)
    return Words(words, tuple(include), tuple(exclude))


def _negated(group: re.Match[str]) -> str:
    """`-(site:a OR site:b)` as `-site:a -site:b`; any other group as it stands."""
    members = [word for word in group[1].split() if word not in ("OR", "|")]
    if members and all(word.lower().startswith(("site:", "site：")) for word in members):
        return " ".join(f"-{word}" for word in members)
    return group[0]


def _unbracketed(value: str) -> tuple[str, str]:
    """`value` without the closing brackets that were opened before it, and these."""
    spare = value.count(")") - value.count("(")
    end = len(value)
    while spare > 0 and value[end - 1] == ")":
        end, spare = end - 1, spare - 1
    return value[:end], value[end:]
