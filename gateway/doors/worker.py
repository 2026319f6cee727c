"""One of the processes that serve together: what its parent may ask of it, and what it tells.

Nothing of the web is imported before it runs, for the parent imports this.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import socket
import threading
from enum import StrEnum
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING

from gateway.doors.listening import WAITING
from gateway.doors.signals import TERMINALS, handling
from gateway.logs import set_up
from gateway.reloading import put_in_force
from gateway.settings import Config
from gateway.tally import Run

if TYPE_CHECKING:
    from gateway.doors.serving import Running
    from gateway.gateway import Gateway

log = logging.getLogger(__name__)

AT_ONCE = 1
"""Connections that a worker takes before it does any other work: one that took all would leave the others idle."""


class Order(StrEnum):
    """What a parent says. A `Config` means: put it in force; and a pipe that ends: there is no parent any more."""

    DRAIN = "drain"
    INTERRUPT = "interrupt"


class News(StrEnum):
    """What a worker says. `KEPT`: the configuration that was to be put in force is not, by a fault of our own."""

    READY = "ready"
    RELOADED = "reloaded"
    KEPT = "kept"


def work(pipe: Connection, sockets: list[socket.socket], config: Config, run: Run) -> None:
    """Serve on `sockets`, which others share, until the parent at the other end of `pipe` says or is no more."""
    for number in TERMINALS:
        signal.signal(number, signal.SIG_IGN)
    set_up(config)

    from gateway.doors.patience import raise_file_limit
    from gateway.doors.serving import Running
    from gateway.gateway import Gateway

    raise_file_limit()

    async def serve() -> None:
        gateway = Gateway(config, run=run)

        def ready(_: list[socket.socket]) -> None:
            obedience.start()
            _tell(pipe, News.READY)

        running = Running(gateway, ready, accept_at_once=AT_ONCE)
        loop = asyncio.get_running_loop()
        obedience = threading.Thread(target=_obey, args=(pipe, loop, running, gateway), daemon=True)
        with handling({"SIGTERM": running.drain}):
            await running.serve([Listener(fileno=each.detach()) for each in sockets])

    asyncio.run(serve())


class Listener(socket.socket):
    """A socket at which many may wait, however few are taken at once: asyncio has one number for both."""

    def listen(self, backlog: int = 0, /) -> None:
        super().listen(max(backlog, WAITING))


def _obey(pipe: Connection, loop: asyncio.AbstractEventLoop, running: Running, gateway: Gateway) -> None:
    """Let happen on `loop` what the parent says. To be run in a thread: not every system's loop can wait for a pipe."""
    with contextlib.suppress(RuntimeError):  # the loop is closed, and nobody needs to be told any more
        while True:
            try:
                said = pipe.recv()
            except (EOFError, OSError):
                # nobody would stop us any more, and who starts a new server needs the address
                log.warning("the parent is gone")
                loop.call_soon_threadsafe(running.drain)
                return
            if said is Order.DRAIN:
                loop.call_soon_threadsafe(running.drain)
            elif said is Order.INTERRUPT:
                loop.call_soon_threadsafe(running.interrupt)
            else:
                loop.call_soon_threadsafe(running.reload, lambda config=said: _go_on_with(config, gateway, pipe))


async def _go_on_with(config: Config, gateway: Gateway, pipe: Connection) -> None:
    news = News.KEPT
    try:
        await put_in_force(gateway, config)
        news = News.RELOADED
    finally:
        _tell(pipe, news)


def _tell(pipe: Connection, news: News) -> None:
    with contextlib.suppress(OSError):  # the parent is gone, which the other thread sees, too
        pipe.send(news)
