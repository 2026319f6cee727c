"""Our own spacing of requests to one key: first come, first served."""

from __future__ import annotations

from gateway.keys import Lane
from gateway.stores import Store

PATIENCE_S = 2.0
"""A turn further off than this is not waited for: the next provider is nearer."""


async def turn(store: Store, lane: Lane, at_most_ms: int) -> int | None:
    """Take the lane's next turn: milliseconds until it comes; None when that is more than `at_most_ms`."""
    if lane.interval_ms <= 0:
        return 0
    return await store.turn(f"pace:{lane.narrow}", lane.interval_ms, max(0, at_most_ms))
