"""JSON-RPC as it crosses a wire: read leniently, refused in short words, written as one line of bytes.

Both MCP doors read and write through here, so that they say the same words.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mcp_types import INVALID_PARAMS, INVALID_REQUEST, PARSE_ERROR
from mcp_types.version import LATEST_HANDSHAKE_VERSION
from pydantic_core import to_json
from starlette.types import Receive, Scope, Send

MAX_BODY = 1024 * 1024
"""Bytes of one message; more is refused unread."""

TOO_LARGE = "the message is over 1 MiB"

RequestId = str | int


@dataclass(frozen=True, slots=True)
class Request:
    """Someone waits for an answer to this."""

    id: RequestId
    method: str
    params: dict[str, Any] | None

    @property
    def progress_token(self) -> str | int | None:
        """The caller's wish to hear of each step, by the name it gave to that."""
        meta = (self.params or {}).get("_meta")
        token = meta.get("progressToken") if isinstance(meta, dict) else None
        return token if isinstance(token, str | int) and not isinstance(token, bool) else None


@dataclass(frozen=True, slots=True)
class Notification:
    """Nobody waits. A posted answer counts as one without a method: we never ask clients for anything."""

    method: str
    params: dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class Refused:
    """No message of the protocol, or none that we take. `message` is for the person who reads the client's log."""

    code: int
    message: str
    id: RequestId | None = None
    data: object = None


def read(raw: bytes | bytearray) -> Request | Notification | Refused:
    """One message. What real clients leave out is filled in; everything else that is not JSON-RPC is refused."""
    try:
        value = _READER.decode(raw.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        return Refused(PARSE_ERROR, "the message is not JSON")
    if isinstance(value, list):
        return Refused(INVALID_REQUEST, "batches are not supported: send one JSON-RPC message at a time")
    if not isinstance(value, dict) or value.get("jsonrpc") != "2.0":
        return Refused(INVALID_REQUEST, 'the message is not a JSON-RPC object with "jsonrpc": "2.0"')
    given = value.get("id")
    known = given if isinstance(given, str | int) and not isinstance(given, bool) else None
    if "id" in value and known is None:
        return Refused(INVALID_REQUEST, "id must be a string or an integer")
    method = value.get("method")
    if method is None and ("result" in value or "error" in value):
        return Notification("", None)
    if not isinstance(method, str):
        return Refused(INVALID_REQUEST, "method must be a string", known)
    params = value.get("params")
    if params is not None and not isinstance(params, dict):
        return Refused(INVALID_PARAMS, "params must be an object", known)
    if known is None:
        return Notification(method, params)
    if method == "initialize" and not isinstance((params or {}).get("protocolVersion"), str):
        # some clients send none, and the handshake is there to agree on one
        params = {**(params or {}), "protocolVersion": LATEST_HANDSHAKE_VERSION}
    return Request(known, method, params)


def _no_such_number(name: str) -> object:
    raise ValueError(f"JSON knows no {name}")


_READER = json.JSONDecoder(parse_constant=_no_such_number)
_ASCII = json.JSONEncoder(separators=(",", ":"))


def encode(message: Mapping[str, Any], *, ascii_only: bool = False) -> bytes:
    """`message` as one line of JSON. `ascii_only`: for readers that take U+2028 or U+0085 for a line's end."""
    if not ascii_only:
        try:
            return to_json(message)
        except ValueError:
            pass  # a lone surrogate, echoed from the caller: only an escape can carry it
    return _ASCII.encode(message).encode()


def result(request_id: RequestId, value: Mapping[str, Any]) -> dict[str, Any]:
    """The answer to a request."""
    return {"jsonrpc": "2.0", "id": request_id, "result": value}


def error(request_id: RequestId | None, code: int, message: str, data: object = None) -> dict[str, Any]:
    """The refusal of a request; without an id, of something that had none that could be read."""
    told: dict[str, Any] = {"code": code, "message": message}
    if data is not None:
        told["data"] = data
    return {"jsonrpc": "2.0", "id": request_id, "error": told}


# ---------------------------------------------------------------------------------------------------------------------
# HTTP


@functools.lru_cache(64)
def accepts(accept: str | None) -> tuple[bool, bool]:
    """Whether a caller takes JSON, and whether it asked for an event stream by name. Nothing said means JSON."""
    if accept is None or not accept.strip():
        return True, False
    takes_json = takes_stream = False
    for part in accept.lower().split(","):
        kind, *parameters = (piece.strip() for piece in part.split(";"))
        if any(piece.replace(" ", "") in ("q=0", "q=0.0", "q=0.00", "q=0.000") for piece in parameters):
            continue
        takes_json = takes_json or kind in ("*/*", "application/*", "application/json")
        takes_stream = takes_stream or kind == "text/event-stream"
    return takes_json, takes_stream


async def read_body(scope: Scope, receive: Receive) -> bytes | bytearray | None:
    """The whole request body, or what came of it before the caller left; None when it is over `MAX_BODY`."""
    for name, value in scope["headers"]:
        if name == b"content-length" and value.isdigit() and int(value[:12]) > MAX_BODY:
            return None
    message = await receive()
    if message["type"] == "http.request" and not message.get("more_body", False):
        body: bytes = message.get("body", b"")
        return body if len(body) <= MAX_BODY else None
    collected = bytearray()
    while True:
        if message["type"] == "http.disconnect":
            return collected
        collected += message.get("body", b"")
        if len(collected) > MAX_BODY:
            return None
        if not message.get("more_body", False):
            return collected
        message = await receive()


async def send_json(send: Send, status: int, value: Mapping[str, Any] | bytes, *headers: tuple[bytes, bytes]) -> None:
    """One whole JSON answer."""
    body = value if isinstance(value, bytes) else encode(value)
    await send(
        {
            "type": "http.response.start",
            "status": status,
            "headers": [
                (b"content-type", b"application/json"),
                (b"content-length", str(len(body)).encode()),
                *headers,
            ],
        }
    )
    await send({"type": "http.response.body", "body": body})
