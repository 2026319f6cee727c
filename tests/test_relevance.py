"""How well results fit a query: contract §8, without anybody who understands them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.relevance import FIRST, Judged, judge
from providers._words import Query, Result

WORDS = ("peat", "bog", "moss", "泥炭", "沼泽", "useEffect", "C++", "unrelated", "2024", "the")
SENTENCE = st.lists(st.sampled_from(WORDS), max_size=6).map(" ".join)
ROW = st.builds(
    Result,
    title=SENTENCE,
    url=st.sampled_from(["https://peat.example/", "https://moss.example/bog", "https://a.example", "nonsense"]),
    snippet=SENTENCE,
    content=SENTENCE,
)
QUERY = st.lists(st.sampled_from(WORDS), min_size=1, max_size=5).map(" ".join)


def rows(*titles: str, text: str = "", host: str = "a.example") -> list[Result]:
    return [Result(title, f"https://{host}/{n}", text) for n, title in enumerate(titles)]


def level(query: str, *titles: str, text: str = "", host: str = "a.example") -> str:
    return judge(Query(query), rows(*titles, text=text, host=host)).level


@pytest.mark.parametrize(
    ("query", "titles", "text"),
    [
        ("peat bogs", ["Peat bog", "Bogs and peat"], ""),
        ("peat bogs", ["Wetlands of the north"], "Peat forms slowly in a bog."),
        (
            "python asyncio TaskGroup cancel scope",
            ["Coroutines and Tasks — Python 3.14 documentation", "Structured concurrency in asyncio"],
            "How asyncio.TaskGroup cancels the tasks of a group, and what that means for a cancel scope.",
        ),
        ("崂山道教 太清宫 历史沿革", ["太清宫（崂山道教宫观）", "崂山太清宫的历史"], "太清宫位于崂山老君峰下。"),
        ("東京の天気予報", ["東京の天気 - 週間予報", "天気予報 東京都"], ""),
        ("RTX 4090 显卡 功耗", ["RTX4090 显卡功耗实测", "显卡天梯图"], "RTX 4090 的功耗"),
        ("std::vector reserve C++", ["vector::reserve - C++ Reference"], "Reserves storage of a std::vector."),
        (
            "useEffect cleanup function",
            ["React: the useeffect hook"],
            "Return a function from useEffect to clean up; cleanup",
        ),
        ("node.js os.path", ["Path | Node.js documentation"], "os and path in NodeJS"),
    ],
)
def test_results_about_the_query_are_high(query: str, titles: list[str], text: str) -> None:
    assert level(query, *titles, text=text) == "high"


@pytest.mark.parametrize(
    ("query", "titles", "text"),
    [
        ("peat bog restoration Ireland", ["Peat", "Gardening"], "Peat for your garden."),
        ("崂山道教 太清宫 历史沿革", ["崂山旅游攻略", "崂山区"], "青岛崂山的历史"),
        ("python asyncio TaskGroup cancel scope", ["Python tutorial"], "Learn Python and asyncio."),
    ],
)
def test_results_that_touch_the_query_are_medium(query: str, titles: list[str], text: str) -> None:
    assert level(query, *titles, text=text) == "medium"


@pytest.mark.parametrize(
    ("query", "titles", "text"),
    [
        ("peat bogs", ["HBO Max | Help Center", "Sign in to YouTube"], "How to sign in to the app"),
        ("zxqv kklmno 9931", ["Free online courses", "Login"], "The best of 2026"),
        ("zzqwxjk1234 随便乱码测试", ["Activer le microphone", "Fonds suisses"], "Une page d'aide"),
        ("崂山道教 太清宫 历史沿革", ["早起有什么好处？", "如何学好英语"], "谢邀，不请自来。"),
        ("how do I drain it", ["What is this? How to do it"], "It is what it is, and I do it."),
        ("C++ templates", ["C#: a tour", "Document 12"], "Vitamin C"),
    ],
)
def test_results_about_something_else_are_low(query: str, titles: list[str], text: str) -> None:
    assert level(query, *titles, text=text) == "low"


def test_no_results_are_low() -> None:
    assert judge(Query("peat bogs"), []) == Judged("low", 0.0, ())


def test_a_query_in_which_nothing_is_seen_doubts_nothing() -> None:
    found = tuple(rows("Peat"))
    assert judge(Query("\u200b"), found) == Judged("high", 1.0, found)


def test_a_hit_in_the_title_weighs_more_than_one_in_the_text_or_the_host() -> None:
    in_title = judge(Query("peat bogs"), rows("Peat bogs")).score
    in_text = judge(Query("peat bogs"), rows("Wetlands", text="peat bogs")).score
    in_host = judge(Query("peat bogs"), rows("Wetlands", host="peat.bogs.example")).score
    assert in_title == 1.0
    assert in_title > in_text == in_host > 0


def test_the_path_of_an_address_relates_a_row_but_is_no_hit() -> None:
    row = Result("Wetlands", "https://a.example/%E6%B3%A5%E7%82%AD/peat-bogs")
    assert judge(Query("peat bogs"), [row]) == judge(Query("泥炭"), [row]) == Judged("low", 0.0, (row,))


def test_a_host_is_read_in_its_own_letters() -> None:
    assert judge(Query("münchen"), [Result("Stadt", "https://xn--mnchen-3ya.example/")]).score > 0


def test_a_long_extract_is_read_where_there_is_no_snippet() -> None:
    assert judge(Query("peat"), [Result("Wetlands", "https://a.example/", content="Peat")]).score > 0


def test_only_the_rows_that_share_a_word_are_related() -> None:
    found = rows("Peat", "HBO Max", "A bog", "Sign in", "Login", "Help", "Peat again")
    assert [row.title for row in judge(Query("peat bogs"), found).related] == ["Peat", "A bog", "Peat again"]


def test_one_good_row_of_five_is_medium_and_of_six_unread() -> None:
    other = ["Sign in"] * 4
    assert judge(Query("peat"), rows("Peat", *other)).level == "medium"
    assert judge(Query("peat"), rows("Sign in", *other, "Peat")).level == "low"


@given(QUERY, st.lists(ROW, max_size=8))
def test_a_score_is_between_none_and_all_and_decides_the_level(query: str, found: list[Result]) -> None:
    judged = judge(Query(query), found)
    assert 0 <= judged.score <= 1
    assert judged.score == round(judged.score, 2)
    assert judged.level == ("high" if judged.score >= 0.45 else "medium" if judged.score >= 0.2 else "low")
    assert set(judged.related) <= set(found)
    assert judged.related or judged.score == 0


@given(QUERY, st.lists(ROW, min_size=1, max_size=9), st.randoms(use_true_random=False))
def test_the_order_of_the_first_five_and_of_the_rest_makes_no_difference(
    query: str, found: list[Result], random
) -> None:  # type: ignore[no-untyped-def]
    first, rest = found[:FIRST], found[FIRST:]
    random.shuffle(first)
    random.shuffle(rest)
    judged, again = judge(Query(query), found), judge(Query(query), [*first, *rest])
    assert (judged.level, judged.score) == (again.level, again.score)
    assert sorted(map(repr, judged.related)) == sorted(map(repr, again.related))


@given(QUERY, st.lists(ROW, min_size=1, max_size=6), st.sampled_from(WORDS), st.integers(0, 5))
def test_another_word_in_a_title_never_lowers_the_score(query: str, found: list[Result], word: str, at: int) -> None:
    row = found[at % len(found)]
    more = Result(f"{row.title} {word}", row.url, row.snippet, row.content)
    changed = [more if each is row else each for each in found]
    assert judge(Query(query), changed).score >= judge(Query(query), found).score


@given(st.text(), st.lists(st.builds(Result, title=st.text(), url=st.text(), snippet=st.text()), max_size=3))
def test_any_text_can_be_judged(query: str, found: list[Result]) -> None:
    judged = judge(Query(query), found)
    assert 0 <= judged.score <= 1
