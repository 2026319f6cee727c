"""Whoever opens a connection and says nothing, or never to an end, gets no place for it."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import uvicorn

from gateway.doors import patience, streamable
from gateway.doors.app import build
from gateway.doors.listening import listen
from gateway.doors.patience import PatientProtocol
from gateway.gateway import Gateway
from tests.doors_fixtures import call
from tests.rooms import configured
from tests.vendors import Played

pytestmark = pytest.mark.anyio


class Told(uvicorn.Server):
    """Says when it listens."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.up = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.up.set()


@asynccontextmanager
async def served(played: Played) -> AsyncIterator[int]:
    """The real application over the real protocol: its port."""
    app = build(Gateway(configured(played, ["tavily"])))
    server = Told(uvicorn.Config(app, http=PatientProtocol, log_config=None, access_log=False, ws="none"))
    sockets = listen("127.0.0.1", 0)
    running = asyncio.create_task(server.serve(sockets))
    await server.up.wait()
    try:
        yield sockets[0].getsockname()[1]
    finally:
        server.should_exit = True
        await running


async def answer(port: int, *pieces: bytes) -> bytes:
    """What comes back until the other side closes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for piece in pieces:
        writer.write(piece)
        await writer.drain()
    async with asyncio.timeout(20):
        heard = await reader.read()
    writer.close()
    return heard


@pytest.mark.parametrize("pieces", [(), (b"POST /mcp HTT",), (b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nX: ",)])
async def test_headers_that_never_come_whole_are_given_up(
    played: Played, pieces: tuple[bytes, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(patience, "HEAD_S", 0.2)
    async with served(played) as port:
        assert await answer(port, *pieces) == b""


async def test_a_body_that_never_comes_whole_is_given_up_in_words(
    played: Played, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streamable, "BODY_S", 0.2)
    async with served(played) as port:
        head = b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 500\r\n\r\n"
        heard = await answer(port, head, b'{"jsonrpc"')
    assert heard.startswith(b"HTTP/1.1 408 ")
    assert b"did not come whole in time" in heard


async def test_a_whole_request_on_a_patient_connection_is_answered_and_so_is_the_next(
    played: Played, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(patience, "HEAD_S", 0.5)
    body = json.dumps(call()).encode()
    head = f"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    async with served(played) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for _ in range(3):
            writer.write(head + body)
            heard = await reader.readuntil(b"\r\n\r\n")
            assert heard.startswith(b"HTTP/1.1 200 ")
            length = int(heard.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
            assert json.loads(await reader.readexactly(length))["result"]["isError"] is False
        writer.close()
