"""How a process takes signals: handled on a loop, read as numbers, or kept from those it starts."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
from collections.abc import Callable, Iterator
from multiprocessing import resource_tracker
from typing import Any

TERMINALS = tuple(number for name in ("SIGINT", "SIGHUP") if (number := getattr(signal, name, None)) is not None)
"""Signals that a terminal sends to every process of a group: they are for the parent, who says what follows."""


@contextlib.contextmanager
def handling(handlers: dict[str, Callable[[], None]]) -> Iterator[None]:
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


@contextlib.contextmanager
def numbers() -> Iterator[socket.socket]:
    """Where to read the numbers of the signals that come, a byte each: SIGTERM, SIGINT and SIGHUP."""
    reader, writer = socket.socketpair()
    writer.setblocking(False)
    woken = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
    taken = [getattr(signal, name) for name in ("SIGTERM", "SIGINT", "SIGHUP") if hasattr(signal, name)]
    previous = {number: signal.signal(number, lambda *_: None) for number in taken}
    try:
        yield reader
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(woken)
        reader.close()
        writer.close()


@contextlib.contextmanager
def deaf() -> Iterator[None]:
    """Who is started in here does not hear a terminal's signals, not even while it starts; ours come afterwards.

    Raises OSError when the system has no process more.
    """
    if not hasattr(signal, "pthread_sigmask"):
        previous = {number: signal.signal(number, signal.SIG_IGN) for number in TERMINALS}
        try:
            yield
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)
        return
    # they are not ignored as well, for that would drop one that has come since they were blocked
    heard = signal.pthread_sigmask(signal.SIG_BLOCK, TERMINALS)
    try:
        # multiprocessing has a process of its own, which the first start would bring along: that lets SIGINT in again
        resource_tracker.ensure_running()
        signal.pthread_sigmask(signal.SIG_BLOCK, TERMINALS)
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, heard)


def named(number: int) -> str:
    """What the signal is called; those without a meaning of their own have but a number."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
