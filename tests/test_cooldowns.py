"""What follows from a failure, seen from outside: who rests, until when, and what ends it."""

from __future__ import annotations

from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest

import providers
from gateway import keys
from gateway.cooldowns import Cooldowns
from gateway.keys import Lane
from gateway.policy import Tuning
from gateway.stores.memory import MemoryStore
from providers import Outcome, Reply
from providers._words import UNBOUNDED
from tests.rooms import EMPTY, HandTime, ask, configured, failing, rest, running, sqlite, streak, told, tuned, used
from tests.vendors import RESET, Play, Played, success

pytestmark = pytest.mark.anyio

DAY_S = 86_400


@pytest.fixture
def time(anyio_backend: str) -> HandTime:
    return HandTime()


@pytest.fixture
def cooldowns(time: HandTime) -> Cooldowns:
    return Cooldowns(MemoryStore(time.clock.wall), time.clock.wall)


def a_lane(number: int = 1, **tuning: float) -> Lane:
    tuned = Tuning(**tuning)
    return Lane("tavily", number, f"k{number}", UNBOUNDED, 0, tuned, wide="tavily", narrow=f"tavily:{number}")


async def left(cooldowns: Cooldowns, time: HandTime, lane: Lane) -> float | None:
    found = await cooldowns.of(lane)
    return None if found is None else found.until - time.now


# ---------------------------------------------------------------------------------------------------------------------
# length


@pytest.mark.parametrize(
    ("play", "why", "seconds"),
    [
        (failing(429), "rate_limited", 60),
        (failing(429, 7), "rate_limited", 7),
        (failing(429, 7.5), "rate_limited", 7.5),
        (failing(429, "-1"), "rate_limited", 60),
        (failing(429, "abc"), "rate_limited", 60),
        (failing(429, "inf"), "rate_limited", 60),
        (failing(429, 99_999), "rate_limited", 3600),
        (failing(432), "quota_exhausted", 21_600),
        (failing(432, 100 * DAY_S), "quota_exhausted", 32 * DAY_S),
        (failing(401), "auth_failure", DAY_S),
        (failing(504), "timeout", 30),
        (RESET, "network", 30),
        (failing(500), "server_error", 60),
        (failing(503, 120), "server_error", 120),
        (Play(200, body=b"<html>"), "server_error", 60),
        (failing(400), None, None),
        (EMPTY["tavily"], None, None),
        (success("tavily"), None, None),
    ],
)
async def test_each_outcome_has_its_rest(
    played: Played, time: HandTime, play: Play, why: str | None, seconds: float | None
) -> None:
    played.script("tavily", play)
    async with running(played, ["tavily", "brave"], time=time) as gateway:
        assert not (await ask(gateway)).is_error
        assert await rest(gateway, "tavily") == (None if why is None else (why, seconds))
        assert await streak(gateway, "tavily") == (why is not None)


async def test_a_date_to_come_back_is_seconds_from_now_and_a_past_one_is_none(played: Played, time: HandTime) -> None:
    for ahead, seconds in ((90, 90), (-90, 60)):
        played.script("tavily", failing(429, formatdate(time.now + ahead, usegmt=True)))
        async with running(played, ["tavily", "brave"], time=time) as gateway:
            await ask(gateway)
            assert await rest(gateway, "tavily") == ("rate_limited", seconds)


async def test_rests_double_while_failures_follow_one_another(played: Played, time: HandTime) -> None:
    played.script("tavily", failing(429))
    async with running(played, ["tavily", "brave"], time=time) as gateway:
        for number, seconds in enumerate((60, 120, 240, 480, 960, 1920, 3600, 3600), 1):
            await ask(gateway, f"moss {number}")
            assert await rest(gateway, "tavily") == ("rate_limited", seconds)
            assert await streak(gateway, "tavily") == number
            time.move(seconds)
    assert played.count("tavily") == 8


