"""The words of a query, and whether a text shares one of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from providers._matching import LONGEST, MOST, share, terms, vocabulary, words

TEXT = st.text(st.one_of(st.characters(codec="utf-8"), st.sampled_from(' ".-_:+#泥炭の습지กขकि'))).filter(str.strip)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("peat bogs", {"peat", "bog"}),
        ("PEAT Bogs peat", {"peat", "bog"}),
        ("how to drain the bog", {"drain", "bog"}),
        ("Müller Łódź café", {"muller", "lodz", "caf"}),
        ("ＳＱＬ 注入", {"sql", "注入"}),
        ("python 3.11", {"python", "3.11", "11"}),
        ("top 10 of 2024", {"top", "10", "2024"}),
        ("C++ and C#", {"c++", "c#"}),
        ("snake_case", {"snakecase", "snak", "cas"}),
        ("useEffect", {"useeffect", "useeff", "effect"}),
        ("os.path.join", {"ospathjoin", "os", "path", "join"}),
        ("泥炭沼泽", {"泥炭", "炭沼", "沼泽"}),
        ("茶", {"茶"}),
        ("泥炭 bog 沼泽", {"泥炭", "bog", "沼泽"}),
        ("什么是熵", {"熵"}),
        ("崂山的历史", {"崂山", "历史"}),
        ("東京の天気", {"東京", "天気"}),
        ("ひらがな", {"ひら", "らが", "がな"}),
        ("ｶﾞｽ", {"ガス"}),
        ("이탄 습지", {"이탄", "습지"}),
    ],
)
def test_the_words_of_a_query_are_those_that_say_something(query: str, expected: set[str]) -> None:
    assert words(query) == expected


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("the who", {"the", "who"}),
        ("C", {"c"}),
        ("R vs Python", {"python"}),
        ("7", {"7"}),
        ("什么", {"什么"}),
        ("=> ::", {"=", ">", ":"}),
        ("🙂", {"🙂"}),
        ("site:docs.rs", {"docsrs", "doc", "rs"}),
        ("-java", {"java"}),
    ],
)
def test_words_that_say_little_count_when_there_is_nothing_else(query: str, expected: set[str]) -> None:
    assert words(query) == expected


@pytest.mark.parametrize(
    "query",
    [
        "peat bog site:a.example",
        "peat bog (site:a.example OR site:b.example) -site:c.example",
        "peat bog filetype:pdf before:2024-01-01",
        "intitle:peat bog -garden",
        'peat bog -"garden centre"',
        "peat bog NOT garden",
        '"peat bog"',
        "+peat, bog?",
    ],
)
def test_operators_and_unwanted_words_are_not_asked_for(query: str) -> None:
    assert words(query) == {"peat", "bog"}


def test_an_operator_needs_no_space_after_a_script_without_spaces() -> None:
    assert words("泥炭site:a.example") == {"泥炭"}


def test_a_flag_with_two_hyphens_is_wanted() -> None:
    assert words("git --oneline") == {"git", "onelin"}


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("peat bogs", "A bog in Ireland"),
        ("bog", "BOGS of the north"),
        ("queries", "one query"),
        ("box", "many boxes"),
        ("cached", "a cache"),
        ("parsing", "to parse"),
        ("restoration", "we restore them"),
        ("GPUs", "a GPU"),
        ("торфяные болота", "изучение торфяных почв"),
        ("cafe", "le café"),
        ("łódź", "Lodz"),
        ("İstanbul", "istanbul"),
        ("peat‑bog", "bog"),
        ("نَصّ", "نص"),
        ("می‌خواهم", "میخواهم"),
    ],
)
def test_forms_of_one_word_meet(query: str, text: str) -> None:
    assert share(words(query), text)


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("useEffect", "the useeffect hook"),
        ("useeffect", "useEffect(() => {})"),
        ("TaskGroup", "a group of tasks"),
        ("task_group", "TaskGroup"),
        ("asyncio.TaskGroup", "TaskGroup is new in asyncio"),
        ("node.js", "NodeJS"),
        ("nodejs", "Node.js"),
        ("python3", "Python 3"),
        ("iPhone 15", "iPhone15"),
        ("C++", "Templates in C++17"),
        ("c#", "C#: a tour"),
        ("notepad++", "Notepad, and others"),
        ("__init__.py", "what init does"),
        ("XMLHttpRequest", "http requests"),
        ("=>", "Arrow functions (=>)"),
    ],
)
def test_spellings_of_one_name_meet(query: str, text: str) -> None:
    assert share(words(query), text)


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("泥炭沼泽", "北方的沼泽"),
        ("茶", "绿茶的历史"),
        ("熵是什么", "熵（entropy）"),
        ("東京の天気", "天気予報"),
        ("습지 보호", "이탄습지는"),
        ("หนองน้ำ", "ในหนองน้ำจืด"),
        ("हिन्दी", "हिन्दी में"),
    ],
)
def test_scripts_without_spaces_meet_inside_longer_runs(query: str, text: str) -> None:
    assert share(words(query), text)


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("peat bogs", "HBO Max | Help Center"),
        ("zxqv kklmno 9931", "Free online courses 2026"),
        ("how to drain the bog", "How to sign in to the app"),
        ("java", "javascript"),
        ("C++", "C, a language"),
        ("C#", "C++"),
        ("3.11", "311"),
        ("崂山道教", "北京旅游攻略"),
        ("什么是熵", "为什么要早起"),
        ("python 3", "3 things to see"),
        ("हिन्दी", "हाथी"),
    ],
)
def test_other_words_do_not_meet(query: str, text: str) -> None:
    assert not share(words(query), text)


def test_any_of_several_texts_will_do() -> None:
    assert share(words("bog"), "moss", "https://bog.example/")
    assert not share(words("bog"), "moss", "https://moss.example/")


def test_without_words_nothing_is_unrelated() -> None:
    assert words(" \n") == frozenset()
    assert share(frozenset(), "moss")


def test_each_term_is_asked_for_once_in_the_order_of_the_query() -> None:
    assert terms("bog peat bogs") == (("bog",), ("peat",))


def test_an_endless_word_is_compared_by_its_beginning() -> None:
    assert max(map(len, words("x1" * 10_000))) <= LONGEST
    assert share(words("x1" * 10_000), "x1" * 20_000)


def test_an_endless_text_is_compared_by_its_beginning() -> None:
    assert share(words("bog"), "moss " * (MOST // 5 - 1) + "bog")
    assert not share(words("bog"), "moss " * (MOST // 5) + "bog")


@given(TEXT)
def test_a_query_shares_its_words_with_itself(text: str) -> None:
    asked = words(text)
    assert share(asked, text)
    assert share(asked, f"moss {text} moss")


@given(st.text("abcXYZ019._-+# éÜ泥炭の", min_size=1))
def test_case_makes_no_difference(text: str) -> None:
    assert share(words(text), text.lower())
    assert share(words(text), text.upper())


@given(st.text(), st.text())
def test_more_text_has_no_fewer_words(one: str, other: str) -> None:
    assert vocabulary(one) | vocabulary(other) <= vocabulary(f"{one} {other}")
