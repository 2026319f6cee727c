"""Providers that the operator's file declares: what is wrong with a table, and what a good one does at the gateway."""

from __future__ import annotations

import json
import pickle
import re
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

import providers
from gateway.config import Config, load, show
from gateway.doors.mcp import describe
from gateway.gateway import Gateway
from gateway.keys import candidate
from providers import Draft, Outcome, Query
from providers._declared import _tables as tables
from providers._declared import declare
from providers._declared._templates import NAMES
from providers._sections import Findings, Section
from tests.configured import Home, chain, provider
from tests.markdown import Page, spans
from tests.processes import command, written
from tests.rooms import NOON, HandTime, ask, came_to, told, used
from tests.test_declared import ANYTHING
from tests.vendors import Played, Trap, elsewhere, json_play

CONFIGURATION = Page("docs/configuration.md")
KEY = "canary-key-5fb1e0"

TABLE: dict[str, Any] = {
    "url": "https://search.corp.example/api/query",
    "credential": "INTRANET_API_KEY",
    "headers": {"Authorization": "Bearer {key}"},
    "params": {"q": "{query}", "n": "{max_results}"},
    "rows": "hits",
    "fields": {"title": "title", "url": "url"},
    "errors": [{"status": 403, "code": "USED_UP", "outcome": "quota_exhausted"}],
}


def entry(name: str = "intranet", /, **members: Any) -> dict[str, Any]:
    """An entry that declares `name` by `TABLE` with these members instead; None takes one away."""
    return {"name": name, "generic_json": TABLE | members}


