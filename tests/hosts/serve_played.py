"""The real gateway over played vendors, for other people's clients: `python -m tests.hosts.serve_played PORT`.

Serves until SIGTERM, with a bearer token that the path may carry too (the conformance suites can send no header), and
for local names only. Bocha has no money, Tavily throttles, Brave answers.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import threading
from pathlib import Path

from gateway import logs
from gateway.config import Config, load
from gateway.doors.listening import listeners
from gateway.doors.serving import serve
from gateway.gateway import Gateway
from tests.doors_fixtures import TOKEN
from tests.vendors import Played, configuration, recording, success


async def play(ready: threading.Event, played: Played) -> None:
    """Play the vendors for as long as the process lives."""
    async with played:
        played.script("bocha", recording("bocha", "money_403"))
        played.script("tavily", recording("tavily", "rate_limited_429_retry_after_seconds"))
        played.script("brave", success("brave", n_rows=2))
        ready.set()
        await asyncio.Event().wait()


def settled(played: Played, port: int) -> Config:
    server = {
        "port": port,
        "tokens": [{"name": "t1", "token": TOKEN}],
        "allow_path_token": True,
        "allowed_hosts": ["127.0.0.1", "localhost"],
    }
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "config.json"
        file.write_text(json.dumps(configuration(played) | {"server": server, "state": {"type": "memory"}}))
        return load({"WEBSEARCH_CONFIG": str(file)})


async def nothing() -> None:
    """SIGHUP changes nothing here."""


def main() -> None:
    ready, played = threading.Event(), Played()
    threading.Thread(target=lambda: asyncio.run(play(ready, played)), daemon=True).start()
    ready.wait(20)
    config = settled(played, int(sys.argv[1]))
    logs.set_up(config)
    serve(Gateway(config), listeners(config), reload=nothing)


if __name__ == "__main__":
    main()
