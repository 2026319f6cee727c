"""Arguments → query: contract §2, the argument table and the paragraphs after it."""

from __future__ import annotations

import json
import unicodedata
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from gateway.domains import normal_host, readable_host
from gateway.query import ArgumentError, Asked, input_schema, read
from providers._words import Query

NAMES = ("bocha", "tavily", "brave", "searxng")
HUGE = 10**6000
"""More digits than Python turns into text."""


def ask(*, debug: bool = False, **arguments: object) -> Asked:
    return read({"query": "rust", **arguments}, debug=debug, provider_names=NAMES)


def query(text: object) -> Query:
    return read({"query": text}, debug=False, provider_names=NAMES).query


def complaint(*, debug: bool = False, **arguments: object) -> str:
    with pytest.raises(ArgumentError) as caught:
        ask(debug=debug, **arguments)
    return str(caught.value)


# ---------------------------------------------------------------------------------------------------------------------
# query


def test_a_lone_query_gets_the_defaults() -> None:
    assert ask() == Asked(Query("rust", 8, None, (), (), 0), (), True, None)


@pytest.mark.parametrize(
    ("written", "read_as"),
    [
        ("  rust  ", "rust"),
        ("a\x00b\tc\r\nd\x7fe\x85f\u2028g", "a b c d e f g"),
        ("a\ud800b\udfff", "a\ufffdb\ufffd"),
        ("\ufeffru\u200bst \u202eabc\u202c", "rust abc"),
        ("今天\u3000天气", "今天 天气"),
        ("می\u200cخواهم 👩\u200d👩\u200d👧", "می\u200cخواهم 👩\u200d👩\u200d👧"),
        ('"exact phrase" -minus filetype:pdf intitle:x', '"exact phrase" -minus filetype:pdf intitle:x'),
    ],
)
def test_the_query_is_cleaned_and_keeps_its_meaning(written: str, read_as: str) -> None:
    assert query(written).text == read_as


@pytest.mark.parametrize("blank", ["", "   ", "\n\t", "\x00", "\u200b\ufeff", "\u3000"])
def test_a_blank_query_is_an_argument_error(blank: str) -> None:
    assert complaint(query=blank) == "query must not be blank"


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, "query is missing"),
        (7, "query must be a string, got 7"),
        (True, "query must be a string, got true"),
        (["rust"], "query must be a string, got a list"),
        ({"q": "rust"}, "query must be a string, got an object"),
        pytest.param(HUGE, "query must be a string, got a large number", id="huge"),
    ],
)
def test_a_query_that_is_no_string_is_an_argument_error(value: object, words: str) -> None:
    assert complaint(query=value) == words


def test_a_missing_query_is_an_argument_error() -> None:
    with pytest.raises(ArgumentError, match="query is missing"):
        read({}, debug=False, provider_names=NAMES)


def test_ten_thousand_characters_are_a_query_and_one_more_is_an_argument_error() -> None:
    assert len(query("x" * 10_000).text) == 400
    assert complaint(query="x" * 10_001) == "query must be at most 10000 characters long, got 10001"


def test_four_hundred_characters_stay_whole_without_a_note() -> None:
    asked = ask(query="x" * 400)
    assert (len(asked.query.text), asked.notes) == (400, ())


def test_a_longer_query_is_cut_at_a_word_and_the_note_says_so() -> None:
    asked = ask(query="word " * 200)
    assert asked.query.text == ("word " * 80).strip()
    assert asked.notes == ("the query was cut to 399 of its 999 characters",)


def test_a_query_of_one_endless_character_is_cut_and_not_lost() -> None:
    assert query("e" + "\u0301" * 900).text == "e" + "\u0301" * 399


def test_operators_are_taken_out_before_the_cut() -> None:
    asked = ask(query="x" * 390 + " site:docs.rs " + "y" * 9)
    assert asked.query.text == "x" * 390 + " " + "y" * 9
    assert asked.notes == ()


