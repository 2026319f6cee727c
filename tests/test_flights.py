"""Identical searches under way are one search, and still each caller's own."""

from __future__ import annotations

import asyncio

import anyio
import pytest

from gateway.gateway import Answer
from gateway.steps import Step
from tests.rooms import ask, configured, counted, failing, rest, running, streak, told, tuned, used
from tests.vendors import SILENCE, Played, success

pytestmark = pytest.mark.anyio


async def test_twenty_identical_searches_are_one_request_and_twenty_answers(played: Played) -> None:
    go = asyncio.Event()
    played.script("tavily", success("tavily", until=go))
    async with running(played, ["tavily"]) as gateway:
        searches = [asyncio.create_task(ask(gateway, " MOSS" if n % 2 else "moss")) for n in range(20)]
        await played.wait_for(1)
        go.set()
        answers = await asyncio.gather(*searches)
        status = await gateway.status()
        assert await counted(gateway, "tavily") == 1
    assert played.count() == 1
    assert [used(each) for each in answers] == ["tavily"] * 20
    assert len({each.body["meta"]["search_id"] for each in answers}) == 20
    assert not any(each.body["meta"]["cache_hit"] for each in answers)
    assert status["clients"] == [{"name": "default", "searches_today": 20}]


async def test_each_caller_has_the_notes_on_its_own_arguments(played: Played) -> None:
    go = asyncio.Event()
    played.script("tavily", success("tavily", until=go))
    async with running(played, ["tavily"]) as gateway:
        searches = [asyncio.create_task(ask(gateway, max_results=n)) for n in (20, 300, "20")]
        await played.wait_for(1)
        go.set()
        notes = [each.body["meta"].get("note") for each in await asyncio.gather(*searches)]
    assert (notes[0], notes[2], played.count()) == (None, None, 1)
    assert notes[1].startswith("max_results was lowered to 20")


async def test_different_searches_are_not_joined(played: Played) -> None:
    go = asyncio.Event()
    played.script("tavily", success("tavily", until=go))
    async with running(played, ["tavily"]) as gateway:
        searches = [asyncio.create_task(ask(gateway, f"moss {n}")) for n in range(10)]
        await played.wait_for(10)
        go.set()
        answers = await asyncio.gather(*searches)
    for n, answer in enumerate(answers):
        assert all(row["title"].startswith(f"moss {n}:") for row in answer.body["results"])


async def test_one_caller_who_leaves_does_not_stop_the_others(played: Played) -> None:
    go = asyncio.Event()
    played.script("tavily", success("tavily", until=go))
    async with running(played, ["tavily"]) as gateway:
        first, *others = (asyncio.create_task(ask(gateway)) for _ in range(3))
        await played.wait_for(1)
        first.cancel()
        await asyncio.wait([first])
        go.set()
        answers = await asyncio.gather(*others)
    assert first.cancelled()
    assert ([used(each) for each in answers], played.count(), played.left()) == (["tavily"] * 2, 1, 0)


async def test_when_the_last_caller_leaves_the_search_stops_and_nobody_is_to_blame(played: Played) -> None:
    played.script("tavily", SILENCE)
    async with running(played, ["tavily", "brave"]) as gateway:
        searches = [asyncio.create_task(ask(gateway)) for _ in range(2)]
        await played.wait_for(1)
        for each in searches:
            each.cancel()
        await asyncio.wait(searches)
        await played.wait_until_left(1)
        assert (await rest(gateway, "tavily"), await streak(gateway, "tavily")) == (None, 0)
        assert await counted(gateway, "tavily") == 1
        # whoever comes next begins anew, and joins nothing that is being stopped
        played.script("tavily")
        assert used(await ask(gateway)) == "tavily"
    assert played.counts() == {"tavily": 2}


async def test_a_search_that_left_and_came_back_at_once_does_not_join_what_is_being_stopped(played: Played) -> None:
    played.script("tavily", SILENCE, success("tavily"))
    async with running(played, ["tavily"]) as gateway:
        first = asyncio.create_task(ask(gateway))
        await played.wait_for(1)
        first.cancel()
        again = asyncio.create_task(ask(gateway))
        with anyio.fail_after(10):
            assert used(await again) == "tavily"
        await asyncio.wait([first])


