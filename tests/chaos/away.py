"""The store goes away under load, twice, in two ways: searches go on, budgets hold, and all is well again.

Redis is stopped and started, with its data and without, then frozen and thawed; a SQLite file is locked by somebody
else, for a while and again.
"""

from __future__ import annotations

import asyncio
import sqlite3
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager, closing
from dataclasses import dataclass, field
from pathlib import Path

from gateway.stores.sqlite import FILE_NAME
from tests.chaos.racing import stored
from tests.chaos.stage import Load, check, content, free_ports, percentile, served
from tests.processes import written
from tests.redis_server import RedisServer
from tests.vendors import Played, success

LIMIT = 600
CALLERS = 8
VENDOR_S = 0.2
PHASE_S = 4.0
WAIT_S = 0.25
"""What a search may wait for a dead store, at most."""
BACK_S = 2.0


@dataclass
class Outages:
    """The times at which the server went away and was back."""

    away: list[tuple[float, float]] = field(default_factory=list)

    @asynccontextmanager
    async def one(self) -> AsyncIterator[None]:
        went = time.perf_counter()
        await asyncio.sleep(0)
        yield
        self.away.append((went, time.perf_counter()))


class Redis:
    """A server that writes everything down."""

    options: tuple[str, ...] = ("--appendonly", "yes", "--appendfsync", "always")

    def __init__(self, home: Path) -> None:
        self._server = RedisServer(*self.options)
        self.state = {"type": "redis", "url": self._server.url}
        self.end = self._server.end

    @asynccontextmanager
    async def away(self, time: int) -> AsyncIterator[None]:
        if time == 1:
            self._server.stop()
            yield
            self._server.start()
        else:
            with self._server.frozen():
                yield


class ForgetfulRedis(Redis):
    """A server that knows nothing when it is started again."""

    options = ()


class SQLite:
    """A file that somebody else locks."""

    def __init__(self, home: Path) -> None:
        self._folder = home / "state"
        self.state = {"type": "sqlite", "path": str(self._folder)}

    def end(self) -> None: ...

    @asynccontextmanager
    async def away(self, time: int) -> AsyncIterator[None]:
        with closing(sqlite3.connect(self._folder / FILE_NAME, isolation_level=None, timeout=20)) as other:
            other.execute("BEGIN IMMEDIATE" if time == 1 else "BEGIN EXCLUSIVE")
            yield
            other.execute("ROLLBACK")


async def away(make: type[Redis] | type[SQLite]) -> bool:
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        home, (port,) = Path(folder), free_ports(1)
        store = make(home)
        stack.callback(store.end)
        async with Played() as played:
            for name in ("tavily", "searxng"):
                played.script(name, success(name, delay_s=VENDOR_S))
            chain = [{"name": "tavily", "quota": {"type": "one_time", "limit": LIMIT}}, {"name": "searxng"}]
            file = content(played, chain, port, state=store.state, cache={"enabled": False})
            config, log = written(home / "config.json", file), home / "log"
            async with served(home, config, "--workers", "2", port=port, log=log), asyncio.timeout(300):
                load, outages = Load([port], CALLERS), Outages()
                async with load.going_on():
                    for number in (1, 2):
                        await asyncio.sleep(PHASE_S)
                        async with outages.one(), store.away(number):
                            await asyncio.sleep(PHASE_S)
                    while not load.refused:
                        await asyncio.sleep(0.5)
                count = await stored(port)
            received, said = played.count("tavily"), log.read_text("utf-8")
    print(f"{make.__name__} away under load, twice")
    return judged(load, outages, received, count, said)


def judged(load: Load, outages: Outages, received: int, count: int, said: str) -> bool:
    waits = [each.took_s - VENDOR_S for each in load.answers]
    used = [(each.at, each.meta.get("provider_used")) for each in load.answers]
    back_s = [
        min((at - back for at, name in used if name == "tavily" and at > back), default=float("inf"))
        for _, back in outages.away
    ]
    meanwhile = [name for went, back in outages.away for at, name in used if went + 0.5 < at - VENDOR_S < back]
    print(
        f"  {len(load.answers)} answers, of which {len(meanwhile)} meanwhile; beside the vendor's "
        f"time p50 {percentile(waits, 0.5) * 1000:.0f} ms, p99 {percentile(waits, 0.99) * 1000:.0f} ms, most "
        f"{max(waits) * 1000:.0f} ms; limit {LIMIT}, received {received}, stored {count}; "
        f"counted again {', '.join(f'{each:.2f} s' for each in back_s)} after its return"
    )
    trouble = [line for line in said.splitlines() if " ERROR " in line or "Traceback" in line]
    return all(
        [
            check("nobody lost, and no status but 200", not load.lost and {a.status for a in load.answers} == {200}),
            check(f"no error in the log {trouble[:2]}", not trouble),
            check(f"p99 under {WAIT_S * 1000:.0f} ms beside the vendor's time", percentile(waits, 0.99) < WAIT_S),
            check("meanwhile the one without a budget answered", bool(meanwhile) and set(meanwhile) == {"searxng"}),
            check("never more than the limit received", received <= LIMIT),
            check(f"normal again within {BACK_S:.0f} s", max(back_s) <= BACK_S),
        ]
    )
