"""The played vendors' server: every vendor on one loopback port, told apart by the first part of the path."""

from __future__ import annotations

import asyncio
import base64
import socket
import ssl
import struct
from collections import Counter, deque
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Protocol, Self

import trustme

from tests.vendors.http2 import HTTP2
from tests.vendors.plays import Play, Request, Script, echoed, first_part, json_play, recording
from tests.vendors.successes import played_names, success

REMEMBERED = 10_000
"""Requests that are kept for a look; counts go on for ever."""


class Line(Protocol):
    """One exchange's way back to the client, whatever version of HTTP it speaks."""

    def begin(self, play: Play) -> None: ...
    def write(self, data: bytes) -> None: ...
    def end(self) -> None: ...
    def break_off(self, reset: bool) -> None: ...
    def raw(self, data: bytes) -> None: ...


@dataclass
class _Part:
    """What is known of one vendor."""

    queue: deque[Script] = field(default_factory=deque)
    now: Script | None = None
    count: int = 0
    left: int = 0
    requests: deque[Request] = field(default_factory=lambda: deque(maxlen=REMEMBERED))


class Played:
    """The vendors while they play. `async with Played() as played`, inside one event loop.

    `url` serves HTTP/1.1; with `tls`, `tls_url` serves HTTP/2 and HTTP/1.1 under the authority in `ca_pem`, and
    `untrusted_url` under one that nobody trusts.
    """

    def __init__(self, port: int = 0, tls: bool = False) -> None:
        self._port = port
        self._with_tls = tls
        self._parts = {name: _Part() for name in played_names()}
        self._servers: list[asyncio.Server] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._connections: set[asyncio.Transport] = set()
        self._changed: list[asyncio.Event] = []
        self.versions: Counter[str] = Counter()
        """Requests by version of HTTP."""
        self.ca_pem = b""
        self.url = self.tls_url = self.untrusted_url = ""

    async def __aenter__(self) -> Self:
        self.url = await self._listen("http", self._port, None)
        if self._with_tls:
            authority = trustme.CA()
            self.ca_pem = authority.cert_pem.bytes()
            self.tls_url = await self._listen("https", 0, authority)
            self.untrusted_url = await self._listen("https", 0, trustme.CA())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for server in self._servers:
            server.close()
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for transport in tuple(self._connections):
            transport.abort()
        for server in self._servers:
            await server.wait_closed()
        await asyncio.sleep(0)  # lets the aborted connections say that they are gone

    async def _listen(self, scheme: str, port: int, authority: trustme.CA | None) -> str:
        context = None
        if authority is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.set_alpn_protocols(["h2", "http/1.1"])
            authority.issue_cert("127.0.0.1", "localhost").configure_cert(context)
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: _Door(self), "127.0.0.1", port, ssl=context, backlog=1024)
        self._servers.append(server)
        return f"{scheme}://127.0.0.1:{server.sockets[0].getsockname()[1]}"

    # -----------------------------------------------------------------------------------------------------------------
    # directing

    def script(self, provider: str, *plays: Script) -> None:
        """From now on `provider` plays these in turn, and the last one for ever; none: its usual success."""
        part = self._parts[provider]
        part.queue = deque(plays)
        part.now = None

    def address(self, provider: str, url: str | None = None) -> str:
        """The base URL of `provider`."""
        return f"{url or self.url}/{provider}"

    # -----------------------------------------------------------------------------------------------------------------
    # looking

    def count(self, provider: str | None = None) -> int:
        """How many requests came to `provider`, or to all."""
        return self._parts[provider].count if provider else sum(part.count for part in self._parts.values())

    def counts(self) -> dict[str, int]:
        """Requests per provider, those with any."""
        return {name: part.count for name, part in self._parts.items() if part.count}

    def requests(self, provider: str) -> list[Request]:
        """The last requests that came to `provider`, oldest first."""
        return list(self._parts[provider].requests)

    def left(self, provider: str | None = None) -> int:
        """How many clients hung up before their reply was whole. (httpx2 leaves an HTTP/2 stream without a word.)"""
        return self._parts[provider].left if provider else sum(part.left for part in self._parts.values())

    async def wait_for(self, n: int, provider: str | None = None, limit_s: float = 10.0) -> None:
        """Until at least `n` requests have come. Raises TimeoutError."""
        await self._until(lambda: self.count(provider) >= n, limit_s)

    async def wait_until_left(self, n: int, provider: str | None = None, limit_s: float = 10.0) -> None:
        """Until at least `n` clients have gone away early. Raises TimeoutError."""
        await self._until(lambda: self.left(provider) >= n, limit_s)

    async def _until(self, reached: Any, limit_s: float) -> None:
        event = asyncio.Event()
        self._changed.append(event)
        try:
            async with asyncio.timeout(limit_s):
                while not reached():
                    await event.wait()
                    event.clear()
        finally:
            self._changed.remove(event)

    def _tell(self) -> None:
        for event in self._changed:
            event.set()

    # -----------------------------------------------------------------------------------------------------------------
    # playing

    def arrived(self, method: str, path: str, head: bytes, body: bytes, version: str) -> tuple[Request, Play]:
        """A request came in: what to play for it."""
        provider = first_part(path)
        request = Request(provider, method, path, head, body, asyncio.get_running_loop().time())
        self.versions[version] += 1
        part = self._parts.get(provider)
        if part is None:
            return request, self._control(request)
        part.count += 1
        part.requests.append(request)
        if part.queue:
            part.now = part.queue.popleft()
        play = part.now or success(provider)
        if not isinstance(play, Play):
            play = play(request)
        if self._changed:
            self._tell()
        return request, echoed(play, request) if play.echo else play

    def perform(self, line: Line, play: Play, request: Request) -> asyncio.Task[None]:
        """Play what is more than one piece."""
        task = asyncio.get_running_loop().create_task(_perform(line, play))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def gone(self, request: Request) -> None:
        """The client of `request` did not wait for the end."""
        if part := self._parts.get(request.provider):
            part.left += 1
            self._tell()

    def _control(self, request: Request) -> Play:
        """How another process directs and looks: `POST /_script/<provider>` (a list, see `_told`),
        `POST /_reset`, `GET /_count`, `GET /_requests/<provider>`."""
        _, _, argument = request.path.lstrip("/").partition("/")
        try:
            match request.method, request.provider:
                case "POST", "_script":
                    self.script(argument, *(_told(each, argument) for each in request.json))
                case "POST", "_reset":
                    self._parts = {name: _Part() for name in self._parts}
                case "GET", "_count":
                    return json_play(self.counts())
                case "GET", "_requests":
                    return json_play([_described(each) for each in self.requests(argument)])
                case _:
                    return json_play({"error": f"nobody plays at {request.path}"}, 404)
        except (KeyError, TypeError, ValueError) as error:
            return json_play({"error": repr(error)}, 400)
        return json_play({})

    def opened(self, transport: asyncio.Transport) -> None:
        self._connections.add(transport)

    def closed(self, transport: asyncio.Transport) -> None:
        self._connections.discard(transport)


