"""The store of one machine: a SQLite file that all its processes share and that survives them."""

from __future__ import annotations

import contextlib
import getpass
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import anyio.to_thread

from gateway.stores import SPARE_PART, Rest, StoreUnavailable, Turn

Row = tuple[Any, ...]
Values = Mapping[str, object] | Sequence[object]
Step = tuple[str, Values]

FILE_NAME = "state.sqlite3"

PATIENT_MS = 200
"""Milliseconds to wait for another process's write. Four busy ones stall a statement for up to 100."""

HURRIED_MS = 1
"""The same after a wait in vain, until a write succeeds: a dead lock costs a search one long wait, not one a verb."""

SWEEP_EVERY = 256
"""Writes between two sweeps of what has expired, and between two times that the log is moved to the file."""

WAL_PAGES = 8000
"""Pages of the write-ahead log (32 MB) at which SQLite itself empties it. Moving them to the file meanwhile, beside the
searches, leaves little to do then; but only a moment without a write lets the log begin anew."""

SWEEP_AT_MOST = 1024
"""Rows that one sweep takes from a table: more than are written between two, so that sweeps catch up."""

OLDEST_SQLITE = (3, 35, 0)
"""The first that knows RETURNING."""

STEPS: tuple[tuple[str, ...], ...] = (
    # Step n takes a file from schema n to n + 1. Steps are never edited, only added.
    (
        # `began`: whether the last write found the key awake
        "CREATE TABLE rests (key TEXT PRIMARY KEY, until REAL NOT NULL, why TEXT NOT NULL, began INTEGER NOT NULL)"
        " WITHOUT ROWID",
        "CREATE TABLE counts (key TEXT PRIMARY KEY, value INTEGER NOT NULL, expires REAL) WITHOUT ROWID",
        # the last place given away, in milliseconds: asked for then, `wait` later, the next one `gap` after it
        "CREATE TABLE turns (key TEXT PRIMARY KEY, asked INTEGER NOT NULL, wait INTEGER NOT NULL, gap INTEGER NOT NULL)"
        " WITHOUT ROWID",
        # `id` is the age: a replaced row gets a new one
        "CREATE TABLE kept (id INTEGER PRIMARY KEY, room TEXT NOT NULL, key TEXT NOT NULL, value BLOB NOT NULL,"
        " expires REAL NOT NULL, UNIQUE (room, key))",
        "CREATE INDEX kept_by_age ON kept (room, id, expires)",
        "CREATE INDEX kept_by_end ON kept (expires)",
    ),
)

REST = """
INSERT INTO rests (key, until, why, began) VALUES (:key, :until, :why, 1)
ON CONFLICT (key) DO UPDATE SET began = rests.until <= :now, until = excluded.until, why = excluded.why
WHERE rests.until <= :now OR rests.until < excluded.until
RETURNING began"""

# NULL is never: a comparison with it is not true, and max() of it is NULL
_LASTING = "CASE WHEN counts.expires <= :now THEN excluded.expires ELSE max(counts.expires, excluded.expires) END"

SPEND = f"""
INSERT INTO counts (key, value, expires) SELECT :key, 1, :expires WHERE :limit > 0
ON CONFLICT (key) DO UPDATE SET
  value = CASE WHEN counts.expires <= :now THEN 1 ELSE counts.value + 1 END,
  expires = {_LASTING}
WHERE counts.expires <= :now OR counts.value < :limit
RETURNING value"""

COUNT = f"""
INSERT INTO counts (key, value, expires) VALUES (:key, :at_least + :by, :expires)
ON CONFLICT (key) DO UPDATE SET
  value = CASE WHEN counts.expires <= :now THEN :at_least ELSE max(counts.value, :at_least) END + :by,
  expires = {_LASTING}
RETURNING value"""

# now_ms() is asked once the file is locked: a moment from before the wait for the lock would set places too close
_AHEAD = "turns.asked + turns.wait + turns.gap - excluded.asked"
_REACH = "max(turns.wait, :at_most) + turns.gap"

TURN = f"""
INSERT INTO turns (key, asked, wait, gap) SELECT :key, now_ms(), 0, :gap WHERE :at_most >= 0
ON CONFLICT (key) DO UPDATE SET
  asked = excluded.asked,
  wait = CASE WHEN {_AHEAD} BETWEEN 1 AND {_REACH} THEN {_AHEAD} ELSE 0 END,
  gap = excluded.gap
WHERE {_AHEAD} NOT BETWEEN :at_most + 1 AND {_REACH}
RETURNING wait"""

AHEAD = "SELECT asked + wait + gap - now_ms() FROM turns WHERE key = :key"

KEEP = "INSERT OR REPLACE INTO kept (room, key, value, expires) VALUES (:room, :key, :value, :expires)"

TRIM = """
DELETE FROM kept WHERE id IN (
  SELECT id FROM kept WHERE room = :room AND expires > :now ORDER BY id DESC LIMIT -1 OFFSET :at_most)"""

RECALL = "SELECT value FROM kept WHERE room = :room AND key = :key AND expires > :now"

KEPT = "SELECT count(*) FROM kept WHERE room = :room AND expires > :now"

CLEARED = ("rests", "counts", "turns")

SWEEPS = (
    "DELETE FROM rests WHERE key IN (SELECT key FROM rests WHERE until <= :now LIMIT :most)",
    "DELETE FROM counts WHERE key IN (SELECT key FROM counts WHERE expires <= :now LIMIT :most)",
    "DELETE FROM turns WHERE key IN (SELECT key FROM turns WHERE asked + wait + gap <= :now * 1000 LIMIT :most)",
    "DELETE FROM kept WHERE id IN (SELECT id FROM kept WHERE expires <= :now LIMIT :most)",
)


class Unusable(StoreUnavailable):
    """The folder cannot hold a state file, and will not before somebody changes it."""


class SQLiteStore:
    """A `Store` in the file `state.sqlite3` of a folder; both are made when missing, for the user alone.

    Every verb runs at once on the calling thread: a write costs tens of microseconds, a thread hop many times that.
    """

    def __init__(self, folder: Path, clock: Callable[[], float] = time.time) -> None:
        """`clock` gives seconds since the epoch. Nothing is opened before `open` or the first verb."""
        self.folder = folder
        self.file = folder / FILE_NAME
        self._clock = clock
        self._connection: sqlite3.Connection | None = None
        self._opened: tuple[int, int] | None = None
        self._patience_ms = PATIENT_MS
        self._writes_left = SWEEP_EVERY
        self._spare: dict[str, int] = {}
        self._moving: threading.Thread | None = None

    def open(self) -> None:
        """See that the file can be written. Raises `Unusable` when the folder is at fault, else `StoreUnavailable`."""
        try:
            self._connected().executescript("BEGIN IMMEDIATE; ROLLBACK")
        except sqlite3.DatabaseError as error:
            raise self._unavailable(error) from error

    async def rest(self, key: str, until: float, why: str) -> bool:
        found = self._write((REST, {"key": key, "until": until, "why": why, "now": self._clock()}))
        return bool(found and found[0][0])

    async def resting(self, keys: Sequence[str]) -> dict[str, Rest]:
        select = f"SELECT key, until, why FROM rests WHERE key IN ({_marks(keys)}) AND until > ?"
        return {key: Rest(until, why) for key, until, why in self._read(select, (*keys, self._clock()))}

    async def spend(self, key: str, limit: int, expires: float | None) -> int | None:
        found = self._write((SPEND, {"key": key, "limit": limit, "expires": expires, "now": self._clock()}))
        return found[0][0] if found else None

    async def turn(self, key: str, interval_ms: int, at_most_ms: int) -> Turn:
        if found := self._write((TURN, {"key": key, "gap": interval_ms, "at_most": at_most_ms})):
            return Turn(found[0][0], taken=True)
        ahead = self._read(AHEAD, {"key": key})
        return Turn(ahead[0][0] if ahead else 0, taken=False)

    async def keep(self, room: str, key: str, value: bytes, ttl_s: float, at_most: int | None = None) -> None:
        now = self._clock()
        steps: list[Step] = [(KEEP, {"room": room, "key": key, "value": value, "expires": now + ttl_s})]
        if at_most is not None:
            # finding the oldest of hundreds costs more than all the rest: it is done once for several entries, and
            # makes room for as many, so that the bound holds in between
            spare = max(at_most // SPARE_PART, 1)
            left = min(self._spare.get(room, 0), spare)
            if left <= 0:
                steps.append((TRIM, {"room": room, "now": now, "at_most": at_most - spare + 1}))
                left = spare
            self._write(*steps)
            self._spare[room] = left - 1
        else:
            self._write(*steps)

    async def recall(self, room: str, key: str) -> bytes | None:
        found = self._read(RECALL, {"room": room, "key": key, "now": self._clock()})
        return found[0][0] if found else None

    async def kept(self, room: str) -> int:
        living: int = self._read(KEPT, {"room": room, "now": self._clock()})[0][0]
        return living

    async def count(self, key: str, expires: float | None, by: int = 1, at_least: int = 0) -> int:
        values = {"key": key, "by": by, "at_least": at_least, "expires": expires, "now": self._clock()}
        after: int = self._write((COUNT, values))[0][0]
        return after

    async def counted(self, keys: Sequence[str]) -> dict[str, int]:
        living = "value > 0 AND (expires IS NULL OR expires > ?)"
        select = f"SELECT key, value FROM counts WHERE key IN ({_marks(keys)}) AND {living}"
        return dict(self._read(select, (*keys, self._clock())))

    async def clear(self, *keys: str) -> None:
        self._write(*((f"DELETE FROM {table} WHERE key IN ({_marks(keys)})", keys) for table in CLEARED))

    async def aclose(self) -> None:
        if self._moving is not None:
            await anyio.to_thread.run_sync(self._moving.join)
            self._moving = None
        self._close()

    # -----------------------------------------------------------------------------------------------------------------
    # statements

    def _read(self, statement: str, values: Values) -> list[Row]:
        try:
            return self._connected().execute(statement, values).fetchall()
        except sqlite3.DatabaseError as error:
            raise self._unavailable(error) from error

    def _write(self, *steps: Step) -> list[Row]:
        """Do all of `steps` or none: the rows of the last one."""
        try:
            connection = self._connected()
            self._sweep_now_and_then(connection)
            if len(steps) > 1:
                connection.execute("BEGIN IMMEDIATE")
            for statement, values in steps:
                rows = connection.execute(statement, values).fetchall()  # a statement read to its end has committed
            if len(steps) > 1:
                connection.execute("COMMIT")
            self._wait_up_to(PATIENT_MS)
        except sqlite3.DatabaseError as error:
            raise self._unavailable(error) from error
        finally:
            if self._connection is not None and self._connection.in_transaction:
                self._connection.rollback()
        return rows

    def _sweep_now_and_then(self, connection: sqlite3.Connection) -> None:
        self._writes_left -= 1
        if self._writes_left > 0:
            return
        self._writes_left = SWEEP_EVERY
        for statement in SWEEPS:
            connection.execute(statement, {"now": self._clock(), "most": SWEEP_AT_MOST})
        if self._moving is None or not self._moving.is_alive():
            # it waits for the disk, for some 20 ms: here that would hold up every search
            self._moving = threading.Thread(target=_move_log, args=(self.file,), daemon=True)
            self._moving.start()

    def _unavailable(self, error: sqlite3.DatabaseError) -> StoreUnavailable:
        """What `error` means in words, and the connection left as the next verb needs it. Our own bugs are raised."""
        if isinstance(error, sqlite3.ProgrammingError | sqlite3.IntegrityError):
            raise error
        code = _code(error)
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            self._wait_up_to(HURRIED_MS)
            return StoreUnavailable(f"{self.file} is locked by another process")
        self._close()  # a new connection sees what was mended in the meantime
        if code == sqlite3.SQLITE_FULL:
            return StoreUnavailable(f"{self.file} cannot grow: the disk is full")
        if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
            return StoreUnavailable(f"{self.file} is damaged: move it away, and a new one is made")
        if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN):
            return Unusable(f"{self.file} cannot be written by {_who()}")
        return Unusable(f"{self.file} cannot be used: {error}")

    # -----------------------------------------------------------------------------------------------------------------
    # the file

    def _wait_up_to(self, milliseconds: int) -> None:
        if milliseconds != self._patience_ms:
            self._patience_ms = milliseconds
            if self._connection is not None:
                self._connection.execute(f"PRAGMA busy_timeout={milliseconds}")

    def _connected(self) -> sqlite3.Connection:
        if self._connection is not None and self._opened == self._identity():
            return self._connection
        self._close()  # the file was deleted or replaced: what we would write to it, nobody would ever read
        self._connection = self._connect()
        return self._connection

    def _identity(self) -> tuple[int, int] | None:
        try:
            found = os.stat(self.file)
        except OSError:
            return None
        return found.st_dev, found.st_ino

    def _connect(self) -> sqlite3.Connection:
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            # never opened when it is there: closing any descriptor of a file drops all of the process's locks on it
            with contextlib.suppress(FileExistsError):
                os.close(os.open(self.file, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        except OSError as error:
            raise Unusable(f"{self.file} cannot be written by {_who()}: {error.strerror}") from error
        self._opened = self._identity()
        connection = sqlite3.connect(
            self.file, timeout=self._patience_ms / 1000, isolation_level=None, check_same_thread=False
        )
        try:
            connection.create_function("now_ms", 0, lambda: int(self._clock() * 1000))
            connection.execute("PRAGMA synchronous=NORMAL")  # with WAL, what was committed outlives the process
            connection.execute(f"PRAGMA wal_autocheckpoint={WAL_PAGES}")
            self._use_wal(connection)
            self._migrate(connection)
        except BaseException:  # whoever was interrupted here, too, must not keep the file open
            connection.close()
            raise
        return connection

    def _use_wal(self, connection: sqlite3.Connection) -> None:
        mode = _pragma(connection, "journal_mode")
        while mode != "wal":
            try:
                mode = _pragma(connection, "journal_mode=WAL")
            except sqlite3.OperationalError as error:
                if _code(error) != sqlite3.SQLITE_BUSY:
                    raise
                # several processes make the file at once, and SQLite lets no switch wait: queue up behind the winner
                connection.executescript("BEGIN EXCLUSIVE; COMMIT")
                mode = _pragma(connection, "journal_mode")
            else:
                if mode != "wal":
                    raise Unusable(f"{self.folder} is on a file system that cannot share a SQLite file (WAL)")

    def _migrate(self, connection: sqlite3.Connection) -> None:
        if _pragma(connection, "user_version") == len(STEPS):
            return
        connection.execute("BEGIN IMMEDIATE")
        version = _pragma(connection, "user_version")  # again: another process may have been first
        if version > len(STEPS):
            raise StoreUnavailable(
                f"{self.file} was written by a newer websearch-gateway (schema {version}, this one knows up to"
                f" {len(STEPS)}): update this one, or move the file away"
            )
        for step in STEPS[version:]:
            for statement in step:
                connection.execute(statement)
        connection.execute(f"PRAGMA user_version={len(STEPS)}")
        connection.execute("COMMIT")

    def _close(self) -> None:
        if self._connection is not None:
            connection, self._connection = self._connection, None
            connection.close()


def _move_log(file: Path) -> None:
    """Move the write-ahead log into the file, as far as nobody needs it. Whatever keeps us from it can wait."""
    with contextlib.suppress(sqlite3.Error), contextlib.closing(_opened(file)) as connection:
        connection.execute("PRAGMA wal_checkpoint(PASSIVE)")


def _opened(file: Path) -> sqlite3.Connection:
    """A connection to a file that is there."""
    return sqlite3.connect(f"{file.absolute().as_uri()}?mode=rw", uri=True, isolation_level=None, timeout=0)


def _marks(keys: Sequence[str]) -> str:
    return ",".join("?" * len(keys))


def _pragma(connection: sqlite3.Connection, words: str) -> Any:
    return connection.execute(f"PRAGMA {words}").fetchone()[0]


def _code(error: sqlite3.Error) -> int:
    """SQLite's own number for the fault, without the upper bits that tell its variants apart."""
    return getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF


def _who() -> str:
    try:
        name = getpass.getuser()
    except (KeyError, OSError, ImportError):
        name = "without a name"  # a container's user need not stand in its list of users
    # Windows has no such number
    return f"user {name} (uid {os.geteuid()})" if hasattr(os, "geteuid") else f"user {name}"
