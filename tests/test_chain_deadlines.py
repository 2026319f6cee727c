"""Time limits: one per provider, one for the whole search, and whom they are held against. On real time."""

from __future__ import annotations

import pytest

from gateway.gateway import Answer
from tests.rooms import HandTime, ask, configured, counted, failing, rest, running, streak, told, tuned, used
from tests.vendors import SILENCE, Play, Played, success

pytestmark = pytest.mark.anyio


def verdict(answer: Answer) -> tuple[str, bool]:
    return answer.body["meta"]["verdict"], answer.is_error


@pytest.mark.parametrize(
    "slow",
    [SILENCE, success("tavily", delay_s=30), success("tavily", drip_s=0.02)],
    ids=["silent", "late", "dripping"],
)
async def test_a_provider_has_its_own_time_limit_for_the_whole_reply(played: Played, slow: Play) -> None:
    played.script("tavily", slow)
    async with running(played, [tuned("tavily", timeout_ms=150), "brave"]) as gateway:
        answer = await ask(gateway)
        assert (used(answer), told(answer)) == ("brave", ["tavily timeout no whole reply in 0.1 s"])
        (step,) = answer.body["meta"]["fallback_chain"]
        assert 150 <= step["elapsedMs"] < 1000
        assert answer.body["meta"]["elapsed_ms"] >= step["elapsedMs"]
        found = await rest(gateway, "tavily")
        assert found is not None
        assert found[0] == "timeout"


async def test_who_is_cut_by_the_total_is_listed_and_later_ones_are_skipped_and_nobody_rests(played: Played) -> None:
    played.script("tavily", SILENCE)
    total = {"total_budget_ms": 200}
    async with running(played, ["tavily", "brave", "bocha"], defaults=total) as gateway:
        answer = await ask(gateway)
        assert told(answer) == [
            "tavily budget_exhausted",
            "brave skipped:budget_exhausted",
            "bocha skipped:budget_exhausted",
        ]
        assert verdict(answer) == ("failed", True)
        assert "retry_after_s" not in answer.body["meta"]
        assert answer.body["meta"]["elapsed_ms"] < 200 + 500
        for name in ("tavily", "brave", "bocha"):
            assert (await rest(gateway, name), await streak(gateway, name)) == (None, 0)
        assert await counted(gateway, "tavily") == 1
    assert played.counts() == {"tavily": 1}


async def test_a_second_provider_has_what_the_first_one_left(played: Played) -> None:
    played.script("tavily", SILENCE)
    played.script("brave", SILENCE)
    chain = [tuned("tavily", timeout_ms=150), "brave", "bocha"]
    async with running(played, chain, defaults={"total_budget_ms": 800}) as gateway:
        answer = await ask(gateway)
        assert told(answer) == [
            "tavily timeout no whole reply in 0.1 s",
            "brave budget_exhausted",
            "bocha skipped:budget_exhausted",
        ]
        assert (await rest(gateway, "brave"), await streak(gateway, "brave")) == (None, 0)
        assert answer.body["meta"]["retry_after_s"] == 30


async def test_a_limit_of_its_own_that_is_not_longer_than_the_total_is_the_providers_fault(played: Played) -> None:
    played.script("tavily", SILENCE)
    async with running(played, [tuned("tavily", timeout_ms=100)], defaults={"total_budget_ms": 10_000}) as gateway:
        assert told(await ask(gateway)) == ["tavily timeout no whole reply in 0.1 s"]


async def test_an_empty_answer_before_the_total_ran_out_is_incomplete(played: Played) -> None:
    played.script("tavily", success("tavily", n_rows=0))
    played.script("brave", SILENCE)
    async with running(played, ["tavily", "brave"], defaults={"total_budget_ms": 500}) as gateway:
        answer = await ask(gateway)
    assert told(answer) == ["tavily no_results http_200", "brave budget_exhausted"]
    assert verdict(answer) == ("incomplete", True)


async def test_a_trial_that_the_total_cut_has_ended_and_is_no_failure(played: Played) -> None:
    time = HandTime()
    played.script("tavily", failing(500), SILENCE, success("tavily"))
    async with running(played, ["tavily"], time=time, defaults={"total_budget_ms": 500}) as gateway:
        await ask(gateway, "one")
        time.move(60)
        assert told(await ask(gateway, "two")) == ["tavily budget_exhausted"]
        assert await streak(gateway, "tavily") == 1
        assert used(await ask(gateway, "three")) == "tavily"


async def test_with_several_keys_the_one_that_was_cut_ends_the_search(played: Played) -> None:
    played.script("tavily", failing(429), SILENCE)
    keys = {"TAVILY_API_KEY": "tvly-one,tvly-two,tvly-three"}
    async with running(played, ["tavily", "brave"], keys=keys, defaults={"total_budget_ms": 500}) as gateway:
        answer = await ask(gateway)
    assert [line for line in told(answer) if "skipped" not in line] == [
        "tavily#1 rate_limited http_429",
        "tavily#2 budget_exhausted",
    ]
    assert played.counts() == {"tavily": 2}


@pytest.mark.parametrize(
    ("slowest_ms", "configured_ms", "total_ms"),
    [(10_000, None, 30_000), (25_000, None, 35_000), (60_000, None, 55_000), (60_000, 5000, 5000)],
)
async def test_the_whole_search_has_its_limit(
    played: Played, slowest_ms: int, configured_ms: int | None, total_ms: int
) -> None:
    defaults = {} if configured_ms is None else {"total_budget_ms": configured_ms}
    loaded = configured(played, [tuned("tavily", timeout_ms=slowest_ms), "brave"], defaults=defaults)
    assert loaded.total_budget_ms == total_ms


async def test_waits_are_part_of_elapsed_ms(played: Played) -> None:
    time = HandTime()
    async with running(played, [tuned("tavily", min_interval_ms=1500)], time=time) as gateway:
        await ask(gateway, "one")
        assert (await ask(gateway, "two")).body["meta"]["elapsed_ms"] == 1500
