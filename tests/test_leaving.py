"""Callers who leave: the real gateway over HTTP, in both eras and both forms of reply, and played vendors."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import anyio
import pytest

from gateway.config import Config, load
from gateway.gateway import Gateway
from tests.doors_fixtures import HANDSHAKE, MODERN, Served, call, modern, served
from tests.vendors import Play, Played, configuration, success

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.parametrize("form", ["json", "stream"]),
    pytest.mark.parametrize("era", [HANDSHAKE, MODERN]),
]


def loaded(tmp_path: Path, played: Played, **tuning: Any) -> Config:
    file = tmp_path / "config.json"
    file.write_text(json.dumps(configuration(played, [{"name": "tavily", **tuning}, "brave"])), encoding="utf-8")
    file.chmod(0o600)
    return load({"WEBSEARCH_CONFIG": str(file)})


def searching(query: str, era: str, form: str) -> tuple[dict[str, Any], dict[str, str]]:
    message = call({"query": query}, token="t" if form == "stream" else None)
    message, headers = modern(message) if era == MODERN else (message, {"MCP-Protocol-Version": era})
    return message, headers | {"Accept": "application/json, text/event-stream"}


def status(site: Served[Gateway]) -> dict[str, Any]:
    body: dict[str, Any] = site.post(call({}, tool="web_search_status")).json["result"]["structuredContent"]
    return body


def used(site: Served[Gateway]) -> int:
    count: int = next(each["used_requests"] for each in status(site)["providers"] if each["name"] == "tavily")
    return count


async def test_during_the_vendors_reply_the_next_one_is_never_asked(
    era: str, form: str, played: Played, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    played.script("tavily", Play(silent=True))
    with served(Gateway(loaded(tmp_path, played))) as site:
        opened = await anyio.to_thread.run_sync(site.open, *searching("tidal lagoon", era, form))
        await played.wait_for(1, "tavily")
        opened.close()
        await played.wait_until_left(1, "tavily")
        assert await anyio.to_thread.run_sync(used, site) == 1
    assert played.counts() == {"tavily": 1}
    assert caplog.text == ""


async def test_during_the_wait_for_a_turn_nobody_is_asked(
    era: str, form: str, played: Played, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    played.script("tavily", success("tavily"))

    def play(site: Served[Gateway]) -> None:
        assert site.post(*searching("first", era, "json")).status == 200
        opened = site.open(*searching("second", era, form))
        while status(site)["clients"][0]["searches_today"] < 2:
            pass
        opened.close()
        # its turn comes after the one of the search that was given up
        found = site.post(*searching("third", era, "json")).json["result"]["structuredContent"]
        assert found["meta"]["provider_used"] == "tavily"
        assert used(site) == 2

    with served(Gateway(loaded(tmp_path, played, min_interval_ms=700))) as site:
        await anyio.to_thread.run_sync(play, site)
    assert played.counts() == {"tavily": 2}
    assert caplog.text == ""
