"""What every store that processes share promises, with real processes, some of which are killed."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO

import pytest

from tests.redis_server import shared_url
from tests.store_worker import opened

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parents[1]
RACERS = 4


@pytest.fixture(params=["sqlite", "redis"])
def home(request: pytest.FixtureRequest) -> str:
    """Where processes share a store: see `opened`."""
    name: str = request.param
    return shared_url() if name == "redis" else name


async def counted(home: str, folder: Path, key: str) -> int:
    store = opened(home, folder)
    found = await store.counted([key])
    await store.aclose()
    return found[key]


class Racer:
    """A process that does what it is told; see store_worker."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self.process = process
        self.stdin: IO[bytes] = process.stdin
        self.stdout: IO[bytes] = process.stdout

    def begin(self, home: str, folder: Path, task: str, number: int) -> None:
        self.stdin.write(f"{home} {task} {number} {folder}\n".encode())


@contextlib.contextmanager
def racer() -> Iterator[Racer]:
    """A process that is ready to begin."""
    command = [sys.executable, "-m", "tests.store_worker"]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as process:
        try:
            it = Racer(process)
            assert it.stdout.readline() == b"ready\n"
            yield it
        finally:
            process.kill()


Race = Callable[[Path, str, int], list[str]]


@pytest.fixture(scope="module")
def racers() -> Iterator[list[Racer]]:
    """Processes that stay for all races, over whichever store."""
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(racer()) for _ in range(RACERS)]


@pytest.fixture
def race(home: str, racers: list[Racer]) -> Race:
    """What each of the racers said of a task, having begun together."""

    def run(folder: Path, task: str, number: int) -> list[str]:
        for each in racers:
            each.begin(home, folder, task, number)
        said = [each.stdout.readline() for each in racers]
        assert [line[-1:] for line in said] == [b"\n"] * RACERS
        return [line[:-1].decode() for line in said]

    return run


async def test_processes_that_race_for_777_units_get_exactly_777(race: Race, home: str, tmp_path: Path) -> None:
    said = race(tmp_path, "spend", 777)
    assert sum(map(len, said)) == 777
    assert await counted(home, tmp_path, "units") == 777


def test_of_processes_that_rest_the_same_keys_exactly_one_is_first_for_each(race: Race, tmp_path: Path) -> None:
    firsts = [name for words in race(tmp_path, "rest", 200) for name in words.split()]
    assert sorted(map(int, firsts)) == list(range(200))


def test_processes_get_different_places_in_one_queue(race: Race, tmp_path: Path) -> None:
    places = [int(place) for words in race(tmp_path, "turn", 100) for place in words.split()]
    assert sorted(places) == list(range(RACERS * 100))


async def test_processes_that_begin_the_same_store_at_once_all_get_to_use_it(
    race: Race, home: str, tmp_path: Path
) -> None:
    race(tmp_path, "open", 25)
    for number in range(25):
        assert await counted(home, tmp_path / str(number), "opened") == RACERS


async def test_processes_that_are_killed_lose_no_unit_and_the_others_pass_no_limit(home: str, tmp_path: Path) -> None:
    limit, kills_each = 1000, 2

    def line_of_workers(_: int) -> int:
        """Units granted to workers that take each other's place, all but the last killed in the middle of it."""
        granted = 0
        for doomed in [True] * kills_each + [False]:
            with racer() as it:
                it.begin(home, tmp_path, "spend", limit)
                own = 0
                while (said := it.stdout.read(64)) and not said.endswith(b"\n"):
                    own += len(said)
                    if doomed and own >= 60:
                        it.process.kill()
                granted += own + len(said.rstrip(b"\n"))
        return granted

    with ThreadPoolExecutor(2) as lines:
        granted = sum(lines.map(line_of_workers, range(2)))
    assert await counted(home, tmp_path, "units") == limit
    # a killed worker may have taken one unit that it could not tell of any more
    assert limit - 2 * kills_each <= granted <= limit
