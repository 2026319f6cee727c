"""Keys, addresses and tokens as people really paste them; complaints name the variable and never its value."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gateway.config import Config, ConfigUnparsable, load, show
from gateway.credentials import home, is_open

LEFT_OUT = "quotes, spaces or line ends around the value were left out"


def keys(config: Config, name: str = "tavily") -> tuple[str, ...]:
    return next(each.keys for each in config.providers if each.name == name)


def complaints(**environ: str) -> tuple[str, ...]:
    with pytest.raises(ConfigUnparsable) as raised:
        load(environ)
    return raised.value.complaints


# ---------------------------------------------------------------------------------------------------------------------
# keys


@pytest.mark.parametrize(
    "written", ['"tk-1"\r\n', "'tk-1'", " tk-1", "tk-1\n", "“tk-1”", "\ufefftk-1", "\u200btk-1", '"tk-1', "`tk-1`"]
)
def test_what_clings_to_a_key_is_left_out_with_a_warning(written: str) -> None:
    config = load({"TAVILY_API_KEY": written})
    assert (keys(config), config.errors) == (("tk-1",), ())
    assert config.warnings == (f"TAVILY_API_KEY: {LEFT_OUT}",)


@pytest.mark.parametrize(
    "written", ["k1,k2", "k1, k2", "k1，k2", "k1;k2", "k1；k2", "k1\nk2", "k1\r\nk2", "k1,,k2", "k1, \n k2"]
)
def test_several_keys_may_be_separated_in_any_usual_way(written: str) -> None:
    config = load({"TAVILY_API_KEY": written})
    assert (keys(config), config.errors, config.warnings) == (("k1", "k2"), (), ())


def test_quotes_around_each_of_several_keys_are_left_out() -> None:
    config = load({"TAVILY_API_KEY": '"k1", "k2"'})
    assert keys(config) == ("k1", "k2")
    assert config.warnings == (f"TAVILY_API_KEY: {LEFT_OUT}",)


def test_the_same_key_twice_counts_once() -> None:
    config = load({"TAVILY_API_KEY": "canary-1,k2,canary-1"})
    assert keys(config) == ("canary-1", "k2")
    assert config.warnings == ("TAVILY_API_KEY: holds the same key twice; the second is dropped",)


@pytest.mark.parametrize(
    "written", ["${TAVILY_API_KEY}", "${env:TAVILY_API_KEY}", "${A:-b,c}", '"${X}"', "${unclosed", "Bearer ${X}"]
)
def test_a_template_that_nobody_filled_in_counts_as_unset(written: str) -> None:
    config = load({"TAVILY_API_KEY": written})
    assert (keys(config), config.errors) == ((), ())
    assert "TAVILY_API_KEY: holds a ${…} that nobody filled in, and counts as unset" in config.warnings


def test_a_template_among_keys_costs_itself_only() -> None:
    config = load({"TAVILY_API_KEY": "k1,${SECOND}"})
    assert keys(config) == ("k1",)
    assert config.warnings == ("TAVILY_API_KEY: holds a ${…} that nobody filled in, and counts as unset",)


def test_an_unfilled_template_leaves_the_files_key_in_force(tmp_path: Path) -> None:
    file = written(tmp_path, {"credentials": {"TAVILY_API_KEY": "from-the-file"}})
    assert keys(load({"WEBSEARCH_CONFIG": str(file), "TAVILY_API_KEY": "${TAVILY_API_KEY}"})) == ("from-the-file",)
    assert keys(load({"WEBSEARCH_CONFIG": str(file), "TAVILY_API_KEY": ""})) == ("from-the-file",)


@pytest.mark.parametrize(
    "written_", ["канарейка", "canary\u200b1", "canary\t1", "canary\x001", "can\u00e4ry", "canary\ud800"]
)
def test_a_key_that_is_not_printable_ascii_is_a_mistake(written_: str) -> None:
    config = load({"TAVILY_API_KEY": written_})
    assert config.errors == (
        "TAVILY_API_KEY: holds signs that are not printable ASCII; no key has them: copy it again",
    )
    assert keys(config) == ()
    assert len(config.secrets) == 1
    json.dumps(config.secrets, ensure_ascii=False).encode()


def test_an_empty_variable_is_an_unset_one() -> None:
    assert load(
        {"TAVILY_API_KEY": "", "SEARXNG_URL": " ", "HTTPS_PROXY": "", "WEBSEARCH_PROVIDERS": "", "NO_PROXY": ""}
    ) == load({})


@pytest.mark.parametrize(
    ("variable", "written_", "warning"),
    [
        ("EXA_API_KEY", "tvly-canary", "holds a key that looks like one for TAVILY_API_KEY"),
        ("BRAVE_API_KEY", "xai-canary", "holds a key that looks like one for XAI_API_KEY or GROK_API_KEY"),
        ("EXA_API_KEY", "https://canary.example", "looks like an address, not a key"),
        ("EXA_API_KEY", "Bearer canary", "holds a space; is it one key, without 'Bearer'?"),
    ],
)
def test_a_key_in_the_wrong_place_is_noticed_by_its_shape(variable: str, written_: str, warning: str) -> None:
    assert load({variable: written_}).warnings == (f"{variable}: {warning}",)


def test_a_key_in_its_own_place_is_no_cause_for_a_warning() -> None:
    assert load({"TAVILY_API_KEY": "tvly-1", "XAI_API_KEY": "xai-1"}).warnings == ()


@pytest.mark.parametrize("name", ["TAVILY_API_KEY_2", "TAVILY_API_KEY2", "TAVILY_API_KEYS"])
def test_numbered_variables_are_named_and_not_read(name: str) -> None:
    config = load({"TAVILY_API_KEY": "k1", name: "canary"})
    assert keys(config) == ("k1",)
    assert config.warnings == (f"{name}: is not read; several go into TAVILY_API_KEY, separated by commas",)


# ---------------------------------------------------------------------------------------------------------------------
# files


def written(folder: Path, content: object, mode: int = 0o600) -> Path:
    file = folder / "secret"
    file.write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")
    file.chmod(mode)
    return file


@pytest.mark.parametrize("content", ["tk-1", "tk-1\n", "tk-1\r\n", "\ufefftk-1\n"])
def test_a_key_may_stand_in_a_file(tmp_path: Path, content: str) -> None:
    config = load({"TAVILY_API_KEY_FILE": str(written(tmp_path, content))})
    assert (keys(config), config.errors, config.warnings) == (("tk-1",), (), ())
    assert config.origins["credentials.TAVILY_API_KEY"] == "env TAVILY_API_KEY_FILE"


def test_a_file_may_hold_a_key_a_line(tmp_path: Path) -> None:
    assert keys(load({"TAVILY_API_KEY_FILE": str(written(tmp_path, "k1\nk2\n"))})) == ("k1", "k2")


@pytest.mark.parametrize(
    ("path", "resolved"),
    [("~/k", "/home/me/k"), ("~", "/home/me"), ("~\\k", "/home/me\\k"), ("~you/k", "~you/k"), ("/k", "/k")],
)
def test_a_tilde_is_the_users_home_on_every_system(path: str, resolved: str) -> None:
    assert home(path, {"HOME": "/home/me"}) == home(path, {"USERPROFILE": "/home/me"}) == resolved


def test_of_variable_and_file_the_variable_wins(tmp_path: Path) -> None:
    config = load({"TAVILY_API_KEY": "k1", "TAVILY_API_KEY_FILE": str(written(tmp_path, "k2"))})
    assert keys(config) == ("k1",)
    assert config.warnings == ("TAVILY_API_KEY: wins over TAVILY_API_KEY_FILE, which is not read",)


def test_a_missing_file_is_a_mistake_that_names_the_path(tmp_path: Path) -> None:
    config = load({"TAVILY_API_KEY_FILE": str(tmp_path / "nothing")})
    assert config.errors == (f"TAVILY_API_KEY_FILE: {tmp_path}/nothing cannot be read: No such file or directory",)


def test_the_key_itself_in_place_of_a_path_is_not_repeated() -> None:
    assert load({"TAVILY_API_KEY_FILE": "tvly-canary/1.5"}).errors == (
        "TAVILY_API_KEY_FILE: the file it names cannot be read: No such file or directory",
    )


def test_a_file_that_holds_no_key_is_told(tmp_path: Path) -> None:
    assert load({"TAVILY_API_KEY_FILE": str(written(tmp_path, "\n"))}).warnings == (
        f"TAVILY_API_KEY_FILE: {tmp_path}/secret is empty",
    )
    (tmp_path / "secret").write_bytes(b"\xff\xfe\xfd")
    assert load({"TAVILY_API_KEY_FILE": str(tmp_path / "secret")}).errors == (
        f"TAVILY_API_KEY_FILE: {tmp_path}/secret is not UTF-8 text",
    )
    assert load({"TAVILY_API_KEY_FILE": str(written(tmp_path, "x" * 65537))}).errors == (
        f"TAVILY_API_KEY_FILE: {tmp_path}/secret is over 64 KiB, no file of keys",
    )


def test_files_with_keys_that_others_can_read_are_warned_of(tmp_path: Path) -> None:
    config = load({"TAVILY_API_KEY_FILE": str(written(tmp_path, "tk-1", 0o644))})
    assert config.warnings == (
        f"TAVILY_API_KEY_FILE: others can read {tmp_path}/secret; chmod 600 would keep it to you",
    )
    file = written(tmp_path, {"credentials": {"TAVILY_API_KEY": "tk-canary"}}, 0o604)
    assert load({"WEBSEARCH_CONFIG": str(file)}).warnings == (
        f"{file}: holds keys, and others can read it; chmod 600 would keep them to you",
    )
    file = written(tmp_path, {"credentials": {"SEARXNG_URL": "http://localhost"}}, 0o644)
    assert load({"WEBSEARCH_CONFIG": str(file)}).warnings == (), "an address is no secret"


def test_secrets_that_an_orchestrator_mounts_may_be_open_inside_the_container() -> None:
    assert not is_open(Path("/run/secrets/tavily"), 0o100444)
    assert is_open(Path("/home/me/tavily"), 0o100444)
    assert not is_open(Path("/home/me/tavily"), 0o100640)


def test_the_files_credentials_may_point_to_files_too(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("tk-1")
    (tmp_path / "key").chmod(0o600)
    file = written(tmp_path, {"credentials": {"TAVILY_API_KEY_FILE": str(tmp_path / "key")}})
    config = load({"WEBSEARCH_CONFIG": str(file)})
    assert (keys(config), config.errors, config.warnings) == (("tk-1",), (), ())
    assert config.origins["credentials.TAVILY_API_KEY"] == "file"


# ---------------------------------------------------------------------------------------------------------------------
# addresses


@pytest.mark.parametrize(
    ("written_", "address"),
    [
        ("localhost:8080", "http://localhost:8080"),
        ("https://s.example/searx/", "https://s.example/searx/"),
        ("HTTP://s.example", "http://s.example"),
        ("http://u:p%40ss@s.example", "http://u:p%40ss@s.example"),
        ("http://searx_ng:8080", "http://searx_ng:8080"),
        ("http://[::1]:8080", "http://[::1]:8080"),
        ("http://s.example/search?q=<query>", "http://s.example/search"),
    ],
)
def test_an_address_is_read_as_it_was_meant(written_: str, address: str) -> None:
    config = load({"SEARXNG_URL": written_})
    assert (keys(config, "searxng"), config.errors) == ((address,), ())


@pytest.mark.parametrize(
    "written_",
    [
        "ftp://canary",
        "https://u:canary@",
        "http://canary:port",
        "http://u:canary@[::1",
        "http:/canary",
        "http://cana ry",
    ],
)
def test_what_is_no_address_is_a_mistake_and_not_repeated(written_: str) -> None:
    assert load({"SEARXNG_URL": written_}).errors == (
        "SEARXNG_URL: must be an address such as http://localhost:8080: http or https, and a host",
    )


def test_a_key_in_place_of_an_address_is_never_looked_up_as_a_host() -> None:
    config = load({"SEARXNG_URL": "tvly-canary"})
    assert config.errors == ("SEARXNG_URL: looks like a key, not an address",)
    assert "tvly-canary" in config.secrets


def test_the_same_address_twice_counts_once() -> None:
    config = load({"SEARXNG_URL": "s.example, http://s.example"})
    assert keys(config, "searxng") == ("http://s.example",)
    assert config.warnings == ("SEARXNG_URL: holds the same address twice; the second is dropped",)


# ---------------------------------------------------------------------------------------------------------------------
# the address of the state


@pytest.mark.parametrize("name", ["WEBSEARCH_STATE", "WEBSEARCH_STATE_FILE"])
def test_the_address_of_the_state_may_hold_a_password_and_stand_in_a_file(tmp_path: Path, name: str) -> None:
    address = "rediss://ada:p%40ss-word-1815@r.example:6380/0?ssl_keyfile=canary"
    value = str(written(tmp_path, f"{address}\n")) if name.endswith("_FILE") else address
    config = load({name: value})
    assert (config.errors, config.warnings, config.state.url) == ((), (), address)
    assert {"p%40ss-word-1815", "p@ss-word-1815"} <= set(config.secrets)
    shown = show(config)
    assert shown["state"]["url"] == {"value": "rediss://r.example:6380/0", "from": config.origins["state.type"]}
    told = json.dumps(shown) + repr(config)
    assert not [secret for secret in ("ada", "1815", "canary") if secret in told]


def test_a_file_that_holds_no_address_for_the_state_is_told_without_its_content(tmp_path: Path) -> None:
    (complaint,) = complaints(WEBSEARCH_STATE_FILE=str(written(tmp_path, "redis://:canary@r.example:port")))
    assert complaint.startswith("WEBSEARCH_STATE_FILE: must be an address such as redis://host:6379/0")
    assert "canary" not in complaint
    assert complaints(WEBSEARCH_STATE_FILE=str(tmp_path / "nothing"))[0].startswith("WEBSEARCH_STATE_FILE: ")


# ---------------------------------------------------------------------------------------------------------------------
# tokens

GOOD, OTHER = "0123456789abcdef", "fedcba9876543210"


def test_one_token_is_named_default() -> None:
    (token,) = load({"WEBSEARCH_TOKEN": GOOD}).server.tokens
    assert (token.name, token.token, token.daily_limit) == ("default", GOOD, None)


def test_several_tokens_have_names() -> None:
    tokens = load({"WEBSEARCH_TOKENS": f"cursor:{GOOD}, n8n:{OTHER}:x"}).server.tokens
    assert [(each.name, each.token) for each in tokens] == [("cursor", GOOD), ("n8n", f"{OTHER}:x")]
    assert [each.name for each in load({"WEBSEARCH_TOKENS": GOOD}).server.tokens] == ["default"]


def test_tokens_may_stand_in_a_file(tmp_path: Path) -> None:
    config = load({"WEBSEARCH_TOKEN_FILE": str(written(tmp_path, f"{GOOD}\n"))})
    assert [each.token for each in config.server.tokens] == [GOOD]
    assert complaints(WEBSEARCH_TOKEN_FILE=str(tmp_path / "nothing"))[0].startswith("WEBSEARCH_TOKEN_FILE: ")


def test_the_files_tokens_may_have_a_daily_limit(tmp_path: Path) -> None:
    tokens = [{"name": "cursor", "token": GOOD, "daily_limit": 50}, {"name": "n8n", "token": OTHER}]
    config = load({"WEBSEARCH_CONFIG": str(written(tmp_path, {"server": {"tokens": tokens}}))})
    assert [(each.name, each.daily_limit) for each in config.server.tokens] == [("cursor", 50), ("n8n", None)]
    assert set(config.secrets) == {GOOD, OTHER}


@pytest.mark.parametrize(
    "environ",
    [
        {"WEBSEARCH_TOKEN": ""},
        {"WEBSEARCH_TOKEN": '""'},
        {"WEBSEARCH_TOKEN": "${WEBSEARCH_TOKEN}"},
        {"WEBSEARCH_TOKEN": f"{GOOD},${{X}}"},
        {"WEBSEARCH_TOKENS": ""},
        {"WEBSEARCH_TOKENS": "cursor:"},
        {"WEBSEARCH_TOKENS": f"cursor:${{X}},n8n:{GOOD}"},
        {"WEBSEARCH_TOKEN_FILE": ""},
    ],
)
def test_an_empty_token_never_opens_the_door(environ: dict[str, str]) -> None:
    assert any("is there but empty, which would let everybody in" in each for each in complaints(**environ))


@pytest.mark.parametrize(
    ("environ", "complaint"),
    [
        (
            {"WEBSEARCH_TOKEN": GOOD, "WEBSEARCH_TOKENS": f"a:{OTHER}"},
            "WEBSEARCH_TOKEN: is set beside WEBSEARCH_TOKENS",
        ),
        ({"WEBSEARCH_TOKENS": f"a:{GOOD},a:{OTHER}"}, "WEBSEARCH_TOKENS: two tokens have the same name"),
        ({"WEBSEARCH_TOKENS": f"a:{GOOD},b:{GOOD}"}, "WEBSEARCH_TOKENS: the same token stands there twice"),
        ({"WEBSEARCH_TOKENS": f"{GOOD},{OTHER}"}, "WEBSEARCH_TOKENS: must be name:token pairs"),
        ({"WEBSEARCH_TOKENS": f"a b:{GOOD}"}, "WEBSEARCH_TOKENS: a token needs a name of letters"),
        ({"WEBSEARCH_TOKEN": "zwölf-zeichen-lang"}, "WEBSEARCH_TOKEN: a token must be printable ASCII without spaces"),
        (
            {"WEBSEARCH_TOKEN": "canary canary canary"},
            "WEBSEARCH_TOKEN: a token must be printable ASCII without spaces",
        ),
    ],
)
def test_tokens_that_leave_a_doubt_end_the_program(environ: dict[str, str], complaint: str) -> None:
    told = complaints(**environ)
    assert told[0].startswith(complaint)
    assert not any(secret in each for secret in (GOOD, OTHER, "canary") for each in told)


@pytest.mark.parametrize(
    ("tokens", "complaint"),
    [
        ("abc", "server.tokens: must be a list of {name, token} objects"),
        (["abc"], "server.tokens[0]: must be an object, not text"),
        ([{"name": "a"}], "server.tokens[0]: a token is there but empty"),
        ([{"name": "a", "token": ""}], "server.tokens[0]: a token is there but empty"),
        ([{"name": "a", "token": "${T}"}], "server.tokens[0]: a token is there but empty"),
        ([{"token": GOOD}, {"token": OTHER}], "server.tokens[0]: a token needs a name of letters"),
        ([{"name": "a", "tokn": GOOD}], "server.tokens[0].tokn: no such setting; did you mean 'token'?"),
        ([{"name": "a", "token": GOOD, "daily_limit": -1}], "server.tokens[0].daily_limit: must be a whole number"),
        (
            [{"name": "a", "token": GOOD}, {"name": "a", "token": OTHER}],
            "server.tokens[1]: two tokens have the same name",
        ),
    ],
)
def test_every_fault_in_the_files_tokens_ends_the_program(tmp_path: Path, tokens: object, complaint: str) -> None:
    told = complaints(WEBSEARCH_CONFIG=str(written(tmp_path, {"server": {"tokens": tokens}})))
    assert told[0].startswith(complaint)
    assert not any(secret in each for secret in (GOOD, OTHER) for each in told)


def test_a_token_that_can_be_guessed_is_warned_of() -> None:
    assert load({"WEBSEARCH_TOKEN": "hunter2"}).warnings == (
        "WEBSEARCH_TOKEN: a token has fewer than 16 characters; `token new` makes a better one",
    )
