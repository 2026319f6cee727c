"""Who rests, until when and why; who is on trial. The outcome's consequence, put into the store."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gateway import policy
from gateway.keys import Lane
from gateway.stores import Rest, Store
from providers._words import Outcome, Reply

HUMAN = (Outcome.AUTH_FAILURE, Outcome.REQUEST_ERROR)
"""Rests that end by themselves only on paper: somebody has to mend something."""


class Cooldowns:
    """Rests, runs of failures and trials of all lanes. `now` gives seconds since the epoch."""

    def __init__(self, store: Store, now: Callable[[], float]) -> None:
        self._store = store
        self._now = now

    async def of(self, lane: Lane) -> Rest | None:
        """The rest that keeps `lane` from being asked now; the longest when there are several."""
        found = await self._store.resting(self._rests(lane))
        return max(found.values(), key=lambda rest: rest.until) if found else None

    async def free_at(self, lanes: Sequence[Lane]) -> float | None:
        """When the first of `lanes` that rest now is free again, seconds since the epoch; None when no time helps."""
        found = await self._store.resting([name for lane in lanes for name in self._rests(lane)])
        ends = []
        for lane in lanes:
            rests = [found[name] for name in self._rests(lane) if name in found]
            if rests and not any(rest.why in HUMAN for rest in rests):
                ends.append(max(rest.until for rest in rests))
        return min(ends, default=None)

    async def streak(self, lane: Lane) -> int:
        """Failures in a row."""
        return sum((await self._store.counted(self.streaks(lane))).values())

    def _rests(self, lane: Lane) -> list[str]:
        return [f"rest:{scope}" for scope in lane.scopes]

    def trials(self, lane: Lane) -> list[str]:
        """The counts of which one is above nothing while a search is trying the lane out."""
        return [f"trial:{scope}" for scope in lane.scopes]

    def streaks(self, lane: Lane) -> list[str]:
        """The counts of which one is above nothing when the lane's last calls failed."""
        return [f"streak:{scope}" for scope in lane.scopes]

    async def begin_trial(self, lane: Lane, hold_s: float) -> str | None:
        """Begin the trial of a lane that failed before, to be ended with `end_trial`.

        The name of the trial ("" when none is needed); None when another search is trying right now. A trial that is
        never ended ends by itself after `hold_s` seconds.
        """
        if lane.tuning.most_s <= 0:
            return ""
        runs = await self._store.counted(self.streaks(lane))
        for scope in lane.scopes:
            if f"streak:{scope}" in runs:
                name = f"trial:{scope}"
                return name if await self._store.spend(name, 1, self._now() + hold_s) is not None else None
        return ""

    async def end_trial(self, trial: str) -> None:
        """End a trial."""
        if trial:
            await self._store.clear(trial)

    async def follow(self, lane: Lane, reply: Reply) -> None:
        """Let the consequence of `reply` happen, and of what the vendor says in it is left."""
        await self._follow_outcome(lane, reply)
        if spent_s := policy.spent_s(reply):
            # no failure, so no run of them: the answer stands, and the next search goes elsewhere
            await self._store.rest(f"rest:{lane.narrow}", self._now() + spent_s, Outcome.QUOTA_EXHAUSTED)

    async def _follow_outcome(self, lane: Lane, reply: Reply) -> None:
        consequence = policy.CONSEQUENCES[reply.outcome]
        if consequence.streak == "clears":
            # nearly always there is nothing to forget, and a look costs a fraction of a write
            if running := await self._store.counted(self.streaks(lane)):
                await self._store.clear(*running)
            return
        scope = lane.narrow if consequence.scope == "key" else lane.wide
        name, why, now = f"rest:{scope}", reply.outcome.value, self._now()
        # 200 callers on one hanging vendor are one step: only the failure that finds nobody resting counts
        rested = await self.of(lane) is not None
        first = policy.rest_s(reply, lane.tuning, 1)
        began = await self._store.rest(name, now + first, why) if first else True
        if rested or not began or consequence.streak == "stays":
            return
        streak = await self._store.count(f"streak:{scope}", now + policy.STREAK_LIFE_S)
        if (longer := policy.rest_s(reply, lane.tuning, streak)) > first:
            await self._store.rest(name, now + longer, why)

    async def forgive(self, lanes: Sequence[Lane]) -> None:
        """Let every key that was out for auth be tried again: somebody restarted us."""
        names = {f"rest:{lane.narrow}": lane for lane in lanes}
        for name, rest in (await self._store.resting(list(names))).items():
            if rest.why == Outcome.AUTH_FAILURE:
                await self._store.clear(name, f"streak:{names[name].narrow}")
