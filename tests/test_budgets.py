"""Budget periods touch without gap or overlap in every time zone, and counts belong to one of them."""

from __future__ import annotations

import zoneinfo
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gateway import budgets
from gateway.budgets import Period, period
from gateway.keys import Lane
from gateway.policy import Tuning
from gateway.stores.memory import MemoryStore
from providers._words import Budget, daily, monthly, one_time
from tests.rooms import HandTime

ODD_ZONES = (
    "Europe/Berlin",
    "America/New_York",
    "Asia/Kolkata",
    "Pacific/Apia",  # had no 30 December 2011
    "America/Sao_Paulo",  # midnights that do not exist, until 2018
    "Africa/Cairo",  # the same, since 2023
    "Asia/Beirut",
    "America/Havana",  # midnights that come twice
    "America/Scoresbysund",
    "Australia/Lord_Howe",  # half an hour of summer time
    "Pacific/Kiritimati",
    "Etc/GMT+12",
    "UTC",
)
# (before 2012 St John's went back an hour from one minute past midnight, and had one day twice; nobody does that now)
zones = st.sampled_from(ODD_ZONES) | st.sampled_from(sorted(zoneinfo.available_timezones() - {"localtime"}))
moments = st.datetimes(datetime(2012, 1, 2), datetime(2060, 1, 1)).map(lambda at: at.replace(tzinfo=UTC).timestamp())
kinds = st.just(Budget("daily", 5)) | st.integers(1, 31).map(lambda day: Budget("monthly", 5, day))


def at(zone: str, *moment: int, fold: int = 0) -> float:
    return datetime(*moment, tzinfo=ZoneInfo(zone), fold=fold).timestamp()  # type: ignore[misc, arg-type]


def begins(found: Period, zone: str) -> float:
    """The first moment of a period, by its label."""
    return datetime.fromisoformat(found.label).replace(tzinfo=ZoneInfo(zone)).timestamp()


@settings(max_examples=300, deadline=None)
@given(kinds, zones, moments)
@example(Budget("daily", 5), "Pacific/Apia", datetime(2011, 12, 30, 9, 59, tzinfo=UTC).timestamp())
@example(Budget("daily", 5), "Pacific/Apia", datetime(2011, 12, 30, 10, tzinfo=UTC).timestamp())
@example(Budget("monthly", 5, 30), "Pacific/Apia", datetime(2011, 12, 30, 10, tzinfo=UTC).timestamp())
@example(Budget("daily", 5), "America/Sao_Paulo", datetime(2018, 11, 4, 3, tzinfo=UTC).timestamp())
@example(Budget("monthly", 5, 4), "America/Sao_Paulo", datetime(2018, 11, 4, 2, 59, tzinfo=UTC).timestamp())
@example(Budget("daily", 5), "Africa/Cairo", datetime(2026, 4, 23, 22, tzinfo=UTC).timestamp())
@example(Budget("daily", 5), "America/Havana", datetime(2026, 11, 1, 4, 30, tzinfo=UTC).timestamp())
@example(Budget("daily", 5), "America/Havana", datetime(2026, 11, 1, 5, 30, tzinfo=UTC).timestamp())
@example(Budget("monthly", 5, 31), "UTC", datetime(2028, 2, 29, tzinfo=UTC).timestamp())
@example(Budget("monthly", 5, 1), "UTC", datetime(2027, 1, 1, tzinfo=UTC).timestamp())
def test_a_moment_lies_in_its_period_and_the_next_one_begins_where_it_ends(kind: Budget, zone: str, now: float) -> None:
    budget = replace(kind, timezone=zone)
    found = period(budget, now)
    assert found.ends is not None
    assert now < found.ends
    assert begins(found, zone) <= now
    following = period(budget, found.ends)
    assert (following.label > found.label, begins(following, zone)) == (True, found.ends)
    assert period(budget, found.ends - 0.001) == found
    longest = 33 if budget.type == "monthly" else 3
    assert found.ends - now < timedelta(days=longest).total_seconds()


@settings(max_examples=100, deadline=None)
@given(kinds, zones, moments, moments)
def test_one_label_is_one_period(kind: Budget, zone: str, one: float, other: float) -> None:
    budget = replace(kind, timezone=zone)
    first, second = period(budget, one), period(budget, other)
    assert (first.label == second.label) == (first.ends == second.ends)


@pytest.mark.parametrize(
    ("day", "now", "label", "ends"),
    [
        (31, "2026-02-27", "2026-01-31", "2026-02-28"),
        (31, "2026-02-28", "2026-02-28", "2026-03-31"),
        (31, "2026-03-30", "2026-02-28", "2026-03-31"),
        (31, "2026-04-30", "2026-04-30", "2026-05-31"),
        (30, "2028-02-29", "2028-02-29", "2028-03-30"),
        (29, "2028-02-28", "2028-01-29", "2028-02-29"),
        (29, "2027-02-28", "2027-02-28", "2027-03-29"),
        (1, "2026-12-31", "2026-12-01", "2027-01-01"),
        (15, "2027-01-14", "2026-12-15", "2027-01-15"),
        (31, "2026-12-31", "2026-12-31", "2027-01-31"),
    ],
)
def test_a_reset_day_that_a_month_does_not_have_is_its_last(day: int, now: str, label: str, ends: str) -> None:
    moment = datetime.fromisoformat(now).replace(tzinfo=UTC)
    found = period(replace(monthly(5, day), timezone="UTC"), moment.timestamp())
    assert found == Period(label, datetime.fromisoformat(ends).replace(tzinfo=UTC).timestamp())


