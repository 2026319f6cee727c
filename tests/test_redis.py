"""The store in a server: clocks that differ, replies that are lost, servers that hang, stop, refuse and come back.

What every store promises is in test_stores.
"""

from __future__ import annotations

import asyncio
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trustme

from gateway.settings import StateSettings
from gateway.stores import StoreUnavailable, Turn
from gateway.stores.opening import open_store
from gateway.stores.redis import DROP_AT_MOST, SWEEP_AT_MOST, RedisStore
from tests.redis_server import PATIENT_S, RedisServer, Relay, age, prefix, shared_url

pytestmark = pytest.mark.anyio

NOW = 1_800_000_000.0
NEVER_S = 3600.0
"""Until a server that was away is looked at again: not within a test."""
SOON_S = 0.01
HURRIED_S = 0.05
"""For servers that do not answer."""


@pytest.fixture
def server() -> Iterator[RedisServer]:
    """A server of the test's own."""
    server = RedisServer()
    yield server
    server.end()


@pytest.fixture
async def relay(server: RedisServer, anyio_backend: str) -> AsyncIterator[Relay]:
    async with Relay(server) as relay:
        yield relay


@asynccontextmanager
async def store(
    url: str,
    prefix: str = "test",
    clock: Callable[[], float] = lambda: NOW,
    patience_s: float = PATIENT_S,
    again_s: float = NEVER_S,
) -> AsyncIterator[RedisStore]:
    opened = RedisStore(url, prefix, clock, patience_s=patience_s, again_s=again_s)
    try:
        yield opened
    finally:
        await opened.aclose()


async def until_back(home: RedisStore, limit_s: float = 20) -> None:
    """Until a verb works again. Raises TimeoutError."""
    async with asyncio.timeout(limit_s):
        while True:
            try:
                await home.counted(["a"])
                return
            except StoreUnavailable:
                await asyncio.sleep(SOON_S)


async def refusal(verb: Awaitable[object]) -> str:
    """The words with which a verb failed."""
    with pytest.raises(StoreUnavailable) as caught:
        await verb
    return str(caught.value)


# ---------------------------------------------------------------------------------------------------------------------
# clocks


async def test_gateways_whose_clocks_differ_see_the_same_rest(tmp_path: Path) -> None:
    name = prefix(tmp_path)
    async with store(shared_url(), name) as first, store(shared_url(), name, lambda: NOW - 3600) as behind:
        assert await first.rest("tavily", NOW + 60, "timeout")
        found = (await behind.resting(["tavily"]))["tavily"]
        assert found.until - (NOW - 3600) == pytest.approx(60, abs=30)
        assert not await behind.rest("tavily", NOW - 3600 + 30, "network")
        assert not await behind.rest("tavily", NOW - 3600 + 600, "network")
        assert (await first.resting(["tavily"]))["tavily"].until - NOW == pytest.approx(600, abs=30)


async def test_gateways_whose_clocks_differ_end_a_period_together(tmp_path: Path) -> None:
    name = prefix(tmp_path)
    async with store(shared_url(), name) as first, store(shared_url(), name, lambda: NOW + 86_400) as ahead:
        assert await first.spend("tavily", 2, NOW + 60) == 1
        assert await ahead.spend("tavily", 2, NOW + 86_400 + 60) == 2
        assert await first.spend("tavily", 2, NOW + 60) is None
        age(tmp_path, 61)
        assert await ahead.counted(["tavily"]) == {}


# ---------------------------------------------------------------------------------------------------------------------
# what is left behind


async def test_what_has_ended_leaves_nothing_behind(server: RedisServer) -> None:
    async with store(server.url) as home:
        for number in range(50):
            await home.rest(f"r{number}", NOW + 0.001, "timeout")
            await home.count(f"c{number}", NOW + 0.001)
            await home.turn(f"t{number}", 1, 0)
            await home.keep(f"room{number % 3}", f"k{number}", b"x", 0.001, at_most=10)
    with server.client() as client:
        assert {bytes(key).split(b":")[1] for key in client.scan_iter("test:*")} <= {b"once"}  # type: ignore[union-attr]
        lives = [client.pttl(key) for key in client.scan_iter("test:once:*")]
    assert lives
    assert all(0 <= life <= 5000 for life in lives)  # type: ignore[operator]


