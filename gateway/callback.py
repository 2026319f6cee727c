"""The browser's way back from a login: one page on this machine, for one answer."""

from __future__ import annotations

import asyncio
import errno
import secrets
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Self
from urllib.parse import parse_qs, urlsplit

from providers._reading import one_line

HOST = "127.0.0.1"

HEAD_S = 10.0
"""Seconds in which a request must be whole; browsers also open connections that they never use."""

MOST_HEAD = 16 * 1024


class LoginFailed(Exception):  # noqa: N818 -- it is what came of it
    """There is no login: why, in words that hold no secret."""


class Callback:
    """Listens on loopback at `path` for the answer that belongs to `state`: `async with Callback(…) as callback`.

    Whoever asks for anything else is told so in his browser, and `say` tells it here; it ends nothing.
    """

    def __init__(self, port: int, path: str, state: str, say: Callable[[str], None]) -> None:
        """`port` 0 takes a free one."""
        self._port = port
        self._path = path
        self._state = state
        self._say = say
        self._writers: set[asyncio.StreamWriter] = set()

    async def __aenter__(self) -> Self:
        """Raises `LoginFailed` when it cannot listen."""
        self._answer: asyncio.Future[str | LoginFailed] = asyncio.get_running_loop().create_future()
        try:
            self._server = await asyncio.start_server(self._serve, HOST, self._port, limit=MOST_HEAD)
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                words = f"port {self._port} is in use, perhaps by another login: end that one, or choose a --port"
            else:
                words = f"port {self._port} cannot be had: {error.strerror}"
            raise LoginFailed(words) from None
        port = self._server.sockets[0].getsockname()[1]
        self.uri = f"http://{HOST}:{port}{self._path}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        for writer in tuple(self._writers):
            writer.transport.abort()
        await self._server.wait_closed()

    async def code(self, limit_s: float) -> str:
        """The code that the browser brings within `limit_s` seconds. Raises `LoginFailed`, also for a refusal."""
        try:
            async with asyncio.timeout(limit_s):
                answer = await self._answer
        except TimeoutError:
            raise LoginFailed(f"nobody came back from the browser within {limit_s:g} s") from None
        if isinstance(answer, LoginFailed):
            raise answer
        return answer

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            async with asyncio.timeout(HEAD_S):
                head = await reader.readuntil(b"\r\n\r\n")
            status, words = self._reply(head)
            body = f"{words}\n".encode()
            told = f"HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {len(body)}\r\n"
            # the address of this page holds the code: nobody may keep it, or hear of it
            told += "Cache-Control: no-store\r\nReferrer-Policy: no-referrer\r\nConnection: close\r\n\r\n"
            writer.write(told.encode() + body)
            await writer.drain()
        except (TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError):
            pass  # not a browser with an answer
        finally:
            self._writers.discard(writer)
            writer.close()

    def _reply(self, head: bytes) -> tuple[str, str]:
        """What to say to a request, and what follows from it."""
        line = head.split(b"\r\n", 1)[0].decode("latin-1").split(" ")
        if len(line) != 3 or line[0] != "GET":
            return "405 Method Not Allowed", "Only a browser that comes back from a login is expected here."
        try:
            target = urlsplit(line[1])
            given = parse_qs(target.query, keep_blank_values=True, max_num_fields=32)
        except ValueError:
            return "400 Bad Request", "This address cannot be read."
        if target.path != self._path:
            return "404 Not Found", f"Nothing is here; logins come back to {self._path}."
        if not secrets.compare_digest(_one(given, "state").encode(), self._state.encode()):
            self._say("an answer came that belongs to another login (its state is not ours); still waiting")
            return "400 Bad Request", "This answer belongs to another login. Use the address that was printed last."
        if self._answer.done():
            return "409 Conflict", "This login has had its answer already. You can close this page."
        if error := _one(given, "error"):
            words = f"{error[:80]} {_one(given, 'error_description')[:300]}"
            self._answer.set_result(LoginFailed(f"the vendor refused: {one_line(words)}"))
            return "200 OK", "The login was refused. The terminal says more; you can close this page."
        code = _one(given, "code")
        if not code:
            self._answer.set_result(LoginFailed("the answer holds no code"))
            return "400 Bad Request", "The answer holds no code. You can close this page."
        self._answer.set_result(code)
        return "200 OK", "The answer has arrived. The terminal says how it goes on; you can close this page."


def _one(given: Mapping[str, list[str]], name: str) -> str:
    """The only value of `name`; "" when there is none, or several."""
    values = given.get(name, [])
    return values[0] if len(values) == 1 else ""
