"""The engines whose first page has to be visited: what is sent, and what their pages mean whatever the query says."""

from __future__ import annotations

import html
import json
from itertools import pairwise
from urllib.parse import parse_qsl

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

import providers
from providers import Draft, Outcome, Query, Reply, Settings, Wire
from providers._browser import BrowserConnections, leads_to
from providers._transport import Carrier, Connections
from providers._visiting import MAX_FIELDS, Ticket, VisitingProvider, showing
from providers._wire import MAX_COOKIE, header_map
from tests.vendors import Play, Played, Request
from tests.vendors.engines import BLOCKS, ENGINES
from tests.vendors.plays import PAGE
from tests.vendors.successes import Made

pytestmark = pytest.mark.anyio

VISITING = ("so360", "seznam", "startpage")
QUERY = Query("kelp forest")


def engine(name: str, base: str | None = None) -> VisitingProvider:
    made = providers.find(name)(Settings(base_url=base))
    assert isinstance(made, VisitingProvider)
    return made


# ---------------------------------------------------------------------------------------------------------------------
# cookies and fields


@pytest.mark.parametrize("carrier", [Connections, BrowserConnections])
async def test_the_cookies_of_a_reply_are_kept_apart(played: Played, carrier: type[Carrier]) -> None:
    headers = {"set-cookie": "a=1; Expires=Fri, 31 Dec 2027 00:00:00 GMT", "Set-Cookie": "b=2", "x-a": "1", "X-A": "2"}
    played.script("seznam", Play(200, headers))
    connections = carrier(None, lambda: 0.0)
    try:
        wire = await connections.exchange(httpx2.Request("GET", played.address("seznam")))
    finally:
        await connections.aclose()
    assert isinstance(wire, Wire)
    assert wire.cookies == ("a=1", "b=2")
    assert wire.headers["x-a"] == "1, 2"


def test_a_cookie_that_cannot_be_sent_back_is_left_out() -> None:
    lines = ["a=1; Path=/", " b = x y ;", "none", "=1", "", "é=1", "c=\x01", f"d={'x' * MAX_COOKIE}", "a=2", "e="]
    wire = Wire(200, header_map([("Set-Cookie", line) for line in lines]), b"", 0.0)
    assert wire.cookies == ("a=2", "b = x y", "e=")
    assert Wire(200, {}, b"", 0.0).cookies == ()


def front(name: str, page: str, **headers: str) -> Ticket | Reply:
    return engine(name).read_first(Wire(200, {**PAGE, **headers}, page.encode(), 0.0))


def test_a_hidden_field_never_takes_the_place_of_our_own() -> None:
    ticket = front(
        "seznam", '<input type=hidden name=q value=x><INPUT TYPE="HIDDEN" name="a&amp;b"><input type=hidden>'
    )
    assert ticket == Ticket((), (("q", "x"), ("a&b", "")))
    assert isinstance(ticket, Ticket)
    search = httpx2.Request("GET", "https://search.seznam.cz/?q=kelp+forest&oq=kelp")
    assert str(showing(search, ticket).url) == "https://search.seznam.cz/?q=kelp+forest&oq=kelp&a%26b="


def test_fields_that_fit_into_no_address_are_no_ticket() -> None:
    reply = front("seznam", f"<input type=hidden name=a value='{'é' * MAX_FIELDS}'>", **{"set-cookie": "a=1"})
    assert isinstance(reply, Reply)
    assert reply.outcome is Outcome.SERVER_ERROR
    widest = front("seznam", f"<input type=hidden name=a value='{'𝄞' * (MAX_FIELDS - 3)}'>")
    assert isinstance(widest, Ticket)
    long = httpx2.Request("GET", "https://search.seznam.cz/", params={"q": "苔" * 400, "oq": "苔" * 400})
    assert len(str(showing(long, widest).url)) < 65536


def test_only_the_search_form_has_the_code() -> None:
    other = '<form id="other"><input type="hidden" name="sc" value="a"></form>'
    assert isinstance(front("startpage", other), Reply)
    mine = (
        '<form id="search"><p><input type="hidden" name="t" value="x"><input type="hidden" name="sc" value="b"></form>'
    )
    assert front("startpage", other + mine) == Ticket(fields=(("sc", "b"),))


# ---------------------------------------------------------------------------------------------------------------------
# what is sent


FULL = Query("kelp forest", 5, "week", ("docs.rs",), ("a.docs.rs",))


def drafted(name: str, query: Query, base: str | None = None, **options: str) -> httpx2.Request:
    draft = providers.find(name)(Settings(base_url=base, options=options)).draft(query, "")
    assert isinstance(draft, Draft)
    assert draft.notes == ()
    return draft.request


