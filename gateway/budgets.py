"""Our own count of requests per period: reserved before sending, never given back."""

from __future__ import annotations

import calendar
from collections.abc import Sequence
from contextlib import suppress
from datetime import date, datetime, timedelta
from typing import NamedTuple
from zoneinfo import ZoneInfo

from gateway.forecast import Recent
from gateway.keys import Lane
from gateway.policy import DAY_S
from gateway.stores import Store, StoreUnavailable
from providers._words import Budget

DAYS_KEPT_S = 3 * DAY_S
"""How long the requests of a day are remembered from its beginning: as long as the next day lasts, and some more."""


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


class Taken(NamedTuple):
    """How far a budget's count has gone, and the count's name."""

    counter: str
    units: int


async def reserve(store: Store, lane: Lane, now: float) -> Taken | None:
    """Take one unit in one atomic step: what is taken then, None when the limit is reached."""
    current = period(lane.budget, now)
    name = counter(lane, current)
    if lane.budget.limit is None:
        return Taken(name, await store.count(name, current.ends))
    units = await store.spend(name, lane.budget.limit, current.ends)
    if units is None:
        return None
    today = _day(lane.budget, now)
    with suppress(StoreUnavailable):  # the unit is taken, and only the forecast misses this count
        await store.count(_of_day(lane, today), today.began + DAYS_KEPT_S)
    return Taken(name, units)


async def used(store: Store, lane: Lane, now: float) -> int:
    """Units taken in this period."""
    name = counter(lane, period(lane.budget, now))
    return (await store.counted([name])).get(name, 0)


async def recent(store: Store, lanes: Sequence[Lane], now: float) -> Recent:
    """What was asked with `lanes`, all of one provider, today and yesterday; nothing where no budget is limited."""
    if not lanes:
        return Recent(0, 0, 0.0)
    today, yesterday = _day(lanes[0].budget, now), _day(lanes[0].budget, now, back=1)
    names = [[_of_day(lane, day) for lane in lanes] for day in (today, yesterday)]
    counts = await store.counted([name for each in names for name in each])
    asked = [sum(counts.get(name, 0) for name in each) for each in names]
    return Recent(asked[0], asked[1], now - today.began, today.began - yesterday.began)


class _Day(NamedTuple):
    """A day where the budget's midnight is, and that midnight in seconds since the epoch."""

    label: str
    began: float


def _day(budget: Budget, now: float, back: int = 0) -> _Day:
    zone = ZoneInfo(budget.timezone) if budget.timezone else None
    day = datetime.fromtimestamp(now, zone).date() - timedelta(days=back)
    return _Day(day.isoformat(), datetime(day.year, day.month, day.day, tzinfo=zone).timestamp())


def _of_day(lane: Lane, day: _Day) -> str:
    return f"day:{lane.narrow}:{day.label}"
