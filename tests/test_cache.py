"""Answers kept for a while, honest empties, stale answers, and the rows behind a search id."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from gateway import cache
from gateway.gateway import Answer, Gateway
from gateway.stores.sqlite import FILE_NAME
from tests.rooms import HandTime, ask, counted, failing, running, sqlite, told, tuned, used
from tests.vendors import SILENCE, Play, Played, json_play, success

pytestmark = pytest.mark.anyio

EMPTY = {
    "tavily": json_play({"query": "moss", "results": [], "response_time": 0.1}),
    "brave": json_play({"type": "search", "query": {"original": "moss"}, "web": {"results": []}}),
}
"""Honest answers with nothing in them."""

BLOCKED = json_play({"query": "moss", "results": [], "unresponsive_engines": [["mojeek", "Suspended: CAPTCHA"]]})
"""SearXNG without rows, and not because there are none."""


@pytest.fixture
def time(anyio_backend: str) -> HandTime:
    return HandTime()


def meta(answer: Answer) -> dict[str, Any]:
    told: dict[str, Any] = answer.body["meta"]
    return told


def hit(answer: Answer) -> bool:
    is_hit: bool = meta(answer)["cache_hit"]
    return is_hit


# ---------------------------------------------------------------------------------------------------------------------
# what a hit shows


async def test_a_hit_shows_the_stored_chain_note_and_winner_with_its_age_and_an_id_of_its_own(
    played: Played, time: HandTime
) -> None:
    played.script("bocha", failing(429))
    played.script("tavily", success("tavily", hosts=["a.example", "elsewhere.example"]))
    async with running(played, ["bocha", "tavily"], time=time) as gateway:
        first = await ask(gateway, include_domains=["a.example"])
        time.move(100)
        again = await ask(gateway, include_domains=["a.example"])
    assert (hit(first), hit(again), meta(again)["cache_age_s"], used(again)) == (False, True, 100, "tavily")
    assert told(again) == told(first) == ["bocha rate_limited http_429"]
    assert again.body["results"] == first.body["results"]
    assert meta(again)["note"] == meta(first)["note"]
    assert "dropped" in meta(again)["note"]
    assert meta(again)["filters"] == meta(first)["filters"]
    assert meta(again)["search_id"] != meta(first)["search_id"]
    assert (meta(again)["elapsed_ms"], meta(again)["verdict"], again.is_error) == (0, "found", False)
    assert (played.counts(), "cache_age_s" in meta(first)) == ({"bocha": 1, "tavily": 1}, False)


async def test_a_hit_counts_for_the_client_and_for_no_provider(played: Played) -> None:
    async with running(played, ["tavily"]) as gateway:
        for _ in range(3):
            await ask(gateway)
        status = await gateway.status()
        assert await counted(gateway, "tavily") == 1
    assert status["clients"] == [{"name": "default", "searches_today": 3}]
    assert status["cache"] == {"entries": 1, "hits": 2, "misses": 1}


async def test_what_the_caller_must_know_of_its_own_arguments_comes_before_the_stored_note(played: Played) -> None:
    played.script("tavily", success("tavily", hosts=["a.example", "elsewhere.example"]))
    async with running(played, ["tavily"]) as gateway:
        await ask(gateway, max_results=20, include_domains=["a.example"])
        again = await ask(gateway, max_results=99, include_domains=["a.example"])
    assert hit(again)
    assert meta(again)["note"].startswith("max_results was lowered to 20")
    assert "dropped" in meta(again)["note"]


async def test_a_hit_can_be_changed_by_nobody_who_got_it(played: Played) -> None:
    async with running(played, ["tavily"]) as gateway:
        first = await ask(gateway)
        whole = first.text
        first.body["meta"]["note"] = "mine"
        again = await ask(gateway)
    assert json.loads(whole)["results"] == again.body["results"]
    assert "note" not in meta(again)


# ---------------------------------------------------------------------------------------------------------------------
# the key


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"query": "Moss  green"}, {"query": " moss GREEN\n"}),
        ({"query": "straße"}, {"query": "STRASSE"}),
        ({"query": "moss"}, {"query": "moss", "_host_adds": {"x": 1}, "country": "de"}),
        ({"query": "moss"}, {"query": "moss", "max_results": "8", "freshness": "", "include_domains": [""]}),
        ({"query": "moss", "max_results": 5}, {"query": "moss", "count": "5.0"}),
        (
            {"query": "moss", "include_domains": ["a.example", "b.example"]},
            {"query": "moss", "allowed_domains": "https://B.example/x, *.a.example"},
        ),
        (
            {"query": "moss", "exclude_domains": ["a.example", "b.example"]},
            {"query": "moss -site:b.example", "blocked_domains": ["a.example"]},
        ),
        ({"query": "moss", "include_domains": ["a.example"]}, {"query": "site:a.example moss"}),
    ],
)
async def test_queries_that_deserve_the_same_answer_get_it(
    played: Played, one: Mapping[str, object], other: Mapping[str, object]
) -> None:
    async with running(played, ["tavily"]) as gateway:
        answers = [await gateway.search(one), await gateway.search(other)]
    assert ([hit(each) for each in answers], played.count()) == ([False, True], 1)


@pytest.mark.parametrize(
    "change",
    [
        {"query": "mosses"},
        {"query": "moss?"},
        {"max_results": 3},
        {"freshness": "week"},
        {"include_domains": ["a.example"]},
        {"exclude_domains": ["a.example"]},
        {"include_content": 2},
    ],
)
async def test_whatever_changes_the_answer_is_part_of_the_key(played: Played, change: Mapping[str, object]) -> None:
    async with running(played, ["tavily"]) as gateway:
        await ask(gateway)
        changed = await gateway.search({"query": "moss"} | change)
        assert not hit(changed)
        assert hit(await ask(gateway))
        assert hit(await gateway.search({"query": "moss"} | change))
    assert played.count() == 2


async def test_to_include_a_host_is_not_to_exclude_it(played: Played) -> None:
    async with running(played, ["tavily"]) as gateway:
        await ask(gateway, include_domains=["a.example"])
        assert not hit(await ask(gateway, exclude_domains=["a.example"]))


async def test_three_results_then_ten_then_three_again(played: Played) -> None:
    played.script("tavily", success("tavily", n_rows=20))
    async with running(played, ["tavily"]) as gateway:
        counts = [len((await ask(gateway, max_results=n)).body["results"]) for n in (3, 10, 3)]
    assert (counts, played.count()) == ([3, 10, 3], 2)


# ---------------------------------------------------------------------------------------------------------------------
# for how long, and how many


@pytest.mark.parametrize(("freshness", "life_s"), [(None, 3600), ("week", 3600), ("day", 900)])
async def test_an_answer_lives_an_hour_and_one_of_today_a_quarter(
    played: Played, time: HandTime, freshness: str | None, life_s: int
) -> None:
    async with running(played, ["tavily"], time=time) as gateway:
        await ask(gateway, freshness=freshness)
        time.move(life_s - 1)
        assert meta(await ask(gateway, freshness=freshness))["cache_age_s"] == life_s - 1
        time.move(1)
        assert not hit(await ask(gateway, freshness=freshness))


async def test_lives_are_as_configured(played: Played, time: HandTime) -> None:
    async with running(played, ["tavily"], time=time, cache={"ttl_s": 10, "ttl_fresh_s": 0}) as gateway:
        await ask(gateway)
        await ask(gateway, freshness="day")
        time.move(9)
        assert hit(await ask(gateway))
        assert not hit(await ask(gateway, freshness="day"))
        time.move(1)
        assert not hit(await ask(gateway))


async def test_the_oldest_answers_go_when_there_are_too_many(played: Played) -> None:
    async with running(played, ["tavily"], cache={"max_entries": 2}) as gateway:
        for query in ("moss", "fern", "lichen"):
            await ask(gateway, query)
        assert (await gateway.status())["cache"]["entries"] == 2
        assert [hit(await ask(gateway, query)) for query in ("lichen", "fern")] == [True, True]
        assert not hit(await ask(gateway, "moss"))


@pytest.mark.parametrize("off", [{"enabled": False}, {"ttl_s": 0}, {"max_entries": 0}])
async def test_switched_off_it_keeps_neither_answers_nor_empties(played: Played, off: Mapping[str, object]) -> None:
    async with running(played, ["tavily"], cache=off) as gateway:
        for _ in range(2):
            assert not hit(await ask(gateway))
        played.script("tavily", EMPTY["tavily"])
        for _ in range(2):
            assert not hit(await ask(gateway, "nothing"))
        assert (await gateway.status())["cache"] == {"entries": 0, "hits": 0, "misses": 4}
    assert played.count() == 4


async def test_a_kept_answer_survives_a_restart(played: Played, tmp_path: Path) -> None:
    async with running(played, ["tavily"], state=sqlite(tmp_path)) as gateway:
        await ask(gateway)
    async with running(played, ["tavily"], state=sqlite(tmp_path)) as gateway:
        assert hit(await ask(gateway))


# ---------------------------------------------------------------------------------------------------------------------
# what is not kept


async def test_failed_and_incomplete_searches_are_never_kept(played: Played, time: HandTime) -> None:
    played.script("tavily", failing(500), success("tavily"))
    played.script("searxng", BLOCKED)
    async with running(played, ["searxng", "tavily"], time=time, cache={"stale_if_error_s": 60}) as gateway:
        failed = await ask(gateway)
        assert meta(failed)["verdict"] == "failed"
        time.move(3600)
        played.script("searxng", json_play({"query": "moss", "results": [], "unresponsive_engines": []}))
        played.script("tavily", failing(500))
        incomplete = await ask(gateway)
        assert (meta(incomplete)["verdict"], hit(incomplete)) == ("incomplete", False)
        time.move(3600)
        played.script("tavily")
        found = await ask(gateway)
    assert (meta(found)["verdict"], hit(found)) == ("found", False)


async def test_an_argument_error_counts_for_nobody_and_is_not_kept(played: Played) -> None:
    async with running(played, ["tavily"]) as gateway:
        for _ in range(2):
            assert not hit(await ask(gateway, max_results="five"))
        status = await gateway.status()
    assert status["cache"] == {"entries": 0, "hits": 0, "misses": 0}
    assert status["clients"] == [{"name": "default", "searches_today": 0}]


async def test_an_empty_search_is_remembered_for_a_minute_and_says_so(played: Played, time: HandTime) -> None:
    for name, play in EMPTY.items():
        played.script(name, play)
    async with running(played, ["tavily", "brave"], time=time) as gateway:
        first = await ask(gateway, freshness="week")
        assert not hit(first)
        time.move(40)
        again = await ask(gateway, freshness="week")
        time.move(20)
        later = await ask(gateway, freshness="week")
    assert [meta(each)["verdict"] for each in (first, again, later)] == ["empty"] * 3
    assert (hit(again), meta(again)["cache_age_s"], again.is_error) == (True, 40, False)
    assert told(again) == told(first)
    # the words of the first answer hold: what was searched, and what to leave out
    assert meta(again)["note"].startswith(meta(first)["note"])
    assert "lready searched 40 s ago" in meta(again)["note"]
    assert "without freshness" in meta(again)["note"]
    assert meta(again)["search_id"] != meta(first)["search_id"]
    assert not hit(later)
    assert played.counts() == {"tavily": 2, "brave": 2}


async def test_a_remembered_empty_keeps_the_notes_on_the_callers_arguments(played: Played) -> None:
    played.script("tavily", EMPTY["tavily"])
    async with running(played, ["tavily"]) as gateway:
        await ask(gateway, max_results=20)
        again = await ask(gateway, max_results=500)
    assert hit(again)
    assert meta(again)["note"].startswith("No results")
    assert "max_results was lowered to 20" in meta(again)["note"]


async def test_empty_because_engines_were_blocked_is_not_remembered(played: Played, time: HandTime) -> None:
    played.script("searxng", BLOCKED, success("searxng"))
    async with running(played, ["searxng"], time=time) as gateway:
        blocked = await ask(gateway)
        assert (meta(blocked)["verdict"], blocked.is_error) == ("failed", True)
        time.move(61)
        found = await ask(gateway)
    assert (used(found), hit(found)) == ("searxng", False)


# ---------------------------------------------------------------------------------------------------------------------
# use_cache


async def test_without_the_cache_everybody_is_asked_anew_and_the_kept_answer_is_replaced(
    played: Played, time: HandTime
) -> None:
    played.script("tavily", success("tavily", marker="old"), success("tavily", marker="new"))
    async with running(played, ["tavily"], time=time) as gateway:
        await ask(gateway)
        time.move(100)
        fresh = await ask(gateway, use_cache=False)
        assert (hit(fresh), "new" in fresh.body["results"][0]["title"]) == (False, True)
        time.move(5)
        again = await ask(gateway)
        assert (hit(again), meta(again)["cache_age_s"]) == (True, 5)
        assert again.body["results"] == fresh.body["results"]
        status = await gateway.status()
    assert (played.count(), status["cache"]) == (2, {"entries": 1, "hits": 1, "misses": 1})


async def test_without_the_cache_a_remembered_empty_is_no_answer(played: Played) -> None:
    played.script("tavily", EMPTY["tavily"], success("tavily"))
    async with running(played, ["tavily"]) as gateway:
        await ask(gateway)
        fresh = await ask(gateway, use_cache=False)
        assert (used(fresh), hit(fresh)) == ("tavily", False)
        again = await ask(gateway)
    assert (used(again), hit(again)) == ("tavily", True)


async def test_without_the_cache_an_empty_or_failed_search_leaves_the_kept_answer_alone(
    played: Played, time: HandTime
) -> None:
    played.script("tavily", success("tavily"), EMPTY["tavily"], failing(500))
    async with running(played, ["tavily"], time=time, cache={"stale_if_error_s": 10_000}) as gateway:
        await ask(gateway)
        assert meta(await ask(gateway, use_cache=False))["verdict"] == "empty"
        failed = await ask(gateway, use_cache=False)
        assert (meta(failed)["verdict"], failed.body["results"], hit(failed)) == ("failed", [], False)
        assert hit(await ask(gateway))
        time.move(3600)
        # neither does a stale answer stand in for one that must be fresh
        assert meta(await ask(gateway, use_cache=False))["verdict"] == "failed"


async def test_without_the_cache_no_search_is_joined(played: Played) -> None:
    go = asyncio.Event()
    played.script("tavily", success("tavily", until=go))
    async with running(played, ["tavily"]) as gateway:
        searches = [asyncio.create_task(ask(gateway, use_cache=use)) for use in (True, False, False)]
        await played.wait_for(3)
        go.set()
        answers = await asyncio.gather(*searches)
    assert [used(each) for each in answers] == ["tavily"] * 3


async def test_a_provider_that_is_asked_alone_neither_reads_nor_writes_the_cache(played: Played) -> None:
    async with running(played, ["tavily", "brave"], debug=True) as gateway:
        await ask(gateway)
        alone = await ask(gateway, provider="brave")
        assert (used(alone), hit(alone)) == ("brave", False)
        again = await ask(gateway)
    assert (used(again), hit(again)) == ("tavily", True)


# ---------------------------------------------------------------------------------------------------------------------
# stale answers


async def test_a_stale_answer_stands_in_for_a_failed_or_incomplete_search(played: Played, time: HandTime) -> None:
    async with running(played, ["tavily", "brave"], time=time, cache={"stale_if_error_s": 7200}) as gateway:
        first = await ask(gateway)
        time.move(7000)
        played.script("tavily", failing(500))
        played.script("brave", failing(503))
        failed = await ask(gateway, max_results="8")
        assert (failed.is_error, failed.body["results"]) == (False, first.body["results"])
        told_now = meta(failed)
        assert (told_now["verdict"], told_now["stale"], told_now["cache_hit"]) == ("found", True, True)
        assert (told_now["cache_age_s"], told_now["provider_used"]) == (7000, "tavily")
        assert told_now["note"].startswith("Search failed now")
        assert told(failed) == ["tavily server_error http_500", "brave server_error http_503"]
        played.script("brave", EMPTY["brave"])
        time.move(3600)
        incomplete = await ask(gateway)
        assert (meta(incomplete)["stale"], told(incomplete)[-1]) == (True, "brave no_results http_200")
        time.move(200)
        assert meta(await ask(gateway))["verdict"] == "incomplete"


async def test_a_stale_answer_does_not_stand_in_for_an_honest_empty(played: Played, time: HandTime) -> None:
    async with running(played, ["tavily"], time=time, cache={"stale_if_error_s": 7200}) as gateway:
        await ask(gateway)
        time.move(3600)
        played.script("tavily", EMPTY["tavily"])
        assert meta(await ask(gateway))["verdict"] == "empty"


async def test_a_stale_answer_is_replaced_by_a_fresh_one(played: Played, time: HandTime) -> None:
    async with running(played, ["tavily"], time=time, cache={"stale_if_error_s": 7200}) as gateway:
        await ask(gateway)
        time.move(3600)
        fresh = await ask(gateway)
        assert (hit(fresh), "stale" in meta(fresh)) == (False, False)
        assert hit(await ask(gateway))


async def test_a_stale_answer_also_stands_in_when_time_runs_out(played: Played, time: HandTime) -> None:
    async with running(
        played, ["tavily"], time=time, cache={"stale_if_error_s": 7200}, defaults={"total_budget_ms": 100}
    ) as gateway:
        await ask(gateway)
        time.move(3600)
        played.script("tavily", SILENCE)
        late = await ask(gateway)
    assert (meta(late)["verdict"], meta(late).get("stale")) == ("found", True)
    assert told(late) == ["tavily budget_exhausted"]


async def test_stale_answers_are_off_by_default(played: Played, time: HandTime) -> None:
    async with running(played, ["tavily"], time=time) as gateway:
        await ask(gateway)
        time.move(3600)
        played.script("tavily", failing(500))
        assert meta(await ask(gateway))["verdict"] == "failed"


# ---------------------------------------------------------------------------------------------------------------------
# where answers may lie


def lying_in(folder: Path) -> bytes:
    return b"".join(file.read_bytes() for file in folder.iterdir() if file.name.startswith(FILE_NAME))


async def test_braves_answers_stay_in_this_process(played: Played, tmp_path: Path) -> None:
    brave = success("brave", marker="lodestone")
    played.script("brave", brave)
    async with running(played, ["brave"], state=sqlite(tmp_path)) as gateway:
        assert "lodestone" in (await ask(gateway)).text
        assert hit(await ask(gateway))
        assert b"lodestone" not in lying_in(tmp_path)
    assert b"lodestone" not in lying_in(tmp_path)
    async with running(played, [tuned("brave", options={"may_store": True})], state=sqlite(tmp_path)) as gateway:
        assert not hit(await ask(gateway))
    assert b"lodestone" in lying_in(tmp_path)


async def test_the_newer_of_two_answers_counts_wherever_it_lies(played: Played, time: HandTime, tmp_path: Path) -> None:
    # brave's answer lies in the process, tavily's in the file
    async with running(
        played, ["brave", "tavily"], time=time, state=sqlite(tmp_path), cache={"stale_if_error_s": 90_000}
    ) as gateway:
        assert used(await ask(gateway)) == "brave"
        played.script("brave", failing(500))
        time.move(3600)
        assert used(await ask(gateway)) == "tavily"
        again = await ask(gateway)
        assert (used(again), hit(again)) == ("tavily", True)
        played.script("brave")
        time.move(3600)
        assert used(await ask(gateway)) == "brave"
        again = await ask(gateway)
        assert (used(again), hit(again)) == ("brave", True)


# ---------------------------------------------------------------------------------------------------------------------
# the rows behind a search id


async def rows_behind(gateway: Gateway, answer: Answer, client: str = "default") -> list[Any] | None:
    """What lies in the store under an answer's id, where another id may be named instead."""
    entry: dict[str, Any] = {"of": meta(answer)["search_id"], "client": client}
    while "rows" not in entry:
        held = await gateway.store.recall(cache.ROWS, entry["of"])
        if held is None:
            return None
        owner, entry = entry["client"], json.loads(held)
        assert entry["client"] == owner
    rows: list[Any] = entry["rows"]
    return rows


