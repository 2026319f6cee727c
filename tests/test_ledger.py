"""What the vendors say is left: read, kept, shown beside our own count, and followed when it is nothing."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint
from hypothesis import given
from hypothesis import strategies as st

import providers
from gateway import explain
from gateway.config import load
from gateway.gateway import Gateway
from gateway.policy import Tuning
from providers import HTTPProvider, Outcome, Reply, Settings, Wire
from providers._words import Left
from tests.rooms import NOON, HandTime, ask, configured, counted, lane, rest, running, sqlite, streak, told, tuned, used
from tests.test_recordings import RECORDINGS, reading
from tests.vendors import SILENCE, Play, Played, Request, Script, json_play, success

DAY_S = 86_400
MONTH = "1;w=1, 2000;w=2592000"


@pytest.fixture
def time(anyio_backend: str) -> HandTime:
    return HandTime()


def limits(remaining: str, reset: str = "1, 1000", limit: str = "1, 2000", policy: str = MONTH) -> dict[str, str]:
    """Brave's four headers."""
    return {
        "x-ratelimit-limit": limit,
        "x-ratelimit-policy": policy,
        "x-ratelimit-remaining": remaining,
        "x-ratelimit-reset": reset,
    }


def brave(remaining: str, reset: str = "1, 1000", **how: str) -> Script:
    """Results, and these limits."""
    headers = limits(remaining, reset, **how)

    def play(request: Request) -> Play:
        made = success("brave")(request)
        return Play(made.status, {**made.headers, **headers}, made.body)

    return play


def usage(key: Any = None, account: Any = None, status: int = 200, **how: Any) -> Script:
    """Tavily: a search is a success, and its usage endpoint says this."""
    body = {"key": key, "account": account}

    def play(request: Request) -> Play:
        if request.path.endswith("/usage"):
            return json_play(body, status, **how)
        return success("tavily")(request)

    return play


def asked_usage(played: Played) -> list[Request]:
    return [each for each in played.requests("tavily") if each.path.endswith("/usage")]


async def usage_told(gateway: Gateway) -> None:
    """Until nothing goes on in the background any more. Raises TimeoutError."""
    with anyio.fail_after(10):
        while gateway.current.users:
            await checkpoint()


async def line(gateway: Gateway, name: str) -> dict[str, Any]:
    status = await gateway.status()
    found: dict[str, Any] = next(each for each in status["providers"] if each["name"] == name)
    return found


def iso(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).isoformat(timespec="seconds")


# ---------------------------------------------------------------------------------------------------------------------
# beside an answer


def read_brave(headers: dict[str, str]) -> Reply:
    body = json.dumps({"type": "search", "query": {"original": "q"}}).encode()
    return providers.find("brave")().read(Wire(200, headers, body, NOON))


@pytest.mark.parametrize(
    ("name", "left"),
    [
        ("ok_strong_tags_and_entities", Left(14_999, 15_000, 1_419_704)),
        ("ok_month_spent", Left(0, 2000, 1_419_704)),
        ("server_500", Left(12, 2000, 1_419_704)),
        ("429_without_code_month_spent", Left(0, 2000, 86_400)),
        ("429_without_code_windows_in_another_order", Left(0, 2000, 86_400)),
        ("quota_limited_429_longest_window_uncapped", Left(0, 1000, 7200)),
        ("ok_payg_zero_month_remaining", None),
        ("429_without_code_payg_zero_month", None),
        ("429_malformed_headers", None),
        ("429_short_lists", None),
    ],
)
def test_brave_says_in_its_headers_what_is_left_of_the_longest_quota(name: str, left: Left | None) -> None:
    recording = next(each for each in RECORDINGS["brave"] if each["name"] == name)
    assert reading("brave", recording).left == left


@pytest.mark.parametrize(
    ("headers", "left"),
    [
        ({}, None),
        (limits("1, 7", "1, soon"), Left(7, 2000, None)),
        (limits("1, 0", "1, "), Left(0, 2000, None)),
        (limits("1, 2001"), None),  # more than there is
        (limits("1, -7"), None),
        (limits("1, 7", policy="1;w=1, 2000"), None),  # a window of no length
        (limits("0", "1", "20", "20;w=1"), None),  # a rate is no quota
        (limits("1, 0, 500", "1, 60, 90", "1, 100, 2000", "1;w=1, 100;w=86400, 2000;w=2592000"), Left(0, 100, 60)),
        (limits("1, 9, 500", "1, 60, 90", "1, 100, 2000", "1;w=1, 100;w=86400, 2000;w=2592000"), Left(500, 2000, 90)),
    ],
)
def test_nothing_is_made_up_where_the_headers_are_odd(headers: dict[str, str], left: Left | None) -> None:
    assert read_brave(headers).left == left


