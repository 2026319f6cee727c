"""The vocabulary that vendors and gateway share. Plain values, standard library only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Literal

Freshness = Literal["day", "week", "month", "year"]
FRESHNESS_DAYS: Mapping[Freshness, int] = {"day": 1, "week": 7, "month": 31, "year": 366}
"""For vendors that want a date: the longest that each can be, for leaving out too little beats leaving out too much."""
FRESHNESS: tuple[Freshness, ...] = tuple(FRESHNESS_DAYS)

MANY = 10_000
"""`domains` of a provider that can be held to any list of hosts a caller may send."""


class Outcome(StrEnum):
    """What one reply means. An adapter says no more than this."""

    OK = "ok"
    RATE_LIMITED = "rate_limited"
    QUOTA_EXHAUSTED = "quota_exhausted"
    AUTH_FAILURE = "auth_failure"
    TIMEOUT = "timeout"
    NETWORK = "network"
    SERVER_ERROR = "server_error"
    REQUEST_ERROR = "request_error"
    NO_RESULTS = "no_results"


@dataclass(frozen=True, slots=True)
class Query:
    """What a caller wants to know, already cleaned: every field is valid.

    `include_domains` and `exclude_domains` are lower-case punycode hosts, sorted, without duplicates.
    """

    text: str
    max_results: int = 8
    freshness: Freshness | None = None
    include_domains: tuple[str, ...] = ()
    exclude_domains: tuple[str, ...] = ()
    include_content: int = 0


@dataclass(frozen=True, slots=True)
class Result:
    """One hit. Text is one clean line, in `content` (a long extract) or in `snippet` (a short one), never in both.

    `published` is ISO 8601 as exact as the vendor gave it, or None; it is never guessed.
    """

    title: str
    url: str
    snippet: str = ""
    content: str = ""
    published: str | None = None


@dataclass(frozen=True, slots=True)
class Results:
    """The rows of a reply that was understood. Both empty means an honest "nothing found"."""

    rows: tuple[Result, ...] = ()
    answer: str = ""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Left:
    """What a vendor says is left of his own quota, in his unit: requests, or credits.

    `limit` is the whole of it; `resets_s` is seconds from now until it is renewed. None: he does not say.
    """

    remaining: int
    limit: int | None = None
    resets_s: float | None = None


@dataclass(frozen=True, slots=True)
class Reply:
    """One provider's reply to one query, whatever happened on the way.

    `detail` is ours and safe to show; `message` is the vendor's own sentence, redacted, for the operator only.
    `retry_after_s` is seconds from now, None when the vendor named no usable time. `setup` marks a fault that only
    the operator can mend, and `hint` says how. `row` names the rule that decided, `matched` is its line of a table, if
    it was one. `cut` is true when our own time limit ended the exchange; `elapsed_ms` counts from sending to the last
    byte read, None when nothing was sent. `left` is what the vendor says is left of his quota, None when nothing.
    """

    outcome: Outcome
    results: tuple[Result, ...] = ()
    answer: str = ""
    notes: tuple[str, ...] = ()
    detail: str = ""
    message: str = ""
    retry_after_s: float | None = None
    setup: bool = False
    hint: str = ""
    row: str = ""
    matched: Row | None = None
    cut: bool = False
    elapsed_ms: int | None = None
    left: Left | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a vendor's error table; the first that matches decides.

    `status` None means any. `code` is compared whole with the vendor's own code, `phrase` must stand in the vendor's
    own message; both ignore case. `setup` and `hint` as in `Reply`.
    """

    status: int | None
    outcome: Outcome
    code: str | None = None
    phrase: str | None = None
    setup: bool = False
    hint: str = ""

    def __str__(self) -> str:
        parts = ["any status" if self.status is None else str(self.status)]
        parts += [f"code {self.code}"] if self.code else []
        parts += [f'"{self.phrase}"'] if self.phrase else []
        return " ".join(parts)


@dataclass(frozen=True, slots=True)
class Said:
    """What a vendor's error body says in its own words: its codes, and its message."""

    codes: tuple[str, ...] = ()
    message: str = ""


@dataclass(frozen=True, slots=True)
class Budget:
    """Our own count of requests per period. `reset_day` 1–31 is clamped to the month's last day."""

    type: Literal["monthly", "daily", "one_time", "unbounded"]
    limit: int | None = None
    reset_day: int = 1
    timezone: str | None = None


def monthly(limit: int, reset_day: int = 1) -> Budget:
    """At most `limit` requests from `reset_day` to the next."""
    return Budget("monthly", limit, reset_day)


def daily(limit: int) -> Budget:
    """At most `limit` requests from midnight to midnight."""
    return Budget("daily", limit)


def one_time(limit: int) -> Budget:
    """At most `limit` requests, ever."""
    return Budget("one_time", limit)


UNBOUNDED = Budget("unbounded")


@dataclass(frozen=True, slots=True)
class Limits:
    """What one request may carry: rows asked for, characters and words of query text (None: no cap is known).

    `wide_count_two`: of the characters of `query`, Chinese, Japanese and Korean ones count as two.
    """

    results: int | None = None
    query: int | None = None
    words: int | None = None
    wide_count_two: bool = False


@dataclass(frozen=True, slots=True)
class Option:
    """One vendor-specific setting (`options.<name>`), with its default and what it may be.

    `kind` is the type of a valid value; `choices`, when given, lists all of them. `pattern` is what the
    whole of a text must match. `required`: no search without it.
    """

    kind: type[str] | type[bool] | type[int]
    default: str | bool | int | None
    about: str
    choices: tuple[str, ...] = ()
    required: bool = False
    pattern: str | None = None


@dataclass(frozen=True, slots=True)
class Settings:
    """What the operator configured for one provider.

    `address` is the value of the provider's address variable, `account` the file of a login.
    """

    base_url: str | None = None
    address: str | None = None
    proxy: str | None = None
    options: Mapping[str, str | bool | int] = field(default_factory=dict)
    account: Path | None = None
