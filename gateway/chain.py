"""The loop: a query walks down the providers until one of them has something useful."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from gateway import answer, filters, honesty, pace, relevance
from gateway.admission import Admission, Visit
from gateway.audit import Audit
from gateway.clock import Clock, Deadline
from gateway.history import History
from gateway.keys import Candidate, Lane
from gateway.ledger import Ledger
from gateway.steps import LOW_RELEVANCE, OFF_SITE, UNRELATED, URLS_TOO_LONG, Skip, Step, Walked, skipped, whole_seconds
from gateway.stores import StoreUnavailable
from providers import Draft, Outcome, Query, Reply, Result

log = logging.getLogger(__name__)

LOOK_BACK_S = 10.0
"""The longest that a search without results waits for somebody who rests."""

WEAK = "Careful: the results of {} are hardly about the query, and no better ones came"

ANOTHER_KEY_HELPS = (Outcome.RATE_LIMITED, Outcome.QUOTA_EXHAUSTED, Outcome.AUTH_FAILURE)
ANOTHER_ADDRESS_HELPS = (*ANOTHER_KEY_HELPS, Outcome.TIMEOUT, Outcome.NETWORK, Outcome.SERVER_ERROR)


class Chain:
    """The candidates in order, and the memory that decides who may be asked."""

    def __init__(
        self,
        candidates: Sequence[Candidate],
        shared: Admission,
        standby: Admission,
        history: History,
        ledger: Ledger,
        clock: Clock,
    ) -> None:
        """`standby` decides for providers without a budget while the store behind `shared` is away."""
        self.candidates = tuple(candidates)
        self._shared = shared
        self._standby = standby
        self._history = history
        self._ledger = ledger
        self._clock = clock
        self._trouble = ""

    def order(self, query: Query) -> Sequence[Candidate]:
        """The configured order; whoever can be held to the query's hosts comes before the rest."""
        if not query.include_domains:
            return self.candidates
        return sorted(self.candidates, key=lambda candidate: not honesty.enforced(query, candidate.adapter))

    async def walk(self, query: Query, deadline: Deadline, audit: Audit) -> Walked:
        """Ask one after the other; the first useful reply wins, or when there is none the best of the weak ones."""
        order = self.order(query)
        weak: list[_Won] = []
        for candidate in order:
            audit.begin(candidate.name)
            if won := await self._consider(candidate, query, deadline, audit):
                if not won.is_weak:
                    return _settled(audit, won, query)
                weak.append(won)
                audit.add(_passed_over(won))
        if weak:
            return _settled(audit, max(weak, key=lambda each: each.score), query)
        audit.end()  # whoever is cut off while we wait must not hear that the last one is still being asked
        patience_s = min(deadline.left() - 1, LOOK_BACK_S)
        if late := self._worth_waiting_for(audit, patience_s):
            latest = self._clock.wall() + patience_s
            await self._clock.sleep(max(0.0, (late.ready_at or 0.0) - self._clock.wall()))
            candidate = next(each for each in order if each.name == late.provider)
            audit.begin(candidate.name, instead_of=late)
            left_s = latest - self._clock.wall()
            if won := await self._consider(candidate, query, deadline, audit, patience_s=left_s):
                return _settled(audit, won, query)
        return await self._empty_handed(audit, order)

    async def ask_only(self, candidate: Candidate, query: Query, deadline: Deadline, audit: Audit) -> Walked:
        """Ask one provider alone, even if it rests. Budget and pace hold."""
        audit.begin(candidate.name)
        if won := await self._consider(candidate, query, deadline, audit, even_if_resting=True):
            return _settled(audit, won, query)
        return await self._empty_handed(audit, (candidate,))

    async def retry_after(self, steps: Iterable[Step], order: Iterable[Candidate]) -> int | None:
        """Whole seconds until the soonest of those considered can be asked again; None when no time helps."""
        steps = tuple(steps)
        ends: list[float | None] = [step.ready_at for step in steps]
        failed = {step.provider for step in steps if not step.skip and not step.answered}
        lanes = [each.lanes for each in order if each.name in failed]
        ends += [await self._standby.free_at(each) for each in lanes]
        with suppress(StoreUnavailable):
            ends += [await self._shared.free_at(each) for each in lanes]
        soonest = min((end for end in ends if end is not None), default=None)
        return None if soonest is None else whole_seconds(soonest, self._clock.wall())

    # -----------------------------------------------------------------------------------------------------------------
    # one provider

    async def _consider(
        self,
        candidate: Candidate,
        query: Query,
        deadline: Deadline,
        audit: Audit,
        *,
        patience_s: float = pace.PATIENCE_S,
        even_if_resting: bool = False,
    ) -> _Won | None:
        """Try a provider's keys in order: each that is asked in vain leaves a step, or one skip stands for all."""
        if not (candidate.adapter.speaks(query) or even_if_resting):
            log.debug("%s: skipped:%s", candidate.name, Skip.LANGUAGE)
            audit.add(skipped(candidate.name, Skip.LANGUAGE))
            return None
        skips: list[Step] = []
        was_asked = False
        for lane in candidate.lanes:
            done = await self._visit(Visit(candidate, lane, query, deadline, patience_s, even_if_resting))
            log.debug("%s #%s: %s %s", lane.provider, lane.number, done.outcome, done.detail)
            if isinstance(done, Step) and done.skip:
                skips.append(done)
                continue
            was_asked = True
            if isinstance(done, Step):
                audit.add(done)
                continue
            if done.outcome is Outcome.OK:
                if (won := _won(candidate, query, done)).rows:
                    return won
                done = replace(done, outcome=Outcome.NO_RESULTS, detail=won.unusable)
            audit.add(_step(candidate, lane, query, done))
            if not _another_lane_helps(candidate, done):
                break
        if not was_asked:
            audit.add(min(skips, key=lambda step: step.ready_at or math.inf))
        return None

    async def _visit(self, visit: Visit) -> Step | Reply:
        """Ask one lane, if it may be asked now; else the skip (or the refusal) that says why not."""
        memory = self._shared
        try:
            admitted = await memory.admit(visit)
            self._log_trouble("")
        except StoreUnavailable as trouble:
            self._log_trouble(str(trouble))
            if visit.lane.budget.limit is not None:
                return skipped(visit.lane.provider, Skip.STATE_UNAVAILABLE)
            memory = self._standby
            admitted = await memory.admit(visit)
        if isinstance(admitted, Step):
            return admitted
        if isinstance(admitted, Reply):
            return await self._refused(visit, admitted)
        try:
            return await self._ask(visit, admitted.draft)
        finally:
            await memory.leave(admitted)

    def _log_trouble(self, trouble: str) -> None:
        """One line when the store goes away, not one for each search."""
        if trouble and trouble != self._trouble:
            log.warning("state unavailable: %s", trouble)
        self._trouble = trouble

    async def _ask(self, visit: Visit, draft: Draft) -> Step | Reply:
        limit_s = min(visit.candidate.timeout_s, visit.deadline.left())
        reply = await visit.adapter.send(draft, limit_s)
        if reply.cut and limit_s < visit.candidate.timeout_s:
            # the search ran out of time, not the provider: nobody rests for that
            step = _step(visit.candidate, visit.lane, visit.query, reply)
            return replace(step, outcome=Skip.BUDGET_EXHAUSTED.value, detail="")
        await self._followed(visit, reply)
        return reply

    async def _refused(self, visit: Visit, reply: Reply) -> Reply:
        """Nothing was sent. Only a fault of the set-up says something of the provider."""
        if reply.setup:
            await self._followed(visit, reply)
        return reply

    async def _followed(self, visit: Visit, reply: Reply) -> None:
        # what this process saw itself holds while the store is away
        await self._standby.follow(visit.lane, reply)
        with suppress(StoreUnavailable):
            await self._shared.follow(visit.lane, reply)
            await self._history.note(visit.lane, reply)
            await self._ledger.note(visit.lane, reply)

    # -----------------------------------------------------------------------------------------------------------------
    # a walk that found nothing

    def _worth_waiting_for(self, steps: Iterable[Step], patience_s: float) -> Step | None:
        """The rest or turn that ends soonest, when that is within `patience_s` seconds."""
        if patience_s <= 0:
            return None
        latest = self._clock.wall() + patience_s
        resting = [
            step
            for step in steps
            if step.skip and step.skip != Skip.QUOTA_LOCAL and step.ready_at is not None and step.ready_at <= latest
        ]
        return min(resting, key=lambda step: step.ready_at or 0.0, default=None)

    async def _empty_handed(self, audit: Audit, order: Iterable[Candidate]) -> Walked:
        audit.end()
        return Walked(tuple(audit), retry_after_s=await self.retry_after(audit, order))


