"""A login with an account in use: which tokens go out, one refresh for everybody, and the file they lie in."""

from __future__ import annotations

import asyncio
import json
import os
import re
import stat
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from gateway import accounts, doctor
from gateway.config import Config, load
from gateway.gateway import Gateway
from gateway.showing import show
from providers import Draft, Outcome, Query, Reply, Settings
from providers._login import _grant
from providers._login._grant import Grant, Unusable, is_at
from providers._login._oauth import TIER
from providers._reading import spellings
from providers.grok import Grok
from tests.authority import STALE, PlayedAuthority, jwt
from tests.configured import chain, provider
from tests.processes import ROOT, command, environment
from tests.rooms import ask, came_to, lane, told, used
from tests.vendors import GARBAGE, Play, Played, json_play, page_play, recording

pytestmark = pytest.mark.anyio

AGAIN = "log in again: websearch-gateway login grok"


@pytest.fixture
async def authority(anyio_backend: str) -> AsyncIterator[PlayedAuthority]:
    async with PlayedAuthority(time.time()) as authority:
        yield authority


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "state" / "accounts" / "grok.json"


@pytest.fixture
def open_to_all() -> Iterator[None]:
    """Nothing is taken from the rights that a file is made with."""
    before = os.umask(0)
    yield
    os.umask(before)


def keep(file: Path, grant: Grant) -> Grant:
    with _grant.locked(file, 5):
        _grant.write(file, grant)
    return grant


def kept(file: Path) -> Grant:
    grant = _grant.read(file)
    assert grant is not None
    return grant


@asynccontextmanager
async def grok(played: Played, file: Path) -> AsyncIterator[Grok]:
    one = Grok(Settings(base_url=played.address("grok"), account=file))
    yield one
    await one.aclose()


async def search(grok: Grok, key: str = "login,any", limit_s: float = 10) -> Reply:
    draft = grok.draft(Query("moss"), key)
    assert isinstance(draft, Draft)
    return await grok.send(draft, limit_s)


def sent(played: Played) -> list[str]:
    """The tokens that xAI got."""
    return [request.headers["authorization"].removeprefix("Bearer ") for request in played.requests("grok")]


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


# ---------------------------------------------------------------------------------------------------------------------
# which tokens go out


async def test_a_good_token_goes_out_as_it_is(authority: PlayedAuthority, played: Played, file: Path) -> None:
    grant = keep(file, authority.grant())
    played.script("grok", authority.xai)
    async with grok(played, file) as one:
        assert (await search(one)).outcome is Outcome.OK
    assert sent(played) == [grant.access_token]
    assert authority.asked == []


@pytest.mark.parametrize(
    ("claims", "expires_at", "over"),
    [
        ({"exp": 1000 + 121}, None, False),
        ({"exp": 1000 + 120}, None, True),
        ({"exp": 1000 + 121}, 1000.0, False),  # what the token says itself goes before
        ({"exp": "soon"}, 1000.0, True),
        ({"exp": True}, 1121.0, False),
        ({"exp": float("inf")}, 1120.0, True),
        ({"sub": "x"}, None, False),
        ("opaque", 1121.0, False),
        ("opaque", 1120.0, True),
        ("opaque", None, False),
        ("a.!!!.c", 1120.0, True),
        ("a.W10.c", 1120.0, True),  # a list
    ],
)
def test_a_token_is_renewed_two_minutes_before_its_end(
    claims: dict[str, object] | str, expires_at: float | None, over: bool
) -> None:
    token = claims if isinstance(claims, str) else jwt(**claims)
    grant = Grant("i", "https://a", "c", "https://a/t", token, "r", expires_at)
    assert grant.is_over(1000, _grant.MARGIN_S) is over


async def test_the_new_tokens_are_on_disk_before_they_go_out(
    authority: PlayedAuthority, played: Played, file: Path
) -> None:
    old = keep(file, authority.grant(lasts_s=119))
    on_disk: list[str] = []

    def look(request: Any) -> Play:
        on_disk.append(kept(file).access_token)
        return authority.xai(request)

    played.script("grok", look)
    async with grok(played, file) as one:
        assert (await search(one)).outcome is Outcome.OK
    assert authority.posted() == [
        {"grant_type": "refresh_token", "client_id": old.client_id, "refresh_token": old.refresh_token}
    ]
    assert sent(played) == on_disk != [old.access_token]
    new = kept(file)
    assert new.refresh_token != old.refresh_token
    assert new.key == old.key


