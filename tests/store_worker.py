"""A process of its own that uses shared stores: `python -m tests.store_worker`.

It says `ready`; then for every line `HOME TASK NUMBER FOLDER` it does the task and says what came of it, as one line: a
byte for each unit it was granted (what was said outlives a killed process), else words. Its clock stands still.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import TypeVar

from gateway.stores import Store, StoreUnavailable

NOW = 1_800_000_000.0
GAP_MS = 1_000_000
"""Between two places in a queue: far more than the whole test takes, for a server's clock does not stand still."""

Given = TypeVar("Given")


def opened(home: str, folder: Path) -> Store:
    """The store that has `folder` to itself: in it, or under its name on the server that `home` is the address of."""
    # either takes longer to import than a race lasts
    if home == "sqlite":
        from gateway.stores.sqlite import SQLiteStore

        return SQLiteStore(folder, lambda: NOW)
    from gateway.stores.redis import RedisStore
    from tests.redis_server import PATIENT_S, prefix

    return RedisStore(home, prefix(folder), lambda: NOW, patience_s=PATIENT_S)


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


async def begin(home: str, task: str, number: int, folder: Path) -> None:
    """Do `task`; `open` makes that many new stores in turn, and counts once in each."""
    if task == "open":
        for each in range(number):
            store = opened(home, folder / str(each))
            await answered(lambda store=store: store.count("opened", None))
            await store.aclose()
        return
    store = opened(home, folder)
    async for words in {"spend": spend, "rest": rest, "turn": turn}[task](store, number):
        os.write(1, words.encode())
    await store.aclose()


if __name__ == "__main__":
    os.write(1, b"ready\n")
    for line in sys.stdin:
        where, what, often, place = line.rstrip("\n").split(" ", 3)
        asyncio.run(begin(where, what, int(often), Path(place)))
        os.write(1, b"\n")
