"""`login` and `logout`: what the browser is sent to, what it brings back, and everything that may come instead."""

from __future__ import annotations

import asyncio
import stat
import time
import webbrowser
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import anyio
import httpx2
import pytest

from gateway import cli, login
from gateway.callback import HEAD_S, LoginFailed
from providers import find
from providers._login import _grant
from providers._transport import Connections
from providers.grok import ACCOUNT
from tests.authority import PlayedAuthority, jwt
from tests.processes import command, logging_undone
from tests.vendors import RESET, Play, json_play, page_play

pytestmark = pytest.mark.anyio


@pytest.fixture
async def authority(anyio_backend: str) -> AsyncIterator[PlayedAuthority]:
    async with PlayedAuthority(time.time()) as authority:
        yield authority


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "state" / "accounts" / "grok.json"


class Attempt:
    """A login that is under way, and somebody at the browser."""

    def __init__(self, authority: PlayedAuthority, file: Path, said: list[str]) -> None:
        self.authority = authority
        self.file = file
        self.said = said
        self.failed: str | None = None
        self._address = anyio.Event()

    def show(self, address: str) -> bool:
        self.address = address
        anyio.from_thread.run_sync(self._address.set)
        return True

    async def run(self, limit_s: float, port: int | None) -> None:
        carrier = Connections(None, time.time)
        try:
            await login.log_in(
                self.authority.facts, self.file, carrier, self.said.append, self.show, port=port, limit_s=limit_s
            )
        except LoginFailed as why:
            self.failed = str(why)
        finally:
            await carrier.aclose()

    @property
    def asked(self) -> dict[str, str]:
        """What the browser is sent to the authority with."""
        return {name: values[0] for name, values in parse_qs(urlsplit(self.address).query).items()}

    async def shown(self) -> None:
        with anyio.fail_after(10):
            await self._address.wait()

    async def get(self, address: str, method: str = "GET") -> httpx2.Response:
        async with httpx2.AsyncClient(trust_env=False, follow_redirects=True) as browser:
            return await browser.request(method, address)

    async def back(self, **fields: str) -> httpx2.Response:
        """Come back with `fields`."""
        return await self.get(f"{self.asked['redirect_uri']}?{urlencode(fields)}")


@asynccontextmanager
async def attempt(
    authority: PlayedAuthority, file: Path, *, limit_s: float = 10, port: int | None = None
) -> AsyncIterator[Attempt]:
    """A login that waits for its browser; at the end of the block it has come to something."""
    one = Attempt(authority, file, [])
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(one.run, limit_s, port)
        await one.shown()
        yield one


async def failure(authority: PlayedAuthority, file: Path, **how: Any) -> str:
    """Why a login fails for which nobody has to go to a browser."""
    one = Attempt(authority, file, [])
    await one.run(how.pop("limit_s", 10), how.pop("port", None))
    assert one.failed is not None
    return one.failed


# ---------------------------------------------------------------------------------------------------------------------
# as it should be


async def test_whoever_agrees_in_the_browser_is_logged_in(authority: PlayedAuthority, file: Path) -> None:
    async with attempt(authority, file) as one:
        page = await one.get(one.address)
        assert (page.status_code, page.text.startswith("The answer has arrived.")) == (200, True)
        assert page.headers["cache-control"] == "no-store"
    assert one.failed is None
    grant = _grant.read(file)
    assert grant is not None
    assert grant.access_token in authority.access_tokens
    assert grant.refresh_token in authority.refresh_tokens
    assert (grant.issuer, grant.token_endpoint) == (authority.url, f"{authority.url}/token")
    assert (grant.client_id, grant.revocation_endpoint) == (ACCOUNT.client_id, f"{authority.url}/revoke")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert "who@example.com" not in file.read_text()
    assert grant.key != authority.grant().key


