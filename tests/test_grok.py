"""What Grok is asked on either route, and how answers, sources and streams are read."""

from __future__ import annotations

import json
import time
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from providers import Draft, Outcome, Query, Reply, Settings, Wire
from providers.grok import Grok
from providers.grok._links import links, without_sources, without_thoughts

NOON = 1796040000.0  # 2026-11-30 12:00 UTC
RELAY = Settings(address="https://relay.example")


def drafted(query: Query, settings: Settings | None = None) -> Draft:
    draft = Grok(settings, clock=lambda: NOON).draft(query, "xai-key")
    assert isinstance(draft, Draft)
    return draft


def body(query: Query, settings: Settings | None = None) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(drafted(query, settings).request.content)
    return found


def read(text: str, content_type: str = "text/event-stream", status: int = 200) -> Reply:
    return Grok(RELAY, clock=lambda: NOON).read(Wire(status, {"content-type": content_type}, text.encode(), NOON))


def said(text: str) -> Reply:
    return read(json.dumps({"choices": [{"message": {"content": text}}]}), "application/json")


def urls(reply: Reply) -> list[str]:
    return [row.url for row in reply.results]


# ---------------------------------------------------------------------------------------------------------------------
# asking


def test_xai_is_asked_for_a_response_with_its_search_tool() -> None:
    draft = drafted(Query("ferry"))
    assert str(draft.request.url) == "https://api.x.ai/v1/responses"
    assert draft.request.headers["authorization"] == "Bearer xai-key"
    sent = body(Query("ferry"))
    assert sent.keys() == {"model", "input", "stream", "tools"}
    assert (sent["model"], sent["stream"], sent["tools"]) == ("grok-4.7", False, [{"type": "web_search"}])
    assert sent["input"][-1] == {"role": "user", "content": "ferry"}


def test_a_relay_is_asked_for_a_streamed_chat_without_the_retired_search_parameters() -> None:
    assert str(drafted(Query("ferry"), RELAY).request.url) == "https://relay.example/v1/chat/completions"
    sent = body(Query("ferry"), RELAY)
    assert sent.keys() == {"model", "messages", "stream"}
    assert sent["stream"] is True


@pytest.mark.parametrize(
    ("settings", "url"),
    [
        (Settings(address="https://relay.example/v1"), "https://relay.example/v1/chat/completions"),
        (Settings(address="https://relay.example/v1/chat/completions"), "https://relay.example/v1/chat/completions"),
        (Settings(address="https://relay.example/api/v1/"), "https://relay.example/api/v1/chat/completions"),
        (Settings(address="https://api.x.ai/v1"), "https://api.x.ai/v1/responses"),
        (Settings(base_url="http://127.0.0.1:1"), "http://127.0.0.1:1/v1/responses"),
        (
            Settings(base_url="http://127.0.0.1:1/v1", address="https://relay.example"),
            "http://127.0.0.1:1/v1/chat/completions",
        ),
        (Settings(base_url="http://127.0.0.1:1", address="https://api.x.ai"), "http://127.0.0.1:1/v1/responses"),
        (Settings(address="https://relay.example", options={"api": "responses"}), "https://relay.example/v1/responses"),
        (Settings(base_url="http://127.0.0.1:1", options={"api": "chat"}), "http://127.0.0.1:1/v1/chat/completions"),
    ],
)
def test_the_address_decides_the_route_unless_the_option_does(settings: Settings, url: str) -> None:
    assert str(drafted(Query("ferry"), settings).request.url) == url


@pytest.mark.parametrize("model", ["x-ai/grok-4.7", "x-ai/grok-4.7:online"])
def test_openrouter_gets_the_suffix_that_makes_it_search(model: str) -> None:
    settings = Settings(address="https://openrouter.ai/api/v1", options={"model": model})
    assert body(Query("ferry"), settings)["model"] == "x-ai/grok-4.7:online"


FIVE = ("a.example", "b.example", "c.example", "d.example", "e.example")
WORDS = "grok: domains beyond its own filter were only asked for in words"


