"""The TypeScript SDK's client, unmodified, with a bearer token: `python -m tests.hosts.typescript`.

It checks structured results against the advertised output schema, those of errors too.
"""

from __future__ import annotations

import subprocess
import sys

from tests.doors_fixtures import TOKEN
from tests.hosts.running import node, npm, running

CLIENT = """
import assert from "node:assert/strict";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const [url, token] = process.argv.slice(2);
const client = new Client({ name: "test", version: "0" });
const transport = new StreamableHTTPClientTransport(new URL(url), {
  requestInit: { headers: { Authorization: `Bearer ${token}` } },
});
await client.connect(transport);
const { tools } = await client.listTools();
assert.deepEqual(tools.map((tool) => tool.name), ["web_search", "web_search_status"]);

const heard = [];
const call = (name, args) =>
  client.callTool({ name, arguments: args }, undefined, { onprogress: (step) => heard.push(step.message) });
const found = await call("web_search", { query: "snow" });
assert.equal(found.structuredContent.meta.verdict, "found");
assert.deepEqual(JSON.parse(found.content[0].text), found.structuredContent);
assert.equal(heard.length, 3);
assert.ok(heard[0].startsWith("bocha: quota_exhausted"), heard[0]);
assert.equal(heard[2], "brave: ok");

const failed = await call("web_search", { query: "snow", max_results: "five" });
assert.equal(failed.isError, true);
assert.equal(failed.structuredContent.meta.verdict, "failed");
assert.equal((await call("web_search_status", {})).isError, false);

await client.ping();
assert.deepEqual((await client.listResources()).resources, []);
assert.deepEqual((await client.listPrompts()).prompts, []);
await client.close();
console.log("typescript:", transport.protocolVersion, "ok");
"""


def main() -> int:
    home = npm("typescript", "@modelcontextprotocol/sdk@^1.32")
    (home / "client.mjs").write_text(CLIENT)
    with running() as address:
        return subprocess.run([node(), home / "client.mjs", f"{address}/mcp", TOKEN], timeout=60).returncode


if __name__ == "__main__":
    sys.exit(main())
