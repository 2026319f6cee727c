"""Whether results are about what was asked: the words of the query in their titles, texts and hosts. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Literal

from gateway.domains import readable_host, url_host
from providers._matching import Term, terms, vocabulary
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

    `related` are those of all results, in their order, that share at least one word with the query.
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
    scores = [_score(asked, row) for row in rows]
    first = scores[:FIRST]
    score = round(fmean(first), 2) if first else 0.0
    level: Literal["high", "medium", "low"] = "high" if score >= HIGH else "medium" if score >= MEDIUM else "low"
    return Judged(level, score, tuple(row for row, part in zip(rows, scores, strict=True) if part))


def _score(asked: Sequence[Term], row: Result) -> float:
    title = vocabulary(row.title)
    anywhere = title | vocabulary(row.content or row.snippet) | vocabulary(readable_host(url_host(row.url)))
    found = sum(ELSEWHERE * _found(term, anywhere) + (1 - ELSEWHERE) * _found(term, title) for term in asked)
    return found / len(asked)


def _found(term: Term, words: frozenset[str]) -> float:
    """How much of `term` is among `words`: all of it, or the part of its parts that are."""
    whole, *parts = term
    if whole in words:
        return 1.0
    return sum(part in words for part in parts) / len(parts) if parts else 0.0