@pytest.mark.parametrize(
    ("query", "filters", "notes"),
    [
        (Query("q", include_domains=FIVE), {"allowed_domains": list(FIVE)}, ()),
        (Query("q", exclude_domains=FIVE), {"excluded_domains": list(FIVE)}, ()),
        (Query("q", include_domains=(*FIVE, "f.example")), None, (WORDS,)),
        (Query("q", exclude_domains=(*FIVE, "f.example")), {"excluded_domains": list(FIVE)}, (WORDS,)),
        (
            Query("q", include_domains=FIVE[:1], exclude_domains=("x.a.example",)),
            {"allowed_domains": ["a.example"]},
            (WORDS,),
        ),
    ],
)
def test_the_tool_is_held_to_one_list_of_at_most_five_hosts(
    query: Query, filters: dict[str, list[str]] | None, notes: tuple[str, ...]
) -> None:
    assert body(query)["tools"][0].get("filters") == filters
    assert drafted(query).notes == notes
    prompt = body(query)["input"][0]["content"]
    assert all(host in prompt for host in (*query.include_domains, *query.exclude_domains))


def test_a_relay_is_held_to_no_host_and_says_so() -> None:
    assert Grok(RELAY).domains == 0
    assert Grok().domains == Grok.domains == 5
    assert drafted(Query("q", include_domains=FIVE), RELAY).notes == (WORDS,)


def test_posts_on_x_are_searched_when_asked_for_and_from_a_date() -> None:
    settings = Settings(options={"x_search": True})
    assert body(Query("q"), settings)["tools"] == [{"type": "web_search"}, {"type": "x_search"}]
    assert body(Query("q", freshness="week"), settings)["tools"][1] == {"type": "x_search", "from_date": "2026-11-23"}


def test_the_prompt_says_when_and_where_it_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        prompt = body(Query("q", freshness="day"), RELAY)["messages"][0]["content"]
    finally:
        monkeypatch.undo()
        time.tzset()
    assert "2026-11-30 21:00, time zone JST (UTC+0900)" in prompt
    assert "past day, from 2026-11-29 on" in prompt


# ---------------------------------------------------------------------------------------------------------------------
# streams

PIECES = (
    "<think>see https://noise.example/</think>",
    "It runs [A](https://a.example/x_(y)). ",
    "渡轮\u2028恢复 \x85 ",
    "[B](https://b.example/)",
)


@given(
    cuts=st.lists(st.integers(0, len("".join(PIECES))), max_size=12),
    newline=st.sampled_from(["\n", "\r\n", "\r"]),
    lead=st.sampled_from(["data: ", "data:", "data:  "]),
    between=st.sampled_from(["", "\n", ": ping\n\n", "event: message\n", "\n\n"]),
    end=st.sampled_from(
        ["", "data: [DONE]\n\n", "data:[DONE]", "event: done\ndata:\n\n", 'event: end\ndata: {"choices": null}\n\n']
    ),
    bom=st.booleans(),
    parts=st.booleans(),
)
def test_a_stream_means_the_same_however_it_is_cut_and_spelled(
    cuts: list[int], newline: str, lead: str, between: str, end: str, bom: bool, parts: bool
) -> None:
    whole = "".join(PIECES)
    at = [0, *sorted(cuts), len(whole)]
    pieces = [whole[start:stop] for start, stop in pairwise(at)]
    contents: list[Any] = [[{"type": "text", "text": piece}] if parts else piece for piece in pieces]
    chunks = [json.dumps({"choices": [{"delta": {"content": content}}]}, ensure_ascii=False) for content in contents]
    text = "".join(f"{lead}{chunk}\n{between}" for chunk in chunks) + "\n" + end
    reply = read("\ufeff" * bom + text.replace("\n", newline))
    assert urls(reply) == ["https://a.example/x_(y)", "https://b.example/"]
    assert reply.answer == without_sources(without_thoughts(whole))


@given(st.text(alphabet='dat:even {}[]"\n\r,x', max_size=200))
def test_no_stream_makes_the_reading_raise(noise: str) -> None:
    good = 'data: {"choices": [{"delta": {"content": "[A](https://a.example/)"}}]}\n\n'
    for text in (noise, good + noise, "data:" + noise + good):
        assert read(text).outcome in set(Outcome)


