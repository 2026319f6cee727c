"""What each provider's last call came to. Not whether it can be reached: whether it worked."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from gateway.keys import Lane
from gateway.policy import DAY_S
from gateway.stores import Store
from providers import Outcome, Reply

ROOM = "outcome"
KEEP_S = 32 * DAY_S
AGAIN_S = 5.0
"""One more success so soon after the last is no news, and not worth a write. (Looking costs less.)"""


class History:
    """The last outcome of every provider. `now` gives seconds since the epoch."""

    def __init__(self, store: Store, now: Callable[[], float]) -> None:
        self._store = store
        self._now = now

    async def note(self, lane: Lane, reply: Reply) -> None:
        """Remember what `reply` was."""
        if reply.outcome is Outcome.OK:
            last = await self.last(lane.provider)
            if last and last["outcome"] == Outcome.OK and 0 <= self._now() - last["at"] < AGAIN_S:
                return
        line = {"outcome": reply.outcome.value, "detail": reply.detail, "at": round(self._now())}
        line |= {"message": reply.message} if reply.message else {}
        line |= {"hint": reply.hint} if reply.hint else {}
        value = json.dumps(line, ensure_ascii=False).encode("utf-8", "replace")
        await self._store.keep(ROOM, lane.provider, value, KEEP_S)

    async def last(self, provider: str) -> dict[str, Any] | None:
        """The last outcome; None when it was never asked, or something else stands in the place of it."""
        value = await self._store.recall(ROOM, provider)
        return _line(value) if value else None


def _line(value: bytes) -> dict[str, Any] | None:
    with suppress(ValueError):
        line = json.loads(value)
        if isinstance(line, dict) and all(isinstance(line.get(name), kind) for name, kind in _MEMBERS.items()):
            return line
    return None


_MEMBERS = {"outcome": str, "detail": str, "at": int}
