"""What every test may ask for."""

from __future__ import annotations

import socket
import sys
from collections.abc import AsyncIterator, Iterator

import pytest
from hypothesis import HealthCheck, settings

from tests.vendors import Played

# a busy machine is not a failing test
settings.register_profile("calm", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("calm")


@pytest.fixture(scope="session", autouse=True)
def nobody_is_logged_in(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Whoever runs the tests may have logged in to an account: that is not theirs to use."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session", autouse=True)
def no_redis_is_left_running() -> Iterator[None]:
    """The server of all tests is started by the first that needs it; see tests/redis_server."""
    yield
    if (used := sys.modules.get("tests.redis_server")) is not None:
        used.end_shared()


@pytest.fixture(scope="session", autouse=True)
def nobody_waits_for_orders_to_fork() -> Iterator[None]:
    """The process that others are forked from is started by the first test that needs it; see tests/forking."""
    yield
    if (used := sys.modules.get("tests.forking")) is not None:
        used.end()


@pytest.fixture
async def played(anyio_backend: str) -> AsyncIterator[Played]:
    """The played vendors over HTTP/1.1; see tests/vendors."""
    async with Played() as played:
        yield played


@pytest.fixture
def unused_tcp_port() -> int:
    """A loopback port on which nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])