async def test_all_callers_of_a_failed_search_hear_the_same_and_it_counts_once(played: Played) -> None:
    go = asyncio.Event()
    played.script("tavily", failing(500))
    played.script("brave", success("brave", until=go, n_rows=2))
    async with running(played, ["tavily", "brave"]) as gateway:
        searches = [asyncio.create_task(ask(gateway)) for _ in range(5)]
        await played.wait_for(1, "brave")
        go.set()
        answers = await asyncio.gather(*searches)
        assert await streak(gateway, "tavily") == 1
    assert {tuple(told(each)) for each in answers} == {("tavily server_error http_500",)}
    assert played.counts() == {"tavily": 1, "brave": 1}


async def test_progress_reaches_late_callers_from_the_beginning(played: Played) -> None:
    go = asyncio.Event()
    played.script("bocha", failing(429))
    played.script("tavily", success("tavily", until=go))

    async def follow(into: list[tuple[int, str]]) -> Answer:
        async def tell(number: int, step: Step) -> None:
            into.append((number, f"{step.provider} {step.outcome}"))

        return await gateway.search({"query": "moss"}, progress=tell)

    heard: list[list[tuple[int, str]]] = [[], []]
    async with running(played, ["bocha", "tavily"]) as gateway:
        first = asyncio.create_task(follow(heard[0]))
        await played.wait_for(1, "tavily")
        second = asyncio.create_task(follow(heard[1]))
        go.set()
        await asyncio.gather(first, second)
    assert heard[0] == heard[1] == [(1, "bocha rate_limited"), (2, "tavily ok")]


async def test_a_caller_whose_progress_cannot_be_told_fails_alone(played: Played) -> None:
    go = asyncio.Event()
    played.script("bocha", failing(429))
    played.script("tavily", success("tavily", until=go))

    async def broken(number: int, step: Step) -> None:
        raise ValueError("the caller's pipe is gone")

    async with running(played, ["bocha", "tavily"]) as gateway:
        other = asyncio.create_task(ask(gateway))
        await played.wait_for(1, "tavily")
        failed = await gateway.search({"query": "moss"}, progress=broken)
        go.set()
        assert used(await other) == "tavily"
    assert told(failed)[0].startswith("gateway internal_error")


async def test_ten_callers_with_ten_deadlines_of_their_own_are_all_answered(played: Played) -> None:
    played.script("tavily", SILENCE)
    played.script("brave", SILENCE)
    async with running(
        played, [tuned("tavily", timeout_ms=200), "brave"], defaults={"total_budget_ms": 500}
    ) as gateway:
        with anyio.fail_after(5):
            answers = await asyncio.gather(*(ask(gateway) for _ in range(10)))
    for answer in answers:
        assert told(answer) == ["tavily timeout no whole reply in 0.2 s", "brave budget_exhausted"]
        assert answer.body["meta"]["elapsed_ms"] < 1000


async def test_nobody_joins_a_search_that_an_older_configuration_began(played: Played) -> None:
    go = asyncio.Event()
    played.script("tavily", success("tavily", until=go))
    async with running(played, ["tavily"]) as gateway:
        before = asyncio.create_task(ask(gateway))
        await played.wait_for(1)
        await gateway.reload(configured(played, ["brave"]))
        after = await ask(gateway)
        go.set()
        assert (used(await before), used(after)) == ("tavily", "brave")


async def test_a_caller_cut_off_while_a_second_key_is_asked_hears_of_the_first(played: Played) -> None:
    played.script("tavily", failing(432), SILENCE)
    go = asyncio.Event()
    async with running(played, ["tavily", "brave"], keys={"TAVILY_API_KEY": "tvly-key-one,tvly-key-two"}) as gateway:
        audit_of: list[list[str]] = []

        async def tell(number: int, step: Step) -> None:
            audit_of.append([step.provider, step.outcome])
            go.set()

        search = asyncio.create_task(gateway.search({"query": "moss"}, progress=tell))
        async with asyncio.timeout(10):
            await go.wait()
        # the first key's step is told while the second is still being asked
        assert audit_of == [["tavily", "quota_exhausted"]]
        search.cancel()
        await asyncio.wait([search])