async def test_the_browser_is_sent_with_everything_that_ties_the_answer_to_this_login(
    authority: PlayedAuthority, file: Path
) -> None:
    async with attempt(authority, file) as one, attempt(authority, file) as other:
        await one.get(one.address)
        await other.get(other.address)
    asked = one.asked
    fixed = {name: value for name, value in asked.items() if value != other.asked[name]}
    assert fixed.keys() == {"state", "nonce", "code_challenge", "redirect_uri"}
    assert min(len(asked[name]) for name in ("state", "nonce", "code_challenge")) >= 43
    assert {name: value for name, value in asked.items() if name not in fixed} == {
        "response_type": "code",
        "client_id": ACCOUNT.client_id,
        "scope": "openid profile email offline_access grok-cli:access api:access",
        "code_challenge_method": "S256",
        "plan": "generic",
        "referrer": "websearch-gateway",
    }
    back = urlsplit(asked["redirect_uri"])
    assert (back.scheme, back.hostname, back.path) == ("http", "127.0.0.1", "/callback")
    verifier = authority.posted()[0]["code_verifier"]
    said = "\n".join(one.said)
    assert one.address in said
    assert not [word for word in (verifier, authority.posted()[0]["code"], *authority.refresh_tokens) if word in said]


def test_the_vendors_own_facts_are_the_ones_that_are_known() -> None:
    authority = find("grok").authority
    assert authority is not None
    assert (authority.issuer, authority.port, authority.path) == ("https://auth.x.ai", 56121, "/callback")
    assert authority.client_id == "b1a00492-073a-47ea-816f-4c329264a828"
    assert "may break xAI's terms" in authority.terms
    assert "end each other's" in authority.terms


async def test_a_new_login_takes_the_place_of_the_former(authority: PlayedAuthority, file: Path) -> None:
    with _grant.locked(file, 5):
        _grant.write(file, former := authority.grant())
    async with attempt(authority, file) as one:
        await one.get(one.address)
    grant = _grant.read(file)
    assert grant is not None
    assert grant.key != former.key


async def test_an_authority_without_id_tokens_or_a_place_to_revoke_will_do(
    authority: PlayedAuthority, file: Path
) -> None:
    authority.id_token = None
    doors = {"authorization_endpoint": f"{authority.url}/authorize", "token_endpoint": f"{authority.url}/token"}
    authority.scripted["discovery"].append(json_play(doors | {"revocation_endpoint": "https://other.example/revoke"}))
    async with attempt(authority, file) as one:
        await one.get(one.address)
    grant = _grant.read(file)
    assert grant is not None
    assert grant.revocation_endpoint is None


# ---------------------------------------------------------------------------------------------------------------------
# what comes back instead


async def test_an_answer_to_another_login_is_told_so_and_this_one_goes_on(
    authority: PlayedAuthority, file: Path
) -> None:
    async with attempt(authority, file) as one:
        for fields in ({"code": "c", "state": "wrong"}, {"code": "c"}, {"error": "access_denied", "state": "Wr€ng"}):
            page = await one.back(**fields)
            assert (page.status_code, page.text.startswith("This answer belongs to another login.")) == (400, True)
        twice = f"{one.asked['redirect_uri']}?code=c&state={one.asked['state']}&state=x"
        assert (await one.get(twice)).status_code == 400
        await one.get(one.address)
    assert one.failed is None
    assert sum("its state is not ours" in line for line in one.said) == 4


async def test_whatever_else_asks_is_told_that_nothing_is_here(authority: PlayedAuthority, file: Path) -> None:
    async with attempt(authority, file) as one:
        at = one.asked["redirect_uri"].removesuffix("/callback")
        good = urlencode({"code": "c", "state": one.asked["state"]})
        for path in ("/favicon.ico", f"/?{good}", f"/callback/?{good}", f"/Callback?{good}"):
            page = await one.get(f"{at}{path}")
            assert (page.status_code, page.text) == (404, "Nothing is here; logins come back to /callback.\n")
        assert (await one.get(f"{at}/callback?{good}", "POST")).status_code == 405
        assert (await one.get(f"{at}/callback?{'&'.join(['a=1'] * 40)}")).status_code == 400
        await one.get(one.address)
    assert one.failed is None


async def test_a_refusal_ends_it_in_the_vendors_words(authority: PlayedAuthority, file: Path) -> None:
    async with attempt(authority, file) as one:
        page = await one.back(error="access_denied", error_description="not\r\nnow", code="c", state=one.asked["state"])
        assert page.text.startswith("The login was refused.")
    assert one.failed == "the vendor refused: access_denied not now"
    assert not file.exists()


