"""The baseline: a bare SDK server with one tool that answers with a fixed object of a search's size.

`python -m benchmarks.echo PORT BYTES`
"""

from __future__ import annotations

import sys
from typing import Any

import uvicorn
from mcp.server.mcpserver import MCPServer
from mcp.types import CallToolResult, TextContent


def app(size: int) -> Any:
    """A stateless JSON server over one `echo` tool whose text has `size` characters."""
    server = MCPServer("echo", log_level="ERROR")
    row = {"title": "t" * 40, "url": "https://example.com/" + "u" * 40, "snippet": "s" * 120, "provider": "echo"}
    body = {"results": [row] * max(1, size // 260), "meta": {"verdict": "found"}}
    import json

    text = json.dumps(body, separators=(",", ":"))

    @server.tool(name="web_search")
    async def echo(query: str) -> CallToolResult:
        return CallToolResult(content=[TextContent(type="text", text=text)], structured_content=body)

    return server.streamable_http_app(stateless_http=True, json_response=True)


if __name__ == "__main__":
    uvicorn.run(app(int(sys.argv[2])), port=int(sys.argv[1]), log_level="error", access_log=False)
