"""Who was considered in one search and what came of each: the `fallback_chain` while it grows, and its sum."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal

import anyio

from gateway.keys import Candidate, Lane
from providers._words import Outcome, Reply

Verdict = Literal["found", "empty", "incomplete", "failed"]

UNGROUNDED = "ungrounded"
OFF_SITE = "off_site"
URLS_TOO_LONG = "urls_too_long"


class Skip(StrEnum):
    """Why we decided not to ask. The failing outcomes are reasons too: the provider still rests because of one."""

    QUOTA_LOCAL = "quota_local"
    LOCAL_RATE = "local_rate"
    PROBING = "probing"
    BUDGET_EXHAUSTED = "budget_exhausted"
    STATE_UNAVAILABLE = "state_unavailable"


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
    def skipped(self) -> bool:
        return self.outcome.startswith("skipped:")

    @property
    def answered(self) -> bool:
        """Whether this provider honestly looked, and had nothing that could be used."""
        return self.outcome == Outcome.NO_RESULTS and self.detail != UNGROUNDED

    @property
    def conclusive(self) -> bool:
        """Whether this step proves that this provider has nothing."""
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
    return Step(provider, f"skipped:{reason}", detail, ready_at=ready_at)


def asked(lane: Lane, candidate: Candidate, reply: Reply, *, enforced: bool = True) -> Step:
    """The step of a lane that was asked."""
    return Step(
        lane.provider,
        reply.outcome.value,
        reply.detail,
        key=lane.number if len(candidate.lanes) > 1 else None,
        elapsed_ms=reply.elapsed_ms,
        enforced=enforced,
    )


def seconds(until: float, now: float) -> str:
    """The time left, as a skip's detail says it: whole seconds, rounded up."""
    return f"{max(1, math.ceil(until - now))}s"


class Audit:
    """The chain of one search, growing. `told` wakes whoever follows it."""

    def __init__(self) -> None:
        self._steps: list[Step] = []
        self.history: list[Step] = []
        """Every step ever added, also those that were replaced, and the winner's: what progress is made of."""
        self.told = anyio.Event()
        self.asking: str | None = None
        """Who is being considered now."""

    def add(self, step: Step) -> None:
        self._steps.append(step)
        self._tell(step)

    def replace(self, old: Step, new: Sequence[Step]) -> None:
        """Put what happened in the place of a skip."""
        at = self._steps.index(old)
        self._steps[at : at + 1] = new
        for step in new:
            self._tell(step)

    def won(self, step: Step) -> None:
        """Note the winner, who is not in the chain."""
        self._tell(step)

    def _tell(self, step: Step) -> None:
        self.history.append(step)
        told, self.told = self.told, anyio.Event()
        told.set()

    def wake(self) -> None:
        """Wake the followers without news."""
        self.told.set()

    def __iter__(self) -> Iterator[Step]:
        return iter(self._steps)

    def __len__(self) -> int:
        return len(self._steps)


def verdict(steps: Iterable[Step], *, found: bool) -> Verdict:
    """What the whole search came to."""
    chain = list(steps)
    if found:
        return "found"
    if chain and all(step.conclusive for step in chain):
        return "empty"
    return "incomplete" if any(step.answered for step in chain) else "failed"
