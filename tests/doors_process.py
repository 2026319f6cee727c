"""A process of its own around a `FakeGateway`: `python -m tests.doors_process http|stdio [hangs] [hasty] [broken]`."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any

from gateway import logs
from gateway.doors import serving
from gateway.doors.listening import listeners
from gateway.doors.mcp import serve_stdio
from gateway.gateway import Answer
from gateway.steps import Step
from tests.doors_fixtures import TOKEN, FakeGateway, settings

log = logging.getLogger("gateway.tests")


class Talkative(FakeGateway):
    """Prints where it must not, and logs what happens to it."""

    async def search(
        self,
        arguments: Mapping[str, Any],
        *,
        client: str = "default",
        progress: Callable[[int, Step], Awaitable[None]] | None = None,
    ) -> Answer:
        print("a stray line")
        log.info("entered 雪 %s", arguments.get("query"))
        try:
            if self.hangs and arguments.get("query") != "fast":
                await asyncio.sleep(float(str(arguments.get("seconds", 30))))
        except asyncio.CancelledError:
            log.info("left")
            raise
        return await super().search(arguments, client=client, progress=progress)


async def reload() -> None:
    if "broken" in sys.argv:
        raise RuntimeError(f"cannot be reloaded with {TOKEN}")
    log.info("reloaded")


if __name__ == "__main__":
    config = replace(settings(TOKEN, port=0), log_level="info")
    logs.set_up(config)
    gateway: Any = Talkative(config, hangs="hangs" in sys.argv)
    gateway.go_on.set()
    if sys.argv[1] == "http":
        if "hasty" in sys.argv:
            serving.GRACE_S = 0
        serving.serve(gateway, listeners(config), reload=reload)
    else:
        asyncio.run(serve_stdio(gateway))