def _another_lane_helps(candidate: Candidate, reply: Reply) -> bool:
    """Whether what keeps one key (or one address) from answering need not keep the next."""
    if candidate.adapter.keys_are_addresses:
        return reply.outcome in ANOTHER_ADDRESS_HELPS or reply.setup
    return reply.outcome in ANOTHER_KEY_HELPS


def _step(candidate: Candidate, lane: Lane, query: Query, reply: Reply) -> Step:
    """The step of a lane that was asked."""
    return Step(
        lane.provider,
        reply.outcome.value,
        reply.detail,
        key=lane.number if len(candidate.lanes) > 1 else None,
        elapsed_ms=reply.elapsed_ms,
        enforced=honesty.enforced(query, candidate.adapter),
    )


@dataclass(frozen=True, slots=True)
class _Won:
    """A reply with results, and what is left of them. `judged` is None where results count as they come."""

    candidate: Candidate
    reply: Reply
    kept: filters.Kept
    rows: tuple[Result, ...]
    too_long: int
    judged: relevance.Judged | None

    @property
    def unusable(self) -> str:
        """Why none is left."""
        if not self.kept.results:
            return OFF_SITE
        return UNRELATED if self.judged is not None and not self.judged.related else URLS_TOO_LONG

    @property
    def is_weak(self) -> bool:
        return self.judged is not None and self.judged.level == "low"

    @property
    def score(self) -> float:
        return self.judged.score if self.judged is not None else 1.0


