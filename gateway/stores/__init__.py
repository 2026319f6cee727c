"""Everything the gateway remembers, behind a few verbs. Each verb is one atomic step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

SPARE_PART = 32
"""A bounded room is trimmed by this part of its bound at a time: finding the oldest costs more than keeping one."""


class Rest(NamedTuple):
    """Leave alone until `until` (seconds since the epoch), because of `why` (an outcome's name)."""

    until: float
    why: str


class Turn(NamedTuple):
    """A place in a queue that comes in `wait_ms` milliseconds; not `taken` when that was more than the caller waits."""

    wait_ms: int
    taken: bool


class StoreUnavailable(Exception):  # noqa: N818 -- it is a state, and reads as one
    """The store cannot answer now: locked for too long, full, damaged, unreachable. The words say what, no secrets.

    What the verb that raised it was to take is taken by nobody else: it may be gone, never given twice. The next verb
    may succeed: a store recovers by itself.
    """


class Store(Protocol):
    """Memory that outlives a search. Times are seconds since the epoch; every verb may raise `StoreUnavailable`.

    A verb is one step among all tasks, workers and machines that share the store. What ends at a moment has ended
    when that moment comes. Keys hold no secrets: whoever names one has hashed what must not be read.
    """

    async def rest(self, key: str, until: float, why: str) -> bool:
        """Rest `key` until then; a rest that is no shorter stays as it is. True when it was not resting already.

        Of any number who call at once exactly one gets True.
        """

    async def resting(self, keys: Sequence[str]) -> dict[str, Rest]:
        """Those of `keys` that rest now."""

    async def spend(self, key: str, limit: int, expires: float | None) -> int | None:
        """Take one unit: the count after it; None, with the count unchanged, when `limit` is reached.

        The count starts again at nothing once `expires` has passed (None: never). While a count lives, a later
        `expires` replaces its own and an earlier one does not: a caller whose clock is behind ends no period.
        """

    async def turn(self, key: str, interval_ms: int, at_most_ms: int) -> Turn:
        """Take the next place in a queue whose places are `interval_ms` apart, unless it is more than `at_most_ms` off.

        A queue that reaches further than anyone was let in for, because the clock was set back, counts as empty.
        """

    async def keep(self, room: str, key: str, value: bytes, ttl_s: float, at_most: int | None = None) -> None:
        """Keep `value` for `ttl_s` seconds, in place of what was kept there; beyond `at_most` living entries the
        room's oldest go.
        """

    async def recall(self, room: str, key: str) -> bytes | None:
        """What was kept, while it lives."""

    async def kept(self, room: str) -> int:
        """How many entries of `room` live."""

    async def count(self, key: str, expires: float | None, by: int = 1, at_least: int = 0) -> int:
        """Add to a count: the count after it. `expires` as in `spend`.

        `at_least` is where the count stood when the caller saw it last: a store that has lost it goes on from there.
        """

    async def counted(self, keys: Sequence[str]) -> dict[str, int]:
        """The counts of `keys` that are above nothing; counts of `spend` and of `count` are one kind."""

    async def clear(self, *keys: str) -> None:
        """Forget the rests, counts and queues of `keys`; what is kept in rooms stays."""

    async def aclose(self) -> None:
        """Let go of files and connections."""
