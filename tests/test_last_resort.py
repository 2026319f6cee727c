"""Nobody has a key and DuckDuckGo is blocked: who is asked then, what counts as an answer, and what the chain says."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from gateway.config import load
from gateway.gateway import Gateway
from gateway.settings import StateSettings
from tests.rooms import EMPTY, HandTime, ask, came_to, rest, running, told, used
from tests.vendors import Play, Played, recording, success

pytestmark = pytest.mark.anyio

CHINESE = "泥炭 沼泽"


@asynccontextmanager
async def without_a_key(played: Played) -> AsyncIterator[Gateway]:
    """The built-in chain of somebody who configured nothing, pointed at the played vendors."""
    built_in = load({"TZ": "UTC"})
    providers = tuple(replace(each, base_url=played.address(each.name), interval_ms=0) for each in built_in.providers)
    config = replace(built_in, providers=providers, state=StateSettings("memory"))
    async with Gateway(config, HandTime().clock) as gateway:
        yield gateway


def feed(*rows: tuple[str, str], query: str = "peat bogs") -> Play:
    """Bing's feed with these titles and addresses."""
    items = "".join(f"<item><title>{title}</title><link>{url}</link></item>" for title, url in rows)
    head = f"<title>Bing: {query}</title><link>http://www.bing.com:80/search?q={query}</link>"
    body = f'<?xml version="1.0" encoding="utf-8" ?><rss version="2.0"><channel>{head}{items}</channel></rss>'
    return Play(200, {"content-type": "text/xml; charset=utf-8"}, body.encode())


RELATED = ("Peat bogs of the north", "https://bogs.example/peat")
WEAK = ("Weather today", "https://weather.example/news/bogs")
UNRELATED = ("Weather today", "https://weather.example/news")
CHALLENGE = recording("duckduckgo", "anomaly_202")


async def test_a_last_resort_answers_and_the_chain_shows_why(played: Played) -> None:
    played.script("duckduckgo", CHALLENGE)
    async with without_a_key(played) as gateway:
        answer = await ask(gateway, "peat bogs")
        assert (used(answer), came_to(answer)) == ("seznam", ("found", False, None))
        assert told(answer) == ["duckduckgo rate_limited http_202 challenge", "so360 skipped:language"]
        assert await rest(gateway, "duckduckgo") == ("rate_limited", 900)


async def test_a_chinese_question_goes_to_the_chinese_engine(played: Played) -> None:
    played.script("duckduckgo", CHALLENGE)
    async with without_a_key(played) as gateway:
        answer = await ask(gateway, CHINESE)
    assert (used(answer), told(answer)) == ("so360", ["duckduckgo rate_limited http_202 challenge"])


async def test_bing_is_the_very_last(played: Played) -> None:
    played.script("duckduckgo", CHALLENGE)
    played.script("seznam", Play(403))
    played.script("bing_rss", feed(RELATED))
    async with without_a_key(played) as gateway:
        answer = await ask(gateway, "peat bogs")
    assert (used(answer), answer.body["meta"]["relevance"]) == ("bing_rss", "high")
    assert [line.partition(" ")[0] for line in told(answer)] == ["duckduckgo", "so360", "seznam"]


async def test_pages_about_something_else_are_no_results_and_an_honest_nothing(played: Played) -> None:
    played.script("bing_rss", feed(UNRELATED))
    async with running(played, ["bing_rss"]) as gateway:
        answer = await ask(gateway, "peat bogs")
    assert (came_to(answer), answer.body["results"]) == (("empty", False, None), [])
    (step,) = answer.body["meta"]["fallback_chain"]
    assert (step["outcome"], "unrelated" in step["detail"]) == ("no_results", True)


async def test_the_gate_goes_by_what_was_asked_and_not_by_what_the_engine_repeats(played: Played) -> None:
    played.script("bing_rss", feed(UNRELATED, query="weather"))
    async with running(played, ["bing_rss"]) as gateway:
        answer = await ask(gateway, "peat bogs")
    assert told(answer) == ["bing_rss no_results unrelated"]


async def test_weak_results_are_passed_over_for_better_ones(played: Played) -> None:
    played.script("bing_rss", feed(WEAK, WEAK))
    async with running(played, ["bing_rss", "brave"]) as gateway:
        answer = await ask(gateway, "peat bogs map history")
    assert used(answer) == "brave"
    (step,) = answer.body["meta"]["fallback_chain"]
    assert (step["provider"], step["outcome"], "elapsedMs" in step) == ("bing_rss", "low_relevance", True)
    assert "relevance" not in answer.body["meta"], "nobody judged those of brave"


@pytest.mark.parametrize("after", [EMPTY["brave"], Play(500)], ids=["nothing", "a failure"])
async def test_weak_results_come_with_a_warning_when_nobody_has_better_ones(played: Played, after: Play) -> None:
    played.script("bing_rss", feed(WEAK, WEAK))
    played.script("brave", after)
    async with running(played, ["bing_rss", "brave"]) as gateway:
        answer = await ask(gateway, "peat bogs map history")
        meta = answer.body["meta"]
        assert (used(answer), meta["verdict"], meta["relevance"]) == ("bing_rss", "found", "low")
        assert meta["note"].startswith("Careful: the results of bing_rss are hardly about the query")
        assert [step["provider"] for step in meta["fallback_chain"]] == ["brave"], "the winner is not in the chain"
        assert [row["url"] for row in answer.body["results"]] == [WEAK[1]]


async def test_asked_alone_weak_results_are_shown_too(played: Played) -> None:
    played.script("bing_rss", feed(WEAK))
    async with running(played, ["brave", "bing_rss"], debug=True) as gateway:
        answer = await ask(gateway, "peat bogs map history", provider="bing_rss")
    assert (used(answer), answer.body["meta"]["relevance"], told(answer)) == ("bing_rss", "low", [])


async def test_an_engine_without_pages_in_the_language_does_not_stand_in_the_way_of_an_honest_nothing(
    played: Played,
) -> None:
    played.script("brave", EMPTY["brave"])
    async with running(played, ["so360", "brave"]) as gateway:
        answer = await ask(gateway, "peat bogs")
        assert (came_to(answer), played.count("so360")) == (("empty", False, None), 0)
        assert answer.body["meta"]["note"].startswith("No results: brave searched")
        assert [step["outcome"] for step in answer.body["meta"]["fallback_chain"]] == ["skipped:language", "no_results"]


async def test_nobody_but_an_engine_without_pages_in_the_language_is_a_failure_that_says_so(played: Played) -> None:
    async with running(played, ["so360"], debug=True) as gateway:
        answer = await ask(gateway, "peat bogs")
        assert came_to(answer) == ("failed", True, None)
        assert "so360 skipped:language" in answer.body["meta"]["note"]
        alone: Any = await ask(gateway, "peat bogs", provider="so360")
        assert used(alone) == "so360", "asked by name it is asked"


async def test_a_mixed_question_may_have_chinese_pages(played: Played) -> None:
    played.script("so360", success("so360", n_rows=2))
    async with running(played, ["so360"]) as gateway:
        assert used(await ask(gateway, "python 教程")) == "so360"
