"""Connections to a vendor: bounded, never left half-read, and what it means when they fail."""

from __future__ import annotations

import errno
import functools
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import anyio
import httpx2

from providers._wire import Wire
from providers._words import Outcome, Reply

MAX_BODY = 2 * 1024 * 1024
"""Bytes of a decoded reply body that are read; more is `server_error`."""

CONNECT_S = 5.0
"""Seconds one connection may take to be made. A blocked address must not eat a whole time limit."""

_PATIENCE = httpx2.Timeout(None, connect=CONNECT_S).as_dict()
"""Only connecting has a limit here: whoever waits bounds the whole exchange, which no limit per phase can do."""


@dataclass(eq=False, slots=True)
class _Line:
    """Connections to a vendor, and how many exchanges are on them."""

    transport: httpx2.AsyncHTTPTransport
    users: int = 0


class Connections:
    """Every connection to one vendor. `clock` gives seconds since the epoch."""

    def __init__(self, proxy: str | None, clock: Callable[[], float]) -> None:
        self._proxy = proxy
        self._clock = clock
        self._line: _Line | None = None

    def open(self) -> None:
        """Load certificates and make ready for connections, so that no search has to wait for it.

        What keeps that from working is told by the first exchange, as for any other cause.
        """
        with suppress(OSError, ValueError, httpx2.InvalidURL):
            self._line = self._line or _Line(self._new_transport())

    def _new_transport(self) -> httpx2.AsyncHTTPTransport:
        # not a client: its cookies, redirects, authentication and environment are all things that must not happen here
        return httpx2.AsyncHTTPTransport(
            http2=True,
            verify=tls(),
            proxy=self._proxy,
            trust_env=False,
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=20, keepalive_expiry=60),
        )

    async def exchange(self, request: httpx2.Request) -> Wire | Reply:
        """Put `request` on the wire; the reply as it arrived, or what kept it from arriving."""
        line: _Line | None = None
        is_whole = False
        try:
            line = self._line = self._line or _Line(self._new_transport())
            line.users += 1
            request.extensions = {**request.extensions, "timeout": _PATIENCE}
            response = await line.transport.handle_async_request(request)
            try:
                body = bytearray()
                async for chunk in response.aiter_bytes():
                    body += chunk
                    if len(body) > MAX_BODY:
                        return Reply(Outcome.SERVER_ERROR, detail=f"http_{response.status_code} reply over 2 MiB")
                is_whole = True
            finally:
                if not is_whole:
                    with anyio.CancelScope(shield=True):
                        await response.aclose()
        except (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError, OSError, ValueError) as error:
            return transport_failure(error)
        finally:
            if line is not None:
                await self._leave(line, is_whole)
        headers = {name.lower(): value for name, value in response.headers.items()}
        return Wire(response.status_code, headers, bytes(body), self._clock())

    async def _leave(self, line: _Line, is_whole: bool) -> None:
        """One exchange fewer on `line`. After one that did not end with a whole reply nobody new comes to it.

        httpx2 neither resets an HTTP/2 stream that it leaves nor gives its bytes back to the connection's window: two
        replies of 10 MiB that we stopped reading, or some hundred callers who left, would stall the connection.
        """
        line.users -= 1
        if not is_whole and self._line is line:
            self._line = None
        if self._line is not line and not line.users:
            with anyio.CancelScope(shield=True):
                await line.transport.aclose()

    async def aclose(self) -> None:
        """Close every connection. The provider can be used again."""
        if (line := self._line) is not None:
            self._line = None
            await line.transport.aclose()


@functools.cache
def tls() -> ssl.SSLContext:
    # one context for all: loading the certificate store costs more than a search
    context = httpx2.create_ssl_context(trust_env=False)
    # a company's own authority (SSL_CERT_FILE, SSL_CERT_DIR) joins the public roots; httpx2 would let it replace them
    told = ssl.get_default_verify_paths()
    if told.cafile not in (None, told.openssl_cafile):
        context.load_verify_locations(cafile=told.cafile)
    if told.capath not in (None, told.openssl_capath):
        context.load_verify_locations(capath=told.capath)
    return context


def transport_failure(error: BaseException) -> Reply:
    """What a failed exchange means. The detail names the innermost cause and never quotes the request."""
    if isinstance(error, httpx2.TimeoutException):
        return Reply(Outcome.TIMEOUT, detail="connect timeout", row="transport: timeout")
    if isinstance(error, httpx2.DecodingError):
        return Reply(Outcome.SERVER_ERROR, detail="reply cannot be decompressed", row="transport: decoding")
    cause = innermost(error)
    detail = _cause_words(cause)
    if isinstance(error, httpx2.RemoteProtocolError) and not _cut_short(error):
        return Reply(Outcome.SERVER_ERROR, detail="reply is not HTTP", row="transport: protocol")
    if isinstance(error, httpx2.InvalidURL | httpx2.UnsupportedProtocol | httpx2.LocalProtocolError) or (
        isinstance(error, ValueError) and not isinstance(error, OSError)
    ):
        return Reply(
            Outcome.REQUEST_ERROR,
            detail="the address or key cannot be put into a request",
            setup=True,
            hint="check the base_url, the proxy and the key",
            row="transport: nothing sent",
        )
    if isinstance(error, httpx2.ProxyError):
        detail = f"proxy: {detail}"
    return Reply(Outcome.NETWORK, detail=detail, row="transport: network")


def innermost(error: BaseException) -> BaseException:
    """The cause at the bottom of a chain of wrapped errors."""
    seen: set[int] = set()
    while id(error) not in seen:
        seen.add(id(error))
        if isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        elif (cause := error.__cause__ or error.__context__) is not None:
            error = cause
    return error


def _cut_short(error: BaseException) -> bool:
    words = str(error).lower()
    return "disconnected" in words or "peer closed" in words or "terminated" in words or "reset" in words


def _cause_words(cause: BaseException) -> str:
    if isinstance(cause, ssl.SSLCertVerificationError):
        return f"certificate {cause.verify_message}"
    if isinstance(cause, ssl.SSLError):
        return f"TLS {getattr(cause, 'reason', None) or 'failure'}"  # not every one was made by OpenSSL
    if isinstance(cause, socket.gaierror):
        return "EAI_AGAIN" if cause.errno == socket.EAI_AGAIN else "ENOTFOUND"
    if isinstance(cause, OSError) and cause.errno is not None:
        return errno.errorcode.get(cause.errno, type(cause).__name__)
    if isinstance(cause, httpx2.RemoteProtocolError) or "RemoteProtocolError" in type(cause).__name__:
        return "connection closed before the reply was whole"
    return type(cause).__name__
