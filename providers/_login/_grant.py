"""What a login with an account gave: an authority's facts, the tokens, and the file that holds them. No network."""

from __future__ import annotations

import base64
import json
import math
import os
import secrets
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

MARGIN_S = 120.0
"""A token that ends within this is renewed before it is used."""

MAX_FILE = 64 * 1024

_LOGIN = "login,"
# no key that an operator writes can begin so: a comma ends it


@dataclass(frozen=True, slots=True)
class Authority:
    """Where an account logs in, and as which program. `terms` is what the user has to know before.

    `extra` goes with the question for leave; the browser comes back to `path` on this machine's `port`.
    """

    issuer: str
    client_id: str
    scope: str
    port: int
    path: str = "/callback"
    extra: Mapping[str, str] = field(default_factory=dict)
    terms: str = ""


@dataclass(frozen=True, slots=True)
class Grant:
    """What a login gave. `id` stays while tokens rotate, and is no secret.

    `expires_at` (seconds since the epoch) is what the authority said beside a token that does not say so itself.
    `refused` holds its words when it would not renew the tokens: from then on only another login helps.
    """

    id: str
    issuer: str
    client_id: str
    token_endpoint: str
    access_token: str = field(repr=False)
    refresh_token: str = field(repr=False)
    expires_at: float | None = None
    revocation_endpoint: str | None = None
    refused: str = ""

    @property
    def key(self) -> str:
        """What stands for it among a provider's keys."""
        return f"{_LOGIN}{self.id}"

    def is_over(self, now: float, margin_s: float = 0.0) -> bool:
        """Whether the access token ends within `margin_s` seconds of `now`; False when nobody says when it ends."""
        told = claims(self.access_token).get("exp")
        is_number = isinstance(told, int | float) and not isinstance(told, bool) and math.isfinite(told)
        ends = float(told) if is_number else self.expires_at  # type: ignore[arg-type]
        return ends is not None and ends <= now + margin_s


def is_login(key: str) -> bool:
    """Whether `key` stands for a login."""
    return key.startswith(_LOGIN)


def new_id() -> str:
    """A name for one more login."""
    return secrets.token_hex(16)


def claims(token: str) -> Mapping[str, object]:
    """What a JWT says, unverified; {} when it is none."""
    parts = token.split(".")
    if len(parts) != 3:
        return {}
    try:
        raw = base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4))
        said: object = json.loads(raw)
    except (ValueError, RecursionError):
        return {}
    return said if isinstance(said, dict) else {}


def is_at(address: str, issuer: str) -> bool:
    """Whether `address` is an https address (http on this machine alone) of exactly the issuer's origin."""
    try:
        one, other = urlsplit(address), urlsplit(issuer)
        same = (one.scheme, one.hostname, one.port) == (other.scheme, other.hostname, other.port)
    except ValueError:
        return False
    is_safe = one.scheme == "https" or (one.scheme == "http" and one.hostname == "127.0.0.1")
    return same and is_safe and "@" not in one.netloc and is_sendable(address)


def is_sendable(text: str) -> bool:
    """Whether `text` is something that a header can hold: printable ASCII without spaces."""
    return bool(text) and all("!" <= sign <= "~" for sign in text)


# ---------------------------------------------------------------------------------------------------------------------
# the file


class Unusable(Exception):  # noqa: N818 -- it is a state of the file
    """There is a file, and it holds no login that can be used: why, in words without its content."""


class Busy(Exception):  # noqa: N818 -- it is a state of the lock
    """Others have held the lock all the time."""


def read(file: Path) -> Grant | None:
    """The login in `file`; None when there is no such file. Raises `Unusable`."""
    try:
        with file.open("rb") as opened:
            raw = opened.read(MAX_FILE + 1)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        raise Unusable(f"cannot be read: {getattr(error, 'strerror', None) or 'no usable path'}") from None
    try:
        told: object = json.loads(raw) if len(raw) <= MAX_FILE else None
    except (ValueError, RecursionError):
        told = None
    grant = _grant(told)
    if grant is None:
        raise Unusable("holds no login of ours")
    return grant


def _grant(told: object) -> Grant | None:
    if not isinstance(told, dict):
        return None
    texts = {name: told.get(name) for name in ("id", "issuer", "client_id", "token_endpoint", "refused")}
    tokens = {name: told.get(name) for name in ("access_token", "refresh_token")}
    if not all(isinstance(value, str) for value in (*texts.values(), *tokens.values())):
        return None
    ends, revocation = told.get("expires_at"), told.get("revocation_endpoint")
    if not isinstance(ends, int | float | None) or not isinstance(revocation, str | None):
        return None
    grant = Grant(**texts, **tokens, expires_at=ends, revocation_endpoint=revocation)  # type: ignore[arg-type]
    addresses = (grant.token_endpoint, *((revocation,) if revocation else ()))
    fits = grant.id and all(map(is_sendable, tokens.values())) and all(is_at(each, grant.issuer) for each in addresses)  # type: ignore[arg-type]
    return grant if fits else None


def is_open(file: Path) -> bool:
    """Whether anybody but its owner may read `file`."""
    with suppress(OSError):
        return os.name == "posix" and bool(stat.S_IMODE(file.stat().st_mode) & 0o077)
    return False


@contextmanager
def locked(file: Path, limit_s: float) -> Iterator[None]:
    """Be the only one, in any process, who may replace `file`; its folder is made, for the user alone.

    Waits at most `limit_s` seconds and blocks the thread. Raises `Busy`, or OSError where the folder cannot be written.
    """
    from filelock import FileLock, Timeout  # wanted once an hour, and slow to import

    folder = file.parent
    folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)
    if os.name == "posix" and stat.S_IMODE(folder.stat().st_mode) != 0o700:
        folder.chmod(0o700)
    lock = FileLock(file.with_suffix(".lock"), timeout=limit_s, mode=0o600)
    try:
        lock.acquire()
    except Timeout:
        raise Busy from None
    try:
        yield
    finally:
        lock.release()


def _draft_of(file: Path) -> Path:
    return file.with_suffix(".new")


def prepare(file: Path) -> None:
    """See that `write` will be able to, before anything that cannot be had twice is asked for. Raises OSError.

    Only under the lock, as `write`.
    """
    os.close(_opened(_draft_of(file)))
    _draft_of(file).unlink()


def _opened(draft: Path) -> int:
    draft.unlink(missing_ok=True)  # of one who was killed
    return os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)


def write(file: Path, grant: Grant) -> None:
    """Put `grant` into `file`, for the user alone from the first moment; whole, or not at all. Raises OSError."""
    draft = _draft_of(file)
    try:
        with open(_opened(draft), "wb") as opened:
            opened.write(json.dumps(asdict(grant), indent=1).encode())
            opened.flush()
            os.fsync(opened.fileno())
        os.replace(draft, file)
    except OSError:
        draft.unlink(missing_ok=True)
        raise
    _sync(file.parent)


def remove(file: Path) -> None:
    """Leave nothing of `file`. Only under the lock. Raises OSError."""
    _draft_of(file).unlink(missing_ok=True)
    file.unlink(missing_ok=True)
    _sync(file.parent)


def _sync(folder: Path) -> None:
    """Let the folder's new content outlive a crash of the machine; not every system can."""
    with suppress(OSError):
        number = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)
