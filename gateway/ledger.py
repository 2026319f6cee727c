"""What the vendors themselves say is left: told beside their answers, or by their usage endpoints."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Literal

from gateway.keys import Candidate, Lane
from gateway.policy import QUOTA_MOST_S
from gateway.stores import Store, StoreUnavailable
from providers import Reply
from providers._words import Left

log = logging.getLogger(__name__)

ROOM = "ledger"

Source = Literal["reply", "usage"]


@dataclass(frozen=True, slots=True)
class Entry:
    """What a vendor said was left for one key, in his own unit. Moments are seconds since the epoch."""

    remaining: int
    limit: int | None
    resets_at: float | None
    as_of: float
    source: Source


class Ledger:
    """The last word of every vendor on every key. `now` gives seconds since the epoch."""

    def __init__(self, store: Store, now: Callable[[], float]) -> None:
        self._store = store
        self._now = now

    async def note(self, lane: Lane, reply: Reply) -> None:
        """Remember what `reply` says is left, if it says so."""
        if reply.left is not None:
            await self._enter(lane, reply.left, "reply")

    async def of(self, lane: Lane) -> Entry | None:
        """What the vendor said last; None when he said nothing, or when what he said has been renewed since.

        Something else in the place of it (another program's, another version's) is nothing too.
        """
        value = await self._store.recall(ROOM, lane.narrow)
        return _entry(value) if value else None

    async def ask(self, candidate: Candidate, lane: Lane) -> Left | Reply:
        """Ask the usage endpoint of a vendor that has one, and remember what it says.

        Whatever kept it from saying has no consequence: no rest, no count.
        """
        told = await candidate.adapter_for(lane).ask_usage(lane.key, candidate.timeout_s)
        if isinstance(told, Left):
            with suppress(StoreUnavailable):
                await self._enter(lane, told, "usage")
        return told

    async def refresh(self, candidates: Iterable[Candidate]) -> None:
        """Ask those whose operator wants it and whose time has come, each key at most once in that many seconds.

        Whatever goes wrong is only logged.
        """
        for candidate in candidates:
            for lane in candidate.lanes:
                if not await self._is_due(lane, candidate.settings.vendor_usage_every_s):
                    continue
                told = await self.ask(candidate, lane)
                if isinstance(told, Reply):
                    log.debug("%s #%s: usage not told: %s %s", lane.provider, lane.number, told.outcome, told.detail)

    async def _is_due(self, lane: Lane, every_s: float) -> bool:
        """Whether this process, alone of all that share the store, is to ask now."""
        try:
            return await self._store.spend(f"usage:{lane.narrow}", 1, self._now() + every_s) is not None
        except StoreUnavailable:
            return False

    async def _enter(self, lane: Lane, left: Left, source: Source) -> None:
        now = self._now()
        ends = None if left.resets_s is None else now + left.resets_s
        entry = Entry(left.remaining, left.limit, ends, now, source)
        # what has been renewed is no longer so; at least a moment, for a time of nothing is no time to keep anything
        kept_s = QUOTA_MOST_S if left.resets_s is None else min(max(left.resets_s, 1.0), QUOTA_MOST_S)
        await self._store.keep(ROOM, lane.narrow, json.dumps(asdict(entry)).encode(), kept_s)


def _entry(value: bytes) -> Entry | None:
    with suppress(ValueError, TypeError):
        entry = Entry(**json.loads(value))
        numbers = (entry.remaining, entry.as_of, *(each for each in (entry.limit, entry.resets_at) if each is not None))
        if all(isinstance(number, int | float) for number in numbers):
            return entry
    return None


def wants_usage(candidate: Candidate) -> bool:
    """Whether the operator lets us ask the vendor's usage endpoint, and there is one."""
    return candidate.settings.vendor_usage_every_s > 0 and candidate.adapter.usage_every_s is not None
