"""Where something stands in a reply: `data.items.*.title`. Pure.

Names are joined by dots; a number is a place in a list (or a member that is called so), `*` is every element of a list
or every member of an object, and a single `.` is the body itself. A name that holds a dot cannot be reached.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from providers._sections import Unfit, text

Path = tuple[str | int, ...]

EACH = "*"
MOST_STEPS = 16
BETWEEN_PARTS = " … "


def path(value: object) -> Path:
    """A path as it is written. Raises `Unfit`."""
    written = text(value)
    if written == ".":
        return ()
    steps = written.split(".")
    if len(steps) > MOST_STEPS or not all(steps):
        raise Unfit(f"must be at most {MOST_STEPS} names joined by dots, such as data.items, or . for the whole body")
    return tuple(int(step) if step.isascii() and step.isdigit() and len(step) <= 9 else step for step in steps)


def paths(value: object) -> tuple[Path, ...]:
    """A path, or a list of paths of which the first that leads anywhere counts. Raises `Unfit`."""
    if isinstance(value, list) and value:
        return tuple(path(each) for each in value)
    if isinstance(value, str):
        return (path(value),)
    raise Unfit("must be a path such as data.items, or a list of paths")


def follow(value: object, path: Path) -> Iterator[object]:
    """Everything that stands at `path`; nothing where it leads nowhere, or to null.

    `*` on an empty list or object gives one empty list: that there is nothing has been said, not left out.
    """
    if not path:
        if value is not None:
            yield value
        return
    step, rest = path[0], path[1:]
    if step == EACH:
        if isinstance(value, list | dict):
            inner = list(value.values()) if isinstance(value, dict) else value
            for each in inner:
                yield from follow(each, rest)
            if not inner:
                yield []
    elif isinstance(value, dict):
        yield from follow(value.get(str(step)), rest)
    elif isinstance(value, list) and isinstance(step, int) and step < len(value):
        yield from follow(value[step], rest)


def _parts(value: object, path: Path) -> Iterator[object]:
    """What stands at `path`, of lists their elements."""
    for found in follow(value, path):
        yield from found if isinstance(found, list) else (found,)


def _words(value: object, path: Path) -> list[str]:
    return [part.strip() for part in _parts(value, path) if isinstance(part, str) and part.strip()]


def first(value: object, paths: Sequence[Path]) -> str:
    """The first text that is not empty; ""."""
    return next((words[0] for path in paths if (words := _words(value, path))), "")


def joined(value: object, paths: Sequence[Path]) -> str:
    """The first that is not empty, of a list of texts all of them; ""."""
    return next((BETWEEN_PARTS.join(words) for path in paths if (words := _words(value, path))), "")


def codes(value: object, paths: Sequence[Path]) -> tuple[str, ...]:
    """Every text and whole number at any of the paths, as text."""
    found = (part for path in paths for part in _parts(value, path))
    return tuple(
        str(part) for part in found if isinstance(part, str) or (isinstance(part, int) and not isinstance(part, bool))
    )
