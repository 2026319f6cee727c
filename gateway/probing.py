"""`probe`: what one vendor says to four requests. It measures: what comes back is counted, and nobody rests for it."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

import anyio

from gateway import budgets, pace
from gateway.clock import Clock
from gateway.cooldowns import Cooldowns
from gateway.doctor import MEANING
from gateway.keys import candidate
from gateway.questions import Question, questions
from gateway.recording import Hiding, Recorded, recorded
from gateway.settings import Config, ProviderSettings
from gateway.steps import Skip, whole_seconds
from gateway.stores import StoreUnavailable
from gateway.stores.opening import Opened, open_store
from providers import Draft, Reply, Settings, Wire
from providers._http import LEAST_SECRET
from providers._login._grant import is_login
from providers._reading import spellings
from providers._sections import did_you_mean, printable_name
from providers._visiting import VisitingProvider

PATIENCE_S = 60.0
"""A turn further off than this, or than two of the key's own intervals, is not waited for."""

RELAY = Settings(address="http://relay.example")
"""How recordings with `route: chat` are read: Grok over somebody's relay."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What came of a question: what it means, how it arrived, and what is secret of the requests so far.

    Without a `reply` nothing was sent, and `why` says why.
    """

    question: Question
    reply: Reply | None = None
    wire: Wire | None = field(default=None, repr=False)
    secrets: tuple[str, ...] = field(default=(), repr=False)
    why: str = ""

    @property
    def is_expected(self) -> bool:
        """Whether the vendor answered as he should."""
        return self.reply is not None and self.reply.outcome in self.question.expects


@dataclass(frozen=True, slots=True)
class Plan:
    """What would be done, in lines for people; with `refusal`, why it is not."""

    lines: tuple[str, ...]
    refusal: str = ""


def refusal(config: Config, name: str) -> str | None:
    """Why the provider `name` cannot be probed with this configuration; None when it can."""
    known = [each.name for each in config.providers]
    if name not in known:
        near = did_you_mean(name, known) or f"; there are: {', '.join(known)}"
        return f"no provider is called {printable_name(name)}{near}"
    settings = _settings(config, name)
    if not settings.keys:
        return f"{name} is not configured: set {settings.credential_env}; it need not be in the chain"
    return None


def _settings(config: Config, name: str) -> ProviderSettings:
    return next(each for each in config.providers if each.name == name)


