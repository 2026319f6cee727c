"""What every store promises, whatever its home: one process here, several in test_stores_shared."""

from __future__ import annotations

import asyncio
import tempfile
import tracemalloc
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from gateway.stores import Rest, Store, Turn
from gateway.stores.memory import MemoryStore
from gateway.stores.redis import RedisStore
from gateway.stores.sqlite import SQLiteStore
from tests import redis_server

pytestmark = pytest.mark.anyio


@dataclass
class Clock:
    now: float = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


class Kind(NamedTuple):
    """How a store is made that has a folder to itself, and how time passes for what a clock does not reach."""

    make: Callable[[Callable[[], float], Path], Store]
    age: Callable[[Path, float], None] = lambda folder, seconds: None


HOMES = {
    "memory": Kind(lambda clock, folder: MemoryStore(clock)),
    "sqlite": Kind(lambda clock, folder: SQLiteStore(folder, clock)),
    "redis": Kind(
        lambda clock, folder: RedisStore(
            redis_server.shared_url(), redis_server.prefix(folder), clock, patience_s=redis_server.PATIENT_S
        ),
        redis_server.age,
    ),
}


@dataclass
class Home:
    """A store, and its time: moments are told by `now`, and pass by `advance`.

    A test compares moments with `now` of the same instant only, and not to the millisecond: a server's own clock goes
    on meanwhile.
    """

    kind: Kind
    folder: Path
    clock: Clock = field(default_factory=Clock)

    def __post_init__(self) -> None:
        self.store = self.kind.make(self.clock, self.folder)

    def now(self) -> float:
        return self.clock()

    def advance(self, seconds: float) -> None:
        self.clock.now += seconds
        self.kind.age(self.folder, seconds)


@pytest.fixture(params=HOMES)
async def home(request: pytest.FixtureRequest, anyio_backend: str, tmp_path: Path) -> AsyncIterator[Home]:
    home = Home(HOMES[request.param], tmp_path)
    yield home
    await home.store.aclose()


async def left(home: Home, key: str) -> float | None:
    rest = (await home.store.resting([key])).get(key)
    return None if rest is None else rest.until - home.now()


# ---------------------------------------------------------------------------------------------------------------------
# rests


async def test_a_rest_is_seen_until_its_moment_comes(home: Home) -> None:
    assert await home.store.rest("tavily", home.now() + 60, "rate_limited")
    found = await home.store.resting(["brave", "tavily"])
    assert list(found) == ["tavily"]
    assert found["tavily"].why == "rate_limited"
    home.advance(59)
    assert await left(home, "tavily") == pytest.approx(1, abs=0.5)
    home.advance(1)
    assert await home.store.resting(["tavily"]) == {}


async def test_a_second_longer_rest_extends_the_first(home: Home) -> None:
    assert await home.store.rest("tavily", home.now() + 10, "rate_limited")
    assert not await home.store.rest("tavily", home.now() + 60, "timeout")
    assert await left(home, "tavily") == pytest.approx(60, abs=0.5)
    assert (await home.store.resting(["tavily"]))["tavily"].why == "timeout"


async def test_a_second_shorter_rest_changes_nothing(home: Home) -> None:
    assert await home.store.rest("tavily", home.now() + 60, "quota_exhausted")
    assert not await home.store.rest("tavily", home.now() + 10, "timeout")
    assert await left(home, "tavily") == pytest.approx(60, abs=0.5)
    assert (await home.store.resting(["tavily"]))["tavily"].why == "quota_exhausted"


async def test_a_rest_after_one_that_is_over_begins_anew_even_when_it_is_shorter(home: Home) -> None:
    assert await home.store.rest("tavily", home.now() + 60, "quota_exhausted")
    home.advance(61)
    assert await home.store.rest("tavily", home.now() + 5, "timeout")
    assert await left(home, "tavily") == pytest.approx(5, abs=0.5)
    assert (await home.store.resting(["tavily"]))["tavily"].why == "timeout"


async def test_of_200_callers_who_rest_one_key_exactly_one_was_first(home: Home) -> None:
    async def fail(number: int) -> bool:
        return await home.store.rest("tavily", home.now() + 30 + number, "timeout")

    firsts = await asyncio.gather(*(fail(number) for number in range(200)))
    assert firsts.count(True) == 1


async def test_asking_about_nobody_finds_nobody(home: Home) -> None:
    assert await home.store.resting([]) == {}
    assert await home.store.counted([]) == {}
    await home.store.clear()


# ---------------------------------------------------------------------------------------------------------------------
# counts


async def test_units_are_spent_up_to_the_limit_and_then_refused_without_counting(home: Home) -> None:
    spent = [await home.store.spend("tavily", 3, home.now() + 60) for _ in range(5)]
    assert spent == [1, 2, 3, None, None]
    assert await home.store.counted(["tavily", "brave"]) == {"tavily": 3}