@given(
    st.lists(st.sampled_from(["0", "1", "50", " 2000", "-1", "", "x", "9" * 30, "1;w=1", "5;w=2592000"]), max_size=4)
)
def test_whatever_the_headers_hold_what_is_left_lies_within_the_limit(parts: list[str]) -> None:
    told = ",".join(parts)
    for headers in (limits(told, told, told, told), limits(told), limits("1, 7", told), limits("1, 7", limit=told)):
        left = read_brave(headers).left
        assert left is None or 0 <= left.remaining <= (left.limit or 0)


def test_who_says_nothing_of_it_has_nothing_left_to_tell() -> None:
    silent = [name for name in providers.names() if providers.find(name).left is HTTPProvider.left]
    assert "tavily" in silent
    assert [each for name in silent for each in RECORDINGS[name] if reading(name, each).left is not None] == []


def test_what_is_left_is_explained_and_the_rest_that_follows() -> None:
    adapter = providers.find("brave")()
    body = json.dumps({"type": "search", "query": {"original": "q"}}).encode()
    spent, some = (
        explain.explain(adapter, Wire(200, limits(left), body, NOON), Tuning(), 100) for left in ("1,0", "1,7")
    )
    assert spent["left"] == {"remaining": 0, "limit": 2000, "resets_s": 1000}
    assert (spent["rest_s"], spent["rest_scope"], spent["rest_grows"]) == (1000, "key", False)
    assert (some["rest_s"], some["rest_scope"]) == (0, None)
    assert "vendor    says 7 of 2000 left, renewed in 1000 s" in explain.readable(some)
    silent = explain.explain(adapter, Wire(200, {}, body, NOON), Tuning(), 100)
    assert silent["left"] is None


# ---------------------------------------------------------------------------------------------------------------------
# nothing left


@pytest.mark.anyio
async def test_who_answers_and_has_nothing_left_is_not_asked_again_before_it_is_renewed(
    played: Played, time: HandTime
) -> None:
    played.script("brave", brave("1, 0"), success("brave"))
    async with running(played, ["brave", "bocha"], time=time) as gateway:
        assert used(await ask(gateway)) == "brave"
        assert (await rest(gateway, "brave"), await streak(gateway, "brave")) == (("quota_exhausted", 1000), 0)
        status = await line(gateway, "brave")
        assert (status["state"], status["last_outcome"]) == ("blocked(quota_exhausted, 1000s left)", "ok")
        assert (status["last_error"], status["consecutive_failures"]) == (None, 0)
        later = await ask(gateway, "fern")
        assert (told(later), used(later)) == (["brave skipped:quota_exhausted 1000s"], "bocha")
        time.move(1000)
        assert used(await ask(gateway, "lichen")) == "brave"


@pytest.mark.anyio
async def test_nothing_left_is_told_with_empty_answers_and_with_failures_too(played: Played, time: HandTime) -> None:
    nothing = {"type": "search", "query": {"original": "moss"}}
    for body, status, failures in ((nothing, 200, 0), ({}, 500, 1)):
        played.script("brave", json_play(body, status, headers=limits("1, 0")))
        async with running(played, ["brave", "bocha"], time=time) as gateway:
            assert used(await ask(gateway)) == "bocha"
            assert await rest(gateway, "brave") == ("quota_exhausted", 1000)
            assert await streak(gateway, "brave") == failures


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("play", "found"),
    [
        (brave("1, 0", "1, 9000000", policy="1;w=1, 2000;w=31536000"), ("quota_exhausted", 32 * DAY_S)),
        (brave("1, 0", "1, 9000000"), None),  # later than the month that it is about
        (brave("1, 0", "1, 0"), ("quota_exhausted", 1)),
        (brave("1, 0", "1, soon"), None),
        (brave("1, 1"), None),
        (brave("49, 0", "1, 2462826", limit="50, 0", policy="50;w=1, 0;w=2592000"), None),
        (brave("0, 1999"), None),
        (brave("a, b, c", "?", limit="-", policy=";;"), None),
    ],
)
async def test_only_nothing_until_a_known_time_is_a_rest(
    played: Played, time: HandTime, play: Script, found: tuple[str, float] | None
) -> None:
    played.script("brave", play)
    async with running(played, ["brave"], time=time) as gateway:
        assert used(await ask(gateway)) == "brave"
        assert await rest(gateway, "brave") == found


