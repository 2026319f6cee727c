"""`explain`: a saved reply goes through the reading that a live one does, for every provider."""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import providers
from gateway import cli, policy
from gateway.explain import TRANSPORT_FAULTS
from gateway.explain import explain as explain_reply
from providers import Wire
from tests.cases import Cases
from tests.rooms import HandTime, ask, rest, running, told
from tests.test_recordings import RECORDINGS, Recording, moment, settings_for
from tests.vendors import Play, Played, json_play

KEY = "sk-canary-7Qd9Zx2LmP4v"


class Explained(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        assert self.out.count("\n") == 1
        told: dict[str, Any] = json.loads(self.out)
        return told


Explain = Callable[..., Explained]


@pytest.fixture
def explain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Explain:
    """`explain PROVIDER STATUS` with a saved body, headers and variables: what the command says."""
    for name in list(os.environ):
        if name.endswith(("_API_KEY", "_URL", "_proxy", "_PROXY")) or name.startswith("WEBSEARCH_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))

    def run(
        provider: str, status: object, body: bytes | None = None, *options: str, headers: Any = None, **environ: str
    ) -> Explained:
        arguments = ["explain", provider, str(status)]
        if body is not None:
            (tmp_path / "body").write_bytes(body)
            arguments.append(str(tmp_path / "body"))
        for name, value in (headers or {}).items():
            arguments += ["--header", f"{name}: {value}"]
        with monkeypatch.context() as patched:
            for name, value in environ.items():
                patched.setenv(name, value)
            capsys.readouterr()
            code = cli.run([*arguments, *options])
        return Explained(code, *capsys.readouterr())

    return run


def explained(provider: str, recording: Recording) -> dict[str, Any]:
    wire = Wire(
        recording["status"] or 0,
        {name.lower(): value for name, value in recording["headers"].items()},
        (recording["body"] or "").encode("utf-8", "surrogatepass"),
        moment(recording),
    )
    adapter = providers.find(provider)(settings_for(recording), lambda: moment(recording))
    tuning = policy.Tuning(throttle_s=60, limited_s=None, quota_retry_s=21600, most_s=3600)
    return explain_reply(adapter, recording.get("transport") or wire, tuning, 12_000, first_page="step" in recording)


@pytest.mark.parametrize("provider", RECORDINGS)
def test_every_recording_is_explained_as_it_is_read(provider: str) -> None:
    with Cases() as cases:
        for recording in RECORDINGS[provider]:
            with cases.case(recording["name"]):
                check_explained(provider, recording)


def check_explained(provider: str, recording: Recording) -> None:
    said, expect = explained(provider, recording), recording["expect"]
    assert said["outcome"] == expect["outcome"]
    assert said["retry_after_s"] == (
        None if expect["retry_after_s"] is None else pytest.approx(expect["retry_after_s"], abs=1)
    )
    assert said["row"]
    if said["outcome"] == "ok":
        assert said["chain_entry"] is None
        assert bool(said["rest_s"]) == (said["left"] is not None and said["left"]["remaining"] == 0)
    else:
        assert said["results"] == []
        assert said["chain_entry"]["outcome"] == expect["outcome"]
    if expect["results"] is not None:
        assert len(said["results"]) == len(expect["results"])


FIRST: dict[str, Recording] = {provider: listed[0] for provider, listed in RECORDINGS.items()}
RELAYED = next(recording for recording in RECORDINGS["grok"] if "route" in recording)


@pytest.mark.parametrize(("provider", "recording"), [*FIRST.items(), ("grok", RELAYED)])
def test_the_command_explains_a_saved_reply_of_everybody(provider: str, recording: Recording, explain: Explain) -> None:
    environ = {"GROK_API_URL": "http://relay.example", "GROK_API_KEY": "sk-of-a-relay"} if "route" in recording else {}
    said = explain(
        provider,
        recording.get("transport") or recording["status"],
        (recording["body"] or "").encode("utf-8", "surrogatepass"),
        *("--json", "--now", datetime.fromtimestamp(moment(recording), UTC).isoformat()),
        headers=recording["headers"],
        **environ,
    )
    assert (said.code, said.err, said.json["outcome"]) == (0, "", recording["expect"]["outcome"])


@pytest.mark.parametrize("provider", ["bocha", "duckduckgo"])
@pytest.mark.parametrize(
    ("fault", "outcome", "detail"),
    [
        ("read_timeout", "timeout", "no whole reply in time"),
        ("connect_timeout", "timeout", "connect timeout"),
        ("connect_error", "network", "ECONNREFUSED"),
        ("dns_failure", "network", "ENOTFOUND"),
        ("connection_reset", "network", "ECONNRESET"),
        ("tls_failure", "network", "TLS failure"),
    ],
)
def test_a_word_for_a_transport_fault_stands_in_the_place_of_a_status(
    provider: str, fault: str, outcome: str, detail: str, explain: Explain
) -> None:
    said = explain(provider, fault, None, "--json")
    assert said.json["outcome"] == outcome
    assert said.json["chain_entry"] == {"provider": provider, "outcome": outcome, "detail": detail}
    assert (said.json["status"], said.json["transport"]) == (None, fault)
    assert (said.json["rest_s"], said.json["rest_grows"]) == (30, True)


def test_every_transport_fault_is_tried_here() -> None:
    assert set(TRANSPORT_FAULTS) == {
        "read_timeout",
        "connect_timeout",
        "connect_error",
        "dns_failure",
        "connection_reset",
        "tls_failure",
    }


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("provider", "play"),
    [
        ("bocha", json_play({"code": "403", "message": "You do not have enough money"}, 403)),
        ("tavily", json_play({"detail": {"error": "too many"}}, 429, headers={"Retry-After": "7"})),
        ("tavily", json_play({"detail": "x" * 900}, 400)),
        ("brave", json_play({"type": "search", "query": {"original": "moss"}, "web": {"results": []}})),
        ("exa", Play(302, {"location": "https://elsewhere.example"}, b"")),
        ("searxng", Play(403, {"content-type": "text/html"}, b"<!doctype html><title>Forbidden</title>")),
        ("duckduckgo", Play(202, {"content-type": "text/html"}, b"<!doctype html><form class=challenge-form></form>")),
    ],
)
async def test_chain_entry_and_rest_are_those_of_a_live_reply(
    played: Played, provider: str, play: Play, explain: Explain
) -> None:
    played.script(provider, play)
    async with running(played, [provider], time=HandTime()) as gateway:
        answer = await ask(gateway)
        resting = await rest(gateway, provider)
    said = explain(provider, play.status, play.body, "--json", headers=play.headers)
    entry = answer.body["meta"]["fallback_chain"][0]
    del entry["elapsedMs"]
    assert said.json["chain_entry"] == entry, told(answer)
    assert said.json["rest_s"] == (0 if resting is None else resting[1])


def test_for_people_it_says_which_row_matched_what_follows_and_what_the_agent_sees(explain: Explain) -> None:
    said = explain("tavily", 432, b'{"detail": {"error": "This request exceeds your plan"}}')
    assert said.out.splitlines() == [
        "outcome   quota_exhausted",
        "because   432",
        "rest      21600 s for this key",
        "message   This request exceeds your plan",
        "agent     sees tavily: quota_exhausted (http_432), and gets the next provider's answer",
    ]
    found = explain("tavily", 200, b'{"results": [{"title": "T", "url": "https://a.example/"}]}')
    assert found.out.splitlines()[-3:] == ["agent     sees 1 result", "  T", "    https://a.example/"]


def test_the_operators_own_tuning_decides_the_rest(explain: Explain, tmp_path: Path) -> None:
    file = tmp_path / "tuned.json"
    file.write_text('{"providers": [{"name": "tavily", "quota_retry_s": 99}], "defaults": {"cooldown_default_s": 5}}')
    tuned = {"WEBSEARCH_CONFIG": str(file)}
    assert explain("tavily", 432, None, "--json", **tuned).json["rest_s"] == 99
    assert explain("tavily", 500, None, "--json", **tuned).json["rest_s"] == 5


def test_a_body_may_come_through_standard_input(explain: Explain, monkeypatch: pytest.MonkeyPatch) -> None:
    body = b'{"code": "403", "message": "You do not have enough money"}\r\n'
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(body)))
    assert explain("bocha", 403, None, "-", "--json").json["outcome"] == "quota_exhausted"