async def test_an_old_refresh_token_stays_where_no_new_one_comes(
    authority: PlayedAuthority, played: Played, file: Path
) -> None:
    old = keep(file, authority.grant(lasts_s=0))
    authority.scripted["token"].append(json_play({"access_token": "opaque-and-new", "expires_in": 60}))
    async with grok(played, file) as one:
        assert (await search(one)).outcome is Outcome.OK
    assert (kept(file).access_token, kept(file).refresh_token) == ("opaque-and-new", old.refresh_token)
    assert kept(file).is_over(authority.now + 70)


async def test_a_token_that_xai_does_not_know_any_more_is_renewed_once_and_the_search_sent_again(
    authority: PlayedAuthority, played: Played, file: Path
) -> None:
    grant = keep(file, authority.grant())
    authority.access_tokens.clear()
    played.script("grok", authority.xai)
    async with grok(played, file) as one:
        assert (await search(one)).outcome is Outcome.OK
    assert sent(played) == [grant.access_token, kept(file).access_token]
    assert len(authority.posted()) == 1


async def test_a_new_token_that_is_refused_too_ends_it(authority: PlayedAuthority, played: Played, file: Path) -> None:
    keep(file, authority.grant())
    played.script("grok", json_play(STALE, 403))
    async with grok(played, file) as one:
        reply = await search(one)
    assert (reply.outcome, reply.hint) == (Outcome.AUTH_FAILURE, AGAIN)
    assert (played.count("grok"), len(authority.posted())) == (2, 1)


async def test_a_plan_that_may_not_is_told_so_and_nothing_is_renewed(
    authority: PlayedAuthority, played: Played, file: Path
) -> None:
    keep(file, authority.grant())
    played.script("grok", recording("grok", "oauth_tier_403"))
    async with grok(played, file) as one:
        reply = await search(one)
    assert (reply.outcome, reply.hint) == (Outcome.AUTH_FAILURE, TIER)
    assert (played.count("grok"), authority.asked) == (1, [])


async def test_a_key_beside_the_login_goes_out_as_a_key(authority: PlayedAuthority, played: Played, file: Path) -> None:
    keep(file, authority.grant(lasts_s=0))
    async with grok(played, file) as one:
        assert (await search(one, "xai-key")).outcome is Outcome.OK
    assert (sent(played), authority.asked) == (["xai-key"], [])


async def test_no_piece_of_a_token_that_xai_repeats_is_shown(
    authority: PlayedAuthority, played: Played, file: Path
) -> None:
    old = keep(file, authority.grant(lasts_s=0))
    played.script("grok", Play(400, echo=True))
    async with grok(played, file) as one:
        reply = await search(one)
    assert reply.outcome is Outcome.REQUEST_ERROR
    assert "***" in reply.message
    new = kept(file)
    tokens = (old.access_token, old.refresh_token, new.access_token, new.refresh_token)
    assert not [form for form in spellings(tokens) if form[:8] in repr(reply) or form[-8:] in repr(reply)]
    assert not [token for token in tokens if token in repr(new) + repr(old)]


# ---------------------------------------------------------------------------------------------------------------------
# when there are no new tokens


@pytest.mark.parametrize("play", [json_play({}, 503), json_play({"error": "slow_down"}, 400), GARBAGE])
async def test_a_token_that_is_still_good_is_used_when_its_early_renewal_fails(
    play: Play, authority: PlayedAuthority, played: Played, file: Path
) -> None:
    grant = keep(file, authority.grant(lasts_s=100))
    authority.scripted["token"] += [play, play]
    async with grok(played, file) as one:
        assert [(await search(one)).outcome for _ in range(2)] == [Outcome.OK, Outcome.OK]
    assert (played.count("grok"), len(authority.scripted["token"]), kept(file)) == (2, 1, grant)


