"""Whether results are about what was asked: the words of the query in their titles, texts and hosts. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Literal
from urllib.parse import unquote

from gateway.domains import readable_host, url_host
from providers._matching import Term, share, terms, vocabulary, words
from providers._words import Query, Result

FIRST = 5
"""Results that are judged; people and models read no further when these are beside the point."""

HIGH = 0.45
MEDIUM = 0.20

ELSEWHERE = 0.7
"""What a word counts that stands in the text or the host of a result, but not in its title."""


@dataclass(frozen=True, slots=True)
class Judged:
    """How well results fit a query: `score` is between 0 and 1, and `level` what it amounts to.

    `related` are those of all results, in their order, that share at least one word with the query: in title, text or
    address, of which the path, too often an echo of the query, counts for nothing else.
    """

    level: Literal["high", "medium", "low"]
    score: float
    related: tuple[Result, ...]


def judge(query: Query, rows: Sequence[Result]) -> Judged:
    """`rows` by the words of `query`: the mean over the first five of the part of its words that each has.

    No rows are low. A query of which nothing can be compared doubts nothing.
    """
    asked = terms(query.text)
    if not asked:
        return Judged("high", 1.0, tuple(rows))
    wanted = words(query.text)
    read = [_read(row) for row in rows]
    first = [_score(asked, *each) for each in read[:FIRST]]
    score = round(fmean(first), 2) if first else 0.0
    level: Literal["high", "medium", "low"] = "high" if score >= HIGH else "medium" if score >= MEDIUM else "low"
    related = (
        row
        for row, (_, anywhere) in zip(rows, read, strict=True)
        if not wanted.isdisjoint(anywhere) or share(wanted, unquote(row.url))
    )
    return Judged(level, score, tuple(related))


def _read(row: Result) -> tuple[frozenset[str], frozenset[str]]:
    """The words of the title, and those of title, text and host."""
    title = vocabulary(row.title)
    host = readable_host(url_host(row.url))
    return title, title | vocabulary(row.content or row.snippet) | vocabulary(host)


def _score(asked: Sequence[Term], title: frozenset[str], anywhere: frozenset[str]) -> float:
    found = sum(ELSEWHERE * _found(term, anywhere) + (1 - ELSEWHERE) * _found(term, title) for term in asked)
    return found / len(asked)


def _found(term: Term, among: frozenset[str]) -> float:
    """How much of `term` is `among` the words of a text: all of it, or the part of its parts that are."""
    whole, *parts = term
    if whole in among:
        return 1.0
    return sum(part in among for part in parts) / len(parts) if parts else 0.0
