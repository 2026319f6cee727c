"""`probe`: what it says before it asks, what it sends and counts, what it writes, and how it ends."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import pty
import re
import signal
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import anyio.to_thread
import pytest

from gateway import cli, probing
from gateway.config import Config
from providers._reading import redact, spellings
from tests import test_recordings, test_secrets
from tests.authority import PlayedAuthority
from tests.processes import ROOT, Ended, command, environment, logging_undone, written
from tests.rooms import EMPTY, HandTime, ask, configured, counted, failing, rest, running, sqlite, streak, tuned
from tests.test_account import keep, kept, loaded, over
from tests.vendors import (
    GARBAGE,
    RESET,
    Play,
    Played,
    Request,
    configuration,
    json_play,
    page_play,
    recording,
    success,
)

pytestmark = pytest.mark.anyio

KEY = "tvly-dev-Rw4Np6Jx9Tc2FzKq"
AS_EXPECTED = (success("tavily"), EMPTY["tavily"], failing(401), failing(422))

Run = Callable[..., Awaitable[Ended]]


@pytest.fixture
async def run(
    played: Played, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> AsyncIterator[Run]:
    """`probe` over the played vendors, with the recordings in `tmp_path / "out"`."""
    for name in list(os.environ):
        if name.endswith(("_API_KEY", "_URL", "_proxy", "_PROXY")) or name.startswith("WEBSEARCH_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    out = tmp_path / "out"
    out.mkdir()

    async def probe(
        name: str,
        *options: str,
        chain: Any = ("tavily",),
        keys: Mapping[str, str] = {"TAVILY_API_KEY": KEY},
        content: dict[str, Any] | None = None,
        typed: bytes | None = None,
        **sections: Any,
    ) -> Ended:
        if content is None:
            content = configuration(played, [tuned(each) if isinstance(each, str) else each for each in chain])
            content = content | {"state": sqlite(tmp_path / "state")} | sections
            content["credentials"] |= keys
        monkeypatch.setenv("WEBSEARCH_CONFIG", str(written(tmp_path / "config.json", content)))
        master, slave = pty.openpty()
        try:
            if typed is not None:
                os.write(master, typed)
            with open(slave) if typed is not None else open(os.devnull) as stdin, monkeypatch.context() as patched:
                patched.setattr("sys.stdin", stdin)
                arguments = ["probe", name, "--out", str(out), *options]
                code = await anyio.to_thread.run_sync(cli.run, arguments)
        finally:
            os.close(master)
        told = capsys.readouterr()
        return Ended(code, told.out.encode(), told.err.encode())

    with logging_undone():
        yield probe


def saved(tmp_path: Path, name: str = "tavily") -> list[test_recordings.Recording]:
    """The recordings of a file, each of which passes every test for one of our own."""
    found: list[test_recordings.Recording] = json.loads((tmp_path / "out" / f"{name}.json").read_text("utf-8"))
    provider = name.partition("-")[0]
    for each in found:
        test_recordings.test_a_recording_means_what_it_says(provider, each)
    assert len({each["name"] for each in found}) == len(found)
    return found


def outcomes(recordings: list[test_recordings.Recording]) -> list[str]:
    return [each["expect"]["outcome"] for each in recordings]


def state_of(played: Played, tmp_path: Path, *chain: Any) -> Config:
    """The configuration of `chain` that shares the state of a probe."""
    return configured(played, chain or ("tavily",), keys={"TAVILY_API_KEY": KEY}, state=sqlite(tmp_path / "state"))


# ---------------------------------------------------------------------------------------------------------------------
# before


async def test_what_it_will_spend_is_told_before_the_first_request(
    played: Played, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    before: list[str] = []

    def first(request: Request) -> Play:
        before.append(capsys.readouterr().out)
        return success("tavily")(request)

    played.script("tavily", first, *AS_EXPECTED[1:])
    keys = {"TAVILY_API_KEY": f"{KEY},tvly-second-1111"}
    assert (await run("tavily", "--yes", keys=keys, chain=[tuned("tavily", quota={"limit": 20})])).code == 0
    (told,) = before
    host = urlsplit(played.url).netloc
    assert f"probe tavily: 4 requests to {host}, 3 of them with key #1 of 2 (TAVILY_API_KEY)\n" in told
    assert [line.split("  ")[1] for line in told.splitlines()[1:5]] == [
        "ordinary",
        "empty",
        "wrong key",
        "bad parameter",
    ]
    assert "The vendor may bill each of them" in told
    assert "3 count in our own budget (monthly:20@day2): 0 used, 20 of 20 left.\n" in told
    assert "out/tavily.json.\n" in told


async def test_without_leave_nothing_is_sent_and_nothing_written(played: Played, run: Run, tmp_path: Path) -> None:
    ended = await run("tavily")
    assert ended.code == 2
    assert "probe tavily: 4 requests to " in ended.out
    assert "--yes" in ended.err
    assert played.count() == 0
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.parametrize(("typed", "code", "sent"), [(b"y\n", 0, 4), (b"n\n", 1, 0), (b"\n", 1, 0), (b"\x04", 1, 0)])
async def test_on_a_terminal_it_asks_and_only_a_yes_goes_on(
    played: Played, run: Run, tmp_path: Path, typed: bytes, code: int, sent: int
) -> None:
    played.script("tavily", *AS_EXPECTED)
    ended = await run("tavily", typed=typed)
    assert (ended.code, played.count()) == (code, sent)
    assert "go on? [y/N] " in ended.out
    assert ("nothing is sent" in ended.out) == (sent == 0)
    assert bool(list((tmp_path / "out").iterdir())) == (sent > 0)


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("tavly", "no provider is called 'tavly'; did you mean 'tavily'?"),
        ("altavista", "there are: tavily, bocha, "),
        (KEY, "no provider is called what is written there"),
        ("exa", "exa is not configured: set EXA_API_KEY"),
    ],
)
async def test_who_is_unknown_or_not_configured_cannot_be_probed(
    played: Played, run: Run, name: str, complaint: str
) -> None:
    ended = await run(name, "--yes")
    assert (ended.code, ended.stdout) == (2, b"")
    assert complaint in ended.err
    assert KEY not in ended.err
    assert played.count() == 0


async def test_a_faulty_configuration_asks_nobody(played: Played, run: Run) -> None:
    ended = await run("tavily", "--yes", chain=[tuned("tavily", timeout_ms="soon")])
    assert (ended.code, played.count()) == (2, 0)
    assert "providers[tavily].timeout_ms" in ended.err


async def test_a_budget_that_does_not_reach_is_not_begun(played: Played, run: Run) -> None:
    ended = await run("tavily", "--yes", chain=[tuned("tavily", quota={"limit": 2})])
    assert (ended.code, played.count()) == (2, 0)
    assert "our own budget is used up: 2 left of 3 needed" in ended.err


async def test_what_cannot_be_counted_is_not_sent(played: Played, run: Run, unused_tcp_port: int) -> None:
    away = {"type": "redis", "url": f"redis://127.0.0.1:{unused_tcp_port}/0"}
    ended = await run("tavily", "--yes", state=away)
    assert (ended.code, played.count()) == (2, 0)
    assert "the state is away, so that nothing can be counted" in ended.err


async def test_a_folder_that_is_none_is_found_before_anything_is_spent(
    played: Played, run: Run, tmp_path: Path
) -> None:
    ended = await run("tavily", "--yes", "--out", str(tmp_path / "nowhere"))
    assert (ended.code, played.count()) == (2, 0)
    assert "nowhere is no folder" in ended.err


# ---------------------------------------------------------------------------------------------------------------------
# asking


async def test_four_requests_in_order_and_those_with_the_key_are_counted(
    played: Played, run: Run, tmp_path: Path
) -> None:
    played.script("tavily", *AS_EXPECTED)
    ended = await run("tavily", "--yes")
    assert (ended.code, ended.err) == (0, "")
    ordinary, empty, wrong, bad = played.requests("tavily")
    assert [each.headers["authorization"] == f"Bearer {KEY}" for each in (ordinary, empty, wrong, bad)] == [
        True,
        True,
        False,
        True,
    ]
    assert ordinary.json["query"] == wrong.json["query"]
    word = empty.json["query"]
    assert re.fullmatch("[a-z]{20}", word)
    assert empty.json["include_domains"] == [f"{word}.com"]
    assert (bad.json["query"], bad.json["max_results"]) == ("", -1)
    async with probing.opened(state_of(played, tmp_path), "tavily") as probe:
        assert any("3 used, 997 of 1000 left" in each for each in (await probe.plan()).lines)

    lines = ended.out.splitlines()[-6:]
    assert [re.split(r"  +", line)[:2] for line in lines[:4]] == [
        ["ordinary", "200"],
        ["empty", "200"],
        ["wrong key", "401"],
        ["bad parameter", "422"],
    ]
    assert re.fullmatch(r"ordinary +200 +ok +shape of a success: results; 5 rows in \d+ ms", lines[0])
    assert lines[-1].endswith("out/tavily.json: read it before you give it to anybody")
    recordings = saved(tmp_path)
    assert outcomes(recordings) == ["ok", "no_results", "auth_failure", "request_error"]
    assert {each["confidence"] for each in recordings} == {"user-reported"}
    assert re.fullmatch(r"probe, \d{4}-\d\d-\d\d", recordings[0]["source"])
    assert (tmp_path / "out" / "tavily.json").stat().st_mode & 0o777 == 0o600


async def test_what_is_not_as_it_should_be_is_marked_and_ends_with_1(played: Played, run: Run, tmp_path: Path) -> None:
    played.script("tavily", success("tavily"), success("tavily", n_rows=1), failing(403), json_play({}, 500))
    ended = await run("tavily", "--yes")
    assert ended.code == 1
    marks = [line.partition("<- ")[2] for line in ended.out.splitlines() if re.search(r" in \d+ ms", line)]
    assert marks == ["", "expected no_results", "", "expected request_error"]
    assert "; 1 row in " in ended.out
    assert outcomes(saved(tmp_path)) == ["ok", "ok", "auth_failure", "server_error"]


async def test_as_json_it_is_one_object_and_the_rest_is_said_on_the_side(
    played: Played, run: Run, tmp_path: Path
) -> None:
    played.script("tavily", success("tavily"), EMPTY["tavily"], RESET, failing(422))
    ended = await run("tavily", "--yes", "--json")
    assert ended.code == 1
    assert ended.err.startswith("probe tavily: 4 requests to ")
    told = ended.json
    assert (told["provider"], told["as_expected"]) == ("tavily", False)
    assert told["file"] == str(tmp_path / "out" / "tavily.json")
    assert [(each["name"], each["status"], each["outcome"], each["as_expected"]) for each in told["requests"]] == [
        ("ordinary", 200, "ok", True),
        ("empty", 200, "no_results", True),
        ("wrong key", None, "network", False),
        ("bad parameter", 422, "request_error", True),
    ]


async def test_requests_with_the_key_keep_its_pace_and_nobody_rests_or_recovers(played: Played, tmp_path: Path) -> None:
    hand = HandTime()
    played.script("brave", failing(500))
    async with running(played, [tuned("brave", min_interval_ms=1000)], time=hand, state=sqlite(tmp_path)) as gateway:
        await ask(gateway)
        before = await rest(gateway, "brave"), await streak(gateway, "brave"), await gateway.history.last("brave")
        played.script("brave", success("brave"), failing(429, 600), failing(401), failing(402))
        hand.slept.clear()
        async with probing.opened(gateway.config, "brave", hand.clock) as probe:
            plan = await probe.plan()
            asked = [each async for each in probe.ask()]
        assert [each.reply.outcome for each in asked if each.reply] == [
            "ok",
            "rate_limited",
            "auth_failure",
            "quota_exhausted",
        ]
        assert hand.slept == [1, 1, 1]
        assert await counted(gateway, "brave") == 4
        hand.move(-3)
        after = await rest(gateway, "brave"), await streak(gateway, "brave"), await gateway.history.last("brave")
    assert before == after
    assert before[0] == ("server_error", 60)
    assert any(each.startswith("It rests now (server_error, 60 s left), and would be asked all") for each in plan.lines)
    assert any("1 s apart" in each for each in plan.lines)


async def test_what_others_spend_meanwhile_is_not_overdrawn(played: Played, tmp_path: Path) -> None:
    config = state_of(played, tmp_path, tuned("tavily", quota={"limit": 3}))
    async with probing.opened(config, "tavily") as probe, probing.opened(config, "tavily") as other:
        assert (await probe.plan()).refusal == ""
        assert len([each async for each in other.ask()]) == 4
        asked = [each async for each in probe.ask()]
    assert [(each.why, each.is_expected) for each in asked if not each.reply] == [
        ("not asked: our own budget is used up", False)
    ] * 3
    assert played.count() == 5


async def test_a_second_probe_overwrites_nothing(played: Played, run: Run, tmp_path: Path) -> None:
    played.script("tavily", *AS_EXPECTED, *AS_EXPECTED)
    await run("tavily", "--yes")
    before = (tmp_path / "out" / "tavily.json").read_bytes()
    ended = await run("tavily", "--yes")
    assert "out/tavily-2.json: read it" in ended.out
    assert (tmp_path / "out" / "tavily.json").read_bytes() == before
    assert len(saved(tmp_path, "tavily-2")) == 4


async def test_the_command_is_there(played: Played, tmp_path: Path) -> None:
    played.script("tavily", *AS_EXPECTED)
    file = written(tmp_path / "config.json", configuration(played, [tuned("tavily")]))
    arguments = ("probe", "tavily", "--yes", "--out", str(tmp_path))
    ended = await command(tmp_path, *arguments, WEBSEARCH_CONFIG=str(file), WEBSEARCH_STATE="memory")
    assert (ended.code, ended.err) == (0, "")
    assert "kept in memory, so this is forgotten at the end" in ended.out
    assert "played-" not in ended.out + (tmp_path / "tavily.json").read_text("utf-8")


async def test_what_was_answered_before_an_interrupt_is_in_the_file(played: Played, tmp_path: Path) -> None:
    played.script("tavily", *AS_EXPECTED[:2], Play(silent=True))
    file = written(tmp_path / "config.json", configuration(played, [tuned("tavily")]))
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "gateway", "probe", "tavily", "--yes", "--out", str(tmp_path)),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        cwd=ROOT,
        env=environment(tmp_path, WEBSEARCH_CONFIG=str(file)),
    )
    await played.wait_for(3, limit_s=30)
    process.send_signal(signal.SIGINT)
    _, err = await process.communicate()
    assert (process.returncode, err) == (130, b"")
    assert outcomes(json.loads((tmp_path / "tavily.json").read_text("utf-8"))) == ["ok", "no_results"]


# ---------------------------------------------------------------------------------------------------------------------
# odd ones


async def test_an_engine_without_a_key_is_asked_three_times_and_says_so(
    played: Played, run: Run, tmp_path: Path
) -> None:
    played.script("duckduckgo", success("duckduckgo"), recording("duckduckgo", "nothing_html"), page_play())
    ended = await run("duckduckgo", "--yes", chain=["duckduckgo"])
    assert (ended.code, played.count()) == (0, 3)
    assert "probe duckduckgo: 3 requests to " in ended.out
    assert ", which wants no key\n" in ended.out
    assert re.search(r"wrong key +- +not sent: there is no key\n", ended.out)
    assert outcomes(saved(tmp_path, "duckduckgo")) == ["ok", "no_results", "server_error"]


async def test_an_address_with_a_password_gets_another_one_and_is_shown_without(
    played: Played, run: Run, tmp_path: Path
) -> None:
    address = played.address("searxng").replace("//", "//searcher:Tr4-correct-horse@")
    played.script("searxng", success("searxng"), EMPTY["searxng"], failing(401), json_play({"error": "No query"}, 400))
    ended = await run("searxng", "--yes", chain=["searxng"], keys={"SEARXNG_URL": address})
    assert (ended.code, played.count()) == (0, 4)
    sent = [base64.b64decode(each.headers["authorization"].split()[1]) for each in played.requests("searxng")]
    assert [each == b"searcher:Tr4-correct-horse" for each in sent] == [True, True, False, True]
    assert b"q=&" in played.requests("searxng")[3].body
    assert outcomes(saved(tmp_path, "searxng")) == ["ok", "no_results", "auth_failure", "request_error"]
    assert not [secret for secret in ("searcher", "correct", "horse") if secret in ended.out]


async def test_an_address_without_a_password_has_no_wrong_key(played: Played, run: Run) -> None:
    played.script("searxng", success("searxng"), EMPTY["searxng"], json_play({"error": "No query"}, 400))
    ended = await run("searxng", "--yes", chain=["searxng"])
    assert (ended.code, played.count()) == (0, 3)
    assert re.search(r"wrong key +left out: there is no password in its address\n", ended.out)


async def test_a_relay_is_recorded_as_one(played: Played, run: Run, tmp_path: Path) -> None:
    empty = json_play({"choices": [{"message": {"role": "assistant", "content": "I know of nothing."}}]})
    played.script("grok_relay", success("grok_relay"), empty, failing(401), failing(400))
    ended = await run("grok", "--yes", chain=["grok_relay"])
    assert (ended.code, played.count("grok_relay")) == (0, 4)
    recordings = saved(tmp_path, "grok")
    assert {each["route"] for each in recordings} == {"chat"}
    assert outcomes(recordings) == ["ok", "no_results", "auth_failure", "request_error"]


async def test_who_is_not_in_the_chain_can_be_probed(played: Played, run: Run, tmp_path: Path) -> None:
    played.script("tavily", *AS_EXPECTED)
    content = configuration(played, [tuned("tavily", enabled=False), "duckduckgo"], state=sqlite(tmp_path / "state"))
    assert (await run("tavily", "--yes", content=content)).code == 0
    assert played.counts() == {"tavily": 4}


async def test_a_page_that_is_visited_before_comes_on_top_and_is_recorded_as_one_when_it_is_the_last(
    played: Played, run: Run, tmp_path: Path
) -> None:
    played.script("so360", page_play("<!doctype html><title>so</title><p>Hello"))
    ended = await run("so360", "--yes", chain=["so360"])
    assert "A page that has to be visited before a search comes on top" in ended.out
    first = saved(tmp_path, "so360")[0]
    assert (first["step"], first["expect"]["outcome"]) == ("first", "rate_limited")
    assert " in the recording it is " not in ended.out


async def test_a_login_is_asked_with_its_token_and_a_made_up_key_and_shows_neither(
    played: Played, tmp_path: Path
) -> None:
    file = tmp_path / "state" / "accounts" / "grok.json"
    async with PlayedAuthority(time.time()) as authority:
        old = keep(file, authority.grant(lasts_s=0))
        played.script("grok", Play(400, echo=True))
        config = over(played, loaded(file))
        async with probing.opened(config, "grok") as probe:
            plan = await probe.plan()
            entries = [probe.record(each).entry async for each in probe.ask()]
    assert "3 of them with key #1 of 1 (your login)" in plan.lines[0]
    new = kept(file)
    sent = [each.headers["authorization"].removeprefix("Bearer ") for each in played.requests("grok")]
    assert [each == new.access_token for each in sent] == [True, True, False, True]
    written = json.dumps(entries)
    tokens = (old.access_token, old.refresh_token, new.access_token, new.refresh_token, sent[2])
    assert redact(written, spellings(tokens)) == written
    assert written.count("***") > 4


async def test_a_vendor_who_never_answers_is_recorded_so(played: Played, run: Run, tmp_path: Path) -> None:
    played.script("tavily", Play(silent=True))
    ended = await run("tavily", "--yes", chain=[tuned("tavily", timeout_ms=100)])
    assert (ended.code, played.count()) == (1, 4)
    recordings = saved(tmp_path)
    assert [each["transport"] for each in recordings] == ["read_timeout"] * 4
    assert recordings[0]["source"].endswith(": no whole reply in 0.1 s")
    assert "transport: timeout, no whole reply in 0.1 s" in ended.out


async def test_a_broken_connection_and_none_at_all_are_recorded_by_their_kind(
    played: Played, run: Run, tmp_path: Path, unused_tcp_port: int
) -> None:
    played.script("tavily", RESET)
    await run("tavily", "--yes")
    assert [each["transport"] for each in saved(tmp_path)] == ["connection_reset"] * 4
    nobody = tuned("tavily", base_url=f"http://127.0.0.1:{unused_tcp_port}")
    await run("tavily", "--yes", chain=[nobody])
    refused = saved(tmp_path, "tavily-2")
    assert [each["transport"] for each in refused] == ["connect_error"] * 4
    assert refused[0]["source"].endswith(": ECONNREFUSED")


async def test_what_no_recording_can_hold_is_told_and_left_out(played: Played, run: Run, tmp_path: Path) -> None:
    binary = Play(200, {"content-type": "application/octet-stream"}, bytes(range(256)) * 10)
    played.script("tavily", GARBAGE, binary, GARBAGE, Play(200, {}, b"caf\xe9 au lait is no JSON"))
    ended = await run("tavily", "--yes")
    assert ended.code == 1
    assert ended.out.count("not recorded: recordings have no word for 'reply is not HTTP'\n") == 2
    assert "its body of 2560 bytes is no text, and left out\n" in ended.out
    assert "1 signs of its body cannot be read, and are U+FFFD\n" in ended.out
    assert [each["body"] for each in saved(tmp_path)] == [None, "caf\ufffd au lait is no JSON"]


async def test_where_nothing_can_be_recorded_no_file_is_left(played: Played, run: Run, tmp_path: Path) -> None:
    played.script("tavily", GARBAGE)
    ended = await run("tavily", "--yes")
    assert ended.out.endswith("\nnothing was recorded\n")
    assert list((tmp_path / "out").iterdir()) == []


# ---------------------------------------------------------------------------------------------------------------------
# secrets


@pytest.mark.parametrize("name", ["bocha", "tavily", "brave", "exa", "searxng", "grok"])
async def test_a_vendor_who_repeats_everything_gets_no_secret_written(
    played: Played, run: Run, tmp_path: Path, name: str
) -> None:
    content = test_secrets.content(played, *(played.address(each) for each in ("brave", "exa", "duckduckgo")))
    content["state"] = sqlite(tmp_path / "state")
    part = "grok_relay" if name == "grok" else name
    for at in range(0, len(test_secrets.ECHOED), 4):
        played.script(part, *test_secrets.ECHOED[at : at + 4])
        await run(name, "--yes", content=content)
    files = sorted((tmp_path / "out").iterdir())
    assert len(files) == 2
    told = {each.name: each.read_bytes() for each in files}
    ended = await run(name, "--yes", "--json", content=content)
    assert test_secrets.leaked(told | {"out": ended.stdout, "err": ended.stderr}) == {}
    # nor the key that was made up, nor where the operator's own vendor is
    made_up = played.requests(part)[2].headers
    kept = b"".join(told.values())
    for secret in (made_up.get("authorization", ""), made_up.get("x-api-key", ""), urlsplit(played.url).netloc):
        assert redact(kept.decode(), [secret.rpartition(" ")[2]]) == kept.decode()
    assert b"x-echo" not in kept
    for file in files:
        saved(tmp_path, file.stem)


async def test_a_secret_too_short_to_be_looked_for_elsewhere_is_hidden_too(
    played: Played, run: Run, tmp_path: Path
) -> None:
    played.script("tavily", json_play({"detail": "who is Qx7 and what is it to us"}, 401))
    await run("tavily", "--yes", keys={"TAVILY_API_KEY": "Qx7"})
    assert "Qx7" not in (tmp_path / "out" / "tavily.json").read_text("utf-8")
