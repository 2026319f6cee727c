"""HTML engines that judge the client: the same exchange as `_http`, with a browser's TLS, HTTP/2 and headers."""

from __future__ import annotations

import errno
import glob
import os
import re
import ssl
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import httpx2
from selectolax.lexbor import LexborHTMLParser

from providers._http import HTTPProvider
from providers._transport import CONNECT_S, MAX_BODY
from providers._wire import Unreadable, Wire
from providers._words import Outcome, Reply, Settings

if TYPE_CHECKING:
    from curl_cffi import CurlError
    from curl_cffi.requests import AsyncSession

MAX_TRANSFERS = 1024
"""Exchanges under way at once; curl_cffi queues what is beyond, which would look like a slow vendor."""

_THEIRS = frozenset({"host", "content-length", "transfer-encoding", "accept-encoding", "user-agent"})
"""Headers that curl or the impersonation writes: another version of them would give us away."""


class BrowserProvider(HTTPProvider):
    """A search engine without a key that refuses anything that does not look like a current Chrome.

    The body that `results` gets is the parsed page.
    """

    def __init__(self, settings: Settings | None = None, clock: Callable[[], float] = time.time) -> None:
        super().__init__(settings, clock)
        self._session: AsyncSession[Any] | None = None
        self._trusted: IO[bytes] | None = None

    def decode(self, wire: Wire) -> object:
        return read_page(wire.text)

    async def exchange(self, request: httpx2.Request) -> Wire | Reply:
        if request.url.scheme not in ("http", "https") or not request.url.host:
            return _UNSENDABLE
        headers = {name: value for name, value in request.headers.items() if name not in _THEIRS}
        if not all(value.isprintable() for value in headers.values()):
            # curl would send a line break in a value as it is
            return _UNSENDABLE
        from curl_cffi import CurlError, CurlHttpVersion
        from curl_cffi.curl import CURL_WRITEFUNC_ERROR

        body = bytearray()

        def take(chunk: bytes) -> int:
            body.extend(chunk)
            return len(chunk) if len(body) <= MAX_BODY else CURL_WRITEFUNC_ERROR

        try:
            session = self._session or self._new_session()
            # not curl_cffi's stream mode: there a cancelled reader leaves the transfer running
            response = await session.request(
                request.method,  # type: ignore[arg-type]
                str(request.url),
                headers=headers,
                content=request.content or None,
                content_callback=take,
                timeout=None,
                quote=False,
                # over plain HTTP curl would ask for an upgrade to HTTP/2, which no browser does
                http_version=CurlHttpVersion.V1_1 if request.url.scheme == "http" else None,
            )
        except CurlError as error:
            if len(body) > MAX_BODY:
                return Reply(Outcome.SERVER_ERROR, detail="reply over 2 MiB", row="transport: too long")
            return curl_failure(error)
        except (LookupError, ValueError):
            # what curl let pass and curl_cffi's own reading of the header lines does not
            return _NOT_HTTP
        if not response.status_code:
            # the session was closed under the transfer
            return Reply(Outcome.NETWORK, detail=_CUT_SHORT, row="transport: network")
        received = {name.lower(): value for name, value in response.headers.items() if value is not None}
        return Wire(response.status_code, received, bytes(body), self.clock())

    async def aclose(self) -> None:
        await super().aclose()
        if self._session is not None:
            session, self._session = self._session, None
            await session.close()
        if self._trusted is not None:
            self._trusted.close()
            self._trusted = None

    def open(self) -> None:
        if self._session is None:
            self._new_session()

    def _new_session(self) -> AsyncSession[Any]:
        # imported here because it costs half a second, which the command line need not wait for
        from curl_cffi import CurlInfo, CurlOpt
        from curl_cffi.requests import AsyncSession

        self._session = AsyncSession(
            impersonate="chrome",
            max_clients=MAX_TRANSFERS,
            proxy=self.settings.proxy,
            verify=self._authorities(),  # type: ignore[arg-type]
            trust_env=False,
            allow_redirects=False,
            discard_cookies=True,
            curl_options={
                CurlOpt.CONNECTTIMEOUT_MS: round(CONNECT_S * 1000),
                # on a connection used before, curl would by itself send a request again whose reply never began
                CurlOpt.FRESH_CONNECT: 1,
                CurlOpt.FORBID_REUSE: 1,
            },
            curl_infos=[CurlInfo.OS_ERRNO],
        )
        return self._session

    def _authorities(self) -> str:
        """The file with the certificates to trust: the public roots, and a company's own beside them as in `_http`."""
        import certifi

        told = ssl.get_default_verify_paths()
        public = told.openssl_cafile if os.path.isfile(told.openssl_cafile) else certifi.where()
        own = [told.cafile] if told.cafile not in (None, told.openssl_cafile) else []
        if told.capath not in (None, told.openssl_capath):
            own += sorted(path for path in glob.glob(f"{told.capath}/*") if os.path.isfile(path))
        if not own:
            return public
        # curl takes one file, and reads it for each new connection
        self._trusted = tempfile.NamedTemporaryFile(prefix="websearch-gateway-", suffix=".pem")  # noqa: SIM115 -- aclose does
        for path in (public, *own):
            self._trusted.write(Path(path).read_bytes() + b"\n")
        self._trusted.flush()
        return self._trusted.name


