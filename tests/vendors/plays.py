"""What a played vendor sends back: one value per reply, faults included."""

from __future__ import annotations

import asyncio
import functools
import gzip
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

_PHRASES = {status.value: status.phrase for status in HTTPStatus}
RECORDINGS = Path(__file__).parent.parent / "recordings"


@dataclass(frozen=True)
class Request:
    """One request as it arrived. `at` is seconds of the event loop's clock; `path` holds the query string too."""

    provider: str
    method: str
    path: str
    head: bytes = field(repr=False)
    body: bytes = b""
    at: float = 0.0

    @functools.cached_property
    def headers(self) -> dict[str, str]:
        """By lower-case name; the last of several wins."""
        lines = self.head.decode("latin-1").split("\r\n")
        return {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}

    @functools.cached_property
    def json(self) -> Any:
        """The body as JSON. Raises ValueError."""
        return json.loads(self.body)

    @property
    def raw(self) -> bytes:
        """Everything the client said."""
        return f"{self.method} {self.path}\r\n".encode("latin-1") + self.head + b"\r\n\r\n" + self.body


@dataclass(frozen=True)
class Play:
    """One scripted reply.

    It begins after `delay_s` and not before `until` is set. With `drip_s` the body goes out a byte at a time, that far
    apart. `ending` says how: whole; `cut` (half of the body, then a close); `reset` (half of the body, then an RST).
    `raw` bytes go out instead of an HTTP reply. With `silent` nothing ever comes. With `echo` the body is what the
    client sent, headers included, in a vendor's error envelope.
    """

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    delay_s: float = 0.0
    until: asyncio.Event | None = None
    drip_s: float = 0.0
    ending: Literal["whole", "cut", "reset"] = "whole"
    raw: bytes | None = None
    silent: bool = False
    echo: bool = False

    @functools.cached_property
    def is_plain(self) -> bool:
        """Whether it can go out at once, in one piece."""
        return (
            self.ending == "whole"
            and not (self.delay_s or self.drip_s or self.silent or self.echo)
            and self.until is None
            and self.raw is None
        )

    @functools.cached_property
    def head(self) -> bytes:
        """Status line and headers for HTTP/1.1."""
        lines = [f"HTTP/1.1 {self.status} {_PHRASES.get(self.status, '')}"]
        lines += [f"{name}: {value}" for name, value in self.headers.items()]
        if "content-length" not in self.headers and self.status not in (204, 304):
            lines.append(f"content-length: {len(self.body)}")
        return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")

    @functools.cached_property
    def wire(self) -> bytes:
        """The whole reply for HTTP/1.1."""
        return self.head + self.body


Script = Play | Callable[[Request], Play]
"""A reply, or what makes one from the request."""

JSON = {"content-type": "application/json"}
PAGE = {"content-type": "text/html; charset=utf-8"}
EVENTS = {"content-type": "text/event-stream"}


def json_play(value: object, status: int = 200, **how: Any) -> Play:
    """`value` as a JSON reply; `how` are further fields of `Play`, headers on top of the content type."""
    headers = {**JSON, **how.pop("headers", {})}
    return Play(status, headers, json.dumps(value).encode(), **how)


def page_play(html: str = "<!doctype html><title>Sign in</title><p>Welcome</p>", status: int = 200) -> Play:
    return Play(status, PAGE, html.encode())


def echoed(play: Play, request: Request) -> Play:
    """The reply of a vendor that repeats what it was sent, in words and in headers."""
    said = request.raw.decode("latin-1")
    words = {"error": {"message": said, "detail": said, "code": said}, "message": said, "detail": {"error": said}}
    told = {f"x-echo-{name}": value for name, value in request.headers.items() if name and value.isprintable()}
    return json_play(words, play.status, headers={**play.headers, **told})


SILENCE = Play(silent=True)
RESET = Play(raw=b"", ending="reset")
GARBAGE = Play(raw=b"\x16\x03\x01 not HTTP at all\r\n\r\n")


def bomb(times: int = 1, size: int = 64 * 1024 * 1024) -> Play:
    """`size` bytes of spaces, compressed `times` over."""
    return Play(200, {**JSON, "content-encoding": ", ".join(["gzip"] * times)}, _compressed(times, size))


@functools.cache  # half a second for every layer
def _compressed(times: int, size: int) -> bytes:
    return gzip.compress(_compressed(times - 1, size) if times > 1 else b" " * size, mtime=0)


def elsewhere(address: str, status: int = 302) -> Play:
    """A redirect to another origin, with the small page that servers send along."""
    return Play(status, {**PAGE, "location": address}, b"<!doctype html><title>Redirecting...</title>")


def recording(provider: str, name: str) -> Play:
    """A named reply from `tests/recordings`. Raises KeyError."""
    cases = json.loads((RECORDINGS / f"{provider}.json").read_text(encoding="utf-8"))
    case = next((case for case in cases if case["name"] == name), None)
    if case is None:
        raise KeyError(f"{provider}: no recording called {name}")
    if case["status"] is None:
        return {"read_timeout": SILENCE, "connection_reset": RESET}[case["transport"]]
    return Play(case["status"], case.get("headers") or {}, (case["body"] or "").encode("utf-8", "surrogatepass"))


def first_part(path: str) -> str:
    """The provider that a path names: `/tavily/search` is `tavily`."""
    return urlsplit(path).path.split("/", 2)[1] if path.startswith("/") else ""
