"""Every kind of answer the gateway gives, made by a real search, fits the schema that it advertises."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import jsonschema
import pytest

from gateway.answer import OUTPUT_SCHEMA
from gateway.config import Config, load
from gateway.gateway import Answer, Gateway
from tests.rooms import HandTime, ask, failing, running, tuned
from tests.test_cache import BLOCKED, EMPTY
from tests.vendors import KEYS, SILENCE, Played, json_play, success

pytestmark = pytest.mark.anyio

VALID = jsonschema.Draft202012Validator(OUTPUT_SCHEMA)

Made = tuple[Answer, str, str]
"""An answer, its verdict, and how its note begins."""


async def found(played: Played) -> Made:
    long = [{"title": "", "url": f"https://a.example/{n}", "content": "word " * 900} for n in range(12)]
    played.script("bocha", failing(429))
    played.script("tavily", json_play({"query": "moss", "results": long, "response_time": 0.1}))
    async with running(played) as gateway:
        return await ask(gateway, "moss", freshness="week", exclude_domains="b.example"), "found", "long texts"


async def written(played: Played) -> Made:
    said = "Moss is a plant without roots. " * 400
    mark = {"type": "url_citation", "url": "https://a.example/1", "title": "1", "start_index": 0, "end_index": 30}
    part = {"type": "output_text", "text": said, "annotations": [mark]}
    message = {"type": "message", "role": "assistant", "content": [part]}
    call = {"type": "web_search_call", "id": "ws", "status": "completed", "action": {"type": "search", "query": "moss"}}
    played.script("grok", json_play({"id": "r", "status": "completed", "output": [call, message]}))
    async with running(played, ["grok"]) as gateway:
        answer = await ask(gateway)
        assert 7000 < len(answer.body["answer"]) <= 8000
        assert answer.body["meta"]["truncated"] is True
        return answer, "found", "long texts"


async def cached(played: Played) -> Made:
    async with running(played) as gateway:
        await ask(gateway)
        return await ask(gateway, max_results=8), "found", ""


async def stale(played: Played) -> Made:
    time = HandTime()
    async with running(played, ["tavily"], time=time, cache={"stale_if_error_s": 60}) as gateway:
        await ask(gateway)
        time.move(3600)
        played.script("tavily", failing(500))
        return await ask(gateway), "found", "Search failed now"


async def empty(played: Played) -> Made:
    played.script("tavily", EMPTY["tavily"])
    async with running(played, ["tavily"]) as gateway:
        return await ask(gateway), "empty", "No results"


async def again_empty(played: Played) -> Made:
    played.script("tavily", EMPTY["tavily"])
    async with running(played, ["tavily"]) as gateway:
        await ask(gateway)
        return await ask(gateway), "empty", "No results"


async def incomplete(played: Played) -> Made:
    played.script("searxng", BLOCKED)
    played.script("tavily", EMPTY["tavily"])
    async with running(played, ["searxng", "tavily"]) as gateway:
        answer = await ask(gateway)
        assert 1 <= answer.body["meta"]["retry_after_s"] <= 60
        return answer, "incomplete", "Search incomplete"


async def failed(played: Played) -> Made:
    played.script("tavily", failing(500), failing(500))
    async with running(played, [tuned("tavily")], keys={"TAVILY_API_KEY": "tvly-one-1111,tvly-two-2222"}) as gateway:
        return await ask(gateway), "failed", "Search failed"


async def skipped(played: Played) -> Made:
    played.script("tavily", failing(500))
    async with running(played, ["tavily"]) as gateway:
        await ask(gateway, "fern")
        return await ask(gateway), "failed", "Search failed"


async def argument_error(played: Played) -> Made:
    async with running(played, ["tavily"]) as gateway:
        answer = await ask(gateway, max_results="five")
        assert (answer.argument_error, answer.body["meta"]["fallback_chain"]) == (True, [])
        return answer, "failed", "Search failed: max_results must be a number from 1 to 20, got 'five'"


async def config_error(played: Played) -> Made:
    faulty = Config(errors=("providers[brave].quota.limt: no such setting; did you mean 'limit'?" * 9,))
    async with Gateway(faulty) as gateway:
        return await ask(gateway), "failed", "Search failed"


async def no_provider(played: Played) -> Made:
    async with running(played, []) as gateway:
        return await ask(gateway), "failed", "Search failed: no search provider is configured"


async def not_that_provider(played: Played) -> Made:
    async with running(played, ["tavily"], debug=True) as gateway:
        return await ask(gateway, provider="exa"), "failed", "Search failed: exa is not configured"


async def over_the_daily_limit(played: Played) -> Made:
    tokens = [{"name": "cursor", "token": "token-of-sixteen", "daily_limit": 1}]
    async with running(played, ["tavily"], server={"tokens": tokens}) as gateway:
        for _ in range(2):
            answer = await gateway.search({"query": "moss"}, client="cursor")
        assert 1 <= answer.body["meta"]["retry_after_s"] <= 86_400
        return answer, "failed", "Search failed: the client cursor"


async def cut_off(played: Played) -> Made:
    played.script("tavily", SILENCE)
    async with running(played, ["tavily", "brave"], defaults={"total_budget_ms": 100}) as gateway:
        return await ask(gateway), "failed", "Search failed"


async def cut_off_while_joining(played: Played) -> Made:
    # hand time stands still, so that the search that two callers share never ends by itself; their patience does
    names = ["bocha", "tavily", "brave", "exa", "searxng"]
    for name in names:
        played.script(name, SILENCE)
    async with running(played, names, time=HandTime(), defaults={"total_budget_ms": 200}) as gateway:
        answer, other = await asyncio.gather(ask(gateway), ask(gateway))
        assert other.body["meta"]["search_id"] != answer.body["meta"]["search_id"]
        chain = answer.body["meta"]["fallback_chain"]
        assert [step["provider"] for step in chain] == names
        assert chain[-1] == {"provider": "searxng", "outcome": "skipped:budget_exhausted"}
        return answer, "failed", "Search failed"


async def internal_error(played: Played) -> Made:
    async with running(played, ["tavily"]) as gateway:

        async def broken(*_: Any) -> int:
            raise TypeError("a bug that names tvly-played-tavily")

        gateway.store.counted = broken  # type: ignore[assignment]
        answer = await ask(gateway)
        assert "tvly" not in answer.text
        return answer, "failed", "Search failed: the gateway itself had a fault"


async def hostile(played: Played) -> Made:
    rows = [
        {"title": "\ud800<b>x</b>" * 200, "url": "https://a.example/\u0130", "content": "\ud800\u202e&amp;\x00"},
        {"title": 7, "url": "https://a.example/" + "x" * 3000},
        {"title": None, "url": "HTTPS://A.EXAMPLE/2", "published_date": "yesterday"},
        {"title": "t", "url": "javascript:alert(1)"},
        None,
    ]
    played.script("tavily", json_play({"query": "moss", "results": rows, "response_time": 0.1}))
    async with running(played, ["tavily"]) as gateway:
        answer = await ask(gateway, "\ud800moss \x00")
        assert len(answer.body["results"]) == 2
        assert all("publishedDate" not in row for row in answer.body["results"])
        return answer, "found", "1 result dropped"


KINDS: list[Callable[[Played], Awaitable[Made]]] = [
    found,
    written,
    cached,
    stale,
    empty,
    again_empty,
    incomplete,
    failed,
    skipped,
    argument_error,
    config_error,
    no_provider,
    not_that_provider,
    over_the_daily_limit,
    cut_off,
    cut_off_while_joining,
    internal_error,
    hostile,
]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
async def test_this_kind_of_answer_fits_the_schema_and_the_table_of_verdicts(
    played: Played, kind: Callable[[Played], Awaitable[Made]], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.CRITICAL):
        answer, verdict, note = await kind(played)
    meta = answer.body["meta"]
    VALID.validate(answer.body)
    assert (meta["verdict"], answer.is_error) == (verdict, verdict in ("incomplete", "failed"))
    assert meta.get("note", "").startswith(note), meta.get("note")
    assert bool(answer.body["results"]) == (verdict == "found")
    assert ("provider_used" in meta) == (verdict == "found")
    # the text is the same object, compact, with every sign as itself
    assert json.loads(answer.text.encode("utf-8")) == answer.body
    assert "\\u" not in answer.text
    assert not any(key in answer.text for keys in KEYS.values() for key in keys.values() if key)


async def test_a_played_success_of_every_vendor_fits_the_schema(played: Played) -> None:
    for name in ("bocha", "tavily", "brave", "exa", "searxng", "duckduckgo", "grok", "grok_relay"):
        played.script(name, success(name, n_rows=20))
        async with running(played, [name]) as gateway:
            answer = await ask(gateway, "moss", max_results=20)
        VALID.validate(answer.body)
        assert answer.body["meta"]["verdict"] == "found", name
        texts = [row.get("content") or row.get("snippet") or "" for row in answer.body["results"]]
        assert len(answer.body.get("answer", "")) + sum(map(len, texts)) <= 12_000


def test_the_example_of_a_faulty_configuration_is_really_faulty(tmp_path: Any) -> None:
    file = tmp_path / "config.json"
    file.write_text('{"providers": [{"name": "brave", "quota": {"limt": 1}}]}')
    config = load({"WEBSEARCH_CONFIG": str(file)})
    assert config.errors == ("providers[brave].quota.limt: no such setting; did you mean 'limit'?",)