def fields(request: httpx2.Request) -> dict[str, str]:
    told = request.content.decode() if request.method == "POST" else request.url.query.decode()
    return dict(parse_qsl(told, keep_blank_values=True))


@pytest.mark.parametrize("name", VISITING)
def test_hosts_are_operators_and_no_freshness_is_sent(name: str) -> None:
    told = fields(drafted(name, FULL))
    assert told.get("q", told.get("query")) == "kelp forest site:docs.rs -site:a.docs.rs"
    plain = fields(drafted(name, Query("kelp forest")))
    assert plain | {key: told[key] for key in ("q", "oq", "query") if key in told} == told


@pytest.mark.parametrize("name", VISITING)
def test_operators_that_leave_no_room_for_words_do_not_matter_without_a_cap(name: str) -> None:
    query = Query("kelp " * 79 + "kelp", include_domains=tuple(f"{n:040}.example" for n in range(50)))
    told = fields(drafted(name, query))
    assert told.get("q", told.get("query", "")).startswith(query.text + " site:")


@pytest.mark.parametrize(
    ("name", "spellings"),
    [
        ("so360", ("http://127.0.0.1:1", "http://127.0.0.1:1/", "http://127.0.0.1:1/s")),
        ("startpage", ("http://127.0.0.1:1", "http://127.0.0.1:1/sp", "http://127.0.0.1:1/sp/search/")),
        ("seznam", ("http://127.0.0.1:1", "http://127.0.0.1:1/")),
    ],
)
def test_every_spelling_of_the_address_leads_to_both_pages(name: str, spellings: tuple[str, ...]) -> None:
    asked = []
    for base in spellings:
        request = drafted(name, QUERY, base)
        visit = engine(name, base).first(request)
        asked.append((str(request.url), str(visit.url)))
    assert all(one == other for one, other in pairwise(asked))
    assert (
        asked[0]
        == {
            "so360": ("http://127.0.0.1:1/s?q=kelp+forest&pn=1", "http://127.0.0.1:1/s?q=kelp+forest&pn=1"),
            "seznam": ("http://127.0.0.1:1/?q=kelp+forest&oq=kelp+forest", "http://127.0.0.1:1/"),
            "startpage": ("http://127.0.0.1:1/sp/search", "http://127.0.0.1:1/"),
        }[name]
    )


def test_startpages_options_are_in_the_form_and_in_the_cookie() -> None:
    request = drafted("startpage", QUERY, language="deutsch", safe_search="none")
    told = fields(request)
    assert (told["language"], told["lui"], told["qadf"]) == ("deutsch", "deutsch", "none")
    cookie = request.headers["cookie"]
    assert "disable_family_filterEEEnoneN1N" in cookie
    assert cookie.endswith("N1NlanguageEEEdeutschN1Nlanguage_uiEEEdeutsch")


@pytest.mark.parametrize(
    ("text", "speaks"),
    [("苔藓", True), ("moss 苔", True), ("こけ", True), ("이끼", True), ("moss", False), ("мох é", False)],
)
def test_360_has_few_pages_for_queries_in_other_scripts(text: str, speaks: bool) -> None:
    assert engine("so360").speaks(Query(text)) is speaks
    assert engine("seznam").speaks(Query(text))


# ---------------------------------------------------------------------------------------------------------------------
# four kinds of page, whatever the query was


HOSTILE = (
    "抱歉，未找到和 captcha 相关的网页",
    '<div id="no-result">抱歉，未找到</div>',
    '"><form id="search"><input type="hidden" name="sc" value="x">',
    "https://qcaptcha.so.com/ /verify /sp/captcha anomaly",
    '<div id="searchpage-root"><div class="Layout--left"><p>Nic nenalezeno</p></div></div>',
    'React.createElement(UIStartpage.AppSerpWeb, {"render":{"presenter":{"regions":{"mainline":[]}}}})',
    'var data = {"sgt":"1","sc":"a"}; no results',
    "</script><script>",
)

EMPTY = {
    "so360": '<div id="no-result"><p>…</p></div>',
    # what its page without hits looks like is not known: only one of nothing but advertisements has surely none
    "seznam": '<div id="searchpage-root"><div class="Layout--left"><div class="f2c528">'
    '<h3><a href="https://c.seznam.cz/click?x">…</a></h3></div></div></div>',
    "startpage": '<script>React.createElement(UIStartpage.AppSerpWeb, {"query":%s,'
    '"render":{"presenter":{"regions":{"mainline":[{"display_type":"ads-google","results":[]}]}}}})</script>',
}


