"""Which pages are the same one, and which results the caller's domain lists allow: contract §2 and §8."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.domains import covers, url_host
from gateway.filters import TRACKING, Kept, allowed, page_identity, unique
from providers._words import Query, Result

PAGE = "https://example.org/A/b?x=1&y=2"


def row(url: str, *, title: str = "T", snippet: str = "", content: str = "", published: str | None = None) -> Result:
    return Result(title, url, snippet, content, published)


# ---------------------------------------------------------------------------------------------------------------------
# hosts


@pytest.mark.parametrize(
    ("domain", "host"),
    [
        ("docs.rs", "docs.rs"),
        ("docs.rs", "a.docs.rs"),
        ("docs.rs", "A.B.Docs.RS."),
        ("DOCS.rs.", "a.docs.rs"),
        ("gov", "www.cdc.gov"),
        ("example.org", "en.example.org"),
        ("münchen.de", "www.xn--mnchen-3ya.de"),
        ("xn--mnchen-3ya.de", "www.MÜNCHEN.de"),
        ("127.0.0.1", "127.0.0.1"),
        ("[::1]", "::1"),
        ("tumblr.com", "some-blog-.tumblr.com"),
        ("tumblr.com", "-blog.tumblr.com"),
    ],
)
def test_a_domain_covers_itself_and_what_lies_below(domain: str, host: str) -> None:
    assert covers(domain, host)


@pytest.mark.parametrize(
    ("domain", "host"),
    [
        ("docs.rs", "notdocs.rs"),
        ("docs.rs", "rs"),
        ("a.docs.rs", "docs.rs"),
        ("example.org", "example.org.evil.test"),
        ("example.org", "notexample.org"),
        ("gov", "notgov"),
        ("0.0.1", "127.0.0.1"),
        ("1", "127.0.0.1"),
        ("127.0.0.1", "x.127.0.0.1"),
        ("[::1]", "[::2]"),
        ("", "docs.rs"),
        ("", ""),
        (".", "docs.rs"),
    ],
)
def test_a_domain_covers_nothing_else(domain: str, host: str) -> None:
    assert not covers(domain, host)


def test_the_host_of_an_address_is_the_one_a_browser_goes_to() -> None:
    assert url_host("https://u:p@A.Docs.RS:8443/x?y") == "a.docs.rs"
    assert url_host("https://docs.rs\\@evil.test/") == "docs.rs"
    assert url_host("https://docs.rs@evil.test/") == "evil.test"
    assert url_host("http://[::1]:80/") == "[::1]"


# ---------------------------------------------------------------------------------------------------------------------
# pages


@pytest.mark.parametrize(
    "url",
    [
        "http://example.org/A/b?x=1&y=2",
        "HTTPS://WWW.Example.ORG/A/b?x=1&y=2",
        "https://www.example.org./A/b/?x=1&y=2",
        "https://example.org:443/A/b?x=1&y=2",
        "http://example.org:80/A/b?x=1&y=2",
        "https://example.org:/A/b?x=1&y=2",
        "https://example.org/A/b?x=1&y=2#part",
        "https://example.org/A/b?x=1&y=2#:~:text=some%20words",
        "https://example.org/A/b?utm_source=a&x=1&UTM_Medium=b&y=2&utm_whatever=c",
        "https://example.org/A/b?x=1&gclid=1&y=2&fbclid",
        " https://example.org/A/b?x=1&y=2& ",
    ],
)
def test_differences_that_are_not_the_page_s_make_no_other_page(url: str) -> None:
    assert page_identity(url) == page_identity(PAGE)


@pytest.mark.parametrize(
    "url",
    [
        "https://example.org/a/b?x=1&y=2",
        "https://example.org/A/b?y=2&x=1",
        "https://example.org/A/b?x=1",
        "https://example.org/A/b?X=1&y=2",
        "https://example.org/A/b?x=1&y=2&from=feed",
        "https://example.org/A/b?x=1&y=2&ref=home",
        "https://example.org/A/b?x=1&y=2&source=x",
        "https://example.org/A/b?x=1&y=2&utm=1",
        "https://example.org:8443/A/b?x=1&y=2",
        "https://example.org:80/A/b?x=1&y=2",
        "https://en.example.org/A/b?x=1&y=2",
        "https://u@example.org/A/b?x=1&y=2",
        "ftp://example.org/A/b?x=1&y=2",
    ],
)
def test_differences_that_may_choose_the_page_make_another(url: str) -> None:
    assert page_identity(url) != page_identity(PAGE)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("https://example.org", "http://www.example.org/"),
        ("https://example.org/?utm_source=x", "https://example.org"),
        ("https://münchen.de/", "https://www.xn--mnchen-3ya.de"),
        ("https://[::1]:443/x", "http://[0:0::1]/x"),
        ("https://example.org/a#x", "https://example.org/a/#y"),
    ],
)
def test_these_two_are_one_page(one: str, other: str) -> None:
    assert page_identity(one) == page_identity(other)


def test_www_alone_before_a_top_level_domain_is_a_name_of_its_own() -> None:
    assert page_identity("https://www.com/") != page_identity("https://com/")


@pytest.mark.parametrize("name", sorted(TRACKING))
def test_every_listed_tracking_parameter_is_left_out(name: str) -> None:
    assert page_identity(f"https://example.org/?{name}=1&q=2") == page_identity("https://example.org/?q=2")


PARTS = (
    r"http:// https:// // www. WWW. Example .org . : 80 443 / \ ? # & @ utm_a=b x=1 [ ] ::1 ü ß Σ İ 。 %2e %41 1.2.3.4"
)
URL_PARTS = st.lists(st.sampled_from([*PARTS.split(), " ", "\n", "\x85", "\ud800"]), max_size=14).map("".join)


@given(URL_PARTS | st.text(st.characters(exclude_categories=())))
def test_an_identity_is_its_own_identity_and_nothing_raises(url: str) -> None:
    identity = page_identity(url)
    assert page_identity(identity) == identity
    assert isinstance(url_host(url), str)


# ---------------------------------------------------------------------------------------------------------------------
# duplicates


def test_a_page_that_comes_twice_is_one_result_in_the_first_one_s_place() -> None:
    first, other, again = row("https://a.com/1"), row("https://b.com/"), row("http://www.a.com/1/?utm_source=x")
    assert unique([first, other, again]) == (first, other)


@pytest.mark.parametrize(
    ("first", "second", "text"),
    [
        ({"snippet": "short"}, {"content": "long"}, ("", "long")),
        ({"content": "c"}, {"snippet": "a longer snippet"}, ("", "c")),
        ({"snippet": "short"}, {"snippet": "longer text"}, ("longer text", "")),
        ({"content": "longer text"}, {"content": "short"}, ("", "longer text")),
        ({"snippet": "same"}, {"snippet": "size"}, ("same", "")),
        ({}, {"snippet": "some"}, ("some", "")),
    ],
)
def test_the_richer_text_stays(first: dict[str, str], second: dict[str, str], text: tuple[str, str]) -> None:
    (kept,) = unique([row("https://a.com/", title="One", **first), row("http://a.com", title="Two", **second)])
    assert (kept.title, kept.url) == ("One", "https://a.com/")
    assert (kept.snippet, kept.content) == text


def test_a_missing_date_comes_from_the_other_and_a_known_one_stays() -> None:
    undated, dated = row("https://a.com/", content="long"), row("https://a.com", published="2026-01-02")
    later = row("https://a.com", published="2026-03-04")
    assert unique([undated, dated, later])[0].published == "2026-01-02"
    assert unique([later, dated])[0].published == "2026-03-04"


TEXTS = st.text("ab ", max_size=4)
ROWS = st.lists(
    st.builds(
        lambda url, text, long, date: row(url, title=url, snippet="" if long else text, content=long, published=date),
        st.sampled_from(
            ["https://a.com", "http://www.a.com/", "https://a.com/b", "https://b.com", "http://b.com/?utm_a=1"]
        ),
        TEXTS,
        TEXTS,
        st.sampled_from([None, "2026-01-02"]),
    )
)


@given(ROWS)
def test_what_is_unique_keeps_its_order_and_stays_as_it_is(results: list[Result]) -> None:
    kept = unique(results)
    assert unique(kept) == kept
    pages = [page_identity(result.url) for result in results]
    assert [page_identity(result.url) for result in kept] == list(dict.fromkeys(pages))
    for result in kept:
        assert result.url == results[pages.index(page_identity(result.url))].url
        assert not (result.snippet and result.content)


# ---------------------------------------------------------------------------------------------------------------------
# domain lists


RESULTS = [
    row(f"https://{host}/x")
    for host in ("docs.rs", "evil.test", "a.docs.rs", "notdocs.rs", "docs.rs.evil.test", "b.a.docs.rs", "crates.io")
]


def hosts(kept: Kept) -> list[str]:
    return [url_host(result.url) for result in kept.results]


def test_without_lists_everything_stays() -> None:
    assert allowed(RESULTS, Query("x")) == Kept(tuple(RESULTS), 0, 0)


def test_included_domains_keep_themselves_and_their_subdomains_and_the_rest_is_counted() -> None:
    kept = allowed(RESULTS, Query("x", include_domains=("docs.rs",)))
    assert hosts(kept) == ["docs.rs", "a.docs.rs", "b.a.docs.rs"]
    assert (kept.dropped_include, kept.dropped_exclude) == (4, 0)


def test_excluded_domains_drop_themselves_and_their_subdomains() -> None:
    kept = allowed(RESULTS, Query("x", exclude_domains=("docs.rs", "crates.io")))
    assert hosts(kept) == ["evil.test", "notdocs.rs", "docs.rs.evil.test"]
    assert (kept.dropped_include, kept.dropped_exclude) == (0, 4)


def test_a_subdomain_can_be_left_out_of_what_is_included() -> None:
    kept = allowed(RESULTS, Query("x", include_domains=("docs.rs",), exclude_domains=("a.docs.rs",)))
    assert hosts(kept) == ["docs.rs"]
    assert (kept.dropped_include, kept.dropped_exclude) == (4, 2)


def test_an_address_that_only_looks_like_the_included_host_is_dropped() -> None:
    results = [row("https://docs.rs@evil.test/"), row("https://evil.test/docs.rs"), row("https://evil.test\\.docs.rs/")]
    assert allowed(results, Query("x", include_domains=("docs.rs",))) == Kept((), 3, 0)


@given(st.lists(st.sampled_from(RESULTS)), st.sets(st.sampled_from(["docs.rs", "evil.test", "a.docs.rs", "rs", "io"])))
def test_every_result_is_kept_or_counted(results: list[Result], domains: set[str]) -> None:
    chosen = tuple(sorted(domains))
    for query in (Query("x", include_domains=chosen), Query("x", exclude_domains=chosen)):
        kept = allowed(results, query)
        assert len(kept.results) + kept.dropped_include + kept.dropped_exclude == len(results)
        assert allowed(kept.results, query).results == kept.results
