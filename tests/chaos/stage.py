"""What every trial stands on: a configuration, serving processes, callers who never pause, and claims."""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import os
import signal
import socket
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.doors_fixtures import call
from tests.processes import ROOT, environment
from tests.vendors import Played, configuration

TOKEN = "chaos-token-of-many-signs"
BEARER = {"Authorization": f"Bearer {TOKEN}"}
GONE = (ConnectionError, asyncio.IncompleteReadError, OSError)


def check(claim: str, holds: bool) -> bool:
    print(f"  {'ok  ' if holds else 'FAIL'}  {claim}", flush=True)
    return holds


def content(played: Played, providers: list[dict[str, Any]], port: int, **sections: Any) -> dict[str, Any]:
    """The file of a gateway over `played` that lets in whoever has `TOKEN`."""
    server = {"port": port, "tokens": [{"name": "chaos", "token": TOKEN}]}
    return configuration(played, [{"min_interval_ms": 0} | each for each in providers], server=server, **sections)


def free_ports(number: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        held = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(number)]
        return [each.getsockname()[1] for each in held]


def percentile(values: Sequence[float], part: float) -> float:
    """The smallest value that is no less than `part` of all."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, math.ceil(part * len(ordered)) - 1)] if ordered else math.nan


# ---------------------------------------------------------------------------------------------------------------------
# bare sockets: what a client library costs is not the gateway's


class Line:
    """One connection, opened when it is needed; a lost one is opened anew."""

    def __init__(self, port: int) -> None:
        self.port = port
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def post(self, message: object, **headers: str) -> tuple[int, dict[str, Any]]:
        """Status and body. Raises one of `GONE`."""
        body = json.dumps(message).encode()
        heads = {"Host": "x", "Authorization": f"Bearer {TOKEN}", "Content-Length": str(len(body))}
        heads |= {name.replace("_", "-"): value for name, value in headers.items()}
        try:
            if self._writer is None:
                self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self.port)
            assert self._reader is not None
            self._writer.write("\r\n".join(["POST /mcp HTTP/1.1", *(f"{a}: {b}" for a, b in heads.items())]).encode())
            self._writer.write(b"\r\n\r\n" + body)
            head = (await self._reader.readuntil(b"\r\n\r\n")).lower()
            length = int(head.partition(b"content-length:")[2].split(b"\r\n")[0])
            answer = await self._reader.readexactly(length)
        except BaseException:
            self.close()
            raise
        if b"connection: close" in head:
            self.close()
        return int(head.split()[1]), json.loads(answer) if answer else {}

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
        self._reader = self._writer = None


def meta_of(body: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = body["result"]["structuredContent"]["meta"]
    return found


async def is_served(port: int) -> bool:
    """Whether somebody answers: a parent listens before its workers do anything."""
    try:
        async with asyncio.timeout(1):
            await Line(port).post(call({}, "web_search_status"), Connection="close")
    except (*GONE, TimeoutError):
        return False
    return True


async def until_served(port: int, process: asyncio.subprocess.Process, limit_s: float = 60) -> None:
    async with asyncio.timeout(limit_s):
        while not await is_served(port):
            assert process.returncode is None, "it ended before it served"
            await asyncio.sleep(0.02)


async def until_any_served(ports: Sequence[int], limit_s: float = 60) -> None:
    async with asyncio.timeout(limit_s):
        while not any([await is_served(port) for port in ports]):
            await asyncio.sleep(0.05)


@dataclass
class Told:
    """One answered search: when it ended, how long it took, what it said."""

    at: float
    took_s: float
    status: int
    meta: dict[str, Any]


@dataclass
class Load:
    """Callers who search without a pause, each time for something else; `lost` are those that got no answer."""

    ports: Sequence[int]
    callers: int
    in_flight: int = 0
    lost: int = 0
    answers: list[Told] = field(default_factory=list)
    number: int = 0

    @property
    def found(self) -> int:
        return sum(each.meta.get("verdict") == "found" for each in self.answers)

    @property
    def refused(self) -> int:
        """Those whom the budget let ask nobody."""
        return sum(
            any(step["outcome"] == "skipped:quota_local" for step in each.meta.get("fallback_chain", ()))
            for each in self.answers
        )

    @property
    def others(self) -> Counter[str]:
        """What all the rest were told, and how often."""
        told = Counter(f"{each.status} {each.meta.get('fallback_chain')}" for each in self.answers)
        found = Counter(
            f"{each.status} {each.meta.get('fallback_chain')}"
            for each in self.answers
            if each.meta.get("verdict") == "found" or "skipped:quota_local" in str(each.meta.get("fallback_chain"))
        )
        return told - found

    @asynccontextmanager
    async def going_on(self) -> AsyncIterator[None]:
        """Call until the block ends."""
        calling = [asyncio.create_task(self._call(Line(self.ports[n % len(self.ports)]))) for n in range(self.callers)]
        try:
            yield
        finally:
            for each in calling:
                each.cancel()
            await asyncio.wait(calling)
            for each in calling:
                if not each.cancelled():
                    each.result()

    async def _call(self, line: Line) -> None:
        while True:
            self.number += 1
            self.in_flight += 1
            started = time.perf_counter()
            try:
                status, body = await line.post(call({"query": f"chaos {self.number}", "use_cache": False}))
            except GONE:
                self.lost += 1
                await asyncio.sleep(0.05)
            else:
                now = time.perf_counter()
                self.answers.append(Told(now, now - started, status, meta_of(body) if status == 200 else {}))
            finally:
                self.in_flight -= 1


# ---------------------------------------------------------------------------------------------------------------------
# processes


async def start(home: Path, config: Path, *arguments: str, log: Path | None = None) -> asyncio.subprocess.Process:
    """A `serve` process that logs warnings, to `log` if there is one."""
    environ = environment(home, WEBSEARCH_CONFIG=str(config), WEBSEARCH_LOG="warn")
    del environ["WEBSEARCH_STATE"]
    with open(log, "ab") if log else contextlib.nullcontext() as errors:
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "gateway", "serve", *arguments),
            stdin=asyncio.subprocess.DEVNULL,
            stderr=errors,
            cwd=ROOT,
            env=environ,
        )


async def kill(process: asyncio.subprocess.Process, number: int = signal.SIGKILL) -> int:
    """Send a signal and wait: the exit code."""
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(number)
    return await process.wait()


@asynccontextmanager
async def served(home: Path, config: Path, *arguments: str, port: int, log: Path | None = None) -> AsyncIterator[int]:
    """A `serve` process that answers at `port`: its number. Killed at the end."""
    process = await start(home, config, *arguments, log=log)
    try:
        await until_served(port, process)
        yield process.pid
    finally:
        await kill(process)


async def until_workers(parent: int, number: int, limit_s: float = 60) -> list[int]:
    """The numbers of a server's worker processes, once there are so many."""
    async with asyncio.timeout(limit_s):
        while len(found := workers_of(parent)) < number:
            await asyncio.sleep(0.05)
    return found


def workers_of(parent: int) -> list[int]:
    """The numbers of a server's worker processes. (Linux only.)"""
    found = []
    for number in Path(f"/proc/{parent}/task/{parent}/children").read_text().split():
        with contextlib.suppress(OSError):
            if b"spawn_main" in Path(f"/proc/{number}/cmdline").read_bytes():
                found.append(int(number))
    return found


def cpu_s(process: int) -> float:
    """Processor time that a process has used; not a number where the system does not tell."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return math.nan
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_mb(process: int) -> float:
    """Memory that a process holds, in MB. (Linux only.)"""
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6
