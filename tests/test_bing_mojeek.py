"""What is sent to Bing's feed and to Mojeek, and what their recordings cannot say about reading."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from providers import Draft, HTTPProvider, Outcome, Query, Reply, Settings, Wire
from providers.bing_rss import BingRSS
from providers.mojeek import Mojeek

NOW = datetime.fromisoformat("2026-11-30T12:00:00+00:00").timestamp()
FEED = {"content-type": "text/xml; charset=utf-8"}


def sent(vendor: type[HTTPProvider], query: Query, base_url: str | None = None, **options: Any) -> Draft:
    draft = vendor(Settings(base_url=base_url, options=options), clock=lambda: NOW).draft(query, "")
    assert isinstance(draft, Draft)
    assert draft.request.method == "GET"
    return draft


def fields(vendor: type[HTTPProvider], query: Query, **options: Any) -> dict[str, str]:
    return dict(sent(vendor, query, **options).request.url.params)


def feed(rows: str, echo: str = "") -> str:
    return f'<rss version="2.0"><channel><title>Bing:{echo}</title>{rows}</channel></rss>'


def item(title: str, link: str = "https://fen.example/", text: str = "") -> str:
    return f"<item><title>{title}</title><link>{link}</link><description>{text}</description></item>"


def read(body: str | bytes, headers: dict[str, str] = FEED, status: int = 200) -> Reply:
    raw = body.encode() if isinstance(body, str) else body
    return BingRSS().read(Wire(status, headers, raw, NOW))


# ---------------------------------------------------------------------------------------------------------------------
# sent


def test_the_feed_is_asked_for_in_a_language_that_does_not_follow_the_address() -> None:
    draft = sent(BingRSS, Query("moss care", 5))
    assert str(draft.request.url).partition("?")[0] == "https://www.bing.com/search"
    assert dict(draft.request.url.params) == {"q": "moss care", "format": "rss", "mkt": "en-US", "setlang": "en"}
    assert draft.request.headers["accept-language"] == "en-US,en;q=0.9"
    assert draft.notes == ()


def test_the_market_is_an_option() -> None:
    draft = sent(BingRSS, Query("moss"), market="zh-CN")
    assert dict(draft.request.url.params) == {"q": "moss", "format": "rss", "mkt": "zh-CN", "setlang": "zh"}
    assert draft.request.headers["accept-language"] == "zh-CN,zh;q=0.9"


def test_nothing_is_sent_for_freshness_where_the_engine_takes_none() -> None:
    assert fields(BingRSS, Query("moss", freshness="day")) == fields(BingRSS, Query("moss"))
    assert not BingRSS.enforces_freshness


def test_a_first_page_of_mojeek_never_says_where_it_begins() -> None:
    draft = sent(Mojeek, Query("moss care", 5))
    assert str(draft.request.url).partition("?")[0] == "https://www.mojeek.com/search"
    assert dict(draft.request.url.params) == {"q": "moss care", "safe": "0"}
    assert "cookie" not in draft.request.headers
    assert draft.notes == ()


@pytest.mark.parametrize(
    ("freshness", "day"), [("day", "20261129"), ("week", "20261123"), ("month", "20261030"), ("year", "20251129")]
)
def test_mojeek_takes_freshness_as_a_day(freshness: str, day: str) -> None:
    assert fields(Mojeek, Query("moss", freshness=freshness))["since"] == day  # type: ignore[arg-type]
    assert Mojeek.enforces_freshness


def test_language_and_region_of_mojeek_are_cookies() -> None:
    assert sent(Mojeek, Query("moss"), language="de", region="at").request.headers["cookie"] == "lb=de; arc=at"
    assert sent(Mojeek, Query("moss"), region="gb").request.headers["cookie"] == "arc=gb"


def test_safe_search_of_mojeek_is_an_option() -> None:
    assert fields(Mojeek, Query("moss"), safe_search=True)["safe"] == "1"


@pytest.mark.parametrize("vendor", [BingRSS, Mojeek])
def test_hosts_become_operators(vendor: type[HTTPProvider]) -> None:
    query = Query("moss", include_domains=("a.example", "b.example"), exclude_domains=("c.example",))
    assert fields(vendor, query)["q"] == "moss site:a.example OR site:b.example -site:c.example"
    assert vendor.domains == 1


@pytest.mark.parametrize("vendor", [BingRSS, Mojeek])
def test_a_query_has_no_cap_that_is_known(vendor: type[HTTPProvider]) -> None:
    draft = sent(vendor, Query("moss " * 79 + "moss"))
    assert draft.request.url.params["q"] == "moss " * 79 + "moss"
    assert draft.notes == ()


@pytest.mark.parametrize("vendor", [BingRSS, Mojeek])
@pytest.mark.parametrize("base", ["http://127.0.0.1:1", "http://127.0.0.1:1/", "http://127.0.0.1:1/search"])
def test_every_spelling_of_the_address_leads_to_the_search(vendor: type[HTTPProvider], base: str) -> None:
    assert str(sent(vendor, Query("moss"), base_url=base).request.url).startswith("http://127.0.0.1:1/search?")


# ---------------------------------------------------------------------------------------------------------------------
# read


def test_rows_that_share_no_word_are_dropped_aloud() -> None:
    reply = read(feed(item("Peat") + item("HBO Max") + item("Sign in"), " peat bogs"))
    assert [row.title for row in reply.results] == ["Peat"]
    assert reply.notes == ("bing_rss: 2 of its 3 results shared no word with the query",)


def test_a_feed_of_unrelated_rows_says_so() -> None:
    reply = read(feed(item("HBO Max") + item("Sign in"), " peat bogs"))
    assert (reply.outcome, reply.detail, reply.results) == (Outcome.NO_RESULTS, "unrelated", ())


@pytest.mark.parametrize(
    ("asked", "title"),
    [
        ("C", "The C book"),
        ("the who", "The Who, a band"),
        ("什么", "什么是什么"),
        ("moss site:fen.example", "Moss"),
        ("moss -garden", "Moss"),
        ("&quot;moss care&quot;", "How to care for it"),
        ("7", "7 reasons"),
        ("C++", "C++ reference"),
        ("asyncio.TaskGroup", "TaskGroup"),
        ("🙂", "What 🙂 means"),
        ("Müller", "Muller"),
    ],
)
def test_a_related_row_is_kept_whatever_the_query_looks_like(asked: str, title: str) -> None:
    assert [row.title for row in read(feed(item(title), f" {asked}")).results] == [title]


@pytest.mark.parametrize("asked", ["peat site:fen.example", "peat -hbo", "how to peat", "泥炭site:fen.example"])
def test_operators_and_small_words_relate_nothing(asked: str) -> None:
    row = item("How to sign in to HBO", "https://other.example/")
    assert read(feed(row, f" {asked}")).detail == "unrelated"


def test_a_query_without_a_word_judges_nothing() -> None:
    assert read(feed(item("HBO Max"), " ")).outcome is Outcome.OK


@pytest.mark.parametrize(
    ("told", "declared"), [("", "gbk"), ("", "utf-8"), ("; charset=gbk", "utf-8"), ("; charset=utf-8", "utf-16")]
)
def test_a_feed_is_read_in_the_character_set_that_it_claims(told: str, declared: str) -> None:
    charset = told.partition("=")[2] or declared
    body = f'<?xml version="1.0" encoding="{declared}"?>' + feed(item("泥炭"), " 泥炭")
    assert [row.title for row in read(body.encode(charset), {"content-type": f"text/xml{told}"}).results] == ["泥炭"]


@pytest.mark.parametrize(
    "body",
    [
        '<?xml version="1.0" encoding="utf-16"?>'.encode("utf-16") + feed(item("Peat")).encode("utf-16-le"),
        b'<?xml version="1.0" encoding="no-such-set"?><rss>',
        b"<rss>\x00</rss>",
        b"<rss version='2.0'><channel>\xff\xfe</rss>",
        b"<!-- " + b"-" * 1000,
        b"<?x " * 20_000,
        b"<a>" * 200_000,
        b"<a b='" + b"x" * 100_000,
        b'<rss><channel xmlns:a="x" a:b="1" a:b="2"/></rss>',
        b"<rss><channel><item/></channel></rss><rss/>",
    ],
)
def test_what_is_no_feed_is_an_error_of_theirs(body: bytes) -> None:
    assert read(body).outcome is Outcome.SERVER_ERROR


@pytest.mark.parametrize(
    "before",
    [
        "",
        "\ufeff",
        "\ufeff\ufeff",
        "\ufeff \ufeff",
        "\n",
        "<?xml version='1.0'?>",
        "<!-- x -->",
        "<?a?><!-- <x> --> \n<?b?>",
    ],
)
def test_a_document_type_is_refused_wherever_it_stands(before: str, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("peat secret")
    entity = f'<!DOCTYPE rss [<!ENTITY e SYSTEM "{(tmp_path / "secret").as_uri()}">]>'
    assert read(before + entity + feed(item("Peat &e;"))).outcome is Outcome.SERVER_ERROR
    assert read(before + "<!doctype rss>" + feed(item("Peat"))).outcome is Outcome.SERVER_ERROR


def test_a_deep_feed_is_read_without_falling_over() -> None:
    deep = feed(item("Peat", text="<b>" * 10_000 + "bog" + "</b>" * 10_000))
    assert [row.snippet for row in read(deep).results] == ["bog"]


@given(
    st.binary(max_size=300), st.sampled_from([200, 202, 301, 403, 429, 500]), st.sampled_from(["text/xml", "text/html"])
)
def test_no_feed_makes_the_reading_raise(noise: bytes, status: int, kind: str) -> None:
    body = b"<rss><channel><title>Bing: " + noise + b"</title><item><link>" + noise + b"</link></item></channel></rss>"
    for each in (noise, body, b"<?xml version='1.0'?>" + noise):
        assert read(each, {"content-type": kind}, status).outcome in set(Outcome)


@given(st.text(max_size=60), st.text(max_size=60))
def test_no_link_makes_the_reading_raise(link: str, code: str) -> None:
    for each in (link, f"https://www.bing.com/ck/a?u=a1{code}", f"https://{link}.bing.com/aclick", f"http://[{link}"):
        body = feed(f"<item><title>Peat</title><link><![CDATA[{each.replace(']]>', '')}]]></link></item>")
        assert read(body.encode("utf-8", "replace")).outcome in (Outcome.OK, Outcome.NO_RESULTS, Outcome.SERVER_ERROR)


@given(st.binary(max_size=300), st.sampled_from([200, 202, 301, 403, 500]))
def test_no_page_of_mojeek_makes_the_reading_raise(noise: bytes, status: int) -> None:
    row = b'<ul class="results-standard"><li><a class="ob" href="' + noise + b'"></a>' + noise
    for page in (noise, row, b'<div class="results">' + noise):
        assert Mojeek().read(Wire(status, {"content-type": "text/html"}, page, NOW)).outcome in set(Outcome)