async def test_an_answer_without_a_code_ends_it(authority: PlayedAuthority, file: Path) -> None:
    async with attempt(authority, file) as one:
        assert (await one.back(state=one.asked["state"])).status_code == 400
    assert one.failed == "the answer holds no code"


async def test_a_second_answer_is_not_taken(authority: PlayedAuthority, file: Path) -> None:
    until = asyncio.Event()
    authority.scripted["token"].append(json_play({"access_token": "a", "refresh_token": "r"}, until=until))
    async with attempt(authority, file) as one:
        await one.back(code="first", state=one.asked["state"])
        page = await one.back(code="second", state=one.asked["state"])
        assert (page.status_code, page.text) == (
            409,
            "This login has had its answer already. You can close this page.\n",
        )
        until.set()
    assert one.failed is None
    assert [each["code"] for each in authority.posted()] == ["first"]


async def test_clients_that_say_nothing_or_too_much_keep_nobody_waiting(authority: PlayedAuthority, file: Path) -> None:
    async with attempt(authority, file) as one:
        port = urlsplit(one.asked["redirect_uri"]).port
        assert port is not None
        silent = [await anyio.connect_tcp("127.0.0.1", port) for _ in range(5)]
        await silent[0].send(b"GET /callback?code=c&state=")
        await silent[1].send(b"x" * 100_000)
        with pytest.raises((anyio.EndOfStream, anyio.BrokenResourceError)):
            await silent[1].receive()
        await silent[2].send(b"\x16\x03\x01\r\n\r\n")
        assert (await silent[2].receive()).startswith(b"HTTP/1.1 405 ")
        await one.get(one.address)
    assert one.failed is None
    with pytest.raises((anyio.EndOfStream, anyio.BrokenResourceError)):
        await silent[3].receive()
    for stream in silent:
        await stream.aclose()
    assert HEAD_S < login.WAIT_S == 180


async def test_nobody_who_comes_back_is_waited_for_as_long_as_was_said(authority: PlayedAuthority, file: Path) -> None:
    assert await failure(authority, file, limit_s=0.05) == "nobody came back from the browser within 0.05 s"
    assert not file.exists()


async def test_a_port_in_use_is_told_before_anybody_is_asked(authority: PlayedAuthority, file: Path) -> None:
    port = urlsplit(authority.url).port
    words = await failure(authority, file, port=port)
    assert words == f"port {port} is in use, perhaps by another login: end that one, or choose a --port"
    assert authority.asked == []


async def test_only_this_machine_can_reach_the_way_back(
    authority: PlayedAuthority, file: Path, monkeypatch: Any
) -> None:
    bound: list[Any] = []
    start = asyncio.start_server

    async def watched(*arguments: Any, **how: Any) -> asyncio.Server:
        server = await start(*arguments, **how)
        bound.extend(socket.getsockname()[0] for socket in server.sockets)
        return server

    monkeypatch.setattr(asyncio, "start_server", watched)
    async with attempt(authority, file) as one:
        await one.get(one.address)
    assert bound == ["127.0.0.1"]


# ---------------------------------------------------------------------------------------------------------------------
# the authority


def discovery(**changes: object) -> Callable[[PlayedAuthority], Play]:
    def play(authority: PlayedAuthority) -> Play:
        doors = {f"{name}_endpoint": f"{authority.url}/{name}" for name in ("authorization", "token")}
        told = {name: str(value).format(authority.url) if value else value for name, value in changes.items()}
        return json_play(doors | told)

    return play


ELSEWHERE = "discovery: the authorization and token endpoints are not both at the issuer's own address"


