"""One running gateway: the configured chain, its memory, and the searches under way."""

from __future__ import annotations

import itertools
import json
import logging
import secrets
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any, Self

import anyio

import providers
from gateway import answer, cache, clients, keys, landing, query, status
from gateway.audit import Audit, Step
from gateway.cache import Cache, Hit
from gateway.chain import Chain, Walked
from gateway.clock import Clock, Deadline
from gateway.config import Config
from gateway.cooldowns import Cooldowns
from gateway.flights import Flights
from gateway.history import History
from gateway.stores import Store, StoreUnavailable
from gateway.stores.memory import MemoryStore
from gateway.stores.opening import open_store

log = logging.getLogger(__name__)

NO_PAGES = "include_content: pages cannot be fetched yet; what the vendors sent of them is shown"

Progress = Callable[[int, Step], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Answer:
    """What a door sends back: `body` satisfies the output schema, whatever happened.

    `argument_error` is true when the caller's arguments were at fault and nobody was asked.
    """

    body: dict[str, Any]
    is_error: bool
    argument_error: bool = False

    @property
    def text(self) -> str:
        """The body as compact JSON with literal non-ASCII."""
        return json.dumps(self.body, ensure_ascii=False, separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class _Landed:
    """What one flight brings home: an answer body that every caller makes its own, and where its rows are kept."""

    body: dict[str, Any]
    starter: object = None
    """The caller who began the search: its answer bears the id under which the rows are kept."""


@dataclass(eq=False)
class Setup:
    """What one configuration became. A reload makes a new one; searches under way end on theirs."""

    config: Config
    candidates: tuple[keys.Candidate, ...]
    chain: Chain
    cache: Cache
    number: int
    usable: tuple[str, ...] = ()
    users: int = 0
    retired: bool = field(default=False)

    async def leave(self) -> None:
        """One search fewer; the last one to leave a retired setup closes its connections."""
        self.users -= 1
        if self.retired and not self.users:
            await self.close()

    async def close(self) -> None:
        with anyio.CancelScope(shield=True):
            for adapter in (each for candidate in self.candidates for each in candidate.adapters.values()):
                await adapter.aclose()


class Gateway:
    """Enter it once (`async with`); then search from as many tasks as you like."""

    def __init__(self, config: Config, clock: Clock | None = None, *, fresh_start: bool = False) -> None:
        """`fresh_start`: somebody started us by hand, so keys that were out for auth are tried again."""
        self.clock = clock or Clock()
        self._config = config
        self._fresh_start = fresh_start
        self._stack = AsyncExitStack()
        self._numbers = itertools.count(1)

    @property
    def config(self) -> Config:
        """The configuration in force."""
        return self._config

    async def __aenter__(self) -> Self:
        self.started = self.clock.ticks()
        opened = await open_store(self._config.state, self.clock.wall)
        self.store: Store = opened.store
        self.store_warnings = opened.warnings
        self.persistent = opened.persistent
        self._private = MemoryStore(self.clock.wall)
        self.cooldowns = Cooldowns(self.store, self.clock.wall)
        self.history = History(self.store, self.clock.wall)
        self._stack.push_async_callback(self.store.aclose)
        self.setup = await self._set_up(self._config)
        if self._fresh_start and opened.clears_auth:
            with suppress(StoreUnavailable):
                await self.cooldowns.forgive([lane for each in self.setup.candidates for lane in each.lanes])
        await self._note_usable()
        self._stack.push_async_callback(self._close_setup)
        tasks = await self._stack.enter_async_context(anyio.create_task_group())
        self._stack.callback(tasks.cancel_scope.cancel)
        self._flights = Flights[_Landed](tasks, self.clock)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.__aexit__(None, None, None)

    async def reload(self, config: Config) -> None:
        """Go on with `config`; searches under way end on the old one. Host, port and state stay."""
        old, new = self.setup, await self._set_up(config)
        new.cache.hits, new.cache.misses = old.cache.hits, old.cache.misses
        self.setup, self._config = new, config
        old.retired = True
        if not old.users:
            await old.close()
        await self._note_usable()

    def usable(self) -> tuple[str, ...]:
        """Titles of the providers that are configured, in the chain and not out for auth, as of start or reload."""
        return self.setup.usable

    async def status(self) -> dict[str, Any]:
        """What `web_search_status` says. Costs no request to a vendor."""
        return await status.report(self)

    # -----------------------------------------------------------------------------------------------------------------
    # one call

    async def search(
        self, arguments: Mapping[str, object], *, client: str = "default", progress: Progress | None = None
    ) -> Answer:
        """Answer one call of `web_search`. Never raises but for cancellation: a fault of ours is `internal_error`.

        `progress` is awaited once per provider considered, skipped ones and the winner included, with a number that
        counts from 1. Cancelling the calling task leaves the search.
        """
        started = self.clock.ticks()
        setup = self.setup
        setup.users += 1
        try:
            found = await self._search(setup, arguments, client, progress)
        except query.ArgumentError as mistake:
            found = Answer(landing.failed([], f"Search failed: {mistake}"), is_error=True, argument_error=True)
        except Exception:
            # the one edge: whatever we did wrong, the caller gets an answer and the log the cause
            incident = secrets.token_hex(4)
            log.exception("internal_error %s", incident)
            words = f"Search failed: the gateway itself had a fault; its log explains incident {incident}."
            found = Answer(
                landing.failed(answer.gateway_step("internal_error", f"incident {incident}"), words), is_error=True
            )
        finally:
            await setup.leave()
        found.body["meta"]["elapsed_ms"] = max(0, round((self.clock.ticks() - started) * 1000))
        return found

    async def _search(
        self, setup: Setup, arguments: Mapping[str, object], client: str, progress: Progress | None
    ) -> Answer:
        config = setup.config
        if config.errors:
            words = "Search failed: the gateway's configuration is faulty, so nobody was asked: " + "; ".join(
                config.errors
            )
            return Answer(landing.failed(answer.gateway_step("config_error", config.errors[0]), words), is_error=True)
        asked = query.read(arguments, debug=config.debug, provider_names=providers.names())
        if asked.query.include_content:
            asked = replace(asked, notes=(*asked.notes, NO_PAGES))
        if (refusal := await clients.admit(self.store, config, client, self.clock.wall())) is not None:
            return Answer(landing.failed(refusal.chain, refusal.words, refusal.retry_after_s), is_error=True)
        only = self._only(setup, asked.provider)
        if not setup.candidates or (asked.provider and only is None):
            who = f"{asked.provider} is not configured" if asked.provider else "no search provider is configured"
            words = f"Search failed: {who}. The operator has to set a key or an address; web_search_status lists which."
            return Answer(landing.failed(answer.gateway_step("no_provider", who), words), is_error=True)
        cached = asked.use_cache and only is None
        name = cache.key(asked.query, config.defaults.max_output_chars)
        kept = await setup.cache.find(name) if cached else None
        if kept is not None and not kept.stale:
            setup.cache.hits += 1
            return await self._from_cache(setup, kept, client, asked.notes)
        if cached and (tried := await setup.cache.find_empty(name)) is not None:
            setup.cache.hits += 1
            return Answer(landing.again_empty(tried.body, tried.age_s, asked.notes), is_error=False)
        setup.cache.misses += 1 if cached else 0

        me = object()

        async def fly(audit: Audit, deadline: Deadline) -> _Landed:
            setup.users += 1
            try:
                chain = setup.chain
                walked = await (
                    chain.ask_only(only, asked.query, deadline, audit)
                    if only is not None
                    else chain.walk(asked.query, deadline, audit)
                )
                # a caller who does without the cache gets nothing from it, and still refreshes it
                return await self._land(setup, asked.query, walked, name if only is None else None, client, me)
            finally:
                await setup.leave()

        limit_s = config.total_budget_ms / 1000
        # nobody joins a search that an older configuration began
        shared = f"{setup.number}:{name}" if cached else None
        landed, audit = await self._flights.join(shared, fly, limit_s, progress)
        if landed is None:
            order = [each.name for each in setup.chain.order(asked.query)]
            landed = _Landed(landing.cut_off(audit, order, asked.query, self.clock.wall()))
        return await self._landed(setup, landed, kept, client, me, asked.notes)

    def _only(self, setup: Setup, name: str | None) -> keys.Candidate | None:
        return next((each for each in setup.candidates if each.name == name), None) if name else None

    # -----------------------------------------------------------------------------------------------------------------
    # from a walk to an answer

    async def _land(
        self, setup: Setup, asked: providers.Query, walked: Walked, cache_name: str | None, client: str, starter: object
    ) -> _Landed:
        """Build the answer of a walk once, for all its callers, and keep what may be kept."""
        if walked.winner is None:
            body = landing.nothing(walked.steps, asked, walked.retry_after_s)
            if cache_name is not None and body["meta"]["verdict"] == "empty":
                with suppress(StoreUnavailable):
                    await setup.cache.put_empty(cache_name, asked, body)
            return _Landed(body)
        body, rows = landing.found(walked, walked.winner, asked, setup.config.defaults.max_output_chars)
        with suppress(StoreUnavailable):
            await setup.cache.put_rows(body["meta"]["search_id"], client, rows, may_store=walked.may_store)
            if cache_name is not None:
                await setup.cache.put(cache_name, asked, body, may_store=walked.may_store)
        return _Landed(body, starter)

    async def _landed(
        self, setup: Setup, landed: _Landed, kept: Hit | None, client: str, me: object, notes: tuple[str, ...]
    ) -> Answer:
        """One caller's own answer from what the flight brought home."""
        meta = landed.body["meta"]
        if answer.is_error(meta["verdict"]) and kept is not None:
            failed_now = f"Search failed now: this answer is {kept.age_s} s old"
            return await self._from_cache(setup, kept, client, (failed_now, *notes), meta["fallback_chain"])
        own = landing.own_copy(landed.body, notes)
        if landed.starter is me:
            own["meta"]["search_id"] = meta["search_id"]
        elif landed.starter is not None:
            await self._point(setup, own, client, meta["search_id"])
        return Answer(own, is_error=answer.is_error(meta["verdict"]))

    async def _from_cache(
        self, setup: Setup, kept: Hit, client: str, notes: tuple[str, ...], chain: list[Any] | None = None
    ) -> Answer:
        own = landing.from_cache(kept.body, kept.age_s, notes, chain)
        await self._point(setup, own, client, kept.body["meta"]["search_id"])
        return Answer(own, is_error=False)

    async def _point(self, setup: Setup, own: dict[str, Any], client: str, origin: str) -> None:
        with suppress(StoreUnavailable):
            await setup.cache.point_rows(own["meta"]["search_id"], client, origin)

    # -----------------------------------------------------------------------------------------------------------------
    # from a configuration to a setup

    async def _set_up(self, config: Config) -> Setup:
        candidates = [
            keys.candidate(settings, config.defaults.cooldown_default_s, self.clock.wall)
            for settings in (() if config.errors else config.chain)
        ]
        for adapter in (each for candidate in candidates for each in candidate.adapters.values()):
            adapter.open()
        chain = Chain(candidates, self.store, self.cooldowns, self.history, self.clock)
        kept = Cache(config.cache, self.store, self._private, self.clock.wall)
        return Setup(config, tuple(candidates), chain, kept, next(self._numbers))

    async def _note_usable(self) -> None:
        titles = []
        for candidate in self.setup.candidates:
            with suppress(StoreUnavailable):
                rests = [await self.cooldowns.of(lane) for lane in candidate.lanes]
                if all(rest is not None and rest.why == providers.Outcome.AUTH_FAILURE for rest in rests):
                    continue
            titles.append(candidate.adapter.title)
        self.setup.usable = tuple(titles)

    async def _close_setup(self) -> None:
        await self.setup.close()
