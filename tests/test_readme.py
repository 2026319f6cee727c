"""Every snippet of the documentation works: what can be run is run, what can be loaded is loaded."""

from __future__ import annotations

import json
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPResponse
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import anyio
import jsonschema
import pytest
import redis

from gateway.answer import OUTPUT_SCHEMA
from gateway.config import load
from gateway.credentials import VARIABLES
from gateway.lineup import credential_names
from gateway.settings import Config, Defaults, ProviderSettings, ServerSettings, StateSettings
from gateway.stores.redis import RedisStore
from providers import names
from providers._words import UNBOUNDED
from tests import redis_server, tables
from tests.chaos.__main__ import TRIALS
from tests.forking import Process, begin
from tests.markdown import ROOT, Page, Snippet, pages, spans
from tests.test_recordings import KEYS as RECORDING_KEYS
from tests.test_recordings import NEEDED as RECORDING_NEEDED

ENGLISH, CHINESE = Page("README.md"), Page("README.zh-CN.md")

# the Chinese README has the English one's snippets, which a test below sees to
SNIPPETS = [
    pytest.param(snippet, id=f"{snippet.page}:{snippet.line}")
    for page in pages()
    if page.name != CHINESE.name
    for snippet in page.snippets
]

PORT = ServerSettings().port
KNOWN = {*VARIABLES, *credential_names(), *(f"{name}_FILE" for name in credential_names())}
SECTIONS = {"credentials", "providers", "defaults", "cache", "state", "server"}

Vendors = dict[str, Any]
"""Where the played vendors are (`url`), and the configuration that points there (`config`)."""


# ---------------------------------------------------------------------------------------------------------------------
# the two READMEs


@pytest.mark.parametrize("path", tables.documents(), ids=lambda path: path.name)
def test_the_tables_say_what_the_code_says(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert text == tables.written(text, tables.documents()[path]), "run: python -m tests.tables"


def test_the_example_is_written_from_the_code() -> None:
    assert tables.EXAMPLE.read_text("utf-8") == tables.example(), "run: python -m tests.tables"


def test_both_readmes_have_the_same_sections_tables_and_snippets() -> None:
    assert [level for level, _ in ENGLISH.headings] == [level for level, _ in CHINESE.headings]
    assert [len(table) for table in ENGLISH.tables] == [len(table) for table in CHINESE.tables]
    assert [each.code for each in ENGLISH.snippets] == [each.code for each in CHINESE.snippets]
    assert [each.language for each in ENGLISH.snippets] == [each.language for each in CHINESE.snippets]


def test_both_readmes_name_the_same_things_section_by_section() -> None:
    for english, chinese in zip(ENGLISH.sections, CHINESE.sections, strict=True):
        assert set(spans(english)) == set(spans(chinese))
        bullets = [section.count("\n* ") for section in (english, chinese)]
        assert bullets[0] == bullets[1]


def test_the_readmes_name_all_that_the_product_stands_on() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    needed = [*project["project"]["dependencies"], *project["dependency-groups"]["test"]]
    packages = {re.split(r"[\[<>=]", each, maxsplit=1)[0] for each in needed} - {"types-jsonschema"}
    for page in (ENGLISH, CHINESE):
        told = "\n".join(row[0] for table in page.tables[-1:] for row in table)
        assert {package for package in packages if package not in told} == set()
        assert project["project"]["requires-python"].removeprefix(">=") in page.text


def test_a_snippet_of_an_unknown_kind_is_none() -> None:
    kinds = {snippet.values[0].language for snippet in SNIPPETS}
    assert kinds <= CHECKS.keys()
    with pytest.raises(KeyError):
        check_json(Snippet("README.md", "json", '{"something": "else"}', 1), Path(), {})


# ---------------------------------------------------------------------------------------------------------------------
# JSON


def check_json(snippet: Snippet, tmp_path: Path, vendors: Vendors) -> None:
    value = json.loads(snippet.code)
    if isinstance(value, list):
        for recording in value:
            assert RECORDING_NEEDED <= recording.keys() <= RECORDING_KEYS
    elif "mcpServers" in value:
        check_servers(value, tmp_path)
    elif "results" in value:
        jsonschema.validate(value, OUTPUT_SCHEMA)
        used = [value["meta"]["provider_used"], *(step["provider"] for step in value["meta"]["fallback_chain"])]
        assert set(used) <= set(names())
    elif value.keys() <= SECTIONS:
        check_configuration(snippet.code, tmp_path)
    else:
        raise KeyError("neither a configuration, nor an answer, nor a list of servers")


def check_configuration(text: str, tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text(text, encoding="utf-8")
    file.chmod(0o600)
    config = load({"WEBSEARCH_CONFIG": str(file)})
    assert (config.errors, config.warnings) == ((), ())


def check_servers(value: dict[str, Any], tmp_path: Path) -> None:
    for server in value["mcpServers"].values():
        if "url" in server:
            assert server.keys() == {"type", "url", "headers"}
            assert server["type"] == "http"
            check_address(server["url"], server["headers"]["Authorization"])
        else:
            assert server.keys() == {"command", "args", "env"}
            assert server["env"].keys() <= KNOWN
            hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
            line = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello})
            shell = Shell(tmp_path, environ=dict(server["env"]))
            answered = json.loads(shell.gateway(server["command"], *server["args"], stdin=line + "\n"))
            assert answered["result"]["serverInfo"]["name"] == "websearch-gateway"


