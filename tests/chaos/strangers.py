"""Clients that no worker knows: without affinity, and without ever saying goodbye."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.chaos.stage import Line, check, content, free_ports, resident_mb, served, until_workers, workers_of
from tests.doors_fixtures import call
from tests.processes import written
from tests.vendors import Played

HANDSHAKE, MODERN = "2025-06-18", "2026-07-28"
CLIENT = {"name": "chaos", "version": "1"}
WARM, FULL = 1000, 5000


def initialize(number: int) -> dict[str, Any]:
    params = {"protocolVersion": HANDSHAKE, "capabilities": {}, "clientInfo": CLIENT}
    return {"jsonrpc": "2.0", "id": number, "method": "initialize", "params": params}


def listed() -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {}}


def modern(message: dict[str, Any]) -> dict[str, Any]:
    meta = {
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientInfo": CLIENT,
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    return message | {"params": message["params"] | {"_meta": meta}}


async def once(port: int, message: dict[str, Any], **headers: str) -> dict[str, Any]:
    """The result of one message on a connection of its own. Raises KeyError when there is none."""
    status, body = await Line(port).post(message, Connection="close", **headers)
    assert status == 200, (status, body)
    result: dict[str, Any] = body["result"]
    return result


async def handshake_client(port: int, number: int) -> bool:
    session = await once(port, initialize(number), MCP_Session_Id=f"of-another-worker-{number}")
    tools = await once(port, listed(), MCP_Protocol_Version=session["protocolVersion"])
    found = await once(port, call({"query": f"stranger {number}"}), MCP_Protocol_Version=HANDSHAKE)
    return len(tools["tools"]) == 2 and not found["isError"]


async def modern_client(port: int, number: int) -> bool:
    versions = {"MCP_Protocol_Version": MODERN}
    found = await once(
        port,
        modern(call({"query": f"modern stranger {number}"})),
        **versions,
        Mcp_Method="tools/call",
        Mcp_Name="web_search",
    )
    tools = await once(port, modern(listed()), **versions, Mcp_Method="tools/list")
    return len(tools["tools"]) == 2 and not found["isError"]


@asynccontextmanager
async def four_workers() -> AsyncIterator[tuple[int, int]]:
    """The number of the server's process, and its port."""
    with tempfile.TemporaryDirectory() as folder:
        home, (port,) = Path(folder), free_ports(1)
        async with Played() as played:
            sections = {"state": {"type": "sqlite", "path": str(home / "state")}}
            config = written(home / "config.json", content(played, [{"name": "searxng"}], port, **sections))
            async with served(home, config, "--workers", "4", port=port) as parent:
                yield parent, port


async def without_affinity(clients: int) -> bool:
    async with four_workers() as (_, port), asyncio.timeout(300):
        calls = [client(port, number) for number in range(clients) for client in (handshake_client, modern_client)]
        good = await asyncio.gather(*calls, return_exceptions=True)
    faults = [each for each in good if each is not True]
    print(f"{clients} handshake and {clients} modern clients, a connection a call, four workers; faults: {faults[:3]}")
    return check("every call of every client is answered", not faults)


async def without_goodbye() -> bool:
    async with four_workers() as (parent, port), asyncio.timeout(600):
        lines = [Line(port) for _ in range(16)]
        await until_workers(parent, 4)

        async def begin(number: int) -> None:
            async with places:
                line = lines.pop()
                status, _ = await line.post(initialize(number))
                assert status == 200
                lines.append(line)

        places = asyncio.Semaphore(len(lines))
        await asyncio.gather(*(begin(number) for number in range(WARM)))
        before = [resident_mb(each) for each in workers_of(parent)]
        await asyncio.gather(*(begin(number) for number in range(FULL)))
        after = [resident_mb(each) for each in workers_of(parent)]
        for line in lines:
            line.close()
    print(
        f"{FULL} initialize without DELETE, after {WARM}: workers hold {sum(before):.1f} MB, then {sum(after):.1f} MB"
    )
    return check("memory is flat: within 1 MB a worker", all(b - a < 1 for a, b in zip(before, after, strict=True)))
