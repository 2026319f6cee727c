"""Canary keys: whatever vendors, callers and the network do, no piece of a secret comes out anywhere."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import AsyncIterator, Iterable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from gateway.config import check
from gateway.stores.sqlite import FILE_NAME
from providers._reading import spellings
from tests.doors_fixtures import call, modern
from tests.processes import Serving, command, serving, written
from tests.vendors import GARBAGE, RESET, Play, Played, Trap, elsewhere

pytestmark = pytest.mark.anyio

TOKEN = "gwtok-Hc5Vn2Xr8Jq1Lk7B"
KEYS = {
    "BOCHA_API_KEY": "sk-b0Cq8Wz/3tGh+Yp=5&mD<v",
    "TAVILY_API_KEY": "tvly-Rw4Np6Jx9Tc2Fz,tvly-Sd1Gk3Mv5Qb7Hy",
    "BRAVE_API_KEY": "BSAk7Zr2Vw9Lp4Xn6Cq",
    "EXA_API_KEY": "3f9c-Uy6Te1Ro8Pi-5d2a",
    "GROK_API_KEY": "sk-relay-Jh3Bv8Nc6Xz1",
}
USERS = {
    "tavily": "tavuserK9q:tavpassL8w",
    "searxng": "sxuserZ4e:sxpass%2FT7r",
    "grok": "grokuserM2t:grokpassN5y",
    "proxy": "prxuserA6u:prxpassS3i",
    "duckduckgo": "ddguserD8o:ddgpassF1p",
}


def canaries() -> Iterable[str]:
    """Every secret of the configuration below, and every part of one."""
    yield TOKEN
    for keys in KEYS.values():
        yield from keys.split(",")
    for pair in USERS.values():
        yield pair
        yield from pair.replace("%2F", "/").split(":")
        yield pair.replace("%2F", "/")


@cache
def pieces() -> set[bytes]:
    """Every run of eight signs of every secret, in every spelling."""
    forms = [form for form in spellings(canaries()) if len(form) >= 8]
    runs = {form[at : at + 8] for form in forms for at in range(len(form) - 7)}
    return {run.encode() for run in runs} | {run.lower().encode() for run in runs}


def leaked(outputs: dict[str, bytes]) -> dict[str, list[bytes]]:
    """What came out where."""
    found = {
        where: sorted(run for run in pieces() if run in said or run in small)
        for where, said in outputs.items()
        for small in [said.lower()]
    }
    return {where: runs for where, runs in found.items() if runs}


def content(played: Played, brave: str, exa: str, duckduckgo: str) -> dict[str, Any]:
    """Seven providers, each with its own way to fail, and secrets wherever one may stand."""

    def at(name: str, user: str = "", part: str = "") -> str:
        return played.address(part or name).replace("http://", f"http://{user and USERS[user] + '@'}")

    tuning = {"min_interval_ms": 0, "cooldown_max_s": 0, "quota_retry_s": 0}
    proxy = played.url.replace("http://", f"http://{USERS['duckduckgo']}@")
    chain: list[dict[str, Any]] = [
        {"name": "bocha", "base_url": at("bocha")},
        {"name": "tavily", "base_url": at("tavily", "tavily")},
        {"name": "brave", "base_url": brave},
        {"name": "exa", "base_url": exa},
        {"name": "searxng"},
        {"name": "grok"},
        {"name": "duckduckgo", "base_url": duckduckgo}
        # the played vendors stand in for a proxy too
        | ({} if duckduckgo.startswith(played.url) else {"proxy": proxy}),
    ]
    addresses = {
        "SEARXNG_URL": at("searxng", "searxng"),
        "GROK_API_URL": at("grok", "grok", "grok_relay"),
    }
    return {
        "credentials": KEYS | addresses,
        "providers": [each | tuning for each in chain],
        "server": {"port": 0, "tokens": [{"name": "cursor", "token": TOKEN}]},
        "state": {"type": "sqlite"},
    }


ECHOED = [Play(status, echo=True) for status in (200, 400, 401, 402, 403, 422, 429, 500)]


class Heard:
    """A process and everything that it was heard to say."""

    def __init__(self, it: Serving) -> None:
        self.it = it
        self.said: dict[str, bytes] = {}

    def keep(self, what: str, response: Any) -> None:
        head = b"\n".join(name + b": " + value for name, value in response.headers.raw)
        self.said[f"{len(self.said)} {what}"] = head + b"\n\n" + response.content

    async def search(self, what: str, **arguments: Any) -> dict[str, Any]:
        response = await self.it.post(query=f"moss {len(self.said)}", **arguments)
        self.keep(what, response)
        body: dict[str, Any] = response.json()["result"]["structuredContent"]
        return body

    async def ask_all(self, played: Played, trap: Trap, names: Iterable[str]) -> None:
        """Every fault a vendor can show, one provider at a time, rests or not."""
        plays = [*ECHOED, elsewhere(trap.url), elsewhere(trap.url, 308), RESET, GARBAGE]
        for name in names:
            part = "grok_relay" if name == "grok" else name
            for n, play in enumerate(plays):
                played.script(part, play)
                body = await self.search(f"{name} {n}", provider=name, use_cache=False)
                assert body["meta"]["verdict"] in ("failed", "incomplete", "empty"), (name, play)
            played.script(part)


@pytest.fixture
async def playing(anyio_backend: str) -> AsyncIterator[Played]:
    async with Played(tls=True) as played:
        yield played


async def test_no_piece_of_a_secret_comes_out_anywhere(playing: Played, tmp_path: Path) -> None:
    nowhere = ("http://no.such.host.invalid", "http://exa.example", "http://duck.example")
    file = written(tmp_path / "config.json", content(playing, *nowhere))
    environ = {
        "WEBSEARCH_CONFIG": str(file),
        "WEBSEARCH_LOG": "debug",
        "WEBSEARCH_DEBUG": "1",
        "HTTPS_PROXY": f"http://{USERS['proxy']}@127.0.0.1:9",
        "NO_PROXY": "127.0.0.1,.invalid",
    }
    outputs: dict[str, bytes] = {}
    state = tmp_path / "state"
    bearer = {"Authorization": f"Bearer {TOKEN}"}
    async with Trap() as trap, serving(tmp_path, headers=bearer, **environ) as it:
        heard = Heard(it)
        await heard.ask_all(playing, trap, ["bocha", "tavily", "searxng", "grok"])
        chain = {}
        for name in ("brave", "exa", "duckduckgo"):
            body = await heard.search(name, provider=name)
            chain |= {step["provider"]: step.get("detail") for step in body["meta"]["fallback_chain"]}
        assert chain == {"brave": "ENOTFOUND", "exa": "proxy: ECONNREFUSED", "duckduckgo": "http_404"}

        written(file, content(playing, playing.address("brave"), playing.untrusted_url, playing.address("duckduckgo")))
        await it.reload()
        await heard.ask_all(playing, trap, ["brave"])
        body = await heard.search("untrusted", provider="exa")
        assert body["meta"]["fallback_chain"][0]["detail"].startswith("certificate ")

        found = await heard.search("found", provider="bocha")
        assert found["meta"]["verdict"] == "found"
        for tool in ("web_search_status", "web_search_statuss"):
            heard.keep(tool, await it.post(tool))
        message, headers = modern({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
        heard.keep("tools", await it.client.post(f"{it.url}/mcp", json=message, headers=headers))
        heard.keep("bad arguments", await it.post(query="moss", max_results="five"))

        # callers who hold the token wrongly
        doors = f"{it.url}/mcp"
        del it.client.headers["Authorization"]
        for where, how in (
            (f"{doors}?token={TOKEN}", {}),
            (f"{it.url}/t/{TOKEN}/mcp", {}),
            (f"{it.url}/{TOKEN}", {"X-API-Key": TOKEN}),
            (doors, {"Authorization": f"Bearer {TOKEN}x"}),
            (doors, {"Authorization": f"Basic {TOKEN}"}),
            (doors, {"Host": TOKEN, "Origin": f"http://{TOKEN}"}),
        ):
            response = await it.client.post(where, json=call(), headers=how)
            assert response.status_code == 401
            heard.keep(where.replace(TOKEN, "…"), response)
        named = {"Authorization": f"Bearer {TOKEN}", "Origin": f"http://{KEYS['EXA_API_KEY']}.example"}
        response = await it.client.post(doors, json=call(), headers=named)
        assert response.status_code == 403
        heard.keep("a foreign origin", response)

        # a fault of our own: an entry of the cache that is no answer
        it.client.headers |= bearer
        assert (await it.search("once kept"))["meta"]["provider_used"] == "duckduckgo"
        with sqlite3.connect(state / FILE_NAME) as database:
            database.execute(
                "UPDATE kept SET value = ? WHERE room = 'answers'", (b'{"at": 0, "ttl_s": 1e12, "body": 0}',)
            )
        database.close()
        response = await it.post(query="once kept")
        assert (
            response.json()["result"]["structuredContent"]["meta"]["fallback_chain"][0]["outcome"] == "internal_error"
        )
        heard.keep("internal error", response)
        await it.until_logged("internal_error")
        outputs |= {f"running {each.name}": each.read_bytes() for each in state.iterdir()}
        assert await it.end() == 0
        assert (trap.visits, trap.heard) == (0, [])
    outputs |= heard.said | {"stderr": it.stderr, "stdout": it.stdout}
    outputs |= {each.name: each.read_bytes() for each in state.iterdir()}
    for arguments in (["config", "show"], ["config", "check"], ["status"], ["status", "--json"], ["search", "moss"]):
        ended = await command(tmp_path, *arguments, **environ)
        outputs[" ".join(arguments)] = ended.stdout + ended.stderr
    assert it.stderr.count(b"DEBUG gateway.chain: ") > 60
    assert len(outputs) > 80
    assert {f"running {FILE_NAME}{end}" for end in ("", "-wal", "-shm")} <= outputs.keys()
    assert leaked(outputs) == {}
    # the keys did go out, and to the vendors only
    sent = b"".join(each.raw for name in ("bocha", "tavily", "brave") for each in playing.requests(name))
    assert b"tvly-Rw4Np6Jx9Tc2Fz" in sent
    assert leaked({"sent": sent}).keys() == {"sent"}


async def test_a_value_that_no_header_can_hold_is_a_fault_that_names_the_variable_only(tmp_path: Path) -> None:
    value = "Kq7Zw3Xn\x01Vb5Jt9Lr"
    values = dict.fromkeys(("BRAVE_API_KEY", "TAVILY_API_KEY", "GROK_API_KEY", "WEBSEARCH_TOKEN"), value)
    values |= dict.fromkeys(("SEARXNG_URL", "HTTPS_PROXY"), f"http://user:{value}@proxy.example")
    for variable in values:
        errors, _ = check({variable: values[variable]})
        assert [variable in error for error in errors] == [True]
    for arguments in (["config", "check"], ["config", "show"]):
        ended = await command(tmp_path, *arguments, **values)
        said = ended.stdout + ended.stderr
        assert ended.code == 2
        assert [variable for variable in values if variable not in said.decode()] == []
        assert not [part for part in (b"Kq7Zw3Xn", b"Vb5Jt9Lr") if part in said]


async def test_a_key_with_a_line_break_is_two_keys_and_neither_is_shown(played: Played, tmp_path: Path) -> None:
    environ = {"TAVILY_API_KEY": "tvly-Kq7Zw3Xn\r\nX-Evil: 1", "WEBSEARCH_PROVIDERS": "tavily"}
    file = written(tmp_path / "config.json", {"providers": [{"name": "tavily", "base_url": played.address("tavily")}]})
    played.script("tavily", Play(401, echo=True))
    ended = await command(tmp_path, "search", "moss", WEBSEARCH_CONFIG=str(file), WEBSEARCH_LOG="debug", **environ)
    assert ended.code == 3
    assert [each.headers["authorization"] for each in played.requests("tavily")] == [
        "Bearer tvly-Kq7Zw3Xn",
        "Bearer X-Evil: 1",
    ]
    assert not any("x-evil" in each.headers for each in played.requests("tavily"))
    assert not [part for part in (b"Kq7Zw3Xn", b"X-Evil: 1") if part in ended.stdout + ended.stderr]


def test_the_search_for_leaks_finds_one() -> None:
    for canary in canaries():
        if len(canary) >= 8:
            assert leaked({"log": f"x {canary[1:9]} y".encode()} if len(canary) > 8 else {"log": canary.encode()})
    assert leaked({"log": json.dumps(KEYS["BOCHA_API_KEY"]).encode()})
    assert leaked({"log": b"nothing of the kind"}) == {}
