"""Waiting for a turn: how long, for what, and what a wait that was given up costs."""

from __future__ import annotations

import anyio
import pytest

from gateway.gateway import Answer, Gateway
from tests.rooms import HandTime, ask, counted, failing, lane, running, streak, told, tuned, used
from tests.vendors import Play, Played, Request, success

pytestmark = pytest.mark.anyio


@pytest.fixture
def time(anyio_backend: str) -> HandTime:
    return HandTime()


async def at_once(gateway: Gateway, n: int, answers: dict[int, Answer]) -> None:
    """`n` searches for different things."""

    async def one(number: int) -> None:
        answers[number] = await ask(gateway, f"moss {number}")

    async with anyio.create_task_group() as tasks:
        for number in range(n):
            tasks.start_soon(one, number)


async def test_six_at_once_never_reach_a_vendor_within_one_second_and_nobody_waits_over_two(played: Played) -> None:
    time = HandTime(held=True)
    at: list[float] = []

    def play(request: Request) -> Play:
        at.append(time.now)
        return success("tavily")(request)

    played.script("tavily", play)
    answers: dict[int, Answer] = {}
    chain = [tuned("tavily", local_qps=1), "brave"]
    async with running(played, chain, time=time) as gateway, anyio.create_task_group() as tasks:
        begun = time.now
        tasks.start_soon(at_once, gateway, 6, answers)
        for number in (1, 2, 3):
            await played.wait_for(number, "tavily")
            await time.until_sleeping(3 - number)
            time.move(0.999)
            assert time.sleeping == 3 - number
            time.move(0.001)
    assert at == [begun, begun + 1, begun + 2]
    assert sorted(time.slept) == [1, 2]
    assert sorted(used(each) or "" for each in answers.values()) == ["brave"] * 3 + ["tavily"] * 3
    assert [told(each) for each in answers.values() if used(each) == "brave"] == [["tavily skipped:local_rate"]] * 3


@pytest.mark.parametrize(
    ("tuning", "waits"),
    [
        ({"min_interval_ms": 2000, "local_qps": 0}, [2]),
        ({"min_interval_ms": 0, "local_qps": 4}, [0.25]),
        ({"min_interval_ms": 700, "local_qps": 2}, [0.7]),  # the slower one
        ({"min_interval_ms": 100, "local_qps": 2}, [0.5]),
        ({"min_interval_ms": 2001, "local_qps": 0}, []),
        ({"min_interval_ms": 0, "local_qps": 0}, []),
    ],
)
async def test_a_turn_up_to_two_seconds_off_is_waited_for(
    played: Played, time: HandTime, tuning: dict[str, float], waits: list[float]
) -> None:
    async with running(played, [{"name": "tavily", **tuning}, "brave"], time=time) as gateway:
        await ask(gateway, "one")
        answer = await ask(gateway, "two")
    assert time.slept == pytest.approx(waits)
    paced = any(tuning.values())
    assert used(answer) == ("tavily" if waits or not paced else "brave")


async def test_a_turn_further_off_than_the_time_left_is_not_waited_for(played: Played, time: HandTime) -> None:
    chain = [tuned("tavily", min_interval_ms=1500), "brave"]
    async with running(played, chain, time=time, defaults={"total_budget_ms": 1400}) as gateway:
        await ask(gateway, "one")
        answer = await ask(gateway, "two")
    assert (used(answer), told(answer), time.slept) == ("brave", ["tavily skipped:local_rate"], [])


async def test_a_wait_that_is_given_up_was_never_counted(played: Played) -> None:
    time = HandTime(held=True)
    async with running(played, [tuned("tavily", min_interval_ms=1000), "brave"], time=time) as gateway:
        await ask(gateway, "one")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask, gateway, "two")
            await time.until_sleeping(1)
            tasks.cancel_scope.cancel()
        await time.until_sleeping(0)
        assert await counted(gateway, "tavily") == 1
        assert await streak(gateway, "tavily") == 0
    assert played.counts() == {"tavily": 1}


