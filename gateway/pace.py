"""Our own spacing of requests to one key: first come, first served."""

from __future__ import annotations

from gateway.keys import Lane
from gateway.stores import Store, Turn

PATIENCE_S = 2.0
"""A turn further off than this is not waited for: the next provider is nearer."""


async def turn(store: Store, lane: Lane, at_most_ms: int) -> Turn:
    """Take the lane's next turn, unless it is more than `at_most_ms` off."""
    if lane.interval_ms <= 0:
        return Turn(0, taken=True)
    return await store.turn(f"pace:{lane.narrow}", lane.interval_ms, max(0, at_most_ms))
