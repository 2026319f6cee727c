"""How long a budget lasts: the arithmetic, and the days that are counted for it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway import budgets
from gateway.budgets import period
from gateway.forecast import DAY_S, FAR_S, Recent, forecast
from gateway.gateway import Gateway
from gateway.stores.memory import MemoryStore
from providers._words import Budget, daily, monthly, one_time
from tests.rooms import NOON, HandTime, ask, lane, running, tuned
from tests.test_budgets import with_budget
from tests.vendors import Played

COUNTS = st.integers(0, 10**9)
TODAY = date(2026, 11, 30)


@pytest.fixture
def time(anyio_backend: str) -> HandTime:
    return HandTime()


def words(left: int, per_day: float, renewed_in_days: float | None = None) -> str | None:
    renewed = None if renewed_in_days is None else NOON + renewed_in_days * DAY_S
    found = forecast(left, per_day, NOON, renewed, "UTC", "the budget")
    return None if found is None else found.words


# ---------------------------------------------------------------------------------------------------------------------
# the rate


@given(COUNTS, COUNTS, st.floats(0, 90_000), st.sampled_from([82_800.0, 86_400.0, 90_000.0]))
def test_a_rate_lies_between_what_came_today_and_what_came_in_two_days(
    today: int, yesterday: int, elapsed_s: float, yesterday_s: float
) -> None:
    per_day = Recent(today, yesterday, elapsed_s, yesterday_s).per_day
    assert today <= per_day <= today + yesterday
    assert per_day > 0 or not today


@given(COUNTS, COUNTS, st.floats(0, 86_400), st.floats(0, 86_400))
def test_yesterday_counts_for_less_the_longer_it_is_ago(today: int, yesterday: int, one: float, other: float) -> None:
    rates = [Recent(today, yesterday, elapsed_s).per_day for elapsed_s in sorted((one, other))]
    assert rates[0] >= rates[1]


@given(st.floats(0, 90_000))
def test_one_request_in_the_first_second_of_a_day_is_one_a_day(elapsed_s: float) -> None:
    assert Recent(1, 0, elapsed_s).per_day == 1


def test_the_last_24_hours_are_counted_whatever_the_hour() -> None:
    assert [Recent(12, 24, hours * 3600).per_day for hours in (0, 6, 12, 24)] == [36, 30, 24, 12]


# ---------------------------------------------------------------------------------------------------------------------
# the day


@pytest.mark.parametrize(
    ("left", "per_day", "renewed_in_days", "told"),
    [
        (228, 12, 30, "at today's rate (12 a day) the budget lasts until 2026-12-19"),
        (228, 12, 19, "at today's rate (12 a day) the budget lasts the period"),
        (228, 12, None, "at today's rate (12 a day) the budget lasts until 2026-12-19"),
        (1, 24, 30, "at today's rate (24 a day) the budget lasts until 2026-11-30"),
        (2, 0.25, 30, "at today's rate (less than one a day) the budget lasts until 2026-12-08"),
        (10**9, 1, None, "at today's rate (1 a day) the budget lasts more than ten years"),
        (0, 3, 15, "the budget is used up until 2026-12-15"),
        (0, 3, None, "the budget is used up"),
        (10, 0, 30, None),
        (0, 0, 30, None),
    ],
)
def test_it_is_told_in_a_sentence(left: int, per_day: float, renewed_in_days: float | None, told: str | None) -> None:
    assert words(left, per_day, renewed_in_days) == told


@given(
    st.integers(-5, 10**15),
    st.floats(0, 1e12) | st.just(5e-324),
    st.none() | st.floats(NOON, NOON + 2 * FAR_S),
    st.sampled_from(["UTC", "Asia/Shanghai", "America/Los_Angeles", None]),
)
def test_whatever_the_numbers_a_forecast_is_a_day_ahead_or_none(
    left: int, per_day: float, renewed: float | None, zone: str | None
) -> None:
    found = forecast(left, per_day, NOON, renewed, zone, "the budget")
    if found is None:
        assert per_day == 0
    elif found.until is not None:
        today = datetime.fromtimestamp(NOON, ZoneInfo(zone) if zone else None).date()
        assert today <= found.until <= today + timedelta(days=3652)
        if renewed is not None and left > 0:
            assert found.until <= datetime.fromtimestamp(renewed, ZoneInfo(zone) if zone else None).date()


@given(st.integers(1, 10**6), st.integers(1, 10**6), st.floats(0.1, 1e4))
def test_more_lasts_longer(one: int, other: int, per_day: float) -> None:
    days = [forecast(left, per_day, NOON, None, "UTC", "the budget") for left in sorted((one, other))]
    until = [found.until or date.max for found in days if found is not None]
    assert until[0] <= until[1]


# ---------------------------------------------------------------------------------------------------------------------
# the days that are counted


@pytest.mark.anyio
async def test_today_and_yesterday_are_counted_and_the_day_before_is_forgotten(time: HandTime) -> None:
    store, key = MemoryStore(time.clock.wall), with_budget(monthly(1000))
    for requests in (7, 3, 2):
        for _ in range(requests):
            assert await budgets.reserve(store, key, time.now)
        time.move(DAY_S)
    time.move(-DAY_S)
    assert await budgets.recent(store, [key], time.now) == Recent(2, 3, 43_200, 86_400)
    time.move(DAY_S)
    assert await budgets.recent(store, [key], time.now) == Recent(0, 2, 43_200, 86_400)


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("day", "hours_since_midnight", "hours_of_yesterday"),
    [
        ((2026, 3, 29, 12), 11, 24),
        ((2026, 3, 30, 12), 12, 23),
        ((2026, 10, 25, 23), 24, 24),
        ((2026, 10, 26, 0), 0, 25),
    ],
)
async def test_a_day_is_as_long_as_summer_time_makes_it_where_the_budget_is(
    time: HandTime, day: tuple[int, int, int, int], hours_since_midnight: int, hours_of_yesterday: int
) -> None:
    berlin = replace(with_budget(monthly(5)), budget=Budget("monthly", 5, timezone="Europe/Berlin"))
    now = datetime(*day, tzinfo=ZoneInfo("Europe/Berlin")).timestamp()
    recent = await budgets.recent(MemoryStore(lambda: now), [berlin], now)
    assert (recent.elapsed_s / 3600, recent.yesterday_s / 3600) == (hours_since_midnight, hours_of_yesterday)


async def pace(gateway: Gateway, name: str) -> tuple[str | None, str | None]:
    lines = (await gateway.status())["providers"]
    return next((each["lasts_until"], each["pace"]) for each in lines if each["name"] == name)


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("quota", "told"),
    [
        ({"type": "monthly", "limit": 36, "reset_day": 29}, ("2026-12-11", "lasts until 2026-12-11")),
        ({"type": "monthly", "limit": 1000, "reset_day": 29}, (None, "lasts the period")),
        ({"type": "daily", "limit": 4}, ("2026-11-30", "lasts until 2026-11-30")),
        ({"type": "daily", "limit": 9}, (None, "lasts the period")),
        ({"type": "one_time", "limit": 33}, ("2026-12-10", "lasts until 2026-12-10")),
    ],
)
async def test_the_status_says_until_when_a_budget_lasts(
    played: Played, time: HandTime, quota: dict[str, Any], told: tuple[str | None, str]
) -> None:
    async with running(played, [tuned("tavily", quota=quota)], time=time) as gateway:
        assert await pace(gateway, "tavily") == (None, None)
        for number in range(3):
            await ask(gateway, f"moss {number}")
        until, words = await pace(gateway, "tavily")
        assert until == told[0]
        assert words == f"at today's rate (3 a day) the budget {told[1]}"


@pytest.mark.anyio
async def test_a_budget_that_is_used_up_says_so(played: Played, time: HandTime) -> None:
    async with running(played, [tuned("tavily", quota={"limit": 1})], time=time) as gateway:
        await ask(gateway)
        assert await pace(gateway, "tavily") == ("2026-11-30", "the budget is used up until 2026-12-02")


@pytest.mark.anyio
async def test_with_several_keys_the_rate_and_what_is_left_are_those_of_all(played: Played, time: HandTime) -> None:
    keys = {"TAVILY_API_KEY": "tvly-one-1111,tvly-two-2222"}
    chain = [tuned("tavily", quota={"type": "one_time", "limit": 2})]
    async with running(played, chain, keys=keys, time=time) as gateway:
        for number in range(3):
            await ask(gateway, f"moss {number}")
        recent = await budgets.recent(gateway.store, [lane(gateway, "tavily", n) for n in (1, 2)], time.now)
        assert (recent.today, recent.yesterday) == (3, 0)
        assert (await pace(gateway, "tavily"))[1] == "at today's rate (3 a day) the budget lasts until 2026-11-30"


def test_the_moment_of_these_tests_is_what_they_take_it_for() -> None:
    assert datetime.fromtimestamp(NOON, UTC).date() == TODAY
    assert period(with_budget(daily(1)).budget, NOON).label == TODAY.isoformat()
    assert period(one_time(1), NOON).ends is None
