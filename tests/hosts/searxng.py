"""A real SearXNG, between the gateway and engines that we play: `python -m tests.hosts.searxng PYTHON`.

PYTHON is one that can `import searx`: SearXNG installed as its own documentation says. Nothing here leaves the machine;
SearXNG's own engines are tried without internet, which they have to admit.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.redis_server import RedisServer
from tests.rooms import ask, running, told, tuned
from tests.vendors import Played

REAL = ("duckduckgo", "mojeek", "brave", "wikipedia", "startpage", "bing", "google", "qwant")
"""Engines of SearXNG's own. They get a proxy where nobody listens, so that no search leaves the machine."""

BURST = 15
"""Requests in twenty seconds that SearXNG's limiter lets an ordinary client make."""


# ---------------------------------------------------------------------------------------------------------------------
# the engines that we play


class Engine(BaseHTTPRequestHandler):
    """`/rows?q=…&lang=…`, `/none`, `/hang`, `/page`, or a status: `/429`."""

    over = Event()

    def do_GET(self) -> None:
        asked = urlsplit(self.path)
        kind, language = asked.path.lstrip("/"), parse_qs(asked.query).get("lang", ["?"])[0]
        if kind == "hang":
            self.over.wait(20)
            return
        title = f"Moss ({language})"
        rows = [{"url": f"https://moss.example/{n}", "title": title, "text": f"Page {n}."} for n in range(3)]
        body = "<html><p>Are you human?" if kind == "page" else json.dumps({"rows": rows if kind == "rows" else []})
        self.send_response(int(kind) if kind.isdigit() else 200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        with suppress(OSError):
            self.wfile.write(body.encode())

    def log_message(self, format: str, *args: object) -> None:
        pass


KINDS = ("rows", "none", "hang", "page", "500", "503", "429", "403", "404")


def engines(url: str, dead: str) -> list[dict[str, Any]]:
    """The settings of an engine for each kind, and of one where nobody listens."""
    addresses = {kind: f"{url}/{kind}?q={{query}}&lang={{lang}}" for kind in KINDS} | {"dead": f"{dead}/?q={{query}}"}
    fields = {"results_query": "rows", "url_query": "url", "title_query": "title", "content_query": "text"}
    return [
        {"name": f"played {kind}", "engine": "json_engine", "shortcut": f"p{kind}", "search_url": address}
        | {"categories": "played", "timeout": 1.0, "enable_http": True, "lang_all": "all", **fields}
        for kind, address in addresses.items()
    ]


# ---------------------------------------------------------------------------------------------------------------------
# the instance


@contextmanager
def instance(python: str, played: list[dict[str, Any]], dead: str, **changes: Any) -> Iterator[str]:
    """The address of a SearXNG with the engines `played` and SearXNG's own `REAL`, whose proxy is `dead`.

    `changes` go into sections of its settings.
    """
    port = free_port()
    settings: dict[str, Any] = {
        "use_default_settings": {"engines": {"keep_only": list(REAL)}},
        "general": {"enable_metrics": False},
        "search": {"formats": ["html", "json"]},
        "server": {"port": port, "bind_address": "127.0.0.1", "secret_key": secrets.token_hex(32), "limiter": False},
        "engines": [*played, *({"name": name, "disabled": False, "proxies": {"all://": dead}} for name in REAL)],
        "plugins": {},  # one of them fetches a list at the start
    }
    for section, content in changes.items():
        settings[section] = settings.get(section, {}) | content
    with tempfile.TemporaryDirectory() as folder:
        file, log = Path(folder, "settings.yml"), Path(folder, "log")
        file.write_text(json.dumps(settings), encoding="utf-8")  # JSON is YAML
        environ = os.environ | {"SEARXNG_SETTINGS_PATH": str(file), "XDG_CACHE_HOME": folder, "TMPDIR": folder}
        with log.open("wb") as out:
            process = subprocess.Popen([python, "-m", "searx.webapp"], env=environ, stdout=out, stderr=out)
        try:
            address = f"http://127.0.0.1:{port}"
            until_healthy(address, process, log)
            yield address
        finally:
            process.terminate()
            process.wait(20)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def until_healthy(address: str, process: subprocess.Popen[bytes], log: Path) -> None:
    for _ in range(600):
        if process.poll() is not None:
            break
        with suppress(OSError):
            urllib.request.build_opener(urllib.request.ProxyHandler({})).open(f"{address}/healthz", timeout=2).close()
            return
        time.sleep(0.1)
    raise SystemExit(f"SearXNG did not start:\n{log.read_text(errors='replace')[-3000:]}")


# ---------------------------------------------------------------------------------------------------------------------
# trials


@dataclass(frozen=True)
class Came:
    """What one search through the gateway came to, in a line; `hint` and `message` are for the operator."""

    line: str
    hint: str = ""
    message: str = ""
    notes: str = ""


@dataclass
class Trials:
    """Runs trials, prints a line for each, and counts."""

    failed: int = 0
    passed: int = 0

    def check(self, name: str, came: Came, right: bool) -> None:
        self.passed += right
        self.failed += not right
        told = " | ".join(filter(None, (came.line, came.notes, came.message[:160], came.hint[:80])))
        print(f"  {'ok' if right else 'FAIL':4}  {name}: {told}", flush=True)


async def search(address: str, query: str = "moss", arguments: Mapping[str, Any] | None = None, **options: str) -> Came:
    """One search by a gateway that has just begun and has nobody but this instance."""
    async with Played() as nobody:
        entry = tuned("searxng", options=options, timeout_ms=20_000)
        async with running(nobody, [entry], keys={"SEARXNG_URL": address}) as gateway:
            answer = await ask(gateway, query, **(arguments or {}))
            status = await gateway.status()
    searxng = next(each for each in status["providers"] if each["name"] == "searxng")
    last = searxng["last_error"] or {}
    rows = answer.body["results"]
    line = f"ok {len(rows)} rows, first {rows[0]['title']!r} {rows[0]['url']}" if rows else ", ".join(told(answer))
    note = answer.body["meta"].get("note", "") if rows else ""
    return Came(line, last.get("hint") or "", last.get("message") or "", note)


def of(*kinds: str) -> dict[str, str]:
    return {"engines": ",".join(f"played {kind}" for kind in kinds)}


def begins(*lines: str) -> Callable[[Came], bool]:
    return lambda came: came.line.startswith(tuple(f"searxng {line}" for line in lines))


def found(came: Came, language: str = "all") -> bool:
    return came.line == f"ok 3 rows, first 'Moss ({language})' https://moss.example/0"


BLOCKED, LATE, FAILED = (
    begins(f"{outcome} http_200 {code}")
    for outcome, code in (
        ("rate_limited", "all engines blocked"),
        ("timeout", "all engines timed out"),
        ("server_error", "engines failed"),
    )
)

ENGINES: tuple[tuple[str, dict[str, str], Callable[[Came], bool]], ...] = (
    ("an engine with rows", of("rows"), found),
    ("an engine without rows", of("none"), begins("no_results http_200")),
    ("an engine that says 500", of("500"), FAILED),
    ("an engine that says 503", of("503"), FAILED),
    ("an engine that says 404", of("404"), FAILED),
    ("an engine where nobody listens", of("dead"), FAILED),
    ("an engine that sends a page", of("page"), FAILED),
    ("an engine that hangs", of("hang"), LATE),
    ("an engine that says 429", of("429"), BLOCKED),
    ("the same, now suspended", of("429"), BLOCKED),
    ("an engine that says 403", of("403"), BLOCKED),
    ("rows, and an engine that fails", of("rows", "500"), found),
    ("no rows, and an engine that fails", of("none", "500"), FAILED),
    ("no rows, and an engine that is blocked", of("none", "429"), BLOCKED),
    ("no rows, and an engine that hangs", of("none", "hang"), LATE),
    ("one blocked, one late", of("429", "hang"), FAILED),
    ("a category", {"categories": "played"}, found),
    ("an engine that is not there", {"engines": "no such engine", "categories": "played"}, found),
    ("a language", of("rows") | {"language": "pt-BR"}, lambda came: found(came, "pt")),
)


async def trials(python: str, check: Trials) -> None:
    with ExitStack() as stack:
        server = ThreadingHTTPServer(("127.0.0.1", 0), Engine)
        Thread(target=server.serve_forever, daemon=True).start()
        stack.callback(server.shutdown)
        stack.callback(Engine.over.set)
        dead = f"http://127.0.0.1:{free_port()}"
        played = engines(f"http://127.0.0.1:{server.server_port}", dead)

        print("engines that we play")
        url = stack.enter_context(instance(python, played, dead))
        for name, options, right in ENGINES:
            came = await search(url, **options)
            check.check(name, came, right(came))
        came = await search(url, arguments={"freshness": "week"}, **of("rows"))
        check.check("a time that no engine can search", came, begins("request_error")(came))
        came = await search(url, **of("rows"), language="zh_CN")
        check.check("a language that SearXNG does not know", came, begins("request_error")(came) and bool(came.hint))
        came = await search(url, "!!g moss :de", **of("rows"))
        check.check("a query full of orders", came, found(came))

        print("SearXNG's own engines, without internet")
        for name in REAL:
            came = await search(url, engines=name)
            check.check(name, came, begins("server_error", "timeout", "rate_limited")(came))
        came = await search(url, engines=",".join(REAL))
        check.check("all of them", came, begins("server_error", "timeout", "rate_limited")(came))

        print("an instance that is not set up for us")
        html = stack.enter_context(instance(python, played, dead, search={"formats": ["html"]}))
        came = await search(html, **of("rows"))
        check.check("JSON switched off", came, begins("request_error http_403")(came) and "search.formats" in came.hint)
        came = await search(f"{url}/nowhere", **of("rows"))
        check.check("a wrong path", came, begins("request_error http_404")(came) and "SEARXNG_URL" in came.hint)
        came = await search(f"{html}, {dead}, {url}", **of("rows"))
        check.check("the third of three instances", came, found(came))

        print("an instance with its limiter on")
        try:
            redis = RedisServer("--port", str(port := free_port()), "--bind", "127.0.0.1")
        except (pytest.fail.Exception, pytest.skip.Exception) as error:
            print(f"  not run: {error}")
            return
        stack.callback(redis.end)
        limits = {"server": {"limiter": True}, "valkey": {"url": f"valkey://127.0.0.1:{port}/0"}}
        strict = stack.enter_context(instance(python, played, dead, **limits))
        came = await search(strict, **of("rows"))
        check.check("it lets us in", came, found(came))
        for _ in range(BURST):
            came = await search(strict, **of("rows"))
        check.check(f"after {BURST + 1} searches in a row", came, begins("rate_limited http_429")(came))


def version(python: str) -> str:
    """Which SearXNG `python` has: a checkout says so by its commit. Leaves when it has none."""
    where = "import importlib.util; print(importlib.util.find_spec('searx').origin)"
    found = subprocess.run([python, "-c", where], capture_output=True, text=True, check=False)
    if found.returncode:
        raise SystemExit(f"not run: {python} has no searx")
    said = "from searx.version import VERSION_STRING; print(VERSION_STRING)"
    folder = Path(found.stdout.strip()).parent
    return subprocess.run([python, "-c", said], cwd=folder, capture_output=True, text=True, check=True).stdout.strip()


def main() -> int:
    if len(sys.argv) != 2:
        raise SystemExit("not run: python -m tests.hosts.searxng PYTHON, where PYTHON can import searx")
    print(f"SearXNG {version(sys.argv[1])}")
    check = Trials()
    asyncio.run(trials(sys.argv[1], check))
    print(f"{check.passed} passed, {check.failed} failed")
    return 1 if check.failed else 0


if __name__ == "__main__":
    sys.exit(main())
