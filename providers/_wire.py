"""A reply as it arrived, and how its bytes become values."""

from __future__ import annotations

import codecs
import json
from collections.abc import Mapping
from dataclasses import dataclass

_NO_CHARSETS = frozenset({"unicode-escape", "raw-unicode-escape", "idna", "punycode"})
"""Codecs that Python has for other things than web pages."""


class Unreadable(ValueError):  # noqa: N818 -- it says what a body is
    """A body is not what its vendor sends. Never leaves this package."""


@dataclass(frozen=True, slots=True)
class Wire:
    """A reply as it arrived. Header names are lower case; `now` is the arrival, seconds since the epoch."""

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
