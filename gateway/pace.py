"""Our own spacing of requests to one key: first come, first served."""

from __future__ import annotations

from gateway.keys import Lane
from gateway.steps import Skip
from gateway.stores import Store

PATIENCE_S = 2.0
"""A turn further off than this is not waited for: the next provider is nearer."""


async def turn(store: Store, lane: Lane, at_most_ms: int, now: float) -> int | None:
    """Take the lane's next turn: milliseconds until it comes; None when that is more than `at_most_ms`."""
    if lane.interval_ms <= 0:
        return 0
    wait_ms = await store.turn(_name(lane), lane.interval_ms, max(0, at_most_ms))
    if wait_ms is not None:
        # whoever gets no turn can read here when the next one is
        await store.rest(_name(lane), now + (wait_ms + lane.interval_ms) / 1000, Skip.LOCAL_RATE)
    return wait_ms


async def next_at(store: Store, lane: Lane) -> float | None:
    """When the lane's next turn comes, seconds since the epoch; None when that is now."""
    found = (await store.resting([_name(lane)])).get(_name(lane))
    return found.until if found else None


def _name(lane: Lane) -> str:
    return f"pace:{lane.narrow}"