async def test_the_vendors_own_time_is_followed_by_a_doubled_one_when_it_names_none(
    played: Played, time: HandTime
) -> None:
    played.script("tavily", failing(429, 5), failing(429))
    async with running(played, ["tavily", "brave"], time=time) as gateway:
        await ask(gateway, "one")
        time.move(5)
        await ask(gateway, "two")
        assert await rest(gateway, "tavily") == ("rate_limited", 120)


async def test_cooldown_default_s_is_the_first_rest(played: Played, time: HandTime) -> None:
    played.script("tavily", failing(429))
    async with running(played, ["tavily", "brave"], time=time, defaults={"cooldown_default_s": 5}) as gateway:
        await ask(gateway)
        assert await rest(gateway, "tavily") == ("rate_limited", 5)


@pytest.mark.parametrize(
    ("status", "outcome", "tuning"),
    [
        (429, "rate_limited", {"cooldown_max_s": 0}),
        (504, "timeout", {"cooldown_max_s": 0}),
        (432, "quota_exhausted", {"quota_retry_s": 0}),
    ],
)
async def test_zero_switches_resting_off(
    played: Played, time: HandTime, status: int, outcome: str, tuning: dict[str, Any]
) -> None:
    played.script("tavily", failing(status))
    async with running(played, [tuned("tavily", **tuning), "brave"], time=time) as gateway:
        for number in range(3):
            assert told(await ask(gateway, f"moss {number}")) == [f"tavily {outcome} http_{status}"]
            assert await rest(gateway, "tavily") is None


async def test_who_never_rests_is_never_on_trial(cooldowns: Cooldowns) -> None:
    tireless = a_lane(most_s=0)
    await cooldowns.follow(tireless, Reply(Outcome.TIMEOUT))
    assert [await cooldowns.begin_trial(tireless, 15) for _ in range(2)] == ["", ""]


@pytest.mark.parametrize("name", [name for name in providers.names() if providers.find(name).rest_default_s])
async def test_a_vendors_file_may_know_better_how_long_its_throttle_lasts(played: Played, name: str) -> None:
    vendor = providers.find(name)
    settings = next(each for each in configured(played, [name]).providers if each.name == name)
    (lane,) = keys.lanes(vendor, settings, 60)
    most_s = 3600 if vendor.rest_max_s is None else vendor.rest_max_s
    assert (lane.tuning.limited_s, lane.tuning.most_s) == (vendor.rest_default_s, most_s)


def test_duckduckgo_rests_a_quarter_of_an_hour_and_at_most_six() -> None:
    duckduckgo = providers.find("duckduckgo")
    assert (duckduckgo.rest_default_s, duckduckgo.rest_max_s) == (900, 21_600)


# ---------------------------------------------------------------------------------------------------------------------
# several at once


async def test_a_second_longer_rest_extends_the_first(cooldowns: Cooldowns, time: HandTime) -> None:
    await cooldowns.follow(a_lane(), Reply(Outcome.RATE_LIMITED, retry_after_s=1))
    await cooldowns.follow(a_lane(), Reply(Outcome.RATE_LIMITED))
    assert await left(cooldowns, time, a_lane()) == 60


async def test_a_second_shorter_rest_never_shortens_the_first(cooldowns: Cooldowns, time: HandTime) -> None:
    await cooldowns.follow(a_lane(), Reply(Outcome.QUOTA_EXHAUSTED))
    await cooldowns.follow(a_lane(), Reply(Outcome.RATE_LIMITED, retry_after_s=1))
    assert await left(cooldowns, time, a_lane()) == 21_600
    found = await cooldowns.of(a_lane())
    assert found is not None
    assert found.why == "quota_exhausted"


async def test_of_two_rests_the_longer_one_counts_whoever_it_belongs_to(cooldowns: Cooldowns, time: HandTime) -> None:
    await cooldowns.follow(a_lane(), Reply(Outcome.RATE_LIMITED))
    await cooldowns.follow(a_lane(), Reply(Outcome.TIMEOUT))
    assert await left(cooldowns, time, a_lane()) == 60
    assert await left(cooldowns, time, a_lane(2)) == 30


