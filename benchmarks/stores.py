"""Microseconds per store verb, in each home: `python benchmarks/stores.py [ROUNDS [REDIS_URL]]`."""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from gateway.stores import Store
from gateway.stores.memory import MemoryStore
from gateway.stores.redis import RedisStore
from gateway.stores.sqlite import SQLiteStore

ANSWER = b"x" * 15_000
CHAIN = [f"provider{number}" for number in range(7)]


def verbs(store: Store) -> dict[str, Callable[[int], Awaitable[object]]]:
    """Each verb as the chain uses it, given the number of the round."""
    later = time.time() + 86_400
    return {
        "rest": lambda number: store.rest(CHAIN[number % 7], later + number, "timeout"),
        "resting": lambda _: store.resting(CHAIN),
        "spend": lambda number: store.spend(CHAIN[number % 7], 10**9, later),
        "spend, refused": lambda number: store.spend(CHAIN[number % 7], 1, later),
        "turn": lambda number: store.turn(CHAIN[number % 7], 1, 10**9),
        "count": lambda number: store.count(CHAIN[number % 7], later),
        "counted": lambda _: store.counted(CHAIN),
        "keep 15 kB": lambda number: store.keep("ids", f"q{number % 4096}", ANSWER, 3600),
        "keep, bounded": lambda number: store.keep("cache", f"q{number}", ANSWER, 3600, at_most=512),
        "recall": lambda number: store.recall("cache", f"q{number}"),
        "kept": lambda _: store.kept("cache"),
        "clear": lambda number: store.clear(CHAIN[number % 7]),
    }


async def measure(store: Store, rounds: int) -> dict[str, float]:
    """Microseconds of one call of each verb, the mean of `rounds`."""
    found = {}
    for name, verb in verbs(store).items():
        started = time.perf_counter()
        for number in range(rounds):
            await verb(number)
        found[name] = (time.perf_counter() - started) / rounds * 1e6
    await store.aclose()
    return found


async def measure_together(store: Store, rounds: int, callers: int = 200) -> float:
    """Microseconds of one `count` when so many call at once."""
    started = time.perf_counter()
    for _ in range(rounds // callers):
        await asyncio.gather(*(store.count("together", None) for _ in range(callers)))
    taken = (time.perf_counter() - started) / (rounds // callers * callers) * 1e6
    await store.aclose()
    return taken


def main() -> None:
    """Print one line a verb."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5000
    with tempfile.TemporaryDirectory() as folder:
        homes: dict[str, Store] = {"memory": MemoryStore(), "sqlite": SQLiteStore(Path(folder))}
        if len(sys.argv) > 2:
            homes["redis"] = RedisStore(sys.argv[2], "benchmark")
        found = {
            name: asyncio.run(measure(store, rounds))
            | {"count, 200 at once": asyncio.run(measure_together(store, rounds))}
            for name, store in homes.items()
        }
    print(f"{'µs per verb':20}" + "".join(f"{name:>10}" for name in found))
    for verb in found["memory"]:
        print(f"{verb:20}" + "".join(f"{each[verb]:10.1f}" for each in found.values()))


if __name__ == "__main__":
    main()
