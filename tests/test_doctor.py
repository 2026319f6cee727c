"""The operator's check: what it looks at, what it says to do, what it spends, and how it ends."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import providers
from gateway import doctor
from gateway.config import load
from gateway.doctor import Finding
from gateway.gateway import Gateway
from gateway.steps import Skip
from providers import Outcome
from tests.processes import Ended, command, written
from tests.rooms import EMPTY, HandTime, ask, configured, counted, failing, rest, running, sqlite, tuned
from tests.test_ledger import PLAN, asked_usage, brave, usage
from tests.vendors import RESET, Play, Played, configuration, json_play, success

pytestmark = pytest.mark.anyio


@pytest.fixture
def time(anyio_backend: str) -> HandTime:
    return HandTime()


async def examined(gateway: Gateway) -> list[Finding]:
    return list(doctor.examine(gateway, await gateway.status()))


async def asked_live(gateway: Gateway) -> dict[str, Finding]:
    return {each.what: each async for each in doctor.live(gateway)}


def of(findings: list[Finding], section: str) -> list[tuple[str, str, str]]:
    return [(each.what, each.verdict, each.words) for each in findings if each.section == section]


def about(findings: list[Finding], what: str) -> Finding:
    found = [each for each in findings if each.what == what]
    assert len(found) == 1
    return found[0]


# ---------------------------------------------------------------------------------------------------------------------
# without asking


async def test_it_looks_at_every_part_and_asks_nobody(played: Played, tmp_path: Path) -> None:
    async with running(played, ["tavily", "searxng"], state=sqlite(tmp_path)) as gateway:
        findings = await examined(gateway)
    assert list(dict.fromkeys(each.section for each in findings)) == [
        "configuration",
        "access",
        "state",
        "providers",
        "not in the chain",
    ]
    assert {each.verdict for each in findings if each.section != "not in the chain"} == {"ok"}
    assert [each.what for each in findings if each.section == "providers"] == ["tavily", "searxng"]
    assert played.count() == 0


async def test_a_provider_is_told_with_its_rest_its_budget_its_pace_and_its_last_call(
    played: Played, time: HandTime
) -> None:
    played.script("brave", brave("1, 50"))
    played.script("tavily", failing(429, 42))
    chain = ["tavily", tuned("brave", quota={"limit": 1000}), "searxng"]
    async with running(played, chain, time=time) as gateway:
        await ask(gateway)
        findings = await examined(gateway)
    assert of(findings, "providers") == [
        (
            "tavily",
            "warning",
            "blocked(rate_limited, 42s left); 1 used, monthly:1000@day2; at today's rate (1 a day) the budget lasts "
            "the period; last call failed: throttled: http_429",
        ),
        (
            "brave",
            "ok",
            "active; 1 used, monthly:1000@day15; the vendor says 50 of 2000 left; at today's rate (1 a day) the "
            "vendor's quota lasts the period; last call: ok",
        ),
        ("searxng", "ok", "active; 0 used, unbounded; not asked yet, as far as is remembered"),
    ]
    assert "local_qps" in about(findings, "tavily").advice


async def test_a_last_call_that_failed_is_never_well_even_when_the_rest_is_over(played: Played, time: HandTime) -> None:
    played.script("tavily", failing(500))
    async with running(played, ["tavily"], time=time) as gateway:
        await ask(gateway)
        time.move(60)
        tavily = about(await examined(gateway), "tavily")
        assert doctor.can_answer(await gateway.status())
    assert (tavily.verdict, tavily.words.split("; ")[0]) == ("warning", "active")
    assert "last call failed: the vendor is in trouble: http_500" in tavily.words


async def test_of_several_keys_those_that_are_not_well_are_told_one_by_one(played: Played, time: HandTime) -> None:
    played.script("tavily", failing(401), success("tavily"))
    keys = {"TAVILY_API_KEY": "tvly-one-1111,tvly-two-2222"}
    async with running(played, ["tavily"], keys=keys, time=time) as gateway:
        await ask(gateway)
        findings = await examined(gateway)
    assert about(findings, "tavily").verdict == "ok"
    first = about(findings, "tavily #1")
    assert (first.verdict, first.words) == ("warning", "disabled(auth_failure); 1 used")
    assert first.advice == f"put another key into TAVILY_API_KEY; this one is tried again {doctor.AGAIN}"
    assert [each for each in findings if each.what == "tavily #2"] == []


async def test_a_fault_that_only_the_operator_can_mend_comes_with_its_own_hint(played: Played, time: HandTime) -> None:
    played.script("searxng", json_play({}, 403, headers={"content-type": "text/html"}))
    async with running(played, ["searxng"], time=time) as gateway:
        await ask(gateway)
        advice = about(await examined(gateway), "searxng").advice
        last = await gateway.history.last("searxng")
    assert last is not None
    assert advice == last.get("hint", doctor.MEANING[last["outcome"]][1])


async def test_a_spent_budget_says_what_would_help(played: Played) -> None:
    async with running(played, [tuned("tavily", quota={"limit": 1})]) as gateway:
        await ask(gateway)
        tavily = about(await examined(gateway), "tavily")
        assert not doctor.can_answer(await gateway.status())
    assert tavily.words.startswith("blocked(quota_local); 1 used, monthly:1@day2; the budget is used up until ")
    assert tavily.advice == "raise quota.limit, or wait for the next period"


def at_home(tmp_path: Path, content: dict[str, Any] | None = None, **environ: str) -> Gateway:
    told = {"HOME": str(tmp_path), "WEBSEARCH_STATE": "memory"} | environ
    if content is not None:
        told["WEBSEARCH_CONFIG"] = str(written(tmp_path / "config.json", content))
    return Gateway(load(told))


async def test_those_that_are_one_variable_away_are_told_with_that_variable(tmp_path: Path) -> None:
    async with at_home(tmp_path, BOCHA_API_KEY="sk-bocha-1111", XAI_API_KEY="xai-others-use-me") as gateway:
        findings = await examined(gateway)
    keyless = [
        vendor.name
        for vendor in map(providers.find, providers.names())
        if vendor.credential is None and vendor.joins != "if_listed"
    ]
    assert [each.what for each in findings if each.section == "providers"] == ["bocha", *keyless]
    outside = {each.what: each.advice for each in findings if each.section == "not in the chain"}
    assert {name: outside[name] for name in ("tavily", "searxng", "grok", "zhipu")} == {
        "tavily": "set TAVILY_API_KEY",
        "searxng": "set SEARXNG_URL",
        "grok": "set GROK_API_KEY",
        "zhipu": "set ZHIPU_API_KEY, and add it to providers in the file, beside everybody else who is to be asked",
    }


@pytest.mark.parametrize(
    ("how", "where"),
    [
        ({"WEBSEARCH_PROVIDERS": "bocha"}, "WEBSEARCH_PROVIDERS"),
        ({"content": {"providers": [{"name": "bocha"}]}}, "providers in the file"),
    ],
)
async def test_where_the_operator_wrote_a_list_it_has_to_be_longer(
    tmp_path: Path, how: dict[str, Any], where: str
) -> None:
    async with at_home(tmp_path, BOCHA_API_KEY="sk-bocha-1111", **how) as gateway:
        findings = await examined(gateway)
    assert about(findings, "exa").advice == f"set EXA_API_KEY, and add it to {where}"
    assert about(findings, "duckduckgo").words == "has what it needs"
    assert about(findings, "duckduckgo").advice == f"add it to {where}"


async def test_listed_without_its_key_and_nobody_at_all(tmp_path: Path) -> None:
    async with at_home(tmp_path, {"providers": [{"name": "exa"}]}) as gateway:
        findings = await examined(gateway)
    assert of(findings, "providers") == [
        ("exa", "warning", "in the chain, but EXA_API_KEY is not set"),
        ("chain", "fault", "nobody is in it"),
    ]


async def test_who_may_come_in_is_told_by_name(tmp_path: Path) -> None:
    server = {
        "host": "0.0.0.0",
        "tokens": [
            {"name": "cursor", "token": "token-of-sixteen-1", "daily_limit": 20},
            {"name": "dify", "token": "token-of-sixteen-2"},
        ],
        "allow_query_token": True,
    }
    async with at_home(tmp_path, {"server": server}) as gateway:
        findings = await examined(gateway)
    access = of(findings, "access")
    assert access[0] == ("0.0.0.0:8787", "ok", "with the token of cursor (20 a day), dify")
    assert [verdict for _, verdict, _ in access] == ["ok", "warning"]
    assert "sixteen" not in repr(findings)


async def test_a_state_that_is_not_the_wanted_one_or_cannot_be_written_is_told(played: Played, tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file")
    async with running(played, ["tavily"], state=sqlite(tmp_path / "taken")) as gateway:
        state = of(await examined(gateway), "state")
    assert [(what, verdict) for what, verdict, _ in state] == [("memory", "warning"), ("warning", "warning")]
    assert str(tmp_path / "taken") in state[1][2]
    async with running(played, ["tavily"]) as gateway:
        assert [verdict for _, verdict, _ in of(await examined(gateway), "state")] == ["warning"]


async def test_while_the_state_is_away_it_says_once_why_and_who_is_asked_all_the_same(
    played: Played, tmp_path: Path, unused_tcp_port: int
) -> None:
    away = {"type": "redis", "url": f"redis://:pass-word-1@127.0.0.1:{unused_tcp_port}/0"}
    async with running(played, ["tavily", "searxng"], state=away) as gateway:
        findings = await examined(gateway)
        assert doctor.can_answer(await gateway.status())
    state = of(findings, "state")
    assert [(what, verdict) for what, verdict, _ in state] == [("redis", "fault")]
    assert f"redis://127.0.0.1:{unused_tcp_port}/0 cannot be reached" in state[0][2]
    assert of(findings, "providers") == [
        ("tavily", "warning", "not asked while the state is away"),
        ("searxng", "warning", "asked all the same while the state is away"),
    ]
    assert "pass-word" not in repr(findings)


# ---------------------------------------------------------------------------------------------------------------------
# asking


async def test_it_says_first_what_it_will_spend(played: Played) -> None:
    keys = {"BOCHA_API_KEY": "sk-one-1111,sk-two-2222"}
    async with running(played, ["bocha", "tavily", "brave"], keys=keys) as gateway:
        assert doctor.cost(gateway).words == (
            "asks tavily what is left, which is no search, or one where that is not told; "
            "asks bocha (2 keys), brave one search with each key; these count in their budgets"
        )
    async with running(played, ["bocha"], keys={"BOCHA_API_KEY": ""}) as gateway:
        assert doctor.cost(gateway).words == "nothing: there is nobody to ask"
    assert played.count() == 0


async def test_each_key_is_asked_once_and_every_answer_is_one_sentence(played: Played, time: HandTime) -> None:
    played.script("bocha", json_play({"code": "401", "message": "Invalid API KEY"}, 401), success("bocha", n_rows=8))
    played.script("tavily", usage({"usage": 950, "limit": 1000}, PLAN))
    played.script("brave", failing(429, 42))
    played.script("exa", RESET)
    played.script("searxng", EMPTY["searxng"])
    keys = {"BOCHA_API_KEY": "sk-one-1111,sk-two-2222"}
    async with running(played, ["bocha", "tavily", "brave", "exa", "searxng"], keys=keys, time=time) as gateway:
        found = await asked_live(gateway)
        assert [await counted(gateway, "bocha", number) for number in (1, 2)] == [1, 1]
        assert [await counted(gateway, name) for name in ("tavily", "brave", "exa", "searxng")] == [0, 1, 1, 1]
        assert await rest(gateway, "brave") == ("rate_limited", 42)
        status = await gateway.status()
        assert doctor.can_answer(status, list(found.values()))
    assert played.counts() == {"bocha": 2, "tavily": 1, "brave": 1, "exa": 1, "searxng": 1}
    words = {what: (each.verdict, each.words) for what, each in found.items()}
    verdict, works = words.pop("bocha #2")
    assert verdict == "ok"
    assert works.startswith("works: 8 results in ")
    assert words == {
        "bocha #1": ("fault", "key refused: http_401 Invalid API KEY"),
        "tavily": ("ok", "says 50 of 1000 left"),
        "brave": ("fault", "throttled: http_429"),
        "exa": ("fault", "cannot be reached: ECONNRESET"),
        "searxng": ("warning", "answers, but has nothing on a common question: http_200"),
    }


async def test_where_the_endpoint_does_not_tell_a_search_does(played: Played) -> None:
    played.script("tavily", usage(status=429), failing(401))
    async with running(played, ["tavily"]) as gateway:
        told, searched = [each async for each in doctor.live(gateway)]
        status = await gateway.status()
        assert (await rest(gateway, "tavily") or ("", 0))[0] == "auth_failure"
        assert not doctor.can_answer(status, [told, searched])
    assert (told.verdict, told.words) == ("note", "does not tell what is left: rate_limited http_429")
    assert (searched.verdict, searched.words) == ("fault", "key refused: http_401")
    assert len(asked_usage(played)) == 1
    assert played.count() == 2


async def test_what_the_endpoint_says_is_remembered_and_nothing_left_is_no_answer(played: Played) -> None:
    played.script("tavily", usage({"usage": 1000, "limit": 1000}))
    async with running(played, ["tavily"]) as gateway:
        tavily = (await asked_live(gateway))["tavily"]
        status = await gateway.status()
        assert status["providers"][0]["vendor_remaining"] == 0
        assert not doctor.can_answer(status, [tavily])
    assert (tavily.verdict, tavily.words) == ("warning", "says 0 of 1000 left")


async def test_a_vendor_that_repeats_the_key_does_not_get_it_shown(played: Played) -> None:
    for name in ("bocha", "tavily"):
        played.script(name, Play(500, echo=True))
    async with running(played, ["bocha", "tavily"]) as gateway:
        found = await asked_live(gateway)
        last = await gateway.history.last("bocha")
    assert last is not None
    assert last["message"] in found["bocha"].words
    assert "played-" not in repr(found)


async def test_who_works_but_rests_will_not_be_asked_and_it_says_so(played: Played, time: HandTime) -> None:
    played.script("bocha", failing(401), success("bocha"))
    async with running(played, ["bocha"], time=time) as gateway:
        await ask(gateway)
        bocha = (await asked_live(gateway))["bocha"]
        assert not doctor.can_answer(await gateway.status(), [bocha])
    assert bocha.verdict == "warning"
    assert bocha.words.endswith("but it rests: auth_failure, 86400 s left")
    assert bocha.advice == f"it is tried again {doctor.AGAIN}"


async def test_a_budget_that_is_used_up_holds_here_too(played: Played) -> None:
    async with running(played, [tuned("bocha", quota={"limit": 0})]) as gateway:
        bocha = (await asked_live(gateway))["bocha"]
    assert (bocha.verdict, bocha.words) == ("fault", "our own budget is used up: 0/0")
    assert played.count() == 0


def test_every_class_and_every_skip_of_one_who_is_asked_alone_has_words() -> None:
    assert set(doctor.MEANING) == {*Outcome, *Skip} - {
        Skip.PROBING,
        Skip.LANGUAGE,
    }  # who is asked by name has no trial, and is asked in any language
    assert all(advice for meaning, advice in doctor.MEANING.values() if meaning != "works")


# ---------------------------------------------------------------------------------------------------------------------
# the command


async def run(played: Played, home: Path, *arguments: str, chain: Any = ("bocha", "tavily"), **sections: Any) -> Ended:
    content = configuration(played, [tuned(each) for each in chain], **sections)
    content["state"] = {"type": "sqlite"}
    file = written(home / "config.json", content)
    return await command(home, "doctor", *arguments, WEBSEARCH_CONFIG=str(file))


async def test_the_command_ends_with_0_when_somebody_can_answer(played: Played, tmp_path: Path) -> None:
    told = await run(played, tmp_path)
    assert (told.code, told.err) == (0, "")
    assert "\nproviders\n  ok       bocha          active; 0 used, monthly:1000@day1" in told.out
    assert told.out.endswith("\nsearches can be answered\n")
    assert played.count() == 0


async def test_live_as_json_tells_its_cost_on_the_side_and_no_secret_anywhere(played: Played, tmp_path: Path) -> None:
    played.script("bocha", failing(500))
    played.script("tavily", usage({"usage": 950, "limit": 1000}, PLAN))
    told = await run(played, tmp_path, "--live", "--json")
    assert told.code == 0
    assert told.json["can_answer"] is True
    assert told.err.startswith(
        "live: asks tavily what is left, which is no search, or one where that is not told; asks bocha one search"
    )
    live = [each for each in told.json["findings"] if each["section"] == "live"]
    assert [(each["what"], each["verdict"]) for each in live] == [
        ("cost", "note"),
        ("bocha", "fault"),
        ("tavily", "ok"),
    ]
    assert "played-" not in told.out + told.err


async def test_it_ends_with_3_when_nobody_can_answer_and_for_people_the_cost_comes_first(
    played: Played, tmp_path: Path
) -> None:
    played.script("bocha", failing(500))
    told = await run(played, tmp_path, "--live", chain=["bocha"])
    assert told.code == 3
    assert told.out.index("asks bocha one search with each key") < told.out.index("the vendor is in trouble: http_500")
    assert told.out.endswith("\nnobody can answer a search now\n")


@pytest.mark.parametrize("fault", [{"providers": [{"name": "tavilly"}]}, {"server": {"port": "high"}}])
async def test_a_faulty_configuration_is_2_and_nobody_is_asked(
    played: Played, tmp_path: Path, fault: dict[str, Any]
) -> None:
    file = written(tmp_path / "config.json", fault)
    told = await command(tmp_path, "doctor", "--live", "--json", WEBSEARCH_CONFIG=str(file))
    assert (told.code, told.json["can_answer"]) == (2, False)
    faults = [each for each in told.json["findings"] if each["what"] == "error"]
    assert len(faults) == 1
    assert faults[0]["verdict"] == "fault"
    assert "live" not in {each["section"] for each in told.json["findings"]}


def test_what_must_not_be_served_is_a_fault(played: Played) -> None:
    open_door = configured(played, ["tavily"], server={"host": "0.0.0.0"})
    assert doctor.is_faulty(open_door)
    assert not doctor.is_faulty(configured(played, ["tavily"]))
