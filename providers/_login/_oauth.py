"""Talking to an authority: where its doors are, a code for tokens, old tokens for new ones, tokens taken back.

RFC 6749 (OAuth 2.0), RFC 7636 (PKCE), RFC 7009 (revocation), OpenID Connect Discovery 1.0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import anyio
import httpx2

from providers._http import SHARED_TABLE, USER_AGENT, without_secrets
from providers._login._grant import Authority, Grant, claims, is_at, is_sendable, new_id
from providers._reading import member, one_line, retry_after, spellings
from providers._transport import Carrier, out_of_time
from providers._wire import Unreadable, Wire, read_json
from providers._words import Outcome, Reply

LIMIT_S = 10.0
"""Seconds for one exchange with an authority."""

REFUSALS = ("invalid_grant", "invalid_client", "unauthorized_client")
"""The errors of RFC 6749, 5.2, that say something of the tokens or of us; the others are trouble that passes."""

TIER = "this account's plan or tier may not use the API with a login; an API key may"


@dataclass(frozen=True, slots=True)
class Endpoints:
    """An authority's doors, all at the issuer's own origin."""

    authorization: str
    token: str
    revocation: str | None = None


async def discover(carrier: Carrier, authority: Authority) -> Endpoints | Reply:
    """The doors that the issuer names in its discovery document; else what is wrong with that."""
    address = f"{authority.issuer}/.well-known/openid-configuration"
    told = await _asked(carrier, httpx2.Request("GET", address), "discovery")
    if isinstance(told, Reply):
        return told
    doors = {name: told.get(f"{name}_endpoint") for name in ("authorization", "token", "revocation")}
    found = {name: door for name, door in doors.items() if isinstance(door, str) and is_at(door, authority.issuer)}
    if "authorization" not in found or "token" not in found:
        return _not_so("discovery: the authorization and token endpoints are not both at the issuer's own address")
    return Endpoints(found["authorization"], found["token"], found.get("revocation"))


async def exchange(
    carrier: Carrier,
    authority: Authority,
    doors: Endpoints,
    code: str,
    *,
    verifier: str,
    redirect_uri: str,
    nonce: str,
    now: float,
) -> Grant | Reply:
    """The tokens for a code. `now` is seconds since the epoch.

    Where an ID token comes along, its nonce must be ours. Its signature is not looked at: it comes over TLS from the
    token endpoint itself (OpenID Connect Core 3.1.3.7, 6), and nothing else of it is used or kept.
    """
    fields = {
        "grant_type": "authorization_code",
        "code": code,
        "redirect_uri": redirect_uri,
        "client_id": authority.client_id,
        "code_verifier": verifier,
    }
    told = await _posted(carrier, doors.token, fields, "token exchange", (code, verifier))
    if isinstance(told, Reply):
        return told
    if (identity := told.get("id_token")) is not None and claims(str(identity)).get("nonce") != nonce:
        return _not_so("token exchange: the ID token belongs to another login")
    before = Grant(
        new_id(), authority.issuer, authority.client_id, doors.token, "", "", revocation_endpoint=doors.revocation
    )
    return _granted(before, told, now, "token exchange")


async def refresh(carrier: Carrier, grant: Grant, now: float) -> Grant | Reply:
    """New tokens for old, or the old ones marked as `refused`. A `Reply` says nothing of them."""
    fields = {"grant_type": "refresh_token", "client_id": grant.client_id, "refresh_token": grant.refresh_token}
    told = await _posted(carrier, grant.token_endpoint, fields, "token refresh", (grant.refresh_token,))
    if not isinstance(told, Reply):
        return _granted(grant, told, now, "token refresh")
    if told.outcome is Outcome.AUTH_FAILURE and told.hint != TIER:
        return replace(grant, refused=f"{told.detail} {told.message}".rstrip()[:200])
    return told


async def revoke(carrier: Carrier, grant: Grant) -> Reply | None:
    """Have the tokens taken back; None when that is done, else what kept it from being done."""
    if grant.revocation_endpoint is None:
        return _not_so("the vendor names no address for that")
    fields = {"token": grant.refresh_token, "token_type_hint": "refresh_token", "client_id": grant.client_id}
    request = httpx2.Request("POST", grant.revocation_endpoint, data=fields)
    arrived = await _arrived(carrier, request)
    if isinstance(arrived, Wire) and arrived.status == 200:
        return None
    secrets = (grant.refresh_token,)
    return arrived if isinstance(arrived, Reply) else _refused(arrived, _read(arrived), "revocation", secrets)


# ---------------------------------------------------------------------------------------------------------------------


def _granted(before: Grant, told: Mapping[str, object], now: float, what: str) -> Grant | Reply:
    access, kind, lasts_s = told.get("access_token"), told.get("token_type", "bearer"), told.get("expires_in")
    again = told.get("refresh_token") or before.refresh_token  # an old one stays good where no new one comes
    if not isinstance(access, str) or not is_sendable(access) or str(kind).lower() != "bearer":
        return _not_so(f"{what}: no access token in the reply")
    if not isinstance(again, str) or not is_sendable(again):
        return _not_so(f"{what}: no refresh token in the reply")
    is_number = isinstance(lasts_s, int | float) and not isinstance(lasts_s, bool)
    ends = now + float(lasts_s) if is_number else None  # type: ignore[arg-type]
    return replace(before, access_token=access, refresh_token=again, expires_at=ends)


async def _posted(
    carrier: Carrier, address: str, fields: Mapping[str, str], what: str, secrets: tuple[str, ...]
) -> Mapping[str, object] | Reply:
    return await _asked(carrier, httpx2.Request("POST", address, data=dict(fields)), what, secrets)


async def _asked(
    carrier: Carrier, request: httpx2.Request, what: str, secrets: tuple[str, ...] = ()
) -> Mapping[str, object] | Reply:
    """The object of a 200; else what that means."""
    arrived = await _arrived(carrier, request)
    if isinstance(arrived, Reply):
        return replace(arrived, detail=f"{what}: {arrived.detail}", cut=False)  # no limit of a search ended it
    body = _read(arrived)
    if arrived.status != 200:
        return _refused(arrived, body, what, secrets)
    return body if isinstance(body, dict) else _not_so(f"{what}: unreadable reply")


async def _arrived(carrier: Carrier, request: httpx2.Request) -> Wire | Reply:
    request.headers.update({"Accept": "application/json", "User-Agent": USER_AGENT})
    with anyio.move_on_after(LIMIT_S):
        return await carrier.exchange(request)
    return out_of_time(LIMIT_S)


def _read(wire: Wire) -> object:
    try:
        return read_json(wire.text)
    except Unreadable:
        return None


def _refused(wire: Wire, body: object, what: str, secrets: tuple[str, ...]) -> Reply:
    error, words = member(body, "error"), member(body, "error_description")
    code = error if isinstance(error, str) else ""
    outcome = next((row.outcome for row in SHARED_TABLE if row.status == wire.status), Outcome.SERVER_ERROR)
    if wire.status == 400:
        outcome = Outcome.AUTH_FAILURE if code in REFUSALS else Outcome.SERVER_ERROR
    elif outcome is Outcome.AUTH_FAILURE or (code and wire.status == 403):
        # without the `error` of RFC 6749, 5.2, it may come from something in front
        outcome = Outcome.AUTH_FAILURE if code else Outcome.SERVER_ERROR
    is_tier = outcome is Outcome.AUTH_FAILURE and wire.status == 403  # so xAI tells it: hermes-agent#26847
    reply = Reply(
        outcome,
        detail=f"{what}: http_{wire.status} {one_line(code[:80])}".rstrip(),
        message=one_line(words[:1000]) if isinstance(words, str) else "",
        retry_after_s=retry_after(wire.headers.get("retry-after"), wire.now),
        hint=TIER if is_tier else "",
        row=f"{what}: {wire.status}",
    )
    return without_secrets(reply, spellings(secrets))


def _not_so(detail: str) -> Reply:
    return Reply(Outcome.SERVER_ERROR, detail=detail, row=detail.partition(":")[0])