PIECES = st.sampled_from(
    ["天", "気", "word", " ", "é", "e\u0301", "👩\u200d👩\u200d👧", "👍🏽", "🇩🇪", "❤\ufe0f", "क्षि", "1\ufe0f\u20e3"]
)


@given(st.lists(PIECES, min_size=1, max_size=600).map("".join).filter(str.strip))
def test_a_cut_query_is_a_head_of_the_clean_one_and_tears_no_character(text: str) -> None:
    text = " ".join(text.split())
    kept = query(text).text
    assert len(kept) <= 400
    assert text.startswith(kept)
    rest = text[len(kept) :]
    if rest:
        assert len(kept) >= 200
        assert not kept.endswith("\u200d")
        assert rest[0] not in "\u200d\ufe0f\u20e3\U0001f3fd"
        assert not unicodedata.category(rest[0]).startswith("M")
        flags = len(kept) - len(kept.rstrip("🇩🇪"))
        assert flags % 2 == 0


# ---------------------------------------------------------------------------------------------------------------------
# site: operators


@pytest.mark.parametrize(
    ("text", "words", "include", "exclude"),
    [
        ("rust site:docs.rs", "rust", ["docs.rs"], []),
        ("site:docs.rs rust", "rust", ["docs.rs"], []),
        ("SITE:DOCS.RS. rust", "rust", ["docs.rs"], []),
        ("rust -site:docs.rs", "rust", [], ["docs.rs"]),
        ("rust site:docs.rs OR site:crates.io", "rust", ["docs.rs", "crates.io"], []),
        ("rust (site:docs.rs OR site:crates.io) tokio", "rust tokio", ["docs.rs", "crates.io"], []),
        ("rust ( site:a.com | site:b.com )", "rust", ["a.com", "b.com"], []),
        ("((site:a.com)) rust", "rust", ["a.com"], []),
        ("site:a.com OR site:b.com OR site:c.com rust", "rust", ["a.com", "b.com", "c.com"], []),
        ("rust -site:a.com -site:b.com", "rust", [], ["a.com", "b.com"]),
        ("rust -(site:a.com OR site:b.com)", "rust", [], ["a.com", "b.com"]),
        ("rust NOT site:a.com", "rust", [], ["a.com"]),
        ("rust NOT (site:a.com OR site:b.com)", "rust", [], ["a.com", "b.com"]),
        ("rust AND site:a.com", "rust", ["a.com"], []),
        ("rust|site:a.com|go", "rust go", ["a.com"], []),
        ("tokio (site:docs.rs OR rust)", "tokio (rust)", ["docs.rs"], []),
        ("cats OR dogs site:a.com", "cats OR dogs", ["a.com"], []),
        ("site:a.com ORACLE", "ORACLE", ["a.com"], []),
        ("site:docs.rs/tokio/latest runtime", "tokio latest runtime", ["docs.rs"], []),
        ("site:github.com/a/b OR site:docs.rs", "a b", ["github.com", "docs.rs"], []),
        ("site:en.wikipedia.org/wiki/Foo_(bar)", "wiki Foo_(bar)", ["en.wikipedia.org"], []),
        ("site:a.com/caf%C3%A9%00%22 x", 'café " x', ["a.com"], []),
        ("site:a.com/* x", "x", ["a.com"], []),
        ("site:https://docs.rs/tokio x", "tokio x", ["docs.rs"], []),
        ("site:*.gov tax", "tax", ["gov"], []),
        ("look at site:docs.rs, please", "look at please", ["docs.rs"], []),
        ("教程site:zhihu.com", "教程", ["zhihu.com"], []),
        ("教程 site：zhihu.com", "教程", ["zhihu.com"], []),
        ('"exact words" site:a.com "and more"', '"exact words" "and more"', ["a.com"], []),
        ('5" disk site:a.com', '5" disk', ["a.com"], []),
        # nothing else: the host is what there is to search for
        ("site:docs.rs", "docs.rs", ["docs.rs"], []),
        ("(site:a.com OR site:b.com)", "a.com b.com", ["a.com", "b.com"], []),
        ("-site:a.com", "a.com", [], ["a.com"]),
        ("site:a.com -site:b.com", "a.com", ["a.com"], ["b.com"]),
        ("site:münchen.de", "münchen.de", ["xn--mnchen-3ya.de"], []),
    ],
)
def test_site_operators_become_domain_lists(text: str, words: str, include: list[str], exclude: list[str]) -> None:
    read_as = query(text)
    assert read_as.text == words
    assert read_as.include_domains == tuple(sorted(include))
    assert read_as.exclude_domains == tuple(sorted(exclude))


