"""What every test may ask for."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.vendors import Played


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def played(anyio_backend: str) -> AsyncIterator[Played]:
    """The played vendors over HTTP/1.1; see tests/vendors."""
    async with Played() as played:
        yield played
