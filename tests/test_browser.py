"""The browser-like client over real sockets: what it sends, how it fails, what it leaves behind."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import struct
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import anyio
import httpx2
import pytest
import trustme

from providers import Draft, Outcome, Reply, Settings, Wire
from providers._browser import MAX_ATTRIBUTES, MAX_DEPTH, MAX_ELEMENTS, BrowserConnections, BrowserProvider, read_page
from providers._transport import MAX_BODY, Carrier, Connections
from providers._wire import Unreadable

pytestmark = pytest.mark.anyio

Handler = Callable[[bytes, asyncio.StreamWriter], Awaitable[None]]
GONE = b"gone"
WHOLE = b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 2\r\n\r\nhi"


@contextlib.asynccontextmanager
async def serving(handler: Handler, tls: ssl.SSLContext | None = None) -> AsyncIterator[tuple[str, list[bytes]]]:
    """A server on loopback that gives every request's head to `handler`: its address, and the heads it has seen.

    A connection that the client gave up adds `GONE`.
    """
    heads: list[bytes] = []
    serving: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        serving.add(task)
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
                await reader.readexactly(int(length[0].partition(b":")[2]) if length else 0)
                heads.append(head)
                await handler(head, writer)
                await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            heads.append(GONE)
        except asyncio.CancelledError:
            writer.transport.abort()
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()
            serving.discard(task)

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls)
    try:
        yield f"http{'s' if tls else ''}://127.0.0.1:{server.sockets[0].getsockname()[1]}", heads
    finally:
        server.close()
        left = list(serving)
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)


async def until(heads: list[bytes], wanted: Callable[[bytes], bool]) -> None:
    """Wait until the server has seen it."""
    with anyio.fail_after(5):
        while not any(wanted(head) for head in heads):
            await anyio.lowlevel.checkpoint()


def saying(reply: bytes, *, then_close: bool = False) -> Handler:
    async def handle(head: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(reply)
        if then_close:
            await writer.drain()
            writer.close()

    return handle


async def silent(head: bytes, writer: asyncio.StreamWriter) -> None:
    await asyncio.Event().wait()


async def resetting(head: bytes, writer: asyncio.StreamWriter) -> None:
    writer.get_extra_info("socket").setsockopt(1, 13, struct.pack("ii", 1, 0))  # SO_LINGER 0: close by RST
    writer.transport.abort()


async def dripping(head: bytes, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n")
    while not writer.is_closing():
        writer.write(b".")
        await asyncio.sleep(0.01)


@contextlib.asynccontextmanager
async def browser(**settings: str) -> AsyncIterator[BrowserProvider]:
    provider = BrowserProvider(Settings(**settings), clock=lambda: 0.0)
    try:
        yield provider
    finally:
        await provider.aclose()


def asked(url: str, **headers: str) -> httpx2.Request:
    return httpx2.Request("POST", url, headers=headers, data={"q": "moss"})


async def exchanged(url: str, handler: Handler, **settings: str) -> Wire | Reply:
    async with serving(handler) as (base, _), browser(**settings) as provider:
        return await provider.exchange(asked(url.format(base=base)))


async def failed(handler: Handler) -> tuple[Outcome, str]:
    reply = await exchanged("{base}/", handler)
    assert isinstance(reply, Reply)
    return reply.outcome, reply.detail


async def test_a_request_looks_like_a_browsers_and_carries_what_the_adapter_added() -> None:
    async with serving(saying(WHOLE)) as (base, heads), browser() as provider:
        headers = {"Referer": "https://moss.example/", "Sec-Fetch-Site": "same-origin", "User-Agent": "gateway"}
        wire = await provider.exchange(asked(f"{base}/html/?a=%20b", **headers))
    assert isinstance(wire, Wire)
    assert (wire.status, wire.body, wire.headers["content-type"]) == (200, b"hi", "text/html")
    first, *lines = heads[0].decode().split("\r\n")
    sent = {line.partition(": ")[0].lower(): line.partition(": ")[2] for line in lines if line}
    assert first == "POST /html/?a=%20b HTTP/1.1"
    assert "Chrome/" in sent["user-agent"]
    assert sent["sec-fetch-site"] == "same-origin"
    assert sent["referer"] == "https://moss.example/"
    assert sent["content-type"] == "application/x-www-form-urlencoded"
    assert "upgrade" not in sent
    assert len(sent) == len([line for line in lines if line])


@pytest.mark.parametrize(
    ("handler", "outcome", "detail"),
    [
        (resetting, Outcome.NETWORK, "ECONNRESET"),
        (saying(b"", then_close=True), Outcome.NETWORK, "connection closed before the reply was whole"),
        (saying(WHOLE[:-1], then_close=True), Outcome.NETWORK, "connection closed before the reply was whole"),
        (saying(b"SSH-2.0-OpenSSH_9\r\n", then_close=True), Outcome.SERVER_ERROR, "reply is not HTTP"),
        (
            saying(b"HTTP/1.1 200 OK\r\n folded: first\r\n\r\n", then_close=True),
            Outcome.SERVER_ERROR,
            "reply is not HTTP",
        ),
        (saying(b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n"), Outcome.SERVER_ERROR, "reply is not HTTP"),
        (
            saying(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\nhi"),
            Outcome.SERVER_ERROR,
            "reply is not HTTP",
        ),
        (
            saying(b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 2\r\n\r\nhi"),
            Outcome.SERVER_ERROR,
            "reply cannot be decompressed",
        ),
    ],
)
async def test_a_failed_exchange_has_its_own_meaning(handler: Handler, outcome: Outcome, detail: str) -> None:
    assert await failed(handler) == (outcome, detail)


async def test_nobody_listening_is_a_refused_connection(unused_tcp_port: int) -> None:
    reply = await exchanged(f"http://127.0.0.1:{unused_tcp_port}/", silent)
    assert isinstance(reply, Reply)
    assert (reply.outcome, reply.detail) == (Outcome.NETWORK, "ECONNREFUSED")


async def test_a_name_that_nobody_knows_is_not_found() -> None:
    reply = await exchanged("http://nobody.onion/", silent)  # curl itself refuses such names (RFC 7686)
    assert isinstance(reply, Reply)
    assert (reply.outcome, reply.detail) == (Outcome.NETWORK, "ENOTFOUND")


async def test_a_request_whose_connection_is_reset_is_not_sent_again() -> None:
    replies = [WHOLE]

    async def handle(head: bytes, writer: asyncio.StreamWriter) -> None:
        if replies:
            writer.write(replies.pop())
        else:
            await resetting(head, writer)

    async with serving(handle) as (base, heads), browser() as provider:
        assert isinstance(await provider.exchange(asked(base)), Wire)
        assert isinstance(await provider.exchange(asked(base)), Reply)
    assert len([head for head in heads if head != GONE]) == 2


async def test_a_body_beyond_the_cap_is_a_server_error_and_one_at_the_cap_is_read() -> None:
    def sized(length: int) -> Handler:
        return saying(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % length + b"." * length)

    wire = await exchanged("{base}/", sized(MAX_BODY))
    assert isinstance(wire, Wire)
    assert len(wire.body) == MAX_BODY
    assert await failed(sized(MAX_BODY + 1)) == (Outcome.SERVER_ERROR, "reply over 2 MiB")


async def test_a_redirect_is_handed_over_and_not_followed() -> None:
    async with serving(saying(WHOLE)) as (elsewhere, visits):
        moved = f"HTTP/1.1 302 Found\r\nlocation: {elsewhere}/\r\ncontent-length: 0\r\n\r\n".encode()
        wire = await exchanged("{base}/", saying(moved))
    assert isinstance(wire, Wire)
    assert wire.status == 302
    assert visits == []


async def test_no_cookie_is_kept_for_the_next_search() -> None:
    reply = b"HTTP/1.1 200 OK\r\nset-cookie: track=1; Path=/\r\ncontent-length: 0\r\n\r\n"
    async with serving(saying(reply)) as (base, heads), browser() as provider:
        for _ in range(2):
            await provider.exchange(asked(base))
    assert not any(b"cookie" in head.lower() for head in heads)


@pytest.mark.parametrize("handler", [silent, dripping])
async def test_a_limit_ends_the_transfer_and_leaves_nothing_running(handler: Handler) -> None:
    async with serving(handler) as (base, _), browser() as provider:
        provider.open()
        await provider.send(Draft(asked(f"{base}/")), 0.05)
        before = asyncio.all_tasks()
        started = time.perf_counter()
        reply = await provider.send(Draft(asked(f"{base}/")), 0.1)
        assert time.perf_counter() - started < 2
        assert (reply.outcome, reply.cut) == (Outcome.TIMEOUT, True)
        left = [task for task in asyncio.all_tasks() - before if "serve" not in repr(task)]
        assert left == []
    assert isinstance(await exchanged("{base}/", saying(WHOLE)), Wire)


async def test_a_cancelled_caller_closes_its_connection() -> None:
    async with (
        serving(saying(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhi")) as (base, heads),
        browser() as provider,
    ):
        async with anyio.create_task_group() as group:
            group.start_soon(provider.exchange, asked(f"{base}/"))
            await until(heads, lambda head: head != GONE)
            group.cancel_scope.cancel()
        await until(heads, lambda head: head == GONE)


async def test_many_transfers_at_once_do_not_wait_for_each_other() -> None:
    arrived: list[bytes] = []
    everyone = asyncio.Event()

    async def handle(head: bytes, writer: asyncio.StreamWriter) -> None:
        arrived.append(head)
        if len(arrived) == 60:
            everyone.set()
        await everyone.wait()
        writer.write(WHOLE)

    async with serving(handle) as (base, _), browser() as provider:
        with anyio.fail_after(10):
            replies = await asyncio.gather(*(provider.exchange(asked(f"{base}/")) for _ in range(60)))
    assert all(isinstance(reply, Wire) for reply in replies)


async def test_closing_under_a_transfer_ends_it_as_a_network_failure() -> None:
    async with serving(silent) as (base, heads), browser() as provider:
        under_way = asyncio.create_task(provider.exchange(asked(f"{base}/")))
        await until(heads, bool)
        await provider.aclose()
        reply = await under_way
    assert isinstance(reply, Reply)
    assert reply.outcome is Outcome.NETWORK


@pytest.mark.parametrize(
    ("url", "header"), [("{base}/", "a\r\nx-forged: 1"), ("{base}/", "\x00"), ("ftp://moss.example/", "a")]
)
async def test_what_cannot_be_sent_is_a_setup_fault(url: str, header: str) -> None:
    async with serving(saying(WHOLE)) as (base, heads), browser() as provider:
        reply = await provider.exchange(asked(url.format(base=base), **{"X-Given": header}))
    assert isinstance(reply, Reply)
    assert (reply.outcome, reply.setup) == (Outcome.REQUEST_ERROR, True)
    assert heads == []


async def test_a_proxy_is_used_and_its_password_is_never_told(unused_tcp_port: int) -> None:
    async with serving(saying(WHOLE)) as (base, heads):
        address = base.replace("//", "//someone:canary-77@")
        async with browser(proxy=address) as provider:
            assert isinstance(await provider.exchange(asked("http://moss.example/html/")), Wire)
        assert heads[0].startswith(b"POST http://moss.example/html/ HTTP/1.1\r\n")
        for proxy in (address.replace("http", "nope"), f"http://someone:canary-77@127.0.0.1:{unused_tcp_port}"):
            async with browser(proxy=proxy) as provider:
                reply = await provider.send(Draft(asked("https://moss.example/")), 5)
            assert reply.outcome is Outcome.NETWORK
            assert "canary" not in repr(reply)


@pytest.mark.parametrize("carrier", [Connections, BrowserConnections])
async def test_a_proxy_is_blamed_for_the_way_to_it_and_not_for_what_lies_beyond(
    carrier: type[Carrier], unused_tcp_port: int
) -> None:
    async def told(proxy: str) -> tuple[Outcome, str]:
        connections = carrier(proxy, lambda: 0.0)
        try:
            reply = await connections.exchange(asked("https://moss.example/"))
        finally:
            await connections.aclose()
        assert isinstance(reply, Reply)
        return reply.outcome, reply.detail

    assert await told(f"http://127.0.0.1:{unused_tcp_port}") == (Outcome.NETWORK, "proxy: ECONNREFUSED")
    async with serving(saying(b"HTTP/1.1 407 Who\r\ncontent-length: 0\r\n\r\n")) as (proxy, _):
        assert await told(proxy) == (Outcome.NETWORK, "proxy: http_407")
    async with serving(saying(b"HTTP/1.1 200 OK\r\n\r\n", then_close=True)) as (proxy, _):
        outcome, detail = await told(proxy)
        assert (outcome, detail.partition(" ")[0]) == (Outcome.NETWORK, "TLS")


async def test_an_unknown_authority_is_refused_and_a_configured_one_joins_the_public_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    monkeypatch.delenv("SSL_CERT_DIR", raising=False)
    (temporary := tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    async with serving(saying(WHOLE), context) as (base, _):
        async with browser() as provider:
            reply = await provider.exchange(asked(base))
        assert isinstance(reply, Reply)
        assert (reply.outcome, reply.detail) == (
            Outcome.NETWORK,
            "certificate unable to get local issuer certificate",
        )
        authority.cert_pem.write_to_path(str(tmp_path / "own.pem"))
        for variable, told in (("SSL_CERT_FILE", tmp_path / "own.pem"), ("SSL_CERT_DIR", tmp_path)):
            with monkeypatch.context() as patch:
                patch.setenv(variable, str(told))
                async with browser() as provider:
                    assert isinstance(await provider.exchange(asked(base)), Wire)
                    (joined,) = temporary.iterdir()
                    trusted = joined.read_bytes()
                assert trusted.endswith(authority.cert_pem.bytes() + b"\n")
                assert trusted.count(b"BEGIN CERTIFICATE") > 50
                assert [*temporary.iterdir()] == []


async def test_authorities_that_cannot_be_joined_to_the_public_ones_fail_the_search_and_not_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trustme.CA().cert_pem.write_to_path(str(tmp_path / "own.pem"))
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "own.pem"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    async with serving(saying(WHOLE)) as (base, heads), browser() as provider:
        provider.open()
        reply = await provider.exchange(asked(base))
        assert isinstance(reply, Reply)
        assert (reply.outcome, reply.detail) == (Outcome.NETWORK, "certificate store cannot be read")
        assert heads == []
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
        assert isinstance(await provider.exchange(asked(base)), Wire)


def test_a_page_that_only_keeps_the_parser_busy_is_not_parsed() -> None:
    for unit in ("<div>", "<div></p>", "<DIV x='y'>", "<b><i></b>"):
        with pytest.raises(Unreadable):
            read_page(unit * (MAX_DEPTH + 1))
    page = read_page("<ul>" + "<li><p>moss<br>" * 10_000 + "</ul>" + "<div></div>" * 10_000)
    assert len(page.css("li")) == 10_000
    with pytest.raises(Unreadable):
        read_page("<div></div>" * (MAX_ELEMENTS + 1))


@pytest.mark.parametrize("unit", [" a{}", " a{}=1", "/a{}", ' a{}=">"', ' a{}="<b"', "a{}='x'", "\na{}=&"])
@pytest.mark.parametrize("before", ["", '<!-- <i b=" -->', "<p title='x > y'>moss</p>", "<script>'<a b=\"'</script>"])
def test_an_element_with_too_many_attributes_is_not_parsed(before: str, unit: str) -> None:
    def page(count: int) -> str:
        return f"{before}<div {''.join(unit.format(n) for n in range(count))}>moss</div>"

    assert read_page(page(MAX_ATTRIBUTES - 50)).css_first("div") is not None
    if not (before.count('"') % 2 and "<" in unit):  # nobody can tell what an open quotation mark before it hides
        with pytest.raises(Unreadable):
            read_page(page(MAX_ATTRIBUTES + 50))


def test_what_is_written_between_elements_is_no_attribute() -> None:
    words = " ".join(f"moss {n}=1" for n in range(3_000))
    page = read_page(f'<p>{words}</p><script>if (a <b && c) {{ {words} }}</script><p title="{words}">end</p>')
    assert len(page.css("p")) == 2
