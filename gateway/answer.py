"""The wire shape of an answer, its words, and how much text fits. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from gateway.filters import MAX_URL
from gateway.steps import Skip, Step, Verdict
from providers import Query, Result
from providers._cutting import cut

Body: TypeAlias = dict[str, Any]

_STEP: Body = {
    "type": "object",
    "properties": {
        "provider": {"type": "string"},
        "outcome": {"type": "string", "description": "what the reply meant, or skipped:<why nobody was asked>"},
        "key": {"type": "string", "description": "which of several keys, as #1, #2"},
        "detail": {"type": "string", "maxLength": 200},
        "elapsedMs": {"type": "integer", "minimum": 0},
    },
    "required": ["provider", "outcome"],
}
_FILTER: Body = {
    "type": "object",
    "properties": {
        "by": {"type": "string", "enum": ["provider", "gateway", "nobody"]},
        "dropped": {"type": "integer", "minimum": 0},
    },
    "required": ["by", "dropped"],
}

OUTPUT_SCHEMA: Body = {
    "type": "object",
    "properties": {
        "results": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "title": {"type": "string", "minLength": 1, "maxLength": 300},
                    "url": {"type": "string", "pattern": "^[hH][tT][tT][pP][sS]?://", "maxLength": 2048},
                    "snippet": {"type": "string"},
                    "content": {"type": "string"},
                    "publishedDate": {"type": "string", "description": "ISO 8601"},
                    "provider": {"type": "string"},
                    "truncated": {"type": "boolean"},
                },
                "required": ["title", "url", "provider"],
            },
        },
        "answer": {"type": "string", "description": "a written answer, from a provider that writes one"},
        "meta": {
            "type": "object",
            "properties": {
                "verdict": {"type": "string", "enum": ["found", "empty", "incomplete", "failed"]},
                "provider_used": {"type": "string"},
                "fallback_chain": {"type": "array", "items": _STEP},
                "cache_hit": {"type": "boolean"},
                "elapsed_ms": {"type": "integer", "minimum": 0},
                "search_id": {"type": "string", "pattern": "^[0-9a-f]{32}$"},
                "note": {"type": "string"},
                "retry_after_s": {"type": "integer", "minimum": 1},
                "cache_age_s": {"type": "integer", "minimum": 0},
                "stale": {"type": "boolean"},
                "truncated": {"type": "boolean"},
                "relevance": {"type": "string", "enum": ["high", "medium", "low"]},
                "filters": {
                    "type": "object",
                    "properties": {"include_domains": _FILTER, "exclude_domains": _FILTER, "freshness": _FILTER},
                },
                "merged_from": {"type": "array", "items": {"type": "string"}},
            },
            "required": ["verdict", "fallback_chain", "cache_hit", "elapsed_ms", "search_id"],
        },
    },
    "required": ["results", "meta"],
}
"""What every answer satisfies, errors included."""


PASSING = (Skip.PROBING, Skip.BUDGET_EXHAUSTED, Skip.LOCAL_RATE)
"""Troubles that are over by themselves in a moment, without anybody knowing when."""


def is_error(verdict: Verdict) -> bool:
    """Whether the search did not come to an end that an agent may rely on."""
    return verdict in ("incomplete", "failed")


def dropped_for_length(rows: int) -> str:
    """The note on rows whose address is too long to be used."""
    return f"{'1 result' if rows == 1 else f'{rows} results'} dropped: the URL is over {MAX_URL} characters"


def sentence(notes: Iterable[str]) -> str:
    """Several notes as one string, each said once."""
    return "; ".join(dict.fromkeys(note for note in notes if note))


# ---------------------------------------------------------------------------------------------------------------------
# text that fits


def shares(lengths: Sequence[int], room: int) -> list[int]:
    """How much of each text may stay so that all fit into `room` characters.

    Short ones stay whole; the long ones share what is left in proportion to their length.
    """
    if sum(lengths) <= room:
        return list(lengths)
    granted = [0] * len(lengths)
    waiting = sorted(range(len(lengths)), key=lambda at: lengths[at])
    while waiting and lengths[waiting[0]] <= room // len(waiting):
        at = waiting.pop(0)
        granted[at] = lengths[at]
        room -= lengths[at]
    total = sum(lengths[at] for at in waiting)
    for at in waiting:
        granted[at] = room * lengths[at] // total
    return granted


def cut_at_sentence(text: str, size: int) -> str:
    """The longest head of `text` within `size` characters that ends with a sentence; else with a word."""
    if len(text) <= size:
        return text
    head = text[:size]
    ends = max(head.rfind(stop) + len(stop.rstrip()) for stop in (". ", "! ", "? ", ".\n", "。", "！", "？", "\n"))
    return head[:ends].rstrip() if ends > size // 2 else cut(text, size)


def text_parts(results: Sequence[Result], answer: str, provider: str, room: int) -> tuple[list[Body], str, bool]:
    """The rows and the written answer as they are sent, within `room` characters of text; whether any was cut."""
    written = cut_at_sentence(answer, room * 2 // 3)
    texts = [result.content or result.snippet for result in results]
    granted = shares([len(text) for text in texts], room - len(written))
    rows = [
        _row(result, text, cut(text, size), provider)
        for result, text, size in zip(results, texts, granted, strict=True)
    ]
    return rows, written, len(written) < len(answer) or any("truncated" in row for row in rows)


def whole_row(result: Result, provider: str) -> Body:
    """One row with all its text."""
    text = result.content or result.snippet
    return _row(result, text, text, provider)


def _row(result: Result, text: str, shown: str, provider: str) -> Body:
    row: Body = {"title": result.title, "url": result.url}
    if shown:
        row["content" if result.content else "snippet"] = shown
    if result.published:
        row["publishedDate"] = result.published
    row["provider"] = provider
    if len(shown) < len(text):
        row["truncated"] = True
    return row


# ---------------------------------------------------------------------------------------------------------------------
# words for answers without results


def no_results_note(verdict: Verdict, steps: Sequence[Step], query: Query, retry_after_s: int | None) -> str:
    """What the reader of an answer without results should know, and the next useful step."""
    if verdict == "empty":
        looked = _names([step for step in steps if step.answered])
        return f"No results: {looked} searched and found nothing. {_other_words(query)}"
    again = _again(steps, retry_after_s)
    failed = ", ".join(f"{step.provider} {step.outcome}" for step in steps if not step.conclusive)
    if verdict == "incomplete":
        looked = _names([step for step in steps if step.answered])
        return (
            f"Search incomplete: {looked} found nothing, but not everyone could answer ({failed}). "
            f"Do not conclude that nothing exists. {again}, or use other words."
        )
    failed = ", ".join(f"{step.provider} {step.outcome}" for step in steps)
    return f"Search failed: nobody could answer ({failed}). This says nothing about what exists. {again}."


def _again(steps: Sequence[Step], retry_after_s: int | None) -> str:
    if retry_after_s is not None:
        return f"Try again in {retry_after_s} s"
    passing = any((step.skip or step.outcome) in PASSING for step in steps)
    return "Try again" if passing else "Ask the operator to look at the status"


def _other_words(query: Query) -> str:
    held = [
        name
        for name, value in (
            ("freshness", query.freshness),
            ("include_domains", query.include_domains),
            ("exclude_domains", query.exclude_domains),
        )
        if value
    ]
    return f"Try again without {' and '.join(held)}, or other words." if held else "Try other or fewer words."


def _names(steps: Sequence[Step]) -> str:
    return ", ".join(dict.fromkeys(step.provider for step in steps))


# ---------------------------------------------------------------------------------------------------------------------
# whole answers


def body(
    *,
    verdict: Verdict,
    chain: list[Body],
    search_id: str,
    results: list[Body] | None = None,
    answer: str = "",
    provider_used: str | None = None,
    note: str = "",
    extra: Mapping[str, Any] | None = None,
) -> Body:
    """One answer, but for `elapsed_ms`, which the caller's own clock sets last. `extra`: further members of `meta`."""
    meta: Body = {"verdict": verdict}
    if provider_used is not None:
        meta["provider_used"] = provider_used
    meta |= {"fallback_chain": chain, "cache_hit": False, "elapsed_ms": 0, "search_id": search_id}
    if note:
        meta["note"] = note
    meta |= {name: value for name, value in (extra or {}).items() if value not in (None, {}, False)}
    whole: Body = {"results": results or [], "meta": meta}
    if answer:
        whole["answer"] = answer
    return whole


def gateway_step(outcome: str, detail: str) -> list[Body]:
    """The chain of an answer for which nobody was considered."""
    return [{"provider": "gateway", "outcome": outcome, "detail": detail[:200]}]
