"""`login` and `logout`: an account of a vendor's, used like a key.

RFC 8252 (OAuth for programs that have a browser beside them), RFC 7636 (PKCE).
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import os
import secrets
import sys
import webbrowser
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlencode

import anyio
import anyio.to_thread

import providers
from gateway import accounts
from gateway.callback import Callback, LoginFailed
from gateway.clock import Clock
from gateway.commands import EMPTY, UNANSWERED, USAGE, complain, loaded
from gateway.config import load
from providers import HTTPProvider, Reply
from providers._login import _grant, _oauth
from providers._login._grant import Authority, Grant
from providers._transport import Carrier

WAIT_S = 180.0
"""How long somebody may take in the browser."""

LOCK_S = 30.0
"""How long another process's refresh is waited for."""

Say = Callable[[str], None]
Show = Callable[[str], bool]
"""Opens an address for the user; False when that cannot be done."""


async def log_in(
    authority: Authority,
    file: Path,
    carrier: Carrier,
    say: Say,
    show: Show | None = None,
    *,
    port: int | None = None,
    limit_s: float = WAIT_S,
    clock: Clock | None = None,
) -> Grant:
    """Log in at `authority`, and put what that gave into `file`. Raises `LoginFailed`.

    `say` gets lines for people, `show` the address to be opened. The browser has `limit_s` seconds to come back.
    """
    await anyio.to_thread.run_sync(_check, file)
    state, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(3))
    async with Callback(authority.port if port is None else port, authority.path, state, say) as callback:
        doors = await _oauth.discover(carrier, authority)
        if isinstance(doors, Reply):
            raise LoginFailed(_words(doors))
        fields = {
            "response_type": "code",
            "client_id": authority.client_id,
            "redirect_uri": callback.uri,
            "scope": authority.scope,
            "code_challenge": _unpadded(hashlib.sha256(verifier.encode()).digest()),
            "code_challenge_method": "S256",
            "state": state,
            "nonce": nonce,
            **authority.extra,
        }
        address = f"{doors.authorization}{'&' if '?' in doors.authorization else '?'}{urlencode(fields)}"
        say(f"Open this address in a browser on this machine:\n\n{address}\n")
        if show is not None and not await anyio.to_thread.run_sync(show, address, abandon_on_cancel=True):
            say("No browser could be opened from here.")
        say(f"Waiting for it at {callback.uri}, at most {limit_s:g} s.")
        code = await callback.code(limit_s)
        now = (clock or Clock()).wall()
        told = await _oauth.exchange(
            carrier, authority, doors, code, verifier=verifier, redirect_uri=callback.uri, nonce=nonce, now=now
        )
    if isinstance(told, Reply):
        raise LoginFailed(_words(told))
    await anyio.to_thread.run_sync(_write, file, told)
    return told


async def log_out(file: Path, carrier: Carrier, say: Say) -> bool:
    """Remove `file`, and have the vendor take its tokens back, if he can be told. False when there was no such file.

    Raises `LoginFailed` when it stays.
    """
    was_there, grant = await anyio.to_thread.run_sync(_remove, file)
    if not was_there:
        return False
    say(f"{file} is gone.")
    if grant is None:
        say("It held no login that could be taken back.")
    elif (reply := await _oauth.revoke(carrier, grant)) is None:
        say("The vendor has taken its tokens back.")
    else:
        say(
            f"The vendor has not taken its tokens back: {_words(reply)}. Your account's page there can end the session."
        )
    return True


def _check(file: Path) -> None:
    """See that a login can be kept, before anybody takes the trouble. Raises `LoginFailed`."""
    _locked(file, lambda: _grant.prepare(file))


def _write(file: Path, grant: Grant) -> None:
    _locked(file, lambda: _grant.write(file, grant))


def _remove(file: Path) -> tuple[bool, Grant | None]:
    """Whether there was such a file, and what it held."""
    if not os.path.lexists(file):
        return False, None
    held: list[Grant | None] = []

    def remove() -> None:
        with suppress(_grant.Unusable):
            held.append(_grant.read(file))
        _grant.remove(file)

    _locked(file, remove)
    return True, held[0] if held else None


def _locked(file: Path, change: Callable[[], None]) -> None:
    try:
        with _grant.locked(file, LOCK_S):
            change()
    except _grant.Busy:
        raise LoginFailed("another process holds the lock on the login") from None
    except OSError as error:
        raise LoginFailed(f"{file} cannot be written: {error.strerror}") from None


def _unpadded(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def _words(reply: Reply) -> str:
    return " ".join(part for part in (reply.detail, reply.message, reply.hint and f"({reply.hint})") if part)


# ---------------------------------------------------------------------------------------------------------------------
# the commands


def login(asked: argparse.Namespace) -> int:
    """Log in to an account."""
    vendor = _vendor(asked.provider)
    if vendor is None or vendor.authority is None:
        return USAGE
    authority = vendor.authority
    config = loaded()
    proxy = next(each.proxy for each in config.providers if each.name == vendor.name)
    file = accounts.file_of(vendor.name, config.state)
    print(f"warning: {authority.terms}\n", file=sys.stderr, flush=True)

    async def run() -> None:
        carrier = vendor.connections(proxy, Clock().wall)
        try:
            await log_in(authority, file, carrier, _say, None if asked.no_browser else _browse, port=asked.port)
        finally:
            await carrier.aclose()

    try:
        anyio.run(run)
    except LoginFailed as why:
        complain("not logged in", [str(why)])
        return UNANSWERED
    print(f"Logged in; {file} holds it. A gateway that runs takes it up after a reload (SIGHUP) or a restart.")
    now = load(os.environ)
    for warning in now.warnings:
        if warning.startswith(str(file)):
            print(f"websearch-gateway: warning: {warning}", file=sys.stderr)
    if vendor.name not in [each.name for each in now.chain]:
        print(f"{vendor.name} is not in the chain: add it to WEBSEARCH_PROVIDERS, or to providers in the file.")
    return 0


def logout(asked: argparse.Namespace) -> int:
    """Forget the login to an account."""
    vendor = _vendor(asked.provider)
    if vendor is None:
        return USAGE
    config = loaded()
    proxy = next(each.proxy for each in config.providers if each.name == vendor.name)
    file = accounts.file_of(vendor.name, config.state)

    async def run() -> bool:
        carrier = vendor.connections(proxy, Clock().wall)
        try:
            return await log_out(file, carrier, _say)
        finally:
            await carrier.aclose()

    try:
        was_there = anyio.run(run)
    except LoginFailed as why:
        complain("still logged in", [str(why)])
        return UNANSWERED
    if not was_there:
        print(f"Nobody is logged in: there is no {file}.")
    return 0 if was_there else EMPTY


def _vendor(name: str) -> type[HTTPProvider] | None:
    """The provider called `name`, when it takes logins; None, and it has been said, when it is none of those."""
    takers = [each for each in providers.names() if providers.find(each).authority]
    if name in takers:
        return providers.find(name)
    complain(f"no login is known for {name!r}", [f"there is one for: {', '.join(takers)}"])
    return None


def _say(line: str) -> None:
    print(line, flush=True)


def _browse(address: str) -> bool:
    try:
        browser = webbrowser.get()
    except webbrowser.Error:
        return False
    # one that runs in a terminal would take this one
    return type(browser) is not webbrowser.GenericBrowser and browser.open(address)
