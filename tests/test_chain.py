"""The chain, a sentence of the contract at a time: order, verdicts, skips."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from gateway.stores.sqlite import FILE_NAME
from tests.rooms import (
    EMPTY,
    HandTime,
    ask,
    came_to,
    counted,
    failing,
    running,
    sqlite,
    told,
    tuned,
    used,
)
from tests.vendors import RESET, Play, Played, json_play, success

pytestmark = pytest.mark.anyio


@pytest.fixture
def time(anyio_backend: str) -> HandTime:
    return HandTime()


# ---------------------------------------------------------------------------------------------------------------------
# order, and what the chain lists


async def test_the_first_in_the_configured_order_wins_and_is_not_in_the_chain(played: Played) -> None:
    async with running(played, ["brave", "bocha", "tavily"]) as gateway:
        answer = await ask(gateway)
    assert (used(answer), told(answer), played.counts()) == ("brave", [], {"brave": 1})


async def test_who_failed_or_had_nothing_before_the_winner_is_listed_in_order(played: Played) -> None:
    played.script("bocha", json_play({"code": "403", "message": "You do not have enough money"}, 403))
    played.script("tavily", failing(429))
    played.script("searxng", EMPTY["searxng"])
    async with running(played, ["bocha", "tavily", "searxng", "brave", "exa"]) as gateway:
        answer = await ask(gateway)
        assert told(answer) == [
            "bocha quota_exhausted http_403 You do not have enough money",
            "tavily rate_limited http_429",
            "searxng no_results http_200",
        ]
        assert all("elapsedMs" in step for step in answer.body["meta"]["fallback_chain"])
        again = await ask(gateway, "fern")
        assert told(again)[:2] == ["bocha skipped:quota_exhausted 21600s", "tavily skipped:rate_limited 60s"]
        assert [set(step) for step in again.body["meta"]["fallback_chain"][:2]] == [
            {"provider", "outcome", "detail"}
        ] * 2
    assert played.counts() == {"bocha": 1, "tavily": 1, "searxng": 2, "brave": 2}


async def test_listed_but_unconfigured_providers_leave_no_entry(played: Played) -> None:
    async with running(played, ["exa", "tavily"], keys={"EXA_API_KEY": ""}) as gateway:
        answer = await ask(gateway)
    assert (used(answer), told(answer)) == ("tavily", [])


async def test_with_nobody_to_ask_the_chain_says_so(played: Played) -> None:
    async with running(played, []) as gateway:
        answer = await ask(gateway)
    assert [line.split()[:2] for line in told(answer)] == [["gateway", "no_provider"]]
    assert came_to(answer) == ("failed", True, None)


async def test_with_include_domains_those_who_enforce_that_many_come_first_and_nothing_else_moves(
    played: Played,
) -> None:
    # brave and searxng are held to one host, bocha and tavily to any number
    names = ["brave", "bocha", "searxng", "tavily"]
    for name in names:
        played.script(name, EMPTY[name])
    async with running(played, names) as gateway:

        async def order(**arguments: object) -> list[str]:
            answer = await ask(gateway, "moss", use_cache=False, **arguments)
            return [line.split()[0] for line in told(answer)]

        assert await order() == names
        assert await order(include_domains=["a.example"]) == names
        assert await order(include_domains=["a.example", "b.example"]) == ["bocha", "tavily", "brave", "searxng"]
        assert await order(exclude_domains=["a.example", "b.example"]) == names


async def test_exclude_domains_alone_move_nobody(played: Played, monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(played, ["brave", "tavily"]) as gateway:
        monkeypatch.setattr(type(gateway.current.candidates[0].adapter), "domains", 0)
        answer = await ask(gateway, exclude_domains=["a.example"])
        assert used(answer) == "brave"
        answer = await ask(gateway, include_domains=["a.example"])
        assert used(answer) == "tavily"


async def test_rows_are_filtered_here_too_and_none_left_is_off_site_and_the_next_is_asked(played: Played) -> None:
    played.script("tavily", success("tavily", hosts=["a.example", "elsewhere.example", "nota.example"]))
    async with running(played, ["tavily", "bocha"]) as gateway:
        some = await ask(gateway, include_domains=["a.example"])
        assert used(some) == "tavily"
        assert {row["url"].split("/")[2] for row in some.body["results"]} == {"a.example"}
        assert some.body["meta"]["filters"] == {"include_domains": {"by": "gateway", "dropped": 3}}
        none = await ask(gateway, include_domains=["b.example"])
        assert (used(none), told(none)) == ("bocha", ["tavily no_results off_site"])
        without = await ask(gateway, exclude_domains=["a.example", "elsewhere.example", "nota.example"])
        assert (used(without), told(without)) == ("bocha", ["tavily no_results off_site"])


async def test_a_provider_is_never_asked_twice_in_one_search(played: Played, time: HandTime) -> None:
    played.script("tavily", failing(429, 2))
    played.script("bocha", failing(503, 3))
    async with running(played, ["tavily", "bocha"], time=time) as gateway:
        answer = await ask(gateway)
    assert (came_to(answer), time.slept) == (("failed", True, 2), [])
    assert played.counts() == {"tavily": 1, "bocha": 1}


# ---------------------------------------------------------------------------------------------------------------------
# verdicts


@pytest.mark.parametrize(
    ("plays", "expected"),
    [
        ({"bocha": EMPTY["bocha"], "tavily": EMPTY["tavily"]}, ("empty", False)),
        ({"bocha": EMPTY["bocha"], "tavily": failing(500)}, ("incomplete", True)),
        ({"bocha": failing(400), "tavily": EMPTY["tavily"]}, ("incomplete", True)),
        ({"bocha": failing(400), "tavily": failing(500)}, ("failed", True)),
        ({"bocha": RESET, "tavily": failing(401)}, ("failed", True)),
    ],
)
async def test_a_search_without_results_comes_to(
    played: Played, plays: dict[str, Play], expected: tuple[str, bool]
) -> None:
    for name, play in plays.items():
        played.script(name, play)
    async with running(played, list(plays)) as gateway:
        answer = await ask(gateway)
    assert came_to(answer)[:2] == expected
    begins = {"empty": "No results", "incomplete": "Search incomplete", "failed": "Search failed"}
    assert answer.body["meta"]["note"].startswith(begins[expected[0]])


async def test_a_skipped_provider_makes_an_empty_search_incomplete(played: Played, time: HandTime) -> None:
    played.script("bocha", failing(429))
    played.script("tavily", EMPTY["tavily"])
    async with running(played, ["bocha", "tavily"], time=time) as gateway:
        await ask(gateway, "one")
        answer = await ask(gateway, "two")
    assert told(answer) == ["bocha skipped:rate_limited 60s", "tavily no_results http_200"]
    assert came_to(answer) == ("incomplete", True, 60)


@pytest.mark.parametrize(
    ("name", "hosts", "expected"),
    [
        ("tavily", ["a.example", "b.example"], ("empty", False)),  # held to the list, and has nothing from it
        ("brave", ["a.example"], ("empty", False)),
        ("brave", ["a.example", "b.example"], ("incomplete", True)),  # two hosts are a wish to this one
    ],
)
async def test_off_site_rows_prove_nothing_unless_the_provider_was_held_to_the_list(
    played: Played, name: str, hosts: list[str], expected: tuple[str, bool]
) -> None:
    played.script(name, success(name, hosts=["elsewhere.example"]))
    async with running(played, [name]) as gateway:
        answer = await ask(gateway, include_domains=hosts)
    assert told(answer) == [f"{name} no_results off_site"]
    assert came_to(answer)[:2] == expected


async def test_text_without_sources_is_no_proof_that_there_is_nothing(played: Played) -> None:
    message = {"role": "assistant", "content": [{"type": "output_text", "text": "I know this one.", "annotations": []}]}
    body = {"id": "r", "object": "response", "status": "completed", "output": [{"type": "message", **message}]}
    played.script("grok", json_play(body))
    played.script("tavily", EMPTY["tavily"])
    async with running(played, ["grok"]) as gateway:
        alone = await ask(gateway)
        assert (told(alone), came_to(alone)[:2]) == (["grok no_results ungrounded"], ("failed", True))
    async with running(played, ["grok", "tavily"]) as gateway:
        both = await ask(gateway)
        assert came_to(both)[:2] == ("incomplete", True)


# ---------------------------------------------------------------------------------------------------------------------
# skips


async def test_a_rest_is_skipped_with_its_whole_seconds_rounded_up(played: Played, time: HandTime) -> None:
    played.script("tavily", failing(429))
    async with running(played, ["tavily", "brave"], time=time) as gateway:
        await ask(gateway, "one")
        for moved, detail in ((17.4, "43s"), (0.6, "42s"), (41.5, "1s")):
            time.move(moved)
            assert told(await ask(gateway, f"moss {moved}")) == [f"tavily skipped:rate_limited {detail}"]


@pytest.mark.parametrize(
    ("status", "reason"),
    [(429, "rate_limited"), (432, "quota_exhausted"), (504, "timeout"), (500, "server_error")],
)
async def test_the_reason_of_a_skip_is_why_the_provider_rests(
    played: Played, time: HandTime, status: int, reason: str
) -> None:
    played.script("tavily", failing(status))
    async with running(played, ["tavily", "brave"], time=time) as gateway:
        await ask(gateway, "one")
        (line,) = told(await ask(gateway, "two"))
        assert line.startswith(f"tavily skipped:{reason} ")


async def test_a_spent_budget_is_skipped_with_used_and_limit(played: Played, time: HandTime) -> None:
    async with running(played, [tuned("tavily", quota={"limit": 2}), "brave"], time=time) as gateway:
        answers = [await ask(gateway, f"moss {number}") for number in range(4)]
    assert [used(each) for each in answers] == ["tavily", "tavily", "brave", "brave"]
    assert told(answers[3]) == ["tavily skipped:quota_local 2/2"]


async def test_errors_and_empty_answers_count_and_skips_and_hits_do_not(played: Played, time: HandTime) -> None:
    played.script("tavily", EMPTY["tavily"], failing(400), failing(429, 50), success("tavily"))
    async with running(played, ["tavily"], time=time) as gateway:
        for query, seconds in (("one", 0), ("two", 0), ("three", 0), ("three", 50), ("four", 0), ("four", 0)):
            await ask(gateway, query)
            time.move(seconds)
        assert await counted(gateway, "tavily") == played.count("tavily") == 4


async def test_a_store_that_is_away_costs_the_limited_their_turn_and_nobody_else(
    played: Played, tmp_path: Path
) -> None:
    async with running(played, ["tavily", "searxng"], state=sqlite(tmp_path)) as gateway:
        assert used(await ask(gateway, "one")) == "tavily"
        locked = sqlite3.connect(tmp_path / FILE_NAME, isolation_level=None)
        locked.execute("BEGIN IMMEDIATE")
        away = await ask(gateway, "two")
        assert (used(away), told(away)) == ("searxng", ["tavily skipped:state_unavailable"])
        locked.execute("ROLLBACK")
        locked.close()
        assert used(await ask(gateway, "three")) == "tavily"
    assert played.counts() == {"tavily": 2, "searxng": 1}


async def test_with_a_damaged_store_a_search_that_only_limited_providers_could_answer_fails_in_words(
    played: Played, tmp_path: Path
) -> None:
    async with running(played, ["tavily"], state=sqlite(tmp_path)) as gateway:
        for leftover in tmp_path.iterdir():
            leftover.unlink()
        (tmp_path / FILE_NAME).write_bytes(b"not a database" * 1000)
        answer = await ask(gateway)
        assert (told(answer), came_to(answer)) == (["tavily skipped:state_unavailable"], ("failed", True, None))
        (tmp_path / FILE_NAME).unlink()
        assert used(await ask(gateway)) == "tavily"


async def test_rows_whose_addresses_nobody_can_use_are_no_proof_that_nothing_exists(played: Played) -> None:
    endless = {"title": "t", "url": "https://a.example/" + "x" * 2048, "content": "c"}
    played.script("tavily", json_play({"results": [endless]}))
    async with running(played, ["tavily"]) as gateway:
        answer = await ask(gateway)
        assert told(answer) == ["tavily no_results urls_too_long"]
        assert came_to(answer)[:2] == ("incomplete", True)
        whole = {**endless, "url": "https://a.example/" + "x" * (2048 - 18)}
        played.script("tavily", json_play({"results": [endless, whole]}))
        answer = await ask(gateway, "fern")
        assert [row["url"] for row in answer.body["results"]] == [whole["url"]]
        assert "the URL is over 2048 characters" in answer.body["meta"]["note"]


async def test_a_query_that_could_not_be_sent_says_nothing_of_the_provider(played: Played) -> None:
    hosts = [f"host{number}.example.org" for number in range(40)]
    async with running(played, ["brave"]) as gateway:
        answer = await ask(
            gateway, "a question that is longer than what is left of the room for words", include_domains=hosts
        )
        assert answer.body["meta"]["fallback_chain"] == [
            {"provider": "brave", "outcome": "request_error", "detail": "query_too_long beside its site: operators"}
        ]
        line = (await gateway.status())["providers"][0]
    assert (line["used_requests"], line["last_outcome"], line["last_error"]) == (0, None, None)
    assert played.count() == 0
