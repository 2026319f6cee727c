"""Our own count of requests per period: reserved before sending, never given back."""

from __future__ import annotations

import calendar
from datetime import date, datetime, timedelta
from typing import NamedTuple
from zoneinfo import ZoneInfo

from gateway.keys import Lane
from gateway.stores import Store
from providers._words import Budget


class Period(NamedTuple):
    """One budget period: a label that names its start, and its end in seconds since the epoch (None: never)."""

    label: str
    ends: float | None


def period(budget: Budget, now: float) -> Period:
    """The period that `now` (seconds since the epoch) falls into.

    A month begins at midnight of `reset_day`, or of the month's last day when it is shorter, in the budget's time zone
    (None: this machine's).
    """
    if budget.type in ("one_time", "unbounded"):
        return Period("always", None)
    zone = ZoneInfo(budget.timezone) if budget.timezone else None
    today = datetime.fromtimestamp(now, zone).date()
    if budget.type == "daily":
        starts, ends = today, today + timedelta(days=1)
    else:
        starts = _reset(today.year, today.month, budget.reset_day)
        if today < starts:
            starts, ends = _month_away(starts, -1, budget.reset_day), starts
        else:
            ends = _month_away(starts, 1, budget.reset_day)
    return Period(starts.isoformat(), datetime(ends.year, ends.month, ends.day, tzinfo=zone).timestamp())


def _reset(year: int, month: int, day: int) -> date:
    return date(year, month, min(day, calendar.monthrange(year, month)[1]))


def _month_away(start: date, months: int, day: int) -> date:
    index = start.year * 12 + start.month - 1 + months
    return _reset(index // 12, index % 12 + 1, day)


def profile(budget: Budget) -> str:
    """The budget in one word, for the status: `monthly:1000@day2`."""
    if budget.type == "monthly":
        return f"monthly:{budget.limit}@day{budget.reset_day}"
    return budget.type if budget.limit is None else f"{budget.type}:{budget.limit}"


def counter(lane: Lane, current: Period) -> str:
    """The name under which the lane's requests of a period are counted. A new type or day is a new count."""
    budget = lane.budget
    kind = f"{budget.type}@{budget.reset_day}" if budget.type == "monthly" else budget.type
    return f"budget:{lane.narrow}:{kind}:{current.label}"


async def reserve(store: Store, lane: Lane, now: float) -> bool:
    """Take one unit in one atomic step; False when the limit is reached."""
    current = period(lane.budget, now)
    name = counter(lane, current)
    if lane.budget.limit is None:
        await store.count(name, current.ends)
        return True
    return await store.spend(name, lane.budget.limit, current.ends) is not None


async def used(store: Store, lane: Lane, now: float) -> int:
    """Units taken in this period."""
    name = counter(lane, period(lane.budget, now))
    return (await store.counted([name])).get(name, 0)
