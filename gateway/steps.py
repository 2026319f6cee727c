"""One line of the `fallback_chain`, and what all lines add up to. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal

from providers._words import Outcome, Result

Verdict = Literal["found", "empty", "incomplete", "failed"]
Level = Literal["high", "medium", "low"]

UNGROUNDED = "ungrounded"
OFF_SITE = "off_site"
UNRELATED = "unrelated"
URLS_TOO_LONG = "urls_too_long"
LOW_RELEVANCE = "low_relevance"
"""An outcome of ours: there were results, but hardly about what was asked."""

_SKIPPED = "skipped:"


class Skip(StrEnum):
    """Why we decided not to ask. The failing outcomes are reasons too: the provider still rests because of one."""

    QUOTA_LOCAL = "quota_local"
    LOCAL_RATE = "local_rate"
    PROBING = "probing"
    BUDGET_EXHAUSTED = "budget_exhausted"
    STATE_UNAVAILABLE = "state_unavailable"
    LANGUAGE = "language"


@dataclass(frozen=True, slots=True)
class Step:
    """One line of the chain. `key` is the lane's number where a provider has several keys.

    `enforced` says whether the provider itself was held to the domain lists. `ready_at` is when a skipped provider
    could be asked, seconds since the epoch, None when that is not known or no time helps.
    """

    provider: str
    outcome: str
    detail: str = ""
    key: int | None = None
    elapsed_ms: int | None = None
    enforced: bool = True
    ready_at: float | None = None

    @property
    def skip(self) -> str:
        """Why nobody was asked; "" when somebody was."""
        return self.outcome.removeprefix(_SKIPPED) if self.outcome.startswith(_SKIPPED) else ""

    @property
    def answered(self) -> bool:
        """Whether this provider honestly looked, and had nothing that could be used."""
        return self.outcome == LOW_RELEVANCE or (self.outcome == Outcome.NO_RESULTS and self.detail != UNGROUNDED)

    @property
    def conclusive(self) -> bool:
        """Whether this step proves that this provider has nothing: that holds of one without pages in the language."""
        if self.skip == Skip.LANGUAGE:
            return True
        return self.answered and self.detail != URLS_TOO_LONG and (self.detail != OFF_SITE or self.enforced)

    def wire(self) -> dict[str, Any]:
        """The step as callers see it."""
        line: dict[str, Any] = {"provider": self.provider, "outcome": self.outcome}
        if self.key is not None:
            line["key"] = f"#{self.key}"
        if self.detail:
            line["detail"] = self.detail[:200]
        if self.elapsed_ms is not None:
            line["elapsedMs"] = self.elapsed_ms
        return line


def skipped(provider: str, reason: str, detail: str = "", ready_at: float | None = None) -> Step:
    """The step of a provider that was not asked: `reason` is a `Skip`, or the outcome because of which it rests."""
    return Step(provider, _SKIPPED + reason, detail, ready_at=ready_at)


def whole_seconds(until: float, now: float) -> int:
    """The time left in whole seconds, rounded up; at least 1."""
    return max(1, math.ceil(until - now))


def verdict(steps: Iterable[Step], *, found: bool) -> Verdict:
    """What the whole search came to."""
    chain = list(steps)
    if found:
        return "found"
    if not any(step.answered for step in chain):
        return "failed"
    return "empty" if all(step.conclusive for step in chain) else "incomplete"


@dataclass(frozen=True, slots=True)
class Walked:
    """What one walk came to. `rows` are the winner's, filtered but untrimmed; `winner` is None when nobody won.

    `retry_after_s` is whole seconds until the soonest of those considered can be asked again. `relevance` is how much
    the rows are about the query, where that was judged.
    """

    steps: tuple[Step, ...]
    winner: str | None = None
    rows: tuple[Result, ...] = ()
    answer: str = ""
    notes: tuple[str, ...] = ()
    filters: Mapping[str, Any] = field(default_factory=dict)
    retry_after_s: int | None = None
    may_store: bool = True
    relevance: Level | None = None
