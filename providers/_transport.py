"""Connections to a vendor: bounded, never left half-read, and what it means when they fail."""

from __future__ import annotations

import errno
import functools
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Protocol

import anyio
import httpx2

from providers._wire import Wire, header_map
from providers._words import Outcome, Reply

MAX_BODY = 2 * 1024 * 1024
"""Bytes of a decoded reply body that are read; more is `server_error`."""

CONNECT_S = 5.0
"""Seconds one connection may take to be made. A blocked address must not eat a whole time limit."""

# what it means when no whole reply came, in the same words whoever carried it

UNSENDABLE = Reply(
    Outcome.REQUEST_ERROR,
    detail="the address or key cannot be put into a request",
    setup=True,
    hint="check the base_url, the proxy and the key",
    row="transport: nothing sent",
)
CONNECT_TIMEOUT = Reply(Outcome.TIMEOUT, detail="connect timeout", row="transport: timeout")
TOO_LONG = Reply(Outcome.SERVER_ERROR, detail="reply over 2 MiB", row="transport: too long")
UNDECODABLE = Reply(Outcome.SERVER_ERROR, detail="reply cannot be decompressed", row="transport: decoding")
NOT_HTTP = Reply(Outcome.SERVER_ERROR, detail="reply is not HTTP", row="transport: protocol")


NO_WHOLE_REPLY = Reply(Outcome.TIMEOUT, detail="no whole reply in time", row="transport: timeout")


def network_failure(detail: str) -> Reply:
    """There was no connection, or it did not last; `detail` names the innermost cause."""
    return Reply(Outcome.NETWORK, detail=detail, row="transport: network")


CUT_SHORT = network_failure("connection closed before the reply was whole")
NO_AUTHORITIES = network_failure("certificate store cannot be read")


def out_of_time(limit_s: float) -> Reply:
    """Our own time limit ended the exchange."""
    return Reply(Outcome.TIMEOUT, detail=f"no whole reply in {limit_s:.1f} s", row="transport: timeout", cut=True)


def at_proxy(reply: Reply) -> Reply:
    """`reply` where the proxy was to blame, and not the vendor."""
    return replace(reply, detail=f"proxy: {reply.detail}")


# ---------------------------------------------------------------------------------------------------------------------
# connections


class Carrier(Protocol):
    """Takes requests to one vendor and brings its replies, plainly as `Connections`, or as a browser would."""

    def __init__(self, proxy: str | None, clock: Callable[[], float]) -> None:
        """`clock` gives seconds since the epoch."""

    def open(self) -> None:
        """Load certificates and make ready for connections, so that no search has to wait for it.

        What keeps that from working is told by the first exchange, as for any other cause.
        """

    async def exchange(self, request: httpx2.Request) -> Wire | Reply:
        """Put `request` on the wire; the reply as it arrived, or what kept it from arriving."""

    async def aclose(self) -> None:
        """Close every connection. It can be used again."""


_PATIENCE = httpx2.Timeout(None, connect=CONNECT_S).as_dict()
"""Only connecting has a limit here: whoever waits bounds the whole exchange, which no limit per phase can do."""


@dataclass(eq=False, slots=True)
class _Line:
    """Connections to a vendor, and how many exchanges are on them."""

    transport: httpx2.AsyncHTTPTransport
    users: int = 0


@dataclass(eq=False, slots=True)
class _ProxyLeg:
    """Whether the way to the proxy failed: httpx2 raises the same for that as for the way beyond it."""

    has_failed: bool = False

    async def watch(self, event: str, info: object) -> None:
        # connections are made to the proxy only; what goes wrong beyond it is an event of "proxy"
        self.has_failed |= event in ("connection.connect_tcp.failed", "connection.start_tls.failed")


class Connections:
    """The `Carrier` for vendors who do not mind who asks."""

    def __init__(self, proxy: str | None, clock: Callable[[], float]) -> None:
        self._proxy = proxy
        self._clock = clock
        self._line: _Line | None = None

    def open(self) -> None:
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
        try:
            line = self._line = self._line or _Line(self._new_transport())
        except OSError:
            return NO_AUTHORITIES
        except (ValueError, httpx2.InvalidURL):
            return UNSENDABLE
        line.users += 1
        is_whole = False
        leg = _ProxyLeg()
        request.extensions = {**request.extensions, "timeout": _PATIENCE}
        if self._proxy is not None:
            request.extensions["trace"] = leg.watch
        try:
            response = await line.transport.handle_async_request(request)
            try:
                body = bytearray()
                async for chunk in response.aiter_bytes():
                    body += chunk
                    if len(body) > MAX_BODY:
                        return TOO_LONG
                is_whole = True
            finally:
                if not is_whole:
                    with anyio.CancelScope(shield=True):
                        await response.aclose()
        except (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError, OSError, ValueError) as error:
            reply = transport_failure(error)
            return at_proxy(reply) if leg.has_failed else reply
        finally:
            await self._leave(line, is_whole)
        return Wire(response.status_code, header_map(response.headers.multi_items()), bytes(body), self._clock())

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


# ---------------------------------------------------------------------------------------------------------------------
# what failed


def transport_failure(error: BaseException) -> Reply:
    """What a failed exchange means. The detail names the innermost cause and never quotes the request."""
    if isinstance(error, httpx2.TimeoutException):
        return CONNECT_TIMEOUT if isinstance(error, httpx2.ConnectTimeout) else NO_WHOLE_REPLY
    if isinstance(error, httpx2.DecodingError):
        return UNDECODABLE
    if isinstance(error, httpx2.RemoteProtocolError) and not _is_cut_short(error):
        return NOT_HTTP
    if isinstance(error, httpx2.InvalidURL | httpx2.UnsupportedProtocol | httpx2.LocalProtocolError) or (
        isinstance(error, ValueError) and not isinstance(error, OSError)
    ):
        return UNSENDABLE
    if isinstance(error, httpx2.ProxyError):
        # its words begin with the status with which the proxy refused to make a tunnel
        status = str(error)[:3]
        return at_proxy(network_failure(f"http_{status}" if status.isdecimal() else "no tunnel"))
    return _by_cause(innermost(error))


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


def _is_cut_short(error: BaseException) -> bool:
    words = str(error).lower()
    return "disconnected" in words or "peer closed" in words or "terminated" in words or "reset" in words


def _by_cause(cause: BaseException) -> Reply:
    if isinstance(cause, httpx2.RemoteProtocolError) or "RemoteProtocolError" in type(cause).__name__:
        return CUT_SHORT
    if isinstance(cause, ssl.SSLCertVerificationError):
        return network_failure(f"certificate {cause.verify_message}")
    if isinstance(cause, ssl.SSLError):
        # not every one was made by OpenSSL
        return network_failure(f"TLS {getattr(cause, 'reason', None) or 'failure'}")
    if isinstance(cause, socket.gaierror):
        return network_failure("EAI_AGAIN" if cause.errno == socket.EAI_AGAIN else "ENOTFOUND")
    named = system_error(cause.errno) if isinstance(cause, OSError) and cause.errno is not None else None
    return network_failure(named or type(cause).__name__)


def system_error(number: int) -> str | None:
    """What the system's error `number` is called, the same on every system; None for one without a name."""
    name = errno.errorcode.get(number)
    return name and name.removeprefix("WSA")  # how Windows spells those of sockets
