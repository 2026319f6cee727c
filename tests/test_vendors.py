"""The played vendors must be believable: everything else is judged against them."""

from __future__ import annotations

import asyncio
import json
import ssl
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest

from tests.vendors import (
    GARBAGE,
    KEYS,
    RESET,
    SILENCE,
    Play,
    Played,
    Trap,
    bomb,
    configuration,
    elsewhere,
    json_play,
    played_names,
    success,
)

pytestmark = pytest.mark.anyio


@pytest.fixture
async def client() -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(trust_env=False, timeout=5) as client:
        yield client


async def ask(client: httpx2.AsyncClient, played: Played, query: str = "moss") -> httpx2.Response:
    return await client.post(played.address("tavily") + "/search", json={"query": query})


async def test_replies_are_played_in_turn_and_the_last_one_stays(played: Played, client: httpx2.AsyncClient) -> None:
    played.script("tavily", Play(429), Play(500), success("tavily"))
    assert [(await ask(client, played)).status_code for _ in range(4)] == [429, 500, 200, 200]


async def test_a_vendor_without_a_script_has_something_for_every_query(
    played: Played, client: httpx2.AsyncClient
) -> None:
    moss, fern = (await ask(client, played, "moss")).json(), (await ask(client, played, "fern")).json()
    assert len(moss["results"]) == len(fern["results"]) == 5
    assert not {row["url"] for row in moss["results"]} & {row["url"] for row in fern["results"]}


async def test_rows_are_on_the_hosts_that_were_asked_for(played: Played, client: httpx2.AsyncClient) -> None:
    asked = {"query": "moss", "include_domains": ["a.example"]}
    rows = (await client.post(played.address("tavily") + "/search", json=asked)).json()["results"]
    assert all(row["url"].startswith("https://a.example/") for row in rows)
    query = "moss (site:a.example OR site:b.example) -site:c.example"
    found = (await client.get(played.address("searxng") + "/search", params={"q": query})).json()
    assert {row["url"].split("/")[2] for row in found["results"]} == {"a.example", "b.example"}
    assert found["results"][0]["title"] == "moss: page 0"


async def test_requests_are_counted_and_remembered(played: Played, client: httpx2.AsyncClient) -> None:
    await client.post(
        played.address("tavily") + "/search", json={"query": "moss"}, headers={"Authorization": "Bearer k"}
    )
    await client.get(played.address("brave") + "/res/v1/web/search?q=fern")
    (request,) = played.requests("tavily")
    assert (request.method, request.path, request.json) == ("POST", "/tavily/search", {"query": "moss"})
    assert request.headers["authorization"] == "Bearer k"
    assert played.counts() == {"tavily": 1, "brave": 1}
    assert (played.count(), played.count("exa")) == (2, 0)
    assert played.requests("brave")[0].at >= request.at


async def test_a_test_can_wait_for_requests_and_for_clients_that_leave(
    played: Played, client: httpx2.AsyncClient
) -> None:
    played.script("tavily", SILENCE)
    asking = asyncio.create_task(ask(client, played))
    await played.wait_for(1, "tavily")
    assert played.left() == 0
    asking.cancel()
    await played.wait_until_left(1, "tavily")
    with pytest.raises(TimeoutError):
        await played.wait_for(2, limit_s=0.01)
    with pytest.raises(asyncio.CancelledError):
        await asking


async def test_a_reply_can_be_held_until_the_test_lets_it_go(played: Played, client: httpx2.AsyncClient) -> None:
    gate = asyncio.Event()
    played.script("tavily", success("tavily", until=gate))
    asking = asyncio.create_task(ask(client, played))
    await played.wait_for(1)
    assert not asking.done()
    gate.set()
    assert (await asking).status_code == 200


@pytest.mark.parametrize(
    ("play", "error"),
    [
        (RESET, httpx2.ReadError),
        (Play(200, body=b"x" * 100, ending="reset"), (httpx2.ReadError, httpx2.RemoteProtocolError)),
        (Play(200, body=b"x" * 100, ending="cut"), httpx2.RemoteProtocolError),
        (GARBAGE, httpx2.RemoteProtocolError),
        (Play(200, {"content-encoding": "gzip"}, b"not gzip"), httpx2.DecodingError),
    ],
    ids=["reset", "reset in the body", "cut", "garbage", "not gzip"],
)
async def test_faults_are_what_they_claim_to_be(
    played: Played, client: httpx2.AsyncClient, play: Play, error: type[Exception]
) -> None:
    played.script("tavily", play)
    with pytest.raises(error):
        await ask(client, played)


async def test_a_dripping_body_arrives_whole_and_slowly(played: Played, client: httpx2.AsyncClient) -> None:
    played.script("tavily", Play(200, body=b"drop by drop", drip_s=0.01))
    reply = await ask(client, played)
    assert reply.content == b"drop by drop"
    assert reply.elapsed.total_seconds() > 0.1