async def test_what_has_ended_is_swept_from_a_room_while_others_come(tmp_path: Path) -> None:
    async with store(shared_url(), prefix(tmp_path)) as home:
        await home.keep("room", "lasting", b"", 600)
        for number in range(3 * SWEEP_AT_MOST):
            await home.keep("room", f"k{number}", b"", 60)
        age(tmp_path, 60)
        for number in range(3):
            await home.keep("room", f"new{number}", b"", 60)
        ages, ends = home._key("ages", "room"), home._key("ends", "room")
        assert await home._server.ask("ZCARD", ages) == await home._server.ask("ZCARD", ends) == 4


async def test_a_room_whose_bound_was_lowered_gets_there_in_steps(tmp_path: Path) -> None:
    async with store(shared_url(), prefix(tmp_path)) as home:
        for number in range(DROP_AT_MOST + 20):
            await home.keep("room", f"k{number}", b"", 60)
        await home.keep("room", "first", b"", 60, at_most=5)
        assert await home.kept("room") == 21
        await home.keep("room", "second", b"", 60, at_most=5)
        assert await home.kept("room") == 5
        assert await home.recall("room", "first") == b""


async def test_prefixes_keep_gateways_apart(tmp_path: Path) -> None:
    async with store(shared_url(), prefix(tmp_path)) as one, store(shared_url(), prefix(tmp_path / "other")) as other:
        assert [await each.spend("tavily", 1, None) for each in (one, other)] == [1, 1]


# ---------------------------------------------------------------------------------------------------------------------
# replies that are lost

Verb = Callable[[RedisStore], Awaitable[object]]

ONCE: dict[str, tuple[Verb, object, object]] = {
    # what is done twice, what comes of the first, and of the second
    "spend": (lambda home: home.spend("key", 2, None), 1, 2),
    "spend, the last one": (lambda home: home.spend("key", 1, None), 1, None),
    "count": (lambda home: home.count("key", None, by=7), 7, 14),
    "rest": (lambda home: home.rest("key", NOW + 60, "timeout"), True, False),
    "turn": (lambda home: home.turn("key", 10**9, 0), Turn(0, taken=True), False),
}


@pytest.mark.parametrize("name", ONCE)
@pytest.mark.parametrize("fault", ["the reply is lost", "the command comes late"])
async def test_a_write_that_is_tried_twice_happens_once(relay: Relay, name: str, fault: str) -> None:
    verb, first, second = ONCE[name]
    async with store(f"redis://{relay.address}", patience_s=0.5) as home:
        await verb_on_another_key(home)
        if fault == "the reply is lost":
            relay.to_lose = 1
        else:
            relay.to_hold = 1
        assert await verb(home) == first
        assert relay.connections == 2
        relay.release.set()
        again = await verb(home)
        assert (again.taken if isinstance(again, Turn) else again) == second


async def verb_on_another_key(home: RedisStore) -> None:
    """Let the server know the scripts."""
    await home.count("another", None)
    await home.rest("another", NOW, "timeout")
    await home.turn("another", 0, 0)


async def test_a_lost_reply_fails_no_other_caller_and_mixes_nobody_up(relay: Relay) -> None:
    async with store(f"redis://{relay.address}", patience_s=0.5) as home:
        await home.count("another", None)
        relay.to_lose = 1
        after = await asyncio.gather(*(home.count(f"key{number}", None, by=number) for number in range(100)))
        assert after == list(range(100))
        assert await home.counted([f"key{number}" for number in range(100)]) == {
            f"key{number}": number for number in range(1, 100)
        }


async def test_callers_who_leave_do_not_disturb_those_who_stay(server: RedisServer) -> None:
    async with store(server.url) as home:
        await home.count("another", None)
        callers = [asyncio.create_task(home.count(f"key{number}", None, by=number)) for number in range(100)]
        await asyncio.sleep(0)
        for leaving in callers[::2]:
            leaving.cancel()
        assert await asyncio.gather(*callers[1::2]) == list(range(1, 100, 2))
        assert await home.count("another", None) == 2