@pytest.mark.parametrize(
    "text",
    [
        '"site:docs.rs" rust',
        "“site:docs.rs” rust",
        "website:docs.rs",
        "official site: docs.rs",
        "site:??? rust",
        "foo(bar) OR (baz)",
        "NOT rust",
        "-(cats OR dogs)",
        "a | b",
    ],
)
def test_what_is_no_unquoted_site_operator_stays(text: str) -> None:
    assert query(text) == Query(text)


def test_operators_and_lists_add_up() -> None:
    read_as = ask(query="rust site:docs.rs -site:x.com", include_domains=["crates.io"], exclude_domains="y.com").query
    assert read_as.include_domains == ("crates.io", "docs.rs")
    assert read_as.exclude_domains == ("x.com", "y.com")


def test_an_operator_that_contradicts_a_list_is_an_argument_error() -> None:
    assert complaint(query="rust -site:docs.rs", include_domains=["Docs.rs"]) == (
        "include_domains and exclude_domains both name 'docs.rs'"
    )


OPERATORS = [
    "site:a.com",
    "(site:a.com",
    "-site:b.com/x",
    "site:b.com)",
    "(",
    ")",
    "OR",
    "|",
    '"',
    "“",
    "NOT",
    "-",
    "rust",
    "\x00",
]


@given(st.lists(st.sampled_from(OPERATORS)).map(" ".join))
def test_no_operator_of_a_query_without_quotes_is_left_and_nothing_is_put_in(text: str) -> None:
    try:
        words = query(text).text
    except ArgumentError:
        return
    assert words.strip()
    assert not {"\x00", "\x01"} & set(words)
    if '"' not in text and "“" not in text:
        assert "site:" not in words


# ---------------------------------------------------------------------------------------------------------------------
# numbers


@given(
    number=st.integers(1, 20),
    spell=st.sampled_from(["{}", "{}.0", " {} ", "+{}", "0{}", "{}.", "\n{}\t", "{}.00"]),
    name=st.sampled_from(["max_results", "count"]),
)
def test_every_spelling_of_a_number_is_that_number(number: int, spell: str, name: str) -> None:
    for value in (number, float(number), spell.format(number)):
        asked = ask(**{name: value})
        assert asked.query.max_results == number
        assert type(asked.query.max_results) is int
        assert asked.notes == ()


@pytest.mark.parametrize("absent", [None, "", "  "])
def test_an_absent_number_is_the_default(absent: object) -> None:
    assert ask(max_results=absent, include_content=absent).query == Query("rust")


@pytest.mark.parametrize("value", [21, 999, pytest.param(HUGE, id="huge"), "999", "9" * 400, 1e300, 20.5])
def test_a_number_that_is_too_large_is_lowered_with_a_note(value: object) -> None:
    asked = ask(max_results=value)
    assert asked.query.max_results == 20
    assert asked.notes == ("max_results was lowered to 20, the most there can be",)