async def test_the_untrimmed_rows_live_an_hour_for_every_answer(played: Played, time: HandTime) -> None:
    long = [{"title": "t", "url": f"https://a.example/{n}", "content": "word " * 900} for n in range(12)]
    played.script("tavily", json_play({"query": "moss", "results": long, "response_time": 0.1}))
    async with running(played, ["tavily"], time=time) as gateway:
        first = await ask(gateway, max_results=3, use_cache=False)
        assert [row["truncated"] for row in first.body["results"]] == [True] * 3
        kept = await rows_behind(gateway, first)
        assert kept is not None
        assert (len(kept), len(kept[0]["content"])) == (12, 900 * 5 - 1)
        time.move(3599)
        assert await rows_behind(gateway, first) == kept


async def test_an_answer_from_the_cache_has_its_rows_for_a_whole_hour_too(played: Played, time: HandTime) -> None:
    async with running(played, ["tavily"], time=time, cache={"ttl_s": 50_000, "stale_if_error_s": 50_000}) as gateway:
        await ask(gateway)
        time.move(49_999)
        again = await ask(gateway)
        time.move(3599)
        assert await rows_behind(gateway, again)
        time.move(1)
        assert await rows_behind(gateway, again) is None
        time.move(40_000)
        played.script("tavily", failing(500))
        stale = await ask(gateway)
        assert meta(stale)["stale"]
        time.move(3599)
        assert await rows_behind(gateway, stale)


async def test_nothing_lies_behind_the_id_of_an_answer_without_results(played: Played) -> None:
    played.script("tavily", Play(500))
    async with running(played, ["tavily"]) as gateway:
        failed = await ask(gateway)
        assert await rows_behind(gateway, failed) is None


@pytest.mark.parametrize("foreign", [b"no JSON", b"[]", b"null", b"{}", b"\xff"])
async def test_what_another_program_kept_in_the_place_of_an_answer_is_no_answer(played: Played, foreign: bytes) -> None:
    async with running(played, ["tavily"]) as gateway:
        await ask(gateway)
        (name,) = gateway.store._rooms["answers"]  # type: ignore[attr-defined]
        await gateway.store.keep("answers", name, foreign, 60)
        assert used(await ask(gateway)) == "tavily"
    assert played.count() == 2
