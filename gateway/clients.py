"""Who uses the gateway: searches per named client and day, and the daily limit of those that have one."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from gateway import answer, budgets
from gateway.settings import Config
from gateway.steps import Skip, whole_seconds
from gateway.stores import Store, StoreUnavailable
from providers._words import Budget

log = logging.getLogger(__name__)

UNNAMED, COMMAND_LINE = "default", "command line"
"""The clients that come in without a token."""

_DAY = Budget("daily")


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a client may not search today, and for how many seconds; None when no day will change that."""

    chain: list[dict[str, Any]]
    words: str
    retry_after_s: int | None


def _counter(name: str, day: budgets.Period) -> str:
    return f"client:{name}:{day.label}"


def _when(moment: float) -> str:
    """A moment as this machine's clock shows it, with its zone: `2026-12-02T00:00+01:00`."""
    return datetime.fromtimestamp(moment).astimezone().isoformat(timespec="minutes")


async def admit(store: Store, config: Config, name: str, now: float) -> Refusal | None:
    """Count one search for the client called `name`; a refusal when its day is used up."""
    limit = next((token.daily_limit for token in config.server.tokens if token.name == name), None)
    day = budgets.period(_DAY, now)
    # a client's count must not stop a search when the store is away
    with suppress(StoreUnavailable):
        if limit is None:
            await store.count(_counter(name, day), day.ends)
        elif await store.spend(_counter(name, day), limit, day.ends) is None:
            assert day.ends is not None  # a day has an end
            left_s = whole_seconds(day.ends, now)
            chain = answer.gateway_step(f"skipped:{Skip.QUOTA_LOCAL}", f"{name} {limit}/{limit}")
            if not limit:
                return Refusal(chain, f"Search failed: the client {name} may not search: its daily_limit is 0.", None)
            words = f"it may search again from {_when(day.ends)}, in {left_s} s."
            return Refusal(
                chain, f"Search failed: the client {name} has used its {limit} searches of today; {words}", left_s
            )
    return None


def unknown(config: Config) -> list[dict[str, Any]]:
    """The clients, while nobody can tell how much they searched."""
    names = [token.name for token in config.server.tokens] or [UNNAMED]
    return [{"name": name, "searches_today": None} for name in names]


async def today(store: Store, config: Config, now: float) -> list[dict[str, Any]]:
    """Searches of today per client, as the status shows them; for who has a limit also that, and when it ends."""
    tokens = {token.name: token for token in config.server.tokens}
    day = budgets.period(_DAY, now)
    # who needs no token is told of once there was one
    counted = await store.counted([_counter(name, day) for name in (*tokens, UNNAMED, COMMAND_LINE)])
    named = list(tokens) or [UNNAMED]
    came = [name for name in (UNNAMED, COMMAND_LINE) if name not in named and _counter(name, day) in counted]
    lines: list[dict[str, Any]] = []
    for name in (*named, *came):
        line: dict[str, Any] = {"name": name, "searches_today": counted.get(_counter(name, day), 0)}
        if name in tokens and tokens[name].daily_limit is not None:
            assert day.ends is not None  # a day has an end
            line |= {"daily_limit": tokens[name].daily_limit, "limit_ends": _when(day.ends)}
        lines.append(line)
    return lines


def tell(name: str, meta: Mapping[str, Any]) -> None:
    """Log one search: whose it was, what it came to, who answered and in how many milliseconds.

    What spent nothing is told at debug only: a line costs a twentieth of a cached answer. So is what the command line
    asked, which shows the answer itself.
    """
    quiet = meta["cache_hit"] or name == COMMAND_LINE
    who = meta.get("provider_used", "nobody")
    log.log(
        logging.DEBUG if quiet else logging.INFO,
        "search by %s: %s, %s, %d ms%s",
        *(name, meta["verdict"], who, meta["elapsed_ms"], ", cached" if meta["cache_hit"] else ""),
    )