async def test_failures_that_come_in_during_a_rest_are_one_step(cooldowns: Cooldowns, time: HandTime) -> None:
    for _ in range(200):
        await cooldowns.follow(a_lane(), Reply(Outcome.TIMEOUT))
    assert await cooldowns.streak(a_lane()) == 1
    assert await left(cooldowns, time, a_lane()) == 30


@pytest.mark.parametrize("first", [Outcome.RATE_LIMITED, Outcome.TIMEOUT, Outcome.AUTH_FAILURE])
@pytest.mark.parametrize("second", [Outcome.RATE_LIMITED, Outcome.TIMEOUT, Outcome.QUOTA_EXHAUSTED])
async def test_a_failure_of_another_kind_during_a_rest_is_no_step_either(
    cooldowns: Cooldowns, first: Outcome, second: Outcome
) -> None:
    await cooldowns.follow(a_lane(), Reply(first))
    await cooldowns.follow(a_lane(), Reply(second))
    assert await cooldowns.streak(a_lane()) == 1


async def test_a_failure_that_brings_no_rest_counts_while_nobody_rests(cooldowns: Cooldowns) -> None:
    tireless = a_lane(quota_retry_s=0)
    for number in (1, 2):
        await cooldowns.follow(tireless, Reply(Outcome.QUOTA_EXHAUSTED))
        assert await cooldowns.streak(tireless) == number
    await cooldowns.follow(tireless, Reply(Outcome.RATE_LIMITED))
    await cooldowns.follow(tireless, Reply(Outcome.QUOTA_EXHAUSTED))
    assert await cooldowns.streak(tireless) == 3


async def test_a_rest_is_over_at_its_end(cooldowns: Cooldowns, time: HandTime) -> None:
    await cooldowns.follow(a_lane(), Reply(Outcome.TIMEOUT))
    time.move(29.999)
    assert await cooldowns.of(a_lane()) is not None
    time.move(0.001)
    assert await cooldowns.of(a_lane()) is None


# ---------------------------------------------------------------------------------------------------------------------
# what ends a streak


@pytest.mark.parametrize("better", [success("tavily"), EMPTY["tavily"]], ids=["results", "no results"])
async def test_an_answer_clears_the_streak(played: Played, time: HandTime, better: Play) -> None:
    played.script("tavily", failing(500), failing(500), better, failing(500))
    async with running(played, ["tavily", "brave"], time=time) as gateway:
        for number, seconds in enumerate((60, 120, 0, 60)):
            await ask(gateway, f"moss {number}")
            found = await rest(gateway, "tavily")
            assert (found[1] if found else 0) == seconds
            assert await streak(gateway, "tavily") == (1, 2, 0, 1)[number]
            time.move(seconds)


async def test_rows_from_other_hosts_clear_the_streak_too(played: Played, time: HandTime) -> None:
    played.script("tavily", failing(500), success("tavily", hosts=["elsewhere.example"]))
    async with running(played, ["tavily", "brave"], time=time) as gateway:
        await ask(gateway, "one")
        time.move(60)
        await ask(gateway, "two", include_domains=["a.example"])
        assert await streak(gateway, "tavily") == 0


async def test_a_request_error_neither_counts_nor_clears(played: Played, time: HandTime) -> None:
    played.script("tavily", failing(500), failing(400), failing(500))
    async with running(played, ["tavily", "brave"], time=time) as gateway:
        for number, (seconds, failures) in enumerate(((60, 1), (0, 1), (120, 2))):
            await ask(gateway, f"moss {number}")
            assert await streak(gateway, "tavily") == failures
            time.move(seconds)


async def test_a_streak_is_forgotten_after_a_day(cooldowns: Cooldowns, time: HandTime) -> None:
    await cooldowns.follow(a_lane(), Reply(Outcome.TIMEOUT))
    time.move(DAY_S - 1)
    await cooldowns.follow(a_lane(), Reply(Outcome.TIMEOUT))
    assert await left(cooldowns, time, a_lane()) == 60
    time.move(DAY_S)
    assert await cooldowns.streak(a_lane()) == 0
    await cooldowns.follow(a_lane(), Reply(Outcome.TIMEOUT))
    assert await left(cooldowns, time, a_lane()) == 30


