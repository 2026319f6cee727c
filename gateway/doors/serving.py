"""Running the HTTP application in this process: what signals do, how it ends."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import socket
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from typing import Any

import uvicorn

from gateway.doors.app import build
from gateway.doors.listening import DRAIN_S, GRACE_S, announce
from gateway.doors.patience import PatientProtocol, raise_file_limit
from gateway.doors.signals import handling
from gateway.gateway import Gateway
from gateway.reloading import faulted

log = logging.getLogger(__name__)

KEEP_ALIVE_S = 75
"""Seconds an idle connection stays open: longer than clients keep theirs, so that none sends into a closing one."""

Reload = Callable[[], Awaitable[None]]
Ready = Callable[[list[socket.socket]], None]


def serve(gateway: Gateway, sockets: list[socket.socket], *, reload: Reload) -> None:
    """Serve `gateway` on bound `sockets` until SIGTERM or SIGINT, then return. SIGHUP awaits `reload`."""
    raise_file_limit()

    async def run() -> None:
        running = Running(gateway)
        handlers = {"SIGTERM": running.drain, "SIGINT": running.interrupt, "SIGHUP": lambda: running.reload(reload)}
        with handling(handlers):
            await running.serve(sockets)

    asyncio.run(run())


class Running:
    """A gateway while it is served, and what may be asked of it meanwhile. To be used on its loop."""

    def __init__(self, gateway: Gateway, ready: Ready = announce, accept_at_once: int = 2048) -> None:
        """`ready` is called once it serves; `accept_at_once` connections are taken before any other work is done."""
        self._app = build(gateway)
        self._server = Server(
            uvicorn.Config(
                self._app,
                http=PatientProtocol,
                lifespan="on",
                ws="none",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                backlog=accept_at_once,
                timeout_keep_alive=KEEP_ALIVE_S,
                timeout_graceful_shutdown=GRACE_S,
            ),
            ready,
        )
        self._tasks: set[asyncio.Task[None]] = set()
        self._reloading = asyncio.Lock()

    async def serve(self, sockets: list[socket.socket]) -> None:
        """Serve until `drain` or `interrupt`, and until what was under way then has ended."""
        await self._server.serve(sockets)

    def drain(self) -> None:
        """Send new calls away for a second, then take none, and end when those under way have ended."""
        if self._app.state.draining:
            return  # a service manager tells every process of a group, and the parent tells its workers
        self._app.state.draining = True
        log.info("stopping: calls under way have %d s to end", GRACE_S)
        self._start(self._close_soon())

    def interrupt(self) -> None:
        """Take no more calls; the second time, do not wait for those under way either."""
        self._server.force_exit = self._server.should_exit
        self._server.should_exit = True

    def reload(self, reload: Reload) -> None:
        """Await `reload`, after those that were asked for before."""
        self._start(self._reload(reload)).add_done_callback(_reloaded)

    async def _close_soon(self) -> None:
        await asyncio.sleep(DRAIN_S)
        self._server.should_exit = True

    async def _reload(self, reload: Reload) -> None:
        # the last one to read the file must be the last one to put it in force
        async with self._reloading:
            await reload()

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


def _reloaded(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (fault := task.exception()) is not None:
        faulted(fault)


class Server(uvicorn.Server):
    """uvicorn's server, but signals are ours: it would end the process by the signal instead of with 0."""

    def __init__(self, config: uvicorn.Config, ready: Ready = announce) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        # what is there by now stays: to look through it again, for garbage, would hold all calls up for 60 ms a time
        gc.collect()
        gc.freeze()
        self._ready(sockets or [])

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield
