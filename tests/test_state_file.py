"""The state file: who may read it, what happens when it cannot be used, and that it mends itself."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import stat
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from gateway.settings import StateSettings
from gateway.stores import StoreUnavailable
from gateway.stores import sqlite as home
from gateway.stores.memory import MemoryStore
from gateway.stores.opening import open_store, state_folder
from gateway.stores.sqlite import FILE_NAME, STEPS, SQLiteStore

pytestmark = pytest.mark.anyio


@contextlib.contextmanager
def raw(file: Path) -> Iterator[sqlite3.Connection]:
    """The file as any other program sees it."""
    connection = sqlite3.connect(file, isolation_level=None, timeout=0)
    try:
        yield connection
    finally:
        connection.close()


@contextlib.contextmanager
def unprivileged() -> Iterator[None]:
    """As a user to whom permissions apply: for root, who needs none, somebody else."""
    user = os.geteuid()
    os.seteuid(user or 65534)
    try:
        yield
    finally:
        os.seteuid(user)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder in a place that every user can reach, which `tmp_path` is not."""
    folder = Path(tempfile.mkdtemp(prefix="websearch-gateway-"))
    folder.chmod(0o755)
    yield folder
    folder.chmod(0o755)
    shutil.rmtree(folder)


async def test_folder_and_file_are_made_for_the_user_alone(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "new" / "state")
    await store.count("a", None)
    assert stat.S_IMODE(store.folder.stat().st_mode) == 0o700
    assert {each.name for each in store.folder.iterdir()} >= {FILE_NAME, FILE_NAME + "-wal"}
    assert {stat.S_IMODE(each.stat().st_mode) for each in store.folder.iterdir()} == {0o600}
    await store.aclose()


async def test_what_is_remembered_outlives_the_process(tmp_path: Path) -> None:
    opened = await open_store(StateSettings(path=tmp_path))
    assert opened.persistent
    assert opened.warnings == ()
    await opened.store.spend("tavily", 5, None)
    await opened.store.aclose()
    again = await open_store(StateSettings(path=tmp_path))
    assert await again.store.counted(["tavily"]) == {"tavily": 1}
    await again.store.aclose()


async def test_without_a_path_the_file_is_in_the_users_state_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HOME", "XDG_STATE_HOME", "LOCALAPPDATA"):
        monkeypatch.setenv(name, str(tmp_path))
    opened = await open_store(StateSettings())
    assert state_folder().is_relative_to(tmp_path)
    assert FILE_NAME in os.listdir(state_folder())
    await opened.store.aclose()


async def test_memory_is_memory_when_it_was_asked_for(tmp_path: Path) -> None:
    opened = await open_store(StateSettings(type="memory", path=tmp_path))
    assert isinstance(opened.store, MemoryStore)
    assert (opened.warnings, opened.persistent) == ((), False)
    assert os.listdir(tmp_path) == []


async def test_a_folder_that_cannot_be_written_gives_memory_and_a_warning(open_folder: Path) -> None:
    os.chmod(open_folder, 0o555)
    with unprivileged():
        opened = await open_store(StateSettings(path=open_folder))
        user = f"(uid {os.geteuid()})"
    assert isinstance(opened.store, MemoryStore)
    assert not opened.persistent
    assert str(open_folder / FILE_NAME) in opened.warnings[0]
    assert user in opened.warnings[0]
    assert await opened.store.spend("tavily", 1, None) == 1


async def test_a_file_of_another_user_gives_memory_and_a_warning(open_folder: Path) -> None:
    SQLiteStore(open_folder).open()
    os.chmod(open_folder, 0o777)
    os.chmod(open_folder / FILE_NAME, 0o444)
    with unprivileged():
        opened = await open_store(StateSettings(path=open_folder))
    assert isinstance(opened.store, MemoryStore)
    assert "cannot be written by user" in opened.warnings[0]


@pytest.mark.parametrize("place", ["the folder", "a folder above", "the file"])
async def test_something_else_in_the_place_gives_memory_and_a_warning(tmp_path: Path, place: str) -> None:
    folder = tmp_path / "above" / "state"
    if place == "the file":
        (folder / FILE_NAME).mkdir(parents=True)
    elif place == "the folder":
        folder.parent.mkdir()
        folder.touch()
    else:
        folder.parent.touch()
    opened = await open_store(StateSettings(path=folder))
    assert isinstance(opened.store, MemoryStore)
    assert str(folder / FILE_NAME) in opened.warnings[0]


async def test_an_old_sqlite_gives_memory_and_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 34, 1))
    opened = await open_store(StateSettings(path=tmp_path))
    assert isinstance(opened.store, MemoryStore)
    assert "3.35.0 is needed" in opened.warnings[0]


async def test_memory_does_not_stand_in_where_several_processes_would_each_have_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "state").touch()
    opened = await open_store(StateSettings(path=tmp_path / "state"), stands_in=False)
    assert isinstance(opened.store, SQLiteStore)
    assert str(tmp_path / "state" / FILE_NAME) in opened.warnings[0]
    with pytest.raises(StoreUnavailable, match="cannot be written"):
        await opened.store.spend("tavily", 1, None)
    (tmp_path / "state").unlink()
    assert await opened.store.spend("tavily", 1, None) == 1
    await opened.store.aclose()
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 34, 1))
    old = await open_store(StateSettings(path=tmp_path), stands_in=False)
    assert isinstance(old.store, SQLiteStore)
    assert "3.35.0 is needed" in old.warnings[0]


async def test_a_start_by_hand_may_clear_what_only_this_machine_knows(tmp_path: Path) -> None:
    for settings in (StateSettings("memory"), StateSettings(path=tmp_path)):
        opened = await open_store(settings)
        assert opened.clears_auth
        await opened.store.aclose()


async def test_a_file_that_becomes_read_only_says_so_and_works_again_when_it_is_not(open_folder: Path) -> None:
    store = SQLiteStore(open_folder)
    await store.count("a", None)
    await store.aclose()
    os.chmod(store.file, 0o444)
    os.chmod(open_folder, 0o555)
    with unprivileged(), pytest.raises(StoreUnavailable, match="cannot be written by user"):
        await store.count("a", None)
    os.chmod(open_folder, 0o755)
    os.chmod(store.file, 0o600)
    assert await store.count("a", None) == 2
    await store.aclose()


async def test_a_locked_file_costs_one_short_wait_and_works_again_when_the_lock_goes(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path)
    await store.count("a", None)
    with raw(store.file) as other:
        other.execute("BEGIN IMMEDIATE")
        started = time.monotonic()
        for _ in range(20):
            with pytest.raises(StoreUnavailable, match="locked by another process"):
                await store.spend("a", 10, None)
            assert await store.counted(["a"]) == {"a": 1}
        assert time.monotonic() - started < 2  # patient each time, it would be 4
        other.execute("COMMIT")
    assert await store.spend("a", 10, None) == 2
    await store.aclose()


async def test_a_file_that_is_locked_at_the_start_stays_the_store(tmp_path: Path) -> None:
    SQLiteStore(tmp_path).open()
    with raw(tmp_path / FILE_NAME) as other:
        other.execute("BEGIN IMMEDIATE")
        opened = await open_store(StateSettings(path=tmp_path))
        assert opened.persistent
        assert "locked by another process" in opened.warnings[0]
        other.execute("ROLLBACK")
    assert await opened.store.count("a", None) == 1
    await opened.store.aclose()


async def test_a_file_that_is_read_by_others_while_it_is_new_is_not_waited_for_without_end(tmp_path: Path) -> None:
    with raw(tmp_path / FILE_NAME) as other:
        other.execute("CREATE TABLE theirs (x)")
        other.execute("BEGIN")
        other.execute("SELECT * FROM theirs").fetchall()
        with pytest.raises(StoreUnavailable, match="locked"):
            SQLiteStore(tmp_path).open()


@pytest.mark.parametrize("damage", [b"not a database at all " * 500, b"SQLite format 3\x00" + b"\xff" * 8000])
async def test_a_damaged_file_is_refused_in_words_until_it_is_moved_away(tmp_path: Path, damage: bytes) -> None:
    (tmp_path / FILE_NAME).write_bytes(damage)
    opened = await open_store(StateSettings(path=tmp_path))
    assert opened.persistent
    assert "is damaged: move it away" in opened.warnings[0]
    with pytest.raises(StoreUnavailable, match="is damaged"):
        await opened.store.spend("a", 10, None)
    (tmp_path / FILE_NAME).rename(tmp_path / "damaged")
    assert await opened.store.spend("a", 10, None) == 1
    await opened.store.aclose()


async def test_a_file_that_is_damaged_under_way_is_refused_in_words(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path)
    await store.count("a", None)
    await store.aclose()
    size = store.file.stat().st_size
    await store.count("a", None)
    with store.file.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xee" * (size - 4096))
    with pytest.raises(StoreUnavailable, match="is damaged"):
        await store.rest("a", 2e9, "timeout")
    await store.aclose()


