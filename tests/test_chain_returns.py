"""After a rest: one trial at a time, a look back at whoever comes back soon, and asking one provider anyway."""

from __future__ import annotations

import asyncio

import anyio
import pytest

from gateway.audit import Audit
from gateway.clock import Deadline
from providers import Query
from tests.rooms import (
    EMPTY,
    HandTime,
    ask,
    came_to,
    failing,
    lane,
    rest,
    running,
    streak,
    told,
    tuned,
    used,
)
from tests.vendors import SILENCE, Play, Played, success

pytestmark = pytest.mark.anyio


@pytest.fixture
def time(anyio_backend: str) -> HandTime:
    return HandTime()


# ---------------------------------------------------------------------------------------------------------------------
# the trial


async def test_after_a_rest_one_search_is_the_trial_and_the_others_skip_until_it_has_ended(
    played: Played, time: HandTime
) -> None:
    gate = asyncio.Event()
    played.script("tavily", failing(500), success("tavily", until=gate), success("tavily"))
    async with running(played, ["tavily", "brave"], time=time) as gateway:
        await ask(gateway, "zero")
        time.move(60)
        answers = {}

        async def search(query: str) -> None:
            answers[query] = await ask(gateway, query)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(search, "one")
            await played.wait_for(2, "tavily")
            for query in ("two", "three"):
                await search(query)
                assert told(answers[query]) == ["tavily skipped:probing"]
            gate.set()
        assert used(answers["one"]) == "tavily"
        assert await streak(gateway, "tavily") == 0
        assert used(await ask(gateway, "four")) == "tavily"
    assert played.count("tavily") == 3


async def test_a_failed_trial_is_a_longer_rest(played: Played, time: HandTime) -> None:
    played.script("tavily", failing(500))
    async with running(played, ["tavily", "brave"], time=time) as gateway:
        await ask(gateway, "one")
        time.move(60)
        await ask(gateway, "two")
        assert await rest(gateway, "tavily") == ("server_error", 120)
        assert told(await ask(gateway, "three")) == ["tavily skipped:server_error 120s"]


async def test_a_trial_that_is_cancelled_has_ended(played: Played, time: HandTime) -> None:
    played.script("tavily", failing(500), SILENCE, success("tavily"))
    async with running(played, ["tavily", "brave"], time=time) as gateway:
        await ask(gateway, "one")
        time.move(60)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask, gateway, "two")
            await played.wait_for(2, "tavily")
            tasks.cancel_scope.cancel()
        await played.wait_until_left(1, "tavily")
        assert used(await ask(gateway, "three")) == "tavily"


async def test_a_trial_is_held_for_the_time_limit_and_five_seconds_at_most(played: Played, time: HandTime) -> None:
    played.script("tavily", failing(500), success("tavily"))
    async with running(played, [tuned("tavily", timeout_ms=2000), "brave"], time=time) as gateway:
        await ask(gateway, "one")
        time.move(60)
        # a process that died in the middle of its trial
        assert await gateway.cooldowns.begin_trial(lane(gateway, "tavily"), 2 + 5)
        assert told(await ask(gateway, "two")) == ["tavily skipped:probing"]
        time.move(6.999)
        assert told(await ask(gateway, "three")) == ["tavily skipped:probing"]
        time.move(0.001)
        assert used(await ask(gateway, "four")) == "tavily"


async def test_a_chain_holds_its_trial_for_that_long(played: Played, time: HandTime) -> None:
    gate = asyncio.Event()
    played.script("tavily", failing(500), success("tavily", until=gate), success("tavily"))
    async with running(played, [tuned("tavily", timeout_ms=3000), "brave"], time=time) as gateway:
        await ask(gateway, "one")
        time.move(60)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask, gateway, "two")
            await played.wait_for(2, "tavily")
            time.move(7.999)
            assert told(await ask(gateway, "three")) == ["tavily skipped:probing"]
            time.move(0.001)
            assert used(await ask(gateway, "four")) == "tavily"
            gate.set()


# ---------------------------------------------------------------------------------------------------------------------
# looking back


