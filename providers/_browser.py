"""HTML engines that judge the client: the same exchange as `_transport`, with a browser's TLS, HTTP/2 and headers."""

from __future__ import annotations

import os
import re
import ssl
import tempfile
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, urljoin, urlsplit

import httpx2
from selectolax.lexbor import LexborHTMLParser

from providers._http import HTTPProvider
from providers._transport import (
    CONNECT_S,
    CONNECT_TIMEOUT,
    CUT_SHORT,
    MAX_BODY,
    NO_AUTHORITIES,
    NOT_HTTP,
    TOO_LONG,
    UNDECODABLE,
    UNSENDABLE,
    at_proxy,
    network_failure,
    system_error,
)
from providers._wire import Unreadable, Wire, header_map
from providers._words import Reply

if TYPE_CHECKING:
    from curl_cffi import CurlError
    from curl_cffi.requests import AsyncSession

MAX_TRANSFERS = 1024
"""Exchanges under way at once; curl_cffi queues what is beyond, which would look like a slow vendor."""

_THEIRS = frozenset({"host", "content-length", "transfer-encoding", "accept-encoding", "user-agent"})
"""Headers that curl or the impersonation writes: another version of them would give us away."""

_NATIVE_CA = 1 << 4
"""CURLSSLOPT_NATIVE_CA: the system's own store counts too. By curl's page on CURLOPT_SSL_OPTIONS that is so on Windows,
and on macOS only where curl was built for it; elsewhere it does nothing."""


class BrowserConnections:
    """The `Carrier` for engines that refuse anything that does not look like a current Chrome."""

    def __init__(self, proxy: str | None, clock: Callable[[], float]) -> None:
        self._proxy = proxy
        self._clock = clock
        self._session: AsyncSession[Any] | None = None
        self._joined: Path | None = None

    def open(self) -> None:
        with suppress(OSError):
            self._session = self._session or self._new_session()

    async def exchange(self, request: httpx2.Request) -> Wire | Reply:
        if request.url.scheme not in ("http", "https") or not request.url.host:
            return UNSENDABLE
        headers = {name: value for name, value in request.headers.items() if name not in _THEIRS}
        if not all(value.isprintable() for value in headers.values()):
            # curl would send a line break in a value as it is
            return UNSENDABLE
        from curl_cffi import CurlError, CurlHttpVersion
        from curl_cffi.curl import CURL_WRITEFUNC_ERROR

        try:
            session = self._session = self._session or self._new_session()
        except OSError:
            return NO_AUTHORITIES
        body = bytearray()

        def take(chunk: bytes) -> int:
            body.extend(chunk)
            return len(chunk) if len(body) <= MAX_BODY else CURL_WRITEFUNC_ERROR

        try:
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
            return TOO_LONG if len(body) > MAX_BODY else curl_failure(error, self._proxy is not None)
        except (LookupError, ValueError):
            # what curl let pass and curl_cffi's own reading of the header lines does not
            return NOT_HTTP
        if not response.status_code:
            # the session was closed under the transfer
            return CUT_SHORT
        return Wire(response.status_code, header_map(response.headers.multi_items()), bytes(body), self._clock())

    async def aclose(self) -> None:
        session, self._session = self._session, None
        joined, self._joined = self._joined, None
        try:
            if session is not None:
                await session.close()
        finally:
            if joined is not None:
                with suppress(OSError):
                    joined.unlink()

    def _new_session(self) -> AsyncSession[Any]:
        """Raises OSError when certificates that were asked for cannot be read, or joined to the public ones."""
        # imported here because it costs half a second, which the command line need not wait for
        from curl_cffi import CurlInfo, CurlOpt
        from curl_cffi.requests import AsyncSession

        return AsyncSession(
            impersonate="chrome",
            max_clients=MAX_TRANSFERS,
            proxy=self._proxy,
            verify=str(self._authorities()),  # type: ignore[arg-type]
            trust_env=False,
            allow_redirects=False,
            discard_cookies=True,
            curl_options={
                CurlOpt.CONNECTTIMEOUT_MS: round(CONNECT_S * 1000),
                # on a connection used before, curl would by itself send a request again whose reply never began
                CurlOpt.FRESH_CONNECT: 1,
                CurlOpt.FORBID_REUSE: 1,
                CurlOpt.SSL_OPTIONS: _NATIVE_CA,
                CurlOpt.PROXY_SSL_OPTIONS: _NATIVE_CA,
            },
            curl_infos=[CurlInfo.OS_ERRNO, CurlInfo.HTTP_CONNECTCODE],
        )

    def _authorities(self) -> Path:
        """The file with the certificates to trust: the public roots, and a company's own beside them.

        Unlike in `Connections` the public roots come from this system only where it keeps them in OpenSSL's file; on
        Windows and macOS they are certifi's. Raises OSError.
        """
        import certifi

        told = ssl.get_default_verify_paths()
        public = Path(told.openssl_cafile if os.path.isfile(told.openssl_cafile) else certifi.where())
        own = [Path(told.cafile)] if told.cafile not in (None, told.openssl_cafile) else []
        if told.capath not in (None, told.openssl_capath):
            own += sorted(path for path in Path(told.capath).iterdir() if path.is_file())
        if not own:
            return public
        pem = b"".join(path.read_bytes() + b"\n" for path in (public, *own))
        # curl takes one file, and opens it by name for each new connection: on Windows it must be closed by then
        if self._joined is None:
            handle, name = tempfile.mkstemp(".pem", "websearch-gateway-")
            os.close(handle)
            self._joined = Path(name)
        self._joined.write_bytes(pem)
        return self._joined


