"""A whole gateway over the played vendors, and a clock that a test turns by hand."""

from __future__ import annotations

import json
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anyio
from anyio.lowlevel import checkpoint

from gateway import budgets, config
from gateway.clock import Clock
from gateway.config import Config
from gateway.gateway import Answer, Gateway
from gateway.keys import Lane
from tests.vendors import Play, Played, configuration, json_play

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC).timestamp()


class HandTime:
    """Time that moves when a test says so, and when somebody sleeps.

    A sleeper moves the clock itself and wakes at once; with `held` it sleeps until the test has moved the clock far
    enough.
    """

    def __init__(self, now: float = NOON, *, held: bool = False) -> None:
        self.now = now
        self.held = held
        self.slept: list[float] = []
        """Every sleep that was begun, in seconds."""
        self.sleeping = 0
        self._moved = anyio.Event()

    @property
    def clock(self) -> Clock:
        return Clock(wall=self._read, ticks=self._read, sleep=self._sleep)

    def move(self, seconds: float) -> None:
        self.now += seconds
        self._tell()

    async def until_sleeping(self, n: int, limit_s: float = 10.0) -> None:
        """Until exactly `n` sleep. Raises TimeoutError."""
        with anyio.fail_after(limit_s):
            while self.sleeping != n:
                await self._moved.wait()

    def _read(self) -> float:
        return self.now

    async def _sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        due = self.now + seconds
        if not self.held:
            self.now = due
            await checkpoint()
            return
        self.sleeping += 1
        self._tell()
        try:
            while self.now < due:
                await self._moved.wait()
        finally:
            self.sleeping -= 1
            self._tell()

    def _tell(self) -> None:
        moved, self._moved = self._moved, anyio.Event()
        moved.set()


def tuned(name: str, **tuning: Any) -> dict[str, Any]:
    """A provider without pacing, and with `tuning` of its own."""
    return {"name": name, "min_interval_ms": 0, **tuning}


def configured(
    played: Played,
    providers: Sequence[Any] = ("bocha", "tavily", "brave"),
    *,
    keys: Mapping[str, str] | None = None,
    debug: bool = False,
    **sections: Any,
) -> Config:
    """The configuration of a chain over `played`.

    A name alone stands for a provider without pacing. `keys` replace those of the played vendors by variable;
    `sections` are sections of the file.
    """
    content = configuration(played, [tuned(each) if isinstance(each, str) else each for each in providers], **sections)
    content["credentials"] |= keys or {}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "config.json")
        file.write_text(json.dumps(content), encoding="utf-8")
        file.chmod(0o600)
        loaded = config.load({"WEBSEARCH_CONFIG": str(file), "TZ": "UTC", "WEBSEARCH_DEBUG": "1" if debug else "0"})
    assert loaded.errors == ()
    return loaded


@asynccontextmanager
async def running(
    played: Played,
    providers: Sequence[Any] = ("bocha", "tavily", "brave"),
    *,
    time: HandTime | None = None,
    fresh_start: bool = False,
    **how: Any,
) -> AsyncIterator[Gateway]:
    """A gateway at work, on real time unless `time` is given; `how` as in `configured`."""
    loaded = configured(played, providers, **how)
    async with Gateway(loaded, time.clock if time else None, fresh_start=fresh_start) as gateway:
        yield gateway


def sqlite(folder: Path) -> dict[str, Any]:
    """The `state` section for a file in `folder`."""
    return {"type": "sqlite", "path": str(folder)}


async def ask(gateway: Gateway, query: str = "moss", **arguments: Any) -> Answer:
    return await gateway.search({"query": query, **arguments})


def told(answer: Answer) -> list[str]:
    """The chain of an answer, one line per entry: `tavily#2 rate_limited http_429`."""
    return [
        " ".join(filter(None, (f"{step['provider']}{step.get('key', '')}", step["outcome"], step.get("detail", ""))))
        for step in answer.body["meta"]["fallback_chain"]
    ]


def used(answer: Answer) -> str | None:
    """Who answered."""
    name: str | None = answer.body["meta"].get("provider_used")
    return name


def came_to(answer: Answer) -> tuple[str, bool, int | None]:
    """The verdict, `isError` and `retry_after_s` of an answer."""
    meta = answer.body["meta"]
    return meta["verdict"], answer.is_error, meta.get("retry_after_s")


EMPTY = {
    "bocha": json_play({"code": 200, "data": {"webPages": None}}),
    "tavily": json_play({"query": "moss", "results": [], "response_time": 0.1}),
    "brave": json_play({"type": "search", "query": {"original": "moss"}, "web": {"results": []}}),
    "searxng": json_play({"query": "moss", "results": [], "unresponsive_engines": []}),
}
"""Honest answers with nothing in them."""


def failing(status: int, retry_after: float | str | None = None) -> Play:
    """A failure that every vendor's table reads by its status alone."""
    return json_play({}, status, headers={} if retry_after is None else {"retry-after": str(retry_after)})


def lane(gateway: Gateway, name: str, number: int = 1) -> Lane:
    """Key `number` of a provider in the chain."""
    return next(each for each in gateway.current.candidates if each.name == name).lanes[number - 1]


async def rest(gateway: Gateway, name: str, number: int = 1) -> tuple[str, float] | None:
    """Why a key of a provider rests, and for how many seconds more."""
    found = await gateway.cooldowns.of(lane(gateway, name, number))
    return None if found is None else (found.why, round(found.until - gateway.clock.wall(), 3))


async def streak(gateway: Gateway, name: str, number: int = 1) -> int:
    return await gateway.cooldowns.streak(lane(gateway, name, number))


async def counted(gateway: Gateway, name: str, number: int = 1) -> int:
    """Requests of this period with a key of a provider."""
    return await budgets.used(gateway.store, lane(gateway, name, number), gateway.clock.wall())
