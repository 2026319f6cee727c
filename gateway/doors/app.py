"""The HTTP application: one gateway, its doors, and the words for every address that is none."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gateway.doors.access import NOT_FOUND, OPEN, Access
from gateway.doors.fair import Fair
from gateway.doors.mcp import MCPServer
from gateway.doors.streamable import StreamableHTTP
from gateway.doors.wire import send_json
from gateway.gateway import Gateway

DRAINING = b'{"error":"shutting down; try again in a moment"}'


def build(gateway: Gateway) -> Starlette:
    """The application over `gateway`, which its lifespan enters and leaves. One application serves one gateway once.

    Set `app.state.draining` before a shutdown: from then on `/readyz` and every door but `/healthz` answer 503.
    """

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        async with gateway:
            yield

    async def readyz(request: Request) -> Response:
        reasons = unready(gateway, draining=request.app.state.draining)
        if reasons:
            return JSONResponse({"status": "not ready", "reasons": reasons}, 503)
        return JSONResponse({"status": "ready"})

    mcp = StreamableHTTP(MCPServer(gateway))
    app = Starlette(
        routes=[
            Route("/mcp", mcp),
            Route("/mcp/", mcp),
            Route("/healthz", healthz),
            Route("/readyz", readyz),
        ],
        middleware=[Middleware(Draining), Middleware(Access, gateway=gateway), Middleware(Fair, gateway=gateway)],
        exception_handlers={HTTPException: refused, Exception: broken},
        lifespan=lifespan,
    )
    app.router.redirect_slashes = False
    app.state.draining = False
    return app


def unready(gateway: Gateway, *, draining: bool) -> list[str]:
    """Why no search can succeed now, in words that anybody may read; empty when one can."""
    reasons = ["shutting down"] if draining else []
    if faults := len(gateway.config.errors):
        reasons.append(
            f"the configuration has {faults} fault{'s' if faults > 1 else ''}; the log and the status tell them"
        )
    elif not gateway.usable():
        reasons.append("no search provider is usable; the status tells why")
    return reasons


async def healthz(request: Request) -> Response:
    return JSONResponse({"status": "ok"})


async def refused(request: Request, error: Exception) -> Response:
    """An address that is none, or a method that it does not take."""
    assert isinstance(error, HTTPException)
    if error.status_code == 404:
        return Response(NOT_FOUND, 404, media_type="application/json")
    return JSONResponse({"error": error.detail.lower()}, error.status_code, error.headers)


async def broken(request: Request, error: Exception) -> Response:
    """A fault of ours; the server logs it."""
    return JSONResponse({"error": "internal error; the gateway's log explains it"}, 500)


class Draining:
    """ASGI middleware: calls that begin while the application is told to drain are sent away, and so are those that the
    server cancels because they have not ended when its patience has.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if scope["app"].state.draining and scope["path"] not in OPEN:
            await _send_away(send)
            return
        begun = ended = False

        async def sending(message: Message) -> None:
            nonlocal begun, ended
            begun, ended = True, message["type"] == "http.response.body" and not message.get("more_body", False)
            await send(message)

        try:
            await self._app(scope, receive, sending)
        except asyncio.CancelledError:
            # a caller who leaves is seen further in: out here it is the server, which would log it as a fault of ours
            if not begun:
                await _send_away(send)
            elif not ended:
                await send({"type": "http.response.body", "body": b""})


async def _send_away(send: Send) -> None:
    await send_json(send, 503, DRAINING, (b"retry-after", b"2"), (b"connection", b"close"))
