"""A login in use: its file is read anew for each search, and one refresh serves all workers and processes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import anyio

from providers._login import _grant, _oauth
from providers._login._grant import MARGIN_S, Grant
from providers._transport import Carrier
from providers._words import Outcome, Reply

LOCK_S = 20.0
"""Seconds to wait for another process's refresh, which takes `_oauth.LIMIT_S` at most."""

AGAIN_S = 30.0
"""Seconds until tokens that are still good are to be renewed again, after that failed."""


class Account:
    """The login in `file`, for a provider called `name`. `clock` gives seconds since the epoch.

    What is returned instead of tokens is what a search comes to without them. Cancelling a caller loses nothing: a
    refresh goes on in its thread until the new tokens are in the file, at most `LOCK_S` plus `_oauth.LIMIT_S` seconds.
    """

    def __init__(self, name: str, file: Path, carrier: Callable[[], Carrier], clock: Callable[[], float]) -> None:
        self._name = name
        self._file = file
        self._carrier = carrier
        self._clock = clock
        self._failed = ("", 0.0)
        self._renewals: dict[str, asyncio.Future[Grant | Reply]] = {}

    async def tokens(self) -> Grant | Reply:
        """Tokens that are good for a while yet."""
        found = await anyio.to_thread.run_sync(self._read, abandon_on_cancel=True)
        if isinstance(found, Reply) or not found.is_over(self._clock(), MARGIN_S):
            return found
        is_good, (token, at) = not found.is_over(self._clock()), self._failed
        if is_good and token == found.access_token and 0 <= self._clock() - at < AGAIN_S:
            return found
        told = await self.renewed(found)
        if isinstance(told, Grant) or found.is_over(self._clock()):
            return told
        # what was to be renewed early is good for a while yet
        self._failed = (found.access_token, self._clock())
        return found

    async def renewed(self, old: Grant) -> Grant | Reply:
        """Tokens that came after `old`."""
        seen = old.access_token
        if (renewal := self._renewals.get(seen)) is None:
            renewal = asyncio.get_running_loop().run_in_executor(None, self._renew, seen)
            self._renewals[seen] = renewal
            renewal.add_done_callback(lambda _: self._renewals.pop(seen, None))
        return await asyncio.shield(renewal)

    def _read(self) -> Grant | Reply:
        try:
            found = _grant.read(self._file)
        except _grant.Unusable as why:
            return self._out(f"the login {why}")
        if found is None:
            return self._out("not logged in")
        return self._out(found.refused) if found.refused else found

    def _out(self, detail: str) -> Reply:
        hint = f"log in again: websearch-gateway login {self._name}"
        return Reply(Outcome.AUTH_FAILURE, detail=detail, hint=hint, row="no usable login")

    def _renew(self, seen: str) -> Grant | Reply:
        try:
            with _grant.locked(self._file, LOCK_S):
                found = self._read()
                if isinstance(found, Reply):
                    return found
                if found.access_token != seen and not found.is_over(self._clock()):
                    return found  # another one's refresh came first
                _grant.prepare(self._file)
                told = anyio.run(self._ask, found)
                if isinstance(told, Reply):
                    return told
                _grant.write(self._file, told)
                return self._out(told.refused) if told.refused else told
        except _grant.Busy:
            return Reply(Outcome.TIMEOUT, detail="token refresh: others hold the lock", row="token refresh: lock")
        except OSError as error:
            # tokens rotate: nobody may have new ones who cannot keep them
            detail = f"token refresh: the folder of the login cannot be written: {error.strerror}"
            hint = f"make the folder {self._file.parent} writable, then log in again if it still fails"
            return Reply(Outcome.REQUEST_ERROR, detail=detail, setup=True, hint=hint, row="token refresh: folder")

    async def _ask(self, grant: Grant) -> Grant | Reply:
        carrier = self._carrier()
        try:
            return await _oauth.refresh(carrier, grant, self._clock())
        finally:
            await carrier.aclose()
