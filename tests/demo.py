"""`make demo`: see the failover happen, without a key and without the internet.

Starts the played vendors and a gateway in this process, runs three searches, and prints results and chain.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
import textwrap
from pathlib import Path
from typing import Any

from gateway.config import Config, load
from gateway.gateway import Gateway
from tests.vendors import Play, Played, configuration, recording, success

DOWN = Play(503, {"content-type": "text/html"}, b"<html>503 Service Unavailable</html>")


def settled(played: Played) -> Config:
    """What the gateway makes of a configuration file that names three vendors, all of them played."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "config.json"
        file.write_text(json.dumps(configuration(played)), encoding="utf-8")
        return load({"WEBSEARCH_CONFIG": str(file)})


def told(body: dict[str, Any]) -> str:
    """An answer as a person reads it."""
    meta = body["meta"]
    lines = [f"  verdict   {meta['verdict']}, {meta['elapsed_ms']} ms"]
    for step in meta["fallback_chain"]:
        lines.append(f"  chain     {step['provider']:<8} {step['outcome']}")
        if detail := step.get("detail"):
            lines.append(f"                     {detail}")
    if winner := meta.get("provider_used"):
        lines.append(f"            {winner:<8} answered")
    for row in body["results"]:
        lines += [f"  result    {row['title']}", f"            {row['url']}"]
    if note := meta.get("note"):
        lines += textwrap.wrap(note, 76, initial_indent="  note      ", subsequent_indent="            ")
    if wait := meta.get("retry_after_s"):
        lines.append(f"  try again in {wait} s")
    return "\n".join(lines)


async def play() -> None:
    async with Played() as played, Gateway(settled(played)) as gateway:
        # what each vendor does from now on
        played.script("bocha", recording("bocha", "money_403"))
        played.script("tavily", recording("tavily", "rate_limited_429_retry_after_seconds"))
        played.script("brave", success("brave", n_rows=2))

        print("Three vendors in a chain: bocha, tavily, brave.\n")
        print("1. Bocha's balance is spent and Tavily throttles us. Brave answers.")
        print(told((await gateway.search({"query": "tidal lagoon"})).body))

        print("\n2. A moment later: those two rest, and get no request.")
        print(told((await gateway.search({"query": "salt marsh"})).body))

        played.script("brave", DOWN)
        print("\n3. Now Brave is down as well. The search says so, and when to come back.")
        print(told((await gateway.search({"query": "glass kiln"})).body))

        asked = ", ".join(f"{name} {count}" for name, count in played.counts().items())
        print(f"\nRequests that reached the vendors: {asked}.")


def main() -> None:
    asyncio.run(play())


if __name__ == "__main__":
    main()
