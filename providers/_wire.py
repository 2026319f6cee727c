"""A reply as it arrived, and how its bytes become values."""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

_NO_CHARSETS = frozenset({"unicode-escape", "raw-unicode-escape", "idna", "punycode"})
"""Codecs that Python has for other things than web pages."""


class Unreadable(ValueError):  # noqa: N818 -- it says what a body is
    """A body is not what its vendor sends. Never leaves this package."""


def header_map(pairs: Iterable[tuple[str, str | None]]) -> dict[str, str]:
    """Headers as `Wire` has them: lower-case names, the values of one name joined by commas, of cookies by line breaks.

    The date in a cookie has a comma of its own; no header has a line break.
    """
    joined: dict[str, str] = {}
    for name, value in pairs:
        name = name.lower()
        if value is not None:
            glue = "\n" if name == "set-cookie" else ", "
            joined[name] = f"{joined[name]}{glue}{value}" if name in joined else value
    return joined


MAX_COOKIE = 4096
"""Characters of a cookie that clients keep at least (RFC 6265, section 6.1); a longer one is not sent back."""


@dataclass(frozen=True, slots=True)
class Wire:
    """A reply as it arrived. `headers` as `header_map` makes them; `now` is the arrival, seconds since the epoch."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    now: float

    @property
    def text(self) -> str:
        """The body in the character set it claims, else UTF-8; what cannot be decoded becomes U+FFFD."""
        charset = "utf-8"
        for part in self.headers.get("content-type", "").split(";")[1:]:
            name, _, value = part.strip().partition("=")
            if name.lower() == "charset":
                charset = value.strip("\"' ")
        try:
            if codecs.lookup(charset).name in _NO_CHARSETS:
                charset = "utf-8"
            return self.body.decode(charset, "replace")
        except (LookupError, ValueError):
            return self.body.decode("utf-8", "replace")

    @property
    def cookies(self) -> tuple[str, ...]:
        """`name=value` of each cookie that the reply sets, in its order; what cannot be sent back is left out."""
        pairs = {}
        for line in self.headers.get("set-cookie", "").split("\n"):
            pair = line.partition(";")[0].strip()
            name, is_pair, _ = pair.partition("=")
            if name.strip() and is_pair and pair.isascii() and pair.isprintable() and len(pair) <= MAX_COOKIE:
                pairs[name.strip()] = pair
        return tuple(pairs.values())

    @property
    def is_page(self) -> bool:
        """Whether this is a web page rather than data."""
        head = self.body[:512].lstrip(b"\xef\xbb\xbf \t\r\n").lower()
        return head.startswith((b"<!doctype html", b"<html", b"<head", b"<body")) or (
            "text/html" in self.headers.get("content-type", "").lower() and not head.startswith((b"{", b"["))
        )


def read_json(text: str) -> object:
    """`text` as JSON. Raises `Unreadable`, also for nesting that would exhaust the stack."""
    try:
        value: object = json.loads(text.lstrip("\ufeff"))
    except (ValueError, RecursionError):
        raise Unreadable from None
    return value
