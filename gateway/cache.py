"""Answers kept for a while, the rows behind a search id, and the memory of honest empties."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from gateway.settings import CacheSettings
from gateway.stores import Store, StoreUnavailable
from providers import Query

ANSWERS, EMPTIES, ROWS = "answers", "empties", "rows"
EMPTY_LIFE_S = 60.0
ROWS_LIFE_S = 3600.0
MOST_ROWS = 20_000
"""Search ids kept at once. It bounds the store, and is more than anybody meets: over five a second for an hour."""


def key(query: Query, max_output_chars: int) -> str:
    """The same for queries that deserve the same answer: case and spaces folded, domain lists sorted."""
    folded = " ".join(query.text.casefold().split())
    parts = (
        folded,
        query.max_results,
        query.freshness,
        sorted(query.include_domains),
        sorted(query.exclude_domains),
        query.include_content,
        max_output_chars,
    )
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Hit:
    """A kept answer body, and how many seconds ago it was made. `stale` when its time is over."""

    body: dict[str, Any]
    age_s: int
    stale: bool


class Cache:
    """Answers by query. `private` is this process's own memory, for what may not be written to disk."""

    def __init__(self, settings: CacheSettings, store: Store, private: Store, now: Callable[[], float]) -> None:
        self._settings = settings
        self._store = store
        self._private = private
        self._now = now

    async def find(self, name: str) -> Hit | None:
        """The kept answer, also when its time is over but it may still stand in for a failed search."""
        return await self._newest(ANSWERS, name, (self._private, self._store))

    async def find_empty(self, name: str) -> Hit | None:
        """The answer "no results" given to the same query a moment ago."""
        return await self._newest(EMPTIES, name, (self._store,))

    async def put(self, name: str, query: Query, body: dict[str, Any], *, may_store: bool) -> None:
        """Keep an answer with results."""
        if (ttl_s := self._ttl_s(query)) > 0:
            home = self._store if may_store else self._private
            value = _packed({"at": self._now(), "ttl_s": ttl_s, "body": body})
            lasts_s = ttl_s + self._settings.stale_if_error_s
            await home.keep(ANSWERS, name, value, lasts_s, self._settings.max_entries)

    async def put_empty(self, name: str, query: Query, body: dict[str, Any]) -> None:
        """Remember an honest empty."""
        if (ttl_s := min(self._ttl_s(query), EMPTY_LIFE_S)) > 0:
            value = _packed({"at": self._now(), "ttl_s": ttl_s, "body": body})
            await self._store.keep(EMPTIES, name, value, ttl_s, self._settings.max_entries)

    async def put_rows(self, search_id: str, client: str, rows: list[dict[str, Any]], *, may_store: bool) -> None:
        """Keep the untrimmed rows behind a search id for the client that got it."""
        home = self._store if may_store else self._private
        # an answer from the cache, perhaps a stale one, points at these rows with an id of its own
        settings = self._settings
        lasts_s = max(settings.ttl_s, settings.ttl_fresh_s) + settings.stale_if_error_s + ROWS_LIFE_S
        await home.keep(ROWS, search_id, _packed({"client": client, "rows": rows}), lasts_s, MOST_ROWS)

    async def point_rows(self, search_id: str, client: str, origin: str) -> None:
        """Let another search id stand for the rows behind `origin`."""
        await self._store.keep(ROWS, search_id, _packed({"client": client, "of": origin}), ROWS_LIFE_S, MOST_ROWS)

    async def entries(self) -> int:
        """How many answers are kept."""
        return await self._store.kept(ANSWERS) + await self._private.kept(ANSWERS)

    def _ttl_s(self, query: Query) -> float:
        """How long an answer to `query` may be given again; 0 when nothing is kept."""
        settings = self._settings
        if not settings.enabled or settings.max_entries <= 0:
            return 0.0
        return settings.ttl_fresh_s if query.freshness == "day" else settings.ttl_s

    async def _newest(self, room: str, name: str, homes: Sequence[Store]) -> Hit | None:
        """What was kept last under `name`, in whichever home."""
        if not self._settings.enabled:
            return None
        kept = []
        for home in homes:
            with suppress(StoreUnavailable):
                kept.append(await home.recall(room, name))
        entries = [entry for value in kept if value is not None and (entry := _unpacked(value))]
        if not entries:
            return None
        entry = max(entries, key=lambda each: each["at"])
        age_s = max(0.0, self._now() - entry["at"])
        return Hit(entry["body"], int(age_s), stale=age_s >= entry["ttl_s"])


def _unpacked(value: bytes) -> dict[str, Any] | None:
    """What was packed; None when another program, or another version, has put something else in its place."""
    with suppress(ValueError):
        entry = json.loads(value)
        if isinstance(entry, dict) and entry.keys() >= {"at", "ttl_s", "body"}:
            return entry
    return None


def _packed(value: dict[str, Any]) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
