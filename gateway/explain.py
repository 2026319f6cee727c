"""A saved vendor reply, run through the same reading as a live one: which row matched, and what follows."""

from __future__ import annotations

import errno
import socket
import ssl
from collections.abc import Mapping, Sequence
from typing import Any

import httpx2

from gateway import answer, policy
from providers import HTTPProvider, Outcome, Reply, Wire
from providers._reading import redact
from providers._transport import transport_failure

_NO_REPLY: Mapping[str, type[Exception] | OSError] = {
    "read_timeout": httpx2.ReadTimeout,
    "connect_timeout": httpx2.ConnectTimeout,
    "connect_error": ConnectionRefusedError(errno.ECONNREFUSED, "refused"),
    "dns_failure": socket.gaierror(socket.EAI_NONAME, "unknown name"),
    "connection_reset": ConnectionResetError(errno.ECONNRESET, "reset"),
    "tls_failure": ssl.SSLError("handshake failed"),
}
TRANSPORT_FAULTS = tuple(_NO_REPLY)
"""What may stand in the place of a status when there was no reply at all."""


def no_reply(fault: str) -> Reply:
    """What it means when the exchange failed as `fault` says. Raises KeyError for an unknown one."""
    cause = _NO_REPLY[fault]
    if isinstance(cause, OSError):
        error: Exception = httpx2.ConnectError("no reply")
        error.__cause__ = cause
        return transport_failure(error)
    return transport_failure(cause("no reply in time"))


def explain(adapter: HTTPProvider, wire: Wire | str, tuning: policy.Tuning) -> dict[str, Any]:
    """Everything that would follow from `wire` (or from a transport fault named by its word)."""
    reply = no_reply(wire) if isinstance(wire, str) else adapter.read(wire)
    told: dict[str, Any] = {
        "provider": adapter.name,
        "status": wire if isinstance(wire, str) else wire.status,
        "row": reply.row,
        "outcome": reply.outcome.value,
        "retry_after_s": reply.retry_after_s,
        "rest_s": policy.rest_s(reply, tuning, 1),
        "rest_grows": policy.CONSEQUENCES[reply.outcome].doubles and reply.retry_after_s is None,
        "setup": reply.setup,
        "hint": reply.hint or None,
        "vendor_message": reply.message or None,
        "notes": list(reply.notes),
    }
    if reply.outcome is Outcome.OK:
        rows = [answer.whole_row(row, adapter.name) for row in reply.results]
        return told | {"results": rows} | ({"answer": reply.answer} if reply.answer else {})
    entry: dict[str, Any] = {"provider": adapter.name, "outcome": reply.outcome.value}
    return told | {"results": [], "chain_entry": entry | ({"detail": reply.detail} if reply.detail else {})}


def redacted(told: Mapping[str, Any], secret_forms: Sequence[str]) -> dict[str, Any]:
    """`told` with every secret in the vendor's words replaced: a saved reply may echo what was sent."""
    theirs = {"vendor_message", "notes", "results", "answer", "chain_entry"} & told.keys()
    return {**told, **{name: _hidden(told[name], secret_forms) for name in theirs}}


def _hidden(value: Any, secret_forms: Sequence[str]) -> Any:
    if isinstance(value, str):
        return redact(value, secret_forms)
    if isinstance(value, list):
        return [_hidden(each, secret_forms) for each in value]
    if isinstance(value, dict):
        # who and what are our own words: a short secret must not spoil them
        return {
            name: each if name in ("provider", "outcome") else _hidden(each, secret_forms)
            for name, each in value.items()
        }
    return value


def readable(told: Mapping[str, Any]) -> str:
    """The same for people."""
    rest = f"{told['rest_s']:.0f} s" + (", doubled for each further failure in a row" if told["rest_grows"] else "")
    lines = [
        f"outcome   {told['outcome']}",
        f"because   {told['row']}",
        f"rest      {rest if told['rest_s'] else 'none'}",
    ]
    if told["retry_after_s"] is not None:
        lines.append(f"vendor    wants to be left alone for {told['retry_after_s']:.0f} s")
    if told["vendor_message"]:
        lines.append(f"message   {told['vendor_message']}")
    if told["hint"]:
        lines.append(f"hint      {told['hint']}")
    lines += [f"note      {note}" for note in told["notes"]]
    if "chain_entry" in told:
        entry = told["chain_entry"]
        detail = f" ({entry['detail']})" if "detail" in entry else ""
        lines.append(
            f"agent     sees {entry['provider']}: {entry['outcome']}{detail}, and gets the next provider's answer"
        )
    else:
        count = len(told["results"])
        lines.append(f"agent     sees {count} result{'' if count == 1 else 's'}")
        lines += [f"  {row['title']}\n    {row['url']}" for row in told["results"]]
    return "\n".join(lines)
