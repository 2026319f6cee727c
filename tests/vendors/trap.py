"""A listener beside the vendors that nobody should ever reach."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Self


class Trap:
    """`url` is its address, `visits` counts connections, `heard` holds whatever was said."""

    def __init__(self) -> None:
        self.heard: list[bytes] = []
        self.visits = 0
        self.url = ""

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._hear, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/stolen"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        await self._server.wait_closed()

    async def _hear(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.visits += 1
        self.heard.append(await reader.read(65536))
        writer.close()
