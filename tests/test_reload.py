"""SIGHUP: a good file is in force at once, a bad one changes nothing."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from gateway import reloading
from gateway.config import Config
from gateway.logs import set_up
from tests.processes import Serving, logging_undone, serving, written
from tests.rooms import ask, failing, running, told, tuned, used
from tests.vendors import Played, configuration, success

pytestmark = pytest.mark.anyio

TOKEN = "token-of-sixteen-1"
OTHER = "token-of-sixteen-2"


def content(played: Played, *names: str, **sections: Any) -> dict[str, Any]:
    """A file whose state and port are its own business."""
    chain = [tuned(name) for name in names]
    sections = {"server": {"port": 0}} | sections
    return configuration(played, chain, state={"type": "sqlite"}, **sections)


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def shared(anyio_backend: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[tuple[Serving, Path]]:
    """A server, and its file: a test that writes its own there and reloads has it to itself, but for the memory."""
    home = tmp_path_factory.mktemp("shared")
    file = written(home / "config.json", {"server": {"port": 0}, "state": {"type": "sqlite"}})
    async with serving(home, WEBSEARCH_CONFIG=str(file)) as it:
        yield it, file


async def test_a_good_file_is_in_force_and_rests_counts_and_answers_stay(played: Played, tmp_path: Path) -> None:
    file = written(tmp_path / "config.json", content(played, "bocha", "tavily"))
    played.script("bocha", failing(429))
    async with serving(tmp_path, WEBSEARCH_CONFIG=str(file)) as it:
        first = await it.search()
        assert first["meta"]["provider_used"] == "tavily"
        written(file, content(played, "exa", "bocha", "brave", server={"port": 1, "host": "0.0.0.0"}))
        assert await it.reload() == "reload: the new configuration is in force; the chain is exa, bocha, brave"
        second = await it.search("fern")
        assert (second["meta"]["provider_used"], second["meta"]["fallback_chain"]) == ("exa", [])
        status = await it.status()
        lines = {each["name"]: each for each in status["providers"]}
        assert lines["bocha"]["state"].startswith("blocked(rate_limited, ")
        assert (lines["bocha"]["used_requests"], lines["tavily"]["in_chain"]) == (1, False)
        # the answer that was kept is still the answer
        again = await it.search()
        assert (again["meta"]["cache_hit"], again["meta"]["provider_used"]) == (True, "tavily")
        assert status["clients"] == [{"name": "default", "searches_today": 2}]
        assert (await it.status())["cache"] == {"entries": 2, "hits": 1, "misses": 2}
    assert played.counts() == {"bocha": 1, "tavily": 1, "exa": 1}


BAD: list[tuple[Any, str]] = [
    ("{", "is not JSON"),
    (None, "cannot be read"),
    ({"providers": [{"name": "tavilly"}]}, "did you mean 'tavily'"),
    ({"providers": [{"name": "brave", "quota": {"limt": 1}}]}, "did you mean 'limit'"),
    ({"server": {"tokens": [{"name": "a", "token": ""}]}}, "a token is there but empty"),
    ({"state": {"type": "mysql"}}, "state.type"),
]


async def test_a_bad_file_leaves_the_old_in_force_and_the_log_says_why(
    shared: tuple[Serving, Path], played: Played
) -> None:
    it, file = shared
    written(file, content(played, "tavily"))
    await it.reload()
    for n, (bad, complaint) in enumerate(BAD):
        if bad is None:
            file.unlink()
        else:
            file.write_text(bad if isinstance(bad, str) else json.dumps(bad))
        logged = await it.reload()
        assert logged.startswith("reload: the old configuration stays in force: ")
        assert complaint in logged
        assert (await it.search(f"moss {n}"))["meta"]["provider_used"] == "tavily"
        assert (await it.status())["config"]["error"] is None
    written(file, content(played, "brave"))
    assert await it.reload() == "reload: the new configuration is in force; the chain is brave"
    assert (await it.search("fern"))["meta"]["provider_used"] == "brave"


async def test_a_faulty_start_is_mended_by_a_reload_and_several_at_once_do_no_harm(
    played: Played, tmp_path: Path
) -> None:
    faulty = content(played, "tavily") | {"cache": {"ttl": 1}}
    file = written(tmp_path / "config.json", faulty)
    async with serving(tmp_path, WEBSEARCH_CONFIG=str(file)) as it:
        answer = await it.search()
        assert answer["meta"]["fallback_chain"][0]["outcome"] == "config_error"
        assert "ttl_s" in answer["meta"]["note"]
        assert (await it.client.get(f"{it.url}/readyz")).status_code == 503
        written(file, content(played, "tavily"))
        await asyncio.gather(it.reload(), it.reload(), it.reload())
        assert (await it.search())["meta"]["provider_used"] == "tavily"
        assert (await it.client.get(f"{it.url}/readyz")).status_code == 200
        assert await it.end() == 0
    assert b"Traceback" not in it.stderr
    assert b"Error" not in it.stderr


async def test_a_search_under_way_ends_on_the_old_configuration(shared: tuple[Serving, Path], played: Played) -> None:
    it, file = shared
    go = asyncio.Event()
    played.script("tavily", success("tavily", until=go))
    written(file, content(played, "tavily", "exa"))
    await it.reload()
    slow = asyncio.create_task(it.search("under way"))
    await played.wait_for(1, "tavily")
    written(file, content(played, "brave"))
    await it.reload()
    assert (await it.search("after it"))["meta"]["provider_used"] == "brave"
    go.set()
    assert (await slow)["meta"]["provider_used"] == "tavily"
    assert "Traceback" not in it.stderr.decode()


async def test_new_tokens_let_in_old_ones_no_longer_and_without_any_the_network_stays_out(
    played: Played, tmp_path: Path
) -> None:
    def server(token: str) -> dict[str, Any]:
        return {"port": 0, "tokens": [{"name": "cursor", "token": token}]}

    file = written(tmp_path / "config.json", content(played, "tavily", server=server(TOKEN)))
    bearer = {"Authorization": f"Bearer {TOKEN}"}
    async with serving(tmp_path, "--host", "0.0.0.0", headers=bearer, WEBSEARCH_CONFIG=str(file)) as it:
        assert (await it.post(query="moss")).status_code == 200
        written(file, content(played, "tavily", server=server(OTHER)))
        await it.reload()
        assert (await it.post(query="moss")).status_code == 401
        it.client.headers["Authorization"] = f"Bearer {OTHER}"
        assert (await it.post(query="moss")).status_code == 200
        written(file, content(played, "tavily"))
        logged = await it.reload()
        assert logged.startswith("reload: the old configuration stays in force: ")
        assert "WEBSEARCH_TOKEN" in logged
        del it.client.headers["Authorization"]
        assert (await it.post(query="moss")).status_code == 401


async def test_warnings_of_the_new_file_are_told_and_secrets_of_the_old_stay_hidden(
    shared: tuple[Serving, Path], played: Played
) -> None:
    it, file = shared
    changed = content(played, "tavily")
    written(file, changed)
    await it.reload()
    changed["credentials"]["TAVILY_API_KEY"] = ' "tvly-quite-another" '
    written(file, changed)
    await it.reload()
    await it.until_logged("WARNING .*quotes, spaces or line ends")
    # a search under way may still hold the old key; a header stands in for whatever it may come to
    await it.client.get(f"{it.url}/mcp", headers={"Host": "tvly-played-tavily"})
    await it.until_logged("421: Host")
    assert b"tvly-played" not in it.stderr


async def test_a_reload_inside_one_process_closes_what_nobody_uses_any_more(played: Played) -> None:
    go = asyncio.Event()
    played.script("tavily", success("tavily", until=go))
    async with running(played, ["tavily"]) as gateway:
        old = gateway.current
        slow = asyncio.create_task(ask(gateway))
        await played.wait_for(1)
        await gateway.reload(gateway.config)
        assert old.replaced
        assert old.users > 0
        go.set()
        assert used(await slow) == "tavily"
        assert old.users == 0
        assert told(await ask(gateway, "fern")) == []


def test_a_folder_that_is_relative_to_one_that_is_gone_is_a_fault_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    monkeypatch.setenv("WEBSEARCH_STATE", "./state")
    here.rmdir()
    assert reloading.read_again(Config(), {}) is None
    (line,) = [each.getMessage() for each in caplog.records]
    assert line.startswith("reload: the old configuration stays in force: WEBSEARCH_STATE: must be a whole path")


@pytest.fixture
def logging_kept() -> Iterator[logging.Logger]:
    """The gateway's logger; all that a test does to logging is undone."""
    with logging_undone():
        yield logging.getLogger("gateway")


async def test_a_reload_that_breaks_leaves_the_old_log_and_hides_the_new_keys_all_the_same(
    played: Played,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    logging_kept: logging.Logger,
) -> None:
    changed = content(played, "tavily")
    changed["credentials"]["TAVILY_API_KEY"] = "tvly-quite-another"
    monkeypatch.setenv("WEBSEARCH_CONFIG", str(written(tmp_path / "config.json", changed)))
    monkeypatch.setenv("WEBSEARCH_LOG", "debug")

    async def broken(config: Config) -> None:
        logging_kept.error("with %s", *next(each for each in config.providers if each.name == "tavily").keys)
        raise RuntimeError("no")

    async with running(played, ["tavily"]) as gateway:
        set_up(gateway.config)
        level = logging_kept.level
        monkeypatch.setattr(gateway, "reload", broken)
        with pytest.raises(RuntimeError):
            await reloading.reload(gateway, {})
    assert logging_kept.level == level != logging.DEBUG
    assert capsys.readouterr().err.endswith(" ERROR gateway: with ***\n")
