"""From what a walk came to, to the answers its callers get."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence

from gateway import answer
from gateway.answer import Body
from gateway.steps import Skip, Step, Walked, skipped, verdict
from providers import Query

SHORTENED = "long texts were shortened; ask with a smaller max_results to read more of each"


def found(walked: Walked, winner: str, query: Query, max_output_chars: int) -> tuple[Body, list[Body]]:
    """The answer of a walk that somebody won, and all its rows untrimmed."""
    rows, written, truncated = answer.text_parts(
        walked.rows[: query.max_results], walked.answer, winner, max_output_chars
    )
    body = answer.body(
        verdict="found",
        chain=[step.wire() for step in walked.steps],
        search_id=new_id(),
        results=rows,
        answer=written,
        provider_used=winner,
        note=answer.sentence([*walked.notes, SHORTENED if truncated else ""]),
        extra={
            "filters": dict(walked.filters),
            "truncated": len(written) < len(walked.answer),
            "relevance": walked.relevance,
        },
    )
    return body, [answer.whole_row(row, winner) for row in walked.rows]


def nothing(steps: Sequence[Step], query: Query, retry_after_s: int | None) -> Body:
    """The answer of a walk that nobody won."""
    came_to = verdict(steps, found=False)
    return answer.body(
        verdict=came_to,
        chain=[step.wire() for step in steps],
        search_id=new_id(),
        note=answer.no_results_note(came_to, steps, query, retry_after_s),
        extra={"retry_after_s": None if came_to == "empty" else retry_after_s},
    )


def cut_off(steps: Iterable[Step], order: Iterable[str]) -> list[Step]:
    """The chain of a caller whose time is up before the search that it joined is over; `order` names everyone."""
    chain = list(steps)
    considered = {step.provider for step in chain}
    return chain + [skipped(name, Skip.BUDGET_EXHAUSTED) for name in order if name not in considered]


def internal_error() -> tuple[str, Body]:
    """The answer when the fault is ours, and the id under which the log tells which."""
    incident = secrets.token_hex(4)
    words = f"Search failed: the gateway itself had a fault; its log explains incident {incident}."
    return incident, failed(answer.gateway_step("internal_error", f"incident {incident}"), words)


def failed(chain: list[Body], words: str, retry_after_s: int | None = None) -> Body:
    """The answer of a search in which nobody was considered."""
    return answer.body(
        verdict="failed", chain=chain, search_id=new_id(), note=words, extra={"retry_after_s": retry_after_s}
    )


def own_copy(body: Body, notes: Sequence[str]) -> Body:
    """One caller's own answer: its search id, its notes. Results are shared, and nobody changes them."""
    meta = {**body["meta"], "search_id": new_id()}
    note = meta.get("note", "")
    if notes:
        # the words of an answer without results come first: hosts show the beginning
        ordered = [note, *notes] if meta["verdict"] != "found" else [*notes, note]
        meta["note"] = answer.sentence(ordered)
    return {**body, "meta": meta}


def from_cache(body: Body, age_s: int, notes: Sequence[str], chain: list[Body] | None = None) -> Body:
    """A kept answer given again; with today's `chain` when it stands in for a search that failed now."""
    own = own_copy(body, notes)
    own["meta"] |= {"cache_hit": True, "cache_age_s": age_s}
    if chain is not None:
        own["meta"] |= {"stale": True, "fallback_chain": chain}
    return own


def again_empty(body: Body, age_s: int, notes: Sequence[str]) -> Body:
    """The honest "no results" of a moment ago, for an agent that asks the same again."""
    own = from_cache(body, age_s, ())
    again = f"Already searched {age_s} s ago: the same query will not find more now."
    own["meta"]["note"] = answer.sentence([f"{own['meta']['note']} {again}", *notes])
    return own


def new_id() -> str:
    """A search id: 128 random bits."""
    return secrets.token_hex(16)