@pytest.mark.parametrize("value", [0, -1, "-1", "0", pytest.param(-HUGE, id="huge"), 0.5])
def test_a_number_that_is_too_small_is_raised_with_a_note(value: object) -> None:
    asked = ask(max_results=value)
    assert asked.query.max_results == 1
    assert asked.notes == ("max_results was raised to 1, the least there can be",)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("five", "'five'"),
        (float("inf"), "inf"),
        (float("nan"), "nan"),
        ("inf", "'inf'"),
        ("nan", "'nan'"),
        ("1_0", "'1_0'"),
        (True, "true"),
        (False, "false"),
        (4.5, "4.5"),
        ("4.5", "'4.5'"),
        ([5], "a list"),
        ([], "a list"),
        ({}, "an object"),
        ("a\x00\n\ud800b", "'a \ufffdb'"),
        ("x" * 500, "'" + "x" * 57 + "…'"),
    ],
)
def test_what_is_no_number_is_an_argument_error_that_names_the_field(value: object, shown: str) -> None:
    assert complaint(max_results=value) == f"max_results must be a number from 1 to 20, got {shown}"
    assert complaint(count=value) == f"count must be a number from 1 to 20, got {shown}"
    assert complaint(include_content=value) == f"include_content must be a number from 0 to 5, got {shown}"


def test_include_content_goes_from_nothing_to_five() -> None:
    assert [ask(include_content=value).query.include_content for value in (0, "3", 5.0)] == [0, 3, 5]
    assert ask(include_content=6).notes == ("include_content was lowered to 5, the most there can be",)
    assert ask(include_content=-1).notes == ("include_content was raised to 0, the least there can be",)


def test_several_notes_come_together_the_cut_first() -> None:
    assert len(ask(query="x" * 500, max_results=99, include_content=9).notes) == 3
    assert ask(query="x" * 500, max_results=99).notes[0].startswith("the query was cut to 400")


# ---------------------------------------------------------------------------------------------------------------------
# freshness, use_cache, provider


@pytest.mark.parametrize("value", ["week", "WEEK", " Week "])
def test_freshness_ignores_case_and_spaces(value: str) -> None:
    assert ask(freshness=value).query.freshness == "week"


@pytest.mark.parametrize("absent", [None, "", " "])
def test_freshness_may_be_absent(absent: object) -> None:
    assert ask(freshness=absent).query.freshness is None


@pytest.mark.parametrize(
    ("value", "shown"), [("pw", "'pw'"), (7, "7"), (True, "true"), (["day"], "a list"), ({}, "an object")]
)
def test_any_other_freshness_is_an_argument_error_that_lists_the_four(value: object, shown: str) -> None:
    assert complaint(freshness=value) == f"freshness must be one of day, week, month, year, got {shown}"


@pytest.mark.parametrize(
    ("value", "read_as"),
    [(True, True), (False, False), (1, True), (0, False), (None, True), ("", True)]
    + [(word, True) for word in ("true", "True", " 1 ", "yes", "ON")]
    + [(word, False) for word in ("false", "FALSE", "0", "no", "off")],
)
def test_use_cache_takes_every_word_for_yes_and_no(value: object, read_as: bool) -> None:
    assert ask(use_cache=value).use_cache is read_as


@pytest.mark.parametrize(("value", "shown"), [("maybe", "'maybe'"), (2, "2"), ([], "a list"), (float("nan"), "nan")])
def test_any_other_use_cache_is_an_argument_error(value: object, shown: str) -> None:
    assert complaint(use_cache=value) == f"use_cache must be true or false, got {shown}"


def test_provider_counts_only_when_debugging() -> None:
    assert ask(provider="brave").provider is None
    assert ask(provider=["nonsense"]).provider is None
    assert ask(debug=True, provider=" Brave ").provider == "brave"
    assert ask(debug=True, provider="").provider is None
    assert ask(debug=True).provider is None


