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


@contextmanager
def _ready(pipe: Connection) -> Iterator[None]:
    pipe.send(News.READY)
    yield
