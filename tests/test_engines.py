"""The engines whose first page has to be visited: two requests for one search, kept tickets, searches at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from urllib.parse import parse_qsl, urlsplit

import pytest

import providers
from providers import Draft, Outcome, Query, Reply, Settings
from providers._visiting import VisitingProvider
from tests.vendors import RESET, SILENCE, Play, Played, Request, Trap, page_play
from tests.vendors.engines import BLOCKS, ENGINES, HEADERS
from tests.vendors.plays import PAGE, Script
from tests.vendors.successes import Made

pytestmark = pytest.mark.anyio

VISITING = ("so360", "seznam", "startpage")
KEEPING = ("so360", "startpage")
QUERY = Query("kelp forest")


class Clock:
    """A clock that stands until it is set."""

    def __init__(self) -> None:
        self.now = 1_790_000_000.0

    def __call__(self) -> float:
        return self.now


def engine(name: str, base: str | None = None, clock: Callable[[], float] | None = None) -> VisitingProvider:
    made = providers.find(name)(Settings(base_url=base), clock or Clock())
    assert isinstance(made, VisitingProvider)
    return made


@asynccontextmanager
async def running(played: Played, name: str, clock: Clock | None = None) -> AsyncIterator[VisitingProvider]:
    """The engine, pointed at the played one."""
    provider = engine(name, played.address(name), clock)
    try:
        yield provider
    finally:
        await provider.aclose()


async def ask(provider: VisitingProvider, text: str = QUERY.text, limit_s: float = 10.0) -> Reply:
    draft = provider.draft(Query(text), "")
    assert isinstance(draft, Draft)
    return await provider.send(draft, limit_s)


def searched(request: Request) -> dict[str, str]:
    """The fields of a request."""
    fields = request.body.decode() if request.method == "POST" else urlsplit(request.path).query
    return dict(parse_qsl(fields, keep_blank_values=True))


def good(name: str, **headers: str) -> Callable[[Request], Play]:
    """The engine as it is: its first page, and pages of results about what is asked."""

    def play(request: Request) -> Play:
        fields = searched(request)
        text = fields.get("q") or fields.get("query") or ""
        made = [Made(f"{text} {n}", f"https://{name}.example/{n}", f"About {text}.", n + 1) for n in range(3)]
        return Play(200, {**HEADERS[name], **headers}, ENGINES[name](text, made, request).encode())

    return play


def titles(reply: Reply) -> list[str]:
    return [row.title for row in reply.results]


# ---------------------------------------------------------------------------------------------------------------------
# two requests


async def test_360_is_asked_for_a_cookie_with_the_search_itself(played: Played) -> None:
    played.script("so360", good("so360"))
    async with running(played, "so360") as provider:
        reply = await ask(provider)
    assert (reply.outcome, titles(reply)) == (Outcome.OK, ["kelp forest 0", "kelp forest 1", "kelp forest 2"])
    assert reply.results[0].url == "https://so360.example/0"
    first, second = played.requests("so360")
    assert first.path == second.path == "/so360/s?q=kelp+forest&pn=1"
    assert "cookie" not in first.headers
    assert second.headers["cookie"] == "QiHooGUID=5F1C0A7E.1790000000"  # the first pair of several
    assert "Chrome/" in first.headers["user-agent"]
    assert first.headers["user-agent"] == second.headers["user-agent"]


async def test_seznam_is_given_back_the_cookies_and_hidden_fields_of_its_front_page(played: Played) -> None:
    played.script("seznam", good("seznam"))
    async with running(played, "seznam") as provider:
        assert (await ask(provider)).outcome is Outcome.OK
    first, second = played.requests("seznam")
    assert (first.method, first.path, "cookie" in first.headers) == ("GET", "/seznam", False)
    assert searched(second) == {"q": "kelp forest", "oq": "kelp forest", "aq": "-1"}
    assert second.headers["cookie"] == "sid=id=7f3a|t=17; ab=1"


async def test_startpage_is_posted_the_form_of_its_front_page(played: Played) -> None:
    played.script("startpage", good("startpage"))
    async with running(played, "startpage") as provider:
        reply = await ask(provider)
    assert (reply.outcome, len(reply.results)) == (Outcome.OK, 3)
    first, second = played.requests("startpage")
    assert (first.method, first.path, "origin" in first.headers) == ("GET", "/startpage/", False)
    assert first.body == b""
    assert (second.method, second.path) == ("POST", "/startpage/sp/search")
    assert searched(second) == {
        "query": "kelp forest",
        "cat": "web",
        "t": "device",
        "with_date": "",
        "abd": "1",
        "abe": "1",
        "qsr": "all",
        "qadf": "moderate",
        "language": "english",
        "lui": "english",
        "sc": "Q7Mt5TRqowKB00",
    }
    assert second.headers["content-type"] == "application/x-www-form-urlencoded"
    assert second.headers["cookie"].startswith("preferences=date_timeEEEworldN1Ndisable_family_filterEEEmoderateN1N")
    assert second.headers["origin"] == f"{played.url}/startpage"


@pytest.mark.parametrize("name", VISITING)
async def test_what_the_first_page_gave_is_used_again_where_the_engine_lets_it(played: Played, name: str) -> None:
    clock = Clock()
    played.script(name, good(name))
    async with running(played, name, clock) as provider:
        visits = []
        for wait_s in (0, 3599, 1, -7200):  # an hour later, and by a clock that was set back, it counts no more
            clock.now += wait_s
            sent = played.count(name)
            assert (await ask(provider)).outcome is Outcome.OK
            visits.append(played.count(name) - sent - 1)
    assert visits == ([1, 0, 1, 1] if name in KEEPING else [1, 1, 1, 1])


@pytest.mark.parametrize("name", VISITING)
@pytest.mark.parametrize("refusal", [None, Play(429), Play(403), Play(418)])
async def test_a_block_is_a_block_on_either_page_and_ends_what_was_kept(
    played: Played, name: str, refusal: Play | None
) -> None:
    refused = refusal or BLOCKS[name]
    async with running(played, name) as provider:
        played.script(name, good(name), refused, good(name))
        assert (await ask(provider)).outcome is Outcome.RATE_LIMITED
        assert (await ask(provider)).outcome is Outcome.OK
        assert played.count(name) == 4
        if name in KEEPING:
            played.script(name, refused, good(name))
            assert (await ask(provider)).outcome is Outcome.RATE_LIMITED
            assert (await ask(provider)).outcome is Outcome.OK
            assert played.count(name) == 7
    fresh = engine(name, played.address(name))
    played.script(name, refused)
    assert (await ask(fresh)).outcome is Outcome.RATE_LIMITED
    await fresh.aclose()


@pytest.mark.parametrize("name", KEEPING)
async def test_a_page_that_nobody_knows_ends_it_too_and_a_broken_line_does_not(played: Played, name: str) -> None:
    async with running(played, name) as provider:
        played.script(name, good(name), good(name), RESET, good(name))
        for outcome in (Outcome.OK, Outcome.NETWORK, Outcome.OK):
            assert (await ask(provider)).outcome is outcome
        assert played.count(name) == 4
        played.script(name, page_play(), good(name))
        for outcome in (Outcome.SERVER_ERROR, Outcome.OK):
            assert (await ask(provider)).outcome is outcome
        assert played.count(name) == 7


@pytest.mark.parametrize("name", VISITING)
async def test_both_requests_are_bound_by_the_one_limit(played: Played, name: str) -> None:
    async with running(played, name) as provider:
        provider.open()
        played.script(name, SILENCE)
        reply = await ask(provider, limit_s=0.15)
        assert (reply.outcome, reply.cut) == (Outcome.TIMEOUT, True)
        assert played.count(name) <= 1
        played.script(name, good(name), SILENCE)
        reply = await ask(provider, limit_s=0.3)
        assert (reply.outcome, reply.cut, reply.detail) == (Outcome.TIMEOUT, True, "no whole reply in 0.3 s")
        played.script(name, good(name))
        assert (await ask(provider)).outcome is Outcome.OK


@pytest.mark.parametrize("name", VISITING)
async def test_a_first_page_that_does_not_come_is_the_outcome(played: Played, name: str) -> None:
    async with running(played, name) as provider:
        for fault, outcome in (
            (RESET, Outcome.NETWORK),
            (Play(500), Outcome.SERVER_ERROR),
            (Play(504), Outcome.TIMEOUT),
            (Play(404), Outcome.REQUEST_ERROR),
            (Play(429, {"retry-after": "77"}), Outcome.RATE_LIMITED),
        ):
            sent = played.count(name)
            played.script(name, fault)
            reply = await ask(provider)
            assert (reply.outcome, reply.retry_after_s) == (outcome, 77 if fault.status == 429 else None)
            assert reply.elapsed_ms is not None
            assert played.count(name) == sent + 1


async def test_a_first_page_that_gives_nothing_says_so(played: Played) -> None:
    told = {}
    for name in VISITING:
        async with running(played, name) as provider:
            played.script(name, page_play())
            reply = await ask(provider)
            told[name] = (reply.outcome, reply.detail, played.count(name))
    assert told == {
        "so360": (Outcome.RATE_LIMITED, "http_200 no cookie on the first page", 1),
        "seznam": (Outcome.SERVER_ERROR, "http_200 an unknown first page", 1),
        "startpage": (Outcome.RATE_LIMITED, "http_200 no sc on the first page", 1),
    }


@pytest.mark.parametrize(
    "first",
    [
        Play(302, {"location": "https://www.so.com/s?q=kelp", "set-cookie": "a=1; Path=/"}),
        Play(200, {**PAGE, "set-cookie": "a=1"}),
        Play(500, {"Set-Cookie": "a=1;HttpOnly"}),
        Play(302, {"location": "https://elsewhere.example/", "set-cookie": "=none", "Set-Cookie": "a=1"}),
    ],
)
async def test_360s_first_page_is_only_about_its_cookie(played: Played, first: Play) -> None:
    played.script("so360", first, good("so360"))
    async with running(played, "so360") as provider:
        assert (await ask(provider)).outcome is Outcome.OK
    assert played.requests("so360")[-1].headers["cookie"] == "a=1"


@pytest.mark.parametrize("name", VISITING)
async def test_a_page_of_results_in_the_place_of_the_first_is_the_reply(played: Played, name: str) -> None:
    async with running(played, name) as provider:
        played.script(name, good(name))
        await ask(provider)
        whole = good(name)(played.requests(name)[-1])
    fresh = engine(name, played.address(name))
    sent = played.count(name)
    played.script(name, whole)
    reply = await ask(fresh)
    await fresh.aclose()
    assert (reply.outcome, len(reply.results), played.count(name)) == (Outcome.OK, 3, sent + 1)


# ---------------------------------------------------------------------------------------------------------------------
# several at once


def gated(play: Script, gate: asyncio.Event) -> Callable[[Request], Play]:
    def wait(request: Request) -> Play:
        made = play if isinstance(play, Play) else play(request)
        return Play(made.status, made.headers, made.body, until=gate)

    return wait


@pytest.mark.parametrize("name", KEEPING)
async def test_searches_at_once_share_one_visit(played: Played, name: str) -> None:
    gate = asyncio.Event()
    played.script(name, gated(good(name), gate), good(name))
    async with running(played, name) as provider:
        searches = [asyncio.create_task(ask(provider, f"kelp {n}")) for n in range(5)]
        await played.wait_for(1, name)
        gate.set()
        replies = await asyncio.gather(*searches)
    assert [titles(reply)[0] for reply in replies] == [f"kelp {n} 0" for n in range(5)]
    assert played.count(name) == 1 + 5


@pytest.mark.parametrize("name", KEEPING)
async def test_who_stood_behind_a_refused_visit_is_refused_with_it_and_who_comes_later_is_not(
    played: Played, name: str
) -> None:
    gate = asyncio.Event()
    played.script(name, gated(Play(429), gate), good(name))
    async with running(played, name) as provider:
        searches = [asyncio.create_task(ask(provider)) for _ in range(4)]
        await played.wait_for(1, name)
        gate.set()
        assert [(await each).outcome for each in searches] == [Outcome.RATE_LIMITED] * 4
        assert played.count(name) == 1
        assert (await ask(provider)).outcome is Outcome.OK


@pytest.mark.parametrize("name", KEEPING)
async def test_a_caller_who_leaves_while_visiting_makes_room_for_the_next(played: Played, name: str) -> None:
    played.script(name, SILENCE, good(name))
    async with running(played, name) as provider:
        leaving = asyncio.create_task(ask(provider))
        await played.wait_for(1, name)
        staying = [asyncio.create_task(ask(provider)) for _ in range(3)]
        await asyncio.sleep(0)  # they stand in line now
        leaving.cancel()
        assert [(await each).outcome for each in staying] == [Outcome.OK] * 3
        await played.wait_until_left(1, name)
        assert leaving.cancelled()
        assert played.count(name) == 1 + 1 + 3


async def test_results_that_came_with_the_visit_belong_to_the_search_that_made_it(played: Played) -> None:
    gate = asyncio.Event()

    def results(request: Request) -> Play:
        head = request.head + b"\r\ncookie: a=1"
        play = good("so360")(Request(request.provider, request.method, request.path, head))
        return Play(200, PAGE, play.body, until=gate)  # without a cookie: each search comes as a visit

    played.script("so360", results)
    async with running(played, "so360") as provider:
        searches = [asyncio.create_task(ask(provider, text)) for text in ("kelp", "moss", "fern")]
        await played.wait_for(1, "so360")
        gate.set()
        assert [titles(await each)[0] for each in searches] == ["kelp 0", "moss 0", "fern 0"]
    assert played.count("so360") == 3


# ---------------------------------------------------------------------------------------------------------------------
# what is never told, and to whom nothing is sent


@pytest.mark.parametrize("name", VISITING)
async def test_neither_cookies_nor_codes_are_told_or_taken_elsewhere(played: Played, name: str) -> None:
    async with Trap() as trap, running(played, name) as provider:
        for last in (
            Play(302, {"location": trap.url}),
            Play(200, {"content-type": "text/plain"}, b"<i>" * 5000),
            Play(500, echo=True),
            Play(200, echo=True),
        ):
            played.script(name, good(name), last)
            reply = await ask(provider)
            assert reply.outcome is Outcome.SERVER_ERROR
            told = repr((reply, provider._kept))
            for secret in ("QiHooGUID", "5F1C0A7E", "sid=", "7f3a", "Q7Mt5TRqowKB00"):
                assert secret not in told
        assert trap.visits == 0


async def test_a_page_that_cannot_be_parsed_does_not_repeat_our_cookie(played: Played) -> None:
    def repeat(request: Request) -> Play:
        said = f"{request.headers['cookie']} {'<i>' * 5000}"
        return Play(200, {"content-type": "text/plain"}, said.encode())

    played.script("so360", good("so360"), repeat)
    async with running(played, "so360") as provider:
        reply = await ask(provider)
    assert (reply.outcome, "5F1C0A7E" in repr(reply)) == (Outcome.SERVER_ERROR, False)
