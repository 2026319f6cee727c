"""The loop: a query walks down the providers until one of them has something useful."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import anyio

from gateway import budgets, filters, honesty, pace
from gateway.audit import OFF_SITE, URLS_TOO_LONG, Audit, Skip, Step, asked, seconds, skipped
from gateway.clock import Clock, Deadline
from gateway.cooldowns import HUMAN, Cooldowns
from gateway.history import History
from gateway.keys import Candidate, Lane
from gateway.stores import Store, StoreUnavailable
from providers import Draft, HTTPProvider, Outcome, Query, Reply, Result

log = logging.getLogger(__name__)

TRIAL_GRACE_S = 5.0
LOOK_BACK_S = 10.0
"""The longest that a search without results waits for somebody who rests."""

MAX_URL = 2048
"""A longer address is no use to a reader, and is never cut."""

ANOTHER_KEY_HELPS = (Outcome.RATE_LIMITED, Outcome.QUOTA_EXHAUSTED, Outcome.AUTH_FAILURE)
ANOTHER_ADDRESS_HELPS = (*ANOTHER_KEY_HELPS, Outcome.TIMEOUT, Outcome.NETWORK, Outcome.SERVER_ERROR)


@dataclass(frozen=True, slots=True)
class Walked:
    """What one walk came to. `rows` are the winner's, filtered but untrimmed; `winner` is None when nobody won.

    `retry_after_s` is whole seconds until the soonest of those considered can be asked again.
    """

    steps: tuple[Step, ...]
    winner: str | None = None
    rows: tuple[Result, ...] = ()
    answer: str = ""
    notes: tuple[str, ...] = ()
    filters: Mapping[str, Any] = field(default_factory=dict)
    retry_after_s: int | None = None
    may_store: bool = True


class Chain:
    """The candidates in order, and the memory that decides who may be asked."""

    def __init__(
        self, candidates: Sequence[Candidate], store: Store, cooldowns: Cooldowns, history: History, clock: Clock
    ) -> None:
        self.candidates = tuple(candidates)
        self._store = store
        self._cooldowns = cooldowns
        self._history = history
        self._clock = clock

    def order(self, query: Query) -> Sequence[Candidate]:
        """The configured order; whoever can be held to the query's hosts comes before the rest."""
        if not query.include_domains:
            return self.candidates
        return sorted(self.candidates, key=lambda candidate: not honesty.enforced(query, candidate.adapter))

    async def walk(self, query: Query, deadline: Deadline, audit: Audit) -> Walked:
        """Ask one after the other; the first useful reply wins."""
        order = self.order(query)
        for candidate in order:
            audit.asking = candidate.name
            steps, won = await self._consider(candidate, query, deadline)
            audit.asking = None
            for step in steps:
                audit.add(step)
            if won is not None:
                return _settled(audit, won, query)
        latest = self._clock.wall() + min(deadline.left() - 1, LOOK_BACK_S)
        if (late := self._worth_waiting_for(audit, latest)) is not None:
            candidate = next(each for each in order if each.name == late.provider)
            await self._clock.sleep(max(0.0, (late.ready_at or 0.0) - self._clock.wall()))
            patience = latest - self._clock.wall()
            steps, won = await self._consider(candidate, query, deadline, patience_s=patience)
            audit.replace(late, steps)
            if won is not None:
                return _settled(audit, won, query)
        return Walked(tuple(audit), retry_after_s=await self._retry_after(order, audit))

    async def ask_only(self, candidate: Candidate, query: Query, deadline: Deadline, audit: Audit) -> Walked:
        """Ask one provider alone, even if it rests. Budget and pace hold."""
        steps, won = await self._consider(candidate, query, deadline, even_if_resting=True)
        for step in steps:
            audit.add(step)
        if won is not None:
            return _settled(audit, won, query)
        return Walked(tuple(audit), retry_after_s=await self._retry_after((candidate,), audit))

    # -----------------------------------------------------------------------------------------------------------------
    # one provider

    async def _consider(
        self,
        candidate: Candidate,
        query: Query,
        deadline: Deadline,
        *,
        patience_s: float = pace.PATIENCE_S,
        even_if_resting: bool = False,
    ) -> tuple[list[Step], _Won | None]:
        """Try a provider's keys in order: the steps it leaves, and what it won with."""
        steps: list[Step] = []
        waiting: list[Step] = []
        for lane in candidate.lanes:
            done = await self._visit(_Visit(candidate, lane, query, deadline, patience_s, even_if_resting))
            if isinstance(done, Step):
                (waiting if done.skipped else steps).append(done)
                log.debug("%s #%s: %s %s", lane.provider, lane.number, done.outcome, done.detail)
                continue
            log.debug("%s #%s: %s %s, %s ms", lane.provider, lane.number, done.outcome, done.detail, done.elapsed_ms)
            if done.outcome is Outcome.OK:
                if (won := _won(candidate, query, done)).rows:
                    return steps, won
                unusable = URLS_TOO_LONG if won.kept.results else OFF_SITE
                done = replace(done, outcome=Outcome.NO_RESULTS, detail=unusable)
            steps.append(asked(lane, candidate, done, enforced=honesty.enforced(query, candidate.adapter)))
            helps = ANOTHER_ADDRESS_HELPS if candidate.adapter.keys_are_addresses else ANOTHER_KEY_HELPS
            if done.outcome not in helps:
                break
        return steps or [min(waiting, key=lambda step: step.ready_at or math.inf)], None

    async def _visit(self, visit: _Visit) -> Step | Reply:
        """Ask one lane, if it may be asked now; else the skip (or the refusal) that says why not."""
        trial = ""
        try:
            try:
                if skip := await self._reason_to_skip(visit):
                    return skip
                if not visit.even_if_resting:
                    hold_s = visit.candidate.timeout_s + TRIAL_GRACE_S
                    trying = await self._cooldowns.try_out(visit.lane, hold_s)
                    if trying is None:
                        return skipped(visit.lane.provider, Skip.PROBING)
                    trial = trying
                draft = visit.adapter.draft(visit.query, visit.lane.key)
                if isinstance(draft, Reply):
                    return await self._followed(visit, draft)
                if skip := await self._wait_and_reserve(visit):
                    return skip
            except StoreUnavailable as trouble:
                log.warning("state unavailable: %s", trouble)
                if visit.lane.budget.limit is not None:
                    return skipped(visit.lane.provider, Skip.STATE_UNAVAILABLE)
                draft = visit.adapter.draft(visit.query, visit.lane.key)
                if isinstance(draft, Reply):
                    return draft
            return await self._ask(visit, draft)
        finally:
            with anyio.CancelScope(shield=True), suppress(StoreUnavailable):
                await self._cooldowns.tried(trial)

    async def _reason_to_skip(self, visit: _Visit) -> Step | None:
        lane, now = visit.lane, self._clock.wall()
        if visit.deadline.left() <= 0:
            return skipped(lane.provider, Skip.BUDGET_EXHAUSTED)
        if not visit.even_if_resting and (rest := await self._cooldowns.of(lane)) is not None:
            if rest.why == Outcome.AUTH_FAILURE:
                return skipped(lane.provider, rest.why, "until_restart")
            helped = None if rest.why in HUMAN else rest.until
            return skipped(lane.provider, rest.why, seconds(rest.until, now), helped)
        limit = lane.budget.limit
        if limit is not None and (used := await budgets.used(self._store, lane, now)) >= limit:
            return self._spent(lane, used, now)
        return None

    async def _wait_and_reserve(self, visit: _Visit) -> Step | None:
        lane = visit.lane
        patience_ms = round(min(visit.patience_s, visit.deadline.left()) * 1000)
        wait_ms = await pace.turn(self._store, lane, patience_ms, self._clock.wall())
        if wait_ms is None:
            return skipped(lane.provider, Skip.LOCAL_RATE, ready_at=await pace.next_at(self._store, lane))
        if wait_ms:
            await self._clock.sleep(wait_ms / 1000)
            if skip := await self._reason_to_skip(visit):
                return skip
        now = self._clock.wall()
        if not await budgets.reserve(self._store, lane, now):
            return self._spent(lane, lane.budget.limit or 0, now)
        return None

    def _spent(self, lane: Lane, used: int, now: float) -> Step:
        ends = budgets.period(lane.budget, now).ends
        return skipped(lane.provider, Skip.QUOTA_LOCAL, f"{used}/{lane.budget.limit}", ends)

    async def _ask(self, visit: _Visit, draft: Draft) -> Step | Reply:
        limit_s = min(visit.candidate.timeout_s, visit.deadline.left())
        reply = await visit.adapter.send(draft, limit_s)
        if reply.cut and limit_s < visit.candidate.timeout_s:
            # the search ran out of time, not the provider: nobody rests for that
            return replace(asked(visit.lane, visit.candidate, reply), outcome=Skip.BUDGET_EXHAUSTED.value, detail="")
        return await self._followed(visit, reply)

    async def _followed(self, visit: _Visit, reply: Reply) -> Reply:
        with suppress(StoreUnavailable):
            await self._cooldowns.follow(visit.lane, reply)
            await self._history.note(visit.lane, reply)
        return reply

    # -----------------------------------------------------------------------------------------------------------------
    # what a walk comes to

    def _worth_waiting_for(self, audit: Iterable[Step], latest: float) -> Step | None:
        """The rest or turn that ends soonest, when that is not after `latest`, seconds since the epoch."""
        resting = [
            step
            for step in audit
            if step.skipped
            and step.ready_at is not None
            and step.ready_at <= latest
            and step.outcome != f"skipped:{Skip.QUOTA_LOCAL}"
        ]
        return min(resting, key=lambda step: step.ready_at or 0.0, default=None)

    async def _retry_after(self, order: Iterable[Candidate], audit: Iterable[Step]) -> int | None:
        ends: list[float | None] = [step.ready_at for step in audit]
        failed = {step.provider for step in audit if not step.skipped and not step.answered}
        with suppress(StoreUnavailable):
            ends += [await self._cooldowns.free_at(each.lanes) for each in order if each.name in failed]
        soonest = min((end for end in ends if end is not None), default=None)
        return None if soonest is None else max(1, math.ceil(soonest - self._clock.wall()))


