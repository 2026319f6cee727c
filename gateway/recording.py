"""A vendor's reply as a recording that others may read: what is hidden and cut, what we read in it. Pure."""

from __future__ import annotations

import ipaddress
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from providers import Outcome, Reply, Result, Wire
from providers._reading import redact
from providers._transport import CUT_SHORT
from providers._wire import Unreadable, read_json

MOST_BODY = 64 * 1024
"""Bytes of a body that are kept; a longer one loses rows at its end, if it means the same without them."""

CONFIDENCE = "user-reported"
"""The nearest word that recordings have for what somebody saw live."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """One entry of a recordings file (None: no entry can hold what happened), and what a person should know of it."""

    entry: Mapping[str, Any] | None
    remarks: tuple[str, ...] = ()


def recorded(
    name: str, reply: Reply, wire: Wire | None, reread: Callable[[Wire], Reply], hiding: Hiding, source: str
) -> Recorded:
    """The recording `name` of what came: `wire`, which was read as `reply`; None when there was none.

    What is expected is what `reread` reads in the recording itself; a remark tells when that is not what `reply` says.
    """
    if wire is None:
        return _without_reply(name, reply, source)
    text, remarks = _as_text(wire)
    kept = {each: hiding.header(each, value) for each, value in wire.headers.items() if _KEPT.fullmatch(each)}
    if "content-type" in kept:
        kept["content-type"] = _CHARSET.sub("charset=utf-8", kept["content-type"])  # as which the file is written
    arrived = Wire(wire.status, kept, b"", float(int(wire.now)))

    def read(body: str) -> Reply:
        return reread(replace(arrived, body=body.encode()))

    whole = hiding.text(text)
    text = _shorter(whole, lambda shorter: read(shorter).row == read(whole).row)
    if (size := len(whole.encode())) > MOST_BODY:
        length = len(text.encode())
        done = "kept whole: cut, it would mean something else" if text == whole else f"cut to {length} bytes"
        remarks.append(f"its body of {size} bytes is {done}")
        source = source if text == whole else f"{source}; its end is left out"
    meant = read(text)
    if (meant.outcome, meant.row) != (reply.outcome, reply.row):
        remarks.append(
            f"live it was {reply.outcome} ({reply.row}), in the recording it is {meant.outcome} ({meant.row}): "
            "an option of yours decides, or something that is hidden or cut"
        )
    entry: dict[str, Any] = {"name": name, "status": wire.status, "headers": kept, "body": text or None}
    return Recorded(entry | _known(meant, source) | {"now": _iso(arrived.now)}, tuple(remarks))


def _known(reply: Reply, source: str) -> dict[str, Any]:
    """What is expected of a recording, and how it is known."""
    results = [_row(row) for row in reply.results]
    expect = {"outcome": reply.outcome.value, "retry_after_s": reply.retry_after_s, "results": results or None}
    return {"expect": expect, "confidence": CONFIDENCE, "source": source}


def _row(row: Result) -> dict[str, str | None]:
    text = {"content": row.content} if row.content else {"snippet": row.snippet} if row.snippet else {}
    return {"title": row.title, "url": row.url, **text, "published": row.published}


def _iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


# ---------------------------------------------------------------------------------------------------------------------
# no reply

_NO_NAME = ("ENOTFOUND", "EAI_AGAIN")
_BROKEN = ("ECONNRESET", "EPIPE", CUT_SHORT.detail)


def _without_reply(name: str, reply: Reply, source: str) -> Recorded:
    if reply.outcome is Outcome.TIMEOUT:
        word = "read_timeout"
    elif reply.outcome is Outcome.NETWORK:
        cause = reply.detail.rpartition("proxy: ")[2]
        word = "dns_failure" if cause in _NO_NAME else "connection_reset" if cause in _BROKEN else "connect_error"
    else:
        return Recorded(None, (f"not recorded: recordings have no word for '{reply.detail}'",))
    entry: dict[str, Any] = {"name": name, "status": None, "headers": {}, "body": None, "transport": word}
    return Recorded(entry | _known(reply, f"{source}: {reply.detail}"))


# ---------------------------------------------------------------------------------------------------------------------
# what is kept

_KEPT = re.compile(
    r"content-type|location|retry-after(?:-ms)?|server-timing|mediawiki-api-error"
    r"|(?:x-|api-)?(?:rate-?limit|remaining|quota|credits?)(?:-.*)?"
)
"""Headers that some adapter reads, or should: of what kind, where else, how long, how many are left."""

_CHARSET = re.compile(r"charset=[^;]*", re.IGNORECASE)
_SURROGATE = re.compile("[\ud800-\udfff]")


def _as_text(wire: Wire) -> tuple[str, list[str]]:
    """The body as it can stand in a file, and what had to be done for that."""
    text = _SURROGATE.sub("\ufffd", wire.text)
    strange = text.count("\ufffd")
    if "\0" in text or strange > len(text) // 20:
        return "", [f"its body of {len(wire.body)} bytes is no text, and left out"]
    return text, [f"{strange} signs of its body cannot be read, and are U+FFFD"] if strange else []


def _shorter(text: str, means_the_same: Callable[[str], bool]) -> str:
    """`text` without what is at its end, when it is too long and means the same without."""
    if len(text.encode()) <= MOST_BODY:
        return text
    for shorter in (_fewer_rows(text), _head(text)):
        if shorter is not None and means_the_same(shorter):
            return shorter
    return text


def _fewer_rows(text: str) -> str | None:
    """JSON with a shorter list where its longest one is; None when that does not help."""
    value = _json(text)
    try:
        rows = max(_lists(value), key=lambda each: len(_written(each)), default=[])
        while len(rows) > 1:
            del rows[len(rows) // 2 :]
            if len((shorter := _written(value)).encode()) <= MOST_BODY:
                return shorter
    except RecursionError:  # nested so deeply that it could just be read
        pass
    return None


def _lists(value: object) -> Iterator[list[object]]:
    """Every list of several rows in `value`."""
    waiting = [value]
    while waiting:
        inner = waiting.pop()
        if isinstance(inner, list) and len(inner) > 1 and isinstance(inner[0], dict):
            yield inner
        waiting += inner.values() if isinstance(inner, dict) else inner if isinstance(inner, list) else ()


def _written(value: object) -> str:
    """`value` as JSON that can be encoded: halves of characters stay escaped."""
    return _SURROGATE.sub(lambda half: f"\\u{ord(half[0]):04x}", json.dumps(value, ensure_ascii=False))


def _head(text: str) -> str | None:
    """As many whole lines or elements as there is room for; None for JSON, which would be none any more."""
    if _json(text) is not None:
        return None
    head = text.encode()[:MOST_BODY].decode("utf-8", "ignore")
    return head[: max(head.rfind("\n"), head.rfind(">")) + 1] or head


def _json(text: str) -> object:
    """The object or list that `text` is; None for anything else."""
    if not text.lstrip("\ufeff \t\r\n").startswith(("{", "[")):
        return None
    try:
        return read_json(text)
    except Unreadable:
        return None


# ---------------------------------------------------------------------------------------------------------------------
# what is hidden

HIDDEN = "***"

_WHO = (
    r"(?:request|req|trace|log|session|correlation|span|account|acct|team|org|organi[sz]ation|user|customer|client"
    r"|workspace|project|tenant|subscription|member|owner|device|invoice|conversation|thread|response|search|message"
    r"|api[_-]?key|key|token)"
)
_OWN = re.compile(
    rf"(?:x[_-])?{_WHO}[_-]?(?:id|uuid|guid|name|email|slug)"
    r"|account|acct|team|org|organi[sz]ation|user|username|login|customer|tenant|workspace|e-?mail"
    r"|(?:client|remote|user|your)?[_-]?ip(?:[_-]?addr(?:ess)?)?|api[_-]?key|access[_-]?token|secret|password",
    re.IGNORECASE,
)
"""Members whose value, be it text or a number, tells who asked, or which request it was."""

_LITERAL = r'"[^"\\]*(?:\\.[^"\\]*)*"'
_MEMBER = re.compile(rf"(?P<name>{_LITERAL})(?P<colon>\s*:\s*)(?P<value>{_LITERAL}|-?\d[\d.eE+-]*)?|{_LITERAL}")

_WORDS: tuple[tuple[re.Pattern[str], str], ...] = (
    (
        re.compile(r"(?<![A-Za-z0-9._%+-])[A-Za-z0-9._%+-]+@(?:[A-Za-z0-9-]{1,63}\.){1,8}[A-Za-z]{2,24}\b"),
        "someone@example.com",
    ),
    (
        re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", re.IGNORECASE),
        "00000000-0000-0000-0000-000000000000",
    ),
    # how the names of requests and accounts begin at vendors that follow OpenAI
    (re.compile(r"\b(req|resp|chatcmpl|cmpl|msg|org|acct|user|proj)([-_])(?=[A-Za-z]*\d)[A-Za-z0-9]{8,}"), r"\1\2***"),
    (
        re.compile(r"\b((?:request|trace|ray|log|session)[ _-]?id\b[^\w<]{1,4}(?:<[^<>]*>)?)[\w-]{6,}", re.IGNORECASE),
        r"\1***",
    ),
)
_ADDRESS = re.compile(
    r"(?<![\w.:])(?:(?:\d{1,3}\.){3}\d{1,3}|(?:[0-9A-Fa-f]{0,4}:){2,7}[0-9A-Fa-f]{0,4})(?![\w:]|\.\d)"
)
_DOCUMENTATION = {4: "192.0.2.1", 6: "2001:db8::1"}


@dataclass(frozen=True, slots=True)
class Hiding:
    """What must not be in a recording: secrets, in all their spellings, and the operator's own host (with a port)."""

    forms: tuple[str, ...] = field(repr=False)
    host: str = ""

    def header(self, name: str, value: str) -> str:
        """The value of a header that is kept; an address loses user, query and fragment."""
        if name == "location":
            try:
                parts = urlsplit(value)
            except ValueError:
                return HIDDEN
            value = urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
        return self._words(value)

    def text(self, text: str) -> str:
        """A body. JSON, also that of a stream of events, stays as it was written but for what is hidden."""
        if _json(text) is not None:
            return _MEMBER.sub(self._member, text)
        lines = text.splitlines(keepends=True)
        if len(lines) < 2 and not text.startswith("data:"):
            return self._words(text)
        return "".join(self._line(line) for line in lines)

    def _line(self, line: str) -> str:
        data = "data:" if line.startswith("data:") else ""
        rest = line.removeprefix(data)
        return data + (_MEMBER.sub(self._member, rest) if _json(rest) is not None else self._words(rest))

    def _member(self, found: re.Match[str]) -> str:
        name, value = found["name"], found["value"]
        if name is None:
            return self._literal(found[0])
        hidden = self._literal(name) + found["colon"]
        if value is None:
            return hidden
        is_text = value.startswith('"')
        if _OWN.fullmatch(json.loads(name)):
            return hidden + (f'"{HIDDEN}"' if is_text else "0")
        return hidden + (self._literal(value) if is_text else self._number(value))

    def _literal(self, literal: str) -> str:
        said = json.loads(literal)
        told = self.text(said)
        return literal if told == said else _written(told)

    def _number(self, value: str) -> str:
        return value if redact(value, self.forms) == value else "0"

    def _words(self, text: str) -> str:
        text = redact(text, self.forms)
        if self.host:
            text = text.replace(self.host, "vendor.example")
            name = urlsplit(f"//{self.host}").hostname or ""
            if "." in name or ":" in name:  # a bare name may be a word
                text = text.replace(name, "vendor.example")
        for pattern, instead in _WORDS:
            text = pattern.sub(instead, text)
        return _ADDRESS.sub(_no_address, text)


def _no_address(found: re.Match[str]) -> str:
    """An address of the internet, perhaps ours, becomes one of the documentation's."""
    try:
        address = ipaddress.ip_address(found[0])
    except ValueError:
        return found[0]
    return _DOCUMENTATION[address.version] if address.is_global else found[0]