class Probe:
    """One configured provider and its first key, with the questions for them."""

    def __init__(self, config: Config, name: str, home: Opened, clock: Clock) -> None:
        self._settings = _settings(config, name)
        self._candidate = candidate(self._settings, config.defaults.cooldown_default_s, clock.wall)
        self._lane = self._candidate.lanes[0]
        self._adapter = self._candidate.adapter_for(self._lane)
        self._secrets = config.secrets
        self._home = home
        self._store = home.store
        self._clock = clock
        self._heard: list[Wire | Reply] = []
        self._shown: dict[str, None] = {}
        self._adapter.listener = self._hear
        self.questions = tuple(questions(self._adapter, self._lane.key))

    def _hear(self, request: Any, arrived: Wire | Reply) -> None:
        self._heard.append(arrived)
        # a login's token, and what a page gave that was visited before, are put in when it is sent
        told = [request.headers.get("authorization", "").rpartition(" ")[2]]
        told += [each.partition("=")[2] for each in request.headers.get("cookie", "").split("; ")]
        self._shown |= dict.fromkeys(each for each in told if len(each) >= LEAST_SECRET)

    async def aclose(self) -> None:
        """Close every connection."""
        for adapter in self._candidate.adapters.values():
            await adapter.aclose()

    # -----------------------------------------------------------------------------------------------------------------
    # before

    @property
    def address(self) -> str:
        """The host that is asked, with a port that is not the usual one."""
        return next((_address(each.draft) for each in self.questions if isinstance(each.draft, Draft)), "")

    async def plan(self) -> Plan:
        """What would be spent, on whom, and whether it can be."""
        sent = [each for each in self.questions if isinstance(each.draft, Draft)]
        counted = sum(each.counts for each in sent)
        lines = [f"probe {self._adapter.name}: {len(sent)} requests to {self.address}, {self._whose()}"]
        lines += [f"  {each.name:<14} {each.about}" for each in self.questions]
        lines += [f"warning: {each}" for each in self._home.warnings]
        if not self._lane.key or self._adapter.keys_are_addresses:
            lines.append("No vendor bills them, but an engine may block who asks much.")
        else:
            lines.append("The vendor may bill each of them, whatever he answers.")
        if isinstance(self._adapter, VisitingProvider):
            lines.append("A page that has to be visited before a search comes on top, as in any search.")
        if self._lane.interval_ms >= 1000:
            lines.append(f"By our pace those that count go out {self._lane.interval_ms / 1000:g} s apart.")
        if unsendable := next((each.draft for each in self.questions if isinstance(each.draft, Reply)), None):
            return Plan(tuple(lines), f"{unsendable.detail}; {unsendable.hint}".rstrip("; "))
        try:
            used = await budgets.used(self._store, self._lane, self._clock.wall())
            rest = await Cooldowns(self._store, self._clock.wall).of(self._lane)
        except StoreUnavailable as trouble:
            return Plan(tuple(lines), f"the state is away, so that nothing can be counted: {trouble}")
        budget = self._lane.budget
        left = None if budget.limit is None else max(0, budget.limit - used)
        of = "" if left is None else f", {left} of {budget.limit} left"
        forgotten = "" if self._home.persistent else "; kept in memory, so this is forgotten at the end"
        lines.append(f"{counted} count in our own budget ({budgets.profile(budget)}): {used} used{of}{forgotten}.")
        if rest is not None:
            left_s = whole_seconds(rest.until, self._clock.wall())
            lines.append(f"It rests now ({rest.why}, {left_s} s left), and would be asked all the same.")
        lines.append("Whatever comes back, no rest begins or ends.")
        short = left is not None and left < counted
        return Plan(tuple(lines), MEANING[Skip.QUOTA_LOCAL][0] + f": {left} left of {counted} needed" if short else "")

    def _whose(self) -> str:
        if not self._lane.key:
            return "which wants no key"
        if self._adapter.keys_are_addresses:
            return f"address #1 of {len(self._settings.keys)} in {self._settings.credential_env}"
        with_key = sum(each.counts for each in self.questions)
        named = "your login" if is_login(self._lane.key) else self._settings.credential_env
        return f"{with_key} of them with key #1 of {len(self._settings.keys)} ({named})"

    # -----------------------------------------------------------------------------------------------------------------
    # asking

    async def ask(self) -> AsyncIterator[Asked]:
        """Send the questions one after the other, each counted first; those that cannot be sent say why."""
        for question in self.questions:
            if not isinstance(question.draft, Draft):
                yield Asked(question, why=question.about)
                continue
            if question.counts and (why := await self._reserved()):
                yield Asked(question, why=why)
                continue
            self._heard.clear()
            reply = await self._adapter.send(question.draft, self._candidate.timeout_s)
            arrived = self._heard[-1] if self._heard else None
            secrets = (*question.draft.secrets, *self._shown)
            yield Asked(question, reply, arrived if isinstance(arrived, Wire) else None, secrets)

    async def _reserved(self) -> str:
        """Wait for the key's turn and take one unit of its budget: "", or why that cannot be."""
        try:
            patience_ms = max(round(PATIENCE_S * 1000), 2 * self._lane.interval_ms)
            turn = await pace.turn(self._store, self._lane, patience_ms)
            if not turn.taken:
                return MEANING[Skip.LOCAL_RATE][0]
            if turn.wait_ms:
                await self._clock.sleep(turn.wait_ms / 1000)
            taken = await budgets.reserve(self._store, self._lane, self._clock.wall())
        except StoreUnavailable:
            return MEANING[Skip.STATE_UNAVAILABLE][0]
        return "" if taken is not None else f"not asked: {MEANING[Skip.QUOTA_LOCAL][0]}"

    def record(self, asked: Asked) -> Recorded:
        """The recording of what came; nothing when nothing was sent."""
        if asked.reply is None:
            return Recorded(None)
        forms = spellings(dict.fromkeys((*asked.secrets, *self._own_secrets())))
        hiding = Hiding(forms, self.address if self._is_own_address() else "")
        source = f"probe, {datetime.fromtimestamp(self._clock.wall(), UTC):%Y-%m-%d}"
        is_relayed = self._adapter.is_relayed
        settings = RELAY if is_relayed else Settings()
        visits = isinstance(self._adapter, VisitingProvider)
        is_first = visits and asked.wire is not None and self._adapter.read(asked.wire).row != asked.reply.row

        def reread(wire: Wire) -> Reply:
            adapter = type(self._adapter)(settings, lambda: wire.now)
            first = adapter.read_first(wire) if is_first and isinstance(adapter, VisitingProvider) else None
            return first if isinstance(first, Reply) else adapter.read(wire)

        name = "probed_" + asked.question.name.replace(" ", "_")
        found = recorded(name, asked.reply, asked.wire, reread, hiding, source)
        kind = ({"route": "chat"} if is_relayed else {}) | ({"step": "first"} if is_first else {})
        return Recorded(found.entry and {**found.entry, **kind}, found.remarks)

    def _own_secrets(self) -> tuple[str, ...]:
        ours = (secret for lane in self._candidate.lanes for secret in self._adapter.secrets(lane.key))
        return (*ours, *self._secrets)

    def _is_own_address(self) -> bool:
        """Whether the operator says where to ask, and not the vendor."""
        said = self._adapter.settings.base_url or self._adapter.settings.address
        return self._adapter.keys_are_addresses or said is not None


