"""What one configuration became: its chain, its cache, its connections. A reload makes a new one."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field

import anyio

from gateway import keys
from gateway.admission import Admission
from gateway.cache import Cache
from gateway.chain import Chain
from gateway.clock import Clock
from gateway.cooldowns import Cooldowns
from gateway.history import History
from gateway.ledger import Ledger
from gateway.settings import Config
from gateway.stores import Store, StoreUnavailable
from gateway.stores.memory import MemoryStore
from providers import HTTPProvider, Outcome

_NUMBERS = itertools.count(1)


@dataclass(eq=False)
class Memory:
    """All that outlives a configuration. `private` is for what may not be written to disk, or cannot be now."""

    store: Store
    private: MemoryStore
    clock: Clock
    history: History
    ledger: Ledger
    shared: Admission = field(init=False)
    """Who may be asked, by what all processes know."""
    standby: Admission = field(init=False)
    """The same by what this process knows: while the store is away."""

    def __post_init__(self) -> None:
        self.shared = Admission(self.store, Cooldowns(self.store, self.clock.wall), self.clock)
        self.standby = Admission(self.private, Cooldowns(self.private, self.clock.wall), self.clock)


@dataclass(eq=False)
class Configured:
    """One configuration at work. Searches under way end on theirs: the last one closes it when it was replaced.

    `usable` are the titles of the providers that can be asked, as of its beginning; `number` is its own.
    """

    config: Config
    candidates: tuple[keys.Candidate, ...]
    chain: Chain
    cache: Cache
    usable: tuple[str, ...]
    number: int = field(default_factory=lambda: next(_NUMBERS))
    users: int = 0
    replaced: bool = False

    def find(self, provider: str) -> keys.Candidate | None:
        """The candidate called `provider`."""
        return next((each for each in self.candidates if each.name == provider), None)

    async def leave(self) -> None:
        """One search fewer."""
        self.users -= 1
        if self.replaced and not self.users:
            await self.aclose()

    async def replace(self) -> None:
        """No new searches come; close as soon as nobody is left."""
        self.replaced = True
        if not self.users:
            await self.aclose()

    async def aclose(self) -> None:
        """Close every connection."""
        with anyio.CancelScope(shield=True):
            for adapter in _adapters(self.candidates):
                await adapter.aclose()


async def configured(config: Config, memory: Memory, *, fresh_start: bool = False) -> Configured:
    """`config` at work, connections open. `fresh_start`: keys that are out for auth are tried again."""
    candidates = tuple(
        keys.candidate(settings, config.defaults.cooldown_default_s, memory.clock.wall)
        for settings in (() if config.errors else config.chain)
    )
    shared = memory.shared
    if fresh_start:
        with suppress(StoreUnavailable):
            await shared.cooldowns.forgive([lane for each in candidates for lane in each.lanes])
    usable = tuple([each.adapter.title for each in candidates if not await _is_out(each, shared.cooldowns)])
    for adapter in _adapters(candidates):
        adapter.open()
    chain = Chain(candidates, shared, memory.standby, memory.history, memory.ledger, memory.clock)
    cache = Cache(config.cache, memory.store, memory.private, memory.clock.wall)
    return Configured(config, candidates, chain, cache, usable)


def _adapters(candidates: tuple[keys.Candidate, ...]) -> Iterator[HTTPProvider]:
    return (adapter for candidate in candidates for adapter in candidate.adapters.values())


async def _is_out(candidate: keys.Candidate, cooldowns: Cooldowns) -> bool:
    """Whether every key of `candidate` is refused."""
    with suppress(StoreUnavailable):
        rests = [await cooldowns.of(lane) for lane in candidate.lanes]
        return all(rest is not None and rest.why == Outcome.AUTH_FAILURE for rest in rests)
    return False
