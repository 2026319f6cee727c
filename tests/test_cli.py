"""The command line, as a process of its own: exit codes, what is on stdout and what is not."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from gateway import __version__
from gateway.answer import OUTPUT_SCHEMA
from gateway.cli import run
from gateway.status import STATUS_SCHEMA
from tests.processes import ROOT, Ended, command, environment, serving, written
from tests.rooms import failing, tuned
from tests.test_cache import BLOCKED, EMPTY
from tests.vendors import Played, configuration, json_play, success

pytestmark = pytest.mark.anyio

VALID = jsonschema.Draft202012Validator(OUTPUT_SCHEMA)

ROW = {"title": "雪の結晶 ✓\u00a0done 🧊", "url": "https://a.example/1", "content": "Schnee, 雪, ثلج ✓ " * 40}
WORLDLY = json_play({"query": "雪", "results": [ROW], "response_time": 0.1})


class Room:
    """A home with a configuration over the played vendors, and the command line in it."""

    def __init__(self, played: Played, home: Path) -> None:
        self.played = played
        self.home = home
        self.file = home / "config.json"

    def configure(self, *names: str | dict[str, Any], **sections: Any) -> None:
        chain = [tuned(each) if isinstance(each, str) else each for each in names]
        content = configuration(self.played, chain, **sections)
        content["state"] = {"type": "sqlite"}
        written(self.file, content)

    async def run(self, *arguments: str, **how: Any) -> Ended:
        return await command(self.home, *arguments, **{"WEBSEARCH_CONFIG": str(self.file)} | how)

    async def json(self, *arguments: str, **how: Any) -> tuple[int, dict[str, Any]]:
        """The exit code and the answer of `search --json`, which is all there is on stdout."""
        ended = await self.run("search", "--json", *arguments, **how)
        VALID.validate(ended.json)
        return ended.code, ended.json


@pytest.fixture
def room(played: Played, tmp_path: Path) -> Room:
    return Room(played, tmp_path)


# ---------------------------------------------------------------------------------------------------------------------
# search


async def test_found_is_0_and_the_second_time_it_comes_from_the_cache(room: Room) -> None:
    room.configure("bocha", "tavily")
    room.played.script("bocha", failing(429))
    code, first = await room.json(
        "moss", "--max-results", "3", "--freshness", "week", "--domains", "a.example,b.example"
    )
    again_code, again = await room.json("moss", "--max-results=3", "--freshness=week", "--domains=b.example,a.example")
    fresh_code, fresh = await room.json(
        "moss", "--max-results=3", "--freshness=week", "--domains=b.example,a.example", "--no-cache"
    )
    assert (code, again_code, fresh_code) == (0, 0, 0)
    assert (len(first["results"]), first["meta"]["provider_used"]) == (3, "tavily")
    assert {row["url"].split("/")[2] for row in first["results"]} == {"a.example", "b.example"}
    assert [each["meta"]["cache_hit"] for each in (first, again, fresh)] == [False, True, False]
    assert fresh["meta"]["fallback_chain"][0]["outcome"] == "skipped:rate_limited"
    sent = room.played.requests("tavily")[0].json
    assert (sent["time_range"], sent["max_results"]) == ("week", 3)


async def test_for_people_it_lists_results_and_who_was_asked(room: Room) -> None:
    room.configure("bocha", "tavily")
    room.played.script("bocha", failing(429))
    ended = await room.run("search", "moss")
    assert ended.code == 0
    assert "1. moss: page 0  (2026-09-01)\n   https://tavily.example/" in ended.out
    assert re.search(r"found by tavily in \d+ ms\n  bocha +rate_limited  http_429\n", ended.out)
    assert ended.stderr == b""


async def test_empty_is_1(room: Room) -> None:
    room.configure("tavily")
    room.played.script("tavily", EMPTY["tavily"])
    code, body = await room.json("moss", "--exclude-domains", "a.example")
    assert (code, body["meta"]["verdict"]) == (1, "empty")
    people = await room.run("search", "moss", "--exclude-domains", "a.example")
    assert people.code == 1
    assert "No results" in people.out
    assert room.played.count() == 1


async def test_incomplete_and_failed_are_3(room: Room) -> None:
    room.configure("searxng", "tavily")
    room.played.script("searxng", BLOCKED)
    room.played.script("tavily", EMPTY["tavily"], failing(500))
    code, incomplete = await room.json("moss")
    failed_code, failed = await room.json("fern")
    assert (code, incomplete["meta"]["verdict"]) == (3, "incomplete")
    assert (failed_code, failed["meta"]["verdict"]) == (3, "failed")


async def test_wrong_arguments_are_2_with_the_answer_object_all_the_same(room: Room) -> None:
    room.configure("tavily")
    for arguments in (["moss", "--max-results", "five"], ["moss", "--provider", "tavilly"]):
        code, body = await room.json(*arguments)
        assert (code, body["meta"]["verdict"], body["meta"]["fallback_chain"]) == (2, "failed", [])
    assert room.played.count() == 0


async def test_a_faulty_configuration_is_2_and_json_is_the_answer_object_whatever_the_fault(room: Room) -> None:
    room.configure("tavily", cache={"ttl": 1})
    code, faulty = await room.json("moss")
    room.file.write_text("{")
    unparsable_code, unparsable = await room.json("moss")
    assert (code, unparsable_code) == (2, 2)
    for body, word in ((faulty, "ttl_s"), (unparsable, "is not JSON")):
        assert body["meta"]["fallback_chain"][0]["outcome"] == "config_error"
        assert word in body["meta"]["note"]
    people = await room.run("search", "moss")
    assert (people.code, people.stdout) == (2, b"")
    assert "is not JSON: line 1, column 2" in people.err


async def test_nobody_configured_is_3(room: Room) -> None:
    room.configure()
    code, body = await room.json("moss")
    assert (code, body["meta"]["fallback_chain"][0]["outcome"]) == (3, "no_provider")


async def test_one_provider_can_be_asked_alone(room: Room) -> None:
    room.configure("tavily", "brave")
    code, body = await room.json("moss", "--provider", "brave")
    assert (code, body["meta"]["provider_used"], room.played.counts()) == (0, "brave", {"brave": 1})


async def test_a_key_that_was_refused_stays_out_for_the_next_command(room: Room) -> None:
    # a one-shot command is no restart
    room.configure("bocha", "tavily")
    room.played.script("bocha", failing(401), success("bocha"))
    for query in ("moss", "fern"):
        _, body = await room.json(query)
    assert body["meta"]["fallback_chain"] == [
        {"provider": "bocha", "outcome": "skipped:auth_failure", "detail": "until_restart"}
    ]
    async with serving(room.home, WEBSEARCH_CONFIG=str(room.file), WEBSEARCH_PORT="0") as it:
        assert (await it.search("lichen"))["meta"]["provider_used"] == "bocha"


@pytest.mark.parametrize("encoding", ["gbk", "ascii"])
async def test_no_console_encoding_ends_the_process(room: Room, encoding: str) -> None:
    room.configure("tavily")
    room.played.script("tavily", WORLDLY)
    how = {"PYTHONIOENCODING": encoding, "PYTHONUTF8": "0", "LC_ALL": "C", "WEBSEARCH_LOG": "debug"}
    people = await room.run("search", "雪 ✓\u00a0🧊", **how)
    assert people.code == 0, people.err
    assert "雪の結晶 ✓" in people.out
    code, body = await room.json("雪 ✓\u00a0🧊", **how)
    assert (code, body["results"][0]["title"]) == (0, "雪の結晶 ✓ done 🧊")


async def test_a_query_that_is_no_text_is_searched_as_well_as_can_be(room: Room) -> None:
    room.configure("tavily")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "gateway", "search", "--json", os.fsdecode(b"moss \xff\xfe\r\n green")),
        stdout=asyncio.subprocess.PIPE,
        cwd=ROOT,
        env=environment(room.home, WEBSEARCH_CONFIG=str(room.file)),
    )
    out, _ = await process.communicate()
    assert (process.returncode, json.loads(out)["meta"]["verdict"]) == (0, "found")
    assert room.played.requests("tavily")[0].json["query"] == "moss �� green"


async def test_whoever_reads_only_the_beginning_gets_no_traceback(room: Room) -> None:
    room.configure("tavily")
    room.played.script("tavily", WORLDLY)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "gateway", "search", "moss"),
        stdout=(closed := os.pipe())[1],
        stderr=asyncio.subprocess.PIPE,
        cwd=ROOT,
        env=environment(room.home, WEBSEARCH_CONFIG=str(room.file)),
    )
    os.close(closed[0])
    os.close(closed[1])
    _, err = await process.communicate()
    assert b"Traceback" not in err
    assert b"BrokenPipe" not in err


# ---------------------------------------------------------------------------------------------------------------------
# status and config


async def test_status_is_told_for_people_and_as_json(room: Room) -> None:
    room.configure("tavily", "exa")
    room.played.script("tavily", failing(429))
    await room.run("search", "moss")
    told = await room.run("status", "--json")
    jsonschema.Draft202012Validator(STATUS_SCHEMA).validate(told.json)
    assert told.code == 0
    assert told.json["clients"] == [
        {"name": "default", "searches_today": 0},
        {"name": "command line", "searches_today": 1},
    ]
    people = await room.run("status")
    assert people.code == 0
    used = "1 used, monthly:1000@day2; last call failed: rate_limited http_429"
    assert re.search(rf"^tavily +blocked\(rate_limited, \d+s left\) +{used}$", people.out, re.M)
    assert re.search(r"^exa +active ", people.out, re.M)
    assert f"configuration  {room.file}" in people.out


async def test_config_check_says_ok_and_the_chain_or_everything_that_is_wrong_with_2(room: Room) -> None:
    room.configure("tavily", "brave")
    good = await room.run("config", "check")
    assert (good.code, good.out) == (0, f"ok: {room.file}; the chain is tavily, brave\n")
    room.configure("tavily", cache={"ttl": 1}, defaults={"timeout_ms": "soon"})
    faulty = await room.run("config", "check")
    assert (faulty.code, len(faulty.err.splitlines())) == (2, 3)
    room.configure("tavily", server={"port": 99_999}, cache={"ttl": 1})
    decisive = await room.run("config", "check")
    assert (decisive.code, decisive.stdout) == (2, b"")
    assert re.search(r"server\.port: .*\n.*cache\.ttl: |cache\.ttl: .*\n.*server\.port: ", decisive.err)
    room.configure("tavily", server={"host": "0.0.0.0"})
    open_to_all = await room.run("config", "check")
    assert (open_to_all.code, "WEBSEARCH_TOKEN" in open_to_all.err) == (2, True)
    missing = await command(room.home, "config", "check", WEBSEARCH_CONFIG=str(room.home / "nowhere.json"))
    assert missing.code == 2
    assert "nowhere.json: cannot be read: No such file" in missing.err


async def test_config_show_tells_every_value_and_where_it_came_from_but_no_key(room: Room) -> None:
    room.configure("tavily", "searxng")
    shown = await room.run("config", "show", WEBSEARCH_TOKEN="a-token-of-many-signs", BRAVE_API_KEY="brave-secret-1")
    assert shown.code == 0
    told = json.loads(shown.stdout)
    assert told["chain"] == {"value": ["tavily", "searxng"], "from": "file"}
    assert told["credentials"]["BRAVE_API_KEY"] == {"value": "set", "from": "env BRAVE_API_KEY"}
    assert told["server"]["port"] == {"value": 8787, "from": "default"}
    for secret in ("tvly-played", "a-token-of", "brave-secret"):
        assert secret not in shown.out + shown.err


# ---------------------------------------------------------------------------------------------------------------------
# serve


async def until_it_listens(process: asyncio.subprocess.Process) -> list[str]:
    """What a server says until it says where it listens. Raises TimeoutError."""
    assert process.stderr is not None
    lines = [""]
    async with asyncio.timeout(20):
        while "listening on" not in lines[-1]:
            lines.append((await process.stderr.readline()).decode())
            assert lines[-1], lines
    return lines[1:]


async def test_serve_is_what_runs_without_a_command_and_speaks_of_stdio_when_it_is_given_a_pipe(room: Room) -> None:
    room.configure("tavily")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "gateway", "--port", "0"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        cwd=ROOT,
        env=environment(room.home, WEBSEARCH_CONFIG=str(room.file)),
    )
    lines = await until_it_listens(process)
    process.kill()
    out, _ = await process.communicate()
    assert lines[0] == "websearch-gateway: this serves HTTP; for MCP over standard input and output, use: stdio\n"
    assert re.search(r"listening on http://127\.0\.0\.1:\d+/mcp\n$", lines[-1])
    assert out == b""


async def test_serve_without_any_standard_input_serves(room: Room) -> None:
    room.configure("tavily", server={"port": 0})
    process = await asyncio.create_subprocess_exec(
        *("/bin/sh", "-c", 'exec "$@" <&-', "sh", sys.executable, "-m", "gateway"),
        stderr=asyncio.subprocess.PIPE,
        cwd=ROOT,
        env=environment(room.home, WEBSEARCH_CONFIG=str(room.file)),
    )
    lines = await until_it_listens(process)
    process.kill()
    await process.communicate()
    assert not any("Traceback" in line for line in lines)


async def test_serve_refuses_with_2_what_it_cannot_or_must_not_do(room: Room, unused_tcp_port: int) -> None:
    room.configure("tavily")
    network = await room.run("serve", "--host", "0.0.0.0", "--port", "0")
    assert (network.code, "WEBSEARCH_TOKEN" in network.err) == (2, True)
    room.file.write_text("[]")
    unparsable = await room.run("serve", "--port", str(unused_tcp_port))
    assert (unparsable.code, unparsable.stdout) == (2, b"")
    assert "must hold a JSON object" in unparsable.err
    stdio = await room.run("stdio")
    assert (stdio.code, stdio.stdout) == (2, b"")


@pytest.mark.parametrize(
    ("option", "complaint"),
    [
        ("--port=70000", "argument --port: must be a whole number from 0 to 65535"),
        ("--port=99999", "argument --port: must be a whole number from 0 to 65535"),
        ("--port=-1", "argument --port: must be a whole number from 0 to 65535"),
        ("--port=http", "argument --port: must be a whole number from 0 to 65535"),
        ("--host=a..b", "argument --host: must be a host name or an IP address, without scheme and port"),
        ("--host=", "argument --host: must be a host name or an IP address, without scheme and port"),
        ("--host=http://127.0.0.1", "argument --host: must be a host name or an IP address, without scheme and port"),
        *((f"--workers={n}", "argument --workers: must be a whole number from 1 to 64") for n in ("0", "65", "two")),
    ],
)
def test_options_take_what_the_settings_of_their_names_take(
    capsys: pytest.CaptureFixture[str], option: str, complaint: str
) -> None:
    with pytest.raises(SystemExit) as refused:
        run(["serve", option])
    told = capsys.readouterr()
    assert (refused.value.code, told.out) == (2, "")
    assert told.err.endswith(f"serve: error: {complaint}\n")


async def test_a_hang_up_ends_stdio_for_its_clients_terminal_is_gone(room: Room) -> None:
    room.configure("tavily")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "gateway", "stdio"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        cwd=ROOT,
        env=environment(room.home, WEBSEARCH_CONFIG=str(room.file)),
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
    assert await process.stdout.readline()
    process.send_signal(signal.SIGHUP)
    assert await process.wait() == -signal.SIGHUP


# ---------------------------------------------------------------------------------------------------------------------
# the rest


async def test_a_new_token_is_all_there_is_on_stdout_and_no_two_are_alike(tmp_path: Path) -> None:
    made = [await command(tmp_path, "token", "new") for _ in range(2)]
    assert [each.code for each in made] == [0, 0]
    assert all(re.fullmatch(r"[\w-]{43}\n", each.out) for each in made)
    assert made[0].out != made[1].out


async def test_help_and_version_need_no_configuration_and_wrong_usage_is_2(tmp_path: Path) -> None:
    broken = {"WEBSEARCH_CONFIG": str(tmp_path / "nowhere.json")}
    help_ = await command(tmp_path, "--help", **broken)
    assert (help_.code, "search" in help_.out, help_.err) == (0, True, "")
    version = await command(tmp_path, "--version", **broken)
    assert (version.code, version.out) == (0, f"websearch-gateway {__version__}\n")
    wrong = await command(tmp_path, "serch", "moss", **broken)
    assert (wrong.code, wrong.out, "invalid choice" in wrong.err) == (2, "", True)


def test_quick_commands_do_not_import_what_only_servers_need(tmp_path: Path) -> None:
    quick = [
        ["--help"],
        ["config", "check"],
        ["search", "--json", ""],
        ["status"],
        ["doctor"],
        ["explain", "tavily", "432"],
        ["logout", "grok"],
        ["token", "new"],
    ]
    slow = ("mcp", "starlette", "uvicorn", "curl_cffi")
    program = (
        "import sys\n"
        "from gateway.cli import run\n"
        f"for arguments in {quick!r}:\n"
        "    try: run(arguments)\n"
        "    except SystemExit: pass\n"
        f"    print('slow:', arguments, [name for name in {slow!r} if name in sys.modules], file=sys.stderr)\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=environment(tmp_path, WEBSEARCH_PROVIDERS="tavily", TAVILY_API_KEY="tvly-1"),
        check=True,
        timeout=30,
    )
    told = [line for line in ran.stderr.splitlines() if line.startswith("slow:")]
    assert told == [f"slow: {arguments} []" for arguments in quick]