@asynccontextmanager
async def opened(config: Config, name: str, clock: Clock | None = None) -> AsyncIterator[Probe]:
    """The probe of the configured provider `name`, which `refusal` has nothing against."""
    clock = clock or Clock()
    home = await open_store(config.state, clock.wall)
    try:
        probe = Probe(config, name, home, clock)
        try:
            yield probe
        finally:
            with anyio.CancelScope(shield=True):
                await probe.aclose()
    finally:
        with anyio.CancelScope(shield=True):
            await home.store.aclose()


def _address(draft: Draft | Reply | None) -> str:
    return draft.request.url.netloc.decode("ascii") if isinstance(draft, Draft) else ""


# ---------------------------------------------------------------------------------------------------------------------
# telling


def line(asked: Asked) -> str:
    """What came of a question, for people."""
    name, reply = asked.question.name, asked.reply
    if reply is None:
        return f"{name:<14} {'-':<4} not sent: {asked.why.removeprefix('left out: ')}"
    status = "-" if asked.wire is None else str(asked.wire.status)
    because = reply.row if asked.wire is not None else f"{reply.row}, {reply.detail}"
    count = len(reply.results)
    told = f"{because}; {count} row{'' if count == 1 else 's'} in {reply.elapsed_ms} ms"
    wanted = "" if asked.is_expected else f"  <- expected {' or '.join(asked.question.expects)}"
    return f"{name:<14} {status:<4} {reply.outcome:<15} {told}{wanted}"


def data(asked: Asked) -> dict[str, Any]:
    """The same for programs. Every member is always there; what does not apply is null."""
    reply = asked.reply
    return {
        "name": asked.question.name,
        "expected": list(asked.question.expects),
        "as_expected": asked.is_expected,
        "left_out": asked.question.is_left_out,
        "not_sent": None if reply else asked.why,
        "status": asked.wire.status if asked.wire else None,
        "outcome": reply.outcome.value if reply else None,
        "row": reply.row if reply else None,
        "detail": reply.detail or None if reply else None,
        "results": len(reply.results) if reply else None,
        "elapsed_ms": reply.elapsed_ms if reply else None,
    }


# ---------------------------------------------------------------------------------------------------------------------
# writing


class Unwritable(Exception):  # noqa: N818 -- it says what a file is
    """The recordings cannot be written; the words say why."""


def free_name(folder: Path, provider: str) -> Path:
    """The first of `<provider>.json`, `<provider>-2.json` … that is not there yet. Raises `Unwritable`."""
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        raise Unwritable(f"{folder} is no folder that can be written")
    numbered = (folder / f"{provider}{f'-{n}' if n > 1 else ''}.json" for n in range(1, 1000))
    if (free := next((each for each in numbered if not each.exists()), None)) is None:
        raise Unwritable(f"{folder} is full of recordings")
    return free


class RecordingsFile:
    """A new file that only its owner can read, whole after each reply, so that nothing paid for is lost.

    Enter it once. It never overwrites, and is taken away again when nothing came into it. Raises `Unwritable`.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._entries: list[Mapping[str, Any]] = []
        try:
            self._file = os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8")
        except OSError as error:
            raise Unwritable(f"{path}: {error.strerror}") from None

    def add(self, entry: Mapping[str, Any]) -> None:
        """Write one recording more."""
        self._entries.append(entry)
        try:
            self._file.seek(0)
            self._file.write(json.dumps(self._entries, indent=1, ensure_ascii=False) + "\n")
            self._file.truncate()
            self._file.flush()
        except OSError as error:
            raise Unwritable(f"{self._path}: {error.strerror}") from None

    @property
    def holds_something(self) -> bool:
        """Whether a reply was written."""
        return bool(self._entries)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):  # of what could not be written `add` has told
            self._file.close()
        if not self._entries:
            self._path.unlink(missing_ok=True)
