"""What no adapter writes twice: send one request, bound it, decode it, decide what it means."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import ClassVar, Literal
from urllib.parse import urlsplit

import anyio
import httpx2

from providers import _addresses, _cutting
from providers._login._grant import Authority
from providers._reading import member, one_line, redact, retry_after, spellings, told_wait
from providers._transport import UNSENDABLE, Carrier, Connections, out_of_time
from providers._wire import Unreadable, Wire, read_json
from providers._words import (
    FRESHNESS_DAYS,
    UNBOUNDED,
    Budget,
    Freshness,
    Left,
    Limits,
    Option,
    Outcome,
    Query,
    Reply,
    Result,
    Results,
    Row,
    Said,
    Settings,
)

USER_AGENT = "Mozilla/5.0 (compatible; websearch-gateway)"

UNREADABLE = Reply(Outcome.SERVER_ERROR, detail="unreadable reply", row="shape of a success: unknown")

LEAST_SECRET = 8
MOST_ECHOED = 50
"""Rows of a reply that holds a secret which are shown, each text cut."""

SHARED_TABLE = (
    # What a vendor's own table does not name. 403 stands in `_by_status`: it depends on who wrote the body.
    Row(401, Outcome.AUTH_FAILURE),
    Row(402, Outcome.QUOTA_EXHAUSTED),
    Row(408, Outcome.TIMEOUT),
    Row(429, Outcome.RATE_LIMITED),
    Row(504, Outcome.TIMEOUT),
    Row(522, Outcome.TIMEOUT),
    Row(524, Outcome.TIMEOUT),
)


@dataclass(frozen=True, slots=True)
class Draft:
    """A request that is ready to be sent, and what had to be given up to make it."""

    request: httpx2.Request
    notes: tuple[str, ...] = ()
    secrets: tuple[str, ...] = field(default=(), repr=False)


class HTTPProvider:
    """One search vendor over HTTP. A subclass is a table of facts, `request` and `results`.

    An instance belongs to one event loop. `draft` says what would be sent, `send` sends it, `read` says what a reply
    means; none of them raises for anything that a vendor can do.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    priority: ClassVar[int]
    """Place in the built-in order; smaller is earlier."""
    home: ClassVar[str]
    """The vendor's own address, with the endpoint's path."""
    credential: ClassVar[str | None] = None
    """Name of the variable that holds the key (or, for a self-hosted engine, its address)."""
    shared_credential: ClassVar[str | None] = None
    """A second variable that other programs use too: it counts only when the provider is listed."""
    address_variable: ClassVar[str | None] = None
    """Name of a variable that holds another address for this vendor."""
    keys_are_addresses: ClassVar[bool] = False
    authority: ClassVar[Authority | None] = None
    """Where an account of the vendor's can log in, to be used like a key; None: only keys are taken."""
    joins: ClassVar[Literal["built_in", "if_listed", "last_resort"]] = "built_in"
    budget: ClassVar[Budget] = UNBOUNDED
    min_interval_ms: ClassVar[int] = 0
    timeout_s: ClassVar[float | None] = None
    """What a vendor needs who is slower than the general time limit allows; None: he is not."""
    limits: ClassVar[Limits] = Limits()
    domains: int = 0
    """How many hosts the vendor itself can be held to; a provider with two faces sets it for the one in use."""
    is_relayed: bool = False
    """Whether it is reached through somebody's relay, which speaks in another way than the vendor."""
    operators: ClassVar[bool] = False
    """Whether hosts go into the query's text, as `site:` operators."""
    enforces_freshness: ClassVar[bool] = True
    """Whether `freshness` is a filter here, and not only a wish in words."""
    rest_default_s: ClassVar[float | None] = None
    """Rest after a throttle without a time, where it is not the general one."""
    rest_max_s: ClassVar[float | None] = None
    may_store: ClassVar[bool] = True
    """Whether the vendor's terms let results be written to disk."""
    sends_unrelated: ClassVar[bool] = False
    """Whether it gives pages about something else rather than none: its results count only when they are related."""
    options: ClassVar[Mapping[str, Option]] = {}
    errors: ClassVar[Sequence[Row]] = ()
    code_at: ClassVar[Sequence[tuple[str, ...]]] = ()
    """Where bodies hold the vendor's own codes, as paths of member names: all that stand there count."""
    message_at: ClassVar[Sequence[tuple[str, ...]]] = (("error", "message"), ("error",), ("message",), ("detail",))
    """Where they hold his sentence: the first text counts."""
    wait_at: ClassVar[Sequence[tuple[str, ...]]] = ()
    """Where they hold the seconds until he wants to hear from us again, for names that only he uses."""
    connections: ClassVar[type[Carrier]] = Connections
    usage_every_s: ClassVar[float | None] = None
    """Seconds that must lie between two questions about what is left; None: the vendor has no endpoint for them."""

    def __init__(self, settings: Settings | None = None, clock: Callable[[], float] = time.time) -> None:
        """`clock` gives seconds since the epoch."""
        self.settings = settings or Settings()
        self.clock = clock
        self._connections = self.connections(self.settings.proxy, clock)
        self._secrets: dict[str, tuple[str, ...]] = {}
        self.listener: Callable[[httpx2.Request, Wire | Reply], None] | None = None
        """Hears of every exchange, secrets included; None: nobody does."""

    # -----------------------------------------------------------------------------------------------------------------
    # what a vendor says

    def request(self, query: Query, key: str) -> httpx2.Request:
        """The request for `query`, whose text has been fitted already. Nothing else happens here."""
        raise NotImplementedError

    def results(self, body: object) -> Results | Reply | None:
        """What a decoded 2xx body holds.

        `Results` without rows is an honest "nothing found"; None is a shape that this vendor does not send; a `Reply`
        is a failure that was told inside a success.
        """
        raise NotImplementedError

    def said(self, wire: Wire, body: object) -> Said:
        """The vendor's own codes and sentence, in the body or wherever else it hides them; `body` None: no data."""
        codes = (member(body, *path) for path in self.code_at)
        texts = (text for path in self.message_at if isinstance(text := member(body, *path), str))
        return Said(tuple(str(code) for code in codes if isinstance(code, str | int)), next(texts, ""))

    def status(self, wire: Wire, body: object) -> int:
        """The status that counts: the wire's, unless the vendor puts another inside the body."""
        return wire.status

    def rest(self, wire: Wire, body: object, outcome: Outcome) -> float | None:
        """Seconds until the vendor wants to hear from us again; None when it does not say."""
        places = (wire.headers.get("retry-after"), *(member(body, *path) for path in self.wait_at))
        return next((told for each in places if (told := retry_after(each, wire.now)) is not None), None)

    def left(self, wire: Wire, body: object) -> Left | None:
        """What the vendor says beside his answer, good or bad, is left of his quota; None when nothing can be read."""
        return None

    def usage_request(self, key: str) -> httpx2.Request:
        """The question what is left of the key's quota, where `usage_every_s` says that there is an endpoint for it."""
        raise NotImplementedError

    def usage(self, body: object) -> Left | None:
        """What a decoded 2xx body of that endpoint says; None is a shape that this vendor does not send."""
        raise NotImplementedError

    def decode(self, wire: Wire) -> object:
        """The body as a value. Raises `Unreadable`."""
        return read_json(wire.text)

    def fit(self, query: Query) -> tuple[Query, tuple[str, ...]] | None:
        """`query` with its text cut to what the vendor takes, and what to say about it; None when it cannot be done."""
        operators = _cutting.site_operators(query) if self.operators else ()
        return _cutting.fit(query, self.limits, self.name, operators)

    def speaks(self, query: Query) -> bool:
        """Whether the vendor can have pages in the language that `query` is written in."""
        return True

    def leaves_out(self, query: Query) -> bool:
        """Whether the vendor, if he can be held to hosts at all, is told which to leave out."""
        return True

    def unmet(self, query: Query) -> Iterator[str]:
        """Notes on what of `query` this vendor cannot be held to."""
        yield from ()

    # -----------------------------------------------------------------------------------------------------------------
    # one exchange

    def draft(self, query: Query, key: str) -> Draft | Reply:
        """What would be sent for `query`; a `request_error` reply when nothing sensible can be."""
        fitted = self.fit(query)
        if fitted is None:
            return Reply(Outcome.REQUEST_ERROR, detail="query_too_long beside its site: operators", row="nothing sent")
        query, notes = fitted
        if self.limits.results is not None:
            query = replace(query, max_results=min(query.max_results, self.limits.results))
        return self.unfitted(query, key, notes)

    def unfitted(self, query: Query, key: str, notes: tuple[str, ...] = ()) -> Draft | Reply:
        """What would be sent for `query` as it stands, be it something that the vendor must refuse."""
        if not (self.keys_are_addresses or (key.isascii() and key.isprintable())):
            return UNSENDABLE  # in an address it would go out, in other signs
        try:
            request = self.request(query, key)
        except (httpx2.InvalidURL, ValueError):
            # a base URL or key that cannot be put into a request; the error's own words may hold the key
            return UNSENDABLE
        return self._drafted(request, key, (*notes, *self.unmet(query)))

    def _drafted(self, request: httpx2.Request, key: str, notes: tuple[str, ...] = ()) -> Draft:
        request.headers.setdefault("User-Agent", USER_AGENT)
        request.headers.setdefault("Accept-Encoding", "gzip, deflate")
        if key not in self._secrets:
            self._secrets[key] = self.secrets(key)
        return Draft(request, notes, self._secrets[key])

    async def send(self, draft: Draft, limit_s: float) -> Reply:
        """Send `draft` and wait at most `limit_s` seconds for the whole reply."""
        started = time.perf_counter()
        arrived = await self._arrival(draft, limit_s)
        elapsed_ms = round((time.perf_counter() - started) * 1000)
        reply = arrived if isinstance(arrived, Reply) else self.read(arrived)
        reply = without_secrets(reply, spellings(draft.secrets))
        return replace(reply, elapsed_ms=elapsed_ms, notes=(*draft.notes, *reply.notes))

    async def ask_usage(self, key: str, limit_s: float) -> Left | Reply:
        """Ask the vendor's usage endpoint what is left of `key`'s quota, and wait at most `limit_s` seconds.

        It is no search. A `Reply` is what kept him from telling; it says nothing of the key (Tavily's endpoint has been
        seen to answer 429 for every key there is).
        """
        try:
            draft = self._drafted(self.usage_request(key), key)
        except (httpx2.InvalidURL, ValueError):
            return UNSENDABLE
        arrived = await self._arrival(draft, limit_s)
        told = arrived if isinstance(arrived, Reply) else self._read_usage(arrived)
        return told if isinstance(told, Left) else without_secrets(told, spellings(draft.secrets))

    async def _arrival(self, draft: Draft, limit_s: float) -> Wire | Reply:
        arrived: Wire | Reply | None = None
        with anyio.move_on_after(limit_s):
            arrived = await self.exchange(draft.request)
        return out_of_time(limit_s) if arrived is None else arrived

    async def exchange(self, request: httpx2.Request) -> Wire | Reply:
        """Put `request` on the wire; the reply as it arrived, or what kept it from arriving."""
        arrived = await self._connections.exchange(request)
        if self.listener is not None:
            self.listener(request, arrived)
        return arrived

    def open(self) -> None:
        """Load certificates and make ready for connections, so that no search has to wait for it."""
        self._connections.open()

    async def aclose(self) -> None:
        """Close every connection. The provider can be used again."""
        await self._connections.aclose()

    # -----------------------------------------------------------------------------------------------------------------
    # what a reply means

    def read(self, wire: Wire) -> Reply:
        """What `wire` means: the vendor's code or phrase first, then the status, then the shape of a success."""
        body = self._decoded(wire)
        return replace(self._meaning(wire, body), left=self.left(wire, body))

    def _decoded(self, wire: Wire) -> object:
        try:
            return self.decode(wire) if wire.body.strip() else None
        except Unreadable:
            return None

    def _read_usage(self, wire: Wire) -> Left | Reply:
        if not 200 <= wire.status < 300:
            return self.read(wire)
        body = self._decoded(wire)
        left = self.usage(body) if body is not None else None
        return left or replace(UNREADABLE, detail=f"http_{wire.status} {UNREADABLE.detail}")

    def _meaning(self, wire: Wire, body: object) -> Reply:
        status = self.status(wire, body)
        said = self.said(wire, body)
        if body is None and not said.codes and not said.message and not wire.is_page:
            said = Said(message=wire.text[:500])  # some fronts pass the vendor's sentence on without its envelope
        is_success = 200 <= status < 300
        found = self.results(body) if is_success and body is not None else None
        has_rows = isinstance(found, Results) and bool(found.rows)
        for row in self.errors:
            if (words := _matches(row, status, said)) is not None:
                if row.outcome is Outcome.NO_RESULTS and has_rows:
                    break  # a word that stands for "nothing found" says nothing beside results
                return self._failed(wire, body, status, said, row, words)
        if not is_success:
            return self._failed(wire, body, status, said, _by_status(status, body), "")
        if isinstance(found, Reply):
            return found
        # an error that no row knows, beside an empty list, is no honest "nothing found"
        if found is None or (not found.rows and member(body, "error")):
            words = one_line(said.message[:1000])
            return replace(UNREADABLE, detail=f"http_{wire.status} {UNREADABLE.detail}", message=words)
        if found.rows:
            return Reply(Outcome.OK, found.rows, found.answer, found.notes, row="shape of a success: results")
        return Reply(
            Outcome.NO_RESULTS,
            answer=found.answer,
            notes=found.notes,
            detail=f"http_{wire.status}",
            row="shape of a success: empty",
        )

    def _failed(self, wire: Wire, body: object, status: int, said: Said, row: Row, words: str) -> Reply:
        inner = f" {status}" if status != wire.status else ""
        told = self.rest(wire, body, row.outcome)
        return Reply(
            row.outcome,
            detail=f"http_{wire.status}{inner} {words}".rstrip(),
            message=one_line(said.message[:1000]),
            retry_after_s=told if told is not None else told_wait(body, said.message, wire.now),
            setup=row.setup,
            hint=row.hint,
            row=str(row),
            matched=row,
        )

    # -----------------------------------------------------------------------------------------------------------------
    # what a request can hold

    def since(self, freshness: Freshness) -> datetime:
        """The earliest moment, in UTC, that a page may be from; for vendors that want a date."""
        return datetime.fromtimestamp(self.clock(), UTC) - timedelta(days=FRESHNESS_DAYS[freshness])

    def held_to(self, query: Query) -> tuple[str, ...]:
        """The hosts to search, as far as the vendor takes them: all or none, for part of a list would lose pages."""
        return query.include_domains if len(query.include_domains) <= self.domains else ()

    # -----------------------------------------------------------------------------------------------------------------
    # what the operator set

    def option(self, name: str) -> str | bool | int | None:
        """The vendor-specific setting `name`, else its declared default."""
        return self.settings.options.get(name, self.options[name].default)

    def endpoint(self, base: str | None = None, path: str | None = None) -> str:
        """The full address to call: `base` (default: as configured, else the vendor's) with the endpoint's path.

        A base may be spelled with or without any leading part of that path, or a trailing slash.
        """
        base = base or self.settings.base_url or self.settings.address or self.home
        return _addresses.endpoint(base, path or urlsplit(self.home).path)

    def secrets(self, key: str) -> tuple[str, ...]:
        """Everything that must never be shown of a request made with `key`."""
        addresses = (self.settings.base_url, self.settings.address, self.settings.proxy)
        told = _addresses.secrets(key) if self.keys_are_addresses else (key,) if key else ()
        return (*told, *(secret for address in addresses if address for secret in _addresses.secrets(address)))