async def test_nothing_can_be_spent_of_a_limit_of_nothing(home: Home) -> None:
    assert await home.store.spend("tavily", 0, None) is None
    assert await home.store.counted(["tavily"]) == {}


async def test_a_count_starts_again_once_its_period_has_passed(home: Home) -> None:
    assert [await home.store.spend("tavily", 1, home.now() + 60) for _ in range(2)] == [1, None]
    home.advance(60)
    assert await home.store.counted(["tavily"]) == {}
    assert [await home.store.spend("tavily", 1, home.now() + 60) for _ in range(2)] == [1, None]
    assert await home.store.counted(["tavily"]) == {"tavily": 1}


async def test_a_count_without_an_end_never_starts_again(home: Home) -> None:
    assert await home.store.spend("serper", 2, None) == 1
    home.advance(10 * 365 * 86_400)
    assert [await home.store.spend("serper", 2, None) for _ in range(2)] == [2, None]


async def test_a_changed_limit_keeps_the_count(home: Home) -> None:
    for _ in range(3):
        await home.store.spend("tavily", 3, home.now() + 60)
    assert await home.store.spend("tavily", 2, home.now() + 60) is None
    assert await home.store.spend("tavily", 4, home.now() + 60) == 4


async def test_a_caller_whose_clock_is_behind_does_not_end_the_new_period(home: Home) -> None:
    assert await home.store.spend("tavily", 2, home.now() + 3600) == 1
    assert await home.store.spend("tavily", 2, home.now() + 1) == 2
    home.advance(2)
    assert await home.store.spend("tavily", 2, home.now() + 3600) is None


async def test_counting_again_lets_a_count_live_longer(home: Home) -> None:
    assert await home.store.count("streak", home.now() + 60) == 1
    home.advance(40)
    assert await home.store.count("streak", home.now() + 60) == 2
    home.advance(40)
    assert await home.store.count("streak", home.now() + 60) == 3
    home.advance(61)
    assert await home.store.count("streak", home.now() + 60) == 1


async def test_what_is_spent_and_what_is_counted_are_one_kind(home: Home) -> None:
    assert await home.store.count("cursor", None, by=5) == 5
    assert await home.store.spend("cursor", 6, None) == 6
    assert await home.store.spend("cursor", 6, None) is None
    assert await home.store.count("cursor", None, by=-6) == 0
    assert await home.store.counted(["cursor"]) == {}


async def test_a_store_that_lost_a_count_goes_on_from_where_a_caller_saw_it(home: Home) -> None:
    assert await home.store.count("tavily", home.now() + 60, by=0, at_least=7) == 7
    assert await home.store.count("tavily", home.now() + 60, at_least=3) == 8
    assert await home.store.spend("tavily", 8, home.now() + 60) is None
    home.advance(60)
    assert await home.store.count("tavily", home.now() + 60, by=2, at_least=4) == 6
    assert await home.store.counted(["tavily"]) == {"tavily": 6}


async def test_forty_callers_with_five_units_left_get_five(home: Home) -> None:
    spent = await asyncio.gather(*(home.store.spend("tavily", 5, home.now() + 60) for _ in range(40)))
    assert sorted(each for each in spent if each) == [1, 2, 3, 4, 5]


# ---------------------------------------------------------------------------------------------------------------------
# turns


async def wait(home: Home, key: str, interval_ms: int, at_most_ms: int) -> int | None:
    """Milliseconds until the turn that was taken; None when none was."""
    turn = await home.store.turn(key, interval_ms, at_most_ms)
    return turn.wait_ms if turn.taken else None


async def test_turns_are_spaced_and_end_at_what_a_caller_will_wait(home: Home) -> None:
    waits = [await wait(home, "brave", 1000, 2000) for _ in range(5)]
    assert waits[0] == 0
    assert waits[1:3] == [pytest.approx(1000, abs=500), pytest.approx(2000, abs=500)]
    assert waits[3:] == [None, None]


async def test_a_refused_turn_takes_no_place_and_tells_when_the_next_one_comes(home: Home) -> None:
    assert await wait(home, "brave", 1000, 2000) == 0
    refused = await home.store.turn("brave", 1000, 100)
    assert (refused.taken, refused.wait_ms) == (False, pytest.approx(1000, abs=500))
    assert await wait(home, "brave", 1000, 2000) == pytest.approx(1000, abs=500)


async def test_a_turn_comes_at_once_when_the_last_is_long_ago(home: Home) -> None:
    assert await wait(home, "brave", 1000, 2000) == 0
    home.advance(1)
    assert await wait(home, "brave", 1000, 2000) == 0
    home.advance(0.4)
    assert await wait(home, "brave", 1000, 2000) == pytest.approx(600, abs=300)