@dataclass(frozen=True, slots=True)
class _Visit:
    candidate: Candidate
    lane: Lane
    query: Query
    deadline: Deadline
    patience_s: float
    even_if_resting: bool

    @property
    def adapter(self) -> HTTPProvider:
        return self.candidate.adapter_for(self.lane)


@dataclass(frozen=True, slots=True)
class _Won:
    candidate: Candidate
    reply: Reply
    kept: filters.Kept
    rows: tuple[Result, ...]


def _won(candidate: Candidate, query: Query, reply: Reply) -> _Won:
    kept = filters.allowed(filters.unique(reply.results), query)
    return _Won(candidate, reply, kept, tuple(row for row in kept.results if len(row.url) <= MAX_URL))


def _settled(audit: Audit, won: _Won, query: Query) -> Walked:
    adapter, reply = won.candidate.adapter, won.reply
    audit.won(Step(adapter.name, Outcome.OK.value, elapsed_ms=reply.elapsed_ms))
    notes = [*reply.notes, *honesty.notes(query, adapter, won.kept)]
    if (dropped := len(won.kept.results) - len(won.rows)) > 0:
        notes.append(f"{dropped} dropped: the URL is over {MAX_URL} characters")
    return Walked(
        tuple(audit),
        winner=adapter.name,
        rows=won.rows,
        answer=reply.answer,
        notes=tuple(notes),
        filters=honesty.report(query, adapter, won.kept),
        may_store=adapter.may_store or bool(adapter.settings.options.get("may_store")),
    )
