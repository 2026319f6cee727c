"""What web_search_status says in every state a provider, the store and the configuration can be in."""

from __future__ import annotations

import json
import re
import sqlite3
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from gateway import __version__
from gateway.config import Config, load
from gateway.gateway import Gateway
from gateway.status import STATUS_SCHEMA
from gateway.stores import StoreUnavailable
from gateway.stores.sqlite import FILE_NAME
from tests.processes import command, written
from tests.rooms import HandTime, ask, failing, running, sqlite, tuned
from tests.vendors import RESET, Play, Played, configuration, json_play, success

pytestmark = pytest.mark.anyio

UNTOLD = {
    "vendor_remaining": None,
    "vendor_limit": None,
    "vendor_resets_at": None,
    "vendor_as_of": None,
    "vendor_source": None,
}
"""What the status says of a vendor who said nothing of what is left."""

VALID = jsonschema.Draft202012Validator(STATUS_SCHEMA)


@pytest.fixture
def time(anyio_backend: str) -> HandTime:
    return HandTime()


async def reported(gateway: Gateway) -> dict[str, Any]:
    """The status, which always fits its schema and can be sent."""
    status = await gateway.status()
    VALID.validate(status)
    assert json.loads(json.dumps(status)) == status
    return status


async def line(gateway: Gateway, name: str) -> dict[str, Any]:
    """What the status says of one provider."""
    lines = [each for each in (await reported(gateway))["providers"] if each["name"] == name]
    assert len(lines) == 1
    found: dict[str, Any] = lines[0]
    return found


# ---------------------------------------------------------------------------------------------------------------------
# states


async def test_the_example_of_the_contract(played: Played, time: HandTime) -> None:
    played.script("bocha", json_play({"code": "403", "message": "You do not have enough money"}, 403))
    async with running(played, [tuned("bocha", quota={"type": "monthly", "limit": 1000}), "brave"], time=time) as it:
        await ask(it)
        bocha = await line(it, "bocha")
    assert bocha == {
        "name": "bocha",
        "in_chain": True,
        "credential_env": "BOCHA_API_KEY",
        "state": "blocked(quota_exhausted, 21600s left)",
        "used_requests": 1,
        "quota_profile": "monthly:1000@day1",
        **UNTOLD,
        "gated_by": "local",
        "lasts_until": None,
        "pace": "at today's rate (1 a day) the budget lasts the period",
        "consecutive_failures": 1,
        "last_outcome": "quota_exhausted",
        "last_error": {
            "outcome": "quota_exhausted",
            "detail": "http_403 You do not have enough money",
            "message": "You do not have enough money",
            "at": int(time.now),
        },
    }


async def test_before_the_first_search_everything_is_known_or_null(played: Played) -> None:
    async with running(played, ["tavily"]) as gateway:
        status = await reported(gateway)
    tavily = status["providers"][0]
    assert (tavily["name"], tavily["state"], tavily["used_requests"]) == ("tavily", "active", 0)
    assert (tavily["last_outcome"], tavily["last_error"], tavily["consecutive_failures"]) == (None, None, 0)
    others = {each["name"]: each for each in status["providers"][1:]}
    assert {"bocha", "brave", "exa", "searxng"} <= set(others)
    assert others["exa"] == {
        "name": "exa",
        "in_chain": False,
        "credential_env": "EXA_API_KEY",
        "state": "unconfigured",
        "used_requests": None,
        "quota_profile": others["exa"]["quota_profile"],
        **UNTOLD,
        "gated_by": None,
        "lasts_until": None,
        "pace": None,
        "consecutive_failures": 0,
        "last_outcome": None,
        "last_error": None,
    }
    assert others["searxng"]["credential_env"] == "SEARXNG_URL"
    assert others["duckduckgo"]["state"] == "disabled"
    assert others["duckduckgo"]["credential_env"] is None
    assert status["version"] == __version__
    assert status["state"] == {"type": "memory", "persistent": False, "error": None}
    assert status["cache"] == {"entries": 0, "hits": 0, "misses": 0}
    assert status["config"]["error"] is None
    assert (status["network"], status["clients"]) == ({"proxy": None}, [{"name": "default", "searches_today": 0}])


