"""One file and the environment become settings, or one list of everything that is wrong."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import providers
from gateway.config import Config, ConfigUnparsable, ProviderSettings, check, load, show, user_file
from gateway.lineup import credential_names
from gateway.settings import Network

EXAMPLE = Path(__file__).parent.parent / "config.example.json"
KEYED = {
    name: "http://searxng.example" if name.endswith("_URL") else f"{name.lower()}-0123"
    for name in ("BOCHA_API_KEY", "TAVILY_API_KEY", "BRAVE_API_KEY", "EXA_API_KEY", "SEARXNG_URL", "GROK_API_KEY")
}


class Home:
    """A user's home with a configuration file in it."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / ".config" / "websearch-gateway" / "config.json"
        self.file.parent.mkdir(parents=True)
        self.environ = {"HOME": str(folder)}

    def write(self, content: object) -> None:
        self.file.write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")
        self.file.chmod(0o600)

    def load(self, content: object = None, **environ: str) -> Config:
        if content is not None:
            self.write(content)
        return load(self.environ | environ)

    def complaints(self, content: object = None, **environ: str) -> tuple[str, ...]:
        """What is wrong, when it is so wrong that the program ends."""
        with pytest.raises(ConfigUnparsable) as raised:
            self.load(content, **environ)
        return raised.value.complaints


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def provider(config: Config, name: str) -> ProviderSettings:
    return next(each for each in config.providers if each.name == name)


def chain(config: Config) -> list[str]:
    return [each.name for each in config.chain]


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
# where the file is


def test_the_file_is_looked_for_where_the_system_keeps_such_files() -> None:
    assert user_file({"HOME": "/home/me"}, "linux") == PurePosixPath("/home/me/.config/websearch-gateway/config.json")
    assert user_file({"HOME": "/home/me", "XDG_CONFIG_HOME": "/x"}, "linux") == PurePosixPath(
        "/x/websearch-gateway/config.json"
    )
    roaming = r"C:\Users\me\AppData\Roaming"
    assert user_file({"APPDATA": roaming, "HOME": "/home/me"}, "win32") == PureWindowsPath(
        roaming, "websearch-gateway", "config.json"
    )


@pytest.mark.parametrize(
    ("environ", "platform"),
    [
        ({}, "linux"),
        ({"HOME": ""}, "linux"),
        ({"HOME": "."}, "linux"),
        ({"XDG_CONFIG_HOME": "x"}, "linux"),
        ({}, "win32"),
        ({"APPDATA": "x"}, "win32"),
    ],
)
def test_a_relative_folder_never_makes_the_current_one_count(environ: Mapping[str, str], platform: str) -> None:
    assert user_file(environ, platform) is None


def test_the_current_folder_is_never_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in (tmp_path, tmp_path / "websearch-gateway", tmp_path / ".config" / "websearch-gateway"):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "config.json").write_text('{"providers": []}')
    monkeypatch.chdir(tmp_path)
    assert load({"HOME": "", "XDG_CONFIG_HOME": "."}) == load({})


def test_the_users_file_counts(home: Home) -> None:
    config = home.load({"defaults": {"max_output_chars": 5000}})
    assert (config.source, config.defaults.max_output_chars) == (str(home.file), 5000)


def test_a_named_file_counts_instead_of_the_users(home: Home, tmp_path: Path) -> None:
    home.write({"defaults": {"max_output_chars": 5000}})
    named = tmp_path / "other.json"
    named.write_bytes("\ufeff{}".encode("utf-16-le"))  # as PowerShell writes it
    config = home.load(WEBSEARCH_CONFIG=f' "{named}" ')
    assert (config.source, config.defaults.max_output_chars) == (str(named), 12000)
    assert config.warnings == ("WEBSEARCH_CONFIG: quotes, spaces or line ends around the value were left out",)


def test_a_tilde_in_a_path_is_the_home(home: Home, tmp_path: Path) -> None:
    (tmp_path / "mine.json").write_text("{}")
    assert home.load(WEBSEARCH_CONFIG="~/mine.json").source == str(tmp_path / "mine.json")


def test_a_user_without_a_file_has_none_and_that_is_no_mistake(home: Home) -> None:
    config = home.load()
    assert (config.source, config.errors) == (None, ())
    home.file.parent.rmdir()
    home.file.parent.symlink_to(home.file.parent)  # a folder that nobody can enter
    assert home.load() == config


