"""Processor time of one search with 1 and 2 workers, with memory, SQLite and Redis: ratios to memory in the same run.

`python -m benchmarks.workers [SECONDS_PER_ROUND] [ROUNDS]`. A vendor that answers at once, kept-alive connections, hits
and misses. The processor time is that of the gateway's processes, and beside it that of Redis. Needs Linux.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.over_http import CONNECTIONS, TOKEN, call, configure, free_port, one_connection, reachable, start, stop
from tests.chaos.stage import cpu_s, until_workers
from tests.redis_server import RedisServer

ERA = "2025-06-18"
CONTESTANTS = (("memory", 1), ("sqlite", 1), ("sqlite", 2), ("redis", 1), ("redis", 2))


@dataclass
class Contestant:
    """A gateway over one store, and what its searches cost: milliseconds of processor time, searches a second."""

    state: str
    workers: int
    port: int
    processes: list[int]
    redis: int | None
    cost_ms: dict[str, list[float]] = field(default_factory=lambda: {"hit": [], "miss": []})
    redis_ms: dict[str, list[float]] = field(default_factory=lambda: {"hit": [], "miss": []})
    rates: dict[str, list[float]] = field(default_factory=lambda: {"hit": [], "miss": []})
    numbers: list[int] = field(default_factory=lambda: list(range(3_000_000, 0, -1)))

    def spent_s(self) -> float:
        return sum(map(cpu_s, self.processes))

    async def round(self, what: str, seconds: float) -> None:
        calls = call(ERA, lambda number: "the same" if what == "hit" else f"query {number}", TOKEN)
        took: list[float] = []
        began, before, redis = time.perf_counter(), self.spent_s(), cpu_s(self.redis) if self.redis else 0.0
        callers = (one_connection(self.port, calls, self.numbers, began + seconds, took) for _ in range(CONNECTIONS))
        await asyncio.gather(*callers)
        self.rates[what].append(len(took) / (time.perf_counter() - began))
        self.cost_ms[what].append((self.spent_s() - before) / len(took) * 1000)
        self.redis_ms[what].append(((cpu_s(self.redis) if self.redis else 0.0) - redis) / len(took) * 1000)


@contextmanager
def running(state: str, workers: int, file: str, redis: RedisServer, folder: str) -> Iterator[Contestant]:
    content: dict[str, Any] = json.loads(Path(file).read_text())
    sections = {
        "memory": {"type": "memory"},
        "sqlite": {"type": "sqlite", "path": f"{folder}/{workers}"},
        "redis": {"type": "redis", "url": redis.url, "prefix": f"bench{workers}"},
    }
    own = Path(folder, f"{state}{workers}.json")
    own.write_text(json.dumps(content | {"state": sections[state]}))
    own.chmod(0o600)
    port = free_port()
    words = ["gateway", "serve", "--port", str(port), "--workers", str(workers)]
    gateway = start(*words, WEBSEARCH_CONFIG=str(own), WEBSEARCH_LOG="warn")
    try:
        asyncio.run(reachable(port))
        children = asyncio.run(until_workers(gateway.pid, workers if workers > 1 else 0))
        server = redis.pid if state == "redis" else None
        yield Contestant(state, workers, port, [gateway.pid, *children], server)
    finally:
        stop(gateway)


async def race(contestants: list[Contestant], seconds: float, rounds: int) -> None:
    """Everybody in turn, so that a noisy machine is noisy for all; the first round warms up."""
    for number in range(rounds + 1):
        for each in contestants:
            for what in ("hit", "miss"):
                await each.round(what, seconds)
                if not number:
                    each.rates[what].clear()
                    each.cost_ms[what].clear()
                    each.redis_ms[what].clear()


def main(seconds: float, rounds: int) -> None:
    redis = RedisServer()
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        stack.callback(redis.end)
        vendors = start("tests.vendors", "--providers", "tavily")
        stack.callback(stop, vendors)
        file = configure(vendors, folder)
        contestants = [
            stack.enter_context(running(state, workers, file, redis, folder)) for state, workers in CONTESTANTS
        ]
        asyncio.run(race(contestants, seconds, rounds))
    print(f"{CONNECTIONS} connections, {rounds} rounds of {seconds} s; processor time in ms a search")
    print(f"{'':<12}{'workers':>8}{'':>6}{'per second':>12}{'gateway':>10}{'of memory':>11}{'redis':>8}")
    for what in ("hit", "miss"):
        base = statistics.median(contestants[0].cost_ms[what])
        for each in contestants:
            cost, rate = statistics.median(each.cost_ms[what]), statistics.median(each.rates[what])
            own = f"{each.state:<12}{each.workers:>8}{what:>6}{rate:>12.0f}{cost:>10.2f}{cost / base:>11.2f}"
            print(f"{own}{statistics.median(each.redis_ms[what]):>8.2f}")


if __name__ == "__main__":
    numbers = [float(each) for each in sys.argv[1:]]
    main(numbers[0] if numbers else 3.0, int(numbers[1]) if len(numbers) > 1 else 3)
