"""The gateway in a process of its own: the command line once, or `serve` until the test is over."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import signal
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import anyio
import httpx2

from tests.doors_fixtures import call
from tests.forking import ROOT, Forked, is_forkable


@contextmanager
def logging_undone() -> Iterator[None]:
    """All that the block does to logging is undone at its end."""
    root, ours, theirs = logging.getLogger(), logging.getLogger("gateway"), logging.getLogger("providers")
    levels, handlers = [(each, each.level) for each in (root, ours, theirs)], root.handlers[:]
    try:
        yield
    finally:
        root.handlers[:] = handlers
        for each, level in levels:
            each.setLevel(level)


class Ended(NamedTuple):
    """What a command left."""

    code: int
    stdout: bytes
    stderr: bytes

    @property
    def json(self) -> Any:
        """The one JSON object on stdout, if that is all there is."""
        assert self.stdout.count(b"\n") == 1, self.stdout
        return json.loads(self.stdout)

    @property
    def out(self) -> str:
        return self.stdout.decode()

    @property
    def err(self) -> str:
        return self.stderr.decode()


def environment(home: Path, **environ: str) -> dict[str, str]:
    """Nothing of this machine's but how to run Python; everything lies in `home`."""
    kept = {name: os.environ[name] for name in ("PATH", "SYSTEMROOT") if name in os.environ}
    return kept | {"HOME": str(home), "TZ": "UTC", "WEBSEARCH_STATE": str(home / "state")} | environ


def written(file: Path, content: object) -> Path:
    """`file` as a configuration that nobody else can read."""
    file.write_text(json.dumps(content), encoding="utf-8")
    file.chmod(0o600)
    return file


class Process:
    """A forked one for a loop; as an `asyncio.subprocess.Process` as far as it goes."""

    def __init__(self, forked: Forked, stdout: asyncio.StreamReader, stderr: asyncio.StreamReader) -> None:
        self.pid = forked.pid
        self.stdout = stdout
        self.stderr = stderr
        self.send_signal = forked.send_signal
        self.kill = forked.kill
        self._forked = forked

    @classmethod
    async def start(cls, *arguments: str, stdin: int, environ: Mapping[str, str]) -> Process:
        forked = Forked("gateway", *arguments, stdin=stdin, environ=environ)
        streams = asyncio.StreamReader(), asyncio.StreamReader()
        for stream, pipe in zip(streams, (forked.stdout, forked.stderr), strict=True):
            await asyncio.get_running_loop().connect_read_pipe(partial(asyncio.StreamReaderProtocol, stream), pipe)
        return cls(forked, *streams)

    @property
    def returncode(self) -> int | None:
        return self._forked.returncode

    async def communicate(self, given: bytes | None = None) -> tuple[bytes, bytes]:
        if (pipe := self._forked.stdin) is not None:
            with suppress(BrokenPipeError), pipe:
                await anyio.to_thread.run_sync(pipe.write, given or b"")
        out, err = await asyncio.gather(self.stdout.read(), self.stderr.read())
        await self.wait()
        return out, err

    async def wait(self) -> int:
        if self.returncode is None:
            await anyio.wait_readable(self._forked.status)
        code = self._forked.wait()
        self._forked.status.close()
        return code


async def started(
    *arguments: str, environ: Mapping[str, str], stdin: int = asyncio.subprocess.DEVNULL
) -> asyncio.subprocess.Process | Process:
    """`python -m gateway` with `arguments` and pipes."""
    if is_forkable(environ):
        return await Process.start(*arguments, stdin=stdin, environ=environ)
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "gateway", *arguments),
        stdin=stdin,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        cwd=ROOT,
        env=environ,
    )


async def command(
    home: Path, *arguments: str, stdin: bytes | int = asyncio.subprocess.DEVNULL, **environ: str
) -> Ended:
    """Run `python -m gateway` with `arguments` to its end. Raises TimeoutError."""
    given = isinstance(stdin, bytes)
    process = await started(
        *arguments,
        stdin=asyncio.subprocess.PIPE if given else stdin,  # type: ignore[arg-type]
        environ=environment(home, **environ),
    )
    try:
        async with asyncio.timeout(30):
            out, err = await process.communicate(stdin if given else None)  # type: ignore[arg-type]
    finally:
        with suppress(ProcessLookupError):
            process.kill()
    assert process.returncode is not None
    return Ended(process.returncode, out, err)


