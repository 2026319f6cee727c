"""A process of its own that uses a shared store: `python -m tests.store_worker HOME FOLDER TASK NUMBER`.

It says `ready`, waits for a line, does its task and says what came of it: a byte for each unit it was granted (what was
said outlives a killed process), else words. Its clock stands still, so that places in a queue are exact.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import TypeVar

from gateway.stores import Store, StoreUnavailable
from gateway.stores.sqlite import SQLiteStore

NOW = 1_800_000_000.0
Given = TypeVar("Given")

SHARED: dict[str, Callable[[Path], Store]] = {
    "sqlite": lambda folder: SQLiteStore(folder, lambda: NOW),
}
"""The homes that processes share, each in a folder."""


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
    """Take as many places in one queue."""
    for _ in range(number):
        yield f"{(await answered(lambda: store.turn('queue', 10, 10**9))).wait_ms} "


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