async def test_a_caller_in_a_hurry_does_not_mistake_a_long_queue_for_a_broken_clock(home: Home) -> None:
    for _ in range(3):
        await wait(home, "brave", 1000, 2000)
    assert await wait(home, "brave", 1000, 10) is None


async def test_a_clock_that_is_set_back_does_not_stop_the_queue(home: Home) -> None:
    for _ in range(3):
        await wait(home, "brave", 1000, 2000)
    home.advance(-3600)
    assert await wait(home, "brave", 1000, 2000) == 0
    assert await wait(home, "brave", 1000, 2000) == pytest.approx(1000, abs=500)


async def test_queues_do_not_touch_each_other(home: Home) -> None:
    assert [await wait(home, key, 1000, 0) for key in ("brave#1", "brave#2", "brave#1")] == [0, 0, None]


# ---------------------------------------------------------------------------------------------------------------------
# rooms


async def test_what_is_kept_is_recalled_byte_for_byte_until_it_ends(home: Home) -> None:
    value = bytes(range(256)) * 100
    await home.store.keep("answers", "问题", value, 60)
    await home.store.keep("empties", "问题", b"", 60)
    assert await home.store.recall("answers", "问题") == value
    assert await home.store.recall("empties", "问题") == b""
    assert await home.store.recall("answers", "another") is None
    home.advance(60)
    assert await home.store.recall("answers", "问题") is None
    assert await home.store.kept("answers") == 0


async def test_keeping_again_replaces_the_value_and_its_end(home: Home) -> None:
    await home.store.keep("answers", "q", b"old", 10)
    home.advance(5)
    await home.store.keep("answers", "q", b"new", 10)
    home.advance(9)
    assert await home.store.recall("answers", "q") == b"new"
    assert await home.store.kept("answers") == 1


async def test_beyond_its_bound_a_room_loses_its_oldest(home: Home) -> None:
    for key in "abc":
        await home.store.keep("answers", key, key.encode(), 60, at_most=3)
    await home.store.keep("answers", "a", b"kept anew", 60, at_most=3)
    await home.store.keep("empties", "z", b"", 60, at_most=3)
    await home.store.keep("answers", "d", b"d", 60, at_most=3)
    found = {key for key in "abcd" if await home.store.recall("answers", key) is not None}
    assert found == {"a", "c", "d"}
    assert await home.store.kept("answers") == 3
    assert await home.store.kept("empties") == 1


async def test_entries_that_have_ended_take_no_place_in_a_room(home: Home) -> None:
    await home.store.keep("answers", "living", b"", 60, at_most=2)
    await home.store.keep("answers", "dying", b"", 1, at_most=2)
    home.advance(1)
    await home.store.keep("answers", "new", b"", 60, at_most=2)
    assert await home.store.recall("answers", "living") == b""
    assert await home.store.kept("answers") == 2


async def test_clearing_forgets_rests_counts_and_turns_of_the_named_only(home: Home) -> None:
    for key in ("a", "b", "c"):
        await home.store.rest(key, home.now() + 60, "timeout")
        await home.store.count(key, None)
        await home.store.turn(key, 1000, 0)
        await home.store.keep("room", key, b"", 60)
    await home.store.clear("a", "b")
    assert list(await home.store.resting(["a", "b", "c"])) == ["c"]
    assert await home.store.counted(["a", "b", "c"]) == {"c": 1}
    assert [await wait(home, key, 1000, 0) for key in ("a", "b", "c")] == [0, 0, None]
    assert await home.store.kept("room") == 3


async def test_a_store_can_be_used_again_after_it_was_closed(home: Home) -> None:
    await home.store.count("a", None)
    await home.store.aclose()
    await home.store.aclose()
    assert await home.store.count("a", None) == 2


async def test_memory_does_not_grow_with_what_has_ended() -> None:
    clock = Clock()
    store = MemoryStore(clock)
    tracemalloc.start()
    for number in range(5000):
        await store.keep("answers", str(number), bytes(1000), 1)
        await store.rest(str(number), clock() + 1, "timeout")
        await store.count(str(number), clock() + 1)
        await store.turn(str(number), 1, 0)
        clock.now += 0.01
    used, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert used < 700_000
    assert peak < 1_500_000


# ---------------------------------------------------------------------------------------------------------------------
# the homes are models of each other

KEYS = st.sampled_from(["a", "b"])
SPANS = st.sampled_from([-30.0, -0.5, 0.0, 0.25, 1.0, 7.5, 60.0])
GAPS = st.sampled_from([0.0, 0.001, 0.25, 1.0])
PATIENCES = st.sampled_from([0.0, 0.25, 2.0])
NUMBERS = st.integers(0, 4)