@pytest.mark.parametrize(
    ("play", "words"),
    [
        (discovery(token_endpoint="https://evil.example/token"), ELSEWHERE),
        (discovery(token_endpoint="{}.evil.example/token"), ELSEWHERE),
        (discovery(token_endpoint="{}0/token"), ELSEWHERE),
        (discovery(authorization_endpoint="http://x@127.0.0.1/authorize"), ELSEWHERE),
        (discovery(authorization_endpoint=None), ELSEWHERE),
        (json_play({}, 503), "discovery: http_503"),
        (page_play(), "discovery: unreadable reply"),
        (json_play([]), "discovery: unreadable reply"),
        (RESET, "discovery: ECONNRESET"),
    ],
)
async def test_an_issuer_that_names_no_doors_of_its_own_gets_nobody(
    play: Any, words: str, authority: PlayedAuthority, file: Path
) -> None:
    authority.scripted["discovery"].append(play(authority) if callable(play) else play)
    assert await failure(authority, file) == words
    assert len(authority.asked) == 1


TOKENS = {"access_token": "access-token-1", "refresh_token": "refresh-token-1"}


@pytest.mark.parametrize(
    ("play", "words"),
    [
        (json_play({"error": "invalid_grant"}, 400), "token exchange: http_400 invalid_grant"),
        (
            json_play({"error": "access_denied", "error_description": "no plan"}, 403),
            "token exchange: http_403 access_denied no plan (this account's plan or tier may not use the API with a "
            "login; an API key may)",
        ),
        (json_play({"access_token": "a"}), "token exchange: no refresh token in the reply"),
        (json_play({"refresh_token": "r"}), "token exchange: no access token in the reply"),
        (json_play(TOKENS | {"id_token": "x"}), "token exchange: the ID token belongs to another login"),
        (json_play(TOKENS | {"id_token": 7}), "token exchange: the ID token belongs to another login"),
        (
            json_play(TOKENS | {"id_token": jwt(nonce="another")}),
            "token exchange: the ID token belongs to another login",
        ),
        (json_play(TOKENS | {"id_token": jwt(sub="x")}), "token exchange: the ID token belongs to another login"),
        (page_play(), "token exchange: unreadable reply"),
    ],
)
async def test_a_code_that_gets_no_tokens_leaves_no_login(
    play: Play, words: str, authority: PlayedAuthority, file: Path
) -> None:
    authority.scripted["token"].append(play)
    async with attempt(authority, file) as one:
        await one.get(one.address)
    assert one.failed == words
    assert not file.exists()


async def test_a_code_and_its_verifier_that_are_repeated_are_not_shown(authority: PlayedAuthority, file: Path) -> None:
    def repeat(request: Any) -> Play:
        return json_play({"error": "invalid_request", "error_description": request.body.decode()}, 400)

    authority.scripted["token"].append(repeat)
    async with attempt(authority, file) as one:
        await one.get(one.address)
    told = authority.posted()[0]
    assert one.failed is not None
    assert "***" in one.failed
    assert told["code"] not in one.failed
    assert told["code_verifier"][:12] not in one.failed


async def test_nobody_is_sent_to_a_browser_for_a_login_that_cannot_be_kept(
    authority: PlayedAuthority, file: Path
) -> None:
    file.parent.parent.write_text("a file where the folder should be")
    assert (await failure(authority, file)).startswith(f"{file} cannot be written: ")
    assert authority.asked == []


# ---------------------------------------------------------------------------------------------------------------------
# logout


NOT_BACK = "The vendor has not taken its tokens back: {}. Your account's page there can end the session."


async def log_out(file: Path) -> tuple[bool, list[str]]:
    said: list[str] = []
    carrier = Connections(None, time.time)
    try:
        return await login.log_out(file, carrier, said.append), said
    finally:
        await carrier.aclose()


@pytest.mark.parametrize(
    ("play", "words"),
    [
        (None, "The vendor has taken its tokens back."),
        (json_play({"error": "invalid_request"}, 400), NOT_BACK.format("revocation: http_400 invalid_request")),
        (page_play(status=503), NOT_BACK.format("revocation: http_503")),
        (RESET, NOT_BACK.format("ECONNRESET")),
    ],
)
async def test_logout_forgets_first_and_then_has_the_vendor_forget(
    play: Play | None, words: str, authority: PlayedAuthority, file: Path
) -> None:
    grant = authority.grant()
    with _grant.locked(file, 5):
        _grant.write(file, grant)
    file.with_suffix(".new").write_text("of one who was killed")
    authority.scripted["revoke"].extend([play] if play else [])
    assert await log_out(file) == (True, [f"{file} is gone.", words])
    assert [each.name for each in file.parent.iterdir()] == ["grok.lock"]
    assert authority.posted("revoke") == [
        {"token": grant.refresh_token, "token_type_hint": "refresh_token", "client_id": grant.client_id}
    ]
    assert await log_out(file) == (False, [])


