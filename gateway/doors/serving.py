"""Running the HTTP application: where it listens, what signals do, how it ends."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import uvicorn

from gateway.doors.app import build
from gateway.doors.patience import PatientProtocol, raise_file_limit
from gateway.gateway import Gateway
from gateway.settings import binding_refusal

log = logging.getLogger(__name__)

DRAIN_S = 1.0
"""Seconds between a SIGTERM and the closing of the listeners, in which 503 tells balancers to go elsewhere."""

GRACE_S = 8
"""Seconds that running calls may take to end after that. Container runtimes kill ten seconds after SIGTERM."""

KEEP_ALIVE_S = 75
"""Seconds an idle connection stays open: longer than clients keep theirs, so that none sends into a closing one."""

Reload = Callable[[], Awaitable[None]]


class ListenError(Exception):
    """The address is not to be had, or must not be used. The words are for the person who started us."""


def listen(host: str, port: int) -> list[socket.socket]:
    """Sockets bound to every address that `host` has. Port 0: one free port for all. Raises `ListenError`."""
    bound: list[socket.socket] = []
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        for family, kind, protocol, _, address in dict.fromkeys(found):
            if bound and port == 0:
                address = (address[0], bound[0].getsockname()[1], *address[2:])
            one = socket.socket(family, kind, protocol)
            bound.append(one)
            if os.name == "posix":
                # elsewhere it would let two servers share an address
                one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            one.bind(address)
    except (OSError, UnicodeError, OverflowError) as error:
        for one in bound:
            one.close()
        why = error.strerror if isinstance(error, OSError) else error
        raise ListenError(f"cannot listen on {host} port {port}: {why}") from error
    return bound


def serve(gateway: Gateway, *, reload: Reload) -> None:
    """Serve `gateway` until SIGTERM or SIGINT, then return. SIGHUP awaits `reload`. Raises `ListenError`."""
    server = gateway.config.server
    if why := binding_refusal(gateway.config):
        raise ListenError(why)
    if not server.tokens:
        log.warning("no token is configured: only this machine is served, and whoever is on it may search")
        if Path("/.dockerenv").exists() or Path("/run/.containerenv").exists():
            log.warning(
                "this is a container: nobody outside of it reaches %s; set WEBSEARCH_HOST and a token", server.host
            )
    raise_file_limit()
    sockets = listen(server.host, server.port)
    asyncio.run(_serve(gateway, sockets, reload))


async def _serve(gateway: Gateway, sockets: list[socket.socket], reload: Reload) -> None:
    app = build(gateway)
    running = Server(
        uvicorn.Config(
            app,
            http=PatientProtocol,
            lifespan="on",
            ws="none",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=KEEP_ALIVE_S,
            timeout_graceful_shutdown=GRACE_S,
        )
    )
    tasks: set[asyncio.Task[None]] = set()
    reloading = asyncio.Lock()

    def start(work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        tasks.add(task)
        task.add_done_callback(tasks.discard)
        return task

    def reloaded(task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (fault := task.exception()) is not None:
            log.error("reload: the old configuration stays in force: a fault of the gateway's own", exc_info=fault)

    async def reload_in_turn() -> None:
        # the last one to read the file must be the last one to put it in force
        async with reloading:
            await reload()

    async def drain() -> None:
        app.state.draining = True
        await asyncio.sleep(DRAIN_S)
        running.should_exit = True

    def terminate() -> None:
        log.info("stopping: calls under way have %d s to end", GRACE_S)
        start(drain())

    def interrupt() -> None:
        running.force_exit = running.should_exit
        running.should_exit = True

    def hang_up() -> None:
        start(reload_in_turn()).add_done_callback(reloaded)

    with _handling({"SIGTERM": terminate, "SIGINT": interrupt, "SIGHUP": hang_up}):
        await running.serve(sockets)


class Server(uvicorn.Server):
    """uvicorn's server, but signals are ours: it would end the process by the signal instead of with 0."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for each in sockets or []:
            name, number = each.getsockname()[:2]
            log.info("listening on http://%s:%d/mcp", f"[{name}]" if ":" in name else name, number)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@contextlib.contextmanager
def _handling(handlers: dict[str, Callable[[], None]]) -> Iterator[None]:
    """Call these on the running loop when their signals come; the platform may not have them all."""
    loop = asyncio.get_running_loop()
    taken: list[tuple[int, Any]] = []
    for name, handler in handlers.items():
        number = getattr(signal, name, None)
        if number is None:
            continue
        previous = signal.signal(number, lambda *_, call=handler: loop.call_soon_threadsafe(call))
        taken.append((number, previous))
    try:
        yield
    finally:
        for number, previous in taken:
            signal.signal(number, previous)
