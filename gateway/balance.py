"""Two counts of one quota, ours and the vendor's: what each has left, which one gates, how long it lasts. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Literal

from gateway.forecast import Forecast, forecast
from gateway.ledger import Entry
from providers._words import Budget

UNKNOWN = {
    "vendor_remaining": None,
    "vendor_limit": None,
    "vendor_resets_at": None,
    "vendor_as_of": None,
    "vendor_source": None,
    "gated_by": None,
}


def balance(budget: Budget, used: Sequence[int], entries: Sequence[Entry | None]) -> dict[str, Any]:
    """What the status says of keys that have `budget` each: `used` of it, and what the vendor said, key by key.

    A number of the vendor's is the sum of all keys', null unless all are known; his time is the soonest renewal, and
    `as_of` the oldest word that is in the sum.
    """
    told = _told(entries)
    if not told:
        return UNKNOWN | {"gated_by": gate(_local(budget, used), None)}
    remaining = sum(entry.remaining for entry in told)
    limits = [entry.limit for entry in told if entry.limit is not None]
    sources = {entry.source for entry in told}
    return {
        "vendor_remaining": remaining,
        "vendor_limit": sum(limits) if len(limits) == len(told) else None,
        "vendor_resets_at": _iso(_soonest(told)),
        "vendor_as_of": _iso(min(entry.as_of for entry in told)),
        "vendor_source": sources.pop() if len(sources) == 1 else None,
        "gated_by": gate(_local(budget, used), remaining),
    }


def gate(local: int | None, vendor: int | None) -> Literal["local", "vendor"] | None:
    """Whichever has less left, ours when both have the same; None when ours is unbounded and his unknown."""
    if vendor is not None and (local is None or vendor < local):
        return "vendor"
    return None if local is None else "local"


def outlook(
    budget: Budget, used: Sequence[int], entries: Sequence[Entry | None], per_day: float, now: float, ends: float | None
) -> Forecast | None:
    """How long whatever gates will last at `per_day` requests with all keys; our period `ends` then (None: never)."""
    told = _told(entries)
    vendor = sum(entry.remaining for entry in told) if told else None
    local = _local(budget, used)
    match gate(local, vendor):
        case "vendor":
            return forecast(vendor or 0, per_day, now, _soonest(told), budget.timezone, "the vendor's quota")
        case "local":
            return forecast(local or 0, per_day, now, ends, budget.timezone, "the budget")
    return None


def _told(entries: Sequence[Entry | None]) -> list[Entry]:
    """All entries; none when one of them is not known, for a sum without it would be a guess."""
    told = [entry for entry in entries if entry is not None]
    return told if len(told) == len(entries) else []


def _local(budget: Budget, used: Sequence[int]) -> int | None:
    limit = budget.limit
    return None if limit is None or not used else sum(max(0, limit - count) for count in used)


def _soonest(entries: Sequence[Entry]) -> float | None:
    return min((entry.resets_at for entry in entries if entry.resets_at is not None), default=None)


def _iso(moment: float | None) -> str | None:
    return None if moment is None else datetime.fromtimestamp(moment, UTC).isoformat(timespec="seconds")