async def test_logout_of_what_the_vendor_has_no_place_for_says_so(authority: PlayedAuthority, file: Path) -> None:
    with _grant.locked(file, 5):
        _grant.write(file, authority.grant(revocation_endpoint=None))
    _, said = await log_out(file)
    assert said[1] == NOT_BACK.format("the vendor names no address for that")
    assert authority.asked == []


async def test_logout_takes_away_a_file_that_holds_no_login(file: Path) -> None:
    file.parent.mkdir(parents=True)
    file.write_text("something else")
    assert await log_out(file) == (True, [f"{file} is gone.", "It held no login that could be taken back."])


# ---------------------------------------------------------------------------------------------------------------------
# the commands


async def test_the_command_warns_first_and_says_what_came_of_it(tmp_path: Path, unused_tcp_port: int) -> None:
    # a proxy that nobody listens at: this must not reach xAI
    proxy = f"http://127.0.0.1:{unused_tcp_port}"
    ended = await command(tmp_path, "login", "grok", "--no-browser", "--port", "0", HTTPS_PROXY=proxy)
    assert (ended.code, ended.out) == (3, "")
    warning, _, failed = ended.err.partition("\n\n")
    assert warning == f"warning: {ACCOUNT.terms}"
    assert failed == "websearch-gateway: not logged in:\n  discovery: proxy: ECONNREFUSED\n"


async def test_the_commands_from_the_browser_to_the_end(
    authority: PlayedAuthority, file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def agree(address: str) -> bool:
        return httpx2.get(address, follow_redirects=True, trust_env=False).status_code == 200

    monkeypatch.setattr(find("grok"), "authority", authority.facts)
    monkeypatch.setattr(login, "_browse", agree)
    for name, value in {"STATE": str(file.parent.parent), "PROVIDERS": "duckduckgo"}.items():
        monkeypatch.setenv(f"WEBSEARCH_{name}", value)
    monkeypatch.setenv("HOME", str(file.parent.parent.parent))

    async def run(*arguments: str) -> tuple[int, list[str]]:
        with logging_undone():
            code = await anyio.to_thread.run_sync(cli.run, arguments)
        return code, capsys.readouterr().out.splitlines()

    code, said = await run("login", "grok", "--port", "0")
    assert (code, said[-2:]) == (
        0,
        [
            f"Logged in; {file} holds it. A gateway that runs takes it up after a reload (SIGHUP) or a restart.",
            "grok is not in the chain: add it to WEBSEARCH_PROVIDERS, or to providers in the file.",
        ],
    )
    assert await run("logout", "grok") == (0, [f"{file} is gone.", "The vendor has taken its tokens back."])
    assert authority.refresh_tokens == set()
    assert await run("logout", "grok") == (1, [f"Nobody is logged in: there is no {file}."])


@pytest.mark.parametrize("what", ["login", "logout"])
def test_a_provider_that_takes_no_logins_is_wrong_usage(what: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run([what, "brave"]) == 2
    assert capsys.readouterr().err == ("websearch-gateway: no login is known for 'brave':\n  there is one for: grok\n")


@pytest.mark.parametrize(
    ("browser", "opened"), [(webbrowser.BackgroundBrowser("true"), True), (webbrowser.GenericBrowser("true"), False)]
)
def test_a_browser_that_would_take_the_terminal_is_not_opened(
    browser: webbrowser.BaseBrowser, opened: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webbrowser, "get", lambda: browser)
    monkeypatch.setattr(type(browser), "open", lambda self, url: True)
    assert login._browse("https://auth.example") is opened


def test_without_any_browser_the_address_has_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> None:
        raise webbrowser.Error

    monkeypatch.setattr(webbrowser, "get", none)
    assert login._browse("https://auth.example") is False
