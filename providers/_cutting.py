"""Fitting a query into what a vendor takes, at a word or character boundary."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import replace

from providers._words import Limits, Query

LEAST_WORDS = 32
"""Characters of the caller's own words that must be left beside operators."""


def cut(text: str, size: int) -> str:
    """The longest head of `text` with at most `size` characters that ends at a word, or else at a whole character.

    A word is given up only when that costs less than half of the room. Combining marks, variation selectors and joined
    emoji stay with the character they belong to.
    """
    if len(text) <= size:
        return text
    if size <= 0:
        return ""
    end = size
    while end > 0 and _continues(text, end):
        end -= 1
    head = text[:end]
    if not text[end].isspace():
        space = max(head.rfind(" "), head.rfind("\u3000"))
        if space > size // 2:
            head = head[:space]
    return head.rstrip()


def _continues(text: str, at: int) -> bool:
    """Whether cutting before `text[at]` would tear one visible character apart."""
    here, before = text[at], text[at - 1]
    if here == "\u200d" or before == "\u200d" or unicodedata.category(here) in ("Mn", "Me", "Mc"):
        return True
    if "\U0001f3fb" <= here <= "\U0001f3ff" or "\U000e0020" <= here <= "\U000e007f":
        return True  # skin tones; the invisible letters of regional flags
    if _is_flag_part(here) and _is_flag_part(before):
        run = 0
        while run < at and _is_flag_part(text[at - 1 - run]):
            run += 1
        return run % 2 == 1
    return False


def _is_flag_part(character: str) -> bool:
    return "\U0001f1e6" <= character <= "\U0001f1ff"


def width(text: str) -> int:
    """Characters of `text` as vendors count them to whom a Chinese, Japanese or Korean one is two."""
    return sum(_columns(character) for character in text)


def _columns(character: str) -> int:
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _fitting(text: str, columns: int) -> int:
    """How many characters from the start of `text` are at most `columns` wide together."""
    for count, character in enumerate(text):
        columns -= _columns(character)
        if columns < 0:
            return count
    return len(text)


def fit(query: Query, limits: Limits, name: str, operators: Sequence[str] = ()) -> tuple[Query, tuple[str, ...]] | None:
    """`query` with its words cut so that they and `operators` keep within `limits`, and a note when they were.

    Operators share the caps and are never cut. None when nothing, or beside operators fewer than 32 characters, of the
    caller's words would be left. The text that comes back holds the operators.
    """
    tail = "".join(f" {operator}" for operator in operators)
    words = query.text
    if limits.words is not None:
        room = limits.words - len(tail.split())
        words = " ".join(words.split()[: max(room, 0)]) if len(words.split()) > room else words
    if limits.query is not None and limits.wide_count_two:
        words = cut(words, _fitting(words, limits.query - width(tail)))
    elif limits.query is not None:
        words = cut(words, limits.query - len(tail))
    if words == query.text:
        return replace(query, text=words + tail), ()
    if not words or (operators and len(words) < LEAST_WORDS):
        return None
    return replace(query, text=words + tail), (f"{name}: the query was cut to {len(words)} characters",)


def site_operators(query: Query) -> list[str]:
    """The domain lists of `query` as search operators: `site:a OR site:b`, `-site:c`."""
    operators = [" OR ".join(f"site:{host}" for host in query.include_domains)] if query.include_domains else []
    return operators + [f"-site:{host}" for host in query.exclude_domains]