@pytest.mark.anyio
async def test_nothing_left_is_about_one_key(played: Played, time: HandTime) -> None:
    played.script("brave", brave("1, 0"), brave("1, 5"))
    async with running(played, ["brave"], time=time, keys={"BRAVE_API_KEY": "one-11111111,two-22222222"}) as gateway:
        assert used(await ask(gateway)) == "brave"
        assert await rest(gateway, "brave", 2) is None
        assert used(await ask(gateway, "fern")) == "brave"
        status = await line(gateway, "brave")
    assert [request.headers["x-subscription-token"] for request in played.requests("brave")] == [
        "one-11111111",
        "two-22222222",
    ]
    assert [(key["vendor_remaining"], key["gated_by"]) for key in status["keys"]] == [(0, "vendor"), (5, "vendor")]
    assert (status["state"], status["vendor_remaining"], status["vendor_limit"]) == ("active", 5, 4000)


# ---------------------------------------------------------------------------------------------------------------------
# the ledger


@pytest.mark.anyio
async def test_the_status_shows_both_counts_and_which_one_gates(played: Played, time: HandTime) -> None:
    played.script("brave", brave("1, 50", "1, 864000"))
    async with running(played, [tuned("brave", quota={"limit": 1000})], time=time) as gateway:
        await ask(gateway)
        status = await line(gateway, "brave")
    assert status["used_requests"] == 1
    assert (status["vendor_remaining"], status["vendor_limit"], status["gated_by"]) == (50, 2000, "vendor")
    assert (status["vendor_as_of"], status["vendor_resets_at"]) == (iso(NOON), iso(NOON + 864_000))
    assert status["vendor_source"] == "reply"


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("quota", "gated_by"),
    [({"limit": 51}, "local"), ({"limit": 50}, "local"), ({"limit": 52}, "vendor"), ({"type": "unbounded"}, "vendor")],
)
async def test_whichever_has_less_left_gates_and_ours_when_both_have_the_same(
    played: Played, time: HandTime, quota: dict[str, Any], gated_by: str
) -> None:
    played.script("brave", brave("1, 50"))
    async with running(played, [tuned("brave", quota=quota)], time=time) as gateway:
        await ask(gateway)
        assert (await line(gateway, "brave"))["gated_by"] == gated_by


@pytest.mark.anyio
async def test_who_is_unbounded_and_silent_is_gated_by_nobody(played: Played) -> None:
    async with running(played, ["searxng"]) as gateway:
        await ask(gateway)
        status = await line(gateway, "searxng")
    assert (status["gated_by"], status["vendor_remaining"], status["pace"]) == (None, None, None)


@pytest.mark.anyio
async def test_what_has_been_renewed_is_unknown_until_the_vendor_speaks_again(played: Played, time: HandTime) -> None:
    played.script("brave", brave("1, 50"), success("brave"))
    async with running(played, ["brave"], time=time) as gateway:
        await ask(gateway)
        await ask(gateway, "who says nothing leaves what was said")
        time.move(999)
        assert (await line(gateway, "brave"))["vendor_remaining"] == 50
        time.move(1)
        assert (await line(gateway, "brave"))["vendor_remaining"] is None


@pytest.mark.anyio
async def test_a_sum_with_an_unknown_part_is_unknown(played: Played, time: HandTime) -> None:
    played.script("brave", brave("1, 50"))
    async with running(played, ["brave"], time=time, keys={"BRAVE_API_KEY": "one-11111111,two-22222222"}) as gateway:
        await ask(gateway)
        status = await line(gateway, "brave")
    assert (status["vendor_remaining"], status["vendor_as_of"], status["gated_by"]) == (None, None, "local")
    assert [key["vendor_remaining"] for key in status["keys"]] == [50, None]


@pytest.mark.anyio
async def test_another_process_knows_it_too(played: Played, tmp_path: Path) -> None:
    played.script("brave", brave("1, 50", "1, 864000"))
    async with (
        running(played, ["brave"], state=sqlite(tmp_path)) as one,
        running(played, ["brave"], state=sqlite(tmp_path)) as other,
    ):
        await ask(one)
        assert (await line(other, "brave"))["vendor_remaining"] == 50


# ---------------------------------------------------------------------------------------------------------------------
# usage endpoints

PLAN = {"plan_usage": 10, "plan_limit": 1000, "paygo_usage": None, "paygo_limit": None}


