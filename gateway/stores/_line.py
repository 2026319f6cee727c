"""One connection to a Redis server: commands go out as they come, replies come back in the same order."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import re
import socket
from collections import deque
from typing import Any, Protocol, cast
from urllib.parse import parse_qsl, urlencode, urlsplit

from redis.asyncio.connection import Connection as OverTCP
from redis.asyncio.connection import parse_url
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError, ResponseError

Command = tuple[str | bytes | int, ...]

LOOKS = 4
"""How often a silent line is looked at before it is given up. A loop that was held up meanwhile counts one look."""

OURS: dict[str, Any] = {
    "protocol": 2,
    "decode_responses": False,
    "retry": Retry(NoBackoff(), 0),  # its own retries cost 3.3 s with a dead server
    "socket_timeout": None,  # a timer that fires together with the reply would win over it
    "socket_connect_timeout": None,
    "health_check_interval": 0,
    "driver_info": None,  # one round trip less, and one command less that an access list has to allow
}
"""What an address cannot change."""

OPTIONS = {"username", "password", "db", "client_name", "socket_keepalive", "socket_read_size", *OURS}
"""What may stand behind the `?` of an address, beside all that begins with `ssl_`: redis-py takes more, which no
text can be, and fails only when it connects."""


class Connection(Protocol):
    """What we use of redis-py, whose own annotations are too loose for us."""

    async def connect(self) -> None: ...

    def pack_command(self, *command: str | bytes | int) -> list[bytes]: ...

    async def send_packed_command(self, command: list[bytes], check_health: bool) -> None: ...

    async def read_response(self) -> Any: ...

    async def disconnect(self, nowait: bool) -> None: ...


def connection(url: str) -> Connection:
    """A connection to be made. Raises ValueError, with words to be read after the address, and none of its values."""
    scheme = url.partition(":")[0]
    for name, value in parse_qsl(url.partition("?")[2]):
        named = f": {name}" if re.fullmatch(r"\w{1,40}", name) else ""
        if name not in OPTIONS and not name.startswith("ssl_"):
            raise ValueError(f"holds an option that there is not{named}")
        try:
            _built(f"{scheme}:///?{urlencode({name: value})}")
        except TypeError:
            raise ValueError(f"holds an option that {scheme}:// does not have{named}") from None
        except (RedisError, ValueError):
            raise ValueError(f"holds an option with a value that cannot be{named}") from None
    return _built(url)


def _built(url: str) -> Connection:
    options: dict[str, Any] = {**parse_url(url), **OURS}
    return cast(Connection, options.pop("connection_class", OverTCP)(**options))


CONNECT_S = 5.0
"""Seconds that a connection may take to be made once the name is known, however long anybody waits for it: one attempt
that succeeds late is worth more than many that are broken off."""


class Silent(Exception):  # noqa: N818 -- it is a state, and reads as one
    """Nothing was heard for as long as we wait."""


class Unmet(Silent):
    """The connection was not made for as long as we wait; it may still be."""


class Lost:
    """Instead of a reply: none will come because of `error`. The command may have been carried out all the same."""

    def __init__(self, error: Exception) -> None:
        self.error = error


class Line:
    """A connection at work. It is watched even when nobody asks: what was closed from afar is not used again.

    Whoever waits does so for `patience_s` seconds of silence at most, and before for as long, or half as long when it
    is `urgent`, until the connection is made. What waited in vain for a connection is not sent any more. One line is
    enough for a process: a server does one thing at a time, too.
    """

    def __init__(self, url: str, patience_s: float, urgent: bool) -> None:
        """Raises ValueError as `connection` does."""
        self.is_made = False
        self.lost: Lost | None = None
        self._url = url
        self._connection = connection(url)
        self._patience_s = patience_s
        self._looks = LOOKS // 2 if urgent else LOOKS
        self._unsent: list[bytes] = []
        self._waiting: deque[asyncio.Future[Any]] = deque()
        self._asked = asyncio.Event()
        self._silent_looks = 0
        self._next_look: asyncio.Handle | None = None
        self._met = asyncio.Event()
        self._work = asyncio.create_task(self._connect_and_read())

    def ask(self, command: Command) -> asyncio.Future[Any]:
        """The reply to come, a ResponseError if it is one, or `Lost`."""
        self._unsent += self._connection.pack_command(*command)
        self._asked.set()
        reply = asyncio.get_running_loop().create_future()
        self._waiting.append(reply)
        if len(self._waiting) == 1:
            self._silent_looks = 0
            self._look_later()
        return reply

    async def until_met(self, limit_s: float | None = None) -> None:
        """Until the connection is made or lost, `limit_s` seconds at most."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limit_s):
                await self._met.wait()

    def give_up(self, error: Exception) -> None:
        """Let the connection go, and tell all who wait why."""
        self._work.cancel()
        self._end(error)

    async def aclose(self) -> None:
        """Let the connection go; returns when it has gone."""
        self.give_up(Silent())
        await asyncio.wait([self._work])

    async def _connect_and_read(self) -> None:
        sending = None
        try:
            await self._look_up()
            async with asyncio.timeout(CONNECT_S):
                await self._connection.connect()
            self._begin()
            sending = asyncio.create_task(self._send())
            while True:
                try:
                    reply = await self._connection.read_response()
                except ResponseError as refusal:
                    reply = refusal
                self._heard(reply)
        except TimeoutError:
            self._end(Unmet())
        except (RedisError, OSError, ValueError) as error:  # a ValueError: bytes that are no reply
            self._end(error)
        finally:
            if sending is not None:
                sending.cancel()
            await self._connection.disconnect(nowait=True)

    async def _look_up(self) -> None:
        """Until the name's address is known: a lookup that is broken off goes on in its thread, and threads are few.

        redis-py asks for it again, and gets the answer that was just given.
        """
        at = urlsplit(self._url)
        if at.scheme != "unix" and not _is_ip(at.hostname or ""):
            await asyncio.get_running_loop().getaddrinfo(at.hostname, at.port, type=socket.SOCK_STREAM)

    def _begin(self) -> None:
        self.is_made = True
        self._met.set()
        self._looks = LOOKS
        self._look_no_more()
        if self._waiting:  # only now are they sent
            self._silent_looks = 0
            self._look_later()

    async def _send(self) -> None:
        try:
            while True:
                await self._asked.wait()
                self._asked.clear()
                commands, self._unsent = self._unsent, []
                await self._connection.send_packed_command(commands, check_health=False)
        except (RedisError, OSError) as error:
            self.give_up(error)

    def _heard(self, reply: Any) -> None:
        if not self._waiting:
            raise RedisError("a reply that nobody asked for")
        self._silent_looks = 0
        self._answer(reply)
        if not self._waiting:
            self._look_no_more()

    def _end(self, error: Exception) -> None:
        self.lost = Lost(error)
        self._met.set()
        self._tell_all(self.lost)

    def _tell_all(self, lost: Lost) -> None:
        self._look_no_more()
        while self._waiting:
            self._answer(lost)

    def _answer(self, reply: Any) -> None:
        waiting = self._waiting.popleft()
        if not waiting.done():  # whoever waited may have left
            waiting.set_result(reply)

    # -----------------------------------------------------------------------------------------------------------------
    # silence

    def _look(self) -> None:
        self._silent_looks += 1
        if self._silent_looks < self._looks + 2:
            self._look_later()
        elif self.is_made:
            self.give_up(Silent())
        else:
            self._unsent.clear()
            self._tell_all(Lost(Unmet()))

    def _look_later(self) -> None:
        loop = asyncio.get_running_loop()
        if self._silent_looks < self._looks:
            self._next_look = loop.call_later(self._patience_s / LOOKS, self._look)
        else:
            # a reply may have come in the very moment of the last look: it is read before these two
            self._next_look = loop.call_soon(self._look)

    def _look_no_more(self) -> None:
        if self._next_look is not None:
            self._next_look.cancel()
            self._next_look = None


def _is_ip(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