def nested(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {"q": "{query}"}
    for _ in range(levels):
        value = {"a": value}
    return value


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def complaints(home: Home, *entries: Any, **environ: str) -> tuple[str, ...]:
    return home.load({"providers": list(entries)}, **environ).errors


# ---------------------------------------------------------------------------------------------------------------------
# what is wrong with a table


@pytest.mark.parametrize(
    ("members", "complaint"),
    [
        ({"url": None}, "url: is missing"),
        ({"rows": None}, "rows: is missing"),
        ({"fields": None}, "fields: is missing"),
        ({"fields": {"title": "t"}}, "fields.url: is missing"),
        ({"fields": {"url": "u", "titel": "t"}}, "fields.titel: no such setting; did you mean 'title'?"),
        ({"rosw": "hits"}, "rosw: no such setting; did you mean 'rows'?"),
        ({"url": "search.corp.example/api"}, "url: must be an address with its path"),
        ({"url": "ftp://corp.example/"}, "url: must be an address with its path"),
        ({"url": "https://{query}.example/"}, "url: must be an address with its path"),
        ({"url": 7}, "url: must be text, not 7"),
        ({"url": "https://user:secret@corp.example/"}, "url: must have no user and no password"),
        ({"url": "https://corp.example/?q=1"}, "url: must end with its path"),
        ({"url": "https://corp.example/{key}"}, "url: must not hold the key"),
        ({"url": "https://corp.example/{qeury}"}, "url: no placeholder is called {qeury}; did you mean 'query'?"),
        ({"method": "PUT"}, "method: must be one of 'GET', 'POST'"),
        ({"rows": ""}, "rows: must be at most 16 names joined by dots"),
        ({"rows": []}, "rows: must be a path such as data.items, or a list of paths"),
        ({"credential": "intranet key"}, "credential: must be the name of a variable"),
        ({"credential": "WEBSEARCH_TOKEN"}, "credential: must be the name of a variable"),
        ({"credential": "INTRANET_KEY_FILE"}, "credential: must be the name of a variable"),
        ({"credential": "SEARXNG_URL"}, "credential: names a variable that holds an address"),
        ({"credential": None}, "credential: is missing: {key} stands in the request"),
        ({"headers": {}}, "credential: is not used: {key} stands nowhere"),
        ({"headers": {"Host": "{key}"}}, "headers.Host: is set by the gateway"),
        ({"headers": {"X Key": "{key}"}}, "headers.<name 1>: is no name of a header"),
        ({"headers": {"X-Key": "{key}é"}}, "headers.X-Key: must be printable ASCII"),
        ({"headers": {"X-Key": "{key}", "X-Query": "{query}"}}, "headers.X-Query: cannot hold the query"),
        ({"headers": {"X-Key": ["{key}"]}}, "headers.X-Key: must be text"),
        ({"headers": "{key}"}, "headers: must be an object, not text"),
        ({"params": {"n": 1}}, "never sends the query"),
        ({"params": {"q": "{query}", "x": {}}}, "params.x: must be text, a number, true or false, or a list of them"),
        ({"params": {"q": "{query} {"}}, "params.q: holds a brace that belongs to no placeholder"),
        ({"params": {"q": "{}{query}"}}, "params.q: no placeholder is called what is written there"),
        ({"params": {"q": "{query}", "t": "{after}"}}, "params.t: no placeholder is called {after}"),
        ({"params": {"q": "{query}", "t": "{after:}"}}, "params.t: {after:…} needs the form of a date"),
        ({"params": {"q": "{query}", "t": "{after:%Q}"}}, "params.t: {after:…} needs the form of a date"),
        ({"params": {"q": "{query}", "t": "{freshness}"}}, "freshness: is missing"),
        ({"body": {"q": "{query}"}}, "body: is not sent with GET"),
        ({"method": "POST", "body": "{query}"}, "body: must be an object"),
        ({"method": "POST", "body": {"a": [1e999]}}, "body.a[0]: is a number that JSON does not have"),
        ({"method": "POST", "body": {"a": "\ud800"}}, "body.a: holds signs that are no text"),
        ({"method": "POST", "body": nested(40)}, f"body{'.a' * 33}: has more than 32 levels"),
        (
            {"method": "POST", "body": {"a": ["{include_domains}{exclude_domains}"]}},
            "body.a[0]: names two lists",
        ),
        ({"freshness": {"day": "d"}}, "freshness: needs a word for each of day, week, month, year"),
        ({"freshness": {"day": "d", "week": "w", "month": "m", "year": "y"}}, "freshness: is not used"),
        ({"freshness": {"dya": "d"}}, "freshness.dya: no such setting; did you mean 'day'?"),
        ({"domains": "all"}, "domains: must be a whole number of hosts, or 'many'"),
        ({"domains": -1}, "domains: must be a whole number from 0"),
        ({"domains": 3}, "domains: is not kept"),
        ({"domain_lists": "none"}, "domain_lists: must be one of 'both', 'one'"),
        ({"operators": "yes"}, "operators: must be true or false, not text"),
        ({"max_rows": 0}, "max_rows: must be a whole number from 1"),
        ({"max_query": 8}, "max_query: must be a whole number from 32"),
        ({"options": {"Space!": {}}}, "options.<name 1>: must be called with small letters"),
        ({"options": {"space": {}}}, "options.space: is not used: {options.space} stands nowhere"),
        ({"options": {"space": {"chioces": ["a"]}}}, "options.space.chioces: no such setting; did you mean 'choices'?"),
        (
            {"options": {"space": {"default": "b", "choices": ["a"]}}},
            "options.space.default: must be one of the choices",
        ),
        ({"errors": {}}, "errors: must be a list of objects"),
        ({"errors": [{"status": 429}]}, "errors[0].outcome: is missing"),
        (
            {"errors": [{"status": 429, "outcome": "rate_limitd"}]},
            "errors[0].outcome: must be one of 'rate_limited', 'quota_exhausted', 'auth_failure', 'timeout', "
            "'network', 'server_error', 'request_error', 'no_results'; did you mean 'rate_limited'?",
        ),
        ({"errors": [{"status": 200, "outcome": "no_results"}]}, "errors[0]: needs a code or a phrase"),
        ({"errors": [{"outcome": "no_results"}]}, "errors[0]: needs a code or a phrase"),
        (
            {"errors": [{"status": 99, "outcome": "timeout"}]},
            "errors[0].status: must be a whole number from 100 to 599",
        ),
        ({"errors": [{"code": 1.5, "outcome": "timeout"}]}, "errors[0].code: must be text or a whole number"),
        ({"errors": [{"code": 1, "outcome": "timeout", "setup": True}]}, "errors[0].hint: must say how the operator"),
        ({"errors": [{"code": 1, "outcome": "timeout", "hint": "h"}]}, "errors[0].hint: must say how the operator"),
        ({"title": "x" * 61}, "title: must be one line of at most 60 characters"),
    ],
)
def test_a_mistake_in_a_table_is_told_with_its_place(home: Home, members: dict[str, Any], complaint: str) -> None:
    found = complaints(home, entry(**members))
    assert any(each.startswith(f"providers[intranet].generic_json.{complaint}") for each in found) or any(
        each.startswith(f"providers[intranet].generic_json: {complaint}") for each in found
    ), found


def test_all_mistakes_are_found_at_once(home: Home) -> None:
    table = {"url": "corp", "rows": 3, "fields": {"ulr": "u"}, "errors": [{"status": "429"}], "x": 1, "method": "get"}
    found = complaints(home, {"name": "intranet", "generic_json": table, "qouta": {}}, {"name": "brvae"})
    places = [each.partition(": ")[0].removeprefix("providers[intranet].") for each in found]
    assert set(places) == {
        "generic_json.url",
        "generic_json.rows",
        "generic_json.fields.url",
        "generic_json.fields.ulr",
        "generic_json.errors[0].status",
        "generic_json.errors[0].outcome",
        "generic_json.errors[0]",
        "generic_json.x",
        "generic_json.method",
        "generic_json",
        "qouta",
        "providers[1].name",
    }


def test_a_member_that_stands_there_twice_is_told(home: Home) -> None:
    text = json.dumps({"providers": [entry(method="POST", body={"a": {"b": 1}})]})
    home.write(text.replace('"b": 1', '"b": 1, "b": 2').replace('"rows"', '"method": "GET", "rows"'))
    words = "stands there more than once"
    assert {f"providers[intranet].generic_json.{place}: {words}" for place in ("method", "body.a.b")} <= set(
        home.load().errors
    )


def test_nothing_of_a_secret_stands_in_a_complaint(home: Home) -> None:
    secret = "sk-0123456789abcdef"
    for members in (
        {"url": f"https://{secret}:{secret}@corp.example/"},
        {"credential": secret},
        {"headers": {secret: secret}},
        {"headers": {"Authorization": f"{secret} {{"}},
        {"params": {"q": f"{{query}} {{{secret}}}", secret: {}}},
        {"method": secret, secret: secret},
        {"fields": {"url": "u", secret: secret}},
        {"errors": [{secret: secret, "outcome": secret, "code": [secret]}]},
        {"options": {secret: secret}, "freshness": {secret: 1}, "domains": secret},
        {"method": "POST", "body": {secret: {f"{secret}{{": [f"{{{secret}}}"]}}},
    ):
        config = home.load({"providers": [entry(**members)]})
        assert config.errors
        assert secret not in "\n".join([*config.errors, *config.warnings])


@pytest.mark.parametrize("name", ["Intranet", "in tranet", "-intranet", "x" * 33, "intranet.corp"])
def test_the_name_of_a_declared_provider_is_short_and_plain(home: Home, name: str) -> None:
    assert complaints(home, entry(name)) == ("providers[0].name: must be small letters, digits, - and _, at most 32",)


def test_the_name_of_a_declared_provider_is_not_taken(home: Home) -> None:
    words = "is for a provider of your own, and this one is built in; rename it"
    assert complaints(home, entry("brave")) == (f"providers[brave].generic_json: {words}",)
    assert complaints(home, entry("perplexity")) == (f"providers[perplexity].generic_json: {words}",)
    assert complaints(home, entry("gateway")) == ("providers[0].name: means something else",)
    assert complaints(home, entry(), entry()) == ("providers[intranet]: is listed more than once",)
    assert complaints(home, {"generic_json": TABLE}) == ("providers[0].name: is missing",)


def test_a_declared_provider_is_meant_where_its_name_is_misspelt(home: Home) -> None:
    found = complaints(home, entry(), {"name": "intrnet"})
    assert found[0].startswith("providers[1].name: no provider is called 'intrnet'; did you mean 'intranet'? ")
    found = complaints(home, entry(), WEBSEARCH_PROVIDERS="inranet")
    assert found[0].startswith("WEBSEARCH_PROVIDERS: no provider is called 'inranet'; did you mean 'intranet'? ")
    assert "did you mean 'generic_json'?" in complaints(home, {"name": "brave", "generic_jsn": TABLE})[0]


# ---------------------------------------------------------------------------------------------------------------------
# a good one


def declared(home: Home, **environ: str) -> Config:
    content = {
        "credentials": {"INTRANET_API_KEY": KEY},
        "providers": [
            {"name": "brave"},
            entry() | {"quota": {"type": "daily", "limit": 5}, "min_interval_ms": 250, "timeout_ms": 700},
        ],
    }
    config = home.load(content, **environ)
    assert config.errors == ()
    return config


def test_an_entrys_settings_hold_for_a_declared_provider(home: Home) -> None:
    settings = provider(declared(home), "intranet")
    assert (settings.keys, settings.credential_env) == ((KEY,), "INTRANET_API_KEY")
    assert (settings.budget.type, settings.budget.limit) == ("daily", 5)
    assert (settings.interval_ms, settings.timeout_ms) == (250, 700)


def test_a_table_without_a_credential_needs_none(home: Home) -> None:
    config = home.load({"providers": [entry(credential=None, headers={})]})
    assert (config.errors, chain(config)) == ((), ["intranet"])


def test_its_key_comes_from_the_environment_or_a_file_as_every_key_does(home: Home, tmp_path: Path) -> None:
    assert provider(declared(home, INTRANET_API_KEY="from-outside-1"), "intranet").keys == ("from-outside-1",)
    file = tmp_path / "key"
    file.write_text("from-a-file-1\n", encoding="utf-8")
    file.chmod(0o600)
    config = home.load({"providers": [entry()]}, INTRANET_API_KEY_FILE=str(file))
    assert (provider(config, "intranet").keys, config.secrets) == (("from-a-file-1",), ("from-a-file-1",))
    config = home.load({"providers": [entry()]}, INTRANET_API_KEY="one-key-1,two-key-2", INTRANET_API_KEY2="x")
    assert provider(config, "intranet").keys == ("one-key-1", "two-key-2")
    assert config.warnings == ("INTRANET_API_KEY2: is not read; several go into INTRANET_API_KEY, separated by commas",)


def test_a_declared_provider_is_listed_by_the_variable(home: Home) -> None:
    config = declared(home, WEBSEARCH_PROVIDERS="intranet,duckduckgo")
    assert chain(config) == ["intranet", "duckduckgo"]
    assert chain(home.load({"providers": [entry() | {"enabled": False}]}, INTRANET_API_KEY=KEY)) == []


def test_the_configuration_shows_it_and_not_its_key(home: Home) -> None:
    shown = show(declared(home))
    assert shown["credentials"]["INTRANET_API_KEY"] == {"value": "set", "from": "file"}
    assert shown["providers"]["intranet"]["quota.limit"] == {"value": 5, "from": "file"}
    assert KEY not in json.dumps(shown)
    assert KEY not in repr(declared(home))


def test_its_own_options_are_set_and_checked(home: Home) -> None:
    table = TABLE | {
        "params": {"q": "{query}", "in": "{options.space}", "deep": "{options.deep}", "n": "{options.n}"},
        "options": {
            "space": {"default": "all", "choices": ["all", "handbook"]},
            "deep": {"default": False},
            "n": {"default": 3},
        },
    }
    wanted = {"space": "handbook", "deep": True, "n": 4}
    config = home.load({"providers": [{"name": "intranet", "generic_json": table, "options": wanted}]})
    assert (config.errors, provider(config, "intranet").options) == ((), wanted)
    wrong = {"space": "attic", "deep": "yes", "n": "4", "spcae": "all"}
    assert complaints(home, {"name": "intranet", "generic_json": table, "options": wrong}) == (
        "providers[intranet].options.space: must be one of 'all', 'handbook'",
        "providers[intranet].options.deep: must be true or false, not text",
        "providers[intranet].options.n: must be a whole number from 0 to 1000000000, not text",
        "providers[intranet].options.spcae: no such setting; did you mean 'space'?",
    )


def test_a_faulty_table_is_passed_on_as_well(home: Home) -> None:
    config = home.load({"providers": [entry(method="POST", body=nested(400))]})
    assert pickle.loads(pickle.dumps(config)).errors == config.errors != ()


def test_workers_get_a_declared_provider_with_the_configuration(home: Home) -> None:
    settings = provider(pickle.loads(pickle.dumps(declared(home))), "intranet")
    draft = candidate(settings, 60, lambda: NOON).adapter.draft(Query("moss"), KEY)
    assert isinstance(draft, Draft)
    assert str(draft.request.url) == "https://search.corp.example/api/query?q=moss&n=8"


# ---------------------------------------------------------------------------------------------------------------------
# at work


def intranet(played: Played, **members: Any) -> dict[str, Any]:
    """One that is played in the place of Exa."""
    return entry(**members) | {"base_url": played.address("exa")}


def loaded(folder: Path, *entries: Any, **sections: Any) -> Config:
    content = {
        "credentials": {"INTRANET_API_KEY": KEY},
        "providers": list(entries),
        "state": {"type": "memory"},
        **sections,
    }
    config = load(
        {"WEBSEARCH_CONFIG": str(written(folder / "config.json", content)), "TZ": "UTC", "WEBSEARCH_DEBUG": "1"}
    )
    assert (config.errors, config.warnings) == ((), ())
    return config


HITS = json_play({"hits": [{"title": "Moss", "url": "https://wiki.corp.example/moss"}, {"title": "No address"}]})


@pytest.mark.anyio
async def test_an_in_house_api_is_searched(played: Played, tmp_path: Path) -> None:
    played.script("exa", HITS)
    async with Gateway(loaded(tmp_path, intranet(played, title="The Intranet"))) as gateway:
        answer = await ask(gateway, "moss & fern", max_results=3)
        assert (came_to(answer), used(answer)) == (("found", False, None), "intranet")
        assert answer.body["results"] == [
            {"title": "Moss", "url": "https://wiki.corp.example/moss", "provider": "intranet"}
        ]
        assert "The Intranet" in describe(gateway.usable())
        alone = await ask(gateway, "fern", provider="intranet")
        status = await gateway.status()
    assert used(alone) == "intranet"
    request = played.requests("exa")[0]
    assert request.path == "/exa/api/query?q=moss+%26+fern&n=3"
    assert request.headers["authorization"] == f"Bearer {KEY}"
    line = status["providers"][0]
    assert (line["name"], line["state"], line["used_requests"]) == ("intranet", "active", 2)
    assert KEY not in json.dumps(status)


@pytest.mark.anyio
async def test_its_errors_bring_the_rests_they_mean(played: Played, tmp_path: Path) -> None:
    time = HandTime()
    played.script("exa", json_play({"error": {"code": "used_up"}}, 403), HITS)
    played.script("tavily", json_play({"query": "moss", "results": [], "response_time": 0.1}))
    tavily = {"name": "tavily", "base_url": played.address("tavily")}
    config = loaded(
        tmp_path, intranet(played), tavily, credentials={"INTRANET_API_KEY": KEY, "TAVILY_API_KEY": "tvly-1"}
    )
    async with Gateway(config, time.clock) as gateway:
        assert told(await ask(gateway)) == ["intranet quota_exhausted http_403 USED_UP", "tavily no_results http_200"]
        assert told(await ask(gateway, "fern"))[0] == "intranet skipped:quota_exhausted 21600s"
        time.move(21601)
        assert used(await ask(gateway, "bog")) == "intranet"
    assert played.count("exa") == 2


@pytest.mark.anyio
async def test_its_budget_is_kept(played: Played, tmp_path: Path) -> None:
    played.script("exa", HITS)
    config = loaded(tmp_path, intranet(played) | {"quota": {"type": "daily", "limit": 2}})
    async with Gateway(config, HandTime().clock) as gateway:
        for query in ("moss", "fern"):
            assert used(await ask(gateway, query)) == "intranet"
        assert told(await ask(gateway, "bog")) == ["intranet skipped:quota_local 2/2"]
    assert played.count("exa") == 2


@pytest.mark.anyio
async def test_a_changed_table_is_in_force_after_a_reload_and_counts_and_rests_stay(
    played: Played, tmp_path: Path
) -> None:
    quota = {"quota": {"type": "daily", "limit": 9}}
    before = loaded(tmp_path, intranet(played) | quota, intranet(played) | {"name": "tickets"})
    played.script("exa", HITS, json_play({}, 429))
    async with Gateway(before, HandTime().clock) as gateway:
        assert used(await ask(gateway)) == "intranet"
        assert told(await ask(gateway, "fern"))[0] == "intranet rate_limited http_429"
        changed = intranet(played, rows="found.*", params={"text": "{query}"}) | {
            "quota": {"type": "daily", "limit": 9}
        }
        await gateway.reload(loaded(tmp_path, changed))
        lines = {each["name"]: each for each in (await gateway.status())["providers"]}
        assert "tickets" not in lines
        assert lines["intranet"]["state"].startswith("blocked(rate_limited, ")
        assert lines["intranet"]["used_requests"] == 2
        played.script("exa", json_play({"found": {"a": {"url": "https://wiki.corp.example/"}}}))
        assert used(await ask(gateway, "bog", provider="intranet")) == "intranet"
    assert played.requests("exa")[-1].path == "/exa/api/query?text=bog"


@pytest.mark.anyio
async def test_the_key_follows_no_redirect_to_another_host(played: Played, tmp_path: Path) -> None:
    async with Trap() as trap:
        played.script("exa", elsewhere(trap.url))
        async with Gateway(loaded(tmp_path, intranet(played))) as gateway:
            assert told(await ask(gateway))[0].startswith("intranet server_error http_302")
        assert trap.visits == 0


@pytest.mark.anyio
async def test_a_declared_provider_is_asked_from_the_command_line(played: Played, tmp_path: Path) -> None:
    played.script("exa", HITS)
    loaded(tmp_path, intranet(played))
    file = str(tmp_path / "config.json")
    ended = await command(tmp_path, "search", "moss", "--provider", "intranet", "--json", WEBSEARCH_CONFIG=file)
    assert (ended.code, ended.json["meta"]["provider_used"]) == (0, "intranet")
    body = tmp_path / "body"
    body.write_text(json.dumps({"error": {"code": "USED_UP"}}), encoding="utf-8")
    ended = await command(tmp_path, "explain", "intranet", "403", str(body), "--json", WEBSEARCH_CONFIG=file)
    assert ended.json["outcome"] == Outcome.QUOTA_EXHAUSTED
    assert ended.json["matched"] == {"table": "vendor", "status": 403, "code": "USED_UP", "phrase": None}
    assert KEY not in ended.out + ended.err


# ---------------------------------------------------------------------------------------------------------------------
# the page


def example() -> dict[str, Any]:
    """The entry of the page's example."""
    snippet = next(each for each in CONFIGURATION.snippets if '"generic_json"' in each.code)
    found: dict[str, Any] = json.loads(snippet.code)["providers"][0]
    return found


def first_column(*head: str) -> list[str]:
    return [spans(row[0])[0] for row in CONFIGURATION.rows(*head)]


def taken(members: Any, read: Any) -> set[str]:
    """The names that the code reads of an object."""
    section = Section("", members, Findings())
    read(section)
    return set(section._taken)


def test_the_page_names_every_member_of_a_table() -> None:
    table = example()["generic_json"]
    named = first_column("member of `generic_json`")
    assert sorted(named) == sorted(taken({}, lambda section: tables.read(section, "x")))
    assert set(named) == table.keys()
    assert set(first_column("member of a row of `errors`")) == taken({"status": 400}, tables._row)


def test_the_page_names_every_field_every_outcome_and_every_placeholder() -> None:
    rows = {spans(row[0])[0]: row for row in CONFIGURATION.rows("member of `generic_json`")}
    assert tuple(spans(rows["fields"][1])) == tables.FIELDS
    assert tuple(spans(rows["freshness"][1])) == ("day", "week", "month", "year")
    outcomes = {spans(row[0])[0]: row[2] for row in CONFIGURATION.rows("member of a row of `errors`", "type")}
    assert outcomes
    types = {spans(row[0])[0]: row[1] for row in CONFIGURATION.rows("member of a row of `errors`", "type")}
    assert set(spans(types["outcome"])) == set(Outcome) - {Outcome.OK}
    assert first_column("placeholder") == [
        *(f"{{{name}}}" for name in ("query", "max_results", "key", "freshness")),
        "{after:%Y-%m-%d}",
        "{include_domains}",
        "{exclude_domains}",
        "{options.space}",
    ]
    assert {name.strip("{}") for name in first_column("placeholder")} >= set(NAMES)


def test_the_pages_defaults_are_the_codes() -> None:
    usual = tables.read(Section("", {}, Findings()), "x")
    rows = {spans(row[0])[0]: row[2] for row in CONFIGURATION.rows("member of `generic_json`")}
    assert [tuple(each.split(".")) for each in spans(rows["codes"])] == list(usual.codes)
    assert [tuple(each.split(".")) for each in spans(rows["message"])] == list(usual.message)
    for name in ("method", "domain_lists"):
        assert spans(rows[name]) == [getattr(usual, name)]
    for name in ("headers", "params", "options", "domains", "operators"):
        assert json.loads(spans(rows[name])[0]) == getattr(usual, name)
    for name in ("credential", "body", "answer", "envelope", "freshness", "max_rows", "max_query"):
        assert (rows[name], bool(getattr(usual, name))) == ("none", False)


def test_the_page_names_the_vendors_that_are_tables() -> None:
    folder = Path(providers.__path__[0])
    for file in folder.glob("*.json"):
        assert providers.find(file.stem).title in CONFIGURATION.text
        assert re.fullmatch(r"[a-z_]+", file.stem)


def replaced(value: Any, number: int, new: object) -> Any:
    """`value` with the member of that number, counted through all levels, replaced by `new`."""

    def walk(part: Any) -> Any:
        nonlocal number
        number -= 1
        if number == -1:
            return new
        if isinstance(part, dict):
            return {name: walk(inner) for name, inner in part.items()}
        return [walk(inner) for inner in part] if isinstance(part, list) else part

    return walk(value)


@given(number=st.integers(1, 100), value=ANYTHING)
def test_anything_in_the_place_of_a_member_is_a_complaint_or_a_provider_that_works(number: int, value: Any) -> None:
    findings = Findings()
    table = tables.read(Section("table", replaced(example()["generic_json"], number, value), findings), "x")
    kind = declare("x", table)
    if findings.complaints:
        assert all(place.startswith("table") and complaint for place, complaint in findings.complaints)
        return
    for query in (Query("moss"), Query("été", 3, "day", ("a.example",), ("b.example",))):
        draft = kind(clock=lambda: NOON).draft(query, KEY)
        assert isinstance(draft, Draft), draft
        assert draft.request.url.host == urlsplit(table.url).hostname


@pytest.mark.parametrize(
    ("part", "secret"),
    [
        ({"headers": {"X-Subscription-Key": "abcdefghijklmnop"}}, "abcdefghijklmnop"),
        ({"params": {"q": "{query}", "key": "abcdefghijklmnop"}}, "abcdefghijklmnop"),
        ({"params": {"q": "{query}", "token": "s3cr3ts3cr3t-{query}"}}, "s3cr3ts3cr3t-"),
        ({"headers": {"Authorization": "Scheme-Of-Theirs {max_results}"}}, None),
    ],
)
def test_a_key_that_is_written_into_a_table_is_hidden_under_whatever_name(
    home: Home, part: dict[str, Any], secret: str | None
) -> None:
    table = {"url": "https://corp.example/find", "params": {"q": "{query}"}, "rows": "hits", "fields": {"url": "link"}}
    config = home.load({"providers": [{"name": "intranet", "generic_json": table | part}]})
    assert config.errors == ()
    assert any("looks like a key" in warning for warning in config.warnings) == (secret is not None)
    assert secret is None or secret in config.secrets


@pytest.mark.parametrize(
    ("url", "is_told"), [("https://corp.example/find", True), ("https://api.tavily.com/other", False)]
)
def test_another_vendors_key_is_not_taken_somewhere_else_without_a_word(home: Home, url: str, is_told: bool) -> None:
    table = {
        "url": url,
        "credential": "TAVILY_API_KEY",
        "headers": {"Authorization": "Bearer {key}"},
        "params": {"q": "{query}"},
        "rows": "hits",
        "fields": {"url": "link"},
    }
    config = home.load({"providers": [{"name": "intranet", "generic_json": table}]}, TAVILY_API_KEY="tvly-0123456789")
    told = [each for each in config.warnings if "generic_json.credential: is the key of Tavily" in each]
    assert bool(told) == is_told
