"""MCP over Streamable HTTP without sessions: one POST, one message in, one answer out, in both protocol eras.

The SDK's own transport turns several real clients away (no `Accept`, no content type), and never learns that a caller
who waits for JSON has left. So the framing is ours; what a message means is the SDK's: each request goes through its
`serve_one`, and a modern one through its validation ladder before.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.server.connection import Connection
from mcp.server.runner import serve_one
from mcp.shared.dispatcher import CallOptions
from mcp.shared.exceptions import MCPError, NoBackChannelError
from mcp.shared.inbound import (
    ERROR_CODE_HTTP_STATUS,
    MCP_PROTOCOL_VERSION_HEADER,
    InboundLadderRejection,
    classify_inbound_request,
    find_duplicated_routing_header,
)
from mcp.shared.message import ServerMessageMetadata
from mcp.shared.transport_context import TransportContext
from mcp_types import (
    HEADER_MISMATCH,
    INVALID_PARAMS,
    INVALID_REQUEST,
    PROTOCOL_VERSION_META_KEY,
    UNSUPPORTED_PROTOCOL_VERSION,
)
from mcp_types.version import (
    HANDSHAKE_PROTOCOL_VERSIONS,
    KNOWN_PROTOCOL_VERSIONS,
    LATEST_HANDSHAKE_VERSION,
    MODERN_PROTOCOL_VERSIONS,
)
from pydantic import ValidationError
from starlette.types import Receive, Scope, Send

from gateway.doors import wire
from gateway.doors.access import client_of
from gateway.doors.mcp import MCPServer
from gateway.doors.patience import BODY_S

KEEP_ALIVE_S = 15.0
"""Seconds of silence on an event stream after which a comment is sent, so that no proxy takes it for dead."""

ONLY_POST = wire.encode(
    wire.error(None, INVALID_REQUEST, "this is MCP over Streamable HTTP: POST one message; there is no stream to GET")
)
NOT_ACCEPTABLE = wire.encode(wire.error(None, INVALID_REQUEST, "Accept allows neither JSON nor an event stream"))
TOO_SLOW = wire.encode(wire.error(None, INVALID_REQUEST, "the request did not come whole in time"))
TOO_LARGE = wire.encode(wire.error(None, INVALID_REQUEST, wire.TOO_LARGE))

EVENT_STREAM = [
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
]

_TRANSPORT = TransportContext(kind="streamable-http", can_send_request=False)


@dataclass(slots=True)
class Exchange:
    """One request as the SDK's handlers see it (its `DispatchContext`). What they report goes to `events`, if any."""

    request_id: wire.RequestId
    message_metadata: ServerMessageMetadata
    progress_token: str | int | None = None
    events: MemoryObjectSendStream[bytes] | None = None
    transport: TransportContext = _TRANSPORT
    can_send_request: bool = False
    cancel_requested: anyio.Event = field(default_factory=anyio.Event)

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> dict[str, Any]:
        raise NoBackChannelError(method)

    async def notify(self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None) -> None:
        if self.events is not None:
            self.events.send_nowait(_event({"jsonrpc": "2.0", "method": method, "params": dict(params or {})}))

    async def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        if self.progress_token is not None:
            told = {"progressToken": self.progress_token, "progress": progress, "total": total, "message": message}
            await self.notify(
                "notifications/progress", {name: value for name, value in told.items() if value is not None}
            )


@dataclass(frozen=True, slots=True)
class Answered:
    """What goes back: a JSON-RPC answer and the HTTP status for it."""

    status: int
    message: dict[str, Any]


class StreamableHTTP:
    """The ASGI application behind `/mcp`. Access has been checked before."""

    def __init__(self, server: MCPServer) -> None:
        self._server = server

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] != "POST":
            await wire.send_json(send, 405, ONLY_POST, (b"allow", b"POST"))
            return
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        takes_json, takes_stream = wire.accepts(headers.get("accept"))
        if not takes_json and not takes_stream:
            await wire.send_json(send, 406, NOT_ACCEPTABLE)
            return
        with anyio.move_on_after(BODY_S) as patience:
            body = await wire.read_body(scope, receive)
        if patience.cancelled_caught:
            await wire.send_json(send, 408, TOO_SLOW, (b"connection", b"close"))
            return
        if body is None:
            await wire.send_json(send, 413, TOO_LARGE)
            return
        message = wire.read(body)
        if isinstance(message, wire.Refused):
            await wire.send_json(send, 400, _error(message))
            return
        version = headers.get(MCP_PROTOCOL_VERSION_HEADER)
        if refused := _unsupported(version, message):
            await wire.send_json(send, 400, _error(refused))
            return
        if isinstance(message, wire.Notification):
            # nothing to do, not even for notifications/cancelled: ids of different callers cannot be told apart
            await send({"type": "http.response.start", "status": 202, "headers": [(b"content-length", b"0")]})
            await send({"type": "http.response.body", "body": b""})
            return
        connection = _connection(message, version, headers, scope)
        if isinstance(connection, wire.Refused):
            await wire.send_json(send, ERROR_CODE_HTTP_STATUS[connection.code], _error(connection))
            return
        exchange = Exchange(
            message.id, ServerMessageMetadata(request_context=client_of(scope)), progress_token=message.progress_token
        )
        if takes_stream and (not takes_json or (message.method == "tools/call" and message.progress_token is not None)):
            await self._stream(message, exchange, connection, receive, send, commit=not takes_json)
        else:
            await self._reply(message, exchange, connection, receive, send)

    async def _reply(
        self, request: wire.Request, exchange: Exchange, connection: Connection, receive: Receive, send: Send
    ) -> None:
        """Answer with one JSON body, or not at all when the caller leaves before."""
        answered = await _unless_gone(receive, self._answer(request, exchange, connection))
        if answered is not None:
            await wire.send_json(send, answered.status, answered.message)

    async def _stream(
        self,
        request: wire.Request,
        exchange: Exchange,
        connection: Connection,
        receive: Receive,
        send: Send,
        *,
        commit: bool,
    ) -> None:
        """Answer with an event stream as soon as there is something to tell before the answer; else with JSON.

        `commit`: the caller takes nothing but an event stream.
        """
        exchange.events, events = anyio.create_memory_object_stream[bytes](math.inf)
        answers: list[Answered] = []

        async def work() -> None:
            assert exchange.events is not None
            with exchange.events:
                answers.append(await self._answer(request, exchange, connection))

        with events:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_cancel_when_gone, receive, tasks.cancel_scope)
                tasks.start_soon(work)
                event = await _next(events)
                if event is None and not commit:
                    await wire.send_json(send, answers[0].status, answers[0].message)
                else:
                    await send({"type": "http.response.start", "status": 200, "headers": EVENT_STREAM})
                    while event is not None:
                        await send({"type": "http.response.body", "body": event, "more_body": True})
                        event = await _next(events)
                    await send({"type": "http.response.body", "body": _event(answers[0].message)})
                tasks.cancel_scope.cancel()

    async def _answer(self, request: wire.Request, exchange: Exchange, connection: Connection) -> Answered:
        """Let the SDK serve `request`. In the modern era its refusals have an HTTP status of their own."""
        try:
            value = await serve_one(
                self._server, exchange, request.method, request.params, connection=connection, lifespan_state={}
            )
        except MCPError as error:
            refused = wire.Refused(error.error.code, error.error.message, request.id, error.error.data)
        except ValidationError:
            # pydantic's own words carry the input and a link to its manual
            refused = wire.Refused(INVALID_PARAMS, f"the params of {request.method[:100]} are not valid", request.id)
        else:
            return Answered(200, wire.result(request.id, value))
        modern = connection.protocol_version in MODERN_PROTOCOL_VERSIONS
        return Answered(ERROR_CODE_HTTP_STATUS.get(refused.code, 200) if modern else 200, _error(refused))


