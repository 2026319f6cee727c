"""One object of the configuration, read setting by setting; everything that is wrong with it is found. Pure.

A setting exists because somebody takes it: what nobody took when a section is closed is a mistake of the operator's.
Complaints never quote text, because a key may stand anywhere; numbers and the names of settings are quoted.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

T = TypeVar("T")
Kind = Callable[[object], T]
"""Turns what was written into a value. Raises `Unfit`."""

MOST = 1_000_000_000
"""The largest number any setting takes: over thirty years in seconds, eleven days in milliseconds."""


class Unfit(ValueError):  # noqa: N818 -- it says what a value is
    """A value is not what its setting takes. The words say what it must be and never quote it, numbers apart."""


@dataclass(slots=True)
class Findings:
    """What came to light while the configuration was read, each thing once and in order."""

    complaints: dict[tuple[str, str], None] = field(default_factory=dict)
    remarks: dict[str, None] = field(default_factory=dict)
    origins: dict[str, str] = field(default_factory=dict)
    secrets: dict[str, None] = field(default_factory=dict, repr=False)

    def wrong(self, place: str, complaint: str) -> None:
        self.complaints[one_line(place), one_line(complaint)] = None

    def warn(self, place: str, remark: str) -> None:
        self.remarks[one_line(f"{place}: {remark}")] = None

    def hide(self, *secrets: str) -> None:
        # (bytes that are no text reach us as lone surrogates, which nothing can be searched for)
        self.secrets |= dict.fromkeys(secret.encode(errors="replace").decode() for secret in secrets if secret)

    def errors_at(self, roots: Iterable[str] | None = None) -> tuple[str, ...]:
        """All complaints, or those below one of `roots`."""
        wanted = None if roots is None else set(roots)
        return tuple(
            f"{place}: {complaint}"
            for place, complaint in self.complaints
            if wanted is None or re.split(r"[.\[]", place, maxsplit=1)[0] in wanted
        )


@dataclass(frozen=True, slots=True)
class Found:
    """A value from a variable. `place` names it in complaints, `origin` in the account of where settings came from."""

    value: str = field(repr=False)
    place: str
    origin: str


class Members(dict[str, object]):
    """An object of the file, and which of its names stand there more than once."""

    repeated: tuple[str, ...] = ()

    @classmethod
    def of(cls, pairs: list[tuple[str, object]]) -> Members:
        members = cls(pairs)
        names = [name for name, _ in pairs]
        members.repeated = tuple(name for name in members if names.count(name) > 1)
        return members


def one_line(words: str) -> str:
    """`words` on one line: a path may hold line ends, or bytes that are no text."""
    return "".join(sign if sign.isprintable() else "?" for sign in words)


class Section:
    """The object at `place`; anything else there is a complaint, and the section is empty then."""

    def __init__(self, place: str, value: object, findings: Findings) -> None:
        self.place = place
        self.findings = findings
        self._members: Mapping[str, object] = value if isinstance(value, dict) else {}
        self._taken: dict[str, None] = {}
        if value is not None and not isinstance(value, dict):
            findings.wrong(place, f"must be an object, not {_called(value)}")
        for name in getattr(value, "repeated", ()):
            findings.wrong(self.at(self._shown(name)), "stands there more than once")

    def at(self, name: str) -> str:
        """The place of the setting `name`."""
        return f"{self.place}.{name}" if self.place else name

    def names(self, name: str) -> bool:
        """Whether the operator wrote `name` here. null says the same as leaving it out."""
        return self._members.get(name) is not None

    def raw(self, name: str) -> object:
        """What stands at `name`, unread."""
        self._taken[name] = None
        return self._members.get(name)

    def members(self) -> Iterator[tuple[str, str, object]]:
        """Every member there is, where the operator is free to name them: its name, its place, what stands there."""
        for index, name in enumerate(self._members):
            yield name, self.at(shown(name, index)), self.raw(name)

    def section(self, name: str) -> Section:
        """The object at `name`."""
        return Section(self.at(name), self.raw(name), self.findings)

    def take(
        self,
        name: str,
        kind: Kind[T],
        default: T,
        variable: Found | None = None,
        from_text: Kind[T] | None = None,
    ) -> T:
        """The setting `name`: from `variable` when there is one, else from the file, else `default`.

        Both are read, so that a mistake in either is found; `from_text` reads the variable where `kind` cannot.
        """
        place, value, origins = self.at(name), self.raw(name), self.findings.origins
        result = default
        origins[place] = "default"
        if value is not None:
            result, origins[place] = self._read(place, kind, value, default), "file"
        if variable is not None:
            result = self._read(variable.place, from_text or kind, variable.value, default)
            origins[place] = variable.origin
        return result

    def close(self) -> tuple[str, ...]:
        """Complain about every name that nobody took; the settings that were probably meant."""
        strangers = [name for name in self._members if name not in self._taken]
        for name in strangers:
            self.findings.wrong(self.at(self._shown(name)), f"no such setting{did_you_mean(name, self._taken) or ''}")
        return tuple(meant for name in strangers if (meant := nearest(name, self._taken)))

    def _read(self, place: str, kind: Kind[T], value: object, default: T) -> T:
        try:
            return kind(value)
        except Unfit as unfit:
            self.findings.wrong(place, str(unfit))
            return default

    def _shown(self, name: str) -> str:
        return name if name in self._taken else shown(name, list(self._members).index(name))


def shown(name: str, index: int) -> str:
    """The name of the member at `index`, in a place: only what looks like a name, for name and value may be swapped."""
    looks = re.fullmatch(r"[A-Za-z][A-Za-z_-]{0,39}|[A-Z]{1,20}(_[A-Z0-9]{1,8}){1,3}", name)
    return name if looks else f"<name {index + 1}>"


def nearest(name: str, valid: Iterable[str]) -> str | None:
    """The valid name that `name` was probably meant to be."""
    known = {each.lower().replace("_", "").replace("-", ""): each for each in valid}
    close = difflib.get_close_matches(name.lower().replace("_", "").replace("-", ""), known, 1, 0.6)
    return known[close[0]] if close else None


def did_you_mean(name: str, valid: Iterable[str]) -> str | None:
    """The tail of a complaint about `name`: "; did you mean 'limit'?". None when nothing is near."""
    close = nearest(name, valid)
    return f"; did you mean '{close}'?" if close else None


def printable_name(text: str) -> str:
    """`text` in quotes when it can only be a name; what is long enough to be a key is not repeated."""
    return f"'{text}'" if re.fullmatch(r"[A-Za-z][A-Za-z0-9_]{0,19}", text) else "what is written there"


# ---------------------------------------------------------------------------------------------------------------------
# kinds


def flag(value: object) -> bool:
    """true or false."""
    if isinstance(value, bool):
        return value
    raise Unfit(f"must be true or false, not {_called(value)}")


def switch(value: object) -> bool:
    """A switch in a variable."""
    word = str(value).lower()
    if word in ("1", "true", "yes", "on"):
        return True
    if word in ("0", "false", "no", "off"):
        return False
    raise Unfit("must be 1, true, yes or on, or 0, false, no or off")


def text(value: object) -> str:
    """Any text, with line ends and all."""
    if isinstance(value, str):
        return value
    raise Unfit(f"must be text, not {_called(value)}")


def line(value: object) -> str:
    """A text that can stand in a line, with something in it."""
    if (written := text(value)).strip() and written.isprintable():
        return written
    raise Unfit("must be one line of text")


def whole(least: int, most: int = MOST) -> Kind[int]:
    """A whole number."""

    def read(value: object) -> int:
        if isinstance(value, int) and not isinstance(value, bool) and least <= value <= most:
            return value
        raise Unfit(f"must be a whole number from {least} to {most}, not {_called(value)}")

    return read


def digits(least: int, most: int) -> Kind[int]:
    """A whole number in a variable."""

    def read(value: object) -> int:
        if isinstance(value, str) and re.fullmatch(r"[0-9]{1,12}", value) and least <= int(value) <= most:
            return int(value)
        raise Unfit(f"must be a whole number from {least} to {most}")

    return read


def number(value: object) -> float:
    """A number from 0 to `MOST`: NaN and Infinity, which Python's JSON reads, are none."""
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= MOST:
        return value
    raise Unfit(f"must be a number from 0 to {MOST}, not {_called(value)}")


def choice(*words: str) -> Kind[Any]:
    """One of `words`, for settings whose type lists the same words."""

    def read(value: object) -> Any:
        if isinstance(value, str) and value in words:
            return value
        near = did_you_mean(value, words) if isinstance(value, str) else None
        listed = ", ".join(f"'{word}'" for word in words)
        raise Unfit(f"must be one of {listed}{near or ''}")

    return read


def each(kind: Kind[T]) -> Kind[tuple[T, ...]]:
    """A list of such values."""

    def read(value: object) -> tuple[T, ...]:
        if not isinstance(value, list):
            raise Unfit(f"must be a list, not {_called(value)}")
        found: list[T] = []
        for place, item in enumerate(value, 1):
            try:
                found.append(kind(item))
            except Unfit as unfit:
                raise Unfit(f"entry {place} {unfit}") from None
        return tuple(found)

    return read


def _called(value: object) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value) if -1e15 < value < 1e15 else "a number out of all bounds"
    if isinstance(value, str):
        return "text"
    return "a list" if isinstance(value, list) else "an object"