def test_a_named_file_that_is_missing_ends_the_program(home: Home) -> None:
    assert home.complaints(WEBSEARCH_CONFIG="/nowhere/c.json") == (
        "WEBSEARCH_CONFIG: /nowhere/c.json: cannot be read: No such file or directory",
    )


def test_a_folder_in_place_of_the_users_file_ends_the_program(home: Home) -> None:
    home.file.mkdir()
    assert home.complaints() == (f"{home.file}: cannot be read: Is a directory",)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ('{"credentials": {"EXA_API_KEY": "canary-1234" oops}}', "is not JSON: line 1, column 47"),
        ('{\n "credentials": "canary-1234\n"}', "is not JSON: line 2, column 29"),
        ("", "is not JSON: line 1, column 1"),
        ("[]", "must hold a JSON object"),
        ("null", "must hold a JSON object"),
        ('{"defaults": {"timeout_ms": ' + "9" * 5000 + "}}", "is not JSON: a number too long, or too many levels"),
        ("[" * 100_000, "is not JSON: a number too long, or too many levels"),
    ],
)
def test_a_file_that_is_not_json_ends_the_program_with_line_and_column_only(
    home: Home, content: str, complaint: str
) -> None:
    assert home.complaints(content) == (f"{home.file}: {complaint}",)


def test_bytes_that_are_no_text_end_the_program(home: Home) -> None:
    home.file.write_bytes(b'{"credentials": "\xff\xfe\xfd"}')
    assert home.complaints() == (f"{home.file}: is not JSON: not UTF-8 text",)


def test_with_a_file_that_cannot_be_parsed_the_variables_are_checked_all_the_same(home: Home) -> None:
    complaints = home.complaints("{", WEBSEARCH_DEBUG="maybe", WEBSEARCH_PROVIDERS="nobody_such")
    assert [each.partition(": ")[0] for each in complaints] == [
        str(home.file),
        "WEBSEARCH_PROVIDERS",
        "WEBSEARCH_DEBUG",
    ]


# ---------------------------------------------------------------------------------------------------------------------
# every mistake at once


def test_all_mistakes_are_found_at_once_each_with_its_place(home: Home) -> None:
    config = home.load(
        {
            "defualts": {},
            "credentials": {"TAVILY_KEY": "canary-1234", "EXA_API_KEY": 5},
            "providers": [
                {"name": "brave", "quota": {"limt": 500}, "timeout_ms": True, "base_url": "ftp://canary-1234/"},
                {"name": "tavilly", "timout_ms": 1, "quota": {"limit": 5}},
                {"name": "tavily", "options": {"depht": "basic", "topic": "sports"}},
                "exa",
                {"enabled": "yes"},
            ],
            "defaults": {"timeout_ms": 0, "total_budget_ms": 99, "cooldown_max_s": -1, "max_output_chars": "12000"},
            "cache": [],
        },
        WEBSEARCH_LOG="verbose",
    )
    assert set(config.errors) == {
        "defualts: no such setting; did you mean 'defaults'?",
        "credentials.TAVILY_KEY: no such setting; did you mean 'TAVILY_API_KEY'?",
        "credentials.EXA_API_KEY: must be text, not 5",
        "providers[brave].quota.limt: no such setting; did you mean 'limit'?",
        "providers[brave].timeout_ms: must be a whole number from 1 to 1000000000, not true",
        "providers[brave].base_url: must be an address such as http://localhost:8080: http or https, and a host",
        "providers[1].name: no provider is called 'tavilly'; did you mean 'tavily'? valid names: "
        + ", ".join(providers.names()),
        "providers[1].timout_ms: no such setting; did you mean 'timeout_ms'?",
        "providers[tavily].options.depht: no such setting; did you mean 'depth'?",
        "providers[tavily].options.topic: must be one of 'general', 'news', 'finance'",
        "providers[3]: must be an object, not text",
        "providers[4].name: is missing",
        "providers[4].enabled: must be true or false, not text",
        "defaults.timeout_ms: must be a whole number from 1 to 1000000000, not 0",
        "defaults.total_budget_ms: must be a whole number from 100 to 1000000000, not 99",
        "defaults.cooldown_max_s: must be a number from 0 to 1000000000, not -1",
        "defaults.max_output_chars: must be a whole number from 0 to 1000000000, not text",
        "cache: must be an object, not a list",
        "WEBSEARCH_LOG: must be one of 'error', 'warn', 'info', 'debug'",
    }
    assert len(config.errors) == len(set(config.errors))


