"""While the store is away: who is still asked, what this process still knows, and that all is well when it is back."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import jsonschema
import pytest

from gateway.status import STATUS_SCHEMA
from gateway.stores.sqlite import FILE_NAME
from tests.rooms import HandTime, ask, came_to, counted, failing, rest, running, sqlite, told, tuned, used
from tests.vendors import Played, success

pytestmark = pytest.mark.anyio

FREE = ["tavily", "searxng", "duckduckgo"]
"""One with a budget, two without."""


@pytest.fixture
def time(anyio_backend: str) -> HandTime:
    return HandTime()


@contextlib.contextmanager
def away(folder: Path) -> Iterator[None]:
    """Nobody can write the file in `folder`."""
    other = sqlite3.connect(folder / FILE_NAME, isolation_level=None)
    try:
        other.execute("BEGIN EXCLUSIVE")
        yield
        other.execute("ROLLBACK")
    finally:
        other.close()


async def test_who_throttles_while_the_store_is_away_is_left_alone(
    played: Played, time: HandTime, tmp_path: Path
) -> None:
    async with running(played, FREE, time=time, state=sqlite(tmp_path)) as gateway:
        with away(tmp_path):
            played.script("searxng", failing(429, 60))
            first = await ask(gateway, "one")
            second = await ask(gateway, "two")
            assert told(first) == ["tavily skipped:state_unavailable", "searxng rate_limited http_429"]
            assert told(second) == ["tavily skipped:state_unavailable", "searxng skipped:rate_limited 60s"]
            assert (used(first), used(second)) == ("duckduckgo", "duckduckgo")
            time.move(61)
            played.script("searxng", success("searxng"))
            assert used(await ask(gateway, "three")) == "searxng"
        assert used(await ask(gateway, "four")) == "tavily"
        assert await counted(gateway, "tavily") == 1, "nothing was sent to it while nobody could count"


async def test_a_rest_from_before_holds_while_the_store_is_away(played: Played, time: HandTime, tmp_path: Path) -> None:
    async with running(played, ["searxng", "duckduckgo"], time=time, state=sqlite(tmp_path)) as gateway:
        played.script("searxng", failing(429, 600))
        await ask(gateway, "one")
        with away(tmp_path):
            assert told(await ask(gateway, "two")) == ["searxng skipped:rate_limited 600s"]
        assert await rest(gateway, "searxng") == ("rate_limited", 600)


async def test_pace_holds_while_the_store_is_away(played: Played, time: HandTime, tmp_path: Path) -> None:
    chain = [tuned("searxng", min_interval_ms=1500)]
    async with running(played, chain, time=time, state=sqlite(tmp_path)) as gateway:
        with away(tmp_path):
            for number in range(3):
                assert used(await ask(gateway, f"moss {number}")) == "searxng"
    assert time.slept == [1.5, 1.5]


async def test_one_at_a_time_tries_who_failed_while_the_store_is_away(
    played: Played, time: HandTime, tmp_path: Path
) -> None:
    async with running(played, ["searxng", "duckduckgo"], time=time, state=sqlite(tmp_path)) as gateway:
        with away(tmp_path):
            played.script("searxng", failing(503))
            await ask(gateway, "one")
            time.move(60)
            assert told(await ask(gateway, "two")) == ["searxng server_error http_503"]
            assert told(await ask(gateway, "three")) == ["searxng skipped:server_error 120s"], "a run of failures"


async def test_the_status_tells_and_stops_telling(played: Played, time: HandTime, tmp_path: Path) -> None:
    async with running(played, FREE, time=time, state=sqlite(tmp_path)) as gateway:
        await ask(gateway, "one")
        with away(tmp_path):
            await ask(gateway, "two")
            status = await gateway.status()
            assert "locked by another process" in status["state"]["error"]
            assert status["cache"]["misses"] == 2
        await ask(gateway, "three")
        status = await gateway.status()
        assert status["state"]["error"] is None
        assert (status["cache"]["hits"], status["cache"]["misses"]) == (0, 3)


def forget(folder: Path) -> None:
    """The store loses all it knew."""
    for each in folder.iterdir():
        each.unlink()


async def test_a_store_that_comes_back_without_its_data_gets_the_count_again(
    played: Played, time: HandTime, tmp_path: Path
) -> None:
    chain = [tuned("tavily", quota={"limit": 3}), "searxng"]
    async with running(played, chain, time=time, state=sqlite(tmp_path)) as gateway:
        assert [used(await ask(gateway, f"moss {number}")) for number in range(2)] == ["tavily"] * 2
        forget(tmp_path)
        assert used(await ask(gateway, "two")) == "tavily"
        assert await counted(gateway, "tavily") == 3
        answer = await ask(gateway, "three")
    assert (used(answer), told(answer)) == ("searxng", ["tavily skipped:quota_local 3/3"])


async def test_a_budget_that_was_spent_stays_spent_when_the_store_loses_its_data_after_a_reload(
    played: Played, time: HandTime, tmp_path: Path
) -> None:
    chain = [{"name": "tavily", "quota": {"limit": 3}, "min_interval_ms": 1000}, "searxng"]
    async with running(played, chain, time=time, state=sqlite(tmp_path)) as gateway:
        for number in range(3):
            await ask(gateway, f"moss {number}")
            time.move(1)
        await gateway.reload(gateway.config)
        forget(tmp_path)
        assert told(await ask(gateway, "three")) == ["tavily skipped:quota_local 3/3"]
        line = (await gateway.status())["providers"][0]
    assert (line["state"], line["used_requests"]) == ("blocked(quota_local)", 3)
    assert time.slept == [], "nobody waits for a turn that cannot be used"
    assert played.counts() == {"tavily": 3, "searxng": 1}


async def test_who_rests_only_here_is_waited_for_all_the_same(played: Played, time: HandTime, tmp_path: Path) -> None:
    async with running(played, ["searxng"], time=time, state=sqlite(tmp_path)) as gateway:
        with away(tmp_path):
            played.script("searxng", failing(429, 90))
            assert came_to(await ask(gateway, "one")) == ("failed", True, 90)
            assert came_to(await ask(gateway, "two")) == ("failed", True, 90)


async def test_clients_are_named_while_nobody_knows_what_they_did(
    played: Played, time: HandTime, tmp_path: Path
) -> None:
    server = {"tokens": [{"name": name, "token": f"token-of-{name}-123456"} for name in ("cursor", "dify")]}
    async with running(played, FREE, time=time, state=sqlite(tmp_path), server=server) as gateway:
        forget(tmp_path)
        (tmp_path / FILE_NAME).write_bytes(b"not a database" * 1000)
        status = await gateway.status()
    jsonschema.validate(status, STATUS_SCHEMA)
    assert status["clients"] == [{"name": name, "searches_today": None} for name in ("cursor", "dify")]
