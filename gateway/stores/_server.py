"""A Redis server that may be slow, gone or not ready: one retry, then a breaker that closes by itself."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import socket
import ssl
from contextlib import suppress
from typing import Any

from redis.exceptions import AuthenticationError, ConnectionError, NoScriptError, RedisError, ResponseError

from gateway import addresses
from gateway.stores import StoreUnavailable
from gateway.stores._line import Command, Line, Lost, Silent, Unmet
from providers._reading import redact, spellings

log = logging.getLogger(__name__)

UNREADY = {
    "LOADING": "is still loading its data",
    "MASTERDOWN": "is a replica that has lost its master",
    "READONLY": "is a replica that cannot be written",
    "NOAUTH": "asks for a password",
    "WRONGPASS": "refuses our password",
}
"""Refusals that hold for every command until something has changed on the server, or another one has its name."""

FOREIGN = "holds something of another program under our prefix"

REFUSALS = {
    **UNREADY,
    "OOM": "is full",
    "MISCONF": "cannot save to its disk",
    "NOREPLICAS": "has too few replicas to be written",
    "NOPERM": "does not allow our user what we need",
    "WRONGTYPE": FOREIGN,
    "BUSY": "is busy with a script",
    **dict.fromkeys(("MOVED", "ASK", "CROSSSLOT", "CLUSTERDOWN"), "is part of a cluster, which is not supported"),
}


class Server:
    """The server at an address. Its verbs raise `StoreUnavailable`, at once while the server is known to be away."""

    def __init__(self, url: str, probe: Command, patience_s: float, again_s: float) -> None:
        """`probe` is a harmless write; while the server is away it is tried every `again_s` seconds.

        Nothing is connected before the first question. `patience_s`: seconds of silence after which a server is away.
        """
        self.name = addresses.public(url)
        self._url = url
        self._probe = probe
        self._patience_s = patience_s
        self._again_s = again_s
        self._secrets = spellings(addresses.inserted(url))
        self._line: Line | None = None
        self._away: str | None = None
        self._probing: asyncio.Task[None] | None = None

    async def meet(self, limit_s: float) -> None:
        """Connect, and wait for that `limit_s` seconds at most. What comes of it the next question tells."""
        with suppress(StoreUnavailable):
            await self._connected(urgent=False).until_met(limit_s)

    async def ask(self, *command: str | bytes | int) -> Any:
        """The reply to `command`, which may be carried out twice. Raises `StoreUnavailable`, or NoScriptError."""
        if self._away is not None:
            raise StoreUnavailable(self._away)
        line = self._line
        may_be_stale = line is not None and line.is_made and not line.lost
        reply = await self._try(command)
        if isinstance(reply, Lost) and may_be_stale and self._away is None:
            reply = await self._try(command, urgent=True)
        if not isinstance(reply, Lost):
            return reply
        words = self._away or f"{self.name} {self._told(reply.error)}"
        self._leave(words)
        raise StoreUnavailable(words)

    async def aclose(self) -> None:
        """Let go of the connection; the next question makes another."""
        self._away = f"{self.name} is being left"  # who waits for a reply does not try again
        if self._probing is not None:
            self._probing.cancel()
            await asyncio.wait([self._probing])
            self._probing = None
        if self._line is not None:
            await self._line.aclose()
            self._line = None
        self._away = None

    async def _try(self, command: Command, urgent: bool = False) -> Any:
        """The reply, or `Lost`. Raises `StoreUnavailable` when this command alone is refused, or NoScriptError."""
        line = self._connected(urgent)
        reply = await line.ask(command)
        if not isinstance(reply, ResponseError):
            return reply
        if isinstance(reply, NoScriptError):
            raise reply
        if _code(reply) in UNREADY:
            lost = Lost(reply)
            line.give_up(reply)  # after a failover another server may answer to the same name
            return lost
        raise StoreUnavailable(f"{self.name} {self._told(reply)}")

    def _connected(self, urgent: bool) -> Line:
        """A line that is not lost, though perhaps not made yet. Raises `StoreUnavailable`."""
        if self._line is None or self._line.lost:
            try:
                self._line = Line(self._url, self._patience_s, urgent)
            except ValueError as error:
                raise StoreUnavailable(f"{self.name} cannot be used: its address {error}") from None
        return self._line

    # -----------------------------------------------------------------------------------------------------------------
    # the breaker

    def _leave(self, words: str) -> None:
        if self._away is None:
            log.warning("state: %s", words)
            self._away = words
            self._probing = asyncio.create_task(self._probe_until_back())

    async def _probe_until_back(self) -> None:
        while self._away is not None:
            if self._line is None or self._line.lost:
                await asyncio.sleep(self._again_s)
            try:
                line = self._connected(urgent=False)
                await line.until_met()
                reply = line.lost or await self._try(self._probe)
            except StoreUnavailable:
                reply = None  # it answers: what it refuses, and to whom, each verb tells by itself
            if isinstance(reply, Lost):
                self._away = f"{self.name} {self._told(reply.error)}"
            else:
                self._away = None
                log.info("state: %s is back", self.name)

    def _hidden(self, words: str) -> str:
        return redact(words, self._secrets)

    def _told(self, error: Exception) -> str:
        """What `error` means, to be read after the server's name; never user, password or query."""
        if isinstance(error, Unmet):
            return f"cannot be connected to within {self._patience_s * 1000:.0f} ms"
        if isinstance(error, Silent):
            return f"does not answer within {self._patience_s * 1000:.0f} ms"
        if isinstance(error.__cause__, RedisError):  # redis-py wraps what goes wrong on a Unix socket
            error = error.__cause__
        code = _code(error)
        if code in REFUSALS:
            return REFUSALS[code]
        if isinstance(error, AuthenticationError):
            return f"refuses our user or password: {self._hidden(str(error))}"
        if isinstance(error, ResponseError):
            # a server repeats what it does not understand, and it may not understand our password
            return f"refuses: {self._hidden(str(error))}"
        cause = error if isinstance(error, OSError) else error.__context__
        if isinstance(cause, OSError):
            return f"cannot be reached: {_cause(cause)}"
        if isinstance(error, ConnectionError):
            return f"ended the connection: {self._hidden(str(error))}"
        return f"cannot be used: {self._hidden(str(error))}"


def _cause(error: OSError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"certificate {error.verify_message}"
    if not error.errno and (numbers := re.findall(r"\[Errno (\d+)\]", str(error))):
        return os.strerror(int(numbers[0]))  # a name with several addresses: asyncio tells all of them in one
    if isinstance(error, ssl.SSLError | socket.gaierror) or not error.errno:
        return error.strerror or str(error)
    return os.strerror(error.errno)  # asyncio's own words for it name addresses


def _code(error: Exception) -> str:
    """The word that a refusal begins with. Redis 6 wraps what goes wrong inside a script."""
    code: str | None = getattr(error, "status_code", None)
    if code is not None and code != "ERR":
        return code
    found = re.search(r"(?:^|: -?)([A-Z]+) ", str(error))
    return found[1] if found else ""
