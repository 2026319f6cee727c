"""Several keys, or several addresses, of one provider."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.rooms import HandTime, ask, counted, failing, rest, running, sqlite, told, tuned, used
from tests.vendors import RESET, Play, Played, Request, Script, json_play, success

pytestmark = pytest.mark.anyio

TWO = {"TAVILY_API_KEY": "tvly-one,tvly-two"}
THREE = {"TAVILY_API_KEY": "tvly-one,tvly-two,tvly-three"}


@pytest.fixture
def time(anyio_backend: str) -> HandTime:
    return HandTime()


def by_key(**plays: Play) -> Script:
    """Replies that depend on the key, by the word after `tvly-`; without one: success."""

    def play(request: Request) -> Play:
        word = request.headers["authorization"].removeprefix("Bearer tvly-")
        return plays.get(word) or success("tavily")(request)

    return play


def asked_keys(played: Played) -> list[str]:
    return [each.headers["authorization"].removeprefix("Bearer tvly-") for each in played.requests("tavily")]


@pytest.mark.parametrize(
    ("status", "line"),
    [
        (401, "auth_failure http_401"),
        (402, "quota_exhausted http_402"),
        (403, "auth_failure http_403"),
        (429, "rate_limited http_429"),
        (432, "quota_exhausted http_432"),
    ],
)
async def test_when_a_key_is_out_the_next_one_is_tried_in_the_same_search(
    played: Played, time: HandTime, status: int, line: str
) -> None:
    played.script("tavily", by_key(one=failing(status)))
    async with running(played, ["tavily", "brave"], time=time, keys=TWO) as gateway:
        answer = await ask(gateway, "one")
        assert (used(answer), told(answer)) == ("tavily", [f"tavily#1 {line}"])
        assert await rest(gateway, "tavily", 1) is not None
        assert await rest(gateway, "tavily", 2) is None
        answer = await ask(gateway, "two")
        # the winner is no entry, and a key that was not asked was not asked in vain
        assert (used(answer), told(answer)) == ("tavily", [])
    assert asked_keys(played) == ["one", "two", "two"]


@pytest.mark.parametrize(
    ("play", "line"),
    [
        (failing(504), "timeout http_504"),
        (RESET, "network ECONNRESET"),
        (failing(500), "server_error http_500"),
        (failing(400), "request_error http_400"),
    ],
)
async def test_when_the_provider_is_out_no_other_key_is_tried(
    played: Played, time: HandTime, play: Play, line: str
) -> None:
    played.script("tavily", by_key(one=play))
    async with running(played, ["tavily", "brave"], time=time, keys=TWO) as gateway:
        answer = await ask(gateway, "one")
        assert (used(answer), told(answer)) == ("brave", [f"tavily#1 {line}"])
        assert (await rest(gateway, "tavily", 1)) == (await rest(gateway, "tavily", 2))
    assert asked_keys(played) == ["one"]


async def test_an_empty_answer_ends_the_keys_too(played: Played, time: HandTime) -> None:
    played.script("tavily", json_play({"query": "moss", "results": [], "response_time": 0.1}))
    async with running(played, ["tavily", "brave"], time=time, keys=TWO) as gateway:
        assert told(await ask(gateway)) == ["tavily#1 no_results http_200"]
    assert played.count("tavily") == 1


async def test_each_key_that_was_asked_in_vain_has_its_entry(played: Played, time: HandTime) -> None:
    played.script("tavily", by_key(one=failing(401), two=failing(432), three=failing(429, 9)))
    async with running(played, ["tavily", "brave"], time=time, keys=THREE) as gateway:
        answer = await ask(gateway, "one")
        assert told(answer) == [
            "tavily#1 auth_failure http_401",
            "tavily#2 quota_exhausted http_432",
            "tavily#3 rate_limited http_429",
        ]
        # while all of them rest, the provider is one skip: that of the key that comes back first
        assert told(await ask(gateway, "two")) == ["tavily skipped:rate_limited 9s"]


async def test_a_single_key_has_no_number(played: Played) -> None:
    played.script("tavily", failing(429))
    async with running(played, ["tavily", "brave"]) as gateway:
        assert told(await ask(gateway)) == ["tavily rate_limited http_429"]


async def test_a_resting_key_returns_to_its_place(played: Played, time: HandTime) -> None:
    refusals = [failing(429, 30)]

    def play(request: Request) -> Play:
        if request.headers["authorization"].endswith("one") and refusals:
            return refusals.pop()
        return success("tavily")(request)

    played.script("tavily", play)
    async with running(played, ["tavily"], time=time, keys=TWO) as gateway:
        await ask(gateway, "one")
        time.move(29)
        await ask(gateway, "two")
        time.move(1)
        await ask(gateway, "three")
    assert asked_keys(played) == ["one", "two", "two", "one"]


async def test_limits_are_per_key_and_used_requests_is_the_sum(played: Played, time: HandTime) -> None:
    chain = [tuned("tavily", quota={"limit": 2}), "brave"]
    async with running(played, chain, time=time, keys=TWO) as gateway:
        answers = [await ask(gateway, f"moss {number}") for number in range(5)]
        assert [used(each) for each in answers] == ["tavily"] * 4 + ["brave"]
        assert told(answers[4]) == ["tavily skipped:quota_local 2/2"]
        assert [await counted(gateway, "tavily", number) for number in (1, 2)] == [2, 2]
        line = next(each for each in (await gateway.status())["providers"] if each["name"] == "tavily")
        assert line["used_requests"] == 4
        assert [key["used_requests"] for key in line["keys"]] == [2, 2]
    assert asked_keys(played) == ["one", "one", "two", "two"]


async def test_pace_is_per_key(played: Played, time: HandTime) -> None:
    chain = [tuned("tavily", min_interval_ms=60_000), "brave"]
    async with running(played, chain, time=time, keys=TWO) as gateway:
        answers = [await ask(gateway, f"moss {number}") for number in range(3)]
    assert [used(each) for each in answers] == ["tavily", "tavily", "brave"]
    assert told(answers[2]) == ["tavily skipped:local_rate"]
    assert (asked_keys(played), time.slept) == (["one", "two"], [])


async def test_a_key_that_is_new_in_the_list_begins_with_nothing_and_the_old_ones_keep_their_state(
    played: Played, time: HandTime, tmp_path: Path
) -> None:
    played.script("tavily", by_key(one=failing(432)))
    state = sqlite(tmp_path)
    async with running(played, ["tavily"], time=time, keys=TWO, state=state) as gateway:
        await ask(gateway, "one")
    swapped = {"TAVILY_API_KEY": "tvly-new,tvly-one"}
    async with running(played, ["tavily"], time=time, keys=swapped, state=state) as gateway:
        assert await rest(gateway, "tavily", 1) is None
        assert await rest(gateway, "tavily", 2) == ("quota_exhausted", 21_600)
        assert [await counted(gateway, "tavily", number) for number in (1, 2)] == [0, 1]


@pytest.mark.parametrize(
    ("play", "outcome"),
    [
        (failing(429), "rate_limited http_429"),
        (failing(504), "timeout http_504"),
        (failing(500), "server_error http_500"),
        (RESET, "network ECONNRESET"),
    ],
)
async def test_addresses_rest_one_by_one(played: Played, time: HandTime, play: Play, outcome: str) -> None:
    async with Played() as other:
        played.script("searxng", play)
        addresses = {"SEARXNG_URL": f"{played.address('searxng')},{other.address('searxng')}"}
        async with running(played, ["searxng"], time=time, keys=addresses) as gateway:
            answer = await ask(gateway, "one")
            assert (used(answer), told(answer)) == ("searxng", [f"searxng#1 {outcome}"])
            assert await rest(gateway, "searxng", 1) is not None
            assert await rest(gateway, "searxng", 2) is None
            assert told(await ask(gateway, "two")) == []
        assert (played.count("searxng"), other.count("searxng")) == (1, 2)
