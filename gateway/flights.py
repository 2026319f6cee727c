"""Identical searches under way are one search, which ends when nobody waits for it any more."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import anyio
from anyio.abc import TaskGroup

from gateway.audit import Audit
from gateway.clock import Clock, Deadline
from gateway.steps import Step

T = TypeVar("T")

GRACE_S = 0.25
"""A search ends itself at its deadline; a caller waits this much longer before leaving without it."""


@dataclass(eq=False)
class Flight(Generic[T]):
    """One search under way. `result` or `error` is set when `landed`."""

    deadline: Deadline
    audit: Audit = field(default_factory=Audit)
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    waiting: int = 0
    landed: bool = False
    result: T | None = None
    error: Exception | None = None


Search = Callable[[Audit, Deadline], Awaitable[T]]
Progress = Callable[[int, Step], Awaitable[None]]


class Flights(Generic[T]):
    """The searches under way. They run in `tasks`, not in their callers' tasks: a caller may leave."""

    def __init__(self, tasks: TaskGroup, clock: Clock) -> None:
        self._tasks = tasks
        self._clock = clock
        self._shared: dict[str, Flight[T]] = {}

    async def join(
        self, name: str | None, search: Search[T], limit_s: float, progress: Progress | None = None
    ) -> tuple[T | None, Audit, bool]:
        """The result of `search`, or of the one called `name` that is under way already (None: never shared).

        With it come the audit, and whether this caller began the search. The result is None when `limit_s` ran out
        first; the audit then tells how far it got. An exception of the search is raised in every caller. When the last
        caller leaves, the search is cancelled.
        """
        flight = self._shared.get(name) if name is not None else None
        began = flight is None
        if flight is None:
            flight = Flight[T](Deadline(limit_s, self._clock))
            if name is not None:
                self._shared[name] = flight
            self._tasks.start_soon(self._fly, flight, name, search)
        else:
            flight.deadline.extend(limit_s)
        mine = Deadline(limit_s + GRACE_S, self._clock)
        flight.waiting += 1
        try:
            await self._wait(flight, mine, progress)
        finally:
            flight.waiting -= 1
            if not flight.waiting and not flight.landed:
                # nobody may join what is being cancelled
                self._forget(name, flight)
                flight.scope.cancel()
        if flight.error is not None:
            raise flight.error
        return flight.result, flight.audit, began

    async def _wait(self, flight: Flight[T], mine: Deadline, progress: Progress | None) -> None:
        told = 0
        with anyio.move_on_after(mine.left()):
            while True:
                news = flight.audit.told
                if progress is not None:
                    while told < len(flight.audit.history):
                        told += 1
                        await progress(told, flight.audit.history[told - 1])
                if flight.landed:
                    return
                await news.wait()

    async def _fly(self, flight: Flight[T], name: str | None, search: Search[T]) -> None:
        try:
            with flight.scope:
                flight.result = await search(flight.audit, flight.deadline)
        except Exception as error:  # noqa: BLE001 - carried to the callers: one search must not end the others
            flight.error = error
        finally:
            flight.landed = True
            self._forget(name, flight)
            flight.audit.wake()

    def _forget(self, name: str | None, flight: Flight[T]) -> None:
        if name is not None and self._shared.get(name) is flight:
            del self._shared[name]