class Homes(RuleBasedStateMachine):
    """Whatever is done to all, they say the same."""

    names: tuple[str, ...] = ("memory", "sqlite")
    unit_s = 1.0
    """The seconds that spans are counted in."""
    tolerance_s = 0.0

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.homes = [Home(HOMES[name], Path(self.folder.name)) for name in self.names]
        self.loop = asyncio.Runner()

    def agree(self, verb: str, *values: object, **named: object) -> None:
        first, *others = (self.loop.run(getattr(home.store, verb)(*values, **named)) for home in self.homes)
        for other in others:
            self.compare(first, other)

    def compare(self, first: object, other: object) -> None:
        if isinstance(first, dict) and isinstance(other, dict):
            assert first.keys() == other.keys()
            for key, value in first.items():
                self.compare(value, other[key])
        elif isinstance(first, Rest) and isinstance(other, Rest):
            assert (first.why, first.until) == (other.why, pytest.approx(other.until, rel=0, abs=self.tolerance_s))
        elif isinstance(first, Turn) and isinstance(other, Turn):
            wait_ms = pytest.approx(other.wait_ms, rel=0, abs=self.tolerance_s * 1000)
            assert (first.taken, first.wait_ms) == (other.taken, wait_ms)
        else:
            assert first == other

    def pass_time(self, seconds: float) -> None:
        for home in self.homes:
            home.advance(seconds)

    def moment(self, spans: float | None) -> float | None:
        return None if spans is None else self.homes[0].now() + spans * self.unit_s

    @rule(spans=SPANS)
    def advance(self, spans: float) -> None:
        self.pass_time(spans * self.unit_s)

    @rule(key=KEYS, spans=SPANS, why=st.sampled_from(["timeout", "network"]))
    def rest(self, key: str, spans: float, why: str) -> None:
        self.agree("rest", key, self.moment(spans), why)

    @rule(key=KEYS, limit=NUMBERS, spans=st.none() | SPANS)
    def spend(self, key: str, limit: int, spans: float | None) -> None:
        self.agree("spend", key, limit, self.moment(spans))

    @rule(key=KEYS, by=NUMBERS, at_least=NUMBERS, spans=st.none() | SPANS)
    def count(self, key: str, by: int, at_least: int, spans: float | None) -> None:
        self.agree("count", key, self.moment(spans), by=by, at_least=at_least)

    @rule(key=KEYS, gap=GAPS, patience=PATIENCES)
    def turn(self, key: str, gap: float, patience: float) -> None:
        self.agree("turn", key, round(gap * self.unit_s * 1000), round(patience * self.unit_s * 1000))

    @rule(room=KEYS, key=st.sampled_from("vwxyz"), value=st.binary(), spans=SPANS, at_most=st.none() | NUMBERS)
    def keep(self, room: str, key: str, value: bytes, spans: float, at_most: int | None) -> None:
        self.agree("keep", room, key, value, spans * self.unit_s, at_most)
        self.agree("kept", room)

    @rule(keys=st.lists(KEYS, unique=True))
    def clear(self, keys: list[str]) -> None:
        self.agree("clear", *keys)

    @rule()
    def look(self) -> None:
        self.agree("resting", ["a", "b", "c"])
        self.agree("counted", ["a", "b", "c"])
        for room in ("a", "b"):
            self.agree("kept", room)
            for key in "vwxyz":
                self.agree("recall", room, key)

    def teardown(self) -> None:
        for home in self.homes:
            self.loop.run(home.store.aclose())
        self.loop.close()
        self.folder.cleanup()


class HomesInLargeSteps(Homes):
    """The same where a server's clock goes on meanwhile: no two moments are nearer to each other than a test takes.

    There is no way back in time here: what a server saw end has gone.
    """

    names = tuple(HOMES)
    unit_s = 1_000_000.0
    tolerance_s = 10.0

    def __init__(self) -> None:
        redis_server.shared_url()  # which skips the test where there is to be none
        super().__init__()

    @invariant()
    def no_two_steps_are_of_the_same_moment(self) -> None:
        self.pass_time(256.0)

    @rule(spans=SPANS.filter(lambda spans: spans >= 0))
    def advance(self, spans: float) -> None:
        self.pass_time(spans * self.unit_s)


TestHomesAgree = Homes.TestCase
TestHomesAgree.settings = settings(max_examples=20, stateful_step_count=30, deadline=None)
TestHomesAgreeInLargeSteps = HomesInLargeSteps.TestCase
TestHomesAgreeInLargeSteps.settings = settings(max_examples=20, stateful_step_count=30, deadline=None)
