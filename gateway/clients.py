"""Who uses the gateway: searches per named client and day, and the daily limit of those that have one."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from gateway import answer, budgets
from gateway.settings import Config
from gateway.steps import Skip, whole_seconds
from gateway.stores import Store, StoreUnavailable
from providers._words import Budget

UNNAMED, COMMAND_LINE = "default", "command line"
"""The clients that come in without a token."""

_DAY = Budget("daily")


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a client may not search today, and for how long."""

    chain: list[dict[str, Any]]
    words: str
    retry_after_s: int


def _counter(name: str, now: float) -> str:
    return f"client:{name}:{budgets.period(_DAY, now).label}"


async def admit(store: Store, config: Config, name: str, now: float) -> Refusal | None:
    """Count one search for the client called `name`; a refusal when its day is used up."""
    limit = next((token.daily_limit for token in config.server.tokens if token.name == name), None)
    ends = budgets.period(_DAY, now).ends
    # a client's count must not stop a search when the store is away
    with suppress(StoreUnavailable):
        if limit is None:
            await store.count(_counter(name, now), ends)
        elif await store.spend(_counter(name, now), limit, ends) is None:
            left_s = whole_seconds(ends or now, now)
            return Refusal(
                answer.gateway_step(f"skipped:{Skip.QUOTA_LOCAL}", f"{name} {limit}/{limit}"),
                f"Search failed: the client {name} has used its {limit} searches of today; "
                f"it may search again in {left_s} s.",
                left_s,
            )
    return None


async def today(store: Store, config: Config, now: float) -> list[dict[str, Any]]:
    """Searches of today per client, as the status shows them."""
    tokens = [token.name for token in config.server.tokens]
    named = tokens or [UNNAMED]
    # who needs no token is told of once there was one
    counted = await store.counted([_counter(name, now) for name in (*tokens, UNNAMED, COMMAND_LINE)])
    came = [name for name in (UNNAMED, COMMAND_LINE) if name not in named and _counter(name, now) in counted]
    return [{"name": name, "searches_today": counted.get(_counter(name, now), 0)} for name in (*named, *came)]
