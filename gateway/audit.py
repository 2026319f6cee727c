"""The chain of one search while it grows, told to whoever follows."""

from __future__ import annotations

from collections.abc import Iterator

import anyio

from gateway.steps import LOW_RELEVANCE, Skip, Step


class Audit:
    """Who was considered in one search, in order. `told` wakes whoever follows it."""

    def __init__(self) -> None:
        self._steps: list[Step] = []
        self._at = 0
        self._asking: str | None = None
        self.history: list[Step] = []
        """Every step ever added, also those that were replaced, and the winner's: what progress is made of."""
        self.told = anyio.Event()

    def begin(self, provider: str, instead_of: Step | None = None) -> None:
        """`provider` is considered now; what comes of it stands at the end, or in the place of an earlier skip."""
        self._at = len(self._steps)
        if instead_of is not None:
            self._at = self._steps.index(instead_of)
            del self._steps[self._at]
        self._asking = provider

    def add(self, step: Step) -> None:
        """Something came of the provider that is considered now."""
        self._steps.insert(self._at, step)
        self._at += 1
        self._tell(step)

    def end(self, won: Step | None = None) -> None:
        """Nobody is considered any more. The winner's step, if any, is told, but is not in the chain.

        A winner whose results were passed over for better ones, which nobody had, stands there until now.
        """
        self._asking = None
        if won is not None:
            passed_over = (won.provider, LOW_RELEVANCE)
            self._steps = [step for step in self._steps if (step.provider, step.outcome) != passed_over]
            self._at = len(self._steps)
            self._tell(won)

    def __iter__(self) -> Iterator[Step]:
        """The chain as it stands; whoever is being asked has run out of time."""
        asking = [Step(self._asking, Skip.BUDGET_EXHAUSTED.value)] if self._asking is not None else []
        return iter([*self._steps[: self._at], *asking, *self._steps[self._at :]])

    def wake(self) -> None:
        """Wake the followers without news."""
        self.told.set()

    def _tell(self, step: Step) -> None:
        self.history.append(step)
        told, self.told = self.told, anyio.Event()
        told.set()