@pytest.mark.parametrize("status", [200, 400, 429, 500])
def test_what_a_vendor_echoes_of_our_secrets_is_not_printed(status: int, explain: Explain) -> None:
    token, proxy = "gateway-token-Vb3Nw8Rt", "http://user:pr0xy-pass-word@proxy.example"
    environ = {"TAVILY_API_KEY": KEY, "WEBSEARCH_TOKEN": token, "HTTPS_PROXY": proxy}
    said = f"key {KEY} token {token} proxy pr0xy-pass-word half {KEY[:9]}"
    rows = [{"title": said, "url": f"https://a.example/?k={KEY}", "content": said}]
    body = json.dumps({"detail": {"error": said}, "results": rows, "query": said}).encode()
    for options in ([], ["--json"]):
        out = explain("tavily", status, body, *options, headers={"x": KEY}, **environ)
        assert out.code == 0
        for secret in (KEY, token, "pr0xy-pass-word"):
            pieces = [secret[at : at + 8] for at in range(len(secret) - 7)]
            assert not [piece for piece in pieces if piece in out.out + out.err]
    assert "***" in out.out


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["tavilly", "401"], "there are: "),
        (["tavily", "99"], "STATUS must be 100 to 599"),
        (["tavily", "600"], "STATUS must be 100 to 599"),
        (["tavily", "4O1"], "STATUS must be 100 to 599"),
        (["tavily", "²00"], "STATUS must be 100 to 599"),
        (["tavily", "timeout"], "read_timeout"),
        (["tavily", "401", "/nowhere/at/all"], "No such file"),
        (["tavily", "401", "/"], "Is a directory"),
        (["tavily", "401", "--header", "no colon"], "name:value"),
        (["tavily", "401", "--header", ": nameless"], "name:value"),
        (["tavily", "401", "--now", "yesterday"], "yesterday"),
    ],
)
def test_bad_input_is_2_with_one_plain_complaint_and_nothing_on_stdout(
    arguments: list[str], complaint: str, explain: Explain, capsys: pytest.CaptureFixture[str]
) -> None:
    code = cli.run(["explain", *arguments])
    out, err = capsys.readouterr()
    assert (code, out) == (2, "")
    assert complaint in err
    assert len(err.splitlines()) == 2


