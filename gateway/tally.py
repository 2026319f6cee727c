"""Cache hits and misses of one `serve`, over all its workers. Told to the store now and then, not at every search."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Literal

import anyio
from anyio.abc import TaskGroup

from gateway.policy import DAY_S
from gateway.stores import Store, StoreUnavailable

What = Literal["hits", "misses"]

TELL_EVERY_S = 1.0
KEEP_S = 32 * DAY_S


@dataclass(frozen=True, slots=True)
class Run:
    """One start of the program, however many processes it has. `started` is in seconds since the epoch."""

    started: float
    id: str = field(default_factory=lambda: secrets.token_hex(8))


class Tally:
    """Counts of a run. `now` gives seconds since the epoch; `tasks` must outlive no store."""

    def __init__(self, store: Store, run: Run, tasks: TaskGroup, now: Callable[[], float]) -> None:
        self._store = store
        self._run = run
        self._tasks = tasks
        self._now = now
        self._untold: Counter[What] = Counter()
        self._telling = False

    def add(self, what: What) -> None:
        """One more."""
        self._untold[what] += 1
        if not self._telling:
            self._telling = True
            self._tasks.start_soon(self._tell_soon)

    async def read(self) -> dict[What, int]:
        """Of all processes, others' last second apart. Raises `StoreUnavailable`."""
        with suppress(StoreUnavailable):
            await self.tell()  # a full disk can still be read
        names: dict[str, What] = {self._name("hits"): "hits", self._name("misses"): "misses"}
        counts = await self._store.counted(list(names))
        return {what: counts.get(name, 0) + self._untold[what] for name, what in names.items()}

    async def tell(self) -> None:
        """Let the store know. Raises `StoreUnavailable`; what could not be told is told next time."""
        for what in tuple(self._untold):
            # taken out first: more may be added while the store is busy
            if by := self._untold.pop(what, 0):
                try:
                    await self._store.count(self._name(what), self._now() + KEEP_S, by)
                except StoreUnavailable:
                    self._untold[what] += by
                    raise

    async def _tell_soon(self) -> None:
        await anyio.sleep(TELL_EVERY_S)
        self._telling = False
        with suppress(StoreUnavailable):
            await self.tell()

    def _name(self, what: What) -> str:
        return f"cache:{self._run.id}:{what}"
