"""Several gateways race for one budget, first left alone, then killed every second.

The vendor gets exactly the budget when nobody is killed, and never more; the stored count ends at the budget; what is
counted and was never received is no more than what was in flight at the kills.
"""

from __future__ import annotations

import asyncio
import os
import signal
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from tests.chaos.stage import (
    Line,
    Load,
    check,
    content,
    free_ports,
    kill,
    served,
    start,
    until_any_served,
    until_served,
    workers_of,
)
from tests.doors_fixtures import call
from tests.processes import written
from tests.redis_server import RedisServer
from tests.vendors import Played, success

LIMIT = 777
RACERS = 4
CALLERS = 8
VENDOR_S = 0.2
"""How long the vendor takes: that many calls are always in flight."""

Shape = Literal["processes", "workers"]
Home = Literal["sqlite", "redis"]


class Racers(Protocol):
    """What serves, and can be killed in parts; it is always made whole again."""

    ports: list[int]

    async def kill_one(self) -> None: ...


@dataclass
class Processes:
    """Servers of their own over one store."""

    home: Path
    configs: list[Path]
    ports: list[int]
    running: list[asyncio.subprocess.Process] = field(default_factory=list)

    async def begin(self) -> None:
        self.running = [await start(self.home, config) for config in self.configs]
        for port, process in zip(self.ports, self.running, strict=True):
            await until_served(port, process)

    async def kill_one(self) -> None:
        # the oldest, once another one serves: else there would soon be nobody but beginners
        await until_any_served(self.ports[1:])
        await kill(self.running.pop(0))
        self.configs.append(self.configs.pop(0))
        self.ports.append(self.ports.pop(0))
        self.running.append(await start(self.home, self.configs[-1]))

    async def end(self) -> None:
        for each in self.running:
            await kill(each)


@dataclass
class Workers:
    """One server with several workers, which it replaces itself."""

    parent: int
    ports: list[int]

    async def kill_one(self) -> None:
        os.kill(workers_of(self.parent)[0], signal.SIGKILL)  # the oldest


@contextmanager
def stored_in(store: Home, folder: Path) -> Iterator[dict[str, Any]]:
    """The `state` section of a store in `folder`."""
    if store == "sqlite":
        yield {"type": "sqlite", "path": str(folder / "state")}
        return
    redis = RedisServer()
    try:
        yield {"type": "redis", "url": redis.url}
    finally:
        redis.end()


@asynccontextmanager
async def racing(shape: Shape, home: Path, played: Played, state: dict[str, Any]) -> AsyncIterator[Racers]:
    quota = {"name": "tavily", "quota": {"type": "one_time", "limit": LIMIT}}
    ports = free_ports(RACERS if shape == "processes" else 1)
    configs = [
        written(home / f"config{port}.json", content(played, [quota], port, state=state, cache={"enabled": False}))
        for port in ports
    ]
    async with AsyncExitStack() as stack:
        if shape == "processes":
            racers = Processes(home, configs, ports)
            stack.push_async_callback(racers.end)
            await racers.begin()
            yield racers
        else:
            server = served(home, configs[0], "--workers", str(RACERS), port=ports[0])
            yield Workers(await stack.enter_async_context(server), ports)


async def stored(port: int) -> int:
    """Requests as the gateways count them."""
    _, body = await Line(port).post(call({}, "web_search_status"))
    providers = body["result"]["structuredContent"]["providers"]
    return int(next(each["used_requests"] for each in providers if each["name"] == "tavily"))


async def race(shape: Shape, store: Home, kills: int) -> bool:
    """One race; `kills` 0 leaves everybody alone."""
    in_flight: list[int] = []
    with tempfile.TemporaryDirectory() as folder, stored_in(store, Path(folder)) as state:
        home = Path(folder)
        async with Played() as played:
            played.script("tavily", success("tavily", delay_s=VENDOR_S))
            async with racing(shape, home, played, state) as racers, asyncio.timeout(600):
                load = Load(racers.ports, CALLERS)
                begun = time.perf_counter()
                async with load.going_on():
                    while len(in_flight) < kills or load.refused < 2 * CALLERS:
                        await asyncio.sleep(1.0)
                        if len(in_flight) < kills:
                            in_flight.append(load.in_flight)
                            await racers.kill_one()
                    await asyncio.sleep(2 * VENDOR_S)  # the last ones may still be with the vendor
                took_s = time.perf_counter() - begun
                received = played.count("tavily")
                count = await counted_at_last(racers.ports)
    missing = LIMIT - received
    print(
        f"four {shape} on {store} race for {LIMIT}: {len(in_flight)} kills in {took_s:.0f} s, received {received}, "
        f"stored {count}, missing {missing}; answered {load.found}, refused {load.refused}, lost {load.lost}, "
        f"others {dict(load.others)}"
    )
    claims = [check("stored is the limit", count == LIMIT)]
    if kills:
        claims += [
            check(f"at least {kills} kills", len(in_flight) >= kills),
            check("never more than the limit received", received <= LIMIT),
            check(f"missing at most what was in flight at the kills ({sum(in_flight)})", missing <= sum(in_flight)),
        ]
    else:
        claims += [check("exactly the limit received, nobody lost", received == LIMIT and not load.lost)]
    return all(claims)


async def counted_at_last(ports: list[int]) -> int:
    """From whoever is served first."""
    while True:
        for port in ports:
            try:
                return await stored(port)
            except (OSError, asyncio.IncompleteReadError):
                await asyncio.sleep(0.1)
