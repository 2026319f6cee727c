"""The serving process: where it listens, what signals do, what its log says."""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
import re
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any

import pytest

from gateway import logs
from gateway.doors.app import Draining, build
from gateway.doors.listening import ListenError, listen, listeners
from tests.doors_fixtures import BEARER, HANDSHAKE, MODERN, TOKEN, FakeGateway, Served, call, modern, settings
from tests.forking import Process, begin


class Running:
    """A serving process and its log."""

    def __init__(self, process: Process) -> None:
        self.process = process
        assert process.stderr is not None
        self.stderr: IO[bytes] = process.stderr
        found = re.search(r"http://127\.0\.0\.1:(\d+)/mcp", self.until_logged("listening on"))
        assert found
        self.site = Served(int(found[1]), FakeGateway())

    def until_logged(self, words: str) -> str:
        for line in self.stderr:
            if words in line.decode():
                return line.decode()
        raise AssertionError(f"never logged: {words}")


@contextmanager
def running(*arguments: str) -> Iterator[Running]:
    with begin("tests.doors_process", "http", *arguments) as process:
        too_late = threading.Timer(30, process.kill)
        too_late.start()
        try:
            yield Running(process)
        finally:
            too_late.cancel()
            process.kill()


def test_sigterm_lets_calls_under_way_end_sends_new_ones_away_and_exits_with_0() -> None:
    with running("hangs") as run:
        answered: list[int] = []
        slow = call({"query": "slow", "seconds": 1.5})
        caller = threading.Thread(target=lambda: answered.append(run.site.post(slow, BEARER).status))
        caller.start()
        run.until_logged("entered")
        run.process.send_signal(signal.SIGTERM)
        run.until_logged("stopping")
        ready = run.site.send("GET", "/readyz")
        refused = run.site.post(call(), BEARER)
        alive = run.site.send("GET", "/healthz")
        caller.join(20)
        assert run.process.wait(20) == 0
        assert (ready.status, ready.json["reasons"]) == (503, ["shutting down"])
        assert (refused.status, refused.headers["retry-after"]) == (503, "2")
        assert alive.status == 200
        assert answered == [200]


def test_sigint_ends_an_idle_process_with_0() -> None:
    with running() as run:
        run.process.send_signal(signal.SIGINT)
        assert run.process.wait(20) == 0


def test_what_has_not_ended_in_time_is_sent_away_without_a_traceback() -> None:
    opened = {}
    with running("hangs", "hasty") as run:
        for era, form in itertools.product([HANDSHAKE, MODERN], ["json", "stream"]):
            message = call({"query": f"slow {form} of {era}"}, token="t" if form == "stream" else None)
            headers = {"MCP-Protocol-Version": era}
            if era == MODERN:
                message, headers = modern(message)
            accepted = {"Accept": "application/json, text/event-stream"}
            opened[era, form] = run.site.open(message, headers | BEARER | accepted)
            run.until_logged(f"slow {form} of {era}")
        run.process.send_signal(signal.SIGTERM)
        assert run.process.wait(20) == 0
        log = run.stderr.read().decode()
        for which, connection in opened.items():
            assert connection.recv(65536).startswith(b"HTTP/1.1 503"), which
            connection.close()
    assert log.count("left") == len(opened)
    assert "Exception" not in log
    assert "Traceback" not in log


@pytest.mark.anyio
async def test_an_event_stream_that_has_begun_is_ended_rather_than_answered_twice() -> None:
    sent: list[Any] = []

    async def streaming(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"event", "more_body": True})
        raise asyncio.CancelledError

    async def send(message: Any) -> None:
        sent.append(message)

    app = build(FakeGateway())  # type: ignore[arg-type]
    await Draining(streaming)({"type": "http", "path": "/mcp", "app": app}, send, send)
    assert [each.get("status", each.get("more_body", False)) for each in sent] == [200, True, False]


def test_a_reload_that_breaks_is_told_in_one_line_and_serving_goes_on() -> None:
    with running("broken") as run:
        run.process.send_signal(signal.SIGHUP)
        line = run.until_logged("reload: the old configuration stays in force")
        assert "RuntimeError: cannot be reloaded with ***" in line
        assert run.site.post(call(), BEARER).status == 200