@pytest.mark.parametrize(
    ("key", "account", "left"),
    [
        ({"usage": 950, "limit": 1000}, PLAN, Left(50, 1000)),
        ({"usage": 950, "limit": None}, PLAN, Left(990, 1000)),
        ({"usage": 5, "limit": 3000}, PLAN, Left(990, 1000)),
        ({"usage": 950, "limit": 1000}, None, Left(50, 1000)),
        (None, PLAN | {"plan_usage": 1000, "paygo_usage": 20, "paygo_limit": 100}, Left(80, 1100)),
        (None, PLAN | {"plan_usage": 1004}, Left(0, 1000)),
        (None, PLAN | {"plan_usage": 9.5}, Left(990, 1000)),
        (None, PLAN | {"plan_limit": None}, None),
        (None, PLAN | {"plan_usage": "10"}, None),
        (None, PLAN | {"plan_usage": True}, None),
        (None, PLAN | {"plan_usage": -1}, None),
        (None, PLAN | {"plan_limit": float("nan")}, None),
        ({"usage": 1}, {"current_plan": "Researcher"}, None),
        ([], "", None),
    ],
)
def test_of_key_and_account_the_stricter_counts(key: Any, account: Any, left: Left | None) -> None:
    assert providers.find("tavily")().usage({"key": key, "account": account}) == left


ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda part: st.lists(part, max_size=2) | st.dictionaries(st.sampled_from(["usage", "limit"]), part, max_size=2),
    max_leaves=4,
)


@given(ANY, ANY)
def test_a_damaged_body_tells_nothing_or_something_possible(key: Any, account: Any) -> None:
    for body in (key, {"key": key, "account": account}):
        left = providers.find("tavily")().usage(body)
        assert left is None or left.remaining >= 0


@pytest.mark.parametrize("base", ["", "/search", "/"])
def test_the_endpoint_is_found_however_the_base_is_spelled(base: str) -> None:
    tavily = providers.find("tavily")(Settings(base_url=f"https://relay.example/t{base}"))
    request = tavily.usage_request("tvly-1")
    assert (request.method, str(request.url)) == ("GET", "https://relay.example/t/usage")
    assert request.headers["authorization"] == "Bearer tvly-1"


@pytest.mark.anyio
async def test_a_search_is_followed_by_a_look_at_the_usage_where_the_operator_wants_it(
    played: Played, time: HandTime
) -> None:
    played.script("tavily", usage({"usage": 950, "limit": 1000}, PLAN))
    async with running(played, [tuned("tavily", vendor_usage_every_s=60)], time=time) as gateway:
        for number in range(10):
            await ask(gateway, f"moss {number}")
        await usage_told(gateway)
        status = await line(gateway, "tavily")
        assert (status["used_requests"], status["quota_profile"]) == (10, "monthly:1000@day2")
        assert (status["vendor_remaining"], status["vendor_limit"], status["gated_by"]) == (50, 1000, "vendor")
        assert (status["vendor_source"], status["vendor_resets_at"]) == ("usage", None)
        assert len(asked_usage(played)) == 1
        time.move(60)
        await ask(gateway, "fern")
        await usage_told(gateway)
    assert len(asked_usage(played)) == 2


@pytest.mark.anyio
async def test_all_who_share_a_store_ask_once(played: Played, tmp_path: Path) -> None:
    chain = [tuned("tavily", vendor_usage_every_s=60)]
    played.script("tavily", usage({"usage": 1, "limit": 9}))
    async with (
        running(played, chain, state=sqlite(tmp_path)) as one,
        running(played, chain, state=sqlite(tmp_path)) as other,
    ):
        await asyncio.gather(*(ask(each, f"moss {n}") for n in range(10) for each in (one, other)))
        await usage_told(one)
        await usage_told(other)
        assert (await line(other, "tavily"))["vendor_remaining"] == 8
    assert (len(asked_usage(played)), played.count("tavily")) == (1, 21)


@pytest.mark.anyio
async def test_nobody_is_asked_without_a_wish_without_a_search_or_without_an_endpoint(played: Played) -> None:
    wanting = [tuned("brave", vendor_usage_every_s=60), tuned("tavily", vendor_usage_every_s=60)]
    async with running(played, ["tavily"]) as gateway:
        await ask(gateway)
        await usage_told(gateway)
    async with running(played, wanting) as gateway:
        await ask(gateway)
        await gateway.status()
        await usage_told(gateway)
    assert played.counts() == {"tavily": 1, "brave": 1}


