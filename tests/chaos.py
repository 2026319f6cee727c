"""Two trials under load, with numbers: `make chaos`. Not part of the suite: they take a minute.

1. A serving process with a budget in SQLite is killed (SIGKILL) every second and started again at once, while callers
   search without a pause. The vendor never gets more requests than the budget allows, and the count ends at the limit.
2. 200 callers at once over HTTP with a token, while the head of the chain hangs: everybody is answered by the second.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import math
import os
import signal
import socket
import sqlite3
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2

from gateway.stores.sqlite import FILE_NAME
from tests.doors_fixtures import call
from tests.processes import ROOT, environment, serving, written
from tests.vendors import SILENCE, Played, configuration, success

TOKEN = "chaos-token-of-many-signs"
BEARER = {"Authorization": f"Bearer {TOKEN}"}
VENDOR_S = 0.2
HANG_S = 2.0
SPARE_S = 0.5


def check(claim: str, holds: bool) -> bool:
    print(f"  {'ok  ' if holds else 'FAIL'}  {claim}")
    return holds


def content(played: Played, providers: list[dict[str, Any]], port: int) -> dict[str, Any]:
    sections: dict[str, Any] = {
        "server": {"port": port, "tokens": [{"name": "chaos", "token": TOKEN}]},
        "state": {"type": "sqlite"},
    }
    return configuration(played, [{"min_interval_ms": 0} | each for each in providers], **sections)


# ---------------------------------------------------------------------------------------------------------------------
# killed under load


class Killed:
    """A `serve` process that is always there, though never for long."""

    def __init__(self, home: Path, config: Path) -> None:
        self._home = home
        self._environ = environment(home, WEBSEARCH_CONFIG=str(config), WEBSEARCH_LOG="error")
        self.kills = 0
        self.in_flight: list[int] = []
        """Requests that were under way at each kill."""
        self.restart_s: list[float] = []

    async def _start(self) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "gateway", "serve"),
            stdin=asyncio.subprocess.DEVNULL,
            cwd=ROOT,
            env=self._environ,
        )

    async def go_on(self, url: str, load: Load, alive_s: float, least: int) -> None:
        """Start, let it serve for `alive_s` seconds, kill, at once again: until the budget is spent, `least` times."""
        while True:
            started = time.perf_counter()
            process = await self._start()
            try:
                while not await load.is_served(url):
                    assert process.returncode is None
                    await asyncio.sleep(0.02)
                self.restart_s.append(time.perf_counter() - started)
                await asyncio.sleep(alive_s)
                if self.kills >= least and load.refused:
                    return
                self.in_flight.append(load.in_flight)
                process.send_signal(signal.SIGKILL)
                self.kills += 1
            finally:
                with contextlib.suppress(ProcessLookupError):
                    process.send_signal(signal.SIGKILL)
                await process.wait()


class Load:
    """Callers who search without a pause, each time for something else."""

    def __init__(self, url: str, callers: int) -> None:
        self._url = url
        self._callers = callers
        self._number = 0
        self.in_flight = 0
        self.found = self.refused = self.lost = 0

    async def is_served(self, url: str) -> bool:
        async with httpx2.AsyncClient(trust_env=False, timeout=1) as client:
            try:
                return (await client.get(f"{url}/healthz")).status_code == 200
            except httpx2.TransportError:
                return False

    async def go_on(self) -> None:
        async with asyncio.TaskGroup() as callers:
            for _ in range(self._callers):
                callers.create_task(self._call())

    async def _call(self) -> None:
        limits = httpx2.Limits(max_connections=1, max_keepalive_connections=1)
        async with httpx2.AsyncClient(headers=BEARER, timeout=20, trust_env=False, limits=limits) as client:
            while True:
                self._number += 1
                self.in_flight += 1
                try:
                    message = call({"query": f"chaos {self._number}", "use_cache": False})
                    response = await client.post(f"{self._url}/mcp", json=message)
                    meta = response.json()["result"]["structuredContent"]["meta"]
                except httpx2.TransportError:
                    self.lost += 1
                    await asyncio.sleep(0.05)
                else:
                    self.found += meta["verdict"] == "found"
                    self.refused += meta["fallback_chain"][:1] != [] and meta["verdict"] != "found"
                finally:
                    self.in_flight -= 1


def stored(state: Path) -> int:
    """Requests as the state file counts them."""
    with contextlib.closing(sqlite3.connect(state / FILE_NAME)) as database:
        (count,) = database.execute("SELECT sum(value) FROM counts WHERE key LIKE 'budget:tavily:%'").fetchone()
    return int(count or 0)


async def killed_under_load(limit: int, callers: int, kills: int, alive_s: float) -> bool:
    with tempfile.TemporaryDirectory() as folder, socket.create_server(("127.0.0.1", 0)) as free:
        home = Path(folder)
        port = free.getsockname()[1]
        free.close()
        url = f"http://127.0.0.1:{port}"
        async with Played() as played:
            played.script("tavily", success("tavily", delay_s=VENDOR_S))
            quota = {"name": "tavily", "quota": {"type": "one_time", "limit": limit}}
            config = written(home / "config.json", content(played, [quota], port))
            load, killed = Load(url, callers), Killed(home, config)
            calling = asyncio.create_task(load.go_on())
            begun = time.perf_counter()
            try:
                async with asyncio.timeout(600):
                    await killed.go_on(url, load, alive_s, kills)
            finally:
                calling.cancel()
                await asyncio.wait([calling])
            took_s = time.perf_counter() - begun
            received, count = played.count("tavily"), stored(home / "state")
    missing = limit - received
    print(
        f"killed under load: {killed.kills} kills in {took_s:.0f} s, {callers} callers, vendor {VENDOR_S * 1000:.0f} ms"
    )
    print(f"  limit {limit}, received by the vendor {received}, stored {count}, counted but never received {missing}")
    print(f"  answered {load.found}, refused for the budget {load.refused}, lost in kills {load.lost}")
    print(f"  in flight at the kills: {sum(killed.in_flight)} in all, at most {max(killed.in_flight)}")
    print(f"  from start to serving: median {statistics.median(killed.restart_s):.2f} s")
    return all(
        [
            check(f"at least {kills} kills", killed.kills >= kills),
            check("never more requests than the limit", received <= limit),
            check("the stored count ends at the limit", count == limit),
            check("missing at most what was in flight at the kills", missing <= sum(killed.in_flight)),
        ]
    )


# ---------------------------------------------------------------------------------------------------------------------
# a crowd before a hanging head


async def asked(url: str, query: str) -> tuple[float, dict[str, Any]]:
    """Seconds and the answer's meta. A bare socket: what a client library costs is not the gateway's."""
    body = json.dumps(call({"query": query})).encode()
    head = f"POST /mcp HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\nConnection: close\r\n"
    begun = time.perf_counter()
    reader, writer = await asyncio.open_connection("127.0.0.1", urlsplit(url).port)
    writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
    _, _, answer = (await reader.read()).partition(b"\r\n\r\n")
    took_s = time.perf_counter() - begun
    writer.close()
    meta: dict[str, Any] = json.loads(answer)["result"]["structuredContent"]["meta"]
    return took_s, meta


def cpu_s(process: int) -> float:
    """Processor time that a process has used; not a number where the system does not tell."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return math.nan
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def crowd_before_a_hanging_head(callers: int) -> bool:
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        async with Played() as played:
            chain = [{"name": "tavily", "timeout_ms": round(HANG_S * 1000)}, {"name": "brave"}]
            config = written(home / "config.json", content(played, chain, 0))
            async with serving(home, headers=BEARER, WEBSEARCH_CONFIG=str(config)) as it:
                await asked(it.url, "the first of all")  # what is made once is made now
                played.script("tavily", SILENCE)
                before_s = cpu_s(it.process.pid)
                answers = await asyncio.gather(*(asked(it.url, f"crowd {n}") for n in range(callers)))
                spent_s = cpu_s(it.process.pid) - before_s
                next_s, next_meta = await asked(it.url, "afterwards")
                status = await it.status()
                log = it.stderr
            counts = played.counts()
    times = sorted(took_s for took_s, _ in answers)
    line = next(each for each in status["providers"] if each["name"] == "tavily")
    outcomes = {meta["fallback_chain"][0]["outcome"] for _, meta in answers}
    print(f"{callers} callers at once, head of the chain hangs (time limit {HANG_S:.0f} s), requests: {counts}")
    print(f"  answered in {times[0]:.2f} to {times[-1]:.2f} s, median {statistics.median(times):.2f} s")
    print(f"  processor time of the gateway meanwhile: {spent_s:.2f} s")
    print(f"  the next search: {next_s * 1000:.0f} ms, {next_meta['fallback_chain']}")
    print(f"  the head: {line['state']}, streak {line['consecutive_failures']}")
    return all(
        [
            check("all found by the second", all(meta.get("provider_used") == "brave" for _, meta in answers)),
            check(f"all within {HANG_S + SPARE_S:.1f} s", times[-1] <= HANG_S + SPARE_S),
            check("the head was a timeout for all, and no pool's", outcomes == {"timeout"} and b"Pool" not in log),
            check("the next search within 100 ms", next_s < 0.1),
            check("a streak of 1", line["consecutive_failures"] == 1),
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description="Two trials under load.")
    parser.add_argument("--limit", type=int, default=400, help="the budget that kills must not overdraw")
    parser.add_argument("--kills", type=int, default=20, help="kills at least")
    parser.add_argument("--callers", type=int, default=200, help="callers before the hanging head")
    told = parser.parse_args()
    good = [
        asyncio.run(killed_under_load(told.limit, callers=4, kills=told.kills, alive_s=1.0)),
        asyncio.run(crowd_before_a_hanging_head(told.callers)),
    ]
    sys.exit(0 if all(good) else 1)


if __name__ == "__main__":
    main()