def test_a_short_secret_does_not_spoil_our_own_words(explain: Explain) -> None:
    body = b'{"results": [{"title": "look", "url": "https://a.example/"}], "query": "q", "response_time": 1}'
    said = explain("tavily", 200, body, "--json", TAVILY_API_KEY="ok", WEBSEARCH_TOKEN="quota")
    assert said.json["outcome"] == "ok"
    failed = explain("tavily", 432, b"", "--json", TAVILY_API_KEY="quota", WEBSEARCH_TOKEN="tavily")
    assert failed.json["chain_entry"] == {"provider": "tavily", "outcome": "quota_exhausted", "detail": "http_432"}


def test_a_program_reads_which_row_matched_and_what_the_agent_sees(explain: Explain) -> None:
    failed = explain("bocha", 403, b'{"code": "403", "message": "You do not have enough money"}', "--json").json
    assert failed["matched"] == {
        "table": "vendor",
        "status": 403,
        "code": None,
        "phrase": "You do not have enough money",
    }
    assert (failed["rest_scope"], failed["rest_until"], failed["answer"]) == ("key", None, None)
    shared = explain("bocha", 504, None, "--json").json
    assert (shared["matched"]["table"], shared["matched"]["status"], shared["rest_scope"]) == (
        "shared",
        504,
        "provider",
    )
    assert explain("exa", 401, None, "--json").json["rest_until"] == "restart or another key"
    rows = [
        {"title": "A", "url": "https://a.example/x", "content": "short"},
        {"title": "A", "url": "http://www.a.example/x/#top", "content": "the richer text"},
        {"title": "B", "url": "https://b.example/" + "x" * 2100, "content": "c"},
    ]
    found = explain("tavily", 200, json.dumps({"results": rows}).encode(), "--json").json
    assert (found["matched"]["table"], found["chain_entry"]) == ("shape", None)
    assert [(row["url"], row["content"]) for row in found["results"]] == [("https://a.example/x", "the richer text")]
    assert found["notes"] == ["1 result dropped: the URL is over 2048 characters"]
    assert failed.keys() == shared.keys() == found.keys()


def test_a_short_key_does_not_spoil_results_or_our_own_words(explain: Explain) -> None:
    row = {"title": "A test page", "url": "https://test.example/key"}
    found = explain("exa", 200, json.dumps({"results": [row]}).encode(), "--json", EXA_API_KEY="test").json
    assert found["results"][0]["title"] == "A test page"
    body = b'{"code": "403", "message": "You do not have enough money"}'
    failed = explain("bocha", 403, body, "--json", BOCHA_API_KEY="e").json
    assert failed["chain_entry"]["detail"] == "http_403 You do not have enough money"


def test_a_header_that_comes_twice_is_one_list(explain: Explain) -> None:
    windows = ("X-RateLimit-Policy: 1;w=1", "X-RateLimit-Policy: 2000;w=2592000")
    more = ("X-RateLimit-Limit: 1, 2000", "X-RateLimit-Remaining: 0, 7", "X-RateLimit-Reset: 1, 99999")
    options = [part for line in (*windows, *more) for part in ("--header", line)]
    assert explain("brave", 429, b"{}", "--json", *options).json["outcome"] == "rate_limited"


def test_a_first_page_is_explained_only_where_there_is_one_and_it_decides(explain: Explain) -> None:
    said = explain("brave", 200, b"{}", "--first-page")
    assert (said.code, "brave visits no page before it searches" in said.err) == (2, True)
    front = b'<form id="search"><input type="hidden" name="sc" value="k3"></form>'
    said = explain("startpage", 200, front, "--first-page")
    assert (said.code, "explain the reply to the search itself" in said.err) == (2, True)
