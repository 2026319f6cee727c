"""What follows from an outcome. One table; pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from providers._words import Outcome, Reply

DAY_S = 86_400.0
STREAK_LIFE_S = DAY_S
"""A run of failures is forgotten after this."""
QUOTA_MOST_S = 32 * DAY_S
AUTH_OUT_S = DAY_S
SETUP_S = 300.0
BLIP_S = 30.0
"""First rest after a time-out or a fault on the way."""
AT_LEAST_S = 1.0
"""A vendor that asks for less is still left alone for this long."""

Base = Literal["throttle", "quota", "blip", "auth", "none"]


@dataclass(frozen=True, slots=True)
class Consequence:
    """What one outcome brings: the first rest, whether it doubles in a run, who rests, what becomes of the run."""

    base: Base = "none"
    doubles: bool = False
    vendor_time: bool = False
    scope: Literal["provider", "key"] = "provider"
    streak: Literal["counts", "clears", "stays"] = "stays"


# first rest, doubled in a run of failures, the vendor's own time if it names one, who rests, what becomes of the run
CONSEQUENCES: Mapping[Outcome, Consequence] = {
    Outcome.OK: Consequence(streak="clears"),
    Outcome.NO_RESULTS: Consequence(streak="clears"),
    Outcome.RATE_LIMITED: Consequence("throttle", doubles=True, vendor_time=True, scope="key", streak="counts"),
    Outcome.QUOTA_EXHAUSTED: Consequence("quota", vendor_time=True, scope="key", streak="counts"),
    Outcome.AUTH_FAILURE: Consequence("auth", scope="key", streak="counts"),
    Outcome.TIMEOUT: Consequence("blip", doubles=True, streak="counts"),
    Outcome.NETWORK: Consequence("blip", doubles=True, streak="counts"),
    Outcome.SERVER_ERROR: Consequence("throttle", doubles=True, vendor_time=True, streak="counts"),
    Outcome.REQUEST_ERROR: Consequence(),
}


@dataclass(frozen=True, slots=True)
class Tuning:
    """Seconds that the operator or the vendor's file may change."""

    throttle_s: float = 60.0
    """First rest after a throttle or a server error without a time."""
    limited_s: float | None = None
    """The same after `rate_limited` only, where a vendor's file knows better."""
    quota_retry_s: float = 21_600.0
    most_s: float = 3600.0


def rest_s(reply: Reply, tuning: Tuning, streak: int) -> float:
    """Seconds of rest after `reply`, which is failure number `streak` in a row (from 1); 0 means none."""
    consequence = CONSEQUENCES[reply.outcome]
    if reply.outcome is Outcome.AUTH_FAILURE:
        return AUTH_OUT_S
    if reply.setup:
        return min(SETUP_S, tuning.most_s)
    if consequence.base == "none":
        return 0.0
    most = QUOTA_MOST_S if consequence.base == "quota" else tuning.most_s
    if consequence.vendor_time and reply.retry_after_s is not None:
        return min(max(reply.retry_after_s, AT_LEAST_S), most)
    first = {"quota": tuning.quota_retry_s, "blip": BLIP_S}.get(consequence.base, tuning.throttle_s)
    if reply.outcome is Outcome.RATE_LIMITED and tuning.limited_s is not None:
        first = tuning.limited_s
    if not consequence.doubles:
        return min(first, most)
    # past 2**20 every rest is at its cap; the bound keeps the power small
    return min(first * 2.0 ** min(streak - 1, 20), most)


def spent_s(reply: Reply) -> float:
    """Seconds of rest for a key of which the vendor says, beside his answer, that nothing is left; 0 means none.

    Without a time there is none: nobody knows when to come back. A reply that is about the quota or the key itself has
    its own consequence.
    """
    left, told = reply.left, (Outcome.QUOTA_EXHAUSTED, Outcome.AUTH_FAILURE)
    if left is None or left.remaining > 0 or left.resets_s is None or reply.outcome in told:
        return 0.0
    return min(max(left.resets_s, AT_LEAST_S), QUOTA_MOST_S)