async def test_a_loop_that_was_held_up_does_not_blame_the_server(server: RedisServer) -> None:
    async with store(server.url, patience_s=0.2) as home:
        await home.count("a", None)
        with server.client() as client:
            before = client.info("stats")["total_connections_received"]  # type: ignore[index]
            counting = asyncio.create_task(home.count("a", None))
            for _ in range(3):
                await asyncio.sleep(0)  # until it was sent
            time.sleep(0.5)  # noqa: ASYNC251 -- this is what holds the loop up
            assert await counting == 2
            assert client.info("stats")["total_connections_received"] == before  # type: ignore[index]


# ---------------------------------------------------------------------------------------------------------------------
# servers that are away


@pytest.mark.parametrize("callers", [1, 200])
@pytest.mark.parametrize("connected", [True, False], ids=["connected", "not connected"])
async def test_a_server_that_hangs_is_tried_on_a_new_connection_for_all_callers_and_then_left_alone(
    server: RedisServer, relay: Relay, callers: int, connected: bool
) -> None:
    async with store(f"redis://{relay.address}", patience_s=HURRIED_S) as home:
        if connected:
            await home.count("a", None)
        with server.frozen():
            words = await asyncio.gather(*(refusal(home.count("a", None)) for _ in range(callers)))
            assert set(words) == {f"redis://{relay.address} does not answer within 50 ms"}
            connections, sent = relay.connections, relay.sent
            assert connections == (2 if connected else 1)
            assert await refusal(home.counted(["a"])) == words[0]
            assert (relay.connections, relay.sent) == (connections, sent)


async def test_a_server_that_hung_is_found_again_without_anybody_asking(server: RedisServer, relay: Relay) -> None:
    async with store(f"redis://{relay.address}", patience_s=HURRIED_S, again_s=SOON_S) as home:
        with server.frozen():
            await refusal(home.spend("tavily", 5, None))
            await relay.until_met(relay.connections + 3)
        await until_back(home)
        # what was sent while it hung may have been done since, once
        assert await home.spend("tavily", 5, None) in (1, 2)


async def test_a_server_that_was_stopped_is_found_again_with_what_it_knew() -> None:
    server = RedisServer("--appendonly", "yes")
    try:
        async with store(server.url, again_s=SOON_S) as home:
            assert await home.spend("tavily", 5, NOW + 600) == 1
            server.stop()
            assert "cannot be reached: No such file or directory" in await refusal(home.spend("tavily", 5, NOW + 600))
            server.start()
            await until_back(home)
            assert await home.spend("tavily", 5, NOW + 600) == 2
    finally:
        server.end()


async def test_a_server_that_was_started_anew_between_two_verbs_costs_neither(server: RedisServer) -> None:
    async with store(server.url) as home:
        assert await home.count("a", None) == 1
        server.stop()
        server.start()
        assert await home.count("a", None) == 1


async def test_connections_that_are_cut_cost_no_verb(server: RedisServer, relay: Relay) -> None:
    async with store(f"redis://{relay.address}") as home:
        for number in range(1, 4):
            assert await home.count("a", None) == number
            await relay.cut()
        assert relay.connections == 3


async def test_a_server_far_away_is_connected_to_though_nobody_waits_so_long(relay: Relay) -> None:
    relay.delay_s = 6 * HURRIED_S
    async with store(f"redis://{relay.address}/3", patience_s=HURRIED_S, again_s=SOON_S) as home:
        words = await refusal(home.spend("tavily", 5, None))
        assert words.endswith("/3 cannot be connected to within 50 ms")
        relay.delay_s = 0.0
        await until_back(home)
        assert relay.connections == 1, "the one that was begun was waited for"
        assert await home.spend("tavily", 5, None) == 1, "what nobody waited for was not sent"


async def test_a_server_is_waited_for_longer_when_it_had_to_be_connected_first() -> None:
    server = RedisServer("--requirepass", "pw")
    try:
        async with Relay(server) as relay, store(f"redis://:pw@{relay.address}/3", patience_s=1.0) as home:
            relay.delay_s = 0.43  # as far off as 45 ms are for those who wait for 100 ms
            assert await home.count("a", None) == 1
            assert relay.connections == 1
    finally:
        server.end()


