"""The Python SDK before 2.0, unmodified, over HTTP with a bearer token: `python -m tests.hosts.python_1x`.

The part below `CLIENT` runs in a virtual environment of its own, since both SDKs are called `mcp`.
"""

from __future__ import annotations

import subprocess
import sys

from tests.doors_fixtures import TOKEN
from tests.hosts.running import INSTALLED, running

HOME = INSTALLED / "python-1x"

CLIENT = """
import asyncio, json, sys
from mcp import ClientSession
from mcp.client.streamable_http import streamablehttp_client

async def main(url, token):
    heard = []

    async def on_progress(progress, total, message):
        heard.append(message)

    async with streamablehttp_client(url, headers={"Authorization": f"Bearer {token}"}) as (reading, writing, _):
        async with ClientSession(reading, writing) as session:
            hello = await session.initialize()
            tools = (await session.list_tools()).tools
            assert [tool.name for tool in tools] == ["web_search", "web_search_status"], tools
            found = await session.call_tool("web_search", {"query": "snow"}, progress_callback=on_progress)
            assert not found.isError
            assert json.loads(found.content[0].text) == found.structuredContent
            assert found.structuredContent["meta"]["verdict"] == "found"
            assert len(heard) == 3 and heard[0].startswith("bocha: quota_exhausted") and heard[2] == "brave: ok", heard
            failed = await session.call_tool("web_search", {"query": "snow", "max_results": "five"})
            assert failed.isError
            assert failed.structuredContent["meta"]["verdict"] == "failed"
            status = await session.call_tool("web_search_status", {})
            assert not status.isError
            await session.send_ping()
            assert (await session.list_resources()).resources == []
            assert (await session.list_prompts()).prompts == []
    print("python 1.x:", hello.protocolVersion, "ok")

asyncio.run(main(*sys.argv[1:]))
"""


def main() -> int:
    if not HOME.exists():
        subprocess.run([sys.executable, "-m", "venv", HOME], check=True)
        subprocess.run([HOME / "bin" / "pip", "install", "--quiet", "mcp<2"], check=True)
    with running() as address:
        return subprocess.run([HOME / "bin" / "python", "-c", CLIENT, f"{address}/mcp", TOKEN], timeout=60).returncode


if __name__ == "__main__":
    sys.exit(main())
