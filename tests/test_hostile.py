"""Whatever a vendor does, its adapter answers with an outcome: no exception, no invented "nothing found", no secret."""

from __future__ import annotations

import errno
import json
import socket
import ssl
from base64 import b64encode
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx2
import pytest

import providers
from providers import Draft, HTTPProvider, Outcome, Query, Reply, Settings, _transport
from providers._browser import BrowserProvider
from providers._visiting import VisitingProvider
from tests.vendors import (
    GARBAGE,
    RESET,
    SILENCE,
    Play,
    Played,
    Trap,
    bomb,
    elsewhere,
    page_play,
    success,
)
from tests.vendors.plays import JSON, PAGE

pytestmark = pytest.mark.anyio

FACES = (*providers.names(), *(["grok_relay"] if "grok" in providers.names() else []))
"""Every provider, and Grok's second way in."""

BROWSERS = tuple(name for name in providers.names() if issubclass(providers.find(name), BrowserProvider))
"""Engines that judge the client: curl asks them, and what they send is no JSON."""

PAGES = tuple(name for name in BROWSERS if name != "bing_rss")
"""Those that send pages: a feed is as strict as JSON."""

VISITING = tuple(name for name in providers.names() if issubclass(providers.find(name), VisitingProvider))
"""Engines that want their front page visited first: more than one request a search."""

LIMIT_S = 0.15
"""For faults that are only over when we say so."""

KEY = "canary-key-5fb1e0"
PASSWORD = "canary-password-77ac"
PROXY_PASSWORD = "canary-proxy-b0c9"
QUERY = Query("kelp forest", max_results=5)


def face(name: str, base: str, **settings: str) -> tuple[HTTPProvider, str]:
    """A provider that calls `base`, and its key."""
    kind = providers.find(name.removesuffix("_relay"))
    if kind.keys_are_addresses:
        return kind(Settings(**settings)), base
    where = {"address": base} if name == "grok_relay" else {"base_url": base}
    return kind(Settings(**where, **settings)), KEY if kind.credential else ""


@asynccontextmanager
async def asking(name: str, base: str, **settings: str) -> AsyncIterator[Callable[[float], Reply]]:
    """How to ask the provider one question: call with a limit in seconds."""
    provider, key = face(name, base, **settings)

    async def ask(limit_s: float = 10.0) -> Reply:
        draft = provider.draft(QUERY, key)
        reply = draft if isinstance(draft, Reply) else await provider.send(draft, limit_s)
        check(reply)
        return reply

    try:
        yield ask
    finally:
        await provider.aclose()


def check(reply: Reply) -> None:
    """What holds for every reply, whatever happened."""
    rows = [text for row in reply.results for text in (row.title, row.url, row.snippet, row.content)]
    texts = [*rows, reply.answer, *reply.notes, reply.detail, reply.message, reply.hint]
    json.dumps(texts, ensure_ascii=False).encode()  # a lone surrogate would not go out at any door
    assert len(reply.detail) <= 200
    assert reply.detail or reply.outcome is Outcome.OK
    assert reply.row
    assert reply.retry_after_s is None or 0 <= reply.retry_after_s < float("inf")
    assert (reply.outcome is Outcome.OK) == bool(reply.results)
    assert all(row.title and row.url.startswith("http") for row in reply.results)


Made = Callable[[str, bytes], Play]
"""A fault from the vendor's name and the body of its good reply."""


@dataclass(frozen=True)
class Fault:
    made: Made | Play
    outcome: Outcome
    differs: Mapping[str, Outcome] = field(default_factory=dict)
    """Providers of which the notes know better."""
    is_slow: bool = False

    def play(self, name: str, good: bytes) -> Play:
        return self.made if isinstance(self.made, Play) else self.made(name, good)

    def expected(self, name: str) -> Outcome:
        return self.differs.get(name, self.outcome)


def kind(name: str) -> Mapping[str, str]:
    return PAGE if name in PAGES else JSON


