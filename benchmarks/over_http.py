"""Searches a second and their latency over HTTP, as ratios to a bare SDK echo tool in the same run.

`python -m benchmarks.over_http [SECONDS_PER_ROUND] [ROUNDS]`: one worker, a vendor that answers at once, both protocol
eras. The rounds of all contestants alternate, so that a noisy machine is noisy for everybody. Nothing is asserted.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

CONNECTIONS = 8
TOKEN = "a-token-for-the-benchmark"
MODERN = "2026-07-28"
Call = Callable[[int], bytes]


def call(era: str, query: Callable[[int], str], token: str | None) -> Call:
    """The bytes of call number n."""

    def build(number: int) -> bytes:
        params: dict[str, Any] = {"name": "web_search", "arguments": {"query": query(number)}}
        heads = [
            "POST /mcp HTTP/1.1",
            "Host: 127.0.0.1:80",
            "Content-Type: application/json",
            "Accept: application/json, text/event-stream",
            f"MCP-Protocol-Version: {era}",
        ]
        if era == MODERN:
            params["_meta"] = {
                "io.modelcontextprotocol/protocolVersion": era,
                "io.modelcontextprotocol/clientInfo": {"name": "benchmark", "version": "1"},
                "io.modelcontextprotocol/clientCapabilities": {},
            }
            heads += ["Mcp-Method: tools/call", "Mcp-Name: web_search"]
        if token:
            heads.append(f"Authorization: Bearer {token}")
        body = json.dumps({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}).encode()
        return "\r\n".join([*heads, f"Content-Length: {len(body)}", "", ""]).encode() + body

    return build


async def one_connection(port: int, calls: Call, numbers: list[int], until: float, took: list[float]) -> None:
    """Call after call on one connection, until the time is over."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    while time.perf_counter() < until:
        number = numbers.pop()
        started = time.perf_counter()
        writer.write(calls(number))
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        length = int(head.partition(b"content-length:")[2].split(b"\r\n")[0])
        body = await reader.readexactly(length)
        took.append(time.perf_counter() - started)
        if not head.startswith(b"http/1.1 200") or b'"isError":true' in body or b'"error":{' in body:
            raise SystemExit(f"not an answer: {head!r} {body[:500]!r}")
    writer.close()


@dataclass
class Contestant:
    """Someone who answers calls, and how it did in each round."""

    name: str
    port: int
    calls: Call
    rates: list[float] = field(default_factory=list)
    took: list[float] = field(default_factory=list)
    numbers: list[int] = field(default_factory=lambda: list(range(3_000_000, 0, -1)))

    async def round(self, seconds: float, *, counts: bool = True) -> None:
        took: list[float] = []
        started = time.perf_counter()
        await asyncio.gather(
            *(one_connection(self.port, self.calls, self.numbers, started + seconds, took) for _ in range(CONNECTIONS))
        )
        if counts:
            self.rates.append(len(took) / (time.perf_counter() - started))
            self.took += took


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def reachable(port: int) -> None:
    for _ in range(400):
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            await asyncio.sleep(0.05)
        else:
            writer.close()
            return
    raise SystemExit(f"nobody listens on {port}")


async def reply_size(port: int, calls: Call) -> int:
    await reachable(port)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(calls(0))
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    body = await reader.readexactly(int(head.partition(b"content-length:")[2].split(b"\r\n")[0]))
    writer.close()
    return len(json.loads(body)["result"]["content"][0]["text"])


def start(*words: str, **environ: str) -> subprocess.Popen[str]:
    inherited = {name: value for name, value in os.environ.items() if name in ("PATH", "SYSTEMROOT", "TEMP")}
    return subprocess.Popen(
        [sys.executable, "-m", *words], stdout=subprocess.PIPE, text=True, env=inherited | environ if environ else None
    )


def stop(*processes: subprocess.Popen[str]) -> None:
    for process in processes:
        process.terminate()
    for process in processes:
        process.wait(20)


def configure(vendors: subprocess.Popen[str], folder: str) -> str:
    """A configuration file: one vendor, no limit, SQLite in `folder`, a token."""
    assert vendors.stdout is not None
    told = json.loads(vendors.stdout.readline())
    config = told["config"]
    # one ready-made reply: what the vendor computes is not what is measured
    rows = [
        {
            "title": f"Page {at}",
            "url": f"https://site{at}.example/a",
            "content": "Some words of text. " * 6,
            "score": 0.9,
        }
        for at in range(5)
    ]
    reply = {"status": 200, "body": {"query": "q", "results": rows, "response_time": 0.1}}
    ask = urllib.request.Request(told["url"] + "/_script/tavily", json.dumps([reply]).encode(), method="POST")
    urllib.request.urlopen(ask, timeout=10).close()
    config["providers"][0]["quota"] = {"type": "unbounded"}
    config |= {"state": {"type": "sqlite", "path": folder}, "server": {"tokens": [{"name": "bench", "token": TOKEN}]}}
    file = Path(folder, "config.json")
    file.write_text(json.dumps(config))
    file.chmod(0o600)
    return str(file)


def main(seconds: float, rounds: int) -> None:
    ours, bare = free_port(), free_port()
    with tempfile.TemporaryDirectory() as folder:
        vendors = start("tests.vendors", "--providers", "tavily")
        file = configure(vendors, folder)
        gateway = start("gateway", "serve", "--port", str(ours), WEBSEARCH_CONFIG=file, WEBSEARCH_LOG="warn")
        running = [vendors, gateway]
        try:
            size = asyncio.run(reply_size(ours, call("2025-06-18", lambda _: "the same", TOKEN)))
            running.append(start("benchmarks.echo", str(bare), str(size)))
            contestants = []
            for era in ("2025-06-18", MODERN):
                contestants += [
                    Contestant(f"echo {era}", bare, call(era, lambda _: "the same", None)),
                    Contestant(f"hit {era}", ours, call(era, lambda _: "the same", TOKEN)),
                    Contestant(f"miss {era}", ours, call(era, lambda number, era=era: f"query {era} {number}", TOKEN)),
                ]
            asyncio.run(race(contestants, seconds, rounds))
        finally:
            stop(*running)
    print(f"{CONNECTIONS} connections, {rounds} rounds of {seconds} s, text of {size} characters")
    table(contestants)


async def race(contestants: list[Contestant], seconds: float, rounds: int) -> None:
    for each in contestants:
        await reachable(each.port)
        await each.round(min(1.0, seconds), counts=False)
    for _ in range(rounds):
        for each in contestants:
            await each.round(seconds)


def table(contestants: list[Contestant]) -> None:
    base = statistics.median(contestants[0].rates)
    print(f"{'':<18}{'per second':>12}{'min..max':>16}{'of echo':>9}{'p50 ms':>9}{'p95 ms':>9}")
    for each in contestants:
        took = sorted(each.took)
        span = f"{min(each.rates):.0f}..{max(each.rates):.0f}"
        rate = statistics.median(each.rates)
        print(
            f"{each.name:<18}{rate:>12.0f}{span:>16}{rate / base:>9.2f}"
            f"{took[len(took) // 2] * 1000:>9.2f}{took[len(took) * 95 // 100] * 1000:>9.2f}"
        )


if __name__ == "__main__":
    numbers = [float(each) for each in sys.argv[1:]]
    main(numbers[0] if numbers else 3.0, int(numbers[1]) if len(numbers) > 1 else 3)
