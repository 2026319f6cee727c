"""Fair share: clients take turns, so that one who floods us slows only himself down.

Two things are shared out. Places: so many calls may be under way at a time, in all and for each client. And turns: a
cached answer is computed in one go, so a hundred calls let in together would be a hundred answers before anybody else
is heard. So calls are let in one after the other, each when the one before it has ended or waits for something outside,
and of those who ask, the client goes first that has had no turn for the longest time. One client alone needs no turns.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from gateway.settings import ServerSettings

MOST_WAITING = 1000
"""Calls of one client that may wait; more are refused."""

ROUNDS = 8
"""Rounds of the event loop after which a call that was let in, and has not ended, waits for something outside: a cached
answer takes one, or three when it is told step by step."""

ROUNDS_TO_ASK = 4
"""Rounds from a call's end to the choice of the next. Nobody could ask while it computed; whoever wanted to has his
bytes read in the round after and asks in the second. One is the round that may be under way."""


class Crowded(Exception):  # noqa: N818 -- it is a state, and reads as one
    """The client has as many calls waiting as may wait."""


@dataclass(slots=True, eq=False)
class Client:
    """One client: how many of its calls are under way, those that wait, and which turn was its last."""

    under_way: int = 0
    waiting: deque[Call] = field(default_factory=deque)
    last_turn: int = 0


@dataclass(slots=True, eq=False)
class Call:
    """One call, from asking until it leaves: it waits until it is `let_in` or `given_up`."""

    client: Client
    let_in: bool = False
    given_up: bool = False
    news: asyncio.Future[None] | None = None

    async def until_decided(self) -> None:
        """Wait until it is let in or given up."""
        if not self.let_in and not self.given_up:
            self.news = asyncio.get_running_loop().create_future()
            await self.news

    def tell(self) -> None:
        if self.news is not None and not self.news.done():
            self.news.set_result(None)


def next_round(step: Callable[[], None]) -> None:
    """Have `step` called in the next round of the running event loop."""
    asyncio.get_running_loop().call_soon(step)


class FairShare:
    """Who may go on, on one event loop. `bounds` gives the settings in force, and is asked at every choice."""

    def __init__(
        self, bounds: Callable[[], ServerSettings], next_round: Callable[[Callable[[], None]], None] = next_round
    ) -> None:
        self._bounds = bounds
        self._next_round = next_round
        self._clients: dict[str, Client] = {}  # names come from the configuration: there are only so many
        self._asking: dict[Client, None] = {}
        self._under_way = 0
        self._turns = 0
        self._last: Call | None = None
        self._rounds_left = 0
        self._counting = False

    def join(self, name: str) -> Call:
        """Ask for a place for one call of the client called `name`. Whatever happens then, `leave` with it.

        Raises `Crowded`.
        """
        client = self._clients.get(name)
        if client is None:
            client = self._clients[name] = Client()
        if len(client.waiting) >= MOST_WAITING:
            raise Crowded(name)
        call = Call(client)
        client.waiting.append(call)
        self._asking[client] = None
        self._go_on()
        return call

    def leave(self, call: Call) -> None:
        """The call has ended, or waits no longer."""
        if not call.let_in:
            self.give_up(call)
            return
        call.client.under_way -= 1
        self._under_way -= 1
        if call is self._last:
            self._last = None
            self._rounds_left = min(self._rounds_left, ROUNDS_TO_ASK if self._asking else 1)
        self._go_on()

    def give_up(self, call: Call) -> None:
        """Let a call wait no longer. One that was let in stays so."""
        if call.let_in or call.given_up:
            return
        call.given_up = True
        call.client.waiting.remove(call)
        if not call.client.waiting:
            del self._asking[call.client]
        call.tell()

    def _go_on(self) -> None:
        """Let the next one in, or see to it that its time comes."""
        while self._asking and not self._rounds_left and self._let_in():
            pass
        # while a call is under way and nobody asks there is nothing to count for
        if self._rounds_left and not self._counting and (self._asking or self._last is None):
            self._counting = True
            self._next_round(self._count)

    def _count(self) -> None:
        self._counting = False
        self._rounds_left -= 1
        self._go_on()

    def _let_in(self) -> bool:
        """Let in whose turn it is; False when there is no place for anybody who asks."""
        bounds = self._bounds()
        if self._under_way >= bounds.max_in_flight:
            return False
        free = [client for client in self._asking if client.under_way < bounds.max_in_flight_per_client]
        if not free:
            return False
        client = min(free, key=lambda each: each.last_turn)
        call = client.waiting.popleft()
        if not client.waiting:
            del self._asking[client]
        self._turns += 1
        client.last_turn = self._turns
        client.under_way += 1
        self._under_way += 1
        # who is the only client has nobody to take turns with, and turns cost a tenth of a cached answer
        self._last, self._rounds_left = call, ROUNDS if len(bounds.tokens) > 1 else 0
        call.let_in = True
        call.tell()
        return True