class BrowserProvider(HTTPProvider):
    """A search engine without a key that judges its clients. The body that `results` gets is the parsed page."""

    connections = BrowserConnections

    def decode(self, wire: Wire) -> object:
        return read_page(wire.text)


# ---------------------------------------------------------------------------------------------------------------------
# transport

_CURL_CODES = {
    # curl.se/libcurl/c/libcurl-errors.html; what is not here is a network failure under its own name
    1: NOT_HTTP,  # unsupported protocol: HTTP/0.9, a status that is no number
    3: UNSENDABLE,  # malformed URL
    5: at_proxy(network_failure("ENOTFOUND")),
    6: network_failure("ENOTFOUND"),
    8: NOT_HTTP,  # weird server reply: a header without a colon, a length that is no number
    16: NOT_HTTP,  # HTTP/2 framing
    18: CUT_SHORT,  # partial file
    27: UNSENDABLE,  # out of memory: what curl_cffi makes of a URL that curl rejects before it starts
    28: CONNECT_TIMEOUT,  # the only limit we hand to curl
    35: network_failure("TLS failure"),
    52: CUT_SHORT,  # got nothing
    55: CUT_SHORT,  # send error
    56: NOT_HTTP,  # a receive error without the system's number: a chunk size that is none
    61: UNDECODABLE,
    77: NO_AUTHORITIES,
    92: CUT_SHORT,  # the HTTP/2 stream was reset
    97: at_proxy(network_failure("no connection")),
    100: NOT_HTTP,  # a field grew larger than allowed: endless headers
}

_COULDNT_CONNECT = 7
_SYSTEM_SAYS = frozenset({_COULDNT_CONNECT, 35, 55, 56})
"""Codes whose cause is the system's error number, when there is one."""


def curl_failure(error: CurlError, has_proxy: bool) -> Reply:
    """What a failed transfer means. curl's own sentence can hold the proxy's password: none of it is shown whole."""
    from curl_cffi import CurlInfo

    code = int(error.code)
    if code == 60:
        _, _, told = str(error).partition("verify result: ")
        return network_failure(f"certificate {told.partition(' (')[0] or 'is not for this host'}")
    response = getattr(error, "response", None)
    infos = response.infos if response is not None else {}
    named = system_error(infos.get(CurlInfo.OS_ERRNO, 0)) if code in _SYSTEM_SAYS else None
    if code != _COULDNT_CONNECT:
        return network_failure(named) if named else _CURL_CODES.get(code, network_failure(f"curl error {code}"))
    refused = infos.get(CurlInfo.HTTP_CONNECTCODE, 0)
    reply = network_failure(named or (f"http_{refused}" if refused else "no connection"))
    # with a proxy there is no connection but the one to it, or the tunnel that it refuses to make
    return at_proxy(reply) if has_proxy else reply