@pytest.mark.parametrize(
    ("value", "shown"),
    [("tavly", "'tavly'; did you mean 'tavily'?"), ("zzz", "'zzz'"), (7, "7"), (["brave"], "a list")],
)
def test_an_unknown_provider_is_an_argument_error_with_the_list(value: object, shown: str) -> None:
    assert (
        complaint(debug=True, provider=value) == f"provider must be one of bocha, tavily, brave, searxng, got {shown}"
    )


# ---------------------------------------------------------------------------------------------------------------------
# domain lists


@pytest.mark.parametrize(
    "value",
    [
        ["docs.rs", "crates.io"],
        ("docs.rs", "crates.io"),
        ["https://docs.rs/x", "site:crates.io", "*.docs.rs", "DOCS.RS.", "", None, " "],
        "docs.rs,crates.io",
        "docs.rs, crates.io",
        "docs.rs crates.io\ndocs.rs",
        "docs.rs，crates.io",
        "site:docs.rs OR site:crates.io",
        '["docs.rs", "crates.io"]',
        '"docs.rs", "crates.io"',
    ],
)
def test_every_way_to_write_a_list_gives_its_hosts_sorted_and_once(value: object) -> None:
    for name in ("include_domains", "allowed_domains"):
        assert ask(**{name: value}).query.include_domains == ("crates.io", "docs.rs")
    for name in ("exclude_domains", "blocked_domains"):
        assert ask(**{name: value}).query.exclude_domains == ("crates.io", "docs.rs")


@pytest.mark.parametrize("absent", [None, "", " , ", [], [""], [None], ["  ", ""], "[]", '[""]'])
def test_an_absent_list_filters_nothing(absent: object) -> None:
    assert ask(include_domains=absent, exclude_domains=absent).query == Query("rust")


def test_the_proper_names_win_over_the_words_of_other_tools() -> None:
    both = ask(include_domains=["a.com"], allowed_domains=["b.com"], max_results=3, count=4).query
    assert (both.include_domains, both.max_results) == (("a.com",), 3)
    blank = ask(include_domains=[""], allowed_domains=["b.com"], max_results=None, count=4).query
    assert (blank.include_domains, blank.max_results) == (("b.com",), 4)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (["docs.rs", "not a host"], "'not a host' cannot be a host name"),
        (["docs.*"], "'docs.*' cannot be a host name"),
        (["-docs.rs"], "'-docs.rs' cannot be a host name"),
        (["999.1.1.1"], "'999.1.1.1' cannot be a host name"),
        (["x" * 64 + ".com"], "'" + "x" * 57 + "…' cannot be a host name"),
        (["a\ud800.com"], "'a\ufffd.com' cannot be a host name"),
        ("docs.rs, *", "'*' cannot be a host name"),
    ],
)
def test_what_cannot_be_a_host_is_named(value: object, shown: str) -> None:
    assert complaint(include_domains=value) == f"include_domains: {shown}"
    assert complaint(blocked_domains=value) == f"blocked_domains: {shown}"


@pytest.mark.parametrize(
    ("value", "shown"),
    [(7, "7"), (True, "true"), ({"a": 1}, "an object"), ([7], "7 in it"), ([["a.com"]], "a list in it")],
)
def test_what_is_no_list_of_strings_is_an_argument_error(value: object, shown: str) -> None:
    assert complaint(exclude_domains=value) == f"exclude_domains must be a list of host names, got {shown}"


def test_fifty_hosts_are_a_list_and_one_more_is_an_argument_error() -> None:
    hosts = [f"h{number}.com" for number in range(50)]
    assert len(ask(include_domains=hosts + hosts).query.include_domains) == 50
    assert complaint(include_domains=[*hosts, "one.more"]) == "include_domains must name at most 50 hosts, got 51"
    assert (
        complaint(query="x site:one.more", include_domains=hosts)
        == "include_domains must name at most 50 hosts, got 51"
    )


def test_a_host_in_both_lists_is_an_argument_error() -> None:
    assert complaint(include_domains=["a.com", "MÜNCHEN.de"], exclude_domains="https://xn--mnchen-3ya.de/") == (
        "include_domains and exclude_domains both name 'xn--mnchen-3ya.de'"
    )