async def test_a_leaky_vendor_repeats_the_key(played: Played, client: httpx2.AsyncClient) -> None:
    played.script("tavily", Play(400, echo=True))
    reply = await client.post(played.address("tavily"), json={}, headers={"Authorization": "Bearer canary"})
    assert (reply.status_code, reply.headers["x-echo-authorization"]) == (400, "Bearer canary")
    assert "canary" in reply.json()["detail"]["error"]


async def test_a_bomb_grows_when_it_is_opened(played: Played, client: httpx2.AsyncClient) -> None:
    play = bomb(size=1_000_000)
    assert len(play.body) < 2000
    played.script("tavily", play)
    assert len((await ask(client, played)).content) == 1_000_000


async def test_a_redirect_leads_to_a_trap_that_notices(played: Played, client: httpx2.AsyncClient) -> None:
    async with Trap() as trap:
        played.script("tavily", elsewhere(trap.url))
        assert (await ask(client, played)).headers["location"] == trap.url
        assert trap.visits == 0
        with pytest.raises(httpx2.HTTPError):
            await client.get(trap.url, headers={"x-key": "canary"})
        assert trap.visits == 1
        assert b"canary" in trap.heard[0]


async def test_every_vendor_speaks_http2_under_a_test_authority() -> None:
    async with Played(tls=True) as played:
        context = ssl.create_default_context(cadata=played.ca_pem.decode())
        async with httpx2.AsyncClient(http2=True, verify=context, trust_env=False) as client:
            played.script("tavily", json_play({"results": ["x" * 1_000_000]}))
            replies = await asyncio.gather(
                *(client.post(played.address("tavily", played.tls_url), json={"query": f"q{n}"}) for n in range(5))
            )
            assert {reply.http_version for reply in replies} == {"HTTP/2"}
            assert all(len(reply.content) > 1_000_000 for reply in replies)
            assert played.versions == {"HTTP/2": 5}
            with pytest.raises(httpx2.ConnectError):
                await client.get(played.untrusted_url)


def test_the_configuration_names_each_vendor_with_its_address_and_key() -> None:
    told = configuration(Played(), ["tavily", {"name": "brave", "quota": {"limit": 5}}], cache={"enabled": False})
    assert told["credentials"] == dict(KEYS["tavily"] | KEYS["brave"])
    assert told["providers"][0] == {"name": "tavily", "base_url": "/tavily"}
    assert told["providers"][1] == {"name": "brave", "base_url": "/brave", "quota": {"limit": 5}}
    assert (told["cache"], told["state"]) == ({"enabled": False}, {"type": "memory"})


def test_every_played_vendor_has_a_place_in_the_configuration() -> None:
    assert set(played_names()) == set(KEYS)


async def test_another_process_can_script_count_and_look(client: httpx2.AsyncClient, tmp_path: Path) -> None:
    authority = tmp_path / "ca.pem"
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "tests.vendors", "--port", "0", "--providers", "tavily,brave", "--tls", str(authority)),
        cwd=Path(__file__).parent.parent,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    try:
        told = json.loads(await asyncio.wait_for(process.stdout.readline(), 20))
        url = told["url"]
        base = told["config"]["providers"][0]["base_url"]
        plays = [
            {"status": 429, "headers": {"retry-after": "7"}, "body": {"detail": "slow"}},
            {"success": {"n_rows": 2}},
        ]
        assert (await client.post(f"{url}/_script/tavily", json=plays)).status_code == 200
        first, second = [await client.post(f"{base}/search", json={"query": "moss"}) for _ in range(2)]
        assert (first.status_code, first.headers["retry-after"], first.json()) == (429, "7", {"detail": "slow"})
        assert len(second.json()["results"]) == 2
        assert (await client.get(f"{url}/_count")).json() == {"tavily": 2}
        seen = (await client.get(f"{url}/_requests/tavily")).json()
        assert [each["path"] for each in seen] == ["/tavily/search"] * 2
        assert (await client.post(f"{url}/_script/nobody", json=[])).status_code == 400
        assert (await client.post(f"{url}/_script/tavily", json=[{"no_such": 1}])).status_code == 400
        assert (await client.get(f"{url}/nobody/search")).status_code == 404
        await client.post(f"{url}/_reset")
        assert (await client.get(f"{url}/_count")).json() == {}
        context = ssl.create_default_context(cafile=str(authority))
        async with httpx2.AsyncClient(verify=context, trust_env=False) as trusting:
            assert (await trusting.get(f"{told['tls_url']}/_count")).status_code == 200
    finally:
        process.terminate()
        assert await asyncio.wait_for(process.wait(), 10) == 0