@pytest.mark.parametrize(
    ("play", "outcome", "detail", "hint"),
    [
        (json_play({}, 503), Outcome.SERVER_ERROR, "token refresh: http_503", ""),
        (Play(504), Outcome.TIMEOUT, "token refresh: http_504", ""),
        (json_play({}, 429, headers={"retry-after": "7"}), Outcome.RATE_LIMITED, "token refresh: http_429", ""),
        (page_play(), Outcome.SERVER_ERROR, "token refresh: unreadable reply", ""),
        (page_play(status=403), Outcome.SERVER_ERROR, "token refresh: http_403", ""),
        (page_play(status=401), Outcome.SERVER_ERROR, "token refresh: http_401", ""),
        (json_play([1]), Outcome.SERVER_ERROR, "token refresh: unreadable reply", ""),
        (json_play({"access_token": "a b"}), Outcome.SERVER_ERROR, "token refresh: no access token in the reply", ""),
        (json_play({"access_token": 1}), Outcome.SERVER_ERROR, "token refresh: no access token in the reply", ""),
        (
            json_play({"access_token": "a", "token_type": "mac"}),
            Outcome.SERVER_ERROR,
            "token refresh: no access token in the reply",
            "",
        ),
        (GARBAGE, Outcome.SERVER_ERROR, "token refresh: reply is not HTTP", ""),
        *(
            (json_play({"error": code}, 400), Outcome.SERVER_ERROR, f"token refresh: http_400 {code}", "")
            for code in ("temporarily_unavailable", "slow_down", "invalid_request", "server_error")
        ),
        (
            json_play({"error": "access_denied", "error_description": "no active subscription"}, 403),
            Outcome.AUTH_FAILURE,
            "token refresh: http_403 access_denied",
            TIER,
        ),
    ],
)
async def test_what_keeps_the_authority_from_renewing_says_nothing_of_the_login(
    play: Play, outcome: Outcome, detail: str, hint: str, authority: PlayedAuthority, played: Played, file: Path
) -> None:
    grant = keep(file, authority.grant(lasts_s=0))
    authority.scripted["token"].append(play)
    async with grok(played, file) as one:
        reply = await search(one)
        assert (reply.outcome, reply.detail, reply.hint) == (outcome, detail, hint)
        assert reply.retry_after_s == (7 if outcome is Outcome.RATE_LIMITED else None)
        assert (played.count("grok"), kept(file)) == (0, grant)
        assert (await search(one)).outcome is Outcome.OK


async def test_an_authority_that_cannot_be_reached_is_a_fault_of_the_network(
    authority: PlayedAuthority, played: Played, file: Path, unused_tcp_port: int
) -> None:
    nowhere = f"http://127.0.0.1:{unused_tcp_port}"
    keep(file, authority.grant(lasts_s=0, issuer=nowhere, token_endpoint=f"{nowhere}/token", revocation_endpoint=None))
    async with grok(played, file) as one:
        reply = await search(one)
    assert (reply.outcome, reply.detail) == (Outcome.NETWORK, "token refresh: ECONNREFUSED")


async def test_a_refused_login_is_asked_for_once_and_remembered_until_the_next(
    authority: PlayedAuthority, played: Played, file: Path
) -> None:
    keep(file, authority.grant(lasts_s=0))
    authority.refresh_tokens.clear()
    played.script("grok", authority.xai)
    async with grok(played, file) as one, grok(played, file) as other:
        replies = [await search(one), await search(one), await search(other)]
        assert {(reply.outcome, reply.hint) for reply in replies} == {(Outcome.AUTH_FAILURE, AGAIN)}
        assert {reply.detail for reply in replies} == {
            "token refresh: http_400 invalid_grant Refresh token has been revoked"
        }
        assert (len(authority.posted()), played.count("grok")) == (1, 0)
        keep(file, authority.grant())
        assert [(await search(each)).outcome for each in (one, other)] == [Outcome.OK, Outcome.OK]


async def test_a_search_waits_for_new_tokens_no_longer_than_it_may(
    authority: PlayedAuthority, played: Played, file: Path
) -> None:
    keep(file, authority.grant(lasts_s=0))
    until = asyncio.Event()
    authority.scripted["token"].append(json_play({"access_token": "late-one"}, until=until))
    async with grok(played, file) as one:
        reply = await search(one, limit_s=0.2)
        assert (reply.outcome, reply.cut, played.count("grok")) == (Outcome.TIMEOUT, True, 0)
        until.set()
        assert (await search(one)).outcome is Outcome.OK
    assert (sent(played), len(authority.posted())) == (["late-one"], 1)


