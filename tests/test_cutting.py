"""Queries fitted into what a vendor takes: nothing visible is torn, no operator is touched, every cap holds."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from providers import Query
from providers._cutting import LEAST_WORDS, cut, fit, site_operators, width
from providers._words import Limits

FAMILY = "👩‍👩‍👧‍👦"
THUMB = "👍🏽"
HEART = "❤️"
KEYCAP = "7️⃣"
SCOTLAND = "🏴\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f"
FLAG = "🇫🇷"
ACCENTED = "e\u0301\u0323"
CLUSTERS = (FAMILY, THUMB, HEART, KEYCAP, SCOTLAND, FLAG, ACCENTED, "海", "藻", "k", "z", "कि")

clusters = st.lists(st.sampled_from(CLUSTERS), max_size=40)
sizes = st.integers(min_value=0, max_value=80)
queries = st.text(st.sampled_from("ab 海藻\u3000é🇫"), min_size=1, max_size=500).map(str.strip).filter(bool)
hosts = st.lists(st.from_regex(r"[a-z]{1,20}\.example", fullmatch=True), max_size=9, unique=True).map(tuple)


@given(st.text(), sizes)
def test_a_cut_text_is_a_head_that_is_never_too_long(text: str, size: int) -> None:
    head = cut(text, size)
    assert len(head) <= size or head == text
    assert text.startswith(head)


@given(st.text(max_size=60))
def test_a_text_that_fits_is_left_alone(text: str) -> None:
    assert cut(text, 60) == text


@given(clusters, sizes)
def test_no_visible_character_is_torn(parts: list[str], size: int) -> None:
    text = "".join(parts)
    whole = {"".join(parts[:count]) for count in range(len(parts) + 1)}
    assert cut(text, size) in whole


@given(clusters, sizes)
def test_a_cut_text_is_as_long_as_it_can_be(parts: list[str], size: int) -> None:
    head = cut("".join(parts), size)
    fitting = ["".join(parts[:count]) for count in range(len(parts) + 1) if len("".join(parts[:count])) <= size]
    assert head == fitting[-1]


@pytest.mark.parametrize(
    ("text", "size", "head"),
    [
        ("kelp forest canopy", 11, "kelp forest"),
        ("kelp forest canopy", 12, "kelp forest"),
        ("kelp forest canopy", 15, "kelp forest"),
        ("a verylongwordthatisnotgivenup", 20, "a verylongwordthatis"),
        ("巨藻森林\u3000加州海岸", 7, "巨藻森林"),
        ("巨藻森林加州海岸", 5, "巨藻森林加"),
        (FLAG * 3, 5, FLAG * 2),
        (FAMILY, 5, ""),
        ("x" + SCOTLAND, 4, "x"),
    ],
)
def test_a_cut_falls_on_a_word_or_else_on_a_character(text: str, size: int, head: str) -> None:
    assert cut(text, size) == head


@given(
    queries,
    hosts,
    hosts,
    st.one_of(st.none(), st.integers(40, 500)),
    st.one_of(st.none(), st.integers(5, 60)),
)
def test_caps_hold_with_operators_and_operators_stay_whole(
    text: str, include: tuple[str, ...], exclude: tuple[str, ...], characters: int | None, words: int | None
) -> None:
    query = Query(text, include_domains=include, exclude_domains=exclude)
    operators = site_operators(query)
    fitted = fit(query, Limits(query=characters, words=words), "vendor", operators)
    if fitted is None:
        assert operators
        return
    sent, notes = fitted
    assert characters is None or len(sent.text) <= characters
    assert words is None or len(sent.text.split()) <= words
    assert sent.text.endswith("".join(f" {operator}" for operator in operators))
    own = sent.text[: len(sent.text) - sum(len(operator) + 1 for operator in operators)]
    assert bool(notes) == (own != text)
    assert own == text or not operators or len(own) >= LEAST_WORDS
    assert not own or not unicodedata.combining(own[0])


@given(queries, hosts, st.integers(40, 500))
def test_a_cap_holds_when_wide_characters_count_two(text: str, include: tuple[str, ...], cap: int) -> None:
    query = Query(text, include_domains=include)
    operators = site_operators(query)
    counted, plain = Limits(query=cap, wide_count_two=True), Limits(query=cap)
    fitted = fit(query, counted, "vendor", operators)
    if fitted is None:
        assert operators
        return
    assert width(fitted[0].text) <= cap
    if text.isascii():
        assert fitted == fit(query, plain, "vendor", operators)
    if not fitted[1]:
        assert fitted == fit(query, plain, "vendor", operators)


@given(st.text(st.sampled_from("海a"), min_size=1, max_size=200), st.integers(4, 90))
def test_no_room_is_wasted_where_wide_characters_count_two(text: str, cap: int) -> None:
    fitted = fit(Query(text), Limits(query=cap, wide_count_two=True), "vendor")
    assert fitted is not None
    head = fitted[0].text
    assert head == text or width(head + text[len(head)]) > cap


@pytest.mark.parametrize(
    ("text", "columns"),
    [("kelp", 4), ("海藻", 4), ("海a藻", 5), ("か, ガ", 6), ("해조", 4), ("？", 2), ("é", 1), ("", 0)],
)
def test_chinese_japanese_and_korean_characters_are_two_wide(text: str, columns: int) -> None:
    assert width(text) == columns


def test_words_that_would_be_cut_below_32_characters_are_not_sent() -> None:
    query = Query("kelp " * 20, include_domains=("a.example",))
    operators = site_operators(query)
    tail = len(operators[0]) + 1
    assert fit(query, Limits(query=tail + 31), "vendor", operators) is None
    fitted = fit(query, Limits(query=tail + 36), "vendor", operators)
    assert fitted is not None
    assert len(fitted[0].text) == tail + 34


def test_a_short_query_fits_beside_its_operators_however_short_it_is() -> None:
    query = Query("kelp", include_domains=("a.example",))
    fitted = fit(query, Limits(query=100), "vendor", site_operators(query))
    assert fitted is not None
    assert (fitted[0].text, fitted[1]) == ("kelp site:a.example", ())


def test_a_note_says_how_much_is_left() -> None:
    fitted = fit(Query("kelp forest canopy"), Limits(query=12), "vendor")
    assert fitted is not None
    assert (fitted[0].text, fitted[1]) == ("kelp forest", ("vendor: the query was cut to 11 characters",))


def test_domain_lists_become_operators() -> None:
    query = Query("kelp", include_domains=("a.example", "b.example"), exclude_domains=("c.example", "d.example"))
    assert site_operators(query) == ["site:a.example OR site:b.example", "-site:c.example", "-site:d.example"]
    assert site_operators(Query("kelp")) == []
