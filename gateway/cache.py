"""Answers kept for a while, the rows behind a search id, and the memory of honest empties."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gateway.config import CacheSettings
from gateway.stores import Store, StoreUnavailable
from providers import Query

ANSWERS, EMPTIES, ROWS = "answers", "empties", "rows"
EMPTY_LIFE_S = 60.0
ROWS_LIFE_S = 3600.0
MOST_ROWS = 20_000
"""Search ids kept at once; it bounds the store, not a promise anybody meets: more than five a second for an hour."""


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
        self.hits = 0
        self.misses = 0

    async def find(self, name: str) -> Hit | None:
        """The kept answer, also when its time is over but it may still stand in for a failed search."""
        if not self._settings.enabled:
            return None
        value = await self._recall(ANSWERS, name)
        if value is None:
            return None
        entry = json.loads(value)
        age = max(0.0, self._now() - entry["at"])
        return Hit(entry["body"], int(age), stale=age >= entry["ttl_s"])

    async def find_empty(self, name: str) -> Hit | None:
        """The answer "no results" given to the same query a moment ago."""
        if not self._settings.enabled:
            return None
        value = await self._recall(EMPTIES, name)
        if value is None:
            return None
        entry = json.loads(value)
        return Hit(entry["body"], int(max(0.0, self._now() - entry["at"])), stale=False)

    async def put(self, name: str, query: Query, body: dict[str, Any], *, may_store: bool) -> None:
        """Keep an answer with results."""
        settings = self._settings
        ttl_s = settings.ttl_fresh_s if query.freshness == "day" else settings.ttl_s
        if not settings.enabled or ttl_s <= 0 or settings.max_entries <= 0:
            return
        value = _packed({"at": self._now(), "ttl_s": ttl_s, "body": body})
        home = self._store if may_store else self._private
        await home.keep(ANSWERS, name, value, ttl_s + settings.stale_if_error_s, settings.max_entries)

    async def put_empty(self, name: str, body: dict[str, Any]) -> None:
        """Remember an honest empty."""
        if self._settings.enabled:
            value = _packed({"at": self._now(), "body": body})
            await self._store.keep(EMPTIES, name, value, EMPTY_LIFE_S, self._settings.max_entries or None)

    async def put_rows(self, search_id: str, client: str, rows: list[dict[str, Any]], *, may_store: bool) -> None:
        """Keep the untrimmed rows behind a search id for the client that got it."""
        home = self._store if may_store else self._private
        # twice the life: an answer from the cache points at these rows with an id of its own
        await home.keep(
            ROWS,
            search_id,
            _packed({"client": client, "rows": rows}),
            2 * ROWS_LIFE_S + self._settings.ttl_s,
            MOST_ROWS,
        )

    async def point_rows(self, search_id: str, client: str, origin: str) -> None:
        """Let another search id stand for the rows behind `origin`."""
        await self._store.keep(ROWS, search_id, _packed({"client": client, "of": origin}), ROWS_LIFE_S, MOST_ROWS)

    async def entries(self) -> int:
        """How many answers are kept."""
        return await self._store.kept(ANSWERS) + await self._private.kept(ANSWERS)

    async def _recall(self, room: str, name: str) -> bytes | None:
        kept = await self._private.recall(room, name)
        try:
            return kept if kept is not None else await self._store.recall(room, name)
        except StoreUnavailable:
            return None


def _packed(value: dict[str, Any]) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
