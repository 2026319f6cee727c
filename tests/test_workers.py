"""Several workers at one address: what one knows all know, and neither signals nor deaths cost anybody an answer.

To see what a certain worker does, the others are stopped (SIGSTOP): then every new connection is his.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gateway.config import Config
from gateway.doors import workers
from gateway.doors.listening import listen
from gateway.doors.workers import Workers, delay_s
from gateway.gateway import Gateway
from gateway.servers import begin_shared
from gateway.settings import ServerSettings, StateSettings
from gateway.stores.sqlite import FILE_NAME
from gateway.tally import Run
from tests import worker_tasks
from tests.doors_fixtures import HANDSHAKES, FakeGateway, Served, call
from tests.processes import ROOT, Serving, command, environment, logging_undone, serving, written
from tests.redis_server import prefix, shared_url
from tests.rooms import ask, failing, running, sqlite, told, tuned, used
from tests.vendors import Played, configuration, success

pytestmark = pytest.mark.anyio

CURSOR = {"Authorization": "Bearer token-of-cursor-123"}
SMALL = {"Authorization": "Bearer token-of-small-4567"}
TOKENS = [
    {"name": "cursor", "token": "token-of-cursor-123"},
    {"name": "small", "token": "token-of-small-4567", "daily_limit": 5},
]
EVERY = {"Connection": "close"}
"""A connection for every call, so that each may come to another worker."""


def content(played: Played, *names: str, **sections: Any) -> dict[str, Any]:
    sections = {"server": {"port": 0}, "state": {"type": "sqlite"}} | sections
    return configuration(played, [tuned(name) for name in names], **sections)


@contextmanager
def stopped(*processes: int) -> Iterator[None]:
    """These do nothing at all until the block ends."""
    for each in processes:
        os.kill(each, signal.SIGSTOP)
    try:
        yield
    finally:
        for each in processes:
            with suppress(ProcessLookupError):
                os.kill(each, signal.SIGCONT)


class Team:
    """A server with workers, all of them ready."""

    def __init__(self, it: Serving, processes: dict[int, int]) -> None:
        self.it = it
        self.processes = processes

    @contextmanager
    def only(self, number: int) -> Iterator[Serving]:
        """Every call of the block comes to this worker."""
        with stopped(*(each for other, each in self.processes.items() if other != number)):
            yield self.it


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def vendors(anyio_backend: str) -> AsyncIterator[Played]:
    async with Played() as played:
        yield played


@pytest.fixture(scope="module")
async def team(vendors: Played, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Team]:
    """Three workers who stay for all tests; whoever uses them has queries of his own."""
    home = tmp_path_factory.mktemp("team")
    server = {"port": 0, "tokens": TOKENS, "workers": 3}
    file = written(home / "config.json", content(vendors, "bocha", "tavily", server=server))
    environ = {"WEBSEARCH_CONFIG": str(file), "WEBSEARCH_LOG": "debug"}
    async with serving(home, headers=EVERY | CURSOR, **environ) as it:
        yield Team(it, await it.until_workers(1, 2, 3))
        assert await it.end(signal.SIGINT) == 0
        assert b"Traceback" not in it.stderr


# ---------------------------------------------------------------------------------------------------------------------
# one memory


async def test_every_worker_answers_its_log_says_which_and_its_answer_does_not(team: Team) -> None:
    for number in team.processes:
        with team.only(number) as it:
            before = len(it.stderr)
            response = await it.post(query=f"who is {number}")
            await it.until_logged(rf" DEBUG worker {number} gateway\.chain: \w+ #1: ok", after=before)
            assert response.status_code == 200
            assert set(response.headers) == {"date", "content-type", "content-length", "connection"}
            assert {f"worker {each}".encode() for each in team.processes if each != number}.isdisjoint(
                it.stderr[before:].split(b" gateway")
            )


async def test_one_workers_rest_is_every_workers_at_the_next_search(team: Team, vendors: Played) -> None:
    before = vendors.count("bocha")
    vendors.script("bocha", failing(429), success("bocha"))
    with team.only(1) as it:
        first = await it.search("whose rest")
    assert [step["outcome"] for step in first["meta"]["fallback_chain"]] == ["rate_limited"]
    for number in (2, 3):
        with team.only(number) as it:
            then = await it.search(f"whose rest {number}")
        assert [step["outcome"] for step in then["meta"]["fallback_chain"]] == ["skipped:rate_limited"]
    crowd = await asyncio.gather(*(team.it.search(f"whose rest now {n}") for n in range(12)))
    assert {each["meta"]["provider_used"] for each in crowd} == {"tavily"}
    assert vendors.count("bocha") == before + 1


async def test_an_answer_that_one_worker_kept_serves_all(team: Team, vendors: Played) -> None:
    with team.only(1) as it:
        asked = await it.search("kept by one")
    before = vendors.count()
    for number in (2, 3):
        with team.only(number) as it:
            again = await it.search("kept by one")
        assert (asked["meta"]["cache_hit"], again["meta"]["cache_hit"]) == (False, True)
        assert again["results"] == asked["results"]
    assert vendors.count() == before


async def test_a_clients_daily_limit_holds_over_all_workers(team: Team) -> None:
    async def search(number: int) -> dict[str, Any]:
        message = call({"query": f"too many {number}"})
        response = await team.it.client.post(f"{team.it.url}/mcp", json=message, headers=SMALL)
        result: dict[str, Any] = response.json()["result"]
        return result

    results = await asyncio.gather(*(search(number) for number in range(12)))
    notes = [each["structuredContent"]["meta"].get("note", "") for each in results if each["isError"]]
    assert len(notes) == 7
    assert all("the client small has used its 5 searches of today" in note for note in notes)


async def test_clients_that_shake_hands_with_one_worker_may_call_another(team: Team) -> None:
    async def client(number: int) -> None:
        era = HANDSHAKES[number % len(HANDSHAKES)]
        info = {"protocolVersion": era, "capabilities": {}, "clientInfo": {"name": "test", "version": "0"}}
        begun = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": info}
        greeted = await team.it.client.post(f"{team.it.url}/mcp", json=begun)
        assert greeted.json()["result"]["protocolVersion"] == era
        headers = {"MCP-Protocol-Version": era, "Mcp-Session-Id": f"somebody-elses-{number}"}
        message = call({"query": f"shaken hands {number}"}, id=number)
        answered = await team.it.client.post(f"{team.it.url}/mcp", json=message, headers=headers)
        result = answered.json()
        assert (result["id"], result["result"]["isError"]) == (number, False)

    await asyncio.gather(*(client(number) for number in range(20)))


# ---------------------------------------------------------------------------------------------------------------------
# deaths


async def test_a_killed_worker_is_replaced_without_clearing_anything_or_losing_who_waits(
    played: Played, tmp_path: Path
) -> None:
    played.script("bocha", failing(401))
    file = written(tmp_path / "config.json", content(played, "bocha", "tavily"))
    async with serving(tmp_path, "--workers", "2", headers=EVERY, WEBSEARCH_CONFIG=str(file)) as it:
        team = Team(it, await it.until_workers(1, 2))
        assert (await it.search())["meta"]["fallback_chain"][0]["outcome"] == "auth_failure"
        before = len(it.stderr)
        with stopped(team.processes[2]):
            with stopped(team.processes[1]):
                site = Served(int(it.url.rpartition(":")[2]), FakeGateway())
                waiting = [site.open(call({"query": f"fern {n}"}), EVERY) for n in range(10)]
                os.kill(team.processes[1], signal.SIGKILL)
            await it.until_logged("worker 1 was ended by SIGKILL; it is replaced", after=before)
        replies = await asyncio.gather(*(asyncio.to_thread(whole, each) for each in waiting))
        assert [reply.split(b" ", 2)[1] for reply in replies] == [b"200"] * 10
        team.processes |= await it.until_workers(1, after=before)
        with team.only(1):
            assert (await it.search("moss again"))["meta"]["fallback_chain"] == [
                {"provider": "bocha", "outcome": "skipped:auth_failure", "detail": "until_restart"}
            ]
        assert await it.end(signal.SIGINT) == 0
    assert played.count("bocha") == 1


def whole(connection: socket.socket) -> bytes:
    """All that comes until the other side closes."""
    with closing(connection):
        return b"".join(iter(lambda: connection.recv(65536), b""))


async def test_when_the_parent_is_killed_its_workers_end_and_the_address_is_free(
    played: Played, tmp_path: Path
) -> None:
    go = asyncio.Event()
    played.script("tavily", success("tavily", until=go))
    file = written(tmp_path / "config.json", content(played, "tavily"))
    async with serving(tmp_path, "--workers", "2", WEBSEARCH_CONFIG=str(file)) as it:
        await it.until_workers(1, 2)
        slow = asyncio.create_task(it.search())
        await played.wait_for(1)
        it.process.kill()
        for number in (1, 2):
            await it.until_logged(f"worker {number} gateway.doors.worker: the parent is gone")
        go.set()
        assert (await slow)["meta"]["provider_used"] == "tavily"
        # its log is closed once the last of them is gone
        assert await it.end() == -signal.SIGKILL
        (free,) = listen("127.0.0.1", int(it.url.rpartition(":")[2]))
        free.close()
    assert b"Traceback" not in it.stderr


# ---------------------------------------------------------------------------------------------------------------------
# signals


async def test_sigterm_lets_every_worker_finish_sends_new_calls_away_and_exits_with_0(
    played: Played, tmp_path: Path
) -> None:
    go = asyncio.Event()
    played.script("tavily", success("tavily", until=go))
    file = written(tmp_path / "config.json", content(played, "tavily"))
    async with serving(tmp_path, "--workers", "2", headers=EVERY, WEBSEARCH_CONFIG=str(file)) as it:
        team = Team(it, await it.until_workers(1, 2))
        slow = []
        for number in team.processes:
            with team.only(number):
                slow.append(asyncio.create_task(it.search(f"slow {number}")))
                await played.wait_for(number)
        it.process.send_signal(signal.SIGTERM)
        for number in team.processes:
            await it.until_logged(f"worker {number} gateway.doors.serving: stopping")
        ready, refused = await asyncio.gather(it.client.get(f"{it.url}/readyz"), it.post())
        assert (ready.status_code, ready.json()["reasons"]) == (503, ["shutting down"])
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "2")
        go.set()
        assert {(await each)["meta"]["provider_used"] for each in slow} == {"tavily"}
        assert await it.end() == 0
    assert b"Traceback" not in it.stderr
    assert it.stderr.count(b"listening on") == 1


async def test_sighup_puts_a_good_file_in_force_in_every_worker_and_a_bad_one_in_none(
    played: Played, tmp_path: Path
) -> None:
    file = written(tmp_path / "config.json", content(played, "tavily", state=sqlite(tmp_path)))
    environ = {"WEBSEARCH_CONFIG": str(file), "WEBSEARCH_STATE": ""}
    async with serving(tmp_path, "--workers", "2", headers=EVERY, **environ) as it:
        team = Team(it, await it.until_workers(1, 2))

        async def who_answered(query: str) -> list[str]:
            found = []
            for number in team.processes:
                with team.only(number):
                    found.append((await it.search(f"{query} {number}"))["meta"]["provider_used"])
            return found

        state = {"type": "redis", "url": "redis://:hidden-word@127.0.0.1/0"}
        server = {"port": 1, "host": "0.0.0.0", "workers": 3}
        written(file, content(played, "brave", state=state, server=server))
        assert await it.reload() == "reload: the new configuration is in force; the chain is brave"
        for place in ("server.host", "server.port", "state.type", "state.url"):
            await it.until_logged(f"reload: {place}: is not what it was at the start; only a restart can change it")
        assert await who_answered("good") == ["brave", "brave"]
        written(file, {"providers": [{"name": "tavilly"}]})
        logged = await it.reload()
        assert logged.startswith("reload: the old configuration stays in force: ")
        assert "did you mean 'tavily'" in logged
        assert await who_answered("bad") == ["brave", "brave"]
        # a manager of services may signal one worker: that one is missed, and no hang-up is lost on who takes its place
        written(file, content(played, "exa"))
        before = len(it.stderr)
        os.kill(team.processes[1], signal.SIGTERM)
        await it.until_logged("worker 1 ended with code 0; it is replaced at once", after=before)
        await asyncio.gather(it.reload(), it.reload())
        team.processes |= await it.until_workers(1, after=before)
        await it.until_logged("the chain is exa", after=before)
        assert await who_answered("later") == ["exa", "exa"]
    assert b"Traceback" not in it.stderr
    assert b"hidden-word" not in it.stderr
    assert b"server.workers" not in it.stderr


async def test_ctrl_c_reaches_the_whole_group_and_ends_it_without_a_word_even_while_it_starts(
    played: Played, tmp_path: Path
) -> None:
    file = written(tmp_path / "config.json", content(played, "tavily"))
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "gateway", "serve", "--workers", "2"),
        stdin=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        cwd=ROOT,
        env=environment(tmp_path, WEBSEARCH_CONFIG=str(file), WEBSEARCH_LOG="debug"),
        start_new_session=True,
    )
    assert process.stderr is not None
    lines = [b""]
    try:
        async with asyncio.timeout(20):
            while b"worker 2 is started" not in lines[-1]:
                lines.append(await process.stderr.readline())
                assert lines[-1], lines
            os.killpg(process.pid, signal.SIGINT)
            lines.append(await process.stderr.read())
            assert await process.wait() == 0
    finally:
        with suppress(ProcessLookupError):
            process.kill()
    assert b"Traceback" not in b"".join(lines)
    assert b"stopping, and 2 workers with us" in lines[-1]


# ---------------------------------------------------------------------------------------------------------------------
# starts


async def test_workers_without_a_shared_memory_are_refused_with_words(played: Played, tmp_path: Path) -> None:
    file = written(tmp_path / "config.json", content(played, "tavily"))
    refused = await command(tmp_path, "serve", "--workers", "2", WEBSEARCH_CONFIG=str(file), WEBSEARCH_STATE="memory")
    assert (refused.code, refused.out) == (2, "")
    words = "2 workers need a state that processes can share, and state.type is memory"
    assert words in refused.err
    two = written(tmp_path / "two.json", content(played, "tavily", server={"workers": 2}, state={"type": "memory"}))
    for check in (("config", "check"), ("doctor",)):
        checked = await command(tmp_path, *check, WEBSEARCH_CONFIG=str(two), WEBSEARCH_STATE="memory")
        assert checked.code == 2
        assert words in checked.out + checked.err
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        refused = await command(tmp_path, "serve", "--workers", "2", "--port", port, WEBSEARCH_CONFIG=str(file))
    assert (refused.code, refused.out) == (2, "")
    assert "Address already in use" in refused.err


async def test_where_the_state_cannot_be_kept_one_worker_serves(played: Played, tmp_path: Path) -> None:
    file = written(tmp_path / "config.json", content(played, "tavily", server={"port": 0, "workers": 2}))
    async with serving(tmp_path, WEBSEARCH_CONFIG=str(file), WEBSEARCH_STATE=str(file / "state")) as it:
        await it.until_logged("WARNING gateway.servers: one worker serves instead of 2: they must share their state")
        assert (await it.search())["meta"]["provider_used"] == "tavily"
        assert (await it.status())["state"]["persistent"] is False
        assert b"worker 1" not in it.stderr


async def test_what_is_wrong_with_the_state_is_told_once_by_the_parent(
    played: Played, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / FILE_NAME).write_bytes(b"no database" * 100)
    async with running(played, ["tavily"], state=sqlite(tmp_path)) as gateway:
        config = gateway.config
    caplog.clear()
    assert await begin_shared(config)
    for _ in range(2):
        async with Gateway(config, run=Run(started=0.0)) as gateway:
            assert gateway.store_warnings
    (warning,) = [each.getMessage() for each in caplog.records if each.levelno >= logging.WARNING]
    assert warning == gateway.store_warnings[0]


@pytest.mark.parametrize(("home", "tried"), [("sqlite", True), ("redis", False)])
@pytest.mark.parametrize("number", [1, 2])
async def test_a_start_lets_a_refused_key_be_tried_again_but_not_where_other_machines_know_of_it(
    played: Played, tmp_path: Path, home: str, tried: bool, number: int
) -> None:
    state = sqlite(tmp_path) if home == "sqlite" else {"type": "redis", "url": shared_url(), "prefix": prefix(tmp_path)}
    played.script("tavily", failing(401), success("tavily"))
    async with running(played, ["tavily", "brave"], state=state, fresh_start=True) as gateway:
        assert told(await ask(gateway)) == ["tavily auth_failure http_401"]
        config = gateway.config
    if number > 1:
        assert await begin_shared(config)
    async with running(played, ["tavily", "brave"], state=state, fresh_start=number == 1) as gateway:
        assert (used(await ask(gateway)) == "tavily") is tried


# ---------------------------------------------------------------------------------------------------------------------
# the parent


def with_a_warning(old: Config) -> Config:
    return replace(old, warnings=("read again",))


def served(
    task: Any,
    number: int = 1,
    path: Path | None = None,
    sockets: Sequence[socket.socket] = (),
    read_again: Callable[[Config], Config] = with_a_warning,
) -> int:
    """What a parent of such workers exits with."""
    config = Config(server=ServerSettings(workers=number), state=StateSettings(path=path))
    return Workers(config, list(sockets), read_again, task=task).serve()


def logged(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.name in ("gateway.doors.workers", "gateway.reloading")]


def test_when_no_worker_can_be_started_the_parent_says_so_and_gives_up(caplog: pytest.LogCaptureFixture) -> None:
    assert served(worker_tasks.cannot_start, 2) == 3
    lines = logged(caplog)
    assert sorted(lines[:2]) == [f"worker {each} ended with code 5 before it served" for each in (1, 2)]
    assert lines[2:] == ["no worker could be started, so nothing is served"]


def test_a_worker_that_falls_again_and_again_is_replaced_ever_later(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(workers, "FIRST_DELAY_S", 0.01)
    assert served(worker_tasks.falls_four_times, path=tmp_path / "falls") == 0
    assert [each.rpartition("; ")[2] for each in logged(caplog) if "ended with code 7" in each] == [
        f"it is replaced {when}" for when in ("at once", "in 0.01 s", "in 0.02 s", "in 0.04 s")
    ]


@pytest.mark.parametrize(("falls", "seconds"), [(0, 0), (1, 0), (2, 1), (3, 2), (4, 4), (6, 16), (7, 30), (10_000, 30)])
def test_the_wait_before_a_replacement_doubles_up_to_half_a_minute(falls: int, seconds: float) -> None:
    assert delay_s(falls) == seconds


@pytest.mark.parametrize(
    ("task", "limit"),
    [(worker_tasks.never_ends, "KILL_AFTER_S"), (worker_tasks.never_ends_for_a_person, "HURRY_S")],
)
def test_a_worker_that_does_not_end_in_time_is_killed(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, task: Any, limit: str
) -> None:
    monkeypatch.setattr(workers, limit, 0.05)
    assert served(task) == 0
    assert logged(caplog)[-1] == "worker 1 has not ended in time and is killed"


def test_a_worker_that_keeps_the_old_configuration_is_told_of(capsys: pytest.CaptureFixture[str]) -> None:
    with logging_undone():
        assert served(worker_tasks.keeps_the_old) == 0
    in_force = ["reload: the new configuration is in force; the chain is nobody", "reload: read again"]
    lines = [line.split(": ", 1)[1] for line in capsys.readouterr().err.splitlines() if ": reload" in line]
    assert lines == ["reload: worker 1 goes on with the old configuration", *in_force, *in_force]


def test_who_is_ready_only_after_the_parent_was_told_to_stop_is_not_announced(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "gateway")
    assert served(worker_tasks.is_ready_too_late, sockets=listen("127.0.0.1", 0)) == 0
    assert [each.getMessage() for each in caplog.records] == ["stopping, and 1 workers with us"]


def test_a_reload_that_breaks_does_not_end_the_parent(caplog: pytest.LogCaptureFixture) -> None:
    def broken(old: Config) -> Config:
        os.kill(os.getpid(), signal.SIGTERM)
        raise KeyError("providers")

    assert served(worker_tasks.asks_to_reload, read_again=broken) == 0
    assert logged(caplog) == ["reload: the old configuration stays in force: a fault of the gateway's own"]


def test_a_worker_may_be_ended_by_a_signal_that_has_no_name(caplog: pytest.LogCaptureFixture) -> None:
    assert served(worker_tasks.ends_by_a_signal_without_a_name) == 3
    assert logged(caplog)[0] == f"worker 1 was ended by signal {signal.SIGRTMIN + 6} before it served"


FIRST = """
from gateway.doors.workers import Workers
from gateway.settings import Config
from tests.worker_tasks import hears_a_terminal

raise SystemExit(Workers(Config(), [], lambda old: None, task=hears_a_terminal).serve())
"""


async def test_not_even_the_first_worker_hears_a_terminal_while_it_starts(tmp_path: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", FIRST), stderr=asyncio.subprocess.PIPE, cwd=ROOT, env=environment(tmp_path)
    )
    _, told = await process.communicate()
    assert process.returncode == 3
    assert told.splitlines()[0] == b"worker 1 ended with code 0 before it served"
