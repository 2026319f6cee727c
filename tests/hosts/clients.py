"""The vendors' own clients, unmodified, against the played vendors: `python -m tests.hosts.clients`.

Each recording goes through the client of its vendor, whose rows or typed error must agree with what we say it means;
where a client chokes on a recording, the recording is the first suspect. tests/hosts/asking.py is what they do.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from contextlib import AsyncExitStack
from pathlib import Path

from tests.hosts.running import ROOT, locked
from tests.vendors import Play, Played, Request, recording, success
from tests.vendors.plays import RECORDINGS

HERE = Path(__file__).parent
VENDORS = ("tavily", "exa", "firecrawl", "grok", "grok_relay")


def recorded(provider: str) -> tuple[str, ...]:
    """The names of a provider's recordings; () when it has none."""
    file = RECORDINGS / f"{provider}.json"
    return tuple(case["name"] for case in json.loads(file.read_text(encoding="utf-8"))) if file.exists() else ()


class Alone(Played):
    """One vendor at the root of an address of its own: not every client keeps the path of a base URL."""

    def __init__(self, provider: str) -> None:
        super().__init__()
        self._provider = provider
        self._names = recorded(provider)
        self.script(provider, self._asked_for)

    def arrived(self, method: str, path: str, head: bytes, body: bytes, version: str) -> tuple[Request, Play]:
        return super().arrived(method, f"/{self._provider}{path}", head, body, version)

    def _asked_for(self, request: Request) -> Play:
        """The recording that the client names, in place of a key: the only thing that every client hands on unread."""
        sent = request.headers
        named = sent.get("x-session-id") or sent.get("x-api-key") or sent["authorization"].removeprefix("Bearer ")
        name = named.removeprefix("fc-")
        return recording(self._provider, name) if name in self._names else success(self._provider)(request)


async def ask(python: Path, vendors: list[str]) -> int:
    async with AsyncExitStack() as stack:
        urls = {vendor: (await stack.enter_async_context(Alone(vendor))).url for vendor in vendors}
        command = [python, HERE / "asking.py", RECORDINGS, json.dumps(urls)]
        process = await asyncio.create_subprocess_exec(*command, cwd=ROOT)
        return await process.wait()


def main() -> int:
    vendors = [name for name in VENDORS if recorded(name) or name == "grok_relay"]
    failed = asyncio.run(ask(locked("clients", HERE / "clients.lock"), vendors))
    for name in VENDORS:
        if name not in vendors:
            print(f"not run: {name}: it has no recordings")
    print("not run: xai-sdk: it speaks gRPC; xAI's HTTP interface is OpenAI's, and openai was run")
    return failed


if __name__ == "__main__":
    try:
        sys.exit(main())
    except subprocess.CalledProcessError as error:
        sys.exit(f"not run: the clients could not be installed: {error}")