async def test_a_full_disk_is_told_in_words_and_works_again_when_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def small(connect: partial[sqlite3.Connection], *values: object, **named: object) -> sqlite3.Connection:
        connection = connect(*values, **named)
        connection.execute("PRAGMA max_page_count=30")
        return connection

    store = SQLiteStore(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(sqlite3, "connect", partial(small, sqlite3.connect))
        assert await store.spend("a", 10, None) == 1
        with pytest.raises(StoreUnavailable, match="the disk is full"):
            await store.keep("room", "big", bytes(500_000), 60, at_most=3)
        assert await store.spend("a", 10, None) == 2
    await store.aclose()
    await store.keep("room", "big", bytes(500_000), 60, at_most=3)
    assert await store.kept("room") == 1
    await store.aclose()


@pytest.mark.parametrize("gone", ["the file", "all of its files", "the folder"])
async def test_a_file_that_is_deleted_is_made_anew_for_everybody(tmp_path: Path, gone: str) -> None:
    folder = tmp_path / "state"
    one, other = SQLiteStore(folder), SQLiteStore(folder)
    assert [await one.count("a", None), await other.count("a", None)] == [1, 2]
    if gone == "the file":
        one.file.unlink()
    elif gone == "all of its files":
        for each in folder.iterdir():
            each.unlink()
    else:
        shutil.rmtree(folder)
    assert [await one.count("a", None), await other.count("a", None)] == [1, 2]
    await one.aclose()
    await other.aclose()


async def test_a_file_that_is_replaced_is_opened_anew(tmp_path: Path) -> None:
    store, spare = SQLiteStore(tmp_path / "state"), SQLiteStore(tmp_path / "spare")
    await store.count("a", None)
    await spare.count("a", None, by=40)
    await spare.aclose()
    for each in store.folder.iterdir():
        each.unlink()
    spare.file.rename(store.file)
    assert await store.count("a", None) == 41
    await store.aclose()


async def test_a_newer_schema_is_refused_in_words_and_left_alone(tmp_path: Path) -> None:
    SQLiteStore(tmp_path).open()
    with raw(tmp_path / FILE_NAME) as newer:
        newer.execute(f"PRAGMA user_version={len(STEPS) + 1}")
    opened = await open_store(StateSettings(path=tmp_path))
    assert opened.persistent
    assert "was written by a newer websearch-gateway" in opened.warnings[0]
    with pytest.raises(StoreUnavailable, match="move the file away"):
        await opened.store.spend("a", 10, None)
    with raw(tmp_path / FILE_NAME) as newer:
        assert newer.execute("PRAGMA user_version").fetchone() == (len(STEPS) + 1,)
    await opened.store.aclose()


async def test_an_older_schema_is_taken_along_with_what_it_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = SQLiteStore(tmp_path)
    await store.count("a", None)
    await store.aclose()
    monkeypatch.setattr(home, "STEPS", (*STEPS, ("CREATE TABLE more (x)", "INSERT INTO more VALUES (7)")))
    assert await store.count("a", None) == 2
    await store.aclose()
    assert await store.count("a", None) == 3
    with raw(store.file) as file:
        assert file.execute("PRAGMA user_version").fetchone() == (len(STEPS) + 1,)
        assert file.execute("SELECT x FROM more").fetchall() == [(7,)]
    await store.aclose()


async def test_a_step_that_fails_half_way_leaves_the_older_schema(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = SQLiteStore(tmp_path)
    await store.count("a", None)
    await store.aclose()
    with monkeypatch.context() as patch:
        patch.setattr(home, "STEPS", (*STEPS, ("CREATE TABLE more (x)", "CREATE TABLE more (x)")))
        with pytest.raises(StoreUnavailable, match="cannot be used: table more already exists"):
            await store.count("a", None)
    assert await store.count("a", None) == 2
    await store.aclose()


async def test_the_file_does_not_grow_with_what_has_ended(tmp_path: Path) -> None:
    now = 1_800_000_000.0
    store = SQLiteStore(tmp_path, lambda: now)
    for number in range(1500):
        await store.keep("answers", str(number), bytes(1000), 1)
        await store.rest(str(number), now + 1, "timeout")
        await store.count(str(number), now + 1)
        await store.turn(str(number), 1, 0)
        now += 0.01
    with raw(store.file) as file:
        rows = [
            file.execute(f"SELECT count(*) FROM {name}").fetchone()[0] for name in ("kept", "rests", "counts", "turns")
        ]
    assert max(rows) < 500
    await store.aclose()
    assert store.file.stat().st_size < 2_000_000


async def test_the_log_of_writes_does_not_grow_without_end(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path)
    for number in range(300):
        await store.keep("answers", str(number), bytes(400_000), 3600, at_most=4)
    log = tmp_path / (FILE_NAME + "-wal")
    assert log.stat().st_size < 2 * home.WAL_PAGES * 4096
    await store.aclose()
    assert not log.exists()


async def test_a_value_that_is_no_text_leaves_no_lock_behind(tmp_path: Path) -> None:
    store, other = SQLiteStore(tmp_path), SQLiteStore(tmp_path)
    with pytest.raises(UnicodeEncodeError):
        await store.keep("room", "\ud800", b"", 60, at_most=1)
    assert await other.count("a", None) == 1
    await store.aclose()
    await other.aclose()
