"""A saved vendor reply, run through the same reading as a live one: which row matched, and what follows."""

from __future__ import annotations

import errno
import socket
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import httpx2

from gateway import answer, filters, policy
from providers import HTTPProvider, Outcome, Reply, Wire
from providers._http import without_secrets
from providers._reading import spellings
from providers._transport import transport_failure
from providers._visiting import VisitingProvider

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


def explain(
    adapter: HTTPProvider,
    wire: Wire | str,
    tuning: policy.Tuning,
    max_output_chars: int,
    secrets: Sequence[str] = (),
    *,
    first_page: bool = False,
) -> dict[str, Any]:
    """Everything that would follow from `wire` (or from a transport fault named by its word).

    Every member is always there; what does not apply is null. `matched` is the line of a table that decided: `vendor`'s
    own, the `shared` one, or none (`shape` of a success, `transport`). `rest_s` is the rest after a first failure.
    `results`, `answer` and `chain_entry` are what the agent sees. `secrets` appear nowhere in it. `first_page`: `wire`
    came from the page that an engine has to visit before it searches. Raises ValueError when that decides nothing.
    """
    reply = no_reply(wire) if isinstance(wire, str) else _first(adapter, wire) if first_page else adapter.read(wire)
    reply = without_secrets(reply, spellings(secrets))
    consequence = policy.CONSEQUENCES[reply.outcome]
    rest_s = max(policy.rest_s(reply, tuning, 1), spent_s := policy.spent_s(reply))
    won = reply.outcome is Outcome.OK
    rows, too_long = filters.usable(filters.unique(reply.results))
    shown, written, is_cut = answer.text_parts(rows, reply.answer if won else "", adapter.name, max_output_chars)
    entry = {"provider": adapter.name, "outcome": reply.outcome.value}
    return {
        "provider": adapter.name,
        "status": None if isinstance(wire, str) else wire.status,
        "transport": wire if isinstance(wire, str) else None,
        "outcome": reply.outcome.value,
        "row": reply.row,
        "matched": _matched(adapter, reply),
        "retry_after_s": reply.retry_after_s,
        "left": None if reply.left is None else asdict(reply.left),
        "rest_s": rest_s,
        "rest_scope": ("key" if rest_s == spent_s else consequence.scope) if rest_s else None,
        "rest_grows": consequence.doubles and reply.retry_after_s is None and not spent_s,
        "rest_until": "restart or another key" if reply.outcome is Outcome.AUTH_FAILURE else None,
        "setup": reply.setup,
        "hint": reply.hint or None,
        "vendor_message": reply.message or None,
        "notes": [*reply.notes, *([answer.dropped_for_length(too_long)] if too_long else [])],
        "results": shown,
        "answer": written or None,
        "truncated": is_cut,
        "chain_entry": None if won else entry | ({"detail": reply.detail} if reply.detail else {}),
    }


def _first(adapter: HTTPProvider, wire: Wire) -> Reply:
    if not isinstance(adapter, VisitingProvider):
        raise ValueError(f"{adapter.name} visits no page before it searches")
    found = adapter.read_first(wire)
    if isinstance(found, Reply):
        return found
    raise ValueError("this page has what the search needs: explain the reply to the search itself")


def _matched(adapter: HTTPProvider, reply: Reply) -> dict[str, Any]:
    row = reply.matched
    if row is None:
        table = reply.row.partition(" ")[0].rstrip(":")
        return {
            "table": table if table in ("shape", "transport") else "vendor",
            "status": None,
            "code": None,
            "phrase": None,
        }
    table = "vendor" if row in adapter.errors else "shared"
    return {"table": table, "status": row.status, "code": row.code, "phrase": row.phrase}


def readable(told: Mapping[str, Any]) -> str:
    """The same for people."""
    rest = f"{told['rest_s']:.0f} s for this {told['rest_scope']}"
    rest += ", doubled for each further failure in a row" if told["rest_grows"] else ""
    rest = f"until {told['rest_until']}" if told["rest_until"] else rest
    lines = [
        f"outcome   {told['outcome']}",
        f"because   {told['row']}",
        f"rest      {rest if told['rest_s'] else 'none'}",
    ]
    if told["retry_after_s"] is not None:
        lines.append(f"vendor    wants to be left alone for {told['retry_after_s']:.0f} s")
    if left := told["left"]:
        of = "" if left["limit"] is None else f" of {left['limit']}"
        renewed = "" if left["resets_s"] is None else f", renewed in {left['resets_s']:.0f} s"
        lines.append(f"vendor    says {left['remaining']}{of} left{renewed}")
    if told["vendor_message"]:
        lines.append(f"message   {told['vendor_message']}")
    if told["hint"]:
        lines.append(f"hint      {told['hint']}")
    lines += [f"note      {note}" for note in told["notes"]]
    if entry := told["chain_entry"]:
        detail = f" ({entry['detail']})" if "detail" in entry else ""
        lines.append(
            f"agent     sees {entry['provider']}: {entry['outcome']}{detail}, and gets the next provider's answer"
        )
    else:
        count = len(told["results"])
        lines.append(f"agent     sees {count} result{'' if count == 1 else 's'}")
        lines += [f"  {row['title']}\n    {row['url']}" for row in told["results"]]
    return "\n".join(lines)