# ---------------------------------------------------------------------------------------------------------------------
# what only a person can mend


async def test_a_setup_fault_rests_five_minutes_without_a_streak(played: Played, time: HandTime) -> None:
    played.script("searxng", Play(403, body=b"Forbidden"))
    async with running(played, ["searxng", "tavily"], time=time) as gateway:
        assert told(await ask(gateway, "one")) == ["searxng request_error http_403"]
        assert await rest(gateway, "searxng") == ("request_error", 300)
        assert await streak(gateway, "searxng") == 0
        assert told(await ask(gateway, "two")) == ["searxng skipped:request_error 300s"]
        last = await gateway.history.last("searxng")
        assert last is not None
        assert "search.formats" in last["hint"]
        time.move(300)
        assert told(await ask(gateway, "three")) == ["searxng request_error http_403"]


async def test_a_key_that_is_out_for_auth_stays_out_across_a_one_shot_command_until_a_start(
    played: Played, time: HandTime, tmp_path: Path
) -> None:
    played.script("tavily", failing(401), success("tavily"))
    state = sqlite(tmp_path)
    async with running(played, ["tavily", "brave"], time=time, state=state) as gateway:
        assert told(await ask(gateway, "one")) == ["tavily auth_failure http_401"]
        time.move(3600)
        assert told(await ask(gateway, "two")) == ["tavily skipped:auth_failure until_restart"]
    async with running(played, ["tavily", "brave"], time=time, state=state) as gateway:
        assert told(await ask(gateway, "three")) == ["tavily skipped:auth_failure until_restart"]
        assert gateway.usable() == ("Brave Search",)
    async with running(played, ["tavily", "brave"], time=time, state=state, fresh_start=True) as gateway:
        assert gateway.usable() == ("Tavily", "Brave Search")
        assert used(await ask(gateway, "four")) == "tavily"


async def test_another_key_is_not_out_and_the_first_one_still_is(
    played: Played, time: HandTime, tmp_path: Path
) -> None:
    played.script("tavily", failing(401), success("tavily"))
    state = sqlite(tmp_path)
    async with running(played, ["tavily", "brave"], time=time, state=state) as gateway:
        await ask(gateway, "one")
    new = {"TAVILY_API_KEY": "tvly-another"}
    async with running(played, ["tavily", "brave"], time=time, state=state, keys=new) as gateway:
        assert used(await ask(gateway, "two")) == "tavily"
    async with running(played, ["tavily", "brave"], time=time, state=state) as gateway:
        assert told(await ask(gateway, "three")) == ["tavily skipped:auth_failure until_restart"]


async def test_a_key_is_out_for_auth_a_day_at_most(played: Played, time: HandTime) -> None:
    played.script("tavily", failing(401))
    async with running(played, ["tavily", "brave"], time=time) as gateway:
        await ask(gateway, "one")
        time.move(DAY_S)
        assert told(await ask(gateway, "two")) == ["tavily auth_failure http_401"]


async def test_a_start_forgives_nothing_but_auth(played: Played, time: HandTime, tmp_path: Path) -> None:
    played.script("tavily", failing(432))
    played.script("bocha", failing(504))
    names, state = ["tavily", "bocha", "brave"], sqlite(tmp_path)
    async with running(played, names, time=time, state=state) as gateway:
        await ask(gateway, "one")
    async with running(played, names, time=time, state=state, fresh_start=True) as gateway:
        assert told(await ask(gateway, "two")) == [
            "tavily skipped:quota_exhausted 21600s",
            "bocha skipped:timeout 30s",
        ]


async def test_a_reload_keeps_rests_and_does_not_forgive(played: Played, time: HandTime) -> None:
    played.script("tavily", failing(401))
    async with running(played, ["tavily", "brave"], time=time) as gateway:
        await ask(gateway, "one")
        await gateway.reload(configured(played, ["tavily", "exa"]))
        answer = await ask(gateway, "two")
        assert (told(answer), used(answer)) == (["tavily skipped:auth_failure until_restart"], "exa")
