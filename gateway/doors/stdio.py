"""Stdin and stdout as a pair of message streams that the SDK can serve.

The SDK's own pair drops lines that it cannot read, without an answer, and cuts off calls under way when stdin ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import select
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.dispatcher import as_request_id, coerce_request_id
from mcp.shared.message import SessionMessage
from mcp_types import INVALID_REQUEST, JSONRPCError, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse

from gateway.doors import wire

Incoming = MemoryObjectReceiveStream[SessionMessage | Exception]
Outgoing = MemoryObjectSendStream[SessionMessage]


@contextlib.asynccontextmanager
async def pipes() -> AsyncIterator[tuple[Incoming, Outgoing]]:
    """The process's stdin and stdout as messages. Meanwhile what anyone else prints goes to stderr.

    After the end of stdin calls under way are still answered, as long as somebody reads stdout.
    """
    with _diverted() as (source, sink):
        to_server, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        outgoing, from_server = anyio.create_memory_object_stream[SessionMessage](0)
        waiting: set[wire.RequestId] = set()
        writing = anyio.Lock()
        answered = anyio.Event()

        async def write(message: dict[str, object]) -> None:
            async with writing:
                await anyio.to_thread.run_sync(_write_all, sink, wire.encode(message) + b"\n")

        async def write_all() -> None:
            async with from_server:
                async for each in from_server:
                    message = each.message
                    await write(message.model_dump(by_alias=True, exclude_unset=True, mode="python"))
                    if isinstance(message, JSONRPCResponse | JSONRPCError) and message.id is not None:
                        waiting.discard(coerce_request_id(message.id))
                        answered.set()

        async def read_all() -> None:
            nonlocal answered
            async with to_server:
                async for line in _lines(source):
                    message = wire.Refused(INVALID_REQUEST, wire.TOO_LARGE) if line is None else wire.read(line)
                    if isinstance(message, wire.Refused):
                        await write(wire.error(message.id, message.code, message.message, message.data))
                    elif isinstance(message, wire.Request):
                        waiting.add(coerce_request_id(message.id))
                        await to_server.send(SessionMessage(_request(message)))
                    elif message.method:
                        named = as_request_id((message.params or {}).get("requestId"))
                        if message.method == "notifications/cancelled" and named is not None:
                            # the SDK never answers what it cancels; to it "7" and 7 are one id
                            waiting.discard(coerce_request_id(named))
                        await to_server.send(SessionMessage(_notification(message)))
                while waiting and not _nobody_reads(sink):
                    answered = anyio.Event()
                    with anyio.move_on_after(0.2):
                        await answered.wait()

        async with anyio.create_task_group() as tasks:
            written = anyio.Event()
            tasks.start_soon(_until_broken, write_all, tasks.cancel_scope, written)
            tasks.start_soon(_until_broken, read_all, tasks.cancel_scope)
            yield incoming, outgoing
            await written.wait()  # whoever serves has closed `outgoing`; its last words may still be on the way
            tasks.cancel_scope.cancel()


async def _until_broken(
    work: Callable[[], Awaitable[None]], scope: anyio.CancelScope, done: anyio.Event | None = None
) -> None:
    """Do `work`; when the other process or the server has left, end `scope`: there is nobody to talk to."""
    try:
        await work()
    except (OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
        scope.cancel()
    if done is not None:
        done.set()


def _request(message: wire.Request) -> JSONRPCRequest:
    if message.params is None:
        return JSONRPCRequest(jsonrpc="2.0", id=message.id, method=message.method)
    return JSONRPCRequest(jsonrpc="2.0", id=message.id, method=message.method, params=message.params)


def _notification(message: wire.Notification) -> JSONRPCNotification:
    if message.params is None:
        return JSONRPCNotification(jsonrpc="2.0", method=message.method)
    return JSONRPCNotification(jsonrpc="2.0", method=message.method, params=message.params)


# ---------------------------------------------------------------------------------------------------------------------
# file descriptors


@contextlib.contextmanager
def _diverted() -> Iterator[tuple[int, int]]:
    """Private copies of stdin and stdout; the public ones become the null device and stderr, until the end."""
    source, sink = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    sys.stdout.flush()
    os.dup2(2, 1)
    try:
        yield source, sink
    finally:
        sys.stdout.flush()
        os.dup2(sink, 1)
        os.dup2(source, 0)
        # `source` stays open: the thread that reads it may still be waiting there


async def _lines(source: int) -> AsyncIterator[bytes | bytearray | None]:
    """What comes in, line by line; None stands for a line over `wire.MAX_BODY`. Blank lines are left out.

    A thread of its own reads: one of a pool would keep the process alive for as long as stdin stays open.
    """
    loop = asyncio.get_running_loop()
    arriving, chunks = anyio.create_memory_object_stream[bytes](math.inf)
    room = threading.Semaphore(4)

    def offer(chunk: bytes) -> None:
        with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            if chunk:
                arriving.send_nowait(chunk)
            else:
                arriving.close()

    def pump() -> None:
        chunk = b"-"
        while chunk:
            room.acquire()
            try:
                chunk = os.read(source, 65536)
            except OSError:
                chunk = b""
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody is interested any more
                loop.call_soon_threadsafe(offer, chunk)

    threading.Thread(target=pump, name="stdin", daemon=True).start()
    held = bytearray()
    too_long = False
    with chunks:
        async for chunk in chunks:
            room.release()
            *whole, rest = chunk.split(b"\n")
            for piece in whole:
                held += piece
                if too_long or len(held) > wire.MAX_BODY:
                    yield None
                elif held.strip():
                    yield held
                held, too_long = bytearray(), False
            held += rest
            if len(held) > wire.MAX_BODY:
                held, too_long = bytearray(), True
    if too_long:
        yield None
    elif held.strip():
        yield held


def _write_all(sink: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(sink, view) :]


def _nobody_reads(sink: int) -> bool:
    """Whether the reader of a pipe has closed it. Where that cannot be asked: no."""
    if sys.platform == "win32":
        return False
    poll = select.poll()
    poll.register(sink, 0)
    return any(happened & select.POLLERR for _, happened in poll.poll(0))
