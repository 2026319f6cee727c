"""What Zhipu, DeepSeek and Qianfan are sent: fields, caps, keys, addresses. Nothing leaves this process."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import providers
from providers import Draft, Outcome, Query, Reply, Settings, Wire
from providers._cutting import width
from providers._words import FRESHNESS

KEY = "canary-key-5fb1e0"
NOW = datetime.fromisoformat("2026-11-30T20:00:00+00:00").timestamp()
"""In Beijing it is the first of December already."""

VENDORS = ("zhipu", "deepseek", "qianfan")
TWO = ("a.example", "b.example")


def drafted(name: str, query: Query, *, base_url: str | None = None, **options: Any) -> Draft | Reply:
    return providers.find(name)(Settings(base_url=base_url, options=options), clock=lambda: NOW).draft(query, KEY)


def draft(name: str, query: Query, **settings: Any) -> Draft:
    made = drafted(name, query, **settings)
    assert isinstance(made, Draft), made
    return made


def sent(name: str, query: Query, **settings: Any) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(draft(name, query, **settings).request.content)
    return body


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("zhipu", {"search_query": "kelp", "search_engine": "search_std", "search_intent": False, "count": 8}),
        ("deepseek", {"query": "kelp", "count": 8}),
        (
            "qianfan",
            {
                "messages": [{"role": "user", "content": "kelp"}],
                "search_source": "baidu_search_v2",
                "edition": "standard",
                "resource_type_filter": [{"type": "web", "top_k": 8}],
            },
        ),
    ],
)
def test_a_plain_query_is_sent_with_nothing_that_was_not_asked(name: str, fields: dict[str, Any]) -> None:
    assert sent(name, Query("kelp")) == fields
    assert draft(name, Query("kelp")).notes == ()


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        (
            "zhipu",
            {
                "search_query": "kelp forest",
                "search_engine": "search_std",
                "search_intent": False,
                "count": 5,
                "search_recency_filter": "oneWeek",
                "search_domain_filter": "a.example",
            },
        ),
        ("deepseek", {"query": "kelp forest site:a.example -site:c.example after:2026-11-23", "count": 5}),
        (
            "qianfan",
            {
                "messages": [{"role": "user", "content": "kelp forest"}],
                "search_source": "baidu_search_v2",
                "edition": "standard",
                "resource_type_filter": [{"type": "web", "top_k": 5}],
                "search_filter": {"match": {"site": ["a.example"]}},
                "search_recency_filter": "week",
            },
        ),
    ],
)
def test_everything_asked_is_sent_in_the_vendors_words(name: str, fields: dict[str, Any]) -> None:
    assert sent(name, Query("kelp forest", 5, "week", ("a.example",), ("c.example",))) == fields


@pytest.mark.parametrize(
    ("name", "url"),
    [
        ("zhipu", "https://open.bigmodel.cn/api/paas/v4/web_search"),
        ("deepseek", "https://api.deepseek.com/v1/tools/search"),
        ("qianfan", "https://qianfan.baidubce.com/v2/ai_search/web_search"),
    ],
)
def test_the_key_travels_in_one_header_to_the_vendors_own_address(name: str, url: str) -> None:
    made = draft(name, Query("kelp"))
    assert (made.request.method, str(made.request.url)) == ("POST", url)
    assert [each for each, said in made.request.headers.items() if KEY in said] == ["authorization"]
    assert made.request.headers["authorization"] == f"Bearer {KEY}"
    assert made.request.headers["content-type"] == "application/json"
    assert KEY.encode() not in made.request.content


@pytest.mark.parametrize(
    ("name", "bases", "url"),
    [
        (
            "zhipu",
            ("https://api.z.ai", "https://api.z.ai/", "https://api.z.ai/api/paas/v4", "https://api.z.ai/api/paas/v4/"),
            "https://api.z.ai/api/paas/v4/web_search",
        ),
        (
            "deepseek",
            ("http://relay.example/ds", "http://relay.example/ds/v1", "http://relay.example/ds/v1/tools/search"),
            "http://relay.example/ds/v1/tools/search",
        ),
        (
            "qianfan",
            ("http://relay.example", "http://relay.example/v2/", "http://relay.example/v2/ai_search/web_search/"),
            "http://relay.example/v2/ai_search/web_search",
        ),
    ],
)
def test_spellings_of_a_base_url_are_one_address(name: str, bases: tuple[str, ...], url: str) -> None:
    assert {str(draft(name, Query("kelp"), base_url=base).request.url) for base in bases} == {url}


def test_no_vendor_is_asked_for_more_rows_than_it_gives() -> None:
    query = Query("kelp", max_results=70)
    assert (sent("zhipu", query)["count"], sent("deepseek", query)["count"]) == (50, 50)
    assert sent("qianfan", query)["resource_type_filter"] == [{"type": "web", "top_k": 50}]


@pytest.mark.parametrize("name", VENDORS)
def test_only_a_vendor_on_the_list_is_asked(name: str) -> None:
    assert providers.find(name).joins == "if_listed"


# ---------------------------------------------------------------------------------------------------------------------
# freshness


def test_zhipu_has_a_word_for_each_freshness() -> None:
    asked = [sent("zhipu", Query("kelp", freshness=each))["search_recency_filter"] for each in FRESHNESS]
    assert asked == ["oneDay", "oneWeek", "oneMonth", "oneYear"]


def test_deepseek_counts_freshness_back_from_its_clock() -> None:
    asked = [sent("deepseek", Query("kelp", freshness=each))["query"] for each in FRESHNESS]
    assert asked == [f"kelp after:{day}" for day in ("2026-11-29", "2026-11-23", "2026-10-30", "2025-11-29")]


def test_qianfan_has_no_word_for_a_day_and_gets_the_date_in_beijing() -> None:
    body = sent("qianfan", Query("kelp", freshness="day", include_domains=TWO))
    assert body["search_filter"] == {
        "match": {"site": ["a.example", "b.example"]},
        "range": {"page_time": {"gte": "2026-11-30"}},
    }
    assert "search_recency_filter" not in body


def test_qianfan_has_words_for_the_other_three() -> None:
    bodies = [sent("qianfan", Query("kelp", freshness=each)) for each in ("week", "month", "year")]
    assert [body["search_recency_filter"] for body in bodies] == ["week", "month", "year"]
    assert not [body for body in bodies if "search_filter" in body]


# ---------------------------------------------------------------------------------------------------------------------
# domains


@pytest.mark.parametrize(
    ("include", "exclude", "notes"),
    [
        (("a.example",), (), ()),
        (TWO, (), ("zhipu: takes a single domain, so it was not told of the list",)),
        ((), ("c.example",), ("zhipu: cannot leave domains out, so it was not told of them",)),
    ],
)
def test_zhipu_says_which_domains_it_was_not_told_of(
    include: tuple[str, ...], exclude: tuple[str, ...], notes: tuple[str, ...]
) -> None:
    query = Query("kelp", include_domains=include, exclude_domains=exclude)
    assert draft("zhipu", query).notes == notes
    assert sent("zhipu", query).get("search_domain_filter") == ("a.example" if include == ("a.example",) else None)


def test_qianfan_says_that_it_was_not_told_whom_to_leave_out() -> None:
    query = Query("kelp", include_domains=("a.example",), exclude_domains=TWO)
    assert draft("qianfan", query).notes == ("qianfan: was not told of the domains to leave out",)
    assert b"b.example" not in draft("qianfan", query).request.content


def test_deepseek_gets_a_list_as_operators() -> None:
    assert sent("deepseek", Query("kelp", include_domains=TWO))["query"] == "kelp site:a.example OR site:b.example"
    assert sent("deepseek", Query("kelp", exclude_domains=TWO))["query"] == "kelp -site:a.example -site:b.example"


# ---------------------------------------------------------------------------------------------------------------------
# caps


def test_zhipu_takes_70_characters() -> None:
    assert sent("zhipu", Query("海" * 70))["search_query"] == "海" * 70
    made = draft("zhipu", Query("海" * 71))
    assert json.loads(made.request.content)["search_query"] == "海" * 70
    assert made.notes == ("zhipu: the query was cut to 70 characters",)


def test_deepseek_takes_128_characters_and_operators_are_among_them() -> None:
    assert sent("deepseek", Query("k" * 128))["query"] == "k" * 128
    made = draft("deepseek", Query("kelp " * 40, freshness="week", include_domains=TWO))
    text = json.loads(made.request.content)["query"]
    assert len(text) <= 128
    assert text.endswith("kelp site:a.example OR site:b.example after:2026-11-23")
    assert made.notes == (f"deepseek: the query was cut to {text.index(' site:')} characters",)


@pytest.mark.parametrize("hosts", [3, 12])
def test_deepseek_is_not_asked_when_its_operators_leave_too_little_for_the_words(hosts: int) -> None:
    include = tuple(f"a-rather-long-name-{n:02}.example" for n in range(hosts))
    reply = drafted("deepseek", Query("kelp forest canopy along the coast of california", include_domains=include))
    assert isinstance(reply, Reply)
    assert (reply.outcome, reply.row) == (Outcome.REQUEST_ERROR, "nothing sent")


@pytest.mark.parametrize(
    ("text", "kept"), [("海" * 40, 36), ("k" * 80, 72), ("k" * 36 + "海" * 20, 54), ("海" * 36, 36), ("か？" * 20, 36)]
)
def test_qianfan_takes_72_characters_of_which_chinese_ones_are_two(text: str, kept: int) -> None:
    made = draft("qianfan", Query(text))
    assert json.loads(made.request.content)["messages"] == [{"role": "user", "content": text[:kept]}]
    assert bool(made.notes) == (kept < len(text))


@given(st.text(st.sampled_from("ab 海藻\u3000か？é"), min_size=1, max_size=400).map(str.strip).filter(bool))
def test_no_cap_is_passed_whatever_is_asked(text: str) -> None:
    assert len(sent("zhipu", Query(text))["search_query"]) <= 70
    assert len(sent("deepseek", Query(text))["query"]) <= 128
    assert width(sent("qianfan", Query(text))["messages"][0]["content"]) <= 72


# ---------------------------------------------------------------------------------------------------------------------
# options


@pytest.mark.parametrize(
    ("name", "options", "field", "value"),
    [
        ("zhipu", {"engine": "search_pro"}, "search_engine", "search_pro"),
        ("zhipu", {"engine": "search-prime"}, "search_engine", "search-prime"),
        ("zhipu", {"content_size": "high"}, "content_size", "high"),
        ("qianfan", {"edition": "lite"}, "edition", "lite"),
    ],
)
def test_an_option_reaches_the_vendor(name: str, options: dict[str, Any], field: str, value: str) -> None:
    assert sent(name, Query("kelp"), **options)[field] == value
    assert set(options) <= set(providers.find(name).options)


@pytest.mark.parametrize(("asked", "count"), [(1, 10), (8, 10), (10, 10), (11, 20), (20, 20), (41, 50), (70, 50)])
def test_sogou_is_asked_for_rows_by_the_ten(asked: int, count: int) -> None:
    assert sent("zhipu", Query("kelp", max_results=asked), engine="search_pro_sogou")["count"] == count
    assert sent("zhipu", Query("kelp", max_results=asked), engine="search_pro_quark")["count"] == min(asked, 50)


# ---------------------------------------------------------------------------------------------------------------------
# replies


def test_a_great_many_signs_of_life_before_an_answer_cost_no_time_to_speak_of() -> None:
    body = ": keep-alive\n\n" * 100_000 + '{"results": [{"title": "Kelp", "url": "https://kelp.example/"}]}'
    reply = providers.find("deepseek")().read(Wire(200, {}, body.encode(), NOW))
    assert [row.title for row in reply.results] == ["Kelp"]


@pytest.mark.parametrize(
    ("name", "body", "message"),
    [
        ("zhipu", '{"error": {"code": "1113", "message": "余额不足"}}', "余额不足"),
        ("zhipu", "[1302][too often][a1]", "[1302][too often][a1]"),
        ("deepseek", '{"error": {"message": "Insufficient Balance"}}', "Insufficient Balance"),
        ("qianfan", '{"requestId": "r", "code": "QuotaLimitExceeded", "message": "a"}', "a"),
        ("qianfan", '{"error": {"code": "invalid_argument", "message": "b"}}', "b"),
        ("qianfan", '{"error_code": 18, "error_msg": "c"}', "c"),
    ],
)
def test_the_vendors_own_sentence_is_found_in_every_shape(name: str, body: str, message: str) -> None:
    assert providers.find(name)().read(Wire(400, {}, body.encode(), NOW)).message == message
