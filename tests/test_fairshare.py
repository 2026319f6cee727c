"""Clients take turns: who is let in when, who waits, who is refused."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway import fairshare
from gateway.doors.app import Draining, build
from gateway.doors.fair import Fair
from gateway.fairshare import ROUNDS, ROUNDS_TO_ASK, Call, Crowded, FairShare
from gateway.gateway import Answer
from gateway.settings import Config, Defaults, ServerSettings, Token
from gateway.steps import Step
from tests.doors_fixtures import FakeGateway, Got, call, served, settings


@dataclass
class Room:
    """A fair share whose event loop is turned by hand."""

    in_all: int = 1024
    per_client: int = 256
    tokens: tuple[Token, ...] = tuple(Token(name, f"token-{name}") for name in "abc")
    steps: list[Callable[[], None]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.share = FairShare(
            lambda: ServerSettings(
                max_in_flight=self.in_all, max_in_flight_per_client=self.per_client, tokens=self.tokens
            ),
            self.steps.append,
        )

    def join(self, client: str, number: int = 1) -> list[Call]:
        return [self.share.join(client) for _ in range(number)]

    def turn(self, rounds: int = 1) -> None:
        for _ in range(rounds):
            steps, self.steps[:] = self.steps[:], []
            for step in steps:
                step()

    def computed(self, call: Call) -> None:
        """`call` ends without having waited for anything, and the next one is chosen."""
        self.share.leave(call)
        self.turn(ROUNDS_TO_ASK)

    def serve(self, calls: Mapping[str, list[Call]]) -> str:
        """Let every call compute when it is let in: the clients in the order of their turns."""
        order = ""
        waiting = {call: name for name, each in calls.items() for call in each}
        while going := [call for call in waiting if call.let_in]:
            assert len(going) == 1
            order += waiting.pop(going[0])
            self.computed(going[0])
        assert not waiting
        return order


def let_in(calls: list[Call]) -> int:
    return sum(call.let_in for call in calls)


# ---------------------------------------------------------------------------------------------------------------------
# turns


def test_who_is_alone_goes_at_once_and_nothing_is_counted() -> None:
    room = Room()
    assert let_in(room.join("a")) == 1
    assert room.steps == []


def test_calls_that_compute_go_one_after_the_other() -> None:
    room = Room()
    calls = room.join("a", 3)
    for number in range(3):
        assert [each.let_in for each in calls] == [at <= number for at in range(3)]
        room.computed(calls[number])


@pytest.mark.parametrize("tokens", [(), (Token("a", "token-a"),)])
def test_the_only_client_there_is_needs_no_turns_but_has_its_bounds(tokens: tuple[Token, ...]) -> None:
    room = Room(tokens=tokens, per_client=3)
    calls = room.join("a", 5)
    assert let_in(calls) == 3
    room.share.leave(calls[0])
    assert let_in(calls) == 4
    assert room.steps == []


def test_a_call_that_ends_in_the_round_in_which_it_came_leaves_its_turn_to_the_next_round() -> None:
    # a hundred of them in one round would be a hundred answers before anybody else is heard
    room = Room()
    room.share.leave(*room.join("a"))
    (second,) = room.join("a")
    assert not second.let_in
    room.turn()
    assert second.let_in


def test_calls_that_wait_for_something_outside_are_all_under_way() -> None:
    room = Room()
    calls = room.join("a", 200)
    for number in range(200):
        assert let_in(calls) == number + 1
        room.turn(ROUNDS)
    assert room.steps == []


def test_who_comes_into_a_flood_goes_next() -> None:
    room = Room()
    flood = room.join("a", 50)
    room.computed(flood[0])
    (other,) = room.join("b")
    room.computed(flood[1])
    assert other.let_in
    assert let_in(flood) == 2


def test_who_asks_in_the_second_round_after_a_call_has_computed_still_goes_next() -> None:
    room = Room()
    flood = room.join("a", 50)
    room.turn()  # the next round is under way when the first call ends in it
    room.share.leave(flood[0])
    room.turn(2)
    (other,) = room.join("b")
    room.turn(ROUNDS_TO_ASK)
    assert other.let_in
    assert let_in(flood) == 1


@pytest.mark.parametrize(
    ("waiting", "order"),
    [
        ({"a": 4, "b": 4}, "abababab"),
        ({"a": 6, "b": 2, "c": 1}, "abcabaaaa"),
        ({"a": 1, "b": 5}, "abbbbb"),
    ],
)
def test_clients_take_turns(waiting: dict[str, int], order: str) -> None:
    room = Room()
    assert room.serve({name: room.join(name, number) for name, number in waiting.items()}) == order


def test_clients_that_always_come_again_do_not_keep_a_third_from_its_turns() -> None:
    room = Room()
    queue = room.join("a", 20)
    others = {name: room.join(name)[0] for name in "bc"}
    for _ in range(30):
        for going in [each for each in (*queue, *others.values()) if each.let_in]:
            if going in queue:
                queue.remove(going)
            room.computed(going)
            for name, asked in others.items():
                if asked is going:
                    (others[name],) = room.join(name)
    assert len(queue) == 10


# ---------------------------------------------------------------------------------------------------------------------
# places


def test_a_client_has_only_its_own_places() -> None:
    room = Room(per_client=2)
    flood = room.join("a", 5)
    room.turn(ROUNDS * 5)
    assert let_in(flood) == 2
    (other,) = room.join("b")
    assert other.let_in
    room.turn(ROUNDS)
    room.share.leave(flood[0])
    assert let_in(flood) == 3


def test_a_place_that_is_freed_goes_to_who_has_waited_longest_for_a_turn() -> None:
    room = Room(in_all=3)
    flood = room.join("a", 5)
    room.turn(ROUNDS * 5)
    other = room.join("b", 2)
    assert (let_in(flood), let_in(other)) == (3, 0)
    room.share.leave(flood[0])
    assert (let_in(flood), let_in(other)) == (3, 1)


def test_new_bounds_hold_from_the_next_call_that_comes_or_goes() -> None:
    room = Room(per_client=1)
    calls = room.join("a", 4)
    room.turn(ROUNDS)
    assert let_in(calls) == 1
    room.per_client = 3
    calls += room.join("a")
    room.turn(ROUNDS * 5)
    assert let_in(calls) == 3
    room.per_client = 1
    room.share.leave(calls[0])
    room.share.leave(calls[1])
    room.turn(ROUNDS)
    assert let_in(calls) == 3
    room.share.leave(calls[2])
    assert let_in(calls) == 4


def test_who_gives_up_waits_no_longer_and_keeps_nobody() -> None:
    room = Room(per_client=1)
    first, second, third = room.join("a", 3)
    room.turn(ROUNDS)
    for _ in range(2):
        room.share.give_up(second)
    room.share.leave(second)
    room.share.leave(first)
    assert (second.let_in, third.let_in) == (False, True)
    room.share.give_up(third)
    assert third.let_in
    assert not third.given_up


def test_when_all_who_waited_have_given_up_the_next_one_goes_at_once() -> None:
    room = Room(per_client=1)
    first, second = room.join("a", 2)
    room.share.give_up(second)
    room.share.leave(first)
    room.turn(ROUNDS_TO_ASK)
    assert let_in(room.join("a")) == 1


def test_only_so_many_calls_of_a_client_may_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fairshare, "MOST_WAITING", 3)
    room = Room()
    flood = room.join("a", 4)
    with pytest.raises(Crowded):
        room.share.join("a")
    (other,) = room.join("b")
    room.computed(flood[0])
    assert other.let_in
    room.computed(other)
    assert not room.share.join("a").let_in


EVENTS = st.tuples(st.sampled_from(["join", "leave", "give_up", "turn"]), st.integers(0, 50))


@given(st.lists(EVENTS), st.integers(1, 4))
def test_whatever_happens_the_bounds_hold_and_everybody_is_served_in_the_end(
    events: list[tuple[str, int]], per_client: int
) -> None:
    room = Room(in_all=5, per_client=per_client)
    calls: list[tuple[str, Call]] = []
    for what, number in events:
        if what == "turn":
            room.turn(number)
        elif what == "join":
            name = "abc"[number % 3]
            calls += [(name, each) for each in room.join(name)]
        elif calls:
            at = number % len(calls)
            if what == "give_up":
                room.share.give_up(calls[at][1])
            else:
                room.share.leave(calls.pop(at)[1])
        under_way = [name for name, each in calls if each.let_in]
        assert len(under_way) <= 5
        assert all(under_way.count(name) <= per_client for name in "abc")
    while calls:
        room.turn(ROUNDS)
        ended = [each for each in calls if each[1].let_in or each[1].given_up]
        assert ended
        room.share.leave(ended[0][1])
        calls.remove(ended[0])
    room.turn(ROUNDS)
    assert room.steps == []


# ---------------------------------------------------------------------------------------------------------------------
# at the door


BODY = {"type": "http.request", "body": b"{}", "more_body": False}
GONE = {"type": "http.disconnect"}


@dataclass(eq=False)
class Caller:
    """One request to the middleware, from a client; what is received is what the test puts there."""

    client: str | None
    incoming: asyncio.Queue[Any] = field(default_factory=asyncio.Queue)
    sent: list[Any] = field(default_factory=list)

    def start(self, door: Any, **scope: Any) -> asyncio.Task[None]:
        given = {"type": "http", "path": "/mcp", "client": self, **scope}
        if self.client is not None:
            given["token_name"] = self.client
        return asyncio.ensure_future(door(given, self.incoming.get, self._send))

    async def _send(self, message: Any) -> None:
        self.sent.append(message)

    @property
    def status(self) -> int | None:
        return self.sent[0]["status"] if self.sent else None


@dataclass
class Inside:
    """What lies behind the middleware: remembers who came in, and holds everyone until told otherwise."""

    came: list[Caller] = field(default_factory=list)
    received: list[Any] = field(default_factory=list)
    news: asyncio.Condition = field(default_factory=asyncio.Condition)
    go_on: asyncio.Event = field(default_factory=asyncio.Event)
    fault: Exception | None = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        async with self.news:
            self.came.append(scope["client"])
            self.news.notify_all()
        if self.fault is not None:
            raise self.fault
        await self.go_on.wait()
        while not self.received or self.received[-1].get("more_body"):
            self.received.append(await receive())

    async def until_in(self, *callers: Caller) -> None:
        async with asyncio.timeout(10), self.news:
            await self.news.wait_for(lambda: set(callers) <= set(self.came))


def bounded(**server: int) -> FakeGateway:
    return FakeGateway(settings("token-1", "token-2", **server))


async def settled() -> None:
    """Until everybody has come as far as he can."""
    for _ in range(ROUNDS * 5):
        await asyncio.sleep(0)


@pytest.mark.anyio
async def test_who_was_let_in_by_nobody_waits_for_nobody() -> None:
    inside = Inside()
    door: Any = Fair(inside, bounded(max_in_flight=1))  # type: ignore[arg-type]
    first, waiting, healthz = Caller("t1"), Caller("t2"), Caller(None)
    tasks = [each.start(door) for each in (first, waiting, healthz)]
    await inside.until_in(first, healthz)
    await settled()
    assert waiting not in inside.came
    inside.go_on.set()
    for each in (first, waiting, healthz):
        each.incoming.put_nowait(BODY)
    await asyncio.gather(*tasks)
    assert waiting in inside.came


@pytest.mark.anyio
@pytest.mark.parametrize(
    "messages",
    [
        [BODY],
        [{"type": "http.request", "body": b"{", "more_body": True}, {**BODY, "body": b"}"}],
    ],
    ids=["whole", "in pieces"],
)
async def test_what_came_while_a_call_waited_is_received_in_its_turn(messages: list[Any]) -> None:
    inside = Inside()
    door: Any = Fair(inside, bounded(max_in_flight_per_client=1))  # type: ignore[arg-type]
    first, second = Caller("t1"), Caller("t1")
    for message in messages:
        second.incoming.put_nowait(message)
    tasks = [first.start(door), second.start(door)]
    await settled()
    assert inside.came == [first]
    tasks[0].cancel()
    inside.go_on.set()
    await asyncio.wait(tasks)
    assert inside.came == [first, second]
    assert inside.received == messages


@pytest.mark.anyio
async def test_a_caller_who_leaves_while_waiting_is_never_let_in() -> None:
    inside = Inside()
    door: Any = Fair(inside, bounded(max_in_flight_per_client=1))  # type: ignore[arg-type]
    first, gone, third = Caller("t1"), Caller("t1"), Caller("t1")
    tasks = [each.start(door) for each in (first, gone, third)]
    gone.incoming.put_nowait(BODY)
    gone.incoming.put_nowait(GONE)
    await asyncio.wait_for(tasks[1], 10)
    inside.go_on.set()
    for each in (first, third):
        each.incoming.put_nowait(BODY)
    await asyncio.gather(*tasks)
    assert inside.came == [first, third]


@pytest.mark.anyio
async def test_a_fault_frees_the_place() -> None:
    inside = Inside(fault=ZeroDivisionError())
    door: Any = Fair(inside, bounded(max_in_flight_per_client=1))  # type: ignore[arg-type]
    for caller in (Caller("t1"), Caller("t1")):
        with pytest.raises(ZeroDivisionError):
            await caller.start(door)
    assert len(inside.came) == 2


@pytest.mark.anyio
async def test_what_waits_when_the_server_ends_is_sent_away_and_frees_nothing_twice() -> None:
    inside, gateway = Inside(), bounded(max_in_flight_per_client=1)
    door: Any = Draining(Fair(inside, gateway))  # type: ignore[arg-type]
    app = build(gateway)  # type: ignore[arg-type]
    first, waiting, third = Caller("t1"), Caller("t1"), Caller("t1")
    tasks = [each.start(door, app=app) for each in (first, waiting, third)]
    await inside.until_in(first)
    tasks[1].cancel()
    await asyncio.wait_for(tasks[1], 10)
    assert waiting.status == 503
    inside.go_on.set()
    for each in (first, third):
        each.incoming.put_nowait(BODY)
    await asyncio.gather(*tasks)
    assert inside.came == [first, third]


@pytest.mark.anyio
async def test_bounds_of_a_new_configuration_hold_at_the_door() -> None:
    inside, gateway = Inside(), bounded(max_in_flight_per_client=1)
    door: Any = Fair(inside, gateway)  # type: ignore[arg-type]
    first, second, third = Caller("t1"), Caller("t1"), Caller("t1")
    tasks = [first.start(door), second.start(door)]
    await settled()
    assert inside.came == [first]
    gateway.config = bounded(max_in_flight_per_client=3).config
    tasks.append(third.start(door))
    await inside.until_in(first, second, third)
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)


@pytest.mark.anyio
async def test_too_many_waiting_calls_are_refused_in_words_and_only_their_client_s(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fairshare, "MOST_WAITING", 1)
    inside = Inside()
    door: Any = Fair(inside, bounded(max_in_flight_per_client=1))  # type: ignore[arg-type]
    callers = [Caller("t1"), Caller("t1"), Caller("t1"), Caller("t2")]
    tasks = [each.start(door) for each in callers]
    await inside.until_in(callers[0], callers[3])
    assert [each.status for each in callers] == [None, None, 429, None]
    assert dict(callers[2].sent[0]["headers"])[b"retry-after"] == b"1"
    assert callers[2].sent[1]["body"] == (
        b'{"error":"too many calls wait: of the client t1 at most 1 are worked on at a time '
        b'(server.max_in_flight_per_client); try again in a moment"}'
    )
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)


# ---------------------------------------------------------------------------------------------------------------------
# over HTTP


@dataclass(eq=False)
class Slow(FakeGateway):
    """Hangs for who asks for something slow."""

    async def search(
        self,
        arguments: Mapping[str, Any],
        *,
        client: str = "default",
        progress: Callable[[int, Step], Awaitable[None]] | None = None,
    ) -> Answer:
        self.hangs = arguments["query"] == "slow"
        return await super().search(arguments, client=client, progress=progress)


def tight(**defaults: int) -> Config:
    config = settings("token-1", "token-2", max_in_flight_per_client=1)
    return replace(config, defaults=Defaults(**defaults)) if defaults else config


def test_one_client_at_its_bound_keeps_no_other_and_no_probe() -> None:
    gateway = Slow(tight())
    answered: list[tuple[str, Got]] = []
    with served(gateway) as site:

        def ask(query: str, token: str) -> None:
            answered.append((query, site.post(call({"query": query}), {"Authorization": f"Bearer {token}"})))

        callers = [threading.Thread(target=ask, args=(query, "token-1")) for query in ("slow", "waiting")]
        callers[0].start()
        assert gateway.entered.wait(20)
        callers[1].start()
        ask("other", "token-2")
        assert site.send("GET", "/readyz").status == 200
        assert site.post(call()).status == 401
        assert [query for query, _ in answered] == ["other"]
        gateway.go_on.set()
        for each in callers:
            each.join(20)
    assert {query: got.status for query, got in answered} == {"other": 200, "slow": 200, "waiting": 200}


def test_a_call_waits_for_its_turn_no_longer_than_a_search_may_take() -> None:
    gateway = Slow(tight(total_budget_ms=100))
    with served(gateway) as site:
        bearer = {"Authorization": "Bearer token-1"}
        hanging = site.open(call({"query": "slow"}), bearer)
        assert gateway.entered.wait(20)
        got = site.post(call({"query": "waiting"}), bearer)
        assert (got.status, got.headers["retry-after"]) == (429, "1")
        assert "server.max_in_flight_per_client" in got.json["error"]
        hanging.close()
    assert [arguments["query"] for arguments, _ in gateway.asked] == ["slow"]


def test_without_tokens_everybody_is_one_client() -> None:
    gateway = Slow(replace(settings(max_in_flight_per_client=1), defaults=Defaults(total_budget_ms=100)))
    with served(gateway) as site:
        hanging = site.open(call({"query": "slow"}), {})
        assert gateway.entered.wait(20)
        assert site.post(call()).status == 429
        hanging.close()