async def test_a_start_waits_for_a_server_far_away(relay: Relay) -> None:
    relay.delay_s = 2 * HURRIED_S
    async with store(f"redis://{relay.address}/3", patience_s=0.2) as home:
        await home._server.meet(20)
        assert await home.count("a", None) == 1
        assert relay.connections == 1


async def test_a_name_that_is_looked_up_for_long_is_looked_up_once(
    relay: Relay, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, begun_again, known = [], asyncio.Event(), asyncio.Event()

    async def slow(host: str, port: int, **_: object) -> list[object]:
        if begun:
            begun_again.set()
        begun.append(host)
        await known.wait()
        return [(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", ("127.0.0.1", port))]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", slow)
    port = relay.address.rpartition(":")[2]
    async with store(f"redis://far.example:{port}", patience_s=HURRIED_S, again_s=SOON_S) as home:
        with monkeypatch.context() as limited:
            limited.setattr("gateway.stores._line.CONNECT_S", HURRIED_S)
            await refusal(home.count("a", None))
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(4 * HURRIED_S):
                    await begun_again.wait()
        known.set()
        await until_back(home)
    assert begun[0] == "far.example"
    assert relay.connections == 1


async def test_a_server_that_takes_connections_and_no_password_is_given_up_at_last(
    server: RedisServer, relay: Relay, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.stores._line.CONNECT_S", HURRIED_S)
    async with store(f"redis://:pw@{relay.address}", patience_s=SOON_S, again_s=SOON_S) as home:
        with server.frozen():
            await refusal(home.count("a", None))
            await relay.until_met(3)


async def test_a_name_with_two_addresses_is_told_like_one(
    unused_tcp_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def two(host: str, port: int, **_: object) -> list[object]:
        return [
            (socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (address, port))
            for address in ("127.0.0.1", "127.0.0.2")
        ]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", two)
    async with store(f"redis://two.example:{unused_tcp_port}") as home:
        words = await refusal(home.count("a", None))
    assert words == f"redis://two.example:{unused_tcp_port} cannot be reached: Connection refused"


async def test_a_name_that_nobody_has_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    async def none(host: str, port: int, **_: object) -> list[object]:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", none)
    async with store("redis://no.example") as home:
        words = await refusal(home.count("a", None))
    assert words == "redis://no.example cannot be reached: Name or service not known"


@pytest.mark.parametrize("callers", [1, 50])
async def test_a_store_that_is_left_while_somebody_connects_leaves_no_connection(
    server: RedisServer, relay: Relay, callers: int
) -> None:
    async with store(f"redis://:pw@{relay.address}") as home:
        with server.frozen():
            waiting = asyncio.gather(*(refusal(home.count("a", None)) for _ in range(callers)))
            await relay.until_met(1)
            await home.aclose()
            assert set(await waiting) == {f"redis://{relay.address} is being left"}
            assert relay.connections == 1


async def test_a_store_that_is_left_while_somebody_waits_leaves_no_connection(
    server: RedisServer, relay: Relay
) -> None:
    async with store(f"redis://{relay.address}") as home:
        await home.count("a", None)
        with server.frozen():
            waiting = asyncio.create_task(refusal(home.count("a", None)))
            await asyncio.sleep(0)
            await home.aclose()
            assert await waiting
            assert relay.connections == 1
            assert home._server._line is None
        assert await home.count("a", None) in (2, 3)


async def test_a_port_where_nobody_listens_is_told_without_secrets(
    unused_tcp_port: int, caplog: pytest.LogCaptureFixture
) -> None:
    url = f"redis://ada:l0velace@127.0.0.1:{unused_tcp_port}/0?ssl_password=hidd3n"
    async with store(url.partition("?")[0], again_s=SOON_S) as home:
        words = await refusal(home.count("a", None))
        assert words == f"redis://127.0.0.1:{unused_tcp_port}/0 cannot be reached: Connection refused"
    async with store(url) as home:
        words += await refusal(home.count("a", None))
    assert [record.message for record in caplog.records] == [f"state: {words.partition('refused')[0]}refused"]
    assert not [secret for secret in ("ada", "l0velace", "hidd3n") if secret in words + caplog.text]


async def test_coming_and_going_is_logged_once(server: RedisServer, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    async with store(server.url, again_s=SOON_S) as home:
        server.stop()
        await asyncio.gather(*(refusal(home.count("a", None)) for _ in range(20)))
        server.start()
        await until_back(home)
    gone, back = [record.message for record in caplog.records if record.name.startswith("gateway")]
    assert "cannot be reached" in gone
    assert back.endswith("is back")


# ---------------------------------------------------------------------------------------------------------------------
# servers that refuse


async def test_a_password_opens_the_server_and_a_wrong_one_is_told() -> None:
    server = RedisServer("--requirepass", "0pen sesame")
    try:
        with_password = server.url.replace("unix://", "unix://:0pen%20sesame@")
        async with store(with_password) as home:
            assert await home.count("a", None) == 1
        async with Relay(server) as relay, store(f"redis://:0pen%20sesame@{relay.address}/3") as home:
            assert await home.count("a", None) == 1
        async with store(server.url.replace("unix://", "unix://:wr0ng@")) as home:
            words = await refusal(home.count("a", None))
            assert words.endswith("refuses our password")
            assert "wr0ng" not in words
        async with store(server.url) as home:
            assert (await refusal(home.count("a", None))).endswith("asks for a password")
    finally:
        server.end()


async def test_a_user_needs_no_more_than_its_own_keys_and_commands(server: RedisServer) -> None:
    with server.client() as client:
        may = "+@read +@write +@scripting +time"
        client.execute_command(f"ACL SETUSER narrow on >pw ~test:* {may}")
        client.execute_command("ACL SETUSER nobody on >pw ~other:* +@all")
    async with store(server.url.replace("unix://", "unix://narrow:pw@")) as home:
        assert await home.open() == ()
        assert await home.turn("a", 10, 0) == Turn(0, taken=True)
        await home.keep("room", "a", b"x", 60, at_most=1)
        assert await home.kept("room") == 1
        await home.clear("a")
    async with store(server.url.replace("unix://", "unix://nobody:pw@")) as home:
        assert "does not allow our user what we need" in await refusal(home.count("a", None))


async def test_a_replica_is_left_until_it_can_be_written(server: RedisServer) -> None:
    with server.client() as client:
        client.execute_command("REPLICAOF 127.0.0.1 1")
        async with store(server.url, again_s=SOON_S) as home:
            assert (await refusal(home.count("a", None))).endswith("is a replica that cannot be written")
            assert (await refusal(home.recall("room", "a"))).endswith("is a replica that cannot be written")
            client.execute_command("REPLICAOF NO ONE")
            await until_back(home)
            assert await home.count("a", None) == 1


async def test_a_full_server_still_tells_what_it_knows(server: RedisServer) -> None:
    async with store(server.url) as home:
        await home.rest("tavily", NOW + 60, "timeout")
        with server.client() as client:
            client.config_set("maxmemory", "1")
        assert (await refusal(home.spend("tavily", 5, None))).endswith("is full")
        assert list(await home.resting(["tavily"])) == ["tavily"]


async def test_what_only_speaks_like_redis_is_told() -> None:
    async with played(others="*1\r\n:1") as url, store(url) as home:
        assert "holds something of another program" in await refusal(home.resting(["a"]))


async def test_a_count_of_another_program_is_told(server: RedisServer) -> None:
    async with store(server.url) as home:
        with server.client() as client:
            client.set("test:count:a", "not a number")
        assert "holds something of another program" in await refusal(home.counted(["a", "b"]))


async def test_a_rest_of_another_program_that_is_no_text_is_told(server: RedisServer) -> None:
    async with store(server.url) as home:
        with server.client() as client:
            client.set("test:rest:a", b"\xff")
        assert "holds something of another program" in await refusal(home.resting(["a", "b"]))


@pytest.mark.parametrize("lost", ["ages", "ends"])
async def test_a_room_that_lost_a_part_of_itself_is_a_room_again(server: RedisServer, lost: str) -> None:
    async with store(server.url) as home:
        for number in range(4):
            await home.keep("room", f"old{number}", b"x", 600, at_most=4)
        with server.client() as client:
            assert client.delete(f"test:{lost}:room") == 1
        for number in range(8):
            await home.keep("room", f"new{number}", b"x", 600, at_most=4)
        assert [await home.recall("room", f"new{number}") for number in range(4, 8)] == [b"x"] * 4
        assert await home.kept("room") == 4


@pytest.mark.parametrize("lost", ["ages", "ends"])
async def test_a_room_without_a_bound_that_lost_a_part_of_itself_ends_with_what_is_in_it(
    server: RedisServer, lost: str
) -> None:
    async with store(server.url) as home:
        await home.keep("room", "old", b"x", 600)
        with server.client() as client:
            client.delete(f"test:{lost}:room")
            await home.keep("room", "new", b"x", 300)
            for part in ("ages", "ends"):
                assert client.zrange(f"test:{part}:room", 0, -1) == [b"new"]
                assert 0 < client.ttl(f"test:{part}:room") <= 300  # type: ignore[operator]
        assert await home.recall("room", "old") == b"x"


async def test_what_another_program_keeps_under_our_prefix_is_told(server: RedisServer) -> None:
    with server.client() as client:
        client.rpush("test:count:a", "x")
    async with store(server.url) as home:
        assert "holds something of another program under our prefix" in await refusal(home.count("a", None))
        assert await home.count("b", None) == 1


@asynccontextmanager
async def played(**replies: str) -> AsyncIterator[str]:
    """The address of a server that knows one reply for each command, as a real one would write it."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while header := await reader.readline():
            words = []
            for _ in range(int(header[1:])):
                size = int((await reader.readline())[1:])
                words.append((await reader.readexactly(size + 2))[:-2].decode())
            writer.write(replies.get(words[0], replies["others"]).encode() + b"\r\n")
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as listening:
        yield f"redis://127.0.0.1:{listening.sockets[0].getsockname()[1]}"


async def test_a_password_that_a_server_repeats_is_not_told(caplog: pytest.LogCaptureFixture) -> None:
    reply = "-ERR unknown command `AUTH`, with args beginning with: `ada` `hunter2secret` "
    async with played(others=reply) as url:
        with_password = url.replace("redis://", "redis://ada:hunter2secret@")
        async with store(with_password) as home:
            words = await refusal(home.count("a", None))
        opened_with, home = await opened(with_password)
        await home.aclose()
    assert "unknown command" in words + str(opened_with)
    assert "hunter2" not in words + str(opened_with) + caplog.text
    assert "ada" not in words + str(opened_with) + caplog.text


@pytest.mark.parametrize("query", ["username=ada&password=x:y", "client_name=x:y"])
async def test_nothing_of_an_address_that_a_server_repeats_is_told(anyio_backend: str, query: str) -> None:
    reply = "-ERR unknown command `AUTH`, with args beginning with: `ada` `x:y` "
    async with played(others=reply) as url, store(f"{url}?{query}") as home:
        words = await refusal(home.count("a", None))
    assert words.rstrip().endswith("`***`")
    assert "x:y" not in words


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        ("-LOADING Redis is loading the dataset in memory", "is still loading its data"),
        ("-MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.", "has lost its master"),
        ("-MISCONF Redis is configured to save RDB snapshots, but it cannot", "cannot save to its disk"),
        ("-NOREPLICAS Not enough good replicas to write.", "has too few replicas to be written"),
        ("-BUSY Redis is busy running a script. You can only call SCRIPT KILL", "is busy with a script"),
        ("-MOVED 3999 127.0.0.1:6381", "is part of a cluster, which is not supported"),
        ("-ERR max number of clients reached", "ended the connection: max number of clients reached"),
        ("-ERR unknown command `EVALSHA`", "refuses: unknown command `EVALSHA`"),
        (":many", "cannot be used: invalid literal for int() with base 10: b'many'"),
        ("HTTP/1.1 400 Bad Request", "cannot be used: Protocol Error: b'HTTP/1.1 400 Bad Request'"),
    ],
)
async def test_every_refusal_is_told_in_words(anyio_backend: str, reply: str, words: str) -> None:
    async with played(others=reply) as url, store(url) as home:
        assert (await refusal(home.count("a", None))).endswith(words)


# ---------------------------------------------------------------------------------------------------------------------
# TLS


@pytest.mark.parametrize("known_by", ["the address", "SSL_CERT_FILE", "nobody"])
async def test_a_server_behind_tls_must_prove_who_it_is(
    server: RedisServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, known_by: str
) -> None:
    authority, context = trustme.CA(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    authority.cert_pem.write_to_path(str(tmp_path / "own.pem"))
    if known_by == "SSL_CERT_FILE":
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "own.pem"))
    query = f"?ssl_ca_certs={tmp_path / 'own.pem'}" if known_by == "the address" else ""
    async with Relay(server, context) as relay, store(f"rediss://{relay.address}/0{query}") as home:
        if known_by == "nobody":
            words = f"rediss://{relay.address}/0 cannot be reached: certificate unable to get local issuer certificate"
            assert await refusal(home.count("a", None)) == words
        else:
            assert await home.count("a", None) == 1


# ---------------------------------------------------------------------------------------------------------------------
# opening


async def opened(url: str) -> tuple[tuple[str, ...], RedisStore]:
    found = await open_store(StateSettings("redis", url=url))
    assert isinstance(found.store, RedisStore)
    assert (found.persistent, found.clears_auth) == (True, False)
    return found.warnings, found.store


async def test_a_server_that_is_fine_is_opened_without_a_word(server: RedisServer) -> None:
    warnings, home = await opened(server.url)
    assert warnings == ()
    await home.aclose()
    with server.client() as client:
        assert {bytes(key).split(b":")[0] for key in client.scan_iter()} == {b"websearch"}  # type: ignore[union-attr]


async def test_a_server_that_is_away_at_the_start_stays_the_store(server: RedisServer) -> None:
    server.stop()
    warnings, home = await opened(server.url)
    assert [words.partition(" cannot")[2] for words in warnings] == [" be reached: No such file or directory"]
    server.start()
    await until_back(home)
    assert await home.count("a", None) == 1
    await home.aclose()


async def test_a_server_that_may_drop_counts_is_warned_of(server: RedisServer) -> None:
    with server.client() as client:
        client.config_set("maxmemory-policy", "allkeys-lru")
        warnings, home = await opened(server.url)
        assert warnings == ()
        await home.aclose()
        client.config_set("maxmemory", "100mb")
    warnings, home = await opened(server.url)
    assert len(warnings) == 1
    assert "set its maxmemory-policy to noeviction" in warnings[0]
    await home.aclose()


async def test_an_old_server_is_warned_of(anyio_backend: str) -> None:
    info = "redis_version:5.0.14\r\nmaxmemory:0\r\n"
    async with played(others=":1", INFO=f"${len(info)}\r\n{info}") as url:
        warnings, home = await opened(url)
        assert warnings == (f"state: {url} is Redis 5.0.14; 6.2 or newer is needed",)
        await home.aclose()


async def test_a_server_whose_version_is_no_number_is_not_called_old(anyio_backend: str) -> None:
    info = "redis_version:unstable\r\n"
    async with played(others=":1", INFO=f"${len(info)}\r\n{info}") as url:
        warnings, home = await opened(url)
        assert warnings == ()
        await home.aclose()


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("colour=s3cret", "its address holds an option that there is not: colour"),
        ("db=s3cret", "its address holds an option with a value that cannot be: db"),
    ],
)
async def test_an_option_that_cannot_be_is_told_by_its_name(anyio_backend: str, query: str, words: str) -> None:
    warnings, home = await opened(f"redis://127.0.0.1/?{query}")
    assert len(warnings) == 1
    assert words in warnings[0]
    assert "s3cret" not in warnings[0]
    await home.aclose()


def test_nobody_needs_the_package_who_has_no_server() -> None:
    without = "import sys; sys.modules['redis'] = None; import gateway.__main__, gateway.cli, gateway.gateway"
    subprocess.run([sys.executable, "-c", without], check=True, cwd=Path(__file__).parents[1])


async def test_a_server_that_is_killed_is_away(server: RedisServer) -> None:
    async with store(server.url) as home:
        await home.count("a", None)
        server.stop(signal.SIGKILL)
        # what it listened on is still there
        assert (await refusal(home.count("a", None))).endswith("cannot be reached: Connection refused")
