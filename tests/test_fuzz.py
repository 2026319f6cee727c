"""Any body at all, in any vendor's adapter: never an exception, and one bad row costs one row."""

from __future__ import annotations

import copy
import functools
import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from providers import HTTPProvider, Outcome, Reply, Wire
from tests.test_hostile import BROWSERS, FACES, QUERY, check, face
from tests.vendors import Request, success
from tests.vendors.cloned import clone

FUZZ = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
NOW = 1_796_000_000.0

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(st.characters(exclude_categories=()), max_size=20),
    st.sampled_from(
        ["", "200", "403", "https://[bad", "http://a.example:99999/", "javascript:1", "\ud800", "2026-99-99"]
    ),
    st.sampled_from(["RATE_LIMITED", "<b>", "&#xD800;", "<think>", "[x](", "9" * 400, "completed", "failed"]),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)

ROWS = {
    "bocha": [("data", "webPages", "value")],
    "tavily": [("results",)],
    "brave": [("web", "results")],
    "exa": [("results",)],
    "searxng": [("results",)],
    "grok": [("output", 1, "content", 0, "annotations"), ("citations",)],
}
"""Where the rows of a good reply stand, for those that are not played from their recordings."""


def good(name: str) -> Wire:
    """The vendor's good reply, as it would arrive."""
    provider, key = face(name, f"http://127.0.0.1:1/{name}")
    draft = provider.draft(QUERY, key)
    assert not isinstance(draft, Reply)
    sent = draft.request
    head = "\r\n".join(f"{each}: {value}" for each, value in sent.headers.items()).encode()
    play = success(name)(Request(name, sent.method, str(sent.url), head, sent.read()))
    return Wire(200, play.headers, play.body, NOW)


@functools.cache
def reader(name: str) -> HTTPProvider:
    return face(name, f"http://127.0.0.1:1/{name}")[0]


def read(name: str, wire: Wire) -> Reply:
    reply = reader(name).read(wire)
    check(reply)
    return reply


def as_body(value: object) -> bytes:
    return json.dumps(value).encode()


def paths(value: Any, here: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Every place inside `value`."""
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, inner in members:
        yield (*here, name)
        yield from paths(inner, (*here, name))


def replaced(value: Any, path: tuple[str | int, ...], new: object) -> Any:
    """A copy of `value` with `new` at `path`."""
    whole = copy.deepcopy(value)
    at = whole
    for step in path[:-1]:
        at = at[step]
    at[path[-1]] = new
    return whole


def places(name: str) -> list[tuple[str | int, ...]]:
    """Where the rows of a good reply stand."""
    return ROWS[name] if name in ROWS else [clone(name).rows]


def hit(name: str, path: tuple[str | int, ...]) -> int | None:
    """The number of the row that a change at `path` damages; None when it damages more."""
    for rows in places(name):
        if path[: len(rows)] == rows and len(path) > len(rows):
            return int(path[len(rows)])
    return None


@pytest.mark.parametrize("name", [name for name in FACES if name not in (*BROWSERS, "grok_relay")])
def test_a_bad_member_costs_its_row_and_no_other(name: str) -> None:
    wire = good(name)
    body = json.loads(wire.body)
    whole = [row.url for row in read(name, wire).results]
    assert len(whole) == 5

    @FUZZ
    @given(st.sampled_from(sorted(paths(body), key=repr)), VALUES)
    def try_one(path: tuple[str | int, ...], new: object) -> None:
        reply = read(name, Wire(200, wire.headers, as_body(replaced(body, path, new)), NOW))
        row = hit(name, path)
        if row is not None:
            assert reply.outcome is Outcome.OK, reply
            kept = {each.url for each in reply.results}
            assert not [url for n, url in enumerate(whole) if n != row and url not in kept]

    try_one()


@pytest.mark.parametrize("name", [name for name in FACES if name not in (*BROWSERS, "grok_relay")])
@pytest.mark.parametrize("error", [{"code": "wording invented", "message": "wording invented"}, "wording invented"])
def test_an_error_that_no_row_knows_is_no_honest_nothing_beside_an_empty_list(name: str, error: object) -> None:
    wire = good(name)
    body = json.loads(wire.body)
    for place in places(name):
        body = replaced(body, place, [])
    reply = read(name, Wire(200, wire.headers, as_body({**body, "error": error}), NOW))
    assert reply.outcome not in (Outcome.OK, Outcome.NO_RESULTS), reply


@FUZZ
@given(st.integers(100, 999), VALUES, st.text(st.characters(max_codepoint=255), max_size=30))
@example(429, None, "0\x1f")  # white space to a pattern, none to int()
def test_any_json_under_any_status_has_an_outcome(status: int, body: object, waiting: str) -> None:
    headers = {"content-type": "application/json", "retry-after": waiting, "x-ratelimit-reset": waiting}
    headers |= {"x-ratelimit-policy": waiting, "x-ratelimit-remaining": waiting, "x-ratelimit-limit": waiting}
    for name in FACES:
        reply = read(name, Wire(status, headers, as_body(body), NOW))
        assert 200 <= status < 300 or reply.outcome not in (Outcome.OK, Outcome.NO_RESULTS), name


WORDS = ("error", "errors", "detail", "message", "code", "tag", "status", "results", "data", "web", "type")
ERRORS = st.fixed_dictionaries({}, optional=dict.fromkeys(WORDS, VALUES))


INNER = ("code", "detail", "errors", "loc", "message", "meta", "retry_after_seconds", "status")


@FUZZ
@given(
    st.sampled_from([200, 202, 400, 402, 403, 422, 429, 500]),
    ERRORS,
    st.fixed_dictionaries({}, optional=dict.fromkeys(INNER, VALUES)),
)
def test_any_error_envelope_has_an_outcome(status: int, body: dict[str, object], error: dict[str, object]) -> None:
    for name in FACES:
        read(name, Wire(status, {"content-type": "application/json"}, as_body({"error": error, **body}), NOW))
        read(name, Wire(status, {"content-type": "application/json"}, as_body({**body, "error": error}), NOW))


@pytest.mark.parametrize("name", FACES)
def test_any_bytes_are_a_reply(name: str) -> None:
    whole = good(name).body
    kinds = ["", "text/html", "application/json", "text/event-stream", "text/html; charset=utf-16", "x; charset=\0"]

    @FUZZ
    @given(
        st.sampled_from(kinds),
        st.integers(0, len(whole)),
        st.integers(0, 200),
        st.binary(max_size=60) | st.sampled_from([b"<", b">", b'"', b"'", b"\\", b"&#xD800;", b"data: {", b"\r\r"]),
    )
    def try_one(kind: str, at: int, size: int, noise: bytes) -> None:
        body = whole[:at] + noise + whole[at + size :]
        read(name, Wire(200, {"content-type": kind}, body, NOW))
        read(name, Wire(200, {"content-type": kind}, noise, NOW))

    try_one()


@pytest.mark.parametrize("name", ["duckduckgo"])
def test_a_damaged_row_of_a_page_costs_no_row_before_it(name: str) -> None:
    wire = good(name)
    whole = [row.url for row in read(name, wire).results]
    marks = [at for at in range(len(wire.body)) if wire.body.startswith(b'class="result ', at)]

    @FUZZ
    @given(st.integers(1, 4), st.integers(0, 300), st.binary(max_size=40))
    def try_one(row: int, further: int, noise: bytes) -> None:
        at = marks[row] + further
        body = wire.body[:at] + noise + wire.body[at + len(noise) :]
        kept = [each.url for each in read(name, Wire(200, wire.headers, body, NOW)).results]
        assert kept[:row] == whole[:row]

    try_one()
