"""Fair share at the door: who was let in by Access waits for its turn before anything is spent on the call."""

from __future__ import annotations

import asyncio

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gateway.doors.access import client_of
from gateway.doors.wire import send_json
from gateway.fairshare import Call, Crowded, FairShare
from gateway.gateway import Gateway

RETRY_AFTER = (b"retry-after", b"1")

WATCHED_AFTER_S = 0.1
"""Seconds after which a waiting call is watched for its caller's leaving: a task would cost more than most waits do."""


class Fair:
    """ASGI middleware behind Access: calls that somebody was let in for take turns by client; the rest goes through.

    A call waits as long as a search may take. 429 when that is over, and at once when too many of its client wait.
    """

    def __init__(self, app: ASGIApp, gateway: Gateway) -> None:
        self._app = app
        self._gateway = gateway
        self._share = FairShare(lambda: gateway.config.server)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if "token_name" not in scope:
            await self._app(scope, receive, send)
            return
        client = client_of(scope)
        try:
            call = self._share.join(client)
        except Crowded:
            await self._refuse(send, client)
            return
        try:
            if not call.let_in:
                receive = await self._wait(call, receive)
            if call.let_in:
                await self._app(scope, receive, send)
            else:
                await self._refuse(send, client)
        finally:
            self._share.leave(call)

    async def _wait(self, call: Call, receive: Receive) -> Receive:
        """Until `call` is let in, its caller leaves or its time is up. What is received by then is received again."""
        held: list[Message] = []

        async def watch() -> None:
            message = await receive()
            while message["type"] != "http.disconnect":
                held.append(message)
                if message.get("more_body", False):
                    return  # what is not here yet is not taken in before its turn
                message = await receive()
            self._share.give_up(call)

        loop = asyncio.get_running_loop()
        limit_s = self._gateway.config.total_budget_ms / 1000
        watching: list[asyncio.Task[None]] = []
        look_closer = loop.call_later(WATCHED_AFTER_S, lambda: watching.append(loop.create_task(watch())))
        too_late = loop.call_later(limit_s, self._share.give_up, call)
        try:
            await call.until_decided()
        finally:
            look_closer.cancel()
            too_late.cancel()
            for task in watching:
                task.cancel()

        async def receive_again() -> Message:
            return held.pop(0) if held else await receive()

        return receive_again

    async def _refuse(self, send: Send, client: str) -> None:
        """Say that the client is too fast. To a caller who has left this goes nowhere."""
        places = self._gateway.config.server.max_in_flight_per_client
        words = (
            f"too many calls wait: of the client {client} at most {places} are worked on at a time "
            "(server.max_in_flight_per_client); try again in a moment"
        )
        await send_json(send, 429, {"error": words}, RETRY_AFTER)