def check_address(url: str, authorization: str) -> None:
    assert url == f"http://127.0.0.1:{PORT}/mcp"
    assert re.fullmatch(r"Bearer [!-~]+", authorization)


# ---------------------------------------------------------------------------------------------------------------------
# shell


@pytest.fixture(scope="module")
def vendors() -> Iterator[Vendors]:
    command = [sys.executable, "-m", "tests.vendors"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield json.loads(process.stdout.readline())
        process.terminate()


@dataclass
class Shell:
    """A folder, and variables that a snippet may set."""

    folder: Path
    vendors_url: str = ""
    environ: dict[str, str] = field(default_factory=dict)

    def run(self, line: str) -> None:
        """Run one line the way its first word asks for. Raises KeyError for a word nobody knows."""
        line = re.sub(r"\$\(([^()]*)\)", lambda found: self.gateway(*shlex.split(found[1])).strip(), line)
        word, *rest = shlex.split(line, comments=True)
        kinds: Mapping[str, Callable[..., object]] = {
            "make": self.make,
            "export": self.export,
            "websearch-gateway": lambda *words: self.gateway("websearch-gateway", *words),
            "curl": self.curl,
            "claude": claude,
            "docker": docker,
            "pip": pip,
            ".venv/bin/python": python,
        }
        kinds[word](*rest)

    def make(self, *targets: str) -> None:
        makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
        assert targets
        assert set(targets) <= set(re.findall(r"^([a-z]+):", makefile, re.MULTILINE))

    def export(self, *pairs: str) -> None:
        for pair in pairs:
            name, _, value = pair.partition("=")
            assert name in KNOWN
            assert value
            if value.startswith("redis:"):
                state = load({name: value}).state
                assert (state.type, state.url) == ("redis", value)
                value = redis_server.shared_url()
            self.environ[name] = value

    def _start(self, *arguments: str) -> Process:
        environ = {"HOME": str(self.folder), **self.environ}
        return begin("gateway", *arguments, stdin=subprocess.PIPE, folder=self.folder, **environ)

    def gateway(self, command: str, *arguments: str, stdin: str = "") -> str:
        """What a command of ours prints; it must end well."""
        assert command == "websearch-gateway"
        if arguments[:1] == ("serve",):
            with self.served(*arguments[1:]) as get:
                assert get("/healthz").status == 200
                assert get("/mcp").status == (401 if "WEBSEARCH_TOKEN" in self.environ else 405)
            return ""
        with self._start(*arguments) as process:
            told, complained = process.communicate(stdin.encode(), timeout=60)
            assert process.returncode == 0, complained.decode()
        return told.decode()

    @contextmanager
    def served(self, *arguments: str) -> Iterator[Callable[[str], HTTPResponse]]:
        """`serve` with these options, on a free port; how to get one of its pages."""
        words = list(arguments)
        if "--port" in words:
            at = words.index("--port")
            assert words[at + 1] == str(PORT)
            del words[at : at + 2]
        if "--workers" in words:
            # what several can do two can, and a test's machine is small
            at = words.index("--workers") + 1
            assert int(words[at]) > 1
            words[at] = "2"
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = int(free.getsockname()[1])
        with self._start("serve", *words, "--port", str(port)) as process:
            try:
                until_it_listens(process, port)

                def get(path: str) -> HTTPResponse:
                    connection = HTTPConnection("127.0.0.1", port, timeout=60)
                    try:
                        connection.request("GET", path)
                        response = connection.getresponse()
                        response.read()
                        return response
                    finally:
                        connection.close()

                yield get
                process.send_signal(signal.SIGTERM)
                assert process.wait(20) == 0
            finally:
                process.kill()

    def curl(self, *words: str) -> None:
        url = urlsplit(words[-1])
        if url.port == PORT:
            with self.served() as get:
                assert get(url.path).status == 200
            return
        # the only other address that a page may call is a SearXNG
        assert (url.hostname, url.port) == ("localhost", 8080)
        assert set(words[:-1:2]) == {"-d"}
        at = urlsplit(self.vendors_url)
        connection = HTTPConnection(str(at.hostname), at.port, timeout=10)
        form = urlencode(dict(word.split("=", 1) for word in words[1:-1:2]))
        connection.request("POST", f"/searxng{url.path}", form)
        answered = json.loads(connection.getresponse().read())
        connection.close()
        assert answered["results"]


def until_it_listens(process: Process, port: int, limit_s: float = 20) -> None:
    """Wait until `port` takes connections; who calls so early is answered when it serves."""
    over = time.monotonic() + limit_s
    while True:
        with suppress(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port), 5):
            return
        assert time.monotonic() < over
        with suppress(subprocess.TimeoutExpired):
            raise AssertionError(f"it ended with {process.wait(0.05)}")