# ---------------------------------------------------------------------------------------------------------------------
# transport

_CUT_SHORT = "connection closed before the reply was whole"

_NOT_HTTP = Reply(Outcome.SERVER_ERROR, detail="reply is not HTTP", row="transport: protocol")

_UNSENDABLE = Reply(
    Outcome.REQUEST_ERROR,
    detail="the address or key cannot be put into a request",
    setup=True,
    hint="check the base_url, the proxy and the key",
    row="transport: nothing sent",
)

_CURL_CODES = {
    # curl.se/libcurl/c/libcurl-errors.html; what is not here is a network failure under its own name
    1: _NOT_HTTP,  # unsupported protocol: HTTP/0.9, a status that is no number
    3: _UNSENDABLE,  # malformed URL
    8: _NOT_HTTP,  # weird server reply: a header without a colon, a length that is no number
    16: _NOT_HTTP,  # HTTP/2 framing
    27: _UNSENDABLE,  # out of memory: what curl_cffi makes of a URL that curl rejects before it starts
    28: Reply(Outcome.TIMEOUT, detail="connect timeout", row="transport: timeout"),  # the only limit we hand to curl
    61: Reply(Outcome.SERVER_ERROR, detail="reply cannot be decompressed", row="transport: decoding"),
    100: _NOT_HTTP,  # a field grew larger than allowed: endless headers
}

_CURL_WORDS = {
    5: "proxy: ENOTFOUND",
    6: "ENOTFOUND",
    7: "proxy: no connection",  # a refused connection has the system's own number
    18: _CUT_SHORT,  # partial file
    35: "TLS failure",
    52: _CUT_SHORT,  # got nothing
    55: _CUT_SHORT,  # send error
    77: "certificate store cannot be read",
    92: _CUT_SHORT,  # the HTTP/2 stream was reset
    97: "proxy: no connection",
}

_SYSTEM_SAYS = frozenset({7, 35, 55, 56})
"""Codes whose cause is the system's error number, when there is one."""


def curl_failure(error: CurlError) -> Reply:
    """What a failed transfer means. curl's own sentence can hold the proxy's password: none of it is shown whole."""
    code = int(error.code)
    if code in _CURL_CODES:
        return _CURL_CODES[code]
    response = getattr(error, "response", None)
    number = next(iter(response.infos.values()), 0) if response is not None else 0
    if code in _SYSTEM_SAYS and number in errno.errorcode:
        detail = errno.errorcode[number]
    elif code == 56:
        # a receive error without the system's number is a reply that breaks HTTP's rules: a chunk size that is none
        return _NOT_HTTP
    elif code == 60:
        _, _, told = str(error).partition("verify result: ")
        detail = f"certificate {told.partition(' (')[0] or 'is not for this host'}"
    else:
        detail = _CURL_WORDS.get(code, f"curl error {code}")
    return Reply(Outcome.NETWORK, detail=detail, row="transport: network")


# ---------------------------------------------------------------------------------------------------------------------
# pages

MAX_DEPTH = 4000
"""Open elements a page may have inside each other. The parser's time grows with the square of them: 20,000 take 8 s."""

_TAG_START = re.compile(r"<(/?)([a-z][a-z0-9]*)", re.IGNORECASE)
_UNCLOSED = frozenset(
    "area base br col embed hr img input link meta source track wbr li option p td th tr".split()  # noqa: SIM905
)
"""Elements that are never closed, or that the next one closes."""


def read_page(text: str) -> LexborHTMLParser:
    """`text` as a document. Raises `Unreadable` for one that only keeps the parser busy."""
    depth = 0
    inside: Counter[str] = Counter()
    for tag in _TAG_START.finditer(text):
        closing, name = tag[1], tag[2].lower()
        if name in _UNCLOSED:
            continue
        if not closing:
            inside[name] += 1
            depth += 1
            if depth > MAX_DEPTH:
                raise Unreadable("nested too deeply")
        elif inside[name]:
            inside[name] -= 1
            depth -= 1
    # an odd character set can leave lone surrogates, which the parser does not take
    return LexborHTMLParser(text.encode("utf-8", "replace"))