def _won(candidate: Candidate, query: Query, reply: Reply) -> _Won:
    kept = filters.allowed(filters.unique(reply.results), query)
    judged = relevance.judge(query, kept.results) if candidate.adapter.sends_unrelated else None
    rows, too_long = filters.usable(kept.results if judged is None else judged.related)
    return _Won(candidate, reply, kept, rows, too_long, judged)


def _passed_over(won: _Won) -> Step:
    """The step of a provider whose results are hardly about the query, while the next ones are asked."""
    return Step(won.candidate.name, LOW_RELEVANCE, f"score {won.score:.2f}", elapsed_ms=won.reply.elapsed_ms)


def _settled(audit: Audit, won: _Won, query: Query) -> Walked:
    adapter, reply = won.candidate.adapter, won.reply
    audit.end(won=Step(adapter.name, Outcome.OK.value, elapsed_ms=reply.elapsed_ms))
    notes = [WEAK.format(adapter.name)] if won.is_weak else []
    notes += [*reply.notes, *honesty.notes(query, adapter, won.kept)]
    if won.judged is not None and (unrelated := len(won.kept.results) - len(won.judged.related)):
        notes.append(f"{unrelated} of the results shared no word with the query and were dropped")
    if won.too_long:
        notes.append(answer.dropped_for_length(won.too_long))
    return Walked(
        tuple(audit),
        winner=adapter.name,
        rows=won.rows,
        answer=reply.answer,
        notes=tuple(notes),
        filters=honesty.report(query, adapter, won.kept),
        may_store=adapter.may_store or bool(adapter.settings.options.get("may_store")),
        relevance=won.judged.level if won.judged is not None else None,
    )