async def test_who_began_to_rest_during_the_wait_is_not_asked(played: Played) -> None:
    time = HandTime(held=True)
    answers: dict[int, Answer] = {}
    async with running(played, [tuned("tavily", min_interval_ms=1000), "brave"], time=time) as gateway:
        await ask(gateway, "one")
        played.script("tavily", failing(429))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(at_once, gateway, 2, answers)
            await time.until_sleeping(2)
            time.move(1)
            await played.wait_for(2, "tavily")
            await played.wait_for(1, "brave")
            time.move(1)
        assert await counted(gateway, "tavily") == 2
    lines = sorted(told(each) for each in answers.values())
    assert lines == [["tavily rate_limited http_429"], ["tavily skipped:rate_limited 59s"]]
    assert played.counts() == {"tavily": 2, "brave": 2}


async def test_whose_budget_ran_out_during_the_wait_is_not_asked(played: Played) -> None:
    time = HandTime(held=True)
    answers: dict[int, Answer] = {}
    chain = [tuned("tavily", min_interval_ms=1000, quota={"limit": 2}), "brave"]
    async with running(played, chain, time=time) as gateway:
        await ask(gateway, "one")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(at_once, gateway, 2, answers)
            await time.until_sleeping(2)
            time.move(2)
    assert sorted(told(each) for each in answers.values()) == [[], ["tavily skipped:quota_local 2/2"]]
    assert played.counts() == {"tavily": 2, "brave": 1}


async def test_a_turn_that_comes_within_ten_seconds_is_waited_for_when_nobody_else_has_anything(
    played: Played, time: HandTime
) -> None:
    async with running(played, [tuned("tavily", min_interval_ms=6000)], time=time) as gateway:
        begun = time.now
        await ask(gateway, "one")
        answer = await ask(gateway, "two")
        assert (used(answer), told(answer), time.now - begun) == ("tavily", [], 6)


async def test_who_looks_back_waits_behind_those_who_have_a_turn(played: Played) -> None:
    time = HandTime(held=True)
    answers: dict[int, Answer] = {}
    chain = [tuned("tavily", min_interval_ms=1500)]
    async with running(played, chain, time=time) as gateway, anyio.create_task_group() as tasks:
        tasks.start_soon(at_once, gateway, 3, answers)
        await time.until_sleeping(2)
        assert sorted(time.slept) == [1.5, 3]
        time.move(1.5)
        await time.until_sleeping(1)
        time.move(1.5)
    assert {used(each) for each in answers.values()} == {"tavily"}
    assert played.count("tavily") == 3


async def test_a_rest_that_ends_soon_is_not_missed_for_a_turn_that_is_far_off(played: Played, time: HandTime) -> None:
    played.script("brave", failing(429, 8), success("brave"))
    chain = [tuned("tavily", min_interval_ms=60_000), "brave"]
    async with running(played, chain, time=time) as gateway:
        await ask(gateway, "one")
        await ask(gateway, "two")
        answer = await ask(gateway, "three")
        assert used(answer) == "brave"


async def test_the_time_to_come_back_is_when_the_turn_comes(played: Played, time: HandTime) -> None:
    async with running(played, [tuned("tavily", min_interval_ms=60_000)], time=time) as gateway:
        await ask(gateway, "one")
        time.move(10)
        answer = await ask(gateway, "two")
        assert told(answer) == ["tavily skipped:local_rate"]
        assert answer.body["meta"]["retry_after_s"] == 50


async def test_cache_hits_take_no_turn(played: Played, time: HandTime) -> None:
    async with running(played, [tuned("tavily", min_interval_ms=1000)], time=time) as gateway:
        for _ in range(3):
            await ask(gateway)
        assert await counted(gateway, "tavily") == 1
        assert await gateway.store.turn(f"pace:{lane(gateway, 'tavily').narrow}", 1000, 5000) == (1000, True)
