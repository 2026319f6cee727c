"""What every store that processes share promises, with real processes, some of which are killed."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.store_worker import SHARED

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parents[1]
RACERS = 4


@pytest.fixture(params=SHARED)
def home(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    name: str = request.param
    SHARED[name](tmp_path)  # the server that it may need is started here, not by each process
    return name


async def counted(home: str, folder: Path, key: str) -> int:
    store = SHARED[home](folder)
    found = await store.counted([key])
    await store.aclose()
    return found[key]


@contextlib.contextmanager
def worker(home: str, folder: Path, task: str, number: int) -> Iterator[subprocess.Popen[bytes]]:
    """A process that is ready to begin; see store_worker."""
    command = [sys.executable, "-m", "tests.store_worker", home, str(folder), task, str(number)]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline().strip() == b"ready"
            yield process
        finally:
            process.kill()


def race(home: str, folder: Path, task: str, number: int) -> list[str]:
    """What each of the racers said, having begun together."""
    with contextlib.ExitStack() as stack:
        racers = [stack.enter_context(worker(home, folder, task, number)) for _ in range(RACERS)]
        for racer in racers:
            assert racer.stdin is not None
            racer.stdin.write(b"go\n")
        with ThreadPoolExecutor(RACERS) as readers:
            said = [output.decode() for output, _ in readers.map(subprocess.Popen.communicate, racers)]
        assert [racer.returncode for racer in racers] == [0] * RACERS
        return said


async def test_processes_that_race_for_777_units_get_exactly_777(home: str, tmp_path: Path) -> None:
    said = race(home, tmp_path, "spend", 777)
    assert sum(map(len, said)) == 777
    assert await counted(home, tmp_path, "units") == 777


def test_of_processes_that_rest_the_same_keys_exactly_one_is_first_for_each(home: str, tmp_path: Path) -> None:
    firsts = [name for words in race(home, tmp_path, "rest", 200) for name in words.split()]
    assert sorted(map(int, firsts)) == list(range(200))


def test_processes_get_different_places_in_one_queue(home: str, tmp_path: Path) -> None:
    places = [int(place) for words in race(home, tmp_path, "turn", 100) for place in words.split()]
    assert sorted(places) == list(range(RACERS * 100))


async def test_processes_that_begin_the_same_store_at_once_all_get_to_use_it(home: str, tmp_path: Path) -> None:
    race(home, tmp_path, "open", 25)
    for number in range(25):
        assert await counted(home, tmp_path / str(number), "opened") == RACERS


async def test_processes_that_are_killed_lose_no_unit_and_the_others_pass_no_limit(home: str, tmp_path: Path) -> None:
    limit, kills_each = 1000, 2

    def line_of_workers(_: int) -> int:
        """Units granted to workers that take each other's place, all but the last killed in the middle of it."""
        granted = 0
        for doomed in [True] * kills_each + [False]:
            with worker(home, tmp_path, "spend", limit) as process:
                assert process.stdin is not None
                assert process.stdout is not None
                process.stdin.write(b"go\n")
                own = 0
                while said := process.stdout.read(64):
                    own += len(said)
                    if doomed and own >= 60:
                        process.kill()
                granted += own
        return granted

    with ThreadPoolExecutor(2) as lines:
        granted = sum(lines.map(line_of_workers, range(2)))
    assert await counted(home, tmp_path, "units") == limit
    # a killed worker may have taken one unit that it could not tell of any more
    assert limit - 2 * kills_each <= granted <= limit
