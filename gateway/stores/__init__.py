"""Everything the gateway remembers, behind a few verbs. Each verb is one atomic step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol


class Rest(NamedTuple):
    """Leave alone until `until` (seconds since the epoch), because of `why` (an outcome's name)."""

    until: float
    why: str


class StoreUnavailable(Exception):
    """The store cannot answer now: locked for too long, full, damaged, unreachable. The words say what, no secrets."""


class Store(Protocol):
    """Memory that outlives a search. Times are seconds since the epoch; every verb may raise `StoreUnavailable`."""

    async def rest(self, key: str, until: float, why: str) -> bool:
        """Rest `key` until then; a longer rest stays as it is. True when it was not resting already."""

    async def resting(self, keys: Sequence[str]) -> dict[str, Rest]:
        """Those of `keys` that rest now."""

    async def spend(self, key: str, limit: int, expires: float | None) -> int | None:
        """Take one unit: the count after it; None, with the count unchanged, when `limit` is reached.

        The count starts again at nothing once `expires` has passed (None: never).
        """

    async def turn(self, key: str, interval_ms: int, at_most_ms: int) -> int | None:
        """Take the next place in a queue whose places are `interval_ms` apart: milliseconds until it comes.

        None, and no place taken, when that is more than `at_most_ms`.
        """

    async def keep(self, room: str, key: str, value: bytes, ttl_s: float, at_most: int | None = None) -> None:
        """Keep `value` for `ttl_s` seconds; beyond `at_most` entries the room's oldest go."""

    async def recall(self, room: str, key: str) -> bytes | None:
        """What was kept, while it lives."""

    async def kept(self, room: str) -> int:
        """How many entries of `room` live."""

    async def count(self, key: str, expires: float | None, by: int = 1) -> int:
        """Add to a count: the count after it. It starts again at nothing once its `expires` has passed."""

    async def counted(self, keys: Sequence[str]) -> dict[str, int]:
        """The counts of `keys` that are above nothing; counts of `spend` and of `count` are one kind."""

    async def clear(self, *keys: str) -> None:
        """Forget the rests, counts and queues of `keys`."""

    async def aclose(self) -> None:
        """Let go of files and connections."""
