"""May this lane be asked now? Rest, budget, trial and turn, looked at in the order of the contract, in one store."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import anyio
import anyio.lowlevel

from gateway import budgets, pace
from gateway.clock import Clock, Deadline
from gateway.cooldowns import HUMAN, Cooldowns
from gateway.keys import Candidate, Lane
from gateway.steps import Skip, Step, skipped, whole_seconds
from gateway.stores import Store, StoreUnavailable
from providers import Draft, HTTPProvider, Outcome, Query, Reply

TRIAL_GRACE_S = 5.0
"""A trial that is never ended ends by itself this long after the time limit of its call."""


@dataclass(frozen=True, slots=True)
class Visit:
    """One lane in one search, which will wait `patience_s` seconds at most for its turn."""

    candidate: Candidate
    lane: Lane
    query: Query
    deadline: Deadline
    patience_s: float
    even_if_resting: bool

    @property
    def adapter(self) -> HTTPProvider:
        return self.candidate.adapter_for(self.lane)

    def draft(self) -> Draft | Reply:
        return self.adapter.draft(self.query, self.lane.key)


@dataclass(frozen=True, slots=True)
class Ticket:
    """Leave to send `draft` at once. One unit of budget is taken; `trial` is to be ended, "" when there is none."""

    draft: Draft
    trial: str = ""


class Admission:
    """Lets visits in as far as one store's memory goes. Every method may raise `StoreUnavailable`."""

    def __init__(self, store: Store, cooldowns: Cooldowns, clock: Clock) -> None:
        self.cooldowns = cooldowns
        self._store = store
        self._clock = clock
        self._taken: dict[str, budgets.Taken] = {}  # how far this process has seen each go

    async def admit(self, visit: Visit) -> Ticket | Step | Reply:
        """A ticket; else the skip that says why not, or the reply of an adapter that has nothing sensible to send."""
        found = await self._look(visit)
        if isinstance(found, Step):
            return found
        draft = visit.draft()
        if isinstance(draft, Reply):
            return draft
        turn = await self._turn(visit)
        if isinstance(turn, Step):
            return turn
        if turn:
            await self._clock.sleep(turn / 1000)
            found = await self._look(visit)  # others have been asked in the meantime
            if isinstance(found, Step):
                return found
        ticket = Ticket(draft)
        if found.failing and not visit.even_if_resting:
            # begun after the wait, so that a trial lasts no longer than one call may
            with anyio.CancelScope(shield=True):  # one that nobody knows of would keep others out until it ends itself
                trial = await self.cooldowns.begin_trial(visit.lane, visit.candidate.timeout_s + TRIAL_GRACE_S)
            if trial is None:
                return skipped(visit.lane.provider, Skip.PROBING)
            ticket = replace(ticket, trial=trial)
        is_in = False
        try:
            spent = await self._reserve(visit.lane)
            is_in = spent is None
            return spent or ticket
        finally:
            if not is_in:
                await self.leave(ticket)

    async def follow(self, lane: Lane, reply: Reply) -> None:
        """Let the consequence of `reply` happen."""
        await self.cooldowns.follow(lane, reply)

    async def free_at(self, lanes: Sequence[Lane]) -> float | None:
        """When the first of `lanes` that rest now is free again, seconds since the epoch; None when no time helps."""
        return await self.cooldowns.free_at(lanes)

    async def leave(self, ticket: Ticket) -> None:
        """Whoever had `ticket` is done with it. Never raises: a trial that cannot be ended ends by itself."""
        if ticket.trial:
            with anyio.CancelScope(shield=True), suppress(StoreUnavailable):
                await self.cooldowns.end_trial(ticket.trial)

    async def _look(self, visit: Visit) -> Step | _Standing:
        """What is remembered of the lane, in two reads; or why it is not to be asked."""
        lane, now = visit.lane, self._clock.wall()
        if visit.deadline.left() <= 0:
            return skipped(lane.provider, Skip.BUDGET_EXHAUSTED)
        if not visit.even_if_resting and (rest := await self.cooldowns.of(lane)) is not None:
            if rest.why == Outcome.AUTH_FAILURE:
                return skipped(lane.provider, rest.why, "until_restart")
            helped = None if rest.why in HUMAN else rest.until
            return skipped(lane.provider, rest.why, f"{whole_seconds(rest.until, now)}s", helped)
        current = budgets.period(lane.budget, now)
        counter = budgets.counter(lane, current)
        trials, streaks = self.cooldowns.trials(lane), self.cooldowns.streaks(lane)
        counts = await self._store.counted([counter, *trials, *streaks])
        limit, used = lane.budget.limit, counts.get(counter, 0)
        taken = self._taken.get(lane.narrow)
        if taken is not None and taken.counter == counter and taken.units > used:
            # it came back without what it knew, and budgets would start again at nothing
            used = await self._store.count(counter, current.ends, by=0, at_least=taken.units)
        if limit is not None and used >= limit:
            return self._spent(lane, used, now)
        if not visit.even_if_resting and _any(counts, trials):
            return skipped(lane.provider, Skip.PROBING)
        return _Standing(failing=_any(counts, streaks))

    async def _turn(self, visit: Visit) -> int | Step:
        """Milliseconds until the turn that was taken."""
        patience_ms = round(min(visit.patience_s, visit.deadline.left()) * 1000)
        turn = await pace.turn(self._store, visit.lane, patience_ms)
        if turn.taken:
            return turn.wait_ms
        comes = self._clock.wall() + turn.wait_ms / 1000
        return skipped(visit.lane.provider, Skip.LOCAL_RATE, ready_at=comes)

    async def _reserve(self, lane: Lane) -> Step | None:
        # nobody may be counted for a search that its last caller has left: the store's verbs need not stop for that
        await anyio.lowlevel.checkpoint_if_cancelled()
        now = self._clock.wall()
        taken = await budgets.reserve(self._store, lane, now)
        if taken is None:
            return self._spent(lane, lane.budget.limit or 0, now)
        before = self._taken.get(lane.narrow)
        if before is None or before.counter != taken.counter or before.units < taken.units:
            self._taken[lane.narrow] = taken
        return None

    def _spent(self, lane: Lane, used: int, now: float) -> Step:
        ends = budgets.period(lane.budget, now).ends
        return skipped(lane.provider, Skip.QUOTA_LOCAL, f"{used}/{lane.budget.limit}", ends)


@dataclass(frozen=True, slots=True)
class _Standing:
    """Nothing keeps the lane from being asked; `failing` when its last calls failed."""

    failing: bool


def _any(counts: dict[str, int], names: Sequence[str]) -> bool:
    return any(name in counts for name in names)