def test_a_subdomain_may_be_left_out_of_an_included_domain() -> None:
    assert ask(include_domains=["docs.rs"], exclude_domains=["a.docs.rs"]).query.exclude_domains == ("a.docs.rs",)


@pytest.mark.parametrize(
    ("written", "host"),
    [
        ("gov", "gov"),
        (".gov", "gov"),
        ("localhost:8080", "localhost"),
        ("http:docs.rs", "docs.rs"),
        ("//docs.rs", "docs.rs"),
        ("https:\\\\docs.rs\\x", "docs.rs"),
        ("https://user:pw@docs.rs:8443/x?y#z", "docs.rs"),
        ("https://docs.rs\\@evil.test", "docs.rs"),
        ("127.0.0.1:80", "127.0.0.1"),
        ("[2001:DB8:0:0::1]:443", "[2001:db8::1]"),
        ("http://[::1]/x", "[::1]"),
        ("::1", "[::1]"),
        ("MÜNCHEN.de", "xn--mnchen-3ya.de"),
        ("mu\u0308nchen.de", "xn--mnchen-3ya.de"),
        ("m%C3%BCnchen.de", "xn--mnchen-3ya.de"),
        ("straße.de", "xn--strae-oqa.de"),
        ("例子。中国", "xn--fsqu00a.xn--fiqs8s"),
        ("ｄｏｃｓ．ｒｓ", "docs.rs"),
        ("😀.ws", "xn--e28h.ws"),
        ("r3---sn_x-.example", "r3---sn_x-.example"),
    ],
)
def test_a_host_is_read_however_it_is_written(written: str, host: str) -> None:
    assert normal_host(written) == host


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            ".",
            "*",
            "..",
            "a..b",
            "a b.com",
            "x@y.z",
            "mailto:x@y.z",
            "docs.rs:http",
            "javascript:alert(1)",
            "℀.com",
        ),
        *("1.2.3", "1.2.3.4.5", "[::1", "[fe80::1%25eth0]", "[1.2.3.4]", "a" * 64, "a." * 130 + "com", "ü" * 9000),
        "\ud800.com",
    ],
)
def test_what_cannot_be_a_host_is_none(text: str) -> None:
    assert normal_host(text) is None


def test_a_host_is_shown_in_its_own_letters() -> None:
    assert readable_host("xn--mnchen-3ya.de") == "münchen.de"
    assert readable_host("xn--99999999999.de") == "xn--99999999999.de"


LABELS = st.from_regex(r"[a-zäöüß中文日本語ж]([a-zäöü0-9中文日本語ж-]{0,9}[a-zäöü0-9中文日本語ж])?", fullmatch=True)
HOSTS = st.lists(LABELS, min_size=1, max_size=4).map(".".join).filter(lambda host: normal_host(host) is not None)


@given(
    host=HOSTS,
    before=st.sampled_from(
        ["", "https://", "HTTP://", "//", "site:", "SITE:", "*.", ".", "https://u:p@", "site:https://", "site:*."]
    ),
    after=st.sampled_from(["", ".", "/", "/a/b?c=d", ":443", ":8080/x", "?x", "#f", "./", "\\x"]),
    around=st.sampled_from(["{}", " {} ", "\t{}\n"]),
    upper=st.booleans(),
)
def test_every_spelling_of_a_host_is_that_host(host: str, before: str, after: str, around: str, upper: bool) -> None:
    spelled = "".join(letter.upper() if len(letter.upper()) == 1 else letter for letter in host) if upper else host
    expected = normal_host(host)
    assert normal_host(around.format(before + spelled + after)) == expected
    assert expected is not None
    assert expected.isascii()
    assert normal_host(expected) == expected
    assert normal_host(readable_host(expected)) == expected


