"""Every setting counts, the example says what holds without it, and nothing that is shown holds a secret."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import providers
from gateway.config import load, show
from gateway.lineup import credential_names
from gateway.settings import Network
from tests.configured import KEYED, Home, chain, provider

EXAMPLE = Path(__file__).parent.parent / "config.example.json"


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


# ---------------------------------------------------------------------------------------------------------------------
# nothing, and the example


def test_it_works_without_any_configuration() -> None:
    config = load({})
    assert (config.source, config.errors, config.warnings) == (None, (), ())
    assert {each.name for each in config.providers} == set(providers.names())
    assert all(each.keys == ("",) for each in config.chain), "only those that need no key are asked"
    assert (config.server.host, config.server.port, config.server.tokens) == ("127.0.0.1", 8787, ())
    assert (config.tool_prefix, config.debug, config.log_level) == ("", False, "info")
    assert (config.state.type, config.state.path) == ("sqlite", None)
    assert config.network == Network(proxy=None, no_proxy=("localhost", "127.0.0.1", "::1"))
    assert config.secrets == ()


def test_the_example_says_what_holds_without_it() -> None:
    plain = load(KEYED)
    example = load(KEYED | {"WEBSEARCH_CONFIG": str(EXAMPLE)})
    assert (example.errors, example.warnings, example.source) == ((), (), str(EXAMPLE))
    assert replace(example, source=None, origins={}) == replace(plain, origins={})


def test_the_example_names_every_setting_there_is() -> None:
    written = json.loads(EXAMPLE.read_text("utf-8"))
    assert [each["name"] for each in written["providers"]] == list(providers.names())
    by_variable_only = {"tool_prefix", "debug", "log", "network.proxy", "network.no_proxy"}
    by_name = {f"providers[{each['name']}]": each for each in written["providers"]}
    missing = []
    for place in set(load({"WEBSEARCH_CONFIG": str(EXAMPLE)}).origins) - by_variable_only:
        first, _, rest = place.partition("].") if place.startswith("providers[") else ("", "", place)
        value: Any = by_name[f"{first}]"] if first else written
        for name in rest.split("."):
            missing += [] if name in value else [place]
            value = value.get(name, {}) if isinstance(value, dict) else {}
    assert missing == []


def test_the_example_names_every_variable_of_the_vendors() -> None:
    assert tuple(json.loads(EXAMPLE.read_text("utf-8"))["credentials"]) == credential_names()


def test_reading_the_configuration_loads_neither_the_protocol_nor_the_server() -> None:
    script = "import sys, gateway.config; print([m for m in ('mcp', 'starlette', 'pydantic') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# ---------------------------------------------------------------------------------------------------------------------
# every setting


@pytest.mark.parametrize(
    ("section", "name", "value"),
    [
        ("defaults", "timeout_ms", 4000),
        ("defaults", "total_budget_ms", 100),
        ("defaults", "cooldown_default_s", 1.5),
        ("defaults", "cooldown_max_s", 0),
        ("defaults", "max_output_chars", 0),
        ("cache", "enabled", False),
        ("cache", "ttl_s", 0),
        ("cache", "ttl_fresh_s", 0.5),
        ("cache", "max_entries", 1),
        ("cache", "stale_if_error_s", 60),
        ("state", "type", "memory"),
        ("state", "prefix", "team-7:search.web"),
        ("server", "host", "::1"),
        ("server", "port", 0),
        ("server", "workers", 4),
        ("server", "max_in_flight", 20),
        ("server", "max_in_flight_per_client", 5),
        ("server", "allow_query_token", True),
        ("server", "allow_path_token", True),
    ],
)
def test_each_plain_setting_of_the_file_counts(home: Home, section: str, name: str, value: object) -> None:
    config = home.load({section: {name: value}})
    assert config.errors == ()
    assert getattr(getattr(config, section), name) == value
    assert config.origins[f"{section}.{name}"] == "file"
    assert show(config)[section][name] == {"value": value, "from": "file"}


def test_places_that_one_client_could_take_all_of_are_warned_of(home: Home) -> None:
    tokens = [{"name": name, "token": f"token-of-{name}-123456"} for name in ("cursor", "dify")]
    server = {"max_in_flight": 8, "max_in_flight_per_client": 8}
    assert home.load({"server": {**server, "tokens": tokens[:1]}}).warnings == ()
    assert home.load({"server": {**server, "tokens": tokens}}).warnings == (
        "server.max_in_flight_per_client: is no less than max_in_flight, so that one client may take every place",
    )


def test_hosts_and_origins_may_be_spelled_in_the_usual_ways(home: Home) -> None:
    config = home.load(
        {
            "server": {
                "allowed_hosts": ["Search.example.com", "box:8443", "[::1]:80", "::1", "10.0.0.7"],
                "allowed_origins": ["https://App.example.com/", "app.example.com", "vscode-webview://abc"],
            }
        }
    )
    assert config.server.allowed_hosts == ("search.example.com", "box:8443", "[::1]:80", "::1", "10.0.0.7")
    assert config.server.allowed_origins == ("https://app.example.com", "app.example.com", "vscode-webview://abc")


def test_the_state_folder_is_what_file_or_variable_name(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    content = {"state": {"path": "~/kept"}}
    assert home.load(content).state.path == tmp_path / "kept"
    assert home.load(content, WEBSEARCH_STATE="/var/kept").state.path == Path("/var/kept")
    assert home.load(content, WEBSEARCH_STATE="./kept").state.path == tmp_path / "kept"
    assert home.load(content, WEBSEARCH_STATE="memory").state.type == "memory"
    assert home.load({"state": {"type": "memory", "path": "/x"}}).warnings == (
        "state.path: is not used: memory needs no folder",
    )


@pytest.mark.parametrize(
    ("written", "url"),
    [
        ("redis://r:6379/0", "redis://r:6379/0"),
        ("rediss://user:pw@r.example/2?ssl_ca_certs=/own.pem", "rediss://user:pw@r.example/2?ssl_ca_certs=/own.pem"),
        ("unix:///run/redis.sock?db=2", "unix:///run/redis.sock?db=2"),
        ("redis://[::1]:6379", "redis://[::1]:6379"),
        ("valkey://v", "redis://v"),
        ("valkeys://v:7000/1", "rediss://v:7000/1"),
    ],
)
def test_the_state_is_in_the_server_that_file_or_variable_name(home: Home, written: str, url: str) -> None:
    content = {"state": {"type": "redis", "url": written, "prefix": "team"}}
    by_file, by_variable = home.load(content), load({"WEBSEARCH_STATE": written})
    assert (by_file.errors, by_file.warnings, by_variable.errors, by_variable.warnings) == ((), (), (), ())
    assert (by_file.state.type, by_file.state.url, by_file.state.prefix) == ("redis", url, "team")
    assert (by_variable.state.type, by_variable.state.url, by_variable.state.prefix) == ("redis", url, "websearch")


def test_where_the_variable_puts_the_state_the_files_address_does_not_count(home: Home) -> None:
    content = {"state": {"type": "redis", "url": "redis://file", "prefix": "team"}}
    elsewhere = home.load(content, WEBSEARCH_STATE="redis://variable").state
    assert (elsewhere.type, elsewhere.url, elsewhere.prefix) == ("redis", "redis://variable", "team")
    memory = home.load(content, WEBSEARCH_STATE="memory").state
    assert (memory.type, memory.url, memory.path) == ("memory", None, None)


def test_parts_of_the_state_that_its_type_has_no_use_for_are_warned_of(home: Home) -> None:
    assert home.load({"state": {"url": "redis://r"}}).warnings == ("state.url: is not used: sqlite has no server",)
    folder = home.load({"state": {"type": "redis", "url": "redis://r", "path": "/x"}})
    assert (folder.warnings, folder.state.path) == (("state.path: is not used: redis needs no folder",), None)


def test_variables_beat_the_file(home: Home) -> None:
    content = {
        "credentials": {"EXA_API_KEY": "from-the-file", "BRAVE_API_KEY": "from-the-file"},
        "server": {"host": "10.0.0.1", "port": 1, "tokens": [{"name": "a", "token": "0123456789abcdef"}]},
        "providers": [{"name": "exa"}],
    }
    config = home.load(
        content,
        WEBSEARCH_HOST="[::]",
        WEBSEARCH_PORT="2",
        WEBSEARCH_TOKEN="fedcba9876543210",
        EXA_API_KEY="from-outside",
        WEBSEARCH_PROVIDERS="brave, exa",
        WEBSEARCH_TOOL_PREFIX="team_",
        WEBSEARCH_DEBUG="On",
        WEBSEARCH_LOG="debug",
    )
    assert (config.errors, config.warnings) == ((), ())
    assert (config.server.host, config.server.port) == ("::", 2)
    assert [(each.name, each.token) for each in config.server.tokens] == [("default", "fedcba9876543210")]
    assert provider(config, "exa").keys == ("from-outside",)
    assert provider(config, "brave").keys == ("from-the-file",)
    assert chain(config) == ["brave", "exa"]
    assert (config.tool_prefix, config.debug, config.log_level) == ("team_", True, "debug")
    assert config.origins["server.port"] == "env WEBSEARCH_PORT"
    assert config.origins["credentials.EXA_API_KEY"] == "env EXA_API_KEY"
    assert config.origins["credentials.BRAVE_API_KEY"] == "file"


@pytest.mark.parametrize(
    ("word", "means"),
    [
        ("1", True),
        ("true", True),
        ("YES", True),
        ("on", True),
        ("0", False),
        ("False", False),
        ("no", False),
        ("off", False),
        ("", False),
    ],
)
def test_switches_in_variables_take_the_usual_words(word: str, means: bool) -> None:
    config = load({"WEBSEARCH_DEBUG": word})
    assert (config.debug, config.errors) == (means, ())


@pytest.mark.parametrize("word", ["maybe", "2", "truee", "y"])
def test_other_words_are_no_switch(word: str) -> None:
    assert load({"WEBSEARCH_DEBUG": word}).errors == (
        "WEBSEARCH_DEBUG: must be 1, true, yes or on, or 0, false, no or off",
    )


@pytest.mark.parametrize("prefix", ["a b", "ü", "x" * 33, "a.b"])
def test_a_tool_prefix_is_what_every_host_takes_in_a_tool_name(prefix: str) -> None:
    assert load({"WEBSEARCH_TOOL_PREFIX": prefix}).errors == (
        "WEBSEARCH_TOOL_PREFIX: must be letters, digits, _ and -, at most 32",
    )


def test_kubernetes_own_variables_are_no_slips_of_the_pen() -> None:
    assert (
        load(
            {
                "WEBSEARCH_GATEWAY_SERVICE_HOST": "10.0.0.1",
                "WEBSEARCH_GATEWAY_SERVICE_PORT_HTTP": "8787",
                "WEBSEARCH_GATEWAY_PORT": "tcp://10.0.0.1:8787",
                "WEBSEARCH_GATEWAY_PORT_8787_TCP_ADDR": "10.0.0.1",
            }
        ).warnings
        == ()
    )
    assert load({"WEBSEARCH_GATEWAY_PORT": "8787"}).warnings == (
        "WEBSEARCH_GATEWAY_PORT: no such variable; did you mean 'WEBSEARCH_PORT'?",
    )


# ---------------------------------------------------------------------------------------------------------------------
# what may be shown


def test_nothing_that_is_shown_holds_a_secret(home: Home) -> None:
    secrets = [f"canary-{number:08}" for number in range(10)]
    config = home.load(
        {
            "server": {"tokens": [{"name": "cursor", "token": secrets[0], "daily_limit": 5}]},
            "credentials": {"BRAVE_API_KEY": secrets[1]},
            "providers": [
                {"name": "exa", "base_url": f"https://u:{secrets[2]}@relay.example/?k={secrets[3]}"},
                {"name": "brave", "proxy": f"http://u:{secrets[4]}@p.example"},
            ],
            "state": {"type": "redis", "url": f"rediss://u:{secrets[8]}@r.example/1?ssl_password={secrets[9]}"},
        },
        EXA_API_KEY=secrets[5],
        SEARXNG_URL=f"https://u:{secrets[6]}@s.example",
        HTTPS_PROXY=f"http://u:{secrets[7]}@p.example",
    )
    assert config.errors == ()
    told = json.dumps(show(config)) + repr(config)
    assert not [secret for secret in secrets if secret in told]
    hidden = " ".join(config.secrets)
    assert [secret for secret in secrets if secret in hidden] == secrets
    shown = show(config)
    assert shown["credentials"]["EXA_API_KEY"] == {"value": "set", "from": "env EXA_API_KEY"}
    assert shown["credentials"]["TAVILY_API_KEY"] == {"value": "not set", "from": "default"}
    assert shown["server"]["tokens"] == {
        "value": [{"name": "cursor", "token": "set", "daily_limit": 5}],
        "from": "file",
    }
    assert shown["network"]["proxy"] == {"value": "http://p.example", "from": "env HTTPS_PROXY"}
    assert shown["state"]["url"] == {"value": "rediss://r.example/1", "from": "file"}
    assert shown["providers"]["exa"]["base_url"] == {"value": "https://relay.example/", "from": "file"}
    assert shown["chain"] == {"value": ["exa", "brave"], "from": "file"}


def test_a_value_that_comes_from_a_general_setting_says_so(home: Home) -> None:
    shown = show(home.load({"defaults": {"timeout_ms": 4000}, "providers": [{"name": "brave", "local_qps": 2}]}))
    assert shown["providers"]["brave"]["timeout_ms"] == {"value": 4000, "from": "file"}
    assert shown["providers"]["brave"]["min_interval_ms"] == {"value": 500, "from": "file"}
    assert shown["providers"]["exa"]["quota.limit"] == {"value": 800, "from": "default"}


def test_escaped_parts_of_an_address_are_secret_in_both_spellings() -> None:
    secrets = load({"SEARXNG_URL": "http://me:p%40ss-word@s.example"}).secrets
    assert {"me:p%40ss-word", "p%40ss-word", "me:p@ss-word", "p@ss-word"} <= set(secrets)