# ---------------------------------------------------------------------------------------------------------------------
# answers


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ('It runs.citation_card("A", "https://a.example/") More.', "It runs. More."),
        ('One.\n\nTwo.\n\nsources(["https://a.example/"])', "One.\n\nTwo."),
        ("One.\n\n### References\n\n[1] A, https://a.example/\n[2] B, https://b.example/", "One."),
        ("One.\n\n**来源**\n- https://a.example/\n\n希望有帮助。", "One.\n\n\n希望有帮助。".replace("\n\n\n", "\n\n")),
        ("One.\n<details><summary>3 sources</summary>\nhttps://a.example/\n</details>", "One."),
        ("One.\n\n- [A](https://a.example/)\n- [B](https://b.example/)", "One."),
        ("- It runs [A](https://a.example/)\n- Daily [B](https://b.example/)", None),
        ("Sources say it runs [A](https://a.example/).", None),
        ("References (see https://a.example/) matter.", None),
        (
            "## References\nNone are given here, but "
            + "very " * 20
            + "much is told by https://a.example/ in its second half.",
            None,
        ),
    ],
)
def test_source_lists_leave_the_answer_and_prose_stays(text: str, answer: str | None) -> None:
    reply = said(text)
    assert reply.outcome is Outcome.OK
    assert reply.answer == (text if answer is None else answer)


def test_a_text_without_a_source_is_ungrounded_and_no_answer() -> None:
    reply = said("The ferry has always run.")
    assert (reply.outcome, reply.detail, reply.answer) == (Outcome.NO_RESULTS, "ungrounded", "")


def test_an_empty_shell_keeps_the_relays_request_id_for_the_operator() -> None:
    reply = read('{"id": "chatcmpl-7", "choices": null}', "application/json")
    assert (reply.outcome, reply.message) == (Outcome.SERVER_ERROR, "request chatcmpl-7")


def test_cited_sources_come_before_those_only_met() -> None:
    text = "It runs [B](https://b.example/)."
    note = {"type": "url_citation", "url": "https://a.example/", "title": "A"}
    message = {"type": "message", "content": [{"type": "output_text", "text": text, "annotations": [note]}]}
    whole = {"status": "completed", "output": [message], "citations": ["https://m.example/", "https://b.example/"]}
    assert urls(read(json.dumps(whole))) == ["https://a.example/", "https://b.example/", "https://m.example/"]


MARKS = [
    "[",
    "]",
    "(",
    ")",
    "](",
    "<think>",
    "</think>",
    "https://",
    "https://a.example/",
    "sources(",
    "citation_card(",
    '"',
    "'",
    "\\",
]
MARKS += [
    "\n",
    "Sources:\n",
    "来源：",
    "<details>",
    "</details>",
    "- ",
    "1. ",
    " ",
    "x",
    "![",
    "title=",
    ",",
    "\ud800",
    "`" * 3,
]


@given(st.lists(st.sampled_from(MARKS), max_size=60).map("".join))
def test_no_answer_makes_the_reading_raise(text: str) -> None:
    reply = said(text)
    assert reply.outcome in (Outcome.OK, Outcome.NO_RESULTS, Outcome.SERVER_ERROR)
    reply.answer.encode()  # raises for half a character
    found = list(links(text))
    assert [text[link.start : link.end].count(link.url) > 0 for link in found] == [True] * len(found)


@pytest.mark.parametrize(
    "unit",
    [
        *(mark for mark in MARKS if mark != "\ud800"),
        "[a](https://a.example/(",
        "* Sources\n",
        "Sources:\n- x\n",
        'sources("',
        "\\[",
        "citation_card(1) ",
    ],
)
def test_a_long_answer_takes_time_in_proportion_to_its_length(unit: str) -> None:
    def seconds(size: int) -> float:
        text = unit * (size // len(unit))
        started = time.process_time()
        list(links(without_thoughts(text)))
        without_sources(without_thoughts(text))
        return time.process_time() - started

    # a quadratic step would make it 64 times as long
    assert seconds(200_000) < 24 * max(seconds(25_000), 0.01)


@pytest.mark.parametrize(
    "text",
    [
        "- Fact one. [[1]](https://a.example/1)\n- Fact two. [[2]](https://b.example/2)",
        "Fact one [1](https://a.example/1)\nFact two [2](https://b.example/2)",
        "What was found. [[1]](https://a.example/1)",
    ],
)
def test_lines_that_end_with_a_citation_are_the_answer_and_no_list_of_sources(text: str) -> None:
    assert said(text).answer == text
