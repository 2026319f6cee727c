"""The example of the contract over real HTTP: Bocha has no money, Tavily throttles, Brave answers; then both rest."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gateway.config import Config, load
from gateway.gateway import Gateway
from tests.test_hostile import VISITING
from tests.vendors import Play, Played, configuration, played_names, recording, success

pytestmark = pytest.mark.anyio


def loaded(tmp_path: Path, content: dict[str, Any]) -> Config:
    """What the gateway makes of a file with this content."""
    file = tmp_path / "config.json"
    file.write_text(json.dumps(content), encoding="utf-8")
    file.chmod(0o600)
    return load({"WEBSEARCH_CONFIG": str(file)})


async def test_two_fail_the_third_answers_and_the_next_search_asks_only_the_third(
    played: Played, tmp_path: Path
) -> None:
    config = loaded(tmp_path, configuration(played))
    assert (config.errors, config.warnings) == ((), ())
    played.script("bocha", recording("bocha", "money_403"))
    played.script("tavily", Play(429))
    async with Gateway(config) as gateway:
        first = await gateway.search({"query": "tidal lagoon"})
        assert played.counts() == {"bocha": 1, "tavily": 1, "brave": 1}
        meta = first.body["meta"]
        waits = [step.pop("elapsedMs") for step in meta["fallback_chain"]]
        assert all(isinstance(wait, int) and wait >= 0 for wait in waits)
        assert meta["fallback_chain"] == [
            {"provider": "bocha", "outcome": "quota_exhausted", "detail": "http_403 You do not have enough money"},
            {"provider": "tavily", "outcome": "rate_limited", "detail": "http_429"},
        ]
        assert (meta["verdict"], meta["provider_used"], meta["cache_hit"]) == ("found", "brave", False)
        assert first.is_error is False
        assert meta["elapsed_ms"] >= sum(waits)
        assert {row["provider"] for row in first.body["results"]} == {"brave"}
        assert first.body["results"][0]["title"] == "tidal lagoon: page 0"

        second = (await gateway.search({"query": "salt marsh"})).body
        assert played.counts() == {"bocha": 1, "tavily": 1, "brave": 2}
        skips = second["meta"]["fallback_chain"]
        assert [(step["provider"], step["outcome"]) for step in skips] == [
            ("bocha", "skipped:quota_exhausted"),
            ("tavily", "skipped:rate_limited"),
        ]
        assert all("elapsedMs" not in step for step in skips)
        assert second["meta"]["verdict"] == "found"


async def test_a_vendor_that_recovers_is_asked_again_after_its_rest(played: Played, tmp_path: Path) -> None:
    content = configuration(played, [{"name": "tavily", "cooldown_max_s": 0}, "bocha"], cache={"enabled": False})
    played.script("tavily", Play(429), success("tavily"))
    async with Gateway(loaded(tmp_path, content)) as gateway:
        used = [(await gateway.search({"query": "moss"})).body["meta"]["provider_used"] for _ in range(2)]
    assert used == ["bocha", "tavily"]


@pytest.mark.parametrize("name", played_names())
async def test_every_provider_can_win_a_search_of_its_own(played: Played, tmp_path: Path, name: str) -> None:
    config = loaded(tmp_path, configuration(played, [name]))
    assert (config.errors, config.warnings) == ((), ())
    async with Gateway(config) as gateway:
        body = (await gateway.search({"query": "kelp forest 海带", "max_results": 3})).body
    assert (body["meta"].get("provider_used"), body["meta"]["fallback_chain"]) == (name.removesuffix("_relay"), [])
    assert [row["url"].startswith("https://") for row in body["results"]] == [True] * 3
    assert played.counts() == {name: 2 if name in VISITING else 1}


def test_the_demo_shows_the_failover_and_ends_well() -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "tests.demo"],
        cwd=Path(__file__).parent.parent,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.count("brave    answered") == 2
    for words in ("http_403 You do not have enough money", "skipped:rate_limited", "verdict   failed", "brave 3"):
        assert words in ran.stdout
    assert max(map(len, ran.stdout.splitlines())) <= 80
