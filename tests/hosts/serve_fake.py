"""A gateway without vendors for other people's clients: `python -m tests.hosts.serve_fake PORT`.

Serves until SIGTERM, with a bearer token that the path may carry too (the conformance suites can send no header), and
for local names only. A query of `fail` brings a failed search, anything else one result.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from gateway import logs
from gateway.audit import Step
from gateway.doors.serving import serve
from gateway.gateway import Answer
from tests.doors_fixtures import FAILED, TOKEN, FakeGateway, settings


class ByQuery(FakeGateway):
    async def search(
        self,
        arguments: Mapping[str, Any],
        *,
        client: str = "default",
        progress: Callable[[int, Step], Awaitable[None]] | None = None,
    ) -> Answer:
        if arguments.get("query") == "fail":
            return Answer(FAILED, is_error=True)
        return await super().search(arguments, client=client, progress=progress)


if __name__ == "__main__":
    config = settings(TOKEN, allow_path_token=True, allowed_hosts=("127.0.0.1", "localhost"))
    logs.set_up(config)
    serve(ByQuery(config), port=int(sys.argv[1]))  # type: ignore[arg-type]
