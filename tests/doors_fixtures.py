"""A gateway that does what a test tells it, served over real sockets, and a client that sends just what it is told."""

from __future__ import annotations

import asyncio
import http.client
import json
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

import uvicorn

from gateway import answer
from gateway.config import Config, ProviderSettings, ServerSettings, Token
from gateway.doors.app import build
from gateway.doors.listening import listen
from gateway.doors.serving import Server
from gateway.gateway import Answer, Gateway
from gateway.steps import Step
from providers._words import UNBOUNDED

HANDSHAKE = "2025-11-25"
MODERN = "2026-07-28"
HANDSHAKES = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")

TOKEN = "tok-4f7c1e9a"
BEARER = {"Authorization": f"Bearer {TOKEN}"}

FOUND = answer.body(
    verdict="found",
    chain=[{"provider": "bocha", "outcome": "quota_exhausted", "detail": "http_403 no money", "elapsedMs": 3}],
    search_id="0" * 32,
    results=[{"title": "日本語 – ünï", "url": "https://example.com/", "snippet": "雪の結晶", "provider": "brave"}],
    provider_used="brave",
)
FAILED = answer.body(
    verdict="failed",
    chain=answer.gateway_step("no_provider", "nobody"),
    search_id="1" * 32,
    note="Search failed: nobody is configured.",
)
STEPS = (Step("bocha", "quota_exhausted", "http_403 no money"), Step("brave", "ok"))


def settings(*tokens: str, **server: Any) -> Config:
    """A configuration with these tokens, named t1, t2 …, and these settings of `server`."""
    named = tuple(Token(f"t{number}", token) for number, token in enumerate(tokens, 1))
    brave = ProviderSettings(
        name="brave",
        in_chain=True,
        keys=("k",),
        credential_env="BRAVE_API_KEY",
        timeout_ms=10_000,
        budget=UNBOUNDED,
        quota_retry_s=0,
        interval_ms=0,
        cooldown_max_s=0,
    )
    return Config(providers=(brave,), server=ServerSettings(tokens=named, **server), secrets=tokens)


@dataclass(eq=False)
class FakeGateway:
    """Stands in for `Gateway`: answers `found`, or hangs, or raises; remembers what it was asked."""

    config: Config = field(default_factory=settings)
    answer: Answer = field(default_factory=lambda: Answer(FOUND, is_error=False))
    steps: tuple[Step, ...] = STEPS
    hangs: bool = False
    fault: Exception | None = None
    titles: tuple[str, ...] = ("Brave", "Tavily")
    asked: list[tuple[dict[str, Any], str]] = field(default_factory=list)
    entered: threading.Event = field(default_factory=threading.Event)
    left: threading.Event = field(default_factory=threading.Event)
    go_on: threading.Event = field(default_factory=threading.Event)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def usable(self) -> tuple[str, ...]:
        return self.titles

    async def status(self) -> dict[str, Any]:
        if self.fault is not None:
            raise self.fault
        return {"version": "0", "providers": [], "network": {"proxy": None}}

    async def search(
        self,
        arguments: Mapping[str, Any],
        *,
        client: str = "default",
        progress: Callable[[int, Step], Awaitable[None]] | None = None,
    ) -> Answer:
        self.asked.append((dict(arguments), client))
        if progress is not None:
            for number, step in enumerate(self.steps, 1):
                await progress(number, step)
        if self.fault is not None:
            raise self.fault
        if self.hangs:
            self.entered.set()
            try:
                await asyncio.to_thread(self.go_on.wait, 20)
            except asyncio.CancelledError:
                self.left.set()
                self.go_on.set()
                raise
        return self.answer


@dataclass(frozen=True, slots=True)
class Got:
    """One HTTP answer as it came. Header names are lower case."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def events(self) -> list[Any]:
        """The messages of an event stream."""
        return [json.loads(line[6:]) for line in self.body.decode().splitlines() if line.startswith("data: ")]


GatewayT = TypeVar("GatewayT", FakeGateway, Gateway)


@dataclass(frozen=True, slots=True)
class Served(Generic[GatewayT]):
    """A gateway behind an address. Nothing is added to what a test sends, but for Host and Content-Length."""

    port: int
    gateway: GatewayT

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"

    def send(self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None) -> Got:
        given = {"Host": f"127.0.0.1:{self.port}"} | dict(headers or {})
        if body is not None and "Transfer-Encoding" not in given:
            given.setdefault("Content-Length", str(len(body)))
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        try:
            connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            for name, value in given.items():
                connection.putheader(name, value)
            connection.endheaders(body)
            response = connection.getresponse()
            return Got(response.status, {name.lower(): value for name, value in response.getheaders()}, response.read())
        finally:
            connection.close()

    def post(self, message: Any, headers: Mapping[str, str] | None = None, path: str = "/mcp") -> Got:
        return self.send("POST", path, message if isinstance(message, bytes) else json.dumps(message).encode(), headers)

    def open(self, message: Any, headers: Mapping[str, str]) -> socket.socket:
        """Send a whole request and leave the connection open, unread."""
        body = json.dumps(message).encode()
        lines = {"Host": f"127.0.0.1:{self.port}", "Content-Length": str(len(body)), **headers}
        head = "POST /mcp HTTP/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in lines.items()) + "\r\n"
        opened = socket.create_connection(("127.0.0.1", self.port), timeout=20)
        opened.sendall(head.encode() + body)
        return opened


@contextmanager
def served(gateway: GatewayT) -> Iterator[Served[GatewayT]]:
    """Serve `gateway` from a thread of its own until the block ends."""
    (listener,) = listen("127.0.0.1", 0)
    port = listener.getsockname()[1]
    listener.listen()
    server = Server(
        uvicorn.Config(
            build(gateway),  # type: ignore[arg-type]
            lifespan="on",
            ws="none",
            log_config=None,
            access_log=False,
            timeout_graceful_shutdown=5,
        )
    )
    thread = threading.Thread(target=lambda: asyncio.run(server.serve([listener])))
    thread.start()
    try:
        yield Served(port, gateway)
    finally:
        if isinstance(gateway, FakeGateway):
            gateway.go_on.set()
        server.should_exit = True
        thread.join(20)
        assert not thread.is_alive()


def call(arguments: Any = None, tool: str = "web_search", token: object = None, **more: Any) -> dict[str, Any]:
    """A `tools/call` as a handshake client sends it."""
    params: dict[str, Any] = {"name": tool, "arguments": {"query": "snow"} if arguments is None else arguments}
    if token is not None:
        params["_meta"] = {"progressToken": token}
    return {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params, **more}


def modern(message: dict[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """`message` in the envelope of 2026-07-28, and the headers that go with it."""
    meta = {
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "0"},
    }
    params = dict(message.get("params") or {})
    params["_meta"] = {**params.get("_meta", {}), **meta}
    headers = {"MCP-Protocol-Version": MODERN, "Mcp-Method": message["method"]}
    if isinstance(params.get("name"), str):
        headers["Mcp-Name"] = params["name"]
    return {**message, "params": params}, headers