class Serving:
    """A `serve` process: what it said so far, and a client that talks to it."""

    def __init__(self, process: asyncio.subprocess.Process | Process, headers: Mapping[str, str]) -> None:
        self.process = process
        self.stderr = b""
        self.stdout = b""
        self.url = ""
        self.client = httpx2.AsyncClient(headers=dict(headers), timeout=30, trust_env=False)
        self._news = asyncio.Event()
        self._ended = False
        self._readers = [asyncio.create_task(self._read("stderr")), asyncio.create_task(self._read("stdout"))]

    async def _read(self, name: str) -> None:
        stream: asyncio.StreamReader = getattr(self.process, name)
        while chunk := await stream.read(65536):
            setattr(self, name, getattr(self, name) + chunk)
            self._news.set()
        self._ended = True
        self._news.set()

    async def until_logged(self, pattern: str, *, after: int = 0, limit_s: float = 20) -> re.Match[bytes]:
        """Wait for `pattern` in what was logged after the first `after` bytes. Raises TimeoutError."""
        async with asyncio.timeout(limit_s):
            while (found := re.search(pattern.encode(), self.stderr[after:])) is None:
                assert not self._ended, self.stderr.decode(errors="replace")
                self._news.clear()
                await self._news.wait()
        return found

    async def until_ready(self, limit_s: float = 20) -> None:
        """Wait until it serves. Raises TimeoutError."""
        found = await self.until_logged(r"listening on http://(?:127\.0\.0\.1|0\.0\.0\.0):(\d+)/mcp", limit_s=limit_s)
        self.url = f"http://127.0.0.1:{found[1].decode()}"
        async with asyncio.timeout(limit_s):
            while True:
                with suppress(httpx2.TransportError):
                    await self.client.get(f"{self.url}/healthz")
                    return
                await asyncio.sleep(0.01)  # bound, and not listening yet

    async def until_workers(self, *numbers: int, after: int = 0) -> dict[int, int]:
        """Wait until these workers have said that they are ready: their processes, by number. Raises TimeoutError."""
        lines = {each: rf"worker {each} is ready: process (\d+)" for each in numbers}
        return {each: int((await self.until_logged(line, after=after))[1]) for each, line in lines.items()}

    async def reload(self) -> str:
        """Send SIGHUP: the line that says what came of it."""
        before = len(self.stderr)
        self.process.send_signal(signal.SIGHUP)
        return (await self.until_logged(r"reload: [^\n]*", after=before))[0].decode()

    async def post(self, tool: str = "web_search", **arguments: Any) -> httpx2.Response:
        return await self.client.post(f"{self.url}/mcp", json=call(arguments, tool))

    async def search(self, query: str = "moss", **arguments: Any) -> dict[str, Any]:
        """The answer object."""
        response = await self.post(query=query, **arguments)
        body: dict[str, Any] = response.json()["result"]["structuredContent"]
        return body

    async def status(self) -> dict[str, Any]:
        body: dict[str, Any] = (await self.post("web_search_status")).json()["result"]["structuredContent"]
        return body

    async def end(self, number: int = signal.SIGTERM) -> int:
        """Send a signal and wait: the exit code."""
        with suppress(ProcessLookupError):
            self.process.send_signal(number)
        async with asyncio.timeout(20):
            code = await self.process.wait()
            await asyncio.gather(*self._readers)
        await self.client.aclose()
        return code


@asynccontextmanager
async def serving(
    home: Path, *arguments: str, headers: Mapping[str, str] | None = None, **environ: str
) -> AsyncIterator[Serving]:
    """`serve` over the configuration that `environ` names, ready to be called; killed at the end."""
    process = await started("serve", *arguments, environ=environment(home, **environ))
    running = Serving(process, headers or {})
    try:
        await running.until_ready()
        yield running
    finally:
        await running.end(signal.SIGKILL)
