"""MCP over stdin and stdout, against a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any

import pytest
from mcp import Client, StdioServerParameters

from tests.doors_fixtures import FOUND, HANDSHAKE, MODERN, call, modern
from tests.forking import ROOT, Process, begin

INITIALIZE: dict[str, Any] = {
    "jsonrpc": "2.0",
    "id": "i",
    "method": "initialize",
    "params": {"protocolVersion": HANDSHAKE, "capabilities": {}, "clientInfo": {"name": "test", "version": "0"}},
}
INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}


class Piped:
    """A running process, spoken to line by line."""

    def __init__(self, process: Process) -> None:
        self.process = process
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        self.stdin: IO[bytes] = process.stdin
        self.stdout: IO[bytes] = process.stdout
        self.stderr: IO[bytes] = process.stderr
        self.log = b""

    def say(self, *messages: dict[str, Any] | bytes) -> None:
        for message in messages:
            self.stdin.write(message if isinstance(message, bytes) else json.dumps(message).encode() + b"\n")
        self.stdin.flush()

    def hear(self) -> Any:
        return json.loads(self.stdout.readline())

    def until_logged(self, words: str) -> str:
        for line in self.stderr:
            self.log += line
            if words in line.decode():
                return line.decode()
        raise AssertionError(f"never logged: {words}")

    def finish(self) -> list[Any]:
        """Close stdin: everything that was still said."""
        self.stdin.close()
        said = [json.loads(line) for line in self.stdout]
        assert self.process.wait(20) == 0
        self.log += self.stderr.read()
        return said


@contextmanager
def piped(*arguments: str, **environment: str) -> Iterator[Piped]:
    with begin("tests.doors_process", "stdio", *arguments, stdin=subprocess.PIPE, **environment) as process:
        too_late = threading.Timer(60, process.kill)
        too_late.start()
        try:
            yield Piped(process)
        finally:
            too_late.cancel()
            process.kill()


@pytest.fixture(scope="module")
def modern_one() -> Iterator[Piped]:
    """A process that nobody ever greets. Each test hears out what it has asked for."""
    with piped("hangs") as pipe:
        yield pipe
        assert pipe.finish() == []
    assert b"Traceback" not in pipe.log


@pytest.fixture(scope="module")
def greeted() -> Iterator[Piped]:
    """A process after the handshake. Each test hears out what it has asked for."""
    with piped("hangs") as pipe:
        pipe.say(INITIALIZE, INITIALIZED)
        assert pipe.hear()["id"] == "i"
        yield pipe
        assert pipe.finish() == []
    assert b"Traceback" not in pipe.log
    assert b"Error" not in pipe.log


@pytest.mark.parametrize("encoding", ["gbk", "ascii:strict"])
def test_stdout_carries_protocol_lines_in_utf_8_whatever_the_console_speaks(encoding: str) -> None:
    with piped(PYTHONIOENCODING=encoding, PYTHONUTF8="0") as pipe:
        pipe.say(INITIALIZE, INITIALIZED)
        assert pipe.hear()["result"]["serverInfo"]["name"] == "websearch-gateway"
        pipe.say(call({"query": "雪"}))
        line = pipe.stdout.readline()
        assert "雪の結晶".encode() in line
        assert json.loads(line)["result"]["structuredContent"] == FOUND
        assert pipe.finish() == []
    assert b"a stray line" in pipe.log
    assert b"entered " in pipe.log


def test_modern_requests_need_no_handshake(modern_one: Piped) -> None:
    modern_one.say(modern(call({"query": "fast"}))[0])
    assert modern_one.hear()["result"]["structuredContent"] == FOUND


def test_progress_is_told_before_the_answer(greeted: Piped) -> None:
    greeted.say(call({"query": "fast"}, token="t"))
    notes = [greeted.hear()["params"]["message"] for _ in range(2)]
    assert notes == ["bocha: quota_exhausted (http_403 no money)", "brave: ok"]
    assert greeted.hear()["id"] == 7


@pytest.mark.parametrize(
    ("era", "requested"),
    [(HANDSHAKE, 7), (MODERN, 7), (HANDSHAKE, "7")],
    ids=["handshake", "modern", "an id told as text"],
)
def test_a_cancelled_search_stops_nobody_waits_for_its_answer_and_others_go_on(
    modern_one: Piped, greeted: Piped, era: str, requested: object
) -> None:
    pipe = modern_one if era == MODERN else greeted
    slow, fast = call({"query": "slow"}), call({"query": "fast"}, id=8)
    pipe.say(modern(slow)[0] if era == MODERN else slow)
    pipe.until_logged("entered 雪 slow")
    pipe.say({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": requested}})
    pipe.until_logged("left")
    pipe.say(modern(fast)[0] if era == MODERN else fast)
    assert pipe.hear()["id"] == 8


NOT_OURS = ["[]", "[7]", "{}", "null", "true", "7.5", "1e999", '"\\ud800"', "9" * 400, "[" * 300 + "]" * 300]


def test_a_cancellation_that_names_no_request_of_ours_changes_nothing(greeted: Piped) -> None:
    greeted.say(call({"query": "slow", "seconds": 0.2}))
    for named in NOT_OURS:
        told = f'{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{named}}}}}\n'
        greeted.say(call({"query": "slow", "seconds": 0.2}, id=f"beside {named}"), told.encode())
    greeted.say(call({"query": "slow", "seconds": 0.4}, id="last"))
    answered = [greeted.hear()["id"]]
    while answered[-1] != "last":
        answered.append(greeted.hear()["id"])
    assert [named for named in NOT_OURS if f"beside {named}" not in answered] == []
    assert 7 in answered


def test_calls_under_way_are_answered_after_the_end_of_stdin() -> None:
    with piped("hangs") as pipe:
        pipe.say(INITIALIZE, INITIALIZED, call({"query": "slow", "seconds": 0.5}))
        assert [message["id"] for message in pipe.finish()] == ["i", 7]


def test_nobody_searches_on_when_the_other_process_is_gone() -> None:
    with piped("hangs") as pipe:
        pipe.say(INITIALIZE, INITIALIZED, call())
        pipe.until_logged("entered")
        pipe.stdin.close()
        pipe.stdout.close()
        pipe.until_logged("left")
        assert pipe.process.wait(20) == 0


def test_what_is_no_message_is_answered_and_the_next_one_served() -> None:
    with piped() as pipe:
        for line, code, words in (
            (b"{\n", -32700, "not JSON"),
            (b"\xff\xfe\n", -32700, "not JSON"),
            (b"[]\n", -32600, "batches"),
            (b'{"jsonrpc":"2.0","id":3,"method":"ping","params":[]}\n', -32602, "params must be"),
            (b" " * (1024 * 1024) + b"{}\n", -32600, "1 MiB"),
        ):
            pipe.say(line, b"\n")
            refused = pipe.hear()
            assert refused["error"]["code"] == code
            assert words in refused["error"]["message"]
        pipe.say(INITIALIZE)
        assert pipe.hear()["id"] == "i"


def test_a_lone_surrogate_in_the_arguments_is_no_reason_to_stop(greeted: Piped) -> None:
    greeted.say(call({"query": "x\ud800", "seconds": 0}))
    assert greeted.hear()["result"]["structuredContent"] == FOUND


@pytest.mark.anyio
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_the_python_sdk_client_works_in_both_eras(mode: str) -> None:
    server = StdioServerParameters(command=sys.executable, args=["-m", "tests.doors_process", "stdio"], cwd=ROOT)
    async with Client(server, mode=mode) as client:
        assert client.protocol_version == (HANDSHAKE if mode == "legacy" else MODERN)
        found = await client.call_tool("web_search", {"query": "snow"})
    assert found.structured_content == FOUND
