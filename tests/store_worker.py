"""A process of its own that uses a shared store: `python -m tests.store_worker HOME FOLDER TASK NUMBER`.

It says `ready`, waits for a line, does its task and says what came of it: a byte for each unit it was granted (what was
said outlives a killed process), else words. Its clock stands still.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import TypeVar

from gateway.stores import Store, StoreUnavailable
from gateway.stores.redis import RedisStore
from gateway.stores.sqlite import SQLiteStore
from tests.redis_server import PATIENT_S, prefix, shared_url

NOW = 1_800_000_000.0
GAP_MS = 1_000_000
"""Between two places in a queue: far more than the whole test takes, for a server's clock does not stand still."""

Given = TypeVar("Given")

SHARED: dict[str, Callable[[Path], Store]] = {
    "sqlite": lambda folder: SQLiteStore(folder, lambda: NOW),
    "redis": lambda folder: RedisStore(shared_url(), prefix(folder), lambda: NOW, patience_s=PATIENT_S),
}
"""The homes that processes share, each in a folder, or in a server under the folder's name."""


async def answered(verb: Callable[[], Awaitable[Given]]) -> Given:
    """What `verb` gives once the store has time: on a busy machine it may be locked for longer than it waits."""
    while True:
        try:
            return await verb()
        except StoreUnavailable as error:
            if "locked" not in str(error):
                raise


async def spend(store: Store, limit: int) -> AsyncIterator[str]:
    """Take units until there are none left."""
    while await answered(lambda: store.spend("units", limit, None)) is not None:
        yield "."


async def rest(store: Store, number: int) -> AsyncIterator[str]:
    """Rest as many keys: those that we were the first to rest."""
    for name in map(str, range(number)):
        if await answered(lambda name=name: store.rest(name, NOW + 60, "timeout")):
            yield f"{name} "


async def turn(store: Store, number: int) -> AsyncIterator[str]:
    """Take as many places in one queue: which ones."""
    for _ in range(number):
        place = await answered(lambda: store.turn("queue", GAP_MS, 10**9))
        yield f"{round(place.wait_ms / GAP_MS)} "


async def main(home: str, folder: Path, task: str, number: int) -> None:
    """Do `task`; `open` makes that many new stores in turn, and counts once in each."""
    os.write(1, b"ready\n")
    sys.stdin.readline()
    if task == "open":
        for each in range(number):
            store = SHARED[home](folder / str(each))
            await answered(lambda store=store: store.count("opened", None))
            await store.aclose()
        return
    store = SHARED[home](folder)
    async for words in {"spend": spend, "rest": rest, "turn": turn}[task](store, number):
        os.write(1, words.encode())
    await store.aclose()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2]), sys.argv[3], int(sys.argv[4])))