def claude(*words: str) -> None:
    assert words[:4] == ("mcp", "add", "--transport", "http")
    name, url, header, value = words[4:]
    assert re.fullmatch(r"[a-z]+", name)
    assert header == "--header"
    title, _, authorization = value.partition(": ")
    assert title == "Authorization"
    check_address(url, authorization)


def python(*words: str) -> None:
    assert words[0] == "-m"
    assert find_spec(words[1])
    for word in words[2:]:
        if words[1] == "tests.chaos":
            assert word in TRIALS
        elif words[1] == "benchmarks.stores":
            assert word.isdigit() or word.startswith("redis://")
        else:
            assert (ROOT / word).exists()


def pip(command: str, requirement: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert command == "install"
    assert requirement in {f"{project['name']}[{extra}]" for extra in project["optional-dependencies"]}


TAKE_A_VALUE = {"-p", "-v", "-e", "-t", "--user", "--entrypoint"}


def docker(command: str, *words: str) -> None:
    """The command agrees with the Dockerfile."""
    dockerfile = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    assert command in ("build", "run")
    options: list[tuple[str, str]] = []
    rest = list(words)
    while rest[0].startswith("-"):
        option = rest.pop(0)
        options.append((option, rest.pop(0) if option in TAKE_A_VALUE else ""))
    for option, value in options:
        match option:
            case "-p":
                outside, inside = value.split(":")
                assert outside == str(PORT)
                assert f"EXPOSE {inside}\n" in dockerfile
                assert f"WEBSEARCH_PORT={inside}" in dockerfile
            case "-v":
                folder = value.split(":")[1]
                assert f"VOLUME {folder}\n" in dockerfile
                assert f"WEBSEARCH_STATE={folder}" in dockerfile
            case "-e":
                assert value in KNOWN
            case "-t":
                assert (value, rest) == ("websearch-gateway", ["."])
            case "--user":
                uid = re.search(r"useradd --uid (\d+)", dockerfile)
                assert uid is not None
                assert (value, rest[1:]) == ("0", ["-R", f"{uid[1]}:{uid[1]}", "/state"])
            case _:
                assert option in ("--rm", "--entrypoint"), option
    if command == "run":
        assert rest[0] == "websearch-gateway"


# ---------------------------------------------------------------------------------------------------------------------
# all of them


def check_shell(snippet: Snippet, folder: Path, vendors: Vendors) -> None:
    file = folder / "played.json"
    # without `state`: where nothing is said, it is kept, in the home that this folder is
    played = {section: content for section, content in vendors["config"].items() if section != "state"}
    file.write_text(json.dumps(played), encoding="utf-8")
    file.chmod(0o600)
    (folder / "reply.json").write_text('{"message": "a saved reply"}', encoding="utf-8")
    shell = Shell(folder, vendors["url"], {"WEBSEARCH_CONFIG": str(file), "WEBSEARCH_LOG": "info"})
    for line in snippet.code.replace("\\\n", " ").splitlines():
        shell.run(line)


def longest_search_s() -> float:
    """Seconds that a search may take with the slowest provider in the chain and nothing configured."""
    slow = ProviderSettings(
        name="slow",
        in_chain=True,
        keys=("",),
        credential_env=None,
        timeout_ms=10**6,
        budget=UNBOUNDED,
        quota_retry_s=0,
        interval_ms=0,
        cooldown_max_s=0,
    )
    return Config(providers=(slow,), defaults=Defaults()).total_budget_ms / 1000


def check_proxy(snippet: Snippet, folder: Path, vendors: Vendors) -> None:
    """A reverse proxy's configuration sends calls to where we listen, and waits longer than we do."""
    assert snippet.code.count("{") == snippet.code.count("}")
    assert f"127.0.0.1:{PORT}" in snippet.code
    if snippet.language == "nginx":
        waits = re.search(r"proxy_read_timeout (\d+)s;", snippet.code)
        assert waits is not None
        assert int(waits[1]) > longest_search_s()


def check_redis(snippet: Snippet, folder: Path, vendors: Vendors) -> None:
    """A real server that is set up so gives the page's user all that we need, and nothing to complain of."""
    lines = [line.split() for line in snippet.code.splitlines()]
    server = redis_server.RedisServer(*(word for name, *words in lines for word in (f"--{name}", *words)))
    user, password = next((words[1], words[3].removeprefix(">")) for words in lines if ">" in "".join(words))
    url = server.url.replace("unix://", f"unix://{user}:{password}@")

    async def use() -> None:
        store = RedisStore(url, StateSettings().prefix, patience_s=redis_server.PATIENT_S)
        assert await store.open() == ()
        assert await store.spend("a", 1, None) == 1
        assert await store.rest("a", time.time() + 60, "timeout")
        assert list(await store.resting(["a"])) == ["a"]
        assert (await store.turn("a", 1, 0)).taken
        await store.keep("room", "a", b"x", 60, at_most=1)
        assert (await store.recall("room", "a"), await store.kept("room")) == (b"x", 1)
        await store.clear("a")
        assert await store.counted(["a"]) == {}
        await store.aclose()

    try:
        anyio.run(use)
        with redis.Redis.from_url(url) as client:
            facts = client.info()
        assert (facts["aof_enabled"], facts["maxmemory_policy"]) == (1, "noeviction")
    finally:
        server.end()


def check_python(snippet: Snippet, folder: Path, vendors: Vendors) -> None:
    assert snippet.page == "CONTRIBUTING.md", "test_docs.py runs the one of that page"


CHECKS: Mapping[str, Callable[[Snippet, Path, Vendors], None]] = {
    "json": check_json,
    "sh": check_shell,
    "conf": check_redis,
    "python": check_python,
    "nginx": check_proxy,
    "caddyfile": check_proxy,
}


@pytest.mark.parametrize("snippet", SNIPPETS)
def test_a_snippet_works(snippet: Snippet, tmp_path: Path, vendors: Vendors) -> None:
    CHECKS[snippet.language](snippet, tmp_path, vendors)


def test_every_proxy_that_is_named_waits_longer_than_a_search() -> None:
    rows = Page("docs/configuration.md").rows("proxy", "waits, by default")
    assert len(rows) >= 4
    for proxy, waits, *_ in rows:
        limit = re.match(r"(\d+) s", waits)
        assert waits.startswith("without limit") or (limit and int(limit[1]) > longest_search_s()), proxy