async def test_a_walk_without_results_waits_once_for_the_soonest_rest_and_asks_that_one(
    played: Played, time: HandTime
) -> None:
    played.script("tavily", failing(429, 9), success("tavily"))
    played.script("bocha", failing(429, 8), success("bocha"))
    async with running(played, ["tavily", "bocha"], time=time) as gateway:
        assert came_to(await ask(gateway, "one")) == ("failed", True, 8)
        time.move(1)
        answer = await ask(gateway, "two")
    assert (used(answer), told(answer)) == ("bocha", ["tavily skipped:rate_limited 8s"])
    assert time.slept == [pytest.approx(7)]
    assert played.counts() == {"tavily": 1, "bocha": 2}


async def test_what_happened_after_the_wait_replaces_the_skip(played: Played, time: HandTime) -> None:
    played.script("tavily", failing(429, 5), failing(503, 40))
    played.script("bocha", failing(400))
    async with running(played, ["tavily", "bocha"], time=time) as gateway:
        await ask(gateway, "one")
        answer = await ask(gateway, "two")
    assert told(answer) == ["tavily server_error http_503", "bocha request_error http_400"]
    assert came_to(answer) == ("failed", True, 40)
    assert time.slept == pytest.approx([5])
    assert played.counts() == {"tavily": 2, "bocha": 2}


async def test_an_empty_walk_looks_back_too_and_may_become_certain(played: Played, time: HandTime) -> None:
    played.script("tavily", failing(429, 5), EMPTY["tavily"])
    played.script("bocha", EMPTY["bocha"])
    async with running(played, ["tavily", "bocha"], time=time) as gateway:
        await ask(gateway, "one")
        answer = await ask(gateway, "two")
    assert told(answer) == ["tavily no_results http_200", "bocha no_results http_200"]
    assert came_to(answer) == ("empty", False, None)


@pytest.mark.parametrize(
    ("rest_s", "total_ms", "waits"),
    [(10, 30_000, True), (10.5, 30_000, False), (4, 5000, True), (4.5, 5000, False)],
)
async def test_nobody_waits_longer_than_ten_seconds_or_than_leaves_a_second_to_ask(
    played: Played, time: HandTime, rest_s: float, total_ms: int, waits: bool
) -> None:
    played.script("tavily", failing(429, rest_s), success("tavily"))
    async with running(played, ["tavily"], time=time, defaults={"total_budget_ms": total_ms}) as gateway:
        await ask(gateway, "one")
        answer = await ask(gateway, "two")
    assert (used(answer) == "tavily") is waits
    assert came_to(answer) == (("found", False, None) if waits else ("failed", True, int(rest_s + 0.99)))


@pytest.mark.parametrize("status", [401, 403])
async def test_when_only_a_person_can_help_no_time_is_named(played: Played, time: HandTime, status: int) -> None:
    name = {401: "tavily", 403: "searxng"}[status]
    played.script(name, Play(status, body=b"Forbidden") if status == 403 else failing(401))
    async with running(played, [name], time=time) as gateway:
        assert came_to(await ask(gateway, "one")) == ("failed", True, None)
        time.move(295)
        assert came_to(await ask(gateway, "two")) == ("failed", True, None)
    assert (played.count(), time.slept) == (1, [])


async def test_the_soonest_of_rest_pace_and_period_is_named(played: Played, time: HandTime) -> None:
    played.script("bocha", failing(401))
    chain = ["bocha", tuned("tavily", quota={"limit": 1, "type": "daily"})]
    async with running(played, chain, time=time) as gateway:
        await ask(gateway, "one")
        answer = await ask(gateway, "two")
    assert told(answer) == ["bocha skipped:auth_failure until_restart", "tavily skipped:quota_local 1/1"]
    assert came_to(answer) == ("failed", True, 12 * 3600)


async def test_a_period_that_ends_soon_is_no_rest_to_wait_for(played: Played, time: HandTime) -> None:
    time.move(12 * 3600 - 5)
    async with running(played, [tuned("tavily", quota={"limit": 1, "type": "daily"})], time=time) as gateway:
        await ask(gateway, "one")
        assert came_to(await ask(gateway, "two")) == ("failed", True, 5)


# ---------------------------------------------------------------------------------------------------------------------
# one provider alone


