"""Named clients: who used what, daily limits to the letter, and the log's answer to "who used the budget?"."""

from __future__ import annotations

import asyncio
import logging
import time as real
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from gateway.gateway import Answer, Gateway
from gateway.status import STATUS_SCHEMA
from tests.rooms import HandTime, came_to, configured, running, sqlite, told, used
from tests.vendors import Played

pytestmark = pytest.mark.anyio

TOKENS = [
    {"name": "cursor", "token": "token-of-sixteen-1", "daily_limit": 2},
    {"name": "dify", "token": "token-of-sixteen-2"},
]
SERVER = {"tokens": TOKENS}


@pytest.fixture
def time(anyio_backend: str) -> HandTime:
    return HandTime()


@pytest.fixture
def half_past_five(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """This machine's clock stands in India: at noon in Greenwich it is 17:30 there."""
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "Asia/Kolkata")
        real.tzset()
        yield
    real.tzset()


async def search(gateway: Gateway, client: str, query: str = "moss") -> Answer:
    return await gateway.search({"query": query}, client=client)


async def clients(gateway: Gateway) -> list[dict[str, Any]]:
    status = await gateway.status()
    jsonschema.validate(status, STATUS_SCHEMA)
    lines: list[dict[str, Any]] = status["clients"]
    return lines


async def test_searches_are_counted_per_client_and_day_cached_ones_too(
    played: Played, time: HandTime, half_past_five: None
) -> None:
    async with running(played, ["tavily"], server=SERVER, time=time) as gateway:
        for client in ("cursor", "cursor", "cursor", "dify"):
            await search(gateway, client)
        cursor = {"name": "cursor", "daily_limit": 2, "limit_ends": "2026-12-01T00:00+05:30"}
        assert await clients(gateway) == [cursor | {"searches_today": 2}, {"name": "dify", "searches_today": 1}]
        time.move(6.5 * 3600)
        assert await clients(gateway) == [
            cursor | {"searches_today": 0, "limit_ends": "2026-12-02T00:00+05:30"},
            {"name": "dify", "searches_today": 0},
        ]
    assert played.count("tavily") == 1


async def test_a_client_over_its_limit_is_told_when_it_ends_and_searches_again_then(
    played: Played, time: HandTime, half_past_five: None
) -> None:
    async with running(played, ["tavily"], server=SERVER, time=time) as gateway:
        allowed = [await search(gateway, "cursor", query) for query in ("moss", "fern")]
        refused = await search(gateway, "cursor", "lichen")
        assert [(each.is_error, each.over_daily_limit) for each in allowed] == [(False, False)] * 2
        assert (came_to(refused), refused.over_daily_limit) == (("failed", True, 6 * 3600 + 1800), True)
        assert not refused.argument_error
        assert told(refused) == ["gateway skipped:quota_local cursor 2/2"]
        assert refused.body["meta"]["note"] == (
            "Search failed: the client cursor has used its 2 searches of today; "
            "it may search again from 2026-12-01T00:00+05:30, in 23400 s."
        )
        assert used(await search(gateway, "dify", "lichen")) == "tavily"
        time.move(refused.body["meta"]["retry_after_s"])
        assert used(await search(gateway, "cursor", "clover")) == "tavily"
    assert played.count("tavily") == 4


async def test_a_client_without_any_searches_is_not_promised_a_better_day(played: Played) -> None:
    tokens = [{"name": "cursor", "token": "token-of-sixteen-1", "daily_limit": 0}]
    async with running(played, ["tavily"], server={"tokens": tokens}) as gateway:
        answer = await search(gateway, "cursor")
    assert (came_to(answer), answer.over_daily_limit) == (("failed", True, None), True)
    assert "its daily_limit is 0" in answer.body["meta"]["note"]
    assert played.count() == 0


async def test_arguments_at_fault_are_no_search_and_no_daily_limit(played: Played) -> None:
    async with running(played, ["tavily"], server=SERVER) as gateway:
        for _ in range(3):
            mistaken = await search(gateway, "cursor", " ")
            assert (mistaken.argument_error, mistaken.over_daily_limit) == (True, False)
        assert (await clients(gateway))[0]["searches_today"] == 0


async def test_a_daily_limit_is_exact_over_gateways_that_share_a_state(played: Played, tmp_path: Path) -> None:
    server = {"tokens": [TOKENS[0] | {"daily_limit": 7}]}
    async with AsyncExitStack() as stack:
        gateways = [
            await stack.enter_async_context(running(played, ["tavily"], server=server, state=sqlite(tmp_path)))
            for _ in range(3)
        ]
        answers = await asyncio.gather(
            *(search(gateway, "cursor", f"moss {number}") for number in range(5) for gateway in gateways)
        )
        assert sum(not each.over_daily_limit for each in answers) == 7
        assert [(await clients(each))[0]["searches_today"] for each in gateways] == [7] * 3
    assert played.count("tavily") <= 7


async def test_a_new_limit_holds_from_the_next_search_and_keeps_the_count(played: Played) -> None:
    async with running(played, ["tavily"], server=SERVER) as gateway:
        for _ in range(2):
            await search(gateway, "cursor")
        assert (await search(gateway, "cursor")).over_daily_limit
        raised = {"tokens": [TOKENS[0] | {"daily_limit": 3}]}
        await gateway.reload(configured(played, ["tavily"], server=raised))
        assert not (await search(gateway, "cursor")).over_daily_limit
        assert (await search(gateway, "cursor")).over_daily_limit


async def test_whoever_came_without_a_token_is_told_too(played: Played) -> None:
    # the command line and stdio need none
    async with running(played, ["tavily"], server={"tokens": TOKENS[:1]}) as gateway:
        await search(gateway, "command line")
        await search(gateway, "default")
        counts = {each["name"]: each["searches_today"] for each in await clients(gateway)}
    assert counts == {"cursor": 0, "command line": 1, "default": 1}


async def test_the_log_tells_who_spent_and_never_what_was_asked(
    played: Played, time: HandTime, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "gateway.clients")
    async with running(played, ["tavily"], server=SERVER, time=time) as gateway:
        for client in ("cursor", "dify", "cursor", "cursor", "command line"):
            await search(gateway, client)
    lines = [(record.levelname, record.getMessage()) for record in caplog.records if record.name == "gateway.clients"]
    assert lines == [
        ("INFO", "search by cursor: found, tavily, 0 ms"),
        ("DEBUG", "search by dify: found, tavily, 0 ms, cached"),
        ("DEBUG", "search by cursor: found, tavily, 0 ms, cached"),
        ("INFO", "search by cursor: failed, nobody, 0 ms"),
        ("DEBUG", "search by command line: found, tavily, 0 ms, cached"),
    ]
    assert "moss" not in caplog.text
