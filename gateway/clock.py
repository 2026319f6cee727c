"""Time, handed in: whoever waits or measures takes it from here, and a test may hold it still."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import anyio


async def sleep(seconds: float) -> None:
    """Wait for at least `seconds` of anybody's clock: some loops wake 16 ms early, which is too early for a rest."""
    await anyio.sleep(seconds + 0.02)


@dataclass(frozen=True, slots=True)
class Clock:
    """`wall` gives seconds since the epoch, `ticks` seconds that never go back; `sleep` waits."""

    wall: Callable[[], float] = time.time
    ticks: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[None]] = sleep


class Deadline:
    """A moment that work must not outlive. It may be moved further away, never nearer."""

    def __init__(self, seconds: float, clock: Clock) -> None:
        self._clock = clock
        self._at = clock.ticks() + seconds

    def left(self) -> float:
        """Seconds left; 0 when none are."""
        return max(0.0, self._at - self._clock.ticks())

    def extend(self, seconds: float) -> None:
        """Let there be at least `seconds` left."""
        self._at = max(self._at, self._clock.ticks() + seconds)
