"""Engines that want a page visited before they search: two exchanges that count as one request of the chain."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import ClassVar, NamedTuple
from urllib.parse import parse_qsl, urlencode

import anyio
import httpx2
from selectolax.lexbor import LexborHTMLParser, LexborNode

from providers._browser import BrowserProvider
from providers._http import UNREADABLE
from providers._wire import Wire
from providers._words import Outcome, Reply, Settings

MAX_FIELDS = 4000
"""Characters of all hidden fields together: percent-encoded they still leave room for a query in one address."""

_ANSWERED = frozenset({Outcome.OK, Outcome.NO_RESULTS})


@dataclass(frozen=True, slots=True)
class Ticket:
    """What a first page gives and the search has to show: cookies (`name=value`) and fields of its form."""

    cookies: tuple[str, ...] = field(default=(), repr=False)
    fields: tuple[tuple[str, str], ...] = field(default=(), repr=False)


class _Kept(NamedTuple):
    ticket: Ticket
    since: float


class VisitingProvider(BrowserProvider):
    """An engine whose searches have to show what another page gave. A subclass adds `first` and `ticket`.

    Both requests share the time limit of the one search. A ticket that may be used again is got by one search for all
    that wait for it.
    """

    keep_s: ClassVar[float] = 0.0
    """Seconds for which a ticket may be used again; 0: each search has its own."""
    lacks: ClassVar[str]
    """What a first page has not that gives no ticket, and what that means."""
    lacking_means: ClassVar[Outcome]
    harmless: ClassVar[frozenset[str]] = frozenset()
    """Codes of `errors` that say nothing of a first page that does give a ticket."""

    def __init__(self, settings: Settings | None = None, clock: Callable[[], float] = time.time) -> None:
        super().__init__(settings, clock)
        self._door = anyio.Lock()
        self._visits = 0
        self._refused: Reply | None = None
        self._kept: _Kept | None = None

    # -----------------------------------------------------------------------------------------------------------------
    # what an engine says

    def first(self, search: httpx2.Request) -> httpx2.Request:
        """The visit that goes before `search`, to the same host."""
        raise NotImplementedError

    def ticket(self, wire: Wire, page: LexborHTMLParser | None) -> Ticket | None:
        """What the first page gives; None when it is not all that a search needs. `page` None: nothing to parse."""
        raise NotImplementedError

    def read_first(self, wire: Wire) -> Ticket | Reply:
        """What the reply to a visit means: a ticket, or what the search has come to without one.

        Results, or an honest "nothing found", are the search's own. Nothing here counts on redirects being followed.
        """
        page = self._decoded(wire)
        reply = self._meaning(wire, page)
        if reply.outcome in _ANSWERED:
            return reply
        row = reply.matched if reply.matched in self.errors else None
        if row is not None and row.code not in self.harmless:
            return reply
        ticket = self.ticket(wire, page if isinstance(page, LexborHTMLParser) else None)
        if ticket is not None:
            return ticket
        if row is not None or not 200 <= wire.status < 300:
            return reply
        return Reply(
            self.lacking_means, detail=f"http_{wire.status} {self.lacks}", row=f"first page of two: {self.lacks}"
        )

    # -----------------------------------------------------------------------------------------------------------------
    # two exchanges

    async def exchange(self, request: httpx2.Request) -> Reply:
        """Visit the first page where that is due, then put `request` on the wire."""
        ticket = await self._admission(request)
        if isinstance(ticket, Reply):
            return _unsaid(ticket)
        try:
            search = showing(request, ticket)
        except (httpx2.InvalidURL, ValueError):
            return replace(UNREADABLE, detail="the fields of the first page fit into no request")
        arrived = await super().exchange(search)
        if isinstance(arrived, Reply):
            return arrived
        reply = self.read(arrived)
        if reply.outcome not in _ANSWERED and self._kept is not None and self._kept.ticket is ticket:
            self._kept = None  # perhaps it was the ticket: the next search brings a fresh one
        return _unsaid(reply)

    async def _admission(self, search: httpx2.Request) -> Ticket | Reply:
        """A ticket for `search`, or what it came to before it got one."""
        if not self.keep_s:
            return await self._visit(search)
        seen = self._visits
        # who leaves while at the door makes room for the next in line
        async with self._door:
            if self._kept is not None and 0 <= self.clock() - self._kept.since < self.keep_s:
                return self._kept.ticket
            if self._visits != seen and self._refused is not None:
                return self._refused  # somebody was turned away while this search stood in line behind him
            found = await self._visit(search)
            self._visits += 1
            self._refused = found if isinstance(found, Reply) and found.outcome not in _ANSWERED else None
            self._kept = _Kept(found, self.clock()) if isinstance(found, Ticket) else None
            return found

    async def _visit(self, search: httpx2.Request) -> Ticket | Reply:
        arrived = await super().exchange(self.first(search))
        return arrived if isinstance(arrived, Reply) else self.read_first(arrived)


def _unsaid(reply: Reply) -> Reply:
    # an engine has no sentence for us, and what stands on a page that nobody could parse may be our own cookies
    return replace(reply, message="")


# ---------------------------------------------------------------------------------------------------------------------
# requests


def page_before(search: httpx2.Request, url: httpx2.URL | str) -> httpx2.Request:
    """A visit to `url` by the browser that will send `search`."""
    headers = httpx2.Headers(search.headers)
    for name in ("host", "content-length", "content-type", "cookie", "origin", "referer", "sec-fetch-site"):
        headers.pop(name, None)
    return httpx2.Request("GET", url, headers=headers)


def showing(search: httpx2.Request, ticket: Ticket) -> httpx2.Request:
    """`search` with the cookies of `ticket`, and with those of its fields that it has not itself.

    Raises ValueError or httpx2.InvalidURL when they cannot be put into one request.
    """
    headers = httpx2.Headers(search.headers)
    if cookies := [*headers.get_list("cookie"), *ticket.cookies]:
        headers["Cookie"] = "; ".join(cookies)
    if search.method == "POST":
        headers.pop("content-length", None)
        form = parse_qsl(search.content.decode(), keep_blank_values=True)
        return httpx2.Request("POST", search.url, headers=headers, content=urlencode(_joined(form, ticket)))
    params = _joined(search.url.params.multi_items(), ticket)
    return httpx2.Request(search.method, search.url.copy_with(params=params), headers=headers)


def _joined(own: list[tuple[str, str]], ticket: Ticket) -> list[tuple[str, str]]:
    names = {name for name, _ in own}
    return [*own, *(pair for pair in ticket.fields if pair[0] not in names)]


def hidden_fields(form: LexborHTMLParser | LexborNode) -> tuple[tuple[str, str], ...] | None:
    """Name and value of each hidden input of `form`; None when they are far too long."""
    inputs = form.css('input[type="hidden" i]')
    if len(inputs) > MAX_FIELDS:
        return None
    told = [node.attributes for node in inputs]
    fields = tuple((name, each.get("value") or "") for each in told if (name := each.get("name")))
    return fields if sum(len(name) + len(value) + 2 for name, value in fields) <= MAX_FIELDS else None
