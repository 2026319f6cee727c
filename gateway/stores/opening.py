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

    `persistent`: what it remembers outlives the process.
    """

    store: Store
    warnings: tuple[str, ...]
    persistent: bool


async def open_store(settings: StateSettings, clock: Callable[[], float] = time.time) -> Opened:
    """The store that `settings` ask for; `clock` gives seconds since the epoch. Never raises.

    Memory stands in, with a warning, where a state file cannot be had at all. A file that is there but cannot be used
    now (locked, damaged, disk full, of a newer version) stays the store, with a warning: its verbs raise
    `StoreUnavailable` until that is mended, for to start again at nothing would overdraw the budgets counted in it.
    """
    if settings.type == "memory":
        return Opened(MemoryStore(clock), (), persistent=False)
    folder = settings.path or state_folder()
    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        needed = ".".join(map(str, OLDEST_SQLITE))
        return _in_memory(f"SQLite {sqlite3.sqlite_version} is too old, {needed} is needed", clock)
    store = SQLiteStore(folder, clock)
    try:
        store.open()
    except Unusable as error:
        return _in_memory(str(error), clock)
    except StoreUnavailable as error:
        return Opened(store, (f"state: {error}",), persistent=True)
    return Opened(store, (), persistent=True)


def state_folder() -> Path:
    """The user's own state directory, by the custom of the system."""
    return platformdirs.user_state_path("websearch-gateway", appauthor=False)


def _in_memory(words: str, clock: Callable[[], float]) -> Opened:
    warning = f"state: {words}; budgets and rests are kept in memory and forgotten at the end"
    return Opened(MemoryStore(clock), (warning,), persistent=False)
