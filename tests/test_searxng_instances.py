"""Several SearXNG instances behind one name: each is asked, rests and is shown for itself."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

import pytest

from gateway.gateway import Gateway
from tests.rooms import HandTime, ask, counted, rest, running, streak, told, tuned, used
from tests.vendors import Play, Played, recording, success

pytestmark = pytest.mark.anyio

ONE, TWO = "first:s3cret-one", "second:s3cret-two"


@pytest.fixture
def time(anyio_backend: str) -> HandTime:
    return HandTime()


@dataclass(frozen=True)
class Instances:
    """Four instances, each on a port of its own, in the order in which they are configured."""

    down: str
    throttled: Played
    json_off: Played
    good: Played

    @property
    def addresses(self) -> str:
        up = (self.throttled, self.json_off, self.good)
        return ", ".join((self.down, *(each.address("searxng") for each in up)))

    @property
    def counts(self) -> tuple[int, int, int]:
        return self.throttled.count("searxng"), self.json_off.count("searxng"), self.good.count("searxng")


@pytest.fixture
async def instances(anyio_backend: str, unused_tcp_port: int) -> AsyncIterator[Instances]:
    async with AsyncExitStack() as stack:
        throttled, json_off, good = [await stack.enter_async_context(Played()) for _ in range(3)]
        throttled.script("searxng", recording("searxng", "limiter_429"))
        json_off.script("searxng", recording("searxng", "json_not_enabled_403"))
        yield Instances(f"http://127.0.0.1:{unused_tcp_port}", throttled, json_off, good)


async def shown(gateway: Gateway) -> dict[str, Any]:
    status = await gateway.status()
    found: dict[str, Any] = next(each for each in status["providers"] if each["name"] == "searxng")
    return found


async def test_one_search_goes_from_instance_to_instance_until_one_answers(
    instances: Instances, time: HandTime
) -> None:
    async with running(instances.good, ["searxng"], time=time, keys={"SEARXNG_URL": instances.addresses}) as gateway:
        answer = await ask(gateway)
    assert used(answer) == "searxng"
    assert told(answer) == [
        "searxng#1 network ECONNREFUSED",
        "searxng#2 rate_limited http_429",
        "searxng#3 request_error http_403",
    ]


async def test_each_instance_rests_for_its_own_fault_and_its_own_time(instances: Instances, time: HandTime) -> None:
    async with running(instances.good, ["searxng"], time=time, keys={"SEARXNG_URL": instances.addresses}) as gateway:
        await ask(gateway, "one")
        rests = [await rest(gateway, "searxng", number) for number in (1, 2, 3, 4)]
        assert rests == [("network", 30), ("rate_limited", 60), ("request_error", 300), None]
        assert [await streak(gateway, "searxng", number) for number in (1, 2, 3, 4)] == [1, 1, 0, 0]
        # those who rest are not asked, and leave no entry as long as another instance can be asked
        assert told(await ask(gateway, "two")) == []
        assert instances.counts == (1, 1, 2)
        time.move(31)
        assert told(await ask(gateway, "three")) == ["searxng#1 network ECONNREFUSED"]
        time.move(30)
        # the first rests for the second time, and longer
        assert told(await ask(gateway, "four")) == ["searxng#2 rate_limited http_429"]
        assert (await rest(gateway, "searxng", 1), await rest(gateway, "searxng", 2)) == (
            ("network", 30),
            ("rate_limited", 120),
        )


async def test_an_instance_that_recovers_is_asked_first_again(instances: Instances, time: HandTime) -> None:
    async with running(instances.good, ["searxng"], time=time, keys={"SEARXNG_URL": instances.addresses}) as gateway:
        await ask(gateway, "one")
        instances.throttled.script("searxng", success("searxng", marker="second"))
        time.move(300)
        answer = await ask(gateway, "two")
        assert told(answer) == ["searxng#1 network ECONNREFUSED"]
        assert "second" in answer.body["results"][0]["title"]
        assert await streak(gateway, "searxng", 2) == 0


async def test_when_no_instance_answers_the_chain_names_each_and_then_one_skip_stands_for_all(
    instances: Instances, time: HandTime
) -> None:
    instances.good.script("searxng", Play(500))
    async with running(
        instances.good, ["searxng", "tavily"], time=time, keys={"SEARXNG_URL": instances.addresses}
    ) as gateway:
        answer = await ask(gateway, "one")
        assert (used(answer), told(answer)[3:]) == ("tavily", ["searxng#4 server_error http_500"])
        again = await ask(gateway, "two")
    # the one that comes back first
    assert (used(again), told(again)) == ("tavily", ["searxng skipped:network 30s"])


async def test_the_status_shows_each_instance_and_no_address(instances: Instances, time: HandTime) -> None:
    async with running(instances.good, ["searxng"], time=time, keys={"SEARXNG_URL": instances.addresses}) as gateway:
        await ask(gateway)
        searxng = await shown(gateway)
        assert [(each["key"], each["state"], each["used_requests"]) for each in searxng["keys"]] == [
            ("#1", "blocked(network, 30s left)", 1),
            ("#2", "blocked(rate_limited, 60s left)", 1),
            ("#3", "blocked(request_error, 300s left)", 1),
            ("#4", "active", 1),
        ]
        assert (searxng["state"], searxng["used_requests"]) == ("active", 4)
        assert [await counted(gateway, "searxng", number) for number in (1, 2, 3, 4)] == [1, 1, 1, 1]
        assert "127.0.0.1" not in json.dumps(searxng)


async def test_an_empty_answer_of_one_instance_is_the_answer(instances: Instances, time: HandTime) -> None:
    instances.throttled.script("searxng", recording("searxng", "empty_true"))
    async with running(instances.good, ["searxng"], time=time, keys={"SEARXNG_URL": instances.addresses}) as gateway:
        answer = await ask(gateway)
    assert told(answer) == ["searxng#1 network ECONNREFUSED", "searxng#2 no_results http_200"]
    assert instances.counts == (1, 0, 0)


async def test_an_instance_whose_engines_are_all_blocked_makes_room_for_the_next(
    instances: Instances, time: HandTime
) -> None:
    instances.throttled.script("searxng", recording("searxng", "empty_all_blocked"))
    instances.json_off.script("searxng", success("searxng"))
    async with running(instances.good, ["searxng"], time=time, keys={"SEARXNG_URL": instances.addresses}) as gateway:
        answer = await ask(gateway)
    assert told(answer) == ["searxng#1 network ECONNREFUSED", "searxng#2 rate_limited http_200 all engines blocked"]
    assert (used(answer), instances.counts) == ("searxng", (1, 1, 0))


async def test_a_query_that_one_instance_cannot_take_goes_to_no_other(instances: Instances, time: HandTime) -> None:
    instances.throttled.script("searxng", recording("searxng", "no_query_400"))
    async with running(instances.good, ["searxng"], time=time, keys={"SEARXNG_URL": instances.addresses}) as gateway:
        answer = await ask(gateway)
    assert told(answer)[1:] == ["searxng#2 request_error http_400"]
    assert instances.counts == (1, 0, 0)


async def test_addresses_may_stand_in_the_file_separated_by_commas(instances: Instances, time: HandTime) -> None:
    entry = tuned("searxng", base_url=instances.addresses)
    async with running(instances.good, [entry], time=time, keys={"SEARXNG_URL": ""}) as gateway:
        answer = await ask(gateway)
        assert len((await shown(gateway))["keys"]) == 4
    assert (used(answer), len(told(answer))) == ("searxng", 3)


async def test_instances_on_one_host_are_told_apart_by_their_path(played: Played, time: HandTime) -> None:
    played.script("searxng", recording("searxng", "limiter_429"), success("searxng"))
    base = played.address("searxng")
    async with running(
        played, ["searxng"], time=time, keys={"SEARXNG_URL": f"{base}/one/,{base}/two/search"}
    ) as gateway:
        assert told(await ask(gateway)) == ["searxng#1 rate_limited http_429"]
        assert (await rest(gateway, "searxng", 2)) is None
    paths = [request.path for request in played.requests("searxng")]
    assert paths == ["/searxng/one/search", "/searxng/two/search"]


def basic(pair: str) -> str:
    return "Basic " + base64.b64encode(pair.encode()).decode()


async def test_each_instance_gets_its_own_password_and_never_anothers(instances: Instances, time: HandTime) -> None:
    bare = instances.good.address("searxng")
    one = instances.throttled.address("searxng").replace("//", f"//{ONE}@")
    two = instances.json_off.address("searxng").replace("//", f"//{TWO}@")
    instances.json_off.script("searxng", Play(401, {"www-authenticate": 'Basic realm="x"'}, b"401"))
    async with running(instances.good, ["searxng"], time=time, keys={"SEARXNG_URL": f"{one},{two},{bare}"}) as gateway:
        answer = await ask(gateway)
        assert told(answer) == ["searxng#1 rate_limited http_429", "searxng#2 auth_failure http_401"]
        status = json.dumps(await gateway.status())
    (first,), (second,), (third,) = (
        each.requests("searxng") for each in (instances.throttled, instances.json_off, instances.good)
    )
    assert first.headers["authorization"] == basic(ONE)
    assert second.headers["authorization"] == basic(TWO)
    assert "authorization" not in third.headers
    for request, other in ((first, TWO), (second, ONE), (third, ONE), (third, TWO)):
        assert other.partition(":")[2].encode() not in request.raw
        assert basic(other).encode() not in request.raw
    assert "s3cret" not in status + json.dumps(answer.body)


async def test_the_options_go_to_every_instance_and_only_those_that_are_set(
    instances: Instances, time: HandTime
) -> None:
    entry = tuned("searxng", options={"categories": "it,science", "language": "pt-BR"})
    async with running(instances.good, [entry], time=time, keys={"SEARXNG_URL": instances.addresses}) as gateway:
        await ask(gateway, "moss", freshness="month")
    for each in (instances.throttled, instances.json_off, instances.good):
        (request,) = each.requests("searxng")
        assert (request.method, request.body) == (
            "POST",
            b"q=moss&format=json&categories=it%2Cscience&language=pt-BR&time_range=month",
        )


async def test_an_instance_that_was_taken_out_and_put_back_elsewhere_keeps_its_rest(
    instances: Instances, time: HandTime, tmp_path_factory: pytest.TempPathFactory
) -> None:
    state = {"type": "sqlite", "path": str(tmp_path_factory.mktemp("state"))}
    throttled, good = instances.throttled.address("searxng"), instances.good.address("searxng")
    async with running(
        instances.good, ["searxng"], time=time, state=state, keys={"SEARXNG_URL": f"{throttled},{good}"}
    ) as gateway:
        await ask(gateway, "one")
    async with running(
        instances.good, ["searxng"], time=time, state=state, keys={"SEARXNG_URL": f"{good},{throttled}"}
    ) as gateway:
        assert await rest(gateway, "searxng", 1) is None
        assert await rest(gateway, "searxng", 2) == ("rate_limited", 60)