# ---------------------------------------------------------------------------------------------------------------------
# pages


def leads_to(wire: Wire, base: str, site: str | None = None) -> SplitResult | None:
    """Where the `Location` of a reply leads, seen from `base`; None when there is none that can be read.

    With `site` only one counts that leads there, or to the host of `base`.
    """
    location = wire.headers.get("location")
    if location is None:
        return None
    try:
        target = urlsplit(urljoin(base, location.strip()))
    except ValueError:
        return None
    stays = site is None or is_of(target.hostname, site, urlsplit(base).hostname or site)
    return target if target.hostname and stays else None


def is_of(host: str | None, *sites: str) -> bool:
    """Whether `host` is one of `sites`, or below one."""
    return host is not None and any(host == site or host.endswith(f".{site}") for site in sites)


MAX_DEPTH = 4000
"""Open elements a page may have inside each other. The parser's time grows with the square of them: 20,000 take 8 s."""

MAX_ELEMENTS = 40_000
"""Elements a page may have. Pages of results have some thousands; what is read of each takes its time."""

MAX_ATTRIBUTES = 500
"""Attributes an element may have: the parser compares each with all others, and 40,000 of them take it 24 s."""

_ATTRIBUTE = r"(?>[\s/]*+[^\s/>{no}][^\s/>={no}]*+(?:\s*+=\s*+(?:\"[^\"{no}]*+\"|'[^'{no}]*+'|[^\s>{no}]*+))?+)"
"""One, as HTML's tokenizer reads it; nothing in it can match in two ways. `no` is what it cannot hold."""

_TAG = re.compile(rf"<[a-zA-Z][^\s/>]*+{_ATTRIBUTE.format(no='')}{{0,{MAX_ATTRIBUTES}}}+({_ATTRIBUTE.format(no='')})?")
_BARE_TAG = re.compile(rf"<[a-zA-Z][^\s/><]*+{_ATTRIBUTE.format(no='<')}{{{MAX_ATTRIBUTES + 1}}}")
"""Too many attributes without a `<` in them: seen also where the text before left a quotation mark open."""
_CODE = re.compile(r"<(script|style)\b[^<>]*+>", re.IGNORECASE)

_TAG_START = re.compile(r"<(/?)([a-z][a-z0-9]*)", re.IGNORECASE)
_UNCLOSED = frozenset(
    "area base br col embed hr img input link meta source track wbr li option p td th tr".split()  # noqa: SIM905
)
"""Elements that are never closed, or that the next one closes."""


def _without_code(text: str) -> str:
    """`text` without what scripts and styles hold: a comparison in there looks like the beginning of an element."""
    lower = text.lower() if text.isascii() else text  # (lower() alone may change the length)
    kept, at = [], 0
    while (begins := _CODE.search(text, at)) and (ends := lower.find(f"</{begins[1].lower()}", begins.end())) >= 0:
        kept.append(text[at : begins.end()])
        at = ends
    return "".join((*kept, text[at:]))


def read_page(text: str) -> LexborHTMLParser:
    """`text` as a document. Raises `Unreadable` for one that only keeps the parser busy."""
    markup = _without_code(text)
    if _BARE_TAG.search(markup) or any(tag[1] for tag in _TAG.finditer(markup)):
        raise Unreadable("too many attributes")
    depth = 0
    inside: Counter[str] = Counter()
    for number, tag in enumerate(_TAG_START.finditer(text)):
        if number > 2 * MAX_ELEMENTS:
            raise Unreadable("too many elements")
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
