"""What is sent to DuckDuckGo, and what its recordings cannot say about reading."""

from __future__ import annotations

from urllib.parse import parse_qsl

import pytest
from hypothesis import given
from hypothesis import strategies as st

from providers import Draft, Outcome, Query, Reply, Settings, Wire
from providers.duckduckgo import DuckDuckGo, without_bangs


def sent(query: Query, **options: str) -> tuple[str, dict[str, str], Draft]:
    draft = DuckDuckGo(Settings(options=options)).draft(query, "")
    assert isinstance(draft, Draft)
    form = dict(parse_qsl(draft.request.content.decode(), keep_blank_values=True, strict_parsing=True))
    return str(draft.request.url), form, draft


def test_the_form_has_the_fields_of_a_first_page() -> None:
    url, form, draft = sent(Query("moss care"))
    assert url == "https://html.duckduckgo.com/html/"
    assert draft.request.method == "POST"
    assert form == {"q": "moss care", "b": "", "kl": "wt-wt"}
    assert draft.request.headers["referer"] == "https://html.duckduckgo.com/"
    assert draft.notes == ()


@pytest.mark.parametrize(("freshness", "letter"), [("day", "d"), ("week", "w"), ("month", "m"), ("year", "y")])
def test_freshness_is_a_letter(freshness: str, letter: str) -> None:
    assert sent(Query("moss", freshness=freshness))[1]["df"] == letter  # type: ignore[arg-type]


def test_the_region_is_an_option() -> None:
    assert sent(Query("moss"), region="cn-zh")[1]["kl"] == "cn-zh"


@pytest.mark.parametrize(
    "base", ["http://127.0.0.1:1", "http://127.0.0.1:1/", "http://127.0.0.1:1/html", "http://127.0.0.1:1/html/"]
)
def test_every_spelling_of_the_address_keeps_the_slash_at_the_end(base: str) -> None:
    draft = DuckDuckGo(Settings(base_url=base)).draft(Query("moss"), "")
    assert isinstance(draft, Draft)
    assert str(draft.request.url) == "http://127.0.0.1:1/html/"


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        ("!w moss", '"!w" moss'),
        ("moss !g", 'moss "!g"'),
        ("! moss", '"!" moss'),
        ('"!w" moss', '"!w" moss'),
        ("c !important !default", 'c "!important" "!default"'),
        ("hello! a!b", "hello! a!b"),
    ],
)
def test_bangs_are_quoted(text: str, quoted: str) -> None:
    assert without_bangs(text) == quoted


def test_hosts_become_operators_that_are_never_cut() -> None:
    query = Query("moss " * 200, include_domains=("docs.rs",), exclude_domains=("a.docs.rs",))
    _, form, draft = sent(query)
    assert form["q"].endswith(" site:docs.rs -site:a.docs.rs")
    assert len(form["q"]) <= 499
    assert len(draft.notes) == 1


def test_operators_that_leave_no_room_for_words_are_not_sent() -> None:
    reply = DuckDuckGo().draft(Query("moss " * 20, include_domains=tuple(f"{n:040}.example" for n in range(12))), "")
    assert isinstance(reply, Reply)
    assert reply.outcome is Outcome.REQUEST_ERROR


@given(st.text(min_size=1, max_size=1200).filter(str.strip))
def test_no_query_of_500_characters_or_with_a_bare_bang_is_ever_sent(text: str) -> None:
    query = " ".join(text.encode("utf-8", "replace").decode().split())
    form = sent(Query(query))[1]
    assert len(form["q"]) <= 499
    assert not any(word.startswith("!") for word in form["q"].split())


@given(st.binary(max_size=400), st.sampled_from([200, 202, 301, 403, 500]))
def test_no_page_makes_the_reading_raise(noise: bytes, status: int) -> None:
    page = b'<div class="result"><a class="result__a" href="' + noise + b'">' + noise + b"</a></div>" + noise
    wire = Wire(status, {"content-type": "text/html"}, page, 0.0)
    assert DuckDuckGo().read(wire).outcome in set(Outcome)


def test_a_query_about_the_challenge_does_not_look_like_one() -> None:
    words = "captcha anomaly.js challenge-form"
    rows = "".join(
        f'<div class="result"><a class="result__a" href="https://moss.example/{n}">{words}</a></div>' for n in range(10)
    )
    echo = f"<title>{words}</title>"
    page = f'<html><head>{echo}</head><body><input value="anomaly-modal anomaly.js">{rows}</body></html>'
    reply = DuckDuckGo().read(Wire(200, {}, page.encode(), 0.0))
    assert (reply.outcome, len(reply.results)) == (Outcome.OK, 10)


@pytest.mark.parametrize("base", ["https://lite.duckduckgo.com/lite/", "https://lite.duckduckgo.com/lite"])
def test_the_lite_page_is_asked_where_the_address_leads_to_it(base: str) -> None:
    draft = DuckDuckGo(Settings(base_url=base)).draft(Query("moss"), "")
    assert isinstance(draft, Draft)
    assert str(draft.request.url) == "https://lite.duckduckgo.com/lite/"