def without_secrets(reply: Reply, secret_forms: Sequence[str]) -> Reply:
    """`reply` without the secrets that a vendor echoed, cut to what may be shown.

    The vendor's sentence is cleaned of every piece. In results only a whole secret makes us look closer: they are long,
    and hardly ever hold one; short secrets are left there, as words they would blank honest text. `detail` is ours.
    """
    reply = replace(
        reply,
        detail=redact(reply.detail, [form for form in secret_forms if len(form) >= LEAST_SECRET])[:200],
        message=redact(reply.message[:1000], secret_forms)[:500],
    )
    told = "\n".join((reply.answer, *reply.notes, *(part for row in reply.results for part in _texts(row)))).lower()
    if not any(len(form) >= LEAST_SECRET and form.lower() in told for form in secret_forms):
        return reply
    clean = []
    # cleaning takes its time, and who repeats a key is not worth much of it
    for row in reply.results[:MOST_ECHOED]:
        title, url, snippet, content = (redact(text[:2048], secret_forms) for text in _texts(row))
        clean.append(Result(title, url, snippet, content, row.published))
    notes = tuple(redact(note, secret_forms) for note in reply.notes)
    return replace(reply, results=tuple(clean), answer=redact(reply.answer, secret_forms), notes=notes)


def _texts(row: Result) -> tuple[str, str, str, str]:
    return row.title, row.url, row.snippet, row.content


def _matches(row: Row, status: int, said: Said) -> str | None:
    """The vendor's words that made `row` match ("" for the bare status); None when it does not match."""
    if row.status is not None and row.status != status:
        return None
    if row.code is not None and row.code.lower() not in {code.lower() for code in said.codes}:
        return None
    if row.phrase is not None and row.phrase.lower() not in said.message.lower():
        return None
    return row.phrase or row.code or ""


def _by_status(status: int, body: object) -> Row:
    for row in SHARED_TABLE:
        if row.status == status:
            return row
    if status == 403:
        # a page, or nothing at all, comes from something in front of the vendor
        return Row(403, Outcome.AUTH_FAILURE if isinstance(body, dict) else Outcome.SERVER_ERROR)
    return Row(status, Outcome.REQUEST_ERROR if 400 <= status < 500 else Outcome.SERVER_ERROR)