def echoing(text: str, rest: str) -> str:
    """A page that repeats the query as engines do: in the title, the box, a paragraph and a script."""
    asked = html.escape(text)
    script = json.dumps(text).replace("</", "<\\/")
    return (
        f'<!DOCTYPE html><html><head><title>{asked}</title><meta name="description" content="{asked}"></head><body>'
        f'<input name="q" value="{asked}"><p>{asked}</p><script>var query = {script};</script>{rest}</body></html>'
    )


def read(name: str, page: str, status: int = 200, **headers: str) -> Reply:
    return engine(name).read(Wire(status, {**PAGE, **headers}, page.encode(), 0.0))


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("name", VISITING)
def test_the_four_kinds_of_page_are_told_apart_whatever_the_query_says(name: str, text: str) -> None:
    request = Request(name, "POST", "/x?q=1", b"cookie: a=1")
    made = [Made(text, f"https://moss.example/{n}", text, 1) for n in range(3)]
    reply = read(name, echoing(text, ENGINES[name](text, made, request)))
    assert (reply.outcome, len(reply.results)) == (Outcome.OK, 3)
    nothing = EMPTY[name].replace("%s", json.dumps(text).replace("</", "<\\/"))
    assert read(name, echoing(text, nothing)).outcome is Outcome.NO_RESULTS
    assert read(name, echoing(text, "<main>drawn by a script</main>")).outcome is Outcome.SERVER_ERROR
    blocked = BLOCKS[name]
    assert read(name, blocked.body.decode(), blocked.status, **blocked.headers).outcome is Outcome.RATE_LIMITED
    first = engine(name).read_first(Wire(200, PAGE, echoing(text, "").encode(), 0.0))
    assert isinstance(first, Ticket if name == "seznam" else Reply)
    assert isinstance(first, Ticket) or first.outcome is Outcome.RATE_LIMITED


@pytest.mark.parametrize("name", VISITING)
def test_links_that_lead_nowhere_cost_themselves_and_a_page_of_them_is_unknown(name: str) -> None:
    urls = ["javascript:alert(1)", "/s?q=more", "data:text/html,x", "", "http://", "ftp://moss.example/", "mailto:a@b"]
    request = Request(name, "POST", "/x?q=1", b"cookie: a=1")

    def page(*urls: str) -> str:
        made = [Made("title", url, "text", 1) for url in urls]
        # the redirector is a way of its own
        return ENGINES[name]("moss", made, request).replace("https://www.so.com/link?m=a%2F2b", "#")

    reply = read(name, page(*urls, "https://moss.example/?a=1&b=2"))
    assert [row.url for row in reply.results] == ["https://moss.example/?a=1&b=2"]
    assert read(name, page(*urls)).outcome is Outcome.SERVER_ERROR


@pytest.mark.parametrize(
    ("location", "base", "host"),
    [
        ("/verify?q=x", "https://search.seznam.cz/", "search.seznam.cz"),
        ("//login.seznam.cz/verify", "https://search.seznam.cz/", "login.seznam.cz"),
        ("https://seznam.cz.evil.example/verify", "https://search.seznam.cz/", None),
        ("http://127.0.0.1:1/verify", "http://127.0.0.1:1/seznam", "127.0.0.1"),
        ("http://[bad/", "https://search.seznam.cz/", None),
        ("mailto:a@b", "https://search.seznam.cz/", None),
    ],
)
def test_a_redirect_counts_only_where_it_stays_with_the_engine(location: str, base: str, host: str | None) -> None:
    target = leads_to(Wire(302, {"location": location}, b"", 0.0), base, "seznam.cz")
    assert (None if target is None else target.hostname) == host


@pytest.mark.parametrize("name", VISITING)
@given(noise=st.binary(max_size=300), status=st.sampled_from([200, 204, 302, 403, 500]), first=st.booleans())
def test_no_page_makes_the_reading_raise(name: str, noise: bytes, status: int, first: bool) -> None:
    marks = {
        "so360": b'<li class="res-list"><h3 class="res-title"><a data-mdurl="%s" href="%s">%s</a></h3>',
        "seznam": b'<div id="searchpage-root"><div class="Layout--left"><div class="f2c528"><h3><a href="%s">%s</a>%s',
        "startpage": b"<script>React.createElement(UIStartpage.AppSerpWeb, {%s var data = %s</script>"
        b'<a class="result-title result-link" href="%s">',
    }
    page = marks[name].replace(b"%s", noise) + noise
    wire = Wire(status, header_map([("location", noise.decode("latin-1")), ("set-cookie", "a")]), page, 0.0)
    reply = engine(name).read_first(wire) if first else engine(name).read(wire)
    assert isinstance(reply, Ticket) or reply.outcome in set(Outcome)
