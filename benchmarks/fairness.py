"""What one client's flood does to another's latency, with the fair share and without it, in the same run.

`python -m benchmarks.fairness [SECONDS_PER_ROUND] [ROUNDS]`: one worker, cached answers. One client searches once a
second on one connection: alone, then while another sends 500 a second over many connections. Nothing is asserted.
"""

from __future__ import annotations

import asyncio
import json
import math
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.over_http import TOKEN, Call, call, configure, free_port, reachable, start, stop

FLOOD_TOKEN = "a-token-for-the-flood"
FLOOD_RATE = 500
QUIET_RATE = 1
CONNECTIONS = (64, 256)
ERA = "2025-06-18"

WITHOUT = """
import runpy
from gateway.doors import app
app.Fair = lambda app, gateway: app
runpy.run_module("gateway", run_name="__main__")
"""
"""The program of a gateway that lets everybody in at once."""


def same(token: str) -> Call:
    return call(ERA, lambda _: "the same", token)


# ---------------------------------------------------------------------------------------------------------------------
# the flood: `python -m benchmarks.fairness flood PORT CONNECTIONS SECONDS`


async def flood(port: int, connections: int, seconds: float) -> Counter[str]:
    """Calls at `FLOOD_RATE`, whether or not the earlier ones are answered, as far as `connections` allow."""
    due: asyncio.Queue[int] = asyncio.Queue()
    came: Counter[str] = Counter()
    calls = same(FLOOD_TOKEN)

    async def connection() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        while True:
            writer.write(calls(await due.get()))
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            await reader.readexactly(int(head.partition(b"content-length:")[2].split(b"\r\n")[0]))
            came[head[9:12].decode()] += 1

    tasks = [asyncio.create_task(connection()) for _ in range(connections)]
    started, sent = time.perf_counter(), 0
    while (passed := time.perf_counter() - started) < seconds:
        while sent < passed * FLOOD_RATE:
            sent += 1
            due.put_nowait(sent)
        await asyncio.sleep(0.005)
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    return came


# ---------------------------------------------------------------------------------------------------------------------
# the other client


def heard(opened: socket.socket) -> tuple[bytes, bytes]:
    """Head and body of one whole answer."""
    read = b""
    while b"\r\n\r\n" not in read:
        read += opened.recv(65536)
    head, _, body = read.partition(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
    while len(body) < length:
        body += opened.recv(65536)
    return head, body


def searches(port: int, seconds: float) -> list[float]:
    """The latencies of one call after the other, in seconds, at `QUIET_RATE`."""
    took = []
    until = time.perf_counter() + seconds
    message = same(TOKEN)(1)
    with socket.create_connection(("127.0.0.1", port), timeout=60) as opened:
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while (started := time.perf_counter()) < until:
            opened.sendall(message)
            head, body = heard(opened)
            took.append(time.perf_counter() - started)
            if not head.startswith(b"HTTP/1.1 200") or b'"cache_hit":true' not in body:
                raise SystemExit(f"not a cached answer: {head!r} {body[:500]!r}")
            time.sleep(max(0, 1 / QUIET_RATE - took[-1]))
    return took


@dataclass
class Contestant:
    """A gateway, and what the other client met there. By number of flooding connections; 0 is quiet."""

    name: str
    port: int
    took: dict[int, list[float]] = field(default_factory=lambda: {0: []} | {each: [] for each in CONNECTIONS})
    flooded: Counter[str] = field(default_factory=Counter)

    def round(self, connections: int, seconds: float) -> None:
        if not connections:
            self.took[0] += searches(self.port, seconds)
            return
        flooding = start("benchmarks.fairness", "flood", str(self.port), str(connections), str(seconds + 2))
        time.sleep(1)
        self.took[connections] += searches(self.port, seconds)
        assert flooding.stdout is not None
        for status, count in json.loads(flooding.stdout.read()).items():
            self.flooded[f"{connections} {status}"] += count
        flooding.wait(20)


def part(took: list[float], of_hundred: int) -> float:
    """A percentile by the nearest rank, in milliseconds."""
    return sorted(took)[math.ceil(len(took) * of_hundred / 100) - 1] * 1000


def main(seconds: float, rounds: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        vendors = start("tests.vendors", "--providers", "tavily")
        running = [vendors]
        contestants = []
        try:
            config = json.loads(Path(configure(vendors, folder)).read_text())
            config["server"]["tokens"].append({"name": "flood", "token": FLOOD_TOKEN})
            for name, program in (("fair share", ["-m", "gateway"]), ("without", ["-c", WITHOUT])):
                home = Path(folder, name)
                home.mkdir()
                file = home / "config.json"
                file.write_text(json.dumps(config | {"state": {"type": "sqlite", "path": str(home)}}))
                file.chmod(0o600)
                contestants.append(Contestant(name, free_port()))
                running.append(
                    subprocess.Popen(
                        [sys.executable, *program, "serve", "--port", str(contestants[-1].port)],
                        env={"PATH": "/usr/bin:/bin", "WEBSEARCH_CONFIG": str(file), "WEBSEARCH_LOG": "warn"},
                    )
                )
            for each in contestants:
                asyncio.run(reachable(each.port))
                asyncio.run(warm(each.port))
            for _ in range(rounds):
                for connections in contestants[0].took:
                    for each in contestants:
                        each.round(connections, seconds)
        finally:
            stop(*running)
    table(contestants, seconds * rounds)


async def warm(port: int) -> None:
    """What is made once is made, and the answer is kept."""
    for _ in range(50):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(same(TOKEN)(0))
        await reader.readuntil(b"\r\n\r\n")
        writer.close()


def table(contestants: list[Contestant], seconds: float) -> None:
    print(f"one client at {QUIET_RATE} a second, another at {FLOOD_RATE}; {seconds:.0f} s of each; ms")
    print(f"{'':<12}{'flood':>22}{'p50':>8}{'p95':>8}{'max':>8}{'p95 to quiet':>14}   flood's answers")
    for each in contestants:
        for connections, took in each.took.items():
            flooding = f"{connections} connections" if connections else "none"
            answers = {key.split()[1]: n for key, n in each.flooded.items() if key.startswith(f"{connections} ")}
            print(
                f"{each.name:<12}{flooding:>22}{part(took, 50):>8.2f}{part(took, 95):>8.2f}{max(took) * 1000:>8.2f}"
                f"{part(took, 95) / part(each.took[0], 95):>14.2f}   {answers or ''}"
            )


if __name__ == "__main__":
    if sys.argv[1:2] == ["flood"]:
        print(json.dumps(asyncio.run(flood(int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])))))
    else:
        numbers = [float(each) for each in sys.argv[1:]]
        main(numbers[0] if numbers else 20.0, int(numbers[1]) if len(numbers) > 1 else 3)
