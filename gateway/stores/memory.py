"""The store of one process, gone when it ends."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from gateway.stores import SPARE_PART, Rest, Turn

SWEEP_EVERY = 256
"""Writes between two sweeps, at least."""


class _Count(NamedTuple):
    value: int
    expires: float | None

    def lives(self, now: float) -> bool:
        return self.expires is None or self.expires > now

    def lasting(self, expires: float | None) -> float | None:
        return None if self.expires is None or expires is None else max(self.expires, expires)


class _Place(NamedTuple):
    """The last place given away, in milliseconds: asked for then, `wait` later, the next one `gap` after it."""

    asked: int
    wait: int
    gap: int


class _Kept(NamedTuple):
    value: bytes
    expires: float


class MemoryStore:
    """A `Store` of dicts. It never fails, and belongs to one event loop."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        """`clock` gives seconds since the epoch."""
        self._clock = clock
        self._rests: dict[str, Rest] = {}
        self._counts: dict[str, _Count] = {}
        self._turns: dict[str, _Place] = {}
        self._rooms: dict[str, dict[str, _Kept]] = {}
        self._writes_left = SWEEP_EVERY

    async def rest(self, key: str, until: float, why: str) -> bool:
        now = self._now_to_write()
        before = self._rests.get(key)
        resting = before is not None and before.until > now
        if before is None or not resting or until > before.until:
            self._rests[key] = Rest(until, why)
        return not resting

    async def resting(self, keys: Sequence[str]) -> dict[str, Rest]:
        now = self._clock()
        return {key: rest for key in keys if (rest := self._rests.get(key)) and rest.until > now}

    async def spend(self, key: str, limit: int, expires: float | None) -> int | None:
        before = self._living(key, self._now_to_write(), expires)
        if before.value >= limit:
            return None
        self._counts[key] = _Count(before.value + 1, before.lasting(expires))
        return before.value + 1

    async def turn(self, key: str, interval_ms: int, at_most_ms: int) -> Turn:
        now = int(self._now_to_write() * 1000)
        wait = 0
        if last := self._turns.get(key):
            wait = last.asked + last.wait + last.gap - now
            if not 0 < wait <= max(last.wait, at_most_ms) + last.gap:
                wait = 0  # the place has come, or the clock was set back
        if wait > at_most_ms:
            return Turn(wait, taken=False)
        self._turns[key] = _Place(now, wait, interval_ms)
        return Turn(wait, taken=True)

    async def keep(self, room: str, key: str, value: bytes, ttl_s: float, at_most: int | None = None) -> None:
        now = self._now_to_write()
        entries = self._rooms.setdefault(room, {})
        entries.pop(key, None)  # a dict keeps its order: what is kept anew must stand last
        entries[key] = _Kept(value, now + ttl_s)
        if at_most is not None and len(entries) > at_most:
            # looking through hundreds at every call would cost more than the rest: room is made for several at once
            spare = max(at_most // SPARE_PART, 1) - 1
            living = [name for name, each in entries.items() if each.expires > now]
            for oldest in living[: max(0, len(living) - at_most + spare) if len(living) > at_most else 0]:
                del entries[oldest]

    async def recall(self, room: str, key: str) -> bytes | None:
        entry = self._rooms.get(room, {}).get(key)
        return entry.value if entry is not None and entry.expires > self._clock() else None

    async def kept(self, room: str) -> int:
        now = self._clock()
        return sum(each.expires > now for each in self._rooms.get(room, {}).values())

    async def count(self, key: str, expires: float | None, by: int = 1, at_least: int = 0) -> int:
        before = self._living(key, self._now_to_write(), expires)
        after = max(before.value, at_least) + by
        self._counts[key] = _Count(after, before.lasting(expires))
        return after

    async def counted(self, keys: Sequence[str]) -> dict[str, int]:
        now = self._clock()
        found = {key: self._counts[key] for key in keys if key in self._counts}
        return {key: each.value for key, each in found.items() if each.value > 0 and each.lives(now)}

    async def clear(self, *keys: str) -> None:
        for key in keys:
            self._rests.pop(key, None)
            self._counts.pop(key, None)
            self._turns.pop(key, None)

    async def aclose(self) -> None: ...

    def _living(self, key: str, now: float, expires: float | None) -> _Count:
        before = self._counts.get(key)
        return before if before is not None and before.lives(now) else _Count(0, expires)

    def _now_to_write(self) -> float:
        now = self._clock()
        self._writes_left -= 1
        if self._writes_left <= 0:
            self._sweep(now)
        return now

    def _sweep(self, now: float) -> None:
        self._rests = {key: each for key, each in self._rests.items() if each.until > now}
        self._counts = {key: each for key, each in self._counts.items() if each.lives(now)}
        now_ms = int(now * 1000)
        self._turns = {key: each for key, each in self._turns.items() if sum(each) > now_ms}
        living = {
            room: {key: each for key, each in entries.items() if each.expires > now}
            for room, entries in self._rooms.items()
        }
        self._rooms = {room: entries for room, entries in living.items() if entries}
        # as many writes as there are entries pay for the next sweep: constant cost each, and at most half is dead
        size = len(self._rests) + len(self._counts) + len(self._turns) + sum(map(len, self._rooms.values()))
        self._writes_left = max(SWEEP_EVERY, size)