def _unsupported(version: str | None, message: wire.Request | wire.Notification) -> wire.Refused | None:
    """The refusal of a revision nobody here speaks. `initialize` is never refused: it is there to agree on one."""
    if version is None or version in KNOWN_PROTOCOL_VERSIONS or message.method == "initialize":
        return None
    return wire.Refused(
        UNSUPPORTED_PROTOCOL_VERSION,
        f"unsupported protocol version; this server speaks {', '.join(KNOWN_PROTOCOL_VERSIONS)}",
        message.id if isinstance(message, wire.Request) else None,
        {"supported": list(KNOWN_PROTOCOL_VERSIONS), "requested": version[:100]},
    )


def _connection(
    request: wire.Request, version: str | None, headers: Mapping[str, str], scope: Scope
) -> Connection | wire.Refused:
    """The era and revision in which `request` is to be served, or why it cannot be.

    Without a version header the newest handshake revision is spoken: the one that the protocol would have us assume has
    no structured results, and clients that send no header (Dify, Gemini CLI) read them.
    """
    if version in MODERN_PROTOCOL_VERSIONS or (version is None and _has_envelope(request)):
        named = [(name.decode("latin-1"), "") for name, _ in scope["headers"] if name.startswith(b"mcp-")]
        if twice := find_duplicated_routing_header(named):
            return wire.Refused(HEADER_MISMATCH, f"the header {twice} is there more than once", request.id)
        route = classify_inbound_request({"method": request.method, "params": request.params}, headers=headers)
        if isinstance(route, InboundLadderRejection):
            return wire.Refused(route.code, route.message, request.id, route.data)
        return Connection.from_envelope(route.protocol_version, route.client_info, route.client_capabilities)
    spoken = version if version in HANDSHAKE_PROTOCOL_VERSIONS else LATEST_HANDSHAKE_VERSION
    return Connection.from_envelope(spoken, None, None)


def _has_envelope(request: wire.Request) -> bool:
    meta = (request.params or {}).get("_meta")
    return isinstance(meta, dict) and PROTOCOL_VERSION_META_KEY in meta


async def _unless_gone(receive: Receive, work: Coroutine[Any, Any, Answered]) -> Answered | None:
    """What `work` brings; None when the caller closes the connection before, which cancels it.

    On every request, so it is asyncio's own means: a task group would cost as much as the rest of the door.
    """
    task = asyncio.current_task()
    assert task is not None
    gone = False

    async def watch() -> None:
        nonlocal gone
        while (await receive())["type"] != "http.disconnect":
            pass
        gone = True
        task.cancel()

    watching = asyncio.create_task(watch())
    try:
        return await work
    except asyncio.CancelledError:
        if gone and task.uncancel() == 0:
            return None
        raise
    finally:
        watching.cancel()


async def _cancel_when_gone(receive: Receive, scope: anyio.CancelScope) -> None:
    """End `scope` when the caller closes the connection."""
    while (await receive())["type"] != "http.disconnect":
        pass
    scope.cancel()


async def _next(events: MemoryObjectReceiveStream[bytes]) -> bytes | None:
    """The next event, or a comment after a long silence; None when the answer is there."""
    with anyio.move_on_after(KEEP_ALIVE_S):
        try:
            return await events.receive()
        except anyio.EndOfStream:
            return None
    return b": still searching\n\n"


def _event(message: dict[str, Any]) -> bytes:
    return b"event: message\ndata: " + wire.encode(message, ascii_only=True) + b"\n\n"


def _error(refused: wire.Refused) -> dict[str, Any]:
    return wire.error(refused.id, refused.code, refused.message, refused.data)
