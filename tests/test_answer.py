"""The wire shape: everything fits its schema, and the text fits its room."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway import answer
from gateway.query import input_schema
from gateway.status import STATUS_SCHEMA
from gateway.steps import Step, verdict
from providers import Query, Result

VALID = jsonschema.Draft202012Validator(answer.OUTPUT_SCHEMA)

FOUND: dict[str, Any] = {
    "results": [
        {
            "title": "Tides",
            "url": "https://tides.example/a",
            "snippet": "High water.",
            "publishedDate": "2026-09-18T00:00:00",
            "provider": "brave",
        },
        {"title": "t", "url": "http://x.example", "content": "long", "provider": "brave", "truncated": True},
    ],
    "answer": "At noon.",
    "meta": {
        "verdict": "found",
        "provider_used": "brave",
        "fallback_chain": [
            {"provider": "bocha", "outcome": "quota_exhausted", "detail": "http_403", "elapsedMs": 13, "key": "#1"},
            {"provider": "tavily", "outcome": "skipped:rate_limited", "detail": "42s"},
        ],
        "cache_hit": True,
        "cache_age_s": 3,
        "stale": True,
        "elapsed_ms": 14,
        "search_id": "0123456789abcdef0123456789abcdef",
        "note": "cut",
        "retry_after_s": 4,
        "relevance": "high",
        "filters": {"include_domains": {"by": "provider", "dropped": 2}, "freshness": {"by": "nobody", "dropped": 0}},
        "merged_from": ["exa"],
        "truncated": True,
    },
}


def test_an_answer_with_every_field_there_is_satisfies_the_output_schema() -> None:
    VALID.validate(FOUND)


def _without(*path: str | int) -> Callable[[Any], None]:
    def change(whole: Any) -> None:
        for part in path[:-1]:
            whole = whole[part]
        del whole[path[-1]]

    return change


def _with(value: object, *path: str | int) -> Callable[[Any], None]:
    def change(whole: Any) -> None:
        for part in path[:-1]:
            whole = whole[part]
        whole[path[-1]] = value

    return change


MUTATIONS: Mapping[str, Callable[[Any], None]] = {
    "results missing": _without("results"),
    "meta missing": _without("meta"),
    "a null date": _with(None, "results", 0, "publishedDate"),
    "an empty title": _with("", "results", 0, "title"),
    "a link that is no web page": _with("javascript:alert(1)", "results", 0, "url"),
    "a result that names no provider": _without("results", 0, "provider"),
    "a verdict that does not exist": _with("ok", "meta", "verdict"),
    "a time in words": _with("14 ms", "meta", "elapsed_ms"),
    "a step without outcome": _without("meta", "fallback_chain", 0, "outcome"),
    "a chain that is no list": _with({}, "meta", "fallback_chain"),
    "a search id that can be guessed": _with("1", "meta", "search_id"),
    "a wait of no seconds": _with(0, "meta", "retry_after_s"),
    "notes as a list": _with(["cut"], "meta", "note"),
    "an unknown enforcer": _with("me", "meta", "filters", "freshness", "by"),
    "an answer that is an object": _with({}, "answer"),
    "a title over 300 characters": _with("x" * 301, "results", 0, "title"),
}


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_mutated_answer_does_not_satisfy_the_output_schema(name: str) -> None:
    mutant = copy.deepcopy(FOUND)
    MUTATIONS[name](mutant)
    with pytest.raises(jsonschema.ValidationError):
        VALID.validate(mutant)


def _members(schema: object) -> list[dict[str, Any]]:
    """Every schema inside a schema."""
    if isinstance(schema, list):
        return [found for each in schema for found in _members(each)]
    if not isinstance(schema, dict):
        return []
    return [schema, *(found for value in schema.values() for found in _members(value))]


@pytest.mark.parametrize(
    "schema",
    [
        answer.OUTPUT_SCHEMA,
        STATUS_SCHEMA,
        input_schema(debug=False, provider_names=("brave",)),
        input_schema(debug=True, provider_names=("brave",)),
    ],
    ids=["output", "status", "input", "input in debugging"],
)
def test_the_schemas_use_only_what_every_host_understands(schema: dict[str, Any]) -> None:
    jsonschema.Draft202012Validator.check_schema(schema)
    refused = {"$ref", "$defs", "$schema", "anyOf", "oneOf", "allOf", "const", "format", "additionalProperties"}
    for part in _members(schema):
        if "properties" in part and not isinstance(part.get("type"), str):
            continue  # a map of properties, one of which is called "properties"
        assert not refused & part.keys()
        assert part.get("type") != "null"
        assert not isinstance(part.get("type"), list)
        if part.get("type") == "array":
            assert "items" in part


def test_every_field_of_the_answer_is_typed() -> None:
    def typed(schema: dict[str, Any], path: str) -> None:
        assert isinstance(schema.get("type"), str), path
        for name, part in schema.get("properties", {}).items():
            typed(part, f"{path}.{name}")
        if "items" in schema:
            typed(schema["items"], f"{path}[]")

    typed(answer.OUTPUT_SCHEMA, "answer")


# ---------------------------------------------------------------------------------------------------------------------
# room


@given(st.lists(st.integers(0, 60_000), max_size=20), st.integers(0, 20_000))
def test_shares_fit_the_room_and_leave_short_texts_whole(lengths: list[int], room: int) -> None:
    granted = answer.shares(lengths, room)
    assert all(0 <= share <= length for share, length in zip(granted, lengths, strict=True))
    assert sum(granted) <= max(room, 0)
    if sum(lengths) <= room:
        assert granted == lengths
    for share, length in zip(granted, lengths, strict=True):
        if length <= room // max(len(lengths), 1):
            assert share == length


def test_long_texts_are_cut_in_proportion() -> None:
    assert answer.shares([100, 30_000, 60_000], 9_100) == [100, 3_000, 6_000]


def test_twenty_texts_of_fifty_thousand_characters_fit_and_every_address_stays_whole() -> None:
    results = [
        Result(f"title {at}", f"https://host.example/{'x' * 1500}/{at}", content="word " * 10_000) for at in range(20)
    ]
    rows, written, cut = answer.text_parts(results, "", "exa", 12_000)
    assert cut
    assert written == ""
    assert [row["url"] for row in rows] == [result.url for result in results]
    assert all(row["truncated"] is True for row in rows)
    sizes = [len(row["content"]) for row in rows]
    assert sum(sizes) <= 12_000
    assert min(sizes) > 500


def test_the_written_answer_gets_at_most_two_thirds_of_the_room_and_ends_with_a_sentence() -> None:
    long = "This is one sentence of several. " * 500
    rows, written, cut = answer.text_parts([Result("t", "https://x.example", snippet="s" * 5000)], long, "grok", 3000)
    assert cut
    assert 1900 < len(written) <= 2000
    assert written.endswith("several.")
    assert len(written) + len(rows[0]["snippet"]) <= 3000


def test_text_is_in_content_or_in_snippet_never_in_both() -> None:
    rows, _, _ = answer.text_parts(
        [Result("a", "https://a.example", snippet="short"), Result("b", "https://b.example", content="long")],
        "",
        "x",
        100,
    )
    assert "snippet" in rows[0]
    assert "content" not in rows[0]
    assert "content" in rows[1]
    assert "snippet" not in rows[1]
    bare, _, _ = answer.text_parts([Result("a", "https://a.example")], "", "x", 100)
    assert bare == [{"title": "a", "url": "https://a.example", "provider": "x"}]


# ---------------------------------------------------------------------------------------------------------------------
# verdicts and words

HONEST = Step("a", "no_results", "http_200")
LOOSE = Step("b", "no_results", "off_site", enforced=False)
HELD = Step("b", "no_results", "off_site", enforced=True)
UNGROUNDED = Step("c", "no_results", "ungrounded")
BROKEN = Step("d", "timeout")
PASSED = Step("e", "skipped:quota_local", "5/5")


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ((HONEST,), "empty"),
        ((HONEST, HELD), "empty"),
        ((HONEST, LOOSE), "incomplete"),
        ((LOOSE,), "incomplete"),
        ((HONEST, BROKEN), "incomplete"),
        ((PASSED, HONEST), "incomplete"),
        ((HONEST, UNGROUNDED), "incomplete"),
        ((UNGROUNDED,), "failed"),
        ((BROKEN, PASSED), "failed"),
        ((BROKEN, UNGROUNDED), "failed"),
        ((), "failed"),
    ],
)
def test_the_verdict_follows_the_table(steps: tuple[Step, ...], expected: str) -> None:
    assert verdict(steps, found=False) == expected
    assert verdict(steps, found=True) == "found"
    assert answer.is_error(verdict(steps, found=False)) is (expected in ("incomplete", "failed"))


def test_empty_incomplete_and_failed_never_share_their_wording_and_name_a_next_step() -> None:
    query = Query("x", freshness="day")
    empty = answer.no_results_note("empty", (HONEST,), query, None)
    incomplete = answer.no_results_note("incomplete", (HONEST, BROKEN), query, 42)
    failed = answer.no_results_note("failed", (BROKEN,), query, None)
    assert empty.startswith("No results")
    assert "freshness" in empty
    assert incomplete.startswith("Search incomplete")
    assert "42 s" in incomplete
    assert failed.startswith("Search failed")
    assert "operator" in failed
    assert "No results" not in incomplete + failed