@pytest.mark.anyio
@pytest.mark.parametrize(
    "failure",
    [
        json_play({"detail": {"error": "blocked due to excessive requests"}}, 429, headers={"retry-after": "60"}),
        json_play({"detail": {"error": "Unauthorized"}}, 401),
        json_play({}, 500),
        json_play({}, 432),
        json_play({}),
        json_play({"query": "moss", "results": []}),
        Play(200, body=b"<html>"),
        Play(ending="reset", body=b"{}"),
    ],
)
async def test_an_endpoint_that_does_not_tell_says_nothing_of_the_key(
    played: Played, time: HandTime, failure: Play
) -> None:
    played.script("tavily", lambda asked: failure if asked.path.endswith("/usage") else success("tavily")(asked))
    async with running(played, [tuned("tavily", vendor_usage_every_s=60)], time=time) as gateway:
        assert used(await ask(gateway)) == "tavily"
        await usage_told(gateway)
        status = await line(gateway, "tavily")
        assert (await rest(gateway, "tavily"), await streak(gateway, "tavily")) == (None, 0)
        assert (await counted(gateway, "tavily"), len(asked_usage(played))) == (1, 1)
        told_again = await gateway.ledger.ask(gateway.current.candidates[0], lane(gateway, "tavily"))
        assert isinstance(told_again, Reply)
        assert told_again.outcome is not Outcome.OK
    assert (status["state"], status["last_error"], status["vendor_remaining"]) == ("active", None, None)


@pytest.mark.anyio
async def test_no_search_waits_for_a_silent_endpoint_and_neither_does_the_end(played: Played) -> None:
    played.script("tavily", lambda asked: SILENCE if asked.path.endswith("/usage") else success("tavily")(asked))
    async with running(played, [tuned("tavily", vendor_usage_every_s=60)]) as gateway:
        with anyio.fail_after(10):
            assert used(await ask(gateway)) == "tavily"
            await played.wait_for(2, "tavily")
            assert used(await ask(gateway, "fern")) == "tavily"
    with anyio.fail_after(10):
        await played.wait_until_left(1, "tavily")


@pytest.mark.anyio
async def test_a_reload_leaves_a_look_at_the_usage_its_connections(played: Played) -> None:
    go = asyncio.Event()
    played.script("tavily", usage({"usage": 1, "limit": 9}, until=go))
    chain = [tuned("tavily", vendor_usage_every_s=60)]
    async with running(played, chain) as gateway:
        await ask(gateway)
        await played.wait_for(2, "tavily")
        old = gateway.current
        await gateway.reload(configured(played, chain))
        go.set()
        with anyio.fail_after(10):
            while old.users:
                await checkpoint()
        assert (await line(gateway, "tavily"))["vendor_remaining"] == 8
    assert played.left() == 0


@pytest.mark.anyio
async def test_an_endpoint_that_repeats_the_key_does_not_get_it_shown(played: Played) -> None:
    played.script("tavily", Play(401, echo=True))
    async with running(played, ["tavily"]) as gateway:
        candidate = gateway.current.candidates[0]
        said = await gateway.ledger.ask(candidate, candidate.lanes[0])
    assert isinstance(said, Reply)
    assert said.message
    assert "tvly-played-tavily" not in repr(said)


@pytest.mark.anyio
async def test_a_key_that_no_header_can_hold_is_told_and_not_raised() -> None:
    said = await providers.find("tavily")(Settings(base_url="http://127.0.0.1")).ask_usage("tvly-雪", 1)
    assert isinstance(said, Reply)
    assert said.outcome is Outcome.REQUEST_ERROR


# ---------------------------------------------------------------------------------------------------------------------
# the setting


def complaints(tmp_path: Path, name: str, every_s: float) -> tuple[tuple[str, ...], tuple[str, ...]]:
    file = tmp_path / "config.json"
    file.write_text(json.dumps({"providers": [{"name": name, "vendor_usage_every_s": every_s}]}))
    loaded = load({"WEBSEARCH_CONFIG": str(file), "HOME": str(tmp_path)})
    return loaded.errors, loaded.warnings


def test_nobody_may_ask_more_often_than_the_vendor_lets_him(tmp_path: Path) -> None:
    assert complaints(tmp_path, "tavily", 59) == (
        (
            "providers[tavily].vendor_usage_every_s: "
            "must be 0 (never), or from 60: the vendor lets nobody ask more often",
        ),
        (),
    )
    assert complaints(tmp_path, "tavily", 60) == complaints(tmp_path, "tavily", 0) == ((), ())


def test_a_wish_that_no_endpoint_can_fulfil_is_told(tmp_path: Path) -> None:
    assert complaints(tmp_path, "brave", 60) == (
        (),
        ("providers[brave].vendor_usage_every_s: is not used: brave has no endpoint that tells what is left",),
    )
    assert complaints(tmp_path, "brave", 0) == ((), ())