def saying(body: bytes, **headers: str) -> Made:
    """A 200 with this body under the vendor's own content type."""
    return lambda name, good: Play(200, {**kind(name), **headers}, body)


def surrogates(name: str, good: bytes) -> Play:
    torn = b": pa&#xD800;\xed\xa0\x80ge" if name in PAGES else b": pa\\ud800ge"
    return Play(200, kind(name), good.replace(b": page", torn))


def flooded(name: str, good: bytes) -> Play:
    flood = (b"&lt;!--" if name in PAGES else b"<!--") * 30_000
    return Play(200, kind(name), good.replace(b": page", b": " + flood + b" page", 1))


def crowded(name: str, good: bytes) -> Play:
    return Play(200, kind(name), b"<div " + b" ".join(b"a%d=1" % n for n in range(40_000)) + b">" + good)


CUT_AFTER = {
    "duckduckgo": b'class="result ',
    "so360": b'class="res-list',
    "mojeek": b'class="results-standard',
    "grok_relay": b'data: {"id"',
}
"""What is whole may be read: the page is cut in its first row, the stream in its first event; all else half way."""


def cut(name: str, good: bytes) -> Play:
    mark = CUT_AFTER.get(name)
    return Play(200, kind(name), good[: good.index(mark) + 20] if mark else good[: len(good) // 2])


def charset(told: str) -> Made:
    return lambda name, good: Play(200, {"content-type": f"{kind(name)['content-type']}; charset={told}"}, good)


def deep(name: str, good: bytes) -> Play:
    return Play(200, kind(name), b"<div>" * 50_000 if name in PAGES else b"[" * 100_000)


def deep_objects(name: str, good: bytes) -> Play:
    return Play(200, kind(name), b"<table><tr><td>" * 20_000 if name in PAGES else b'{"results":' * 50_000)


WRONG_ADDRESS = {"searxng": Outcome.REQUEST_ERROR, "grok": Outcome.REQUEST_ERROR, "grok_relay": Outcome.REQUEST_ERROR}
FAULTS = {
    "a page for data": Fault(page_play(), Outcome.SERVER_ERROR, {**WRONG_ADDRESS, "bing_rss": Outcome.RATE_LIMITED}),
    # (seznam meets it on the page before, whose box is whole)
    "a cut body that claims to be whole": Fault(cut, Outcome.SERVER_ERROR, {"seznam": Outcome.OK}),
    "a list for an object": Fault(saying(b"[]"), Outcome.SERVER_ERROR),
    "null": Fault(saying(b"null"), Outcome.SERVER_ERROR),
    "true": Fault(saying(b"true"), Outcome.SERVER_ERROR),
    "a string": Fault(saying(b'"results"'), Outcome.SERVER_ERROR),
    "a number of 5000 digits": Fault(saying(b"1" * 5000), Outcome.SERVER_ERROR),
    "an empty object": Fault(saying(b"{}"), Outcome.SERVER_ERROR),
    "NaN": Fault(saying(b"NaN"), Outcome.SERVER_ERROR),
    "infinite members": Fault(saying(b'{"results": Infinity, "code": NaN, "web": -Infinity}'), Outcome.SERVER_ERROR),
    "lone surrogates": Fault(surrogates, Outcome.OK),
    "a flood of comments that never end": Fault(flooded, Outcome.OK, {"bing_rss": Outcome.SERVER_ERROR}),
    "an element with 40,000 attributes": Fault(crowded, Outcome.SERVER_ERROR),
    "NUL bytes": Fault(saying(b"\0" * 1000), Outcome.SERVER_ERROR),
    "10 MiB": Fault(lambda name, good: Play(200, kind(name), good + b" " * 10 * 1024 * 1024), Outcome.SERVER_ERROR),
    "an unknown charset": Fault(charset("klingon"), Outcome.OK),
    "a charset that is none": Fault(charset("base64"), Outcome.OK),
    "the wrong charset": Fault(charset("utf-16"), Outcome.SERVER_ERROR),
    "bytes in no charset": Fault(saying(b'{"results": "\xff\xfe\xfd"}'), Outcome.SERVER_ERROR),
    "a drip": Fault(lambda name, good: Play(200, kind(name), good, drip_s=0.05), Outcome.TIMEOUT, is_slow=True),
    "silence": Fault(SILENCE, Outcome.TIMEOUT, is_slow=True),
    "a reset": Fault(RESET, Outcome.NETWORK),
    "a reset in the body": Fault(lambda name, good: Play(200, kind(name), good, ending="reset"), Outcome.NETWORK),
    "a close in the body": Fault(lambda name, good: Play(200, kind(name), good, ending="cut"), Outcome.NETWORK),
    "a close before the reply": Fault(Play(raw=b""), Outcome.NETWORK),
    "gzip that is not gzip": Fault(saying(b"not gzip", **{"content-encoding": "gzip"}), Outcome.SERVER_ERROR),
    "a gzip bomb": Fault(bomb(), Outcome.SERVER_ERROR),
    "a bomb in a bomb": Fault(bomb(times=2), Outcome.SERVER_ERROR),
    "deep nesting": Fault(deep, Outcome.SERVER_ERROR),
    "deep objects": Fault(deep_objects, Outcome.SERVER_ERROR),
    "nothing": Fault(saying(b""), Outcome.SERVER_ERROR, {"so360": Outcome.RATE_LIMITED}),
    "blanks": Fault(saying(b" \r\n\t"), Outcome.SERVER_ERROR, {"so360": Outcome.RATE_LIMITED}),
    "no content": Fault(Play(204), Outcome.SERVER_ERROR),
    "a header of 64 KiB": Fault(lambda name, good: Play(200, {**kind(name), "x-long": "a" * 65536}, good), Outcome.OK),
    "a header of a mebibyte": Fault(saying(b"{}", **{"x-long": "a" * 1024 * 1024}), Outcome.SERVER_ERROR),
    "no HTTP": Fault(GARBAGE, Outcome.SERVER_ERROR),
    "a length that is none": Fault(saying(b"{}", **{"content-length": "many"}), Outcome.SERVER_ERROR),
    "a status beyond all": Fault(Play(999), Outcome.SERVER_ERROR),
    "a page under 503": Fault(page_play(status=503), Outcome.SERVER_ERROR),
    "a page under 522": Fault(page_play(status=522), Outcome.TIMEOUT),
    "a page under 404": Fault(page_play(status=404), Outcome.REQUEST_ERROR),
    "a page under 429": Fault(page_play(status=429), Outcome.RATE_LIMITED),
    "nothing under 429, with a time that is none": Fault(Play(429, {"retry-after": "-1e999"}), Outcome.RATE_LIMITED),
}


@pytest.mark.parametrize("name", FACES)
async def test_every_fault_has_the_outcome_that_the_contract_gives_it(played: Played, name: str) -> None:
    wrong = {}
    async with asking(name, guarded(played.address(name))) as ask:
        first = await ask()
        assert (first.outcome, len(first.results)) == (Outcome.OK, 5)
        check_secret(first)
        good = success(name)(played.requests(name)[-1]).body
        for title, fault in FAULTS.items():
            played.script(name, fault.play(name, good), success(name))
            sent = played.count(name)
            reply = await ask(LIMIT_S if fault.is_slow else 10.0)
            check_secret(reply)
            if name not in VISITING:
                assert played.count(name) == sent + 1, f"{title}: it was asked again"
            seen = (reply.outcome, reply.cut)
            if seen != (fault.expected(name), fault.is_slow):
                wrong[title] = (*seen, reply.row, reply.detail)
            assert (await ask()).outcome is Outcome.OK, f"{title} outlived its reply"
    assert wrong == {}


REDIRECTS = {
    # searxng's limiter sends suspects to its front page; duckduckgo: blocked (301), a bang (303)
    "searxng": {302: Outcome.REQUEST_ERROR},
    "duckduckgo": {301: Outcome.RATE_LIMITED, 303: Outcome.REQUEST_ERROR},
}


@pytest.mark.parametrize("name", FACES)
async def test_a_redirect_is_not_followed_to_another_origin(played: Played, name: str) -> None:
    async with Trap() as trap, asking(name, played.address(name)) as ask:
        for status in (301, 302, 303, 307, 308):
            played.script(name, elsewhere(trap.url, status))
            expected = REDIRECTS.get(name, {}).get(status, Outcome.SERVER_ERROR)
            assert ((await ask()).outcome, status) == (expected, status)
        assert trap.visits == 0


async def test_every_vendor_speaks_tls_under_an_authority_of_ones_own(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Played(tls=True) as played:
        authority = tmp_path_factory.mktemp("tls") / "ca.pem"
        authority.write_bytes(played.ca_pem)
        monkeypatch.delenv("SSL_CERT_FILE", raising=False)
        monkeypatch.delenv("SSL_CERT_DIR", raising=False)
        _transport.tls.cache_clear()
        public = _transport.tls().cert_store_stats()["x509_ca"]
        monkeypatch.setenv("SSL_CERT_FILE", str(authority))
        _transport.tls.cache_clear()
        try:
            for name in FACES:
                async with asking(name, played.address(name, played.tls_url)) as ask:
                    assert ((await ask()).outcome, name) == (Outcome.OK, name)
            assert set(played.versions) == {"HTTP/2"}
            assert _transport.tls().cert_store_stats()["x509_ca"] == public + 1
            for name in FACES:
                async with asking(name, played.address(name, played.untrusted_url)) as ask:
                    reply = await ask()
                    assert (reply.outcome, name) == (Outcome.NETWORK, name)
                    assert "certificate" in reply.detail
        finally:
            _transport.tls.cache_clear()


async def test_authorities_that_cannot_be_read_fail_the_search_and_not_the_start(
    played: Played, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own.pem").write_text("no certificate")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "own.pem"))
    _transport.tls.cache_clear()
    try:
        provider, key = face("brave", played.address("brave"))
        provider.open()
        draft = provider.draft(QUERY, key)
        assert isinstance(draft, Draft)
        reply = await provider.send(draft, 10.0)
        assert (reply.outcome, reply.detail) == (Outcome.NETWORK, "certificate store cannot be read")
        assert played.count() == 0
    finally:
        _transport.tls.cache_clear()


def test_a_system_error_is_called_the_same_on_every_system(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(errno.errorcode, 10061, "WSAECONNREFUSED")  # as Windows has it
    error = httpx2.ConnectError("no connection")
    error.__cause__ = OSError(10061, "no connection could be made")
    assert _transport.transport_failure(error).detail == "ECONNREFUSED"


@pytest.mark.parametrize("name", ["brave", "grok_relay"])
async def test_replies_that_we_stopped_reading_do_not_stall_an_http2_connection(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Played(tls=True) as played:
        context = ssl.create_default_context(cadata=played.ca_pem.decode())
        monkeypatch.setattr(_transport, "tls", lambda: context)
        huge = Play(200, JSON, b" " * 10 * 1024 * 1024)
        async with asking(name, played.address(name, played.tls_url)) as ask:
            played.script(name, *[huge] * 4, success(name))
            assert [(await ask()).outcome for _ in range(5)] == [Outcome.SERVER_ERROR] * 4 + [Outcome.OK]
            played.script(name, SILENCE, success(name))
            assert (await ask(LIMIT_S)).outcome is Outcome.TIMEOUT
            await played.wait_until_left(1, name)  # the vendor is told that nobody waits any more
            assert (await ask()).outcome is Outcome.OK
            assert played.versions == {"HTTP/2": 7}


# ---------------------------------------------------------------------------------------------------------------------
# secrets


def guarded(base: str, user: str = "someone", password: str = PASSWORD) -> str:
    """`base` with a user and a password in front of its host."""
    return base.replace("://", f"://{user}:{password}@", 1)


def spelled(secret: str) -> set[str]:
    """The ways in which a secret may turn up; half of one is still too much."""
    pair = b64encode(f"someone:{secret}".encode()).decode()
    return {secret, secret[: len(secret) // 2 + 2], secret[::-1], b64encode(secret.encode()).decode()[:-4], pair[:-4]}


def check_secret(reply: Reply) -> None:
    told = repr(reply)
    for secret in (KEY, PASSWORD, PROXY_PASSWORD):
        assert not [form for form in spelled(secret) if form in told], reply


ECHOES = [Play(status, echo=True) for status in (200, 202, 302, 400, 401, 402, 403, 404, 422, 429, 432, 500, 503)]


@pytest.mark.parametrize("name", FACES)
async def test_no_secret_comes_back_from_a_vendor_that_repeats_what_it_was_sent(played: Played, name: str) -> None:
    async with asking(name, guarded(played.address(name))) as ask:
        for echo in ECHOES:
            played.script(name, echo)
            reply = await ask()
            check_secret(reply)
            assert reply.outcome not in (Outcome.OK, Outcome.NO_RESULTS)
    assert played.count(name) >= len(ECHOES)


@pytest.mark.parametrize("name", FACES)
async def test_no_secret_is_told_when_nobody_answers(
    name: str, monkeypatch: pytest.MonkeyPatch, unused_tcp_port: int
) -> None:
    # a name that resolvers must refuse by themselves (RFC 7686), and this one refuses before it asks the network
    real = socket.getaddrinfo

    def resolve(host: object, *rest: object, **more: object) -> object:
        if host in ("nobody.onion", b"nobody.onion"):
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return real(host, *rest, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    closed = f"http://127.0.0.1:{unused_tcp_port}"
    for base, proxy, words in (
        ("http://nobody.onion/search", None, "ENOTFOUND"),
        (f"{closed}/search", None, "ECONNREFUSED"),
        ("http://nobody.onion/search", guarded(closed, password=PROXY_PASSWORD), "proxy: ECONNREFUSED"),
        ("https://nobody.onion/search", guarded(closed, password=PROXY_PASSWORD), "proxy: ECONNREFUSED"),
        ("https://nobody.onion/search", guarded("http://nobody.onion:8080"), "proxy: ENOTFOUND"),
    ):
        async with asking(name, guarded(base), **({"proxy": proxy} if proxy else {})) as ask:
            reply = await ask()
            check_secret(reply)
            assert (reply.outcome, reply.detail) == (Outcome.NETWORK, words)


@pytest.mark.parametrize("name", FACES)
async def test_no_secret_is_told_by_a_proxy_that_refuses_us(played: Played, name: str) -> None:
    proxy = guarded(played.url, password=PROXY_PASSWORD)
    async with asking(name, guarded("https://nobody.onion/search"), proxy=proxy) as ask:
        reply = await ask()
        check_secret(reply)
        assert reply.outcome is Outcome.NETWORK


@pytest.mark.parametrize(
    "key", ["canary-key-5fb1e0\n", "canary-key-5fb1e0\r\nx: y", "canary-key-5fb1e0 é密", "\x00canary-key-5fb1e0"]
)
@pytest.mark.parametrize("name", FACES)
async def test_a_key_that_no_header_can_hold_is_a_setup_fault_and_is_not_told(
    played: Played, name: str, key: str
) -> None:
    provider, _ = face(name, played.address(name))
    if provider.keys_are_addresses:
        key = f"{played.address(name)}/{key}"
    try:
        draft = provider.draft(QUERY, key)
        reply = draft if isinstance(draft, Reply) else await provider.send(draft, 5)
    finally:
        await provider.aclose()
    check_secret(reply)
    if provider.credential and not provider.keys_are_addresses:
        assert (reply.outcome, reply.setup, played.count()) == (Outcome.REQUEST_ERROR, True, 0)