def test_a_period_begins_at_midnight_of_its_own_zone() -> None:
    budget = replace(monthly(5, 2), timezone="Asia/Kolkata")
    midnight = at("Asia/Kolkata", 2026, 12, 2)
    assert datetime.fromtimestamp(midnight, UTC).hour == 18
    assert period(budget, midnight - 1).label == "2026-11-02"
    assert period(budget, midnight).label == "2026-12-02"


@pytest.mark.parametrize(("day", "hours"), [((2026, 3, 29), 23), ((2026, 10, 25), 25), ((2026, 6, 1), 24)])
def test_a_day_is_as_long_as_summer_time_makes_it(day: tuple[int, int, int], hours: int) -> None:
    begun = at("Europe/Berlin", *day)
    ends = period(replace(daily(5), timezone="Europe/Berlin"), begun).ends
    assert ends is not None
    assert (ends - begun) / 3600 == hours


def test_what_is_counted_once_or_without_end_has_no_period() -> None:
    assert period(one_time(5), 0) == period(Budget("unbounded"), 4e9) == Period("always", None)


# ---------------------------------------------------------------------------------------------------------------------
# counts


def with_budget(budget: Budget) -> Lane:
    return Lane("tavily", 1, "k", replace(budget, timezone="UTC"), 0, Tuning(), wide="tavily", narrow="tavily:0")


@pytest.fixture
def time(anyio_backend: str) -> HandTime:
    return HandTime()


@pytest.fixture
def store(time: HandTime) -> MemoryStore:
    return MemoryStore(time.clock.wall)


async def spend(store: MemoryStore, time: HandTime, budget: Budget, times: int) -> list[bool]:
    return [await budgets.reserve(store, with_budget(budget), time.now) is not None for _ in range(times)]


async def used(store: MemoryStore, time: HandTime, budget: Budget) -> int:
    return await budgets.used(store, with_budget(budget), time.now)


@pytest.mark.anyio
async def test_the_limit_is_the_last_that_is_let_through(store: MemoryStore, time: HandTime) -> None:
    assert await spend(store, time, monthly(3), 5) == [True, True, True, False, False]
    assert await used(store, time, monthly(3)) == 3


@pytest.mark.anyio
async def test_changing_the_limit_keeps_the_count(store: MemoryStore, time: HandTime) -> None:
    await spend(store, time, monthly(3), 3)
    assert await spend(store, time, monthly(5), 3) == [True, True, False]
    assert await spend(store, time, monthly(4), 1) == [False]
    assert await used(store, time, monthly(4)) == 5


@pytest.mark.anyio
async def test_changing_the_type_or_the_day_starts_a_new_period(store: MemoryStore, time: HandTime) -> None:
    await spend(store, time, monthly(3), 3)
    # the 30th and the 31st are one day this November
    for other in (monthly(3, 2), monthly(3, 30), monthly(3, 31), daily(3), one_time(3)):
        assert await used(store, time, other) == 0
        assert await spend(store, time, other, 4) == [True, True, True, False]


@pytest.mark.anyio
@pytest.mark.parametrize(("budget", "days"), [(monthly(2, 1), 1), (monthly(2, 30), 30), (daily(2), 1)])
async def test_after_the_end_of_its_period_a_count_starts_again(
    store: MemoryStore, time: HandTime, budget: Budget, days: int
) -> None:
    assert await spend(store, time, budget, 3) == [True, True, False]
    ends = period(with_budget(budget).budget, time.now).ends
    assert ends is not None
    time.now = ends - 0.001
    assert await spend(store, time, budget, 1) == [False]
    time.now = ends
    assert await used(store, time, budget) == 0
    assert await spend(store, time, budget, 3) == [True, True, False]


@pytest.mark.anyio
async def test_what_is_given_once_never_comes_back(store: MemoryStore, time: HandTime) -> None:
    await spend(store, time, one_time(2), 2)
    time.move(40 * 365 * 86_400)
    assert await spend(store, time, one_time(2), 1) == [False]


@pytest.mark.anyio
async def test_a_limit_of_nothing_lets_nobody_through(store: MemoryStore, time: HandTime) -> None:
    assert await spend(store, time, monthly(0), 2) == [False, False]


@pytest.mark.anyio
async def test_without_a_limit_requests_are_counted_all_the_same(store: MemoryStore, time: HandTime) -> None:
    assert await spend(store, time, Budget("unbounded"), 3) == [True, True, True]
    assert await used(store, time, Budget("unbounded")) == 3
