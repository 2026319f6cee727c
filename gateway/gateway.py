"""One running gateway: a call comes in, an answer goes out."""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Self

import anyio

from gateway import answer, cache, clients, landing, query, status
from gateway.answer import Body
from gateway.audit import Audit
from gateway.cache import Hit
from gateway.clock import Clock, Deadline
from gateway.configured import Configured, Memory, configured
from gateway.flights import Flights
from gateway.history import History
from gateway.keys import Candidate
from gateway.ledger import Ledger, wants_usage
from gateway.settings import Config
from gateway.steps import Step, Walked
from gateway.stores import StoreUnavailable
from gateway.stores.memory import MemoryStore
from gateway.stores.opening import open_store
from gateway.tally import Run, Tally
from providers import Query

log = logging.getLogger(__name__)

NO_PAGES = "include_content: pages cannot be fetched yet; what the vendors sent of them is shown"

Progress = Callable[[int, Step], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Answer:
    """What a door sends back: `body` satisfies the output schema, whatever happened.

    Nobody was asked when the caller's arguments were at fault (`argument_error`), or when the client had used up its
    daily limit (`over_daily_limit`).
    """

    body: Body
    is_error: bool
    argument_error: bool = False
    over_daily_limit: bool = False

    @property
    def text(self) -> str:
        """The body as compact JSON with literal non-ASCII."""
        return json.dumps(self.body, ensure_ascii=False, separators=(",", ":"))


class Gateway:
    """Enter it once (`async with`); then search from as many tasks as you like."""

    def __init__(
        self, config: Config, clock: Clock | None = None, *, fresh_start: bool = False, run: Run | None = None
    ) -> None:
        """`fresh_start`: somebody started us by hand, so keys that were out for auth are tried again.

        `run` is shared by the workers of one server, which share their state as well: nothing stands in for it. None: a
        run of our own.
        """
        self.clock = clock or Clock()
        self._config = config
        self._fresh_start = fresh_start
        self._run = run

    @property
    def config(self) -> Config:
        """The configuration in force."""
        return self._config

    async def __aenter__(self) -> Self:
        now = self.clock.wall
        self.run = self._run or Run(started=now())
        async with AsyncExitStack() as stack:
            opened = await open_store(self._config.state, now, stands_in=self._run is None)
            stack.push_async_callback(opened.store.aclose)
            self.store = opened.store
            self.store_warnings = opened.warnings
            self.persistent = opened.persistent
            # of several workers' state their parent has warned
            level = logging.WARNING if self._run is None else logging.DEBUG
            for warning in opened.warnings:
                log.log(level, "%s", warning)
            self.history = History(self.store, now)
            self.ledger = Ledger(self.store, now)
            self._memory = Memory(self.store, MemoryStore(now), self.clock, self.history, self.ledger)
            self.cooldowns = self._memory.shared.cooldowns
            fresh_start = self._fresh_start and opened.clears_auth
            self.current = await configured(self._config, self._memory, fresh_start=fresh_start)
            stack.push_async_callback(self._close_current)
            tasks = await stack.enter_async_context(anyio.create_task_group())
            stack.callback(tasks.cancel_scope.cancel)
            self._tasks = tasks
            self._flights = Flights[Body](tasks, self.clock)
            self.tally = Tally(self.store, self.run, tasks, now)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.__aexit__(None, None, None)

    async def _close_current(self) -> None:
        await self.current.aclose()

    async def reload(self, config: Config) -> None:
        """Go on with `config`; searches under way end on the old one. Host, port and state stay."""
        old, new = self.current, await configured(config, self._memory)
        self.current, self._config = new, config
        await old.replace()

    def usable(self) -> tuple[str, ...]:
        """Titles of the providers that are configured, in the chain and not out for auth, as of start or reload."""
        return self.current.usable

    async def status(self) -> dict[str, Any]:
        """What `web_search_status` says. Costs no request to a vendor."""
        return await status.report(self)

    async def search(
        self, arguments: Mapping[str, object], *, client: str = "default", progress: Progress | None = None
    ) -> Answer:
        """Answer one call of `web_search`. Never raises but for cancellation: a fault of ours is `internal_error`.

        `progress` is awaited once per provider considered, skipped ones and the winner included, with a number that
        counts from 1. Cancelling the calling task leaves the search.
        """
        started = self.clock.ticks()
        current = self.current
        current.users += 1
        try:
            found = await self._search(current, arguments, client, progress)
        except query.ArgumentError as mistake:
            found = Answer(landing.failed([], f"Search failed: {mistake}"), is_error=True, argument_error=True)
        except Exception:
            # the one edge: whatever we did wrong, the caller gets an answer and the log the cause
            incident, body = landing.internal_error()
            log.exception("internal_error %s", incident)
            found = Answer(body, is_error=True)
        finally:
            await current.leave()
        found.body["meta"]["elapsed_ms"] = max(0, round((self.clock.ticks() - started) * 1000))
        clients.tell(client, found.body["meta"])
        return found

    async def _search(
        self, current: Configured, arguments: Mapping[str, object], client: str, progress: Progress | None
    ) -> Answer:
        config = current.config
        if config.errors:
            faults = "; ".join(config.errors)
            words = f"Search failed: the gateway's configuration is faulty, so nobody was asked: {faults}"
            return Answer(landing.failed(answer.gateway_step("config_error", config.errors[0]), words), is_error=True)
        asked = query.read(arguments, debug=config.debug, provider_names=config.names)
        if asked.query.include_content:
            asked = replace(asked, notes=(*asked.notes, NO_PAGES))
        if (refusal := await clients.admit(self.store, config, client, self.clock.wall())) is not None:
            refused = landing.failed(refusal.chain, refusal.words, refusal.retry_after_s)
            return Answer(refused, is_error=True, over_daily_limit=True)
        only = current.find(asked.provider) if asked.provider else None
        if not current.candidates or (asked.provider and only is None):
            who = f"{asked.provider} is not configured" if asked.provider else "no search provider is configured"
            words = f"Search failed: {who}. The operator has to set a key or an address; web_search_status lists which."
            return Answer(landing.failed(answer.gateway_step("no_provider", who), words), is_error=True)

        cached = asked.use_cache and only is None
        name = cache.key(asked.query, config.defaults.max_output_chars)
        kept = await current.cache.find(name) if cached else None
        if kept is not None and not kept.stale:
            self.tally.add("hits")
            return await self._from_cache(current, kept, client, asked.notes)
        if cached and (tried := await current.cache.find_empty(name)) is not None:
            self.tally.add("hits")
            return Answer(landing.again_empty(tried.body, tried.age_s, asked.notes), is_error=False)
        if cached:
            self.tally.add("misses")

        async def fly(audit: Audit, deadline: Deadline) -> Body:
            current.users += 1
            try:
                chain = current.chain
                walked = await (
                    chain.ask_only(only, asked.query, deadline, audit)
                    if only is not None
                    else chain.walk(asked.query, deadline, audit)
                )
                self._have_usage_told(current, walked)
                # a caller who does without the cache gets nothing from it, and still refreshes it
                return await self._keep(current, asked.query, walked, name if only is None else None, client)
            finally:
                await current.leave()

        limit_s = config.total_budget_ms / 1000
        # nobody joins a search that an older configuration began
        shared = f"{current.number}:{name}" if cached else None
        body, audit, began = await self._flights.join(shared, fly, limit_s, progress)
        if body is None:
            order = [only] if only is not None else current.chain.order(asked.query)
            steps = landing.cut_off(audit, [each.name for each in order])
            body = landing.nothing(steps, asked.query, await current.chain.retry_after(steps, order))
        return await self._own(current, body, kept, client, asked.notes, began=began)

    def _have_usage_told(self, current: Configured, walked: Walked) -> None:
        """Ask the usage endpoints of those who were asked, where the operator wants that; no search waits for it."""
        asked = {walked.winner, *(step.provider for step in walked.steps if not step.skip)}
        if wanted := [each for each in current.candidates if each.name in asked and wants_usage(each)]:
            current.users += 1  # its connections are needed until then
            self._tasks.start_soon(self._refresh_usage, current, wanted)

    async def _refresh_usage(self, current: Configured, wanted: Sequence[Candidate]) -> None:
        try:
            await self.ledger.refresh(wanted)
        finally:
            await current.leave()

    async def _keep(
        self, current: Configured, asked: Query, walked: Walked, cache_name: str | None, client: str
    ) -> Body:
        """Build the answer of a walk once, for all its callers, and keep what may be kept."""
        if walked.winner is None:
            body = landing.nothing(walked.steps, asked, walked.retry_after_s)
            if cache_name is not None and body["meta"]["verdict"] == "empty":
                with suppress(StoreUnavailable):
                    await current.cache.put_empty(cache_name, asked, body)
            return body
        body, rows = landing.found(walked, walked.winner, asked, current.config.defaults.max_output_chars)
        with suppress(StoreUnavailable):
            await current.cache.put_rows(body["meta"]["search_id"], client, rows, may_store=walked.may_store)
            if cache_name is not None:
                await current.cache.put(cache_name, asked, body, may_store=walked.may_store)
        return body

    async def _own(
        self,
        current: Configured,
        body: Body,
        kept: Hit | None,
        client: str,
        notes: tuple[str, ...],
        *,
        began: bool,
    ) -> Answer:
        """One caller's own answer from what the flight brought home. Who `began` it has the id that the rows have."""
        meta = body["meta"]
        is_error = answer.is_error(meta["verdict"])
        if is_error and kept is not None:
            failed_now = f"Search failed now: this answer is {kept.age_s} s old"
            return await self._from_cache(current, kept, client, (failed_now, *notes), meta["fallback_chain"])
        own = landing.own_copy(body, notes)
        if began:
            own["meta"]["search_id"] = meta["search_id"]
        elif meta["verdict"] == "found":
            await self._point(current, own, client, meta["search_id"])
        return Answer(own, is_error)

    async def _from_cache(
        self, current: Configured, kept: Hit, client: str, notes: tuple[str, ...], chain: list[Body] | None = None
    ) -> Answer:
        own = landing.from_cache(kept.body, kept.age_s, notes, chain)
        await self._point(current, own, client, kept.body["meta"]["search_id"])
        return Answer(own, is_error=False)

    async def _point(self, current: Configured, own: Body, client: str, origin: str) -> None:
        with suppress(StoreUnavailable):
            await current.cache.point_rows(own["meta"]["search_id"], client, origin)
