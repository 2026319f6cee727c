"""One file and the environment become settings, or one list of everything that is wrong."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path, PurePosixPath, PureWindowsPath

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import providers
from gateway.config import ConfigUnparsable, check, load, show, user_file
from tests.configured import Home


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


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
        ({"server": {"workers": 0}}, {}, "server.workers: must be a whole number from 1 to 64, not 0"),
        ({"server": {"workers": 65}}, {}, "server.workers: must be a whole number from 1 to 64, not 65"),
        ({"server": {"max_in_flight": 0}}, {}, "server.max_in_flight: must be a whole number from 1"),
        ({"server": {"max_in_flight_per_client": 0}}, {}, "server.max_in_flight_per_client: must be a whole number"),
        ({"state": {"type": "sqlte"}}, {}, "state.type: must be one of 'sqlite', 'memory', 'redis'; did you mean"),
        ({"state": {"type": "redis"}}, {}, "state.url: is needed with the type 'redis': redis://host:6379/0"),
        ({"state": {"url": "http://:canary@h"}}, {}, "state.url: must be an address such as redis://host:6379/0"),
        ({"state": {"url": "redis://:canary@h:port"}}, {}, "state.url: must be an address such as redis://"),
        ({"state": {"url": "redis:///canary"}}, {}, "state.url: must be an address such as redis://"),
        ({"state": {"url": "redis://h/canary"}}, {}, "state.url: must end with the number of a database, as in"),
        ({"state": {"url": "redis://h?colour=canary"}}, {}, "state.url: holds an option that there is not: colour"),
        ({"state": {"url": "redis://h?max_connections=3"}}, {}, "state.url: holds an option that there is not: max_"),
        ({"state": {"url": "redis://h?db=canary"}}, {}, "state.url: holds an option with a value that cannot be: db"),
        (
            {"state": {"url": "redis://h?credential_provider=canary"}},
            {},
            "state.url: holds an option that there is not",
        ),
        (
            {"state": {"url": "redis://h?ssl_ca_certs=canary"}},
            {},
            "state.url: holds an option that redis:// does not h",
        ),
        (
            {"state": {"url": "rediss://h?ssl_cert_reqs=canary"}},
            {},
            "state.url: holds an option with a value that cann",
        ),
        ({"state": {"url": "unix://"}}, {}, "state.url: must be an address such as redis://"),
        ({"state": {"url": "unix://canary/socket"}}, {}, "state.url: must be an address such as redis://"),
        ({}, {"WEBSEARCH_STATE": "redis://h/0?foo=canary"}, "WEBSEARCH_STATE: holds an option that there is not: foo"),
        ({}, {"WEBSEARCH_STATE": "redis:/canary"}, "WEBSEARCH_STATE: must be an address such as redis://"),
        ({"state": {"prefix": "two words"}}, {}, "state.prefix: must be letters, digits and _ . : -, at most 64"),
        ({"state": {"prefix": ""}}, {}, "state.prefix: must be letters, digits and _ . : -, at most 64"),
        ({"state": {"path": "state"}}, {}, "state.path: must be the whole path of a folder"),
        ({}, {"WEBSEARCH_PORT": "65536"}, "WEBSEARCH_PORT: must be a whole number from 0 to 65535"),
        ({}, {"WEBSEARCH_PORT": "tcp://10.0.0.1:8787"}, "WEBSEARCH_PORT: must be a whole number from 0 to 65535"),
        ({}, {"WEBSEARCH_HOST": "two words"}, "WEBSEARCH_HOST: must be a host name or an IP address"),
        ({}, {"WEBSEARCH_STATE": "redis://:canary@:6379"}, "WEBSEARCH_STATE: must be an address such as redis://"),
        ({}, {"WEBSEARCH_STATE": "memroy"}, "WEBSEARCH_STATE: must be 'memory', the path of a folder, or redis://"),
        ({}, {"WEBSEARCH_STATE": "file:///canary"}, "WEBSEARCH_STATE: must be 'memory', the path of a folder, or"),
    ],
)
def test_a_fault_in_server_or_state_ends_the_program(
    home: Home, content: object, environ: dict[str, str], place: str
) -> None:
    (complaint,) = home.complaints(content, **environ)
    assert complaint.startswith(place)
    assert "canary" not in complaint


@pytest.mark.parametrize(
    ("content", "environ", "place"),
    [
        ({"state": {"type": "redis", "url": "redis://r"}}, {}, "state.type"),
        (None, {"WEBSEARCH_STATE": "rediss://:canary@r"}, "WEBSEARCH_STATE"),
    ],
)
def test_a_server_for_the_state_needs_the_package_that_talks_to_it(
    home: Home, monkeypatch: pytest.MonkeyPatch, content: object, environ: dict[str, str], place: str
) -> None:
    monkeypatch.setattr("gateway.config.find_spec", lambda name: None)
    needs = f"{place}: needs the package redis: pip install 'websearch-gateway[redis]'"
    assert home.complaints(content, **environ) == (needs,)


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
        "url",
        "prefix",
        "workers",
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
        [
            "canary-01234567",
            "brave",
            "searxng",
            "http://u:canary-01234567@h",
            "redis://u:canary-01234567@h",
            "redis",
            "monthly",
            "[::1",
            "${X}",
            "\ud800",
        ]
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
