"""Which home the store gets, and what the operator should know about it."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import platformdirs

from gateway.settings import StateSettings
from gateway.stores import Store, StoreUnavailable
from gateway.stores.memory import MemoryStore
from gateway.stores.sqlite import OLDEST_SQLITE, SQLiteStore, Unusable


class Opened(NamedTuple):
    """A store, and what is wrong with it in words.

    `persistent`: what it remembers outlives the process. `clears_auth`: a start by hand may let keys that are out for
    auth be tried again, for nobody else knows of them.
    """

    store: Store
    warnings: tuple[str, ...] = ()
    persistent: bool = True
    clears_auth: bool = True


async def open_store(
    settings: StateSettings, clock: Callable[[], float] = time.time, *, stands_in: bool = True
) -> Opened:
    """The store that `settings` ask for; `clock` gives seconds since the epoch. Never raises.

    Memory stands in, with a warning, where a state file cannot be had at all; not so without `stands_in`, for what each
    of several workers keeps in its own memory holds no budget. A file or a server that is there but cannot be used now
    (locked, damaged, full, away) stays the store, with a warning: its verbs raise `StoreUnavailable` until that is
    mended, for to start again at nothing would overdraw the budgets counted in it.
    """
    if settings.type == "memory":
        return Opened(MemoryStore(clock), persistent=False)
    if settings.type == "redis":
        return await _opened_redis(settings, clock)
    store = SQLiteStore(settings.path or state_folder(), clock)
    try:
        if sqlite3.sqlite_version_info < OLDEST_SQLITE:
            needed = ".".join(map(str, OLDEST_SQLITE))
            raise Unusable(f"SQLite {sqlite3.sqlite_version} is too old, {needed} is needed")
        store.open()
    except Unusable as error:
        return _in_memory(str(error), clock) if stands_in else Opened(store, (f"state: {error}",))
    except StoreUnavailable as error:
        return Opened(store, (f"state: {error}",))
    return Opened(store)


async def _opened_redis(settings: StateSettings, clock: Callable[[], float]) -> Opened:
    from gateway.stores.redis import RedisStore  # its package is there only where somebody wanted it

    store = RedisStore(settings.url or "", settings.prefix, clock)
    try:
        warnings = await store.open()
    except StoreUnavailable as error:
        warnings = (str(error),)
    return Opened(store, tuple(f"state: {words}" for words in warnings), clears_auth=False)


def state_folder() -> Path:
    """The user's own state directory, by the custom of the system."""
    return platformdirs.user_state_path("websearch-gateway", appauthor=False)


def _in_memory(words: str, clock: Callable[[], float]) -> Opened:
    warning = f"state: {words}; budgets and rests are kept in memory and forgotten at the end"
    return Opened(MemoryStore(clock), (warning,), persistent=False)