async def test_the_one_that_is_named_is_asked_even_if_it_rests(played: Played, time: HandTime) -> None:
    played.script("brave", failing(500), failing(500), success("brave"))
    async with running(played, ["tavily", "brave"], time=time, debug=True) as gateway:
        assert told(await ask(gateway, provider="brave")) == ["brave server_error http_500"]
        assert told(await ask(gateway, provider="brave")) == ["brave server_error http_500"]
        assert await streak(gateway, "brave") == 1
        assert used(await ask(gateway, provider="brave")) == "brave"
    assert played.counts() == {"brave": 3}


async def test_a_key_that_is_out_is_tried_again_when_its_provider_is_named(played: Played, time: HandTime) -> None:
    played.script("tavily", failing(401), success("tavily"))
    async with running(played, ["tavily"], time=time, debug=True) as gateway:
        await ask(gateway)
        assert used(await ask(gateway, provider="tavily")) == "tavily"


async def test_budget_and_pace_hold_for_the_one_that_is_named(played: Played, time: HandTime) -> None:
    chain = [tuned("tavily", quota={"limit": 2}), tuned("brave", min_interval_ms=5000)]
    async with running(played, chain, time=time, debug=True) as gateway:
        answers = [await ask(gateway, provider="tavily") for _ in range(3)]
        assert told(answers[2]) == ["tavily skipped:quota_local 2/2"]
        await ask(gateway, provider="brave")
        assert told(await ask(gateway, provider="brave")) == ["brave skipped:local_rate"]
    assert played.counts() == {"tavily": 2, "brave": 1}


async def test_the_one_that_is_named_is_asked_without_cache_and_without_joining(played: Played) -> None:
    gate = asyncio.Event()
    async with running(played, ["tavily"], debug=True) as gateway:
        await ask(gateway)
        played.script("tavily", success("tavily", until=gate))
        async with anyio.create_task_group() as tasks:
            for _ in range(2):
                tasks.start_soon(lambda: ask(gateway, provider="tavily"))
            await played.wait_for(3, "tavily")
            gate.set()
        assert (await ask(gateway)).body["meta"]["cache_hit"]


async def test_a_name_that_is_not_configured_or_unknown_asks_nobody(played: Played) -> None:
    async with running(played, ["tavily"], debug=True) as gateway:
        unknown = await ask(gateway, provider="altavista")
        assert (unknown.argument_error, told(unknown)) == (True, [])
        elsewhere = await ask(gateway, provider="exa")
        assert [line.split()[:2] for line in told(elsewhere)] == [["gateway", "no_provider"]]
    async with running(played, ["tavily", "brave"]) as gateway:
        assert used(await ask(gateway, provider="brave")) == "tavily"
    assert played.counts() == {"tavily": 1}


async def test_nobody_looks_back_with_less_than_a_second_left(played: Played, time: HandTime) -> None:
    played.script("tavily", failing(429, retry_after=1))
    played.script("brave", EMPTY["brave"])
    chain = [tuned("tavily"), tuned("brave", min_interval_ms=1500)]
    async with running(played, chain, time=time, defaults={"total_budget_ms": 1900}) as gateway:
        await ask(gateway, "one")
        answer = await ask(gateway, "two")
    # the wait for Brave's turn outlived Tavily's rest, but what is left is too little to ask in
    assert told(answer) == ["tavily skipped:rate_limited 1s", "brave no_results http_200"]
    assert played.counts() == {"tavily": 1, "brave": 2}


async def test_while_a_search_waits_to_look_back_nobody_is_said_to_be_asked(played: Played) -> None:
    played.script("tavily", failing(429, retry_after=5))
    time = HandTime(held=True)
    async with running(played, ["tavily", "brave"], time=time) as gateway:
        await ask(gateway, "one")
        played.script("brave", EMPTY["brave"])
        audit, query = Audit(), Query("two")
        deadline = Deadline(30, time.clock)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(gateway.current.chain.walk, query, deadline, audit)
            await time.until_sleeping(1)
            assert [(step.provider, step.outcome) for step in audit] == [
                ("tavily", "skipped:rate_limited"),
                ("brave", "no_results"),
            ]
            tasks.cancel_scope.cancel()
