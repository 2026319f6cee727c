"""What the processes of a parent under test do instead of serving. Each is called as a worker is.

They say themselves what should happen next: a signal to their parent, when they are ready for it.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import Any

from gateway.doors.signals import TERMINALS
from gateway.doors.worker import News
from gateway.settings import Config


def cannot_start(pipe: Connection, sockets: list[Any], config: Config, run: Any) -> None:
    """End before it is ready."""
    raise SystemExit(5)


def falls_four_times(pipe: Connection, sockets: list[Any], config: Config, run: Any) -> None:
    """End as soon as it is ready; the fifth time, tell the parent to stop."""
    with _ready(pipe):
        assert config.state.path
        with config.state.path.open("a") as file:
            file.write(".")
        if config.state.path.stat().st_size < 5:
            raise SystemExit(7)
        os.kill(os.getppid(), signal.SIGTERM)
        pipe.recv()


def never_ends(pipe: Connection, sockets: list[Any], config: Config, run: Any) -> None:
    """Tell the parent to stop, and do nothing of the kind."""
    with _ready(pipe):
        os.kill(os.getppid(), signal.SIGTERM)
        while True:
            signal.pause()


def never_ends_for_a_person(pipe: Connection, sockets: list[Any], config: Config, run: Any) -> None:
    """The same, as if somebody pressed Ctrl-C, and again when nothing came of it."""
    with _ready(pipe):
        os.kill(os.getppid(), signal.SIGINT)
        pipe.recv()
        os.kill(os.getppid(), signal.SIGINT)
        while True:
            signal.pause()


def keeps_the_old(pipe: Connection, sockets: list[Any], config: Config, run: Any) -> None:
    """Ask for reloads; the first cannot be put in force, the second can."""
    with _ready(pipe):
        for news in (News.KEPT, News.RELOADED):
            os.kill(os.getppid(), signal.SIGHUP)
            pipe.recv()
            pipe.send(news)
        os.kill(os.getppid(), signal.SIGTERM)
        pipe.recv()


def is_ready_too_late(pipe: Connection, sockets: list[Any], config: Config, run: Any) -> None:
    """Be told to end before it is ready, and be ready all the same."""
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    os.kill(os.getppid(), signal.SIGTERM)
    signal.sigwait([signal.SIGTERM])
    pipe.send(News.READY)


def asks_to_reload(pipe: Connection, sockets: list[Any], config: Config, run: Any) -> None:
    """Ask for a reload, and do as the parent says then."""
    with _ready(pipe):
        os.kill(os.getppid(), signal.SIGHUP)
        pipe.recv()


def ends_by_a_signal_without_a_name(pipe: Connection, sockets: list[Any], config: Config, run: Any) -> None:
    """Be killed by one of those that every program may give a meaning of its own."""
    os.kill(os.getpid(), signal.SIGRTMIN + 6)


def hears_a_terminal(pipe: Connection, sockets: list[Any], config: Config, run: Any) -> None:
    """End with the number of a terminal's signals that it would have heard while it started."""
    raise SystemExit(len(set(TERMINALS) - signal.pthread_sigmask(signal.SIG_BLOCK, [])))


@contextmanager
def _ready(pipe: Connection) -> Iterator[None]:
    pipe.send(News.READY)
    yield