def test_a_name_that_stands_twice_is_a_mistake_at_its_place(home: Home) -> None:
    config = home.load(
        '{"providers": [{"name": "brave", "quota": {"limit": 1, "limit": 2}}], "cache": {}, "cache": {}}'
    )
    assert config.errors == (
        "cache: stands there more than once",
        "providers[brave].quota.limit: stands there more than once",
    )


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-Infinity", "1e999", "1e300"])
def test_numbers_without_bounds_are_mistakes(home: Home, value: str) -> None:
    config = home.load(f'{{"cache": {{"ttl_s": {value}}}}}')
    assert config.errors == ("cache.ttl_s: must be a number from 0 to 1000000000, not a number out of all bounds",)


def test_a_secret_in_place_of_a_name_is_not_repeated(home: Home) -> None:
    config = home.load(
        {"credentials": {"canary-0123456789abcdef": "EXA_API_KEY"}, "providers": [{"name": "canary-0123456789abcdef"}]},
        WEBSEARCH_PROVIDERS="canary-0123456789abcdef",
        WEBSEARCH_TOOL_PREFIX="canary-0123456789abcdef-and-longer-than-32",
    )
    assert len(config.errors) == 4
    assert config.errors[0] == "credentials.<name 1>: no such setting"
    assert not any("canary" in error for error in config.errors)


def test_null_says_the_same_as_leaving_out(home: Home) -> None:
    config = home.load({"providers": None, "cache": None, "defaults": {"timeout_ms": None}, "state": {"path": None}})
    assert config.errors == ()
    assert replace(config, source=None) == load({})


@pytest.mark.parametrize(
    ("content", "environ", "place"),
    [
        ({"server": {"port": "8787"}}, {}, "server.port: must be a whole number from 0 to 65535, not text"),
        ({"server": {"prot": 1}}, {}, "server.prot: no such setting; did you mean 'port'?"),
        ({"server": []}, {}, "server: must be an object, not a list"),
        ({"sever": {"tokens": []}}, {}, "sever: no such setting; did you mean 'server'?"),
        ({"server": {"host": "http://0.0.0.0:80"}}, {}, "server.host: must be a host name or an IP address, "),
        ({"server": {"allowed_hosts": "a"}}, {}, "server.allowed_hosts: must be a list, not text"),
        ({"server": {"allowed_hosts": ["a", "http://b"]}}, {}, "server.allowed_hosts: entry 2 must be a host such as"),
        ({"server": {"allowed_hosts": [None]}}, {}, "server.allowed_hosts: entry 1 must be text, not nothing"),
        ({"server": {"allowed_hosts": ["a..b"]}}, {}, "server.allowed_hosts: entry 1 must be a host such as"),
        ({"server": {"allowed_origins": ["1://b"]}}, {}, "server.allowed_origins: entry 1 must be an origin"),
        ({"server": {"allowed_origins": ["https://b/x"]}}, {}, "server.allowed_origins: entry 1 must be an origin"),
        ({"server": {"allow_query_token": "yes"}}, {}, "server.allow_query_token: must be true or false, not text"),
        ({"server": {"allow_path_token": 1}}, {}, "server.allow_path_token: must be true or false, not 1"),
        ({"state": {"type": "redis"}}, {}, "state.type: Redis is not supported yet"),
        ({"state": {"type": "sqlte"}}, {}, "state.type: must be one of 'sqlite', 'memory'; did you mean 'sqlite'?"),
        ({"state": {"path": "state"}}, {}, "state.path: must be the whole path of a folder"),
        ({}, {"WEBSEARCH_PORT": "65536"}, "WEBSEARCH_PORT: must be a whole number from 0 to 65535"),
        ({}, {"WEBSEARCH_PORT": "tcp://10.0.0.1:8787"}, "WEBSEARCH_PORT: must be a whole number from 0 to 65535"),
        ({}, {"WEBSEARCH_HOST": "two words"}, "WEBSEARCH_HOST: must be a host name or an IP address"),
        ({}, {"WEBSEARCH_STATE": "redis://:canary@r:6379"}, "WEBSEARCH_STATE: Redis is not supported yet"),
        ({}, {"WEBSEARCH_STATE": "memroy"}, "WEBSEARCH_STATE: must be 'memory', or the path of a folder"),
        ({}, {"WEBSEARCH_STATE": "file:///var/x"}, "WEBSEARCH_STATE: must be 'memory', or the path of a folder"),
    ],
)
def test_a_fault_in_server_or_state_ends_the_program(
    home: Home, content: object, environ: dict[str, str], place: str
) -> None:
    (complaint,) = home.complaints(content, **environ)
    assert complaint.startswith(place)
    assert "canary" not in complaint