@given(st.text(st.characters(exclude_categories=())) | st.text("ab.:/[]@%*0129-ü。\ud800"))
def test_any_text_is_a_host_once_and_for_all_or_none(text: str) -> None:
    host = normal_host(text)
    assert host is None or normal_host(host) == host


# ---------------------------------------------------------------------------------------------------------------------
# whatever comes

ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=40)
ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | ANY_TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(ANY_TEXT, inner, max_size=4),
    max_leaves=8,
)
FIELDS = [
    *input_schema(debug=True, provider_names=NAMES)["properties"],
    "count",
    "allowed_domains",
    "blocked_domains",
    "toolCallId",
]


@given(st.dictionaries(st.sampled_from(FIELDS), ANY_JSON), ANY_TEXT | ANY_JSON, st.booleans())
def test_any_arguments_are_a_valid_query_or_an_argument_error(
    arguments: dict[str, Any], text: object, debug: bool
) -> None:
    words, found = "", Query("none")
    try:
        found = read({**arguments, "query": text}, debug=debug, provider_names=NAMES).query
    except ArgumentError as error:
        words = str(error)
    assert not {unicodedata.category(character) for character in words} & {"Cc", "Cs", "Zl", "Zp"}
    assert len(words) < 300
    assert found.text.strip()
    assert len(found.text) <= 400
    json.dumps(found.text, ensure_ascii=False).encode()
    assert 1 <= found.max_results <= 20
    assert 0 <= found.include_content <= 5
    assert not set(found.include_domains) & set(found.exclude_domains)


def test_deep_and_large_values_are_argument_errors_too() -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    assert complaint(include_domains=[deep]) == "include_domains must be a list of host names, got a list in it"
    assert "cannot be a host name" in complaint(include_domains="[" * 100_000)
    assert len(complaint(include_domains=["x" * 1_000_000])) < 150


def test_unknown_arguments_are_ignored() -> None:
    extras: dict[str, object] = {"toolCallId": "1", "sessionId": [], "action": None, "chatInput": "x", "country": ""}
    assert ask(**extras) == ask()


# ---------------------------------------------------------------------------------------------------------------------
# the advertised schema


def test_the_schema_is_flat_and_plain() -> None:
    for debug in (False, True):
        schema = input_schema(debug=debug, provider_names=NAMES)
        Draft202012Validator.check_schema(schema)
        text = json.dumps(schema)
        for word in ("$ref", "$defs", "anyOf", "oneOf", "null", "const", "format", "additionalProperties"):
            assert f'"{word}"' not in text
        assert schema["required"] == ["query"]
        for field in schema["properties"].values():
            assert field["type"] in ("string", "integer", "boolean", "array")
            assert (field["type"] == "array") == ("items" in field)
            assert len(field["description"]) < 250


def test_the_schema_lists_the_provider_only_when_debugging() -> None:
    assert "provider" not in input_schema(debug=False, provider_names=NAMES)["properties"]
    assert "provider" not in input_schema(debug=True, provider_names=())["properties"]
    assert input_schema(debug=True, provider_names=NAMES)["properties"]["provider"]["enum"] == list(NAMES)


def test_the_defaults_and_bounds_of_the_schema_are_those_of_the_reading() -> None:
    properties = input_schema(debug=False, provider_names=NAMES)["properties"]
    plain = ask()
    for name, read_as in (("max_results", plain.query.max_results), ("include_content", plain.query.include_content)):
        field = properties[name]
        assert field["default"] == read_as
        for bound in (field["minimum"], field["maximum"]):
            assert ask(**{name: bound}).notes == ()
        for beyond in (field["minimum"] - 1, field["maximum"] + 1):
            assert len(ask(**{name: beyond}).notes) == 1
    assert properties["use_cache"]["default"] is plain.use_cache
    for freshness in properties["freshness"]["enum"]:
        assert ask(freshness=freshness).query.freshness == freshness