async def test_nobody_asks_for_tokens_that_could_not_be_kept(
    authority: PlayedAuthority, played: Played, file: Path
) -> None:
    grant = keep(file, authority.grant(lasts_s=0))
    file.with_suffix(".new").mkdir()
    async with grok(played, file) as one:
        reply = await search(one)
    assert (reply.outcome, reply.setup) == (Outcome.REQUEST_ERROR, True)
    assert reply.detail.startswith("token refresh: the folder of the login cannot be written: ")
    assert (authority.asked, kept(file)) == ([], grant)


# ---------------------------------------------------------------------------------------------------------------------
# one refresh


async def test_many_searches_of_one_process_renew_once(authority: PlayedAuthority, played: Played, file: Path) -> None:
    keep(file, authority.grant(lasts_s=0))
    played.script("grok", authority.xai)
    outcomes = []
    async with grok(played, file) as one, grok(played, file) as other:

        async def run(each: Grok) -> None:
            outcomes.append((await search(each)).outcome)

        async with anyio.create_task_group() as tasks:
            for each in [one, other] * 10:
                tasks.start_soon(run, each)
    assert outcomes == [Outcome.OK] * 20
    assert len(authority.posted()) == 1


@asynccontextmanager
async def worker(played: Played, file: Path) -> AsyncIterator[asyncio.subprocess.Process]:
    """A process that has begun a search."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.account_worker", str(file), played.address("grok")),
        stdout=asyncio.subprocess.PIPE,
        cwd=ROOT,
        env=environment(file.parent.parent),
    )
    try:
        assert process.stdout is not None
        async with asyncio.timeout(30):
            assert await process.stdout.readline() == b"asking\n"
        yield process
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.communicate()


async def test_processes_that_all_need_new_tokens_renew_once(
    authority: PlayedAuthority, played: Played, file: Path
) -> None:
    grant = keep(file, authority.grant(lasts_s=0))
    played.script("grok", authority.xai)
    all_ask = asyncio.Event()

    def held(request: Any) -> Play:
        return replace(authority._token(request), until=all_ask)

    authority.scripted["token"].append(held)
    async with worker(played, file) as one, worker(played, file) as two:
        all_ask.set()
        outputs = [(await process.communicate())[0] for process in (one, two)]
    assert outputs == [b"ok\n"] * 2
    assert [each["refresh_token"] for each in authority.posted()] == [grant.refresh_token]
    assert set(sent(played)) == {kept(file).access_token}


async def test_while_another_process_renews_nobody_asks_and_what_it_brings_is_used(
    authority: PlayedAuthority, played: Played, file: Path
) -> None:
    keep(file, authority.grant(lasts_s=0))
    replies = []
    async with grok(played, file) as one, anyio.create_task_group() as tasks:

        async def run() -> None:
            replies.append(await search(one))

        with _grant.locked(file, 5):
            tasks.start_soon(run)
            with anyio.move_on_after(0.3):
                await authority.until_asked(1)
            _grant.write(file, new := authority.grant())
    assert [reply.outcome for reply in replies] == [Outcome.OK]
    assert (sent(played), authority.asked) == ([new.access_token], [])


async def test_tokens_outlive_a_process_that_is_killed_with_them(
    authority: PlayedAuthority, played: Played, file: Path
) -> None:
    keep(file, authority.grant(lasts_s=0))
    played.script("grok", Play(silent=True))
    async with worker(played, file) as process:
        await played.wait_for(1, "grok")
        process.kill()
        await process.wait()
    played.script("grok", authority.xai)
    async with grok(played, file) as one:
        assert (await search(one)).outcome is Outcome.OK
    assert len(authority.posted()) == 1
    assert len(set(sent(played))) == 1


async def test_a_caller_who_leaves_loses_the_new_tokens_for_nobody(
    authority: PlayedAuthority, played: Played, file: Path
) -> None:
    keep(file, authority.grant(lasts_s=0))
    played.script("grok", authority.xai)
    until = asyncio.Event()
    authority.scripted["token"].append(lambda request: replace(authority._token(request), until=until))
    replies = []
    async with grok(played, file) as one:

        async def stay() -> None:
            replies.append(await search(one))

        async with anyio.create_task_group() as staying:
            async with anyio.create_task_group() as leaving:
                leaving.start_soon(search, one)
                staying.start_soon(stay)
                await authority.until_asked(1)
                leaving.cancel_scope.cancel()
            until.set()
        replies.append(await search(one))
    assert [reply.outcome for reply in replies] == [Outcome.OK, Outcome.OK]
    assert (len(authority.posted()), played.count("grok")) == (1, 2)


# ---------------------------------------------------------------------------------------------------------------------
# the file


def test_nobody_else_may_read_the_file_or_enter_its_folder(file: Path, open_to_all: None) -> None:
    file.parent.mkdir(parents=True, mode=0o777)
    grant = Grant("i", "https://a.example", "c", "https://a.example/t", "access-token", "refresh-token")
    with _grant.locked(file, 5):
        os.close(_grant._opened(file.with_suffix(".new")))
        assert mode(file.with_suffix(".new")) == 0o600
        _grant.write(file, grant)
    assert (mode(file.parent), mode(file), mode(file.with_suffix(".lock"))) == (0o700, 0o600, 0o600)
    assert sorted(each.name for each in file.parent.iterdir()) == ["grok.json", "grok.lock"]
    assert not _grant.is_open(file)
    file.chmod(0o640)
    assert _grant.is_open(file)
    assert kept(file) == grant


def test_a_write_that_fails_leaves_the_former_login_and_nothing_else(file: Path, monkeypatch: Any) -> None:
    grant = keep(file, Grant("i", "https://a.example", "c", "https://a.example/t", "access-token", "refresh-token"))

    def full(number: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        keep(file, replace(grant, access_token="another"))
    assert kept(file) == grant
    assert sorted(each.name for each in file.parent.iterdir()) == ["grok.json", "grok.lock"]


def test_the_lock_is_not_waited_for_longer_than_allowed(file: Path) -> None:
    with _grant.locked(file, 5), pytest.raises(_grant.Busy), _grant.locked(file, 0.01):
        pass


GOOD = asdict(Grant("i", "https://a.example", "c", "https://a.example/t", "access-token", "refresh-token"))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff\xfe",
        b"not JSON",
        b"[" * 60_000,
        b"{" + b" " * _grant.MAX_FILE + b"}",
        json.dumps([GOOD]).encode(),
        *(json.dumps({**GOOD, name: None}).encode() for name in ("id", "issuer", "access_token", "refresh_token")),
        json.dumps({**GOOD, "id": ""}).encode(),
        json.dumps({**GOOD, "refused": None}).encode(),
        json.dumps({**GOOD, "expires_at": "soon"}).encode(),
        json.dumps({**GOOD, "access_token": "two words"}).encode(),
        json.dumps({**GOOD, "refresh_token": "line\nbreak"}).encode(),
        json.dumps({**GOOD, "token_endpoint": "https://other.example/t"}).encode(),
        json.dumps({**GOOD, "revocation_endpoint": "https://other.example/r"}).encode(),
        json.dumps({**GOOD, "issuer": "http://a.example", "token_endpoint": "http://a.example/t"}).encode(),
    ],
)
async def test_a_file_that_holds_something_else_is_a_state_and_never_a_crash(content: bytes, file: Path) -> None:
    file.parent.mkdir(parents=True)
    file.write_bytes(content)
    file.chmod(0o600)
    with pytest.raises(Unusable, match=r"^holds no login of ours$"):
        _grant.read(file)
    reply = await search(Grok(Settings(account=file)))
    assert (reply.outcome, reply.detail, reply.hint) == (
        Outcome.AUTH_FAILURE,
        "the login holds no login of ours",
        AGAIN,
    )
    config = load({"WEBSEARCH_STATE": str(file.parent.parent)})
    assert config.warnings == (
        f"{file}: the login holds no login of ours; `websearch-gateway login grok` makes another",
    )
    assert (provider(config, "grok").keys, provider(config, "grok").login) == ((), "the login cannot be used")


async def test_a_file_that_cannot_be_read_is_a_state_too(file: Path) -> None:
    file.mkdir(parents=True)
    with pytest.raises(Unusable, match=r"^cannot be read: "):
        _grant.read(file)
    assert (await search(Grok(Settings(account=file)))).detail.startswith("the login cannot be read: ")


async def test_without_a_file_nobody_is_logged_in(file: Path) -> None:
    assert _grant.read(file) is None
    reply = await search(Grok(Settings(account=file)))
    assert (reply.outcome, reply.detail, reply.hint) == (Outcome.AUTH_FAILURE, "not logged in", AGAIN)


@pytest.mark.parametrize(
    ("address", "fits"),
    [
        ("https://auth.example/token", True),
        ("https://auth.example", True),
        ("https://auth.example:444/token", False),
        ("https://auth.example.evil/token", False),
        ("https://auth.example@evil.example/token", False),
        ("https://user@auth.example/token", False),
        ("http://auth.example/token", False),
        ("https://evil.example/https://auth.example/", False),
        ("https://auth.example:x/token", False),
        ("https://auth.example/to ken", False),
        ("", False),
    ],
)
def test_only_the_issuers_own_origin_counts(address: str, fits: bool) -> None:
    assert is_at(address, "https://auth.example") is fits


# ---------------------------------------------------------------------------------------------------------------------
# in a configuration


def loaded(file: Path, **environ: str) -> Config:
    """What comes of the environment with the state folder in which the login lies."""
    return load({"WEBSEARCH_STATE": str(file.parent.parent)} | environ)


def test_a_login_makes_grok_configured_and_puts_it_into_the_built_in_chain(file: Path) -> None:
    assert "grok" not in chain(loaded(file))
    grant = keep(file, Grant(**GOOD))
    config = loaded(file)
    assert "grok" in chain(config)
    assert (provider(config, "grok").keys, provider(config, "grok").account) == ((grant.key,), file)
    assert config.warnings == ()
    assert {"access-token", "refresh-token"} <= set(config.secrets)
    assert "grok" not in chain(loaded(file, WEBSEARCH_PROVIDERS="duckduckgo"))


@pytest.mark.parametrize(
    ("environ", "keys"),
    [
        ({"GROK_API_KEY": "xai-a,xai-b"}, ("login", "xai-a", "xai-b")),
        ({"GROK_API_KEY": "login,xai-a"}, ("login", "login", "xai-a")),
        ({"GROK_API_KEY": "xai-a", "GROK_API_URL": "https://api.x.ai/v1"}, ("login", "xai-a")),
        ({"XAI_API_KEY": "xai-c"}, ("login",)),
        ({"XAI_API_KEY": "xai-c", "WEBSEARCH_PROVIDERS": "grok"}, ("login", "xai-c")),
    ],
)
def test_the_login_comes_first_and_keys_after_it(environ: dict[str, str], keys: tuple[str, ...], file: Path) -> None:
    grant = keep(file, Grant(**GOOD))
    found = provider(loaded(file, **environ), "grok").keys
    assert found == (grant.key, *keys[1:])
    assert [_grant.is_login(key) for key in found] == [True, *[False] * (len(keys) - 1)]


@pytest.mark.parametrize(
    "address", ["https://relay.example", "http://api.x.ai/v1", "https://api.x.ai.evil.example", "https://api.x.ai:444"]
)
def test_a_relay_never_gets_the_login(address: str, file: Path) -> None:
    keep(file, Grant(**GOOD))
    for environ in ({"GROK_API_URL": address}, {"GROK_API_URL": address, "GROK_API_KEY": "sk-relay"}):
        config = loaded(file, **environ)
        grok = provider(config, "grok")
        assert grok.keys == (("sk-relay",) if len(environ) == 2 else ())
        assert (grok.account, grok.login) == (None, "logged in, but not used")
        assert config.warnings == (
            f"{file}: the login is not used: it goes to api.x.ai alone, and grok is set elsewhere",
        )


def test_a_login_that_others_can_read_is_warned_of(file: Path) -> None:
    keep(file, Grant(**GOOD))
    file.chmod(0o604)
    assert loaded(file).warnings == (f"{file}: holds a login, and others can read it; chmod 600 would keep it to you",)


def test_a_refused_login_is_warned_of(file: Path) -> None:
    keep(file, replace(Grant(**GOOD), refused="invalid_grant"))
    config = loaded(file)
    assert config.warnings == (f"{file}: the login was refused; `websearch-gateway login grok` makes another",)
    assert provider(config, "grok").login == "the login was refused"


def test_the_configuration_says_that_somebody_is_logged_in_and_nothing_of_the_login(file: Path) -> None:
    assert show(loaded(file))["providers"]["grok"]["account"] == "not logged in"
    keep(file, Grant(**GOOD))
    shown = show(loaded(file))
    assert (shown["providers"]["grok"]["account"], shown["providers"]["grok"]["keys"]) == ("logged in", 1)
    assert "account" not in shown["providers"]["brave"]
    assert not [word for word in ("access-token", "refresh-token", GOOD["id"] * 8) if word in json.dumps(shown)]


def over(played: Played, config: Config) -> Config:
    """`config`, but its Grok is played, and alone."""
    played_grok = replace(provider(config, "grok"), base_url=played.address("grok"), in_chain=True)
    return replace(config, providers=(played_grok,))


async def test_a_login_rests_alone_and_under_one_name_while_its_tokens_rotate(
    authority: PlayedAuthority, played: Played, file: Path
) -> None:
    keep(file, authority.grant(lasts_s=0))
    config = over(played, loaded(file, GROK_API_KEY="xai-key"))
    async with Gateway(config) as gateway:
        names = lane(gateway, "grok").scopes
        assert used(await ask(gateway)) == "grok"
        assert sent(played) == [kept(file).access_token]
        tier = recording("grok", "oauth_tier_403")
        played.script("grok", tier, Play(429))
        answer = await ask(gateway, "ferns")
        assert told(answer) == ["grok#1 auth_failure http_403", "grok#2 rate_limited http_429"]
        line = (await gateway.status())["providers"][0]
    assert (line["account"], [key.get("login") for key in line["keys"]]) == ("logged in", [True, None])
    assert line["keys"][0]["state"] == "disabled(auth_failure)"
    keep(file, replace(authority.grant(), id=kept(file).id))
    async with Gateway(over(played, loaded(file))) as gateway:
        assert lane(gateway, "grok").scopes == names
        assert came_to(await ask(gateway, "ferns"))[0] == "failed"
    keep(file, authority.grant())
    played.script("grok", authority.xai)
    async with Gateway(over(played, loaded(file))) as gateway:
        assert used(await ask(gateway, "ferns")) == "grok"


async def test_status_and_doctor_tell_of_the_login_and_show_nothing_of_it(file: Path) -> None:
    keep(file, Grant(**GOOD))
    environ = {"WEBSEARCH_STATE": str(file.parent.parent), "WEBSEARCH_PROVIDERS": "grok"}
    async with Gateway(load(environ)) as gateway:
        status = await gateway.status()
        findings = list(doctor.examine(gateway, status))
    assert [line["account"] for line in status["providers"] if "account" in line] == ["logged in"]
    assert [each.words for each in findings if each.what == "grok"] == [
        "active; logged in; 0 used, monthly:500@day1; not asked yet, as far as is remembered"
    ]
    printed = await command(file.parent, "status", **environ)
    assert re.search(r"^grok +active +logged in; 0 used", printed.out)
    said = json.dumps(status) + repr(findings) + printed.out + printed.err
    assert not [word for word in ("access-t", "refresh-t") if word in said]


async def test_doctor_says_to_log_in_again_where_it_is_the_login_that_was_refused(
    authority: PlayedAuthority, played: Played, file: Path
) -> None:
    keep(file, authority.grant(lasts_s=0))
    authority.refresh_tokens.clear()
    async with Gateway(over(played, loaded(file, GROK_API_KEY="xai-key"))) as gateway:
        assert used(await ask(gateway)) == "grok"
        findings = list(doctor.examine(gateway, await gateway.status()))
    assert [(each.what, each.advice) for each in findings if each.what == "grok #1"] == [("grok #1", AGAIN)]


def test_the_login_lies_in_the_folder_of_the_state(tmp_path: Path) -> None:
    config = load({"WEBSEARCH_STATE": f"{tmp_path}/elsewhere"})
    assert accounts.file_of("grok", config.state) == tmp_path / "elsewhere" / "accounts" / "grok.json"