def test_a_fault_that_ends_the_program_comes_with_all_others(home: Home) -> None:
    complaints = home.complaints({"server": {"port": -1}, "cache": {"ttl_s": -1}})
    assert [each.partition(":")[0] for each in complaints] == ["cache.ttl_s", "server.port"]


def test_checking_returns_errors_and_warnings(home: Home) -> None:
    home.write({"cache": {"ttl": 1}})
    errors, warnings = check(home.environ | {"WEBSEARCH_DEBG": "1"})
    assert errors == ("cache.ttl: no such setting; did you mean 'ttl_s'?",)
    assert warnings == ("WEBSEARCH_DEBG: no such variable; did you mean 'WEBSEARCH_DEBUG'?",)
    assert check({"WEBSEARCH_PORT": "x"}) == (("WEBSEARCH_PORT: must be a whole number from 0 to 65535",), ())


SETTING = st.sampled_from(
    [
        "credentials",
        "providers",
        "defaults",
        "cache",
        "state",
        "server",
        "name",
        "quota",
        "limit",
        "type",
        "reset_day",
        "timezone",
        "options",
        "base_url",
        "proxy",
        "tokens",
        "token",
        "port",
        "path",
        "local_qps",
        "EXA_API_KEY",
        "SEARXNG_URL",
    ]
)
VALUE = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=9)
    | st.sampled_from(
        ["canary-01234567", "brave", "searxng", "http://u:canary-01234567@h", "monthly", "[::1", "${X}", "\ud800"]
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(SETTING, inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=100, deadline=None)
@given(st.dictionaries(SETTING, VALUE, max_size=5))
def test_no_file_can_do_more_than_be_complained_about(
    tmp_path_factory: pytest.TempPathFactory, content: object
) -> None:
    file = tmp_path_factory.getbasetemp() / "any.json"
    file.write_text(json.dumps(content), "utf-8")
    file.chmod(0o600)
    try:
        config = load({"WEBSEARCH_CONFIG": str(file)})
    except ConfigUnparsable as fault:
        told = "\n".join((*fault.complaints, *fault.warnings))
    else:
        told = "\n".join((*config.errors, *config.warnings)) + repr(config) + json.dumps(show(config))
    assert "canary" not in told
    told.encode()


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
        ("server", "host", "::1"),
        ("server", "port", 0),
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
# who is asked


def test_the_built_in_chain_is_whoever_is_configured(home: Home) -> None:
    joining = [name for name in providers.names() if providers.find(name).joins == "built_in"]
    last = [name for name in providers.names() if providers.find(name).joins == "last_resort"]
    assert chain(load(KEYED)) == [*joining, *last]
    config = load({"EXA_API_KEY": "k", "BOCHA_API_KEY": "k"})
    keyless = [name for name in [*joining, *last] if providers.find(name).credential is None]
    assert chain(config) == ["bocha", "exa", *keyless]
    assert not provider(config, "brave").in_chain


def test_a_list_decides_alone_and_its_order_counts(home: Home) -> None:
    config = home.load(
        {"providers": [{"name": "exa"}, {"name": "brave"}, {"name": "bocha", "enabled": False}]}, **KEYED
    )
    assert chain(config) == ["exa", "brave"]
    assert [each.name for each in config.providers][:2] == ["exa", "brave"]
    assert len(config.providers) == len(providers.names())
    assert config.origins["providers"] == "file"


def test_an_empty_list_means_nobody(home: Home) -> None:
    assert home.load({"providers": []}, **KEYED).chain == ()


def test_a_listed_provider_without_a_key_is_in_the_chain_and_left_out(home: Home) -> None:
    config = home.load({"providers": [{"name": "brave"}, {"name": "exa"}]}, EXA_API_KEY="k")
    assert (provider(config, "brave").in_chain, provider(config, "brave").keys) == (True, ())
    assert chain(config) == ["exa"]


def test_a_variable_names_the_chain_and_the_file_tunes_it(home: Home) -> None:
    content = {"providers": [{"name": "exa", "quota": {"limit": 7}}, {"name": "brave", "enabled": False}]}
    config = home.load(content, **KEYED, WEBSEARCH_PROVIDERS="brave，exa")
    assert chain(config) == ["brave", "exa"]
    assert provider(config, "exa").budget.limit == 7
    assert config.warnings == ("WEBSEARCH_PROVIDERS: names 'brave', which the file switches off: it is on",)


def test_unknown_and_repeated_names_are_mistakes_in_list_and_variable(home: Home) -> None:
    valid = ", ".join(providers.names())
    config = home.load({"providers": [{"name": "exa"}, {"name": "exa"}]}, WEBSEARCH_PROVIDERS="tavilly,brave,brave")
    assert config.errors == (
        "providers[exa]: is listed more than once",
        f"WEBSEARCH_PROVIDERS: no provider is called 'tavilly'; did you mean 'tavily'? valid names: {valid}",
        "WEBSEARCH_PROVIDERS: names 'brave' more than once",
    )
    assert load({"WEBSEARCH_PROVIDERS": " , "}).errors == ("WEBSEARCH_PROVIDERS: names nobody",)


def test_a_key_that_other_programs_use_too_counts_only_when_listed() -> None:
    assert "grok" in chain(load({"GROK_API_KEY": "k"}))
    unlisted = load({"XAI_API_KEY": "xai-shared"})
    grok = provider(unlisted, "grok")
    assert (grok.keys, grok.in_chain, grok.credential_env) == ((), False, "GROK_API_KEY")
    assert "xai-shared" in unlisted.secrets
    grok = provider(load({"XAI_API_KEY": "xai-shared", "WEBSEARCH_PROVIDERS": "grok"}), "grok")
    assert (grok.keys, grok.in_chain, grok.credential_env) == (("xai-shared",), True, "XAI_API_KEY")
    grok = provider(load({"XAI_API_KEY": "x", "GROK_API_KEY": "k", "WEBSEARCH_PROVIDERS": "grok"}), "grok")
    assert (grok.keys, grok.credential_env) == (("k",), "GROK_API_KEY")


def test_a_shared_key_is_never_sent_to_a_relay() -> None:
    relay = {"GROK_API_URL": "https://relay.example/v1", "WEBSEARCH_PROVIDERS": "grok"}
    assert provider(load(relay | {"GROK_API_KEY": "k"}), "grok").address == "https://relay.example/v1"
    config = load(relay | {"XAI_API_KEY": "xai-shared"})
    assert provider(config, "grok").address is None
    assert config.warnings == ("GROK_API_URL: is not used with XAI_API_KEY; it needs GROK_API_KEY",)


# ---------------------------------------------------------------------------------------------------------------------
# one provider's settings


def brave(home: Home, **entry: object) -> ProviderSettings:
    config = home.load({"providers": [{"name": "brave", **entry}]}, **KEYED)
    assert config.errors == ()
    return provider(config, "brave")


def test_setting_one_thing_leaves_the_vendors_other_defaults(home: Home) -> None:
    vendor = providers.find("brave")
    tuned = brave(home, quota={"limit": 500})
    assert tuned.budget == replace(vendor.budget, limit=500)
    assert (tuned.interval_ms, tuned.timeout_ms, tuned.quota_retry_s) == (vendor.min_interval_ms, 10_000, 21600)


def test_a_quota_merges_while_its_type_stays_and_is_replaced_with_another(home: Home) -> None:
    assert vars_of(brave(home, quota={"reset_day": 31})) == ("monthly", 1000, 31, None)
    assert vars_of(brave(home, quota={"type": "monthly", "timezone": "Asia/Shanghai"})) == (
        "monthly",
        1000,
        15,
        "Asia/Shanghai",
    )
    assert vars_of(brave(home, quota={"type": "daily", "limit": 9})) == ("daily", 9, 1, None)
    assert vars_of(brave(home, quota={"type": "one_time", "limit": 0})) == ("one_time", 0, 1, None)
    assert vars_of(brave(home, quota={"type": "unbounded"})) == ("unbounded", None, 1, None)


def vars_of(settings: ProviderSettings) -> tuple[str, int | None, int, str | None]:
    return (settings.budget.type, settings.budget.limit, settings.budget.reset_day, settings.budget.timezone)


@pytest.mark.parametrize(
    ("quota", "complaint"),
    [
        ({"type": "daily"}, "limit: a daily budget needs one"),
        ({"type": "unbounded", "limit": 5}, "limit: an unbounded budget has none; name a type beside it"),
        ({"type": "daily", "limit": 5, "reset_day": 3}, "reset_day: only a monthly budget has one"),
        ({"type": "one_time", "limit": 5, "timezone": "UTC"}, "timezone: only a monthly or daily budget has one"),
        ({"limit": -1}, "limit: must be a whole number from 0 to 1000000000, not -1"),
        ({"limit": 1.5}, "limit: must be a whole number from 0 to 1000000000, not 1.5"),
        ({"reset_day": 0}, "reset_day: must be a whole number from 1 to 31, not 0"),
        ({"reset_day": 32}, "reset_day: must be a whole number from 1 to 31, not 32"),
        ({"timezone": "Mars/Olympus"}, "timezone: must be the name of a time zone such as Europe/Berlin"),
        ({"timezone": "../../etc/passwd"}, "timezone: must be the name of a time zone such as Europe/Berlin"),
        ({"timezone": "America"}, "timezone: must be the name of a time zone such as Europe/Berlin"),
        (
            {"type": "montly"},
            "type: must be one of 'monthly', 'daily', 'one_time', 'unbounded'; did you mean 'monthly'?",
        ),
    ],
)
def test_a_quota_that_cannot_be_is_told_at_its_place(home: Home, quota: object, complaint: str) -> None:
    config = home.load({"providers": [{"name": "brave", "quota": quota}]})
    assert config.errors == (f"providers[brave].quota.{complaint}",)


def test_budgets_turn_over_in_the_zone_that_tz_names() -> None:
    assert provider(load({"TZ": "Asia/Shanghai"}), "brave").budget.timezone == "Asia/Shanghai"
    assert provider(load({"TZ": ":Europe/Berlin"}), "brave").budget.timezone == "Europe/Berlin"
    assert provider(load({"TZ": "CST6CDT,M3.2.0,M11.1.0"}), "brave").budget.timezone is None
    assert provider(load({"TZ": "UTC"}), "searxng").budget.timezone is None, "an unbounded budget never turns over"


@pytest.mark.parametrize(
    ("entry", "interval_ms"),
    [
        ({"local_qps": 0.5}, 2000),
        ({"local_qps": 10}, 100),
        ({"local_qps": 3}, 334),
        ({"min_interval_ms": 250}, 250),
        ({"local_qps": 2, "min_interval_ms": 700}, 700),
        ({"local_qps": 1, "min_interval_ms": 700}, 1000),
        ({"local_qps": 0}, 0),
        ({"min_interval_ms": 0}, 0),
        ({"local_qps": 0, "min_interval_ms": 0}, 0),
        ({"local_qps": 0, "min_interval_ms": 40}, 40),
        ({}, 1000),
    ],
)
def test_the_slower_of_two_paces_holds_and_replaces_the_vendors(
    home: Home, entry: dict[str, object], interval_ms: int
) -> None:
    assert brave(home, **entry).interval_ms == interval_ms


def test_a_pace_below_all_reason_is_a_mistake(home: Home) -> None:
    config = home.load({"providers": [{"name": "brave", "local_qps": 1e-300, "min_interval_ms": 0.5}]})
    assert config.errors == (
        "providers[brave].local_qps: must be 0 (off), or from 0.001 a second",
        "providers[brave].min_interval_ms: must be a whole number from 0 to 1000000000, not 0.5",
    )


def test_rests_are_capped_by_provider_then_vendor_then_default(home: Home) -> None:
    assert brave(home).cooldown_max_s == 3600
    assert brave(home, cooldown_max_s=0).cooldown_max_s == 0
    for content in ({"defaults": {"cooldown_max_s": 7}}, {"defaults": {"cooldown_max_s": 7}, "providers": []}):
        config = home.load(content)
        for each in config.providers:
            own = providers.find(each.name).rest_max_s
            assert each.cooldown_max_s == (7 if own is None else own)


def test_time_limits_are_the_providers_then_the_slow_vendors_then_the_default(home: Home) -> None:
    assert brave(home, timeout_ms=1).timeout_ms == 1
    config = home.load({"defaults": {"timeout_ms": 4000}})
    for each in config.providers:
        own = providers.find(each.name).timeout_s
        assert each.timeout_ms == (4000 if own == 10 else own * 1000)


def test_the_whole_search_may_take_as_long_as_the_slowest_in_the_chain_needs(home: Home) -> None:
    content = {"providers": [{"name": "brave", "timeout_ms": 30_000}]}
    assert home.load(content, **KEYED).total_budget_ms == 40_000
    assert home.load(content | {"defaults": {"total_budget_ms": 150}}, **KEYED).total_budget_ms == 150
    assert home.load(content).total_budget_ms == 30_000, "who is not configured does not count"


def test_retry_times_and_options_count(home: Home) -> None:
    tuned = brave(home, quota_retry_s=0)
    assert tuned.quota_retry_s == 0
    options = provider(
        home.load({"providers": [{"name": "tavily", "options": {"depth": "advanced"}}]}), "tavily"
    ).options
    assert options == {"depth": "advanced", "topic": "general"}


@pytest.mark.parametrize("written", ["", " ", "two\nlines", "\ud800"])
def test_a_text_option_is_one_line_with_something_in_it(home: Home, written: str) -> None:
    config = home.load({"providers": [{"name": "searxng", "options": {"engines": written}}]})
    assert config.errors == ("providers[searxng].options.engines: must be one line of text",)


@pytest.mark.parametrize("name", providers.names())
def test_every_option_of_every_vendor_is_held_to_its_kind(home: Home, name: str) -> None:
    for option, about in providers.find(name).options.items():
        wrong: dict[type, object] = {str: 5, bool: "true", int: True}
        config = home.load({"providers": [{"name": name, "options": {option: wrong[about.kind]}}]})
        (complaint,) = config.errors
        assert complaint.startswith(f"providers[{name}].options.{option}: must be ")


def test_a_base_url_may_be_set_for_everybody(home: Home) -> None:
    for name in providers.names():
        config = home.load({"providers": [{"name": name, "base_url": "relay.example:8443/v1/?x=y"}]}, **KEYED)
        found = provider(config, name)
        if providers.find(name).keys_are_addresses:
            continue
        assert (found.base_url, config.errors) == ("http://relay.example:8443/v1/", ())
        assert config.warnings == (
            f"providers[{name}].base_url: what follows the '?' or '#' of the address is left out",
        )


@pytest.mark.parametrize(
    "address", ["", "ftp://x", "https://", "http:/x", "http://a b", "http://x:99999", "http://[::1", "\ud800"]
)
def test_a_base_url_that_is_no_address_is_a_mistake(home: Home, address: str) -> None:
    config = home.load({"providers": [{"name": "brave", "base_url": address}]})
    assert config.errors == (
        "providers[brave].base_url: must be an address such as http://localhost:8080: http or https, and a host",
    )


def test_where_keys_are_addresses_base_url_stands_for_them(home: Home) -> None:
    entry = {"providers": [{"name": "searxng", "base_url": "one.example, https://two.example"}]}
    assert provider(home.load(entry), "searxng").keys == ("http://one.example", "https://two.example")
    both = home.load(entry | {"credentials": {"SEARXNG_URL": "three.example"}})
    assert provider(both, "searxng").keys == ("http://one.example", "https://two.example")
    assert both.warnings == ("credentials.SEARXNG_URL: is not used: providers[searxng].base_url is set too",)
    outside = home.load(entry, SEARXNG_URL="four.example")
    assert provider(outside, "searxng").keys == ("http://four.example",)
    assert outside.warnings == ("providers[searxng].base_url: is not used: SEARXNG_URL is set too",)


def test_of_two_relays_the_one_in_the_environment_counts(home: Home) -> None:
    entry = {"providers": [{"name": "grok", "base_url": "https://file.example"}], "credentials": {"GROK_API_KEY": "k"}}
    outside = home.load(entry, GROK_API_URL="https://outside.example")
    grok = provider(outside, "grok")
    assert (grok.base_url, grok.address) == (None, "https://outside.example")
    assert outside.warnings == ("providers[grok].base_url: is not used: GROK_API_URL is set too",)
    entry["credentials"] = {"GROK_API_KEY": "k", "GROK_API_URL": "https://credentials.example"}
    inside = home.load(entry)
    grok = provider(inside, "grok")
    assert (grok.base_url, grok.address) == ("https://file.example", None)
    assert inside.warnings == ("credentials.GROK_API_URL: is not used: providers[grok].base_url is set too",)


# ---------------------------------------------------------------------------------------------------------------------
# the way out


@pytest.mark.parametrize("variable", ["HTTPS_PROXY", "HTTP_PROXY", "https_proxy", "http_proxy"])
def test_either_proxy_variable_serves_every_call(variable: str) -> None:
    config = load(KEYED | {variable: "proxy.example:3128"})
    assert config.network.proxy == "http://proxy.example:3128"
    assert {each.proxy for each in config.providers} == {"http://proxy.example:3128"}
    assert config.origins["network.proxy"] == f"env {variable}"


def test_of_two_proxy_variables_the_one_for_https_counts() -> None:
    config = load({"HTTP_PROXY": "http://one.example", "HTTPS_PROXY": "http://two.example"})
    assert config.network.proxy == "http://two.example"
    assert show(config)["providers"]["brave"]["proxy"] == {"value": "http://two.example", "from": "env HTTPS_PROXY"}


def test_a_providers_own_proxy_beats_the_networks(home: Home) -> None:
    config = home.load(
        {"providers": [{"name": "brave", "proxy": "https://own.example"}]},
        HTTPS_PROXY="http://all.example",
        NO_PROXY="*",
    )
    assert provider(config, "brave").proxy == "https://own.example"
    assert provider(config, "exa").proxy is None


@pytest.mark.parametrize(
    "written", ["socks5://h:1", "SOCKS5h://u:canary@h:1", "ftp://canary@h", "http://", "http://canary@"]
)
def test_a_proxy_that_cannot_be_used_is_a_mistake_and_never_a_way_around_it(home: Home, written: str) -> None:
    config = home.load({"providers": [{"name": "brave", "proxy": written}]}, HTTPS_PROXY=written)
    assert [error.partition(":")[0] for error in config.errors] == ["HTTPS_PROXY", "providers[brave].proxy"]
    assert not any("canary" in error for error in config.errors)


@pytest.mark.parametrize(
    ("address", "no_proxy", "is_direct"),
    [
        ("http://localhost:8080", None, True),
        ("http://127.0.0.1", None, True),
        ("http://[::1]:8080", None, True),
        ("http://10.0.0.7", None, False),
        ("http://localhost", "corp.example", False),
        ("http://search.corp.example", "corp.example", True),
        ("http://corp.example", ".corp.example", True),
        ("http://a.corp.example", "*.corp.example", True),
        ("http://notcorp.example", "corp.example", False),
        ("http://CORP.example.", "Corp.Example", True),
        ("http://anything.example", "*", True),
        ("http://h.example:8080", "h.example:8080", True),
        ("http://h.example", "h.example:8080", False),
        ("https://h.example", "h.example:443", True),
        ("http://192.168.3.4", "10.0.0.0/8, 192.168.0.0/16", True),
        ("http://192.168.3.4", "192.168.3.4", True),
        ("http://[fd00::5]", "fd00::/8", True),
        ("http://192.example", "192.0.0.0/8", False),
        ("http://h.example", "a b,h.example", True),
    ],
)
def test_no_proxy_is_read_as_is_the_custom(address: str, no_proxy: str | None, is_direct: bool) -> None:
    environ = {"SEARXNG_URL": address, "HTTPS_PROXY": "http://proxy.example"}
    config = load(environ | ({} if no_proxy is None else {"NO_PROXY": no_proxy}))
    assert provider(config, "searxng").proxy == (None if is_direct else "http://proxy.example")


def test_each_of_several_addresses_has_its_own_way_out() -> None:
    config = load({"SEARXNG_URL": "http://localhost:8080,https://far.example", "HTTP_PROXY": "http://proxy.example"})
    found = provider(config, "searxng")
    assert found.proxies == {"http://localhost:8080": None, "https://far.example": "http://proxy.example"}
    assert [found.proxy_for(key) for key in found.keys] == [None, "http://proxy.example"]
    assert provider(config, "brave").proxy_for("k") == "http://proxy.example"


# ---------------------------------------------------------------------------------------------------------------------
# what may be shown


def test_nothing_that_is_shown_holds_a_secret(home: Home) -> None:
    secrets = [f"canary-{number:08}" for number in range(8)]
    config = home.load(
        {
            "server": {"tokens": [{"name": "cursor", "token": secrets[0], "daily_limit": 5}]},
            "credentials": {"BRAVE_API_KEY": secrets[1]},
            "providers": [
                {"name": "exa", "base_url": f"https://u:{secrets[2]}@relay.example/?k={secrets[3]}"},
                {"name": "brave", "proxy": f"http://u:{secrets[4]}@p.example"},
            ],
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
