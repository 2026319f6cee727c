"""Connections that never get to the point are closed: nobody may hold a place for nothing."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_S = 20.0
"""Seconds in which a request's line and headers must have come."""
BODY_S = 30.0
"""Seconds in which the rest of a request must have come."""


class PatientProtocol(H11Protocol):
    """uvicorn's HTTP/1.1, but a request that has begun must go on: its own timer only covers idle connections."""

    _head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        super().connection_made(transport)
        self._await_head()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        cycle: Any = self.cycle
        if cycle is None or cycle.response_complete:
            self._await_head()
        else:
            self._forget_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget_head()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        self._forget_head()
        super().on_response_complete()

    def _await_head(self) -> None:
        if self._head_timer is None:
            self._head_timer = self.loop.call_later(HEAD_S, self._give_up)

    def _forget_head(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _give_up(self) -> None:
        self._head_timer = None
        self.transport.close()


def raise_file_limit() -> None:
    """Let this process have as many connections as the system allows it to ask for."""
    if sys.platform == "win32":
        return
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (OSError, ValueError):
            return  # some systems refuse "unlimited"; what was given before stays