async def test_providers_come_in_the_order_of_the_chain_and_then_the_rest(played: Played) -> None:
    async with running(played, ["exa", "bocha"]) as gateway:
        status = await reported(gateway)
    assert [each["name"] for each in status["providers"]][:2] == ["exa", "bocha"]
    assert [each["in_chain"] for each in status["providers"]] == [True, True] + [False] * (len(status["providers"]) - 2)


async def test_listed_without_a_key_is_unconfigured(played: Played) -> None:
    async with running(played, ["exa"], keys={"EXA_API_KEY": ""}) as gateway:
        exa = await line(gateway, "exa")
    assert (exa["state"], exa["in_chain"]) == ("unconfigured", True)


async def test_with_a_key_but_not_in_the_chain_is_disabled(played: Played) -> None:
    async with running(played, ["tavily", tuned("brave", enabled=False)]) as gateway:
        brave = await line(gateway, "brave")
    assert (brave["state"], brave["in_chain"], brave["used_requests"]) == ("disabled", False, 0)


@pytest.mark.parametrize(
    ("play", "state"),
    [
        (failing(401), "disabled(auth_failure)"),
        (failing(429, 42), "blocked(rate_limited, 42s left)"),
        (failing(429, "0.2"), "blocked(rate_limited, 1s left)"),
        (failing(429), "blocked(rate_limited, 60s left)"),
        (failing(432), "blocked(quota_exhausted, 21600s left)"),
        (failing(500), "blocked(server_error, 60s left)"),
        (failing(504), "blocked(timeout, 30s left)"),
        (RESET, "blocked(network, 30s left)"),
        (failing(400), "active"),
        (json_play({"query": "moss", "results": [], "response_time": 0.1}), "active"),
        (success("tavily"), "active"),
    ],
)
async def test_after_a_reply_like_this_the_state_is(played: Played, time: HandTime, play: Play, state: str) -> None:
    played.script("tavily", play)
    async with running(played, ["tavily"], time=time) as gateway:
        await ask(gateway)
        told = await line(gateway, "tavily")
    assert told["state"] == state
    assert told["used_requests"] == 1
    failed = told["last_outcome"] not in ("ok", "no_results")
    assert (told["last_error"] is not None) == failed
    assert told["consecutive_failures"] == (1 if state != "active" else 0)


async def test_seconds_left_count_down_and_end(played: Played, time: HandTime) -> None:
    played.script("tavily", failing(429))
    async with running(played, ["tavily"], time=time) as gateway:
        await ask(gateway)
        time.move(59.5)
        assert (await line(gateway, "tavily"))["state"] == "blocked(rate_limited, 1s left)"
        time.move(0.5)
        over = await line(gateway, "tavily")
    # it may be asked again, and is still not shown as if all were well
    assert (over["state"], over["last_outcome"], over["consecutive_failures"]) == ("active", "rate_limited", 1)
    assert over["last_error"]["detail"] == "http_429"


async def test_a_success_clears_the_last_error(played: Played, time: HandTime) -> None:
    played.script("tavily", failing(500), success("tavily"))
    async with running(played, ["tavily"], time=time) as gateway:
        await ask(gateway)
        time.move(60)
        await ask(gateway)
        tavily = await line(gateway, "tavily")
    assert (tavily["last_outcome"], tavily["last_error"], tavily["consecutive_failures"]) == ("ok", None, 0)


async def test_a_spent_budget_is_blocked_and_at_ninety_percent_there_is_a_warning(played: Played) -> None:
    async with running(played, [tuned("tavily", quota={"limit": 10})]) as gateway:
        for n in range(8):
            await ask(gateway, f"moss {n}")
        assert "warning" not in await line(gateway, "tavily")
        await ask(gateway, "moss 8")
        nearly = await line(gateway, "tavily")
        assert (nearly["state"], nearly["warning"]) == ("active", "9 of 10 requests of this period are used")
        await ask(gateway, "moss 9")
        spent = await line(gateway, "tavily")
    assert (spent["state"], spent["used_requests"]) == ("blocked(quota_local)", 10)
    assert spent["quota_profile"] == "monthly:10@day2"