def _told(told: dict[str, Any], provider: str) -> Script:
    """A script as another process writes it: `{"recording": name}`, `{"success": {"n_rows": 2}}`, or `Play`'s fields.

    A `body` of text goes out as it is, any other JSON value as JSON; `body_base64` is bytes.
    """
    if "recording" in told:
        return recording(provider, told["recording"])
    if "success" in told:
        return success(provider, **told["success"])
    fields = dict(told)
    if "body_base64" in fields:
        fields["body"] = base64.b64decode(fields.pop("body_base64"))
    elif isinstance(body := fields.pop("body", ""), str):
        fields["body"] = body.encode()
    else:
        return json_play(body, **fields)
    return Play(**fields)


def _described(request: Request) -> dict[str, Any]:
    body = request.body.decode("utf-8", "replace")
    return {"method": request.method, "path": request.path, "headers": request.headers, "body": body, "at": request.at}


async def _perform(line: Line, play: Play) -> None:
    if play.silent:
        await asyncio.Event().wait()
    if play.delay_s:
        await asyncio.sleep(play.delay_s)
    if play.until is not None:
        await play.until.wait()
    if play.raw is not None:
        line.raw(play.raw)
        line.break_off(play.ending == "reset")
        return
    line.begin(play)
    if play.drip_s:
        for at in range(len(play.body)):
            await asyncio.sleep(play.drip_s)
            line.write(play.body[at : at + 1])
        line.end()
    elif play.ending == "whole":
        line.write(play.body)
        line.end()
    else:
        line.write(play.body[: len(play.body) // 2])
        await asyncio.sleep(0.02)  # what was written must be on its way before the connection breaks
        line.break_off(play.ending == "reset")


class _Door(asyncio.Protocol):
    """Finds out what a new connection speaks, and hands it on."""

    def __init__(self, played: Played) -> None:
        self.played = played

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        tls = transport.get_extra_info("ssl_object")
        is_h2 = tls is not None and tls.selected_alpn_protocol() == "h2"
        inner: asyncio.Protocol = HTTP2(self.played) if is_h2 else HTTP1(self.played)
        transport.set_protocol(inner)
        inner.connection_made(transport)


class HTTP1(asyncio.Protocol):
    """Just enough of HTTP/1.1, kept light: benchmarks measure the gateway, not this."""

    transport: asyncio.Transport

    def __init__(self, played: Played) -> None:
        self.played = played
        self.unread = b""
        self.task: asyncio.Task[None] | None = None
        self.request: Request | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.played.opened(transport)

    def connection_lost(self, error: Exception | None) -> None:
        self.played.closed(self.transport)
        if self.task is not None and not self.task.done() and self.request is not None:
            self.task.cancel()
            self.played.gone(self.request)

    def data_received(self, data: bytes) -> None:
        self.unread = self.unread + data if self.unread else data
        if self.task is None:
            self._next()

    def _next(self) -> None:
        while True:
            at = self.unread.find(b"\r\n\r\n")
            if at < 0:
                return
            start, _, head = self.unread[:at].partition(b"\r\n")
            lower = head.lower()
            size = 0
            if (found := lower.find(b"content-length:")) >= 0:
                size = int(lower[found + 15 :].split(b"\r\n", 1)[0])
            elif b"transfer-encoding:" in lower:
                raise NotImplementedError("a request in chunks")
            if len(self.unread) < at + 4 + size:
                return
            body = self.unread[at + 4 : at + 4 + size]
            self.unread = self.unread[at + 4 + size :]
            method, path, _ = start.decode("latin-1").split(" ", 2)
            request, play = self.played.arrived(method, path, head, body, "HTTP/1.1")
            if play.is_plain:
                self.transport.write(play.wire)
            else:
                self.request = request
                self.task = self.played.perform(self, play, request)
                self.task.add_done_callback(self._played)
                return

    def _played(self, task: asyncio.Task[None]) -> None:
        self.task = None
        if not task.cancelled() and not self.transport.is_closing():
            self._next()

    # a Line

    def begin(self, play: Play) -> None:
        self.transport.write(play.head)

    def write(self, data: bytes) -> None:
        self.transport.write(data)

    def end(self) -> None:
        pass

    def raw(self, data: bytes) -> None:
        self.transport.write(data)

    def break_off(self, reset: bool) -> None:
        if reset:
            # no lingering: the close becomes an RST
            wire: socket.socket = self.transport.get_extra_info("socket")
            wire.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.transport.abort()
        else:
            self.transport.close()
