"""`python -m tests.vendors [--port N] [--tls CAFILE] [--providers a,b]`: play until interrupted.

Prints one JSON line: `url`; with --tls also `tls_url` and `untrusted_url` (the test authority's certificate is written
to CAFILE); and `config`, the content of a configuration file that points the gateway here.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
from pathlib import Path

from tests.vendors import Played, configuration


async def play(port: int, ca_file: Path | None, providers: list[str]) -> None:
    over = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, over.set)
    async with Played(port, tls=ca_file is not None) as played:
        if ca_file is not None:
            await asyncio.to_thread(ca_file.write_bytes, played.ca_pem)
        told = {
            "url": played.url,
            "tls_url": played.tls_url,
            "untrusted_url": played.untrusted_url,
            "config": configuration(played, providers),
        }
        print(json.dumps(told), flush=True)
        await over.wait()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.vendors", description="Search vendors to play with.")
    parser.add_argument("--port", type=int, default=0, help="port on 127.0.0.1 (default: any free one)")
    parser.add_argument("--tls", type=Path, metavar="CAFILE", help="serve HTTPS as well; write the test CA to CAFILE")
    parser.add_argument("--providers", default="bocha,tavily,brave,exa,searxng,duckduckgo,grok", help="the chain")
    told = parser.parse_args()
    asyncio.run(play(told.port, told.tls, told.providers.split(",")))


if __name__ == "__main__":
    main()