async def test_a_spent_budget_is_free_in_the_next_period(played: Played, time: HandTime) -> None:
    async with running(played, [tuned("tavily", quota={"type": "daily", "limit": 1})], time=time) as gateway:
        await ask(gateway)
        assert (await line(gateway, "tavily"))["state"] == "blocked(quota_local)"
        time.move(12 * 3600)
        fresh = await line(gateway, "tavily")
    assert (fresh["state"], fresh["used_requests"], fresh["quota_profile"]) == ("active", 0, "daily:1")


async def test_several_keys_are_told_one_by_one_and_the_provider_is_as_well_as_its_best(
    played: Played, time: HandTime
) -> None:
    played.script("tavily", failing(401), failing(429, 42), success("tavily"))
    keys = {"TAVILY_API_KEY": "tvly-one-1111,tvly-two-2222,tvly-three-3333"}
    async with running(played, ["tavily"], keys=keys, time=time) as gateway:
        await ask(gateway)
        tavily = await line(gateway, "tavily")
        quota = {**UNTOLD, "gated_by": "local"}
        assert tavily["keys"] == [
            {"key": "#1", "state": "disabled(auth_failure)", "used_requests": 1, **quota},
            {"key": "#2", "state": "blocked(rate_limited, 42s left)", "used_requests": 1, **quota},
            {"key": "#3", "state": "active", "used_requests": 1, **quota},
        ]
        assert (tavily["state"], tavily["used_requests"]) == ("active", 3)
        played.script("tavily", failing(432))
        await ask(gateway, "fern")
        assert (await line(gateway, "tavily"))["state"] == "blocked(rate_limited, 42s left)"
        assert "1111" not in json.dumps(await reported(gateway))


async def test_a_fault_only_the_operator_can_mend_comes_with_its_hint(played: Played, time: HandTime) -> None:
    played.script("searxng", Play(403, {"content-type": "text/html"}, b"<!doctype html><title>403 Forbidden</title>"))
    async with running(played, ["searxng"], time=time) as gateway:
        await ask(gateway)
        searxng = await line(gateway, "searxng")
    assert searxng["state"] == "blocked(request_error, 300s left)"
    assert "json" in searxng["last_error"]["hint"]


# ---------------------------------------------------------------------------------------------------------------------
# configuration, network, store


async def test_a_faulty_configuration_is_told_whole(tmp_path: Path) -> None:
    faulty = {"providers": [{"name": "brave", "quota": {"limt": 1}}, {"name": "tavilly"}], "state": {"type": "memory"}}
    file = tmp_path / "config.json"
    file.write_text(json.dumps(faulty))
    async with Gateway(load({"WEBSEARCH_CONFIG": str(file), "TAVILY_API_KEY": "tvly-1"})) as gateway:
        status = await reported(gateway)
    assert status["config"]["source"] == str(file)
    assert len(status["config"]["error"].split("\n")) == 2
    assert "did you mean 'tavily'?" in status["config"]["error"]


async def test_a_proxy_is_shown_without_user_and_password() -> None:
    config = load({"HTTPS_PROXY": "http://user:pass-word-1@proxy.example:3128", "WEBSEARCH_STATE": "memory"})
    async with Gateway(config) as gateway:
        status = await reported(gateway)
    assert status["network"] == {"proxy": "http://proxy.example:3128"}


async def test_a_state_file_is_persistent_and_survives_a_restart(played: Played, tmp_path: Path) -> None:
    for round_ in (1, 2):
        async with running(played, ["tavily"], state=sqlite(tmp_path)) as gateway:
            await ask(gateway, f"moss {round_}")
            status = await reported(gateway)
        assert status["state"] == {"type": "sqlite", "persistent": True, "error": None}
        assert status["providers"][0]["used_requests"] == round_