def test_sighup_reloads_and_goes_on() -> None:
    with running() as run:
        for _ in range(2):
            run.process.send_signal(signal.SIGHUP)
            run.until_logged("reloaded")
        assert run.site.post(call(), BEARER).status == 200


def test_the_log_never_holds_a_token_or_a_line_per_request() -> None:
    with running() as run:
        run.site.post(call({"query": f"{TOKEN}\nsecond line"}), BEARER)
        run.site.post(call(), {"Authorization": f"Bearer {TOKEN}x"}, path=f"/{TOKEN}?token={TOKEN}")
        run.process.send_signal(signal.SIGTERM)
        assert run.process.wait(20) == 0
        lines = run.stderr.read().decode().splitlines()
    assert not [line for line in lines if TOKEN in line]
    assert [line.split(" ", 3)[3] for line in lines if "stray" not in line] == [
        "gateway.tests: entered 雪 ***\\nsecond line",
        "gateway.doors.access: 401: token not accepted",
        "gateway.doors.serving: stopping: calls under way have 8 s to end",
    ]


def test_an_address_in_use_is_told_in_one_sentence() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ListenError, match=f"cannot listen on 127.0.0.1 port {port}: Address already in use"):
            listen("127.0.0.1", port)


def test_an_address_is_in_use_even_before_the_other_server_serves() -> None:
    (bound,) = listen("127.0.0.1", 0)
    with bound:
        port = bound.getsockname()[1]
        with pytest.raises(ListenError, match=f"cannot listen on 127.0.0.1 port {port}: Address already in use"):
            listen("127.0.0.1", port)


def test_a_host_that_does_not_exist_is_told_in_one_sentence() -> None:
    with pytest.raises(ListenError, match=r"cannot listen on no\.such\.host\.invalid"):
        listen("no.such.host.invalid", 0)


@pytest.mark.parametrize(("host", "port"), [("a..b", 0), ("x" * 70, 0), ("127.0.0.1", 10**20)])
def test_what_is_no_address_at_all_is_told_in_one_sentence(host: str, port: int) -> None:
    with pytest.raises(ListenError, match=f"cannot listen on {host} port {port}: "):
        listen(host, port)


def test_every_address_of_a_name_gets_the_same_free_port() -> None:
    sockets = listen("localhost", 0)
    ports = {each.getsockname()[1] for each in sockets}
    for each in sockets:
        each.close()
    assert len(ports) == 1


def test_serving_the_network_without_a_token_is_refused() -> None:
    with pytest.raises(ListenError, match="WEBSEARCH_TOKEN"):
        listeners(settings(host="0.0.0.0", port=0))


# ---------------------------------------------------------------------------------------------------------------------
# log lines


def formatted(message: str, *arguments: object, error: BaseException | None = None) -> str:
    formatter = logs.OneLine((TOKEN, "s3cret/key+with=signs"))
    info = None if error is None else (type(error), error, error.__traceback__)
    record = logging.LogRecord("gateway.x", logging.INFO, __file__, 1, message, arguments, info)
    return formatter.format(record).split(" ", 2)[2]


@pytest.mark.parametrize(
    "shown", [TOKEN, json.dumps("s3cret/key+with=signs"), "s3cret%2Fkey%2Bwith%3Dsigns", TOKEN[:9] + "…"]
)
def test_a_secret_is_replaced_in_every_spelling(shown: str) -> None:
    line = formatted("sent %s away", f"x {shown} y")
    assert "***" in line
    assert TOKEN[:8] not in line
    assert "s3cret" not in line


def test_an_event_is_one_line() -> None:
    assert formatted("a\nb\r\nc\u2028d\x1b[31m") == "INFO gateway.x: a\\nb\\r\\nc\\u2028d\\x1b[31m"


def test_a_traceback_is_one_line_of_causes_and_places_without_what_was_in_the_variables() -> None:
    def inner() -> None:
        hidden = "local value"
        raise ValueError(f"bad {TOKEN}", len(hidden))

    try:
        try:
            inner()
        except ValueError as cause:
            raise RuntimeError("outer") from cause
    except RuntimeError as error:
        line = formatted("failed", error=error)
    assert "\\nRuntimeError: outer at " in line
    assert " <- ValueError: ('bad ***', 11) at " in line
    assert "local value" not in line
    assert "\n" not in line