async def test_a_folder_that_cannot_be_used_is_told_and_memory_stands_in(played: Played, tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file")
    async with running(played, ["tavily"], state=sqlite(tmp_path / "taken")) as gateway:
        await ask(gateway)
        status = await reported(gateway)
    assert status["state"] == {"type": "memory", "persistent": False, "error": None}
    assert any(str(tmp_path / "taken") in each for each in status["config"]["warnings"])


async def test_a_failing_store_makes_unknown_what_it_knew_and_the_status_recovers(
    played: Played, tmp_path: Path
) -> None:
    async with running(played, ["tavily", "duckduckgo"], state=sqlite(tmp_path)) as gateway:
        await ask(gateway)
        working = gateway.store.counted

        async def broken(keys: Any) -> dict[str, int]:
            raise StoreUnavailable("state.sqlite3 is locked by another process")

        gateway.store.counted = broken  # type: ignore[method-assign]
        status = await reported(gateway)
        assert status["state"]["error"] == "state.sqlite3 is locked by another process"
        told = {each["name"]: each for each in status["providers"]}
        assert (told["tavily"]["state"], told["tavily"]["used_requests"]) == (None, None)
        assert told["exa"]["state"] == "unconfigured"
        assert (status["cache"]["entries"], status["clients"]) == (None, [{"name": "default", "searches_today": None}])
        gateway.store.counted = working  # type: ignore[method-assign]
        assert (await reported(gateway))["state"]["error"] is None


async def test_the_status_costs_no_request(played: Played) -> None:
    async with running(played, ["tavily", "searxng", "duckduckgo"]) as gateway:
        await reported(gateway)
    assert played.count() == 0


async def test_uptime_is_whole_seconds(played: Played, time: HandTime) -> None:
    async with running(played, ["tavily"], time=time) as gateway:
        time.move(42.9)
        assert (await reported(gateway))["uptime_s"] == 42


async def test_a_configuration_without_anything_has_a_status_too() -> None:
    async with Gateway(Config()) as gateway:
        status = await reported(gateway)
    assert status["providers"] == []


async def test_a_store_that_can_be_read_but_not_written_is_told(played: Played, tmp_path: Path) -> None:
    async with running(played, ["tavily"], state=sqlite(tmp_path)) as gateway:
        other = sqlite3.connect(tmp_path / FILE_NAME, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        told = await gateway.status()
        other.execute("ROLLBACK")
        other.close()
        assert "is locked by another process" in told["state"]["error"]
        assert told["providers"][0]["state"] == "active"
        assert (await gateway.status())["state"]["error"] is None


async def test_for_people_it_says_what_the_vendor_has_left_and_how_long_it_lasts(
    played: Played, tmp_path: Path
) -> None:
    headers = {
        "x-ratelimit-limit": "1, 2000",
        "x-ratelimit-policy": "1;w=1, 2000;w=2592000",
        "x-ratelimit-remaining": "1, 3",
        "x-ratelimit-reset": "1, 2592000",
    }
    rows = [{"title": "Moss", "url": "https://moss.example/"}]
    played.script("brave", json_play({"type": "search", "web": {"results": rows}}, headers=headers))
    content = configuration(played, ["brave"], state={"type": "sqlite"})
    file = str(written(tmp_path / "config.json", content))
    assert (await command(tmp_path, "search", "moss", WEBSEARCH_CONFIG=file)).code == 0
    people = (await command(tmp_path, "status", WEBSEARCH_CONFIG=file)).out
    assert re.search(r"^brave +active +1 used, .*; the vendor says 3 of 2000 left, as of 2\d{3}-", people, re.M)
    assert re.search(r"^ +at today's rate \(1 a day\) the vendor's quota lasts until 2\d{3}-", people, re.M)


@pytest.mark.parametrize(
    "foreign",
    [b"no JSON", b"[]", b"null", b"\xff", b'{"outcome": 5}', b'{"remaining": "many", "as_of": 1}', b'{"remaining": 1}'],
)
async def test_what_another_program_kept_in_the_place_of_ours_is_as_if_nothing_were_there(
    played: Played, foreign: bytes
) -> None:
    async with running(played, ["tavily"]) as gateway:
        (lane,) = gateway.current.candidates[0].lanes
        await gateway.store.keep("outcome", "tavily", foreign, 60)
        await gateway.store.keep("ledger", lane.narrow, foreign, 60)
        told = await line(gateway, "tavily")
        assert (told["state"], told["last_outcome"], told["vendor_remaining"]) == ("active", None, None)
        assert not (await ask(gateway)).is_error
