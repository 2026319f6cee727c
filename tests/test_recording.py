"""A reply as a recording: what is hidden in it, what is cut, what is kept as it was."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import providers
from gateway.recording import MOST_BODY, Hiding, Recorded, recorded
from providers import Reply, Wire
from providers._reading import spellings
from providers._visiting import VisitingProvider
from tests import test_recordings
from tests.test_recordings import RECORDINGS, Recording, moment, settings_for

KEY = "tvly-Rw4Np6Jx9Tc2Fz"
HIDING = Hiding(spellings([KEY, "pA55w"]), "search.intranet.example:8443")


def read_by(provider: str, recording: Recording) -> Callable[[Wire], Reply]:
    def read(wire: Wire) -> Reply:
        adapter = providers.find(provider)(settings_for(recording), lambda: wire.now)
        first = adapter.read_first(wire) if "step" in recording and isinstance(adapter, VisitingProvider) else None
        return first if isinstance(first, Reply) else adapter.read(wire)

    return read


def made(wire: Wire, provider: str = "tavily", hiding: Hiding = HIDING) -> Recorded:
    read = read_by(provider, {})
    return recorded("probed", read(wire), wire, read, hiding, "probe")


def reply(body: object, status: int = 200, **headers: str) -> Wire:
    told = body if isinstance(body, bytes) else json.dumps(body).encode()
    return Wire(status, {name.replace("_", "-"): value for name, value in headers.items()}, told, 1796040000.75)


def entry(wire: Wire, provider: str = "tavily") -> dict[str, Any]:
    found = made(wire, provider).entry
    assert found is not None
    return dict(found)


ROW = {"title": "Moss", "url": "https://moss.example/1", "content": "Green."}

# ---------------------------------------------------------------------------------------------------------------------
# what stays


@pytest.mark.parametrize("provider", providers.names())
def test_what_is_recorded_once_more_means_the_same(provider: str) -> None:
    for recording in RECORDINGS[provider]:
        if recording["status"] is None:
            continue
        headers = {name.lower(): value for name, value in recording["headers"].items()}
        body = (recording["body"] or "").encode("utf-8", "surrogatepass")
        wire = Wire(recording["status"], headers, body, moment(recording))
        read = read_by(provider, recording)
        told = recorded("x", read(wire), wire, read, Hiding(()), "x")
        assert told.entry is not None
        assert [each for each in told.remarks if "U+FFFD" not in each] == []
        kind = {name: recording[name] for name in ("route", "step") if name in recording}
        test_recordings.test_a_recording_means_what_it_says(provider, {**told.entry, **kind})
        for name in ("outcome", "retry_after_s"):
            assert told.entry["expect"][name] == pytest.approx(recording["expect"][name], abs=1), recording["name"]


@settings(max_examples=50)
@given(value=st.lists(st.none() | st.booleans() | st.floats() | st.text(), max_size=5))
def test_json_without_anything_to_hide_stays_as_it_was_written(value: object) -> None:
    for written in (json.dumps({"found": value}), json.dumps({"found": value}, indent=3, ensure_ascii=False)):
        assert Hiding(()).text(written) == written


def test_results_are_written_as_they_are_read_and_the_moment_in_whole_seconds() -> None:
    found = entry(reply({"query": "moss", "results": [ROW | {"published_date": "soon"}], "response_time": 1}))
    assert found["expect"] == {
        "outcome": "ok",
        "retry_after_s": None,
        "results": [{"title": "Moss", "url": "https://moss.example/1", "content": "Green.", "published": None}],
    }
    assert found["now"] == "2026-11-30T12:00:00Z"


def test_a_body_in_another_character_set_is_written_and_named_as_utf_8() -> None:
    wire = reply('{"detail": "密钥"}'.encode("gbk"), 401, content_type="application/json; charset=gbk")
    found = entry(wire)
    assert found["headers"] == {"content-type": "application/json; charset=utf-8"}
    assert found["body"] == '{"detail": "密钥"}'


def test_that_the_recording_is_read_otherwise_is_told() -> None:
    wire = reply({"query": "moss", "results": []})
    other = read_by("tavily", {})(reply({}, 500))
    told = recorded("x", other, wire, read_by("tavily", {}), HIDING, "x")
    assert told.remarks[0].startswith("live it was server_error (500), in the recording it is no_results (shape ")


# ---------------------------------------------------------------------------------------------------------------------
# what is hidden


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (f"your key {KEY} is wrong", "your key *** is wrong"),
        (f"Basic {base64.b64encode(KEY.encode()).decode().rstrip('=')}", "Basic ***"),
        ("ask jo.doe+x@mail.moss.example, now", "ask someone@example.com, now"),
        ("react@18.2.0 and @moss are no addresses", "react@18.2.0 and @moss are no addresses"),
        (
            "team 3F9C2a71-0b5e-4d88-9c11-aa22bb33cc44 has no credits",
            "team 00000000-0000-0000-0000-000000000000 has no credits",
        ),
        ("request ID: a1b2c3d4", "request ID: ***"),
        ("Ray ID: <strong>8f1e2d3c4b5a</strong>", "Ray ID: <strong>***</strong>"),
        ("see req_011CSHoEeqs5C35K2UUqR7Fy", "see req_***"),
        ("org-a1B2c3D4e5F6 may not", "org-*** may not"),
        ("user-documentation and msg_longwords", "user-documentation and msg_longwords"),
        ("your address 93.184.216.34 is blocked", "your address 192.0.2.1 is blocked"),
        ("your address 2606:2800:220:1:248:1893:25c8:1946", "your address 2001:db8::1"),
        ("127.0.0.1, 10.0.0.7, Chrome/120.0.6099.71, 12:30:45, std::move", None),
        ("search.intranet.example:8443/search of search.intranet.example", "vendor.example/search of vendor.example"),
    ],
)
def test_what_tells_who_asked_is_hidden(text: str, told: str | None) -> None:
    assert HIDING.text(text) == (text if told is None else told)
    assert json.loads(HIDING.text(json.dumps({"detail": text}))) == {"detail": text if told is None else told}


@pytest.mark.parametrize(
    "name",
    [
        *("request_id", "requestId", "X-Request-Id", "trace_id", "log_id", "session_id", "account_id", "accountId"),
        *("team_id", "team", "organization", "organisation_id", "org", "user", "user_email", "username", "email"),
        *("project_id", "tenant", "customer_id", "workspaceName", "api_key", "apiKeyId", "client_ip", "ip", "password"),
    ],
)
def test_members_that_name_somebody_lose_their_value_and_keep_its_kind(name: str) -> None:
    for value, instead in (("moss 7", "***"), (7, 0), (None, None), (True, True), ({"plan": 1}, {"plan": 1})):
        for written in (json.dumps({name: value}), json.dumps({"a": [{name: value, "b": 1}]}, indent=2)):
            told = written.replace(json.dumps(value), json.dumps(instead))
            assert json.loads(HIDING.text(written)) == json.loads(told)


def test_members_that_only_look_like_that_are_left_alone() -> None:
    kept = {
        "id": "7",
        "title": "moss",
        "name": "n",
        "used": 3,
        "tokens": 9,
        "users": ["a"],
        "keywords": "k",
        "key": "k",
    }
    assert json.loads(HIDING.text(json.dumps(kept))) == kept


def test_json_inside_json_is_looked_at_too() -> None:
    inner = json.dumps({"request_id": "abc", "message": f"no {KEY}", "left": 3})
    told = json.loads(HIDING.text(json.dumps({"detail": inner})))
    assert json.loads(told["detail"]) == {"request_id": "***", "message": "no ***", "left": 3}


def test_a_key_is_found_however_json_spells_it() -> None:
    spelled = "".join(f"\\u{ord(sign):04x}" for sign in KEY)
    for written in (f'{{"m": "{spelled}"}}', f'{{"{spelled}": 1}}', f'{{"m": "x\\n{KEY}\\n"}}'):
        assert KEY not in str(json.loads(HIDING.text(written)))
        assert "***" in str(json.loads(HIDING.text(written)))


def test_a_stream_of_events_stays_one() -> None:
    event = {"id": "chatcmpl-A1b2C3d4E5", "request_id": "r", "choices": [{"delta": {"content": f"no {KEY}"}}]}
    stream = f"event: x\r\ndata: {json.dumps(event)}\r\n\r\ndata: [DONE]\r\n\r\n: {KEY}\r\n"
    told = HIDING.text(stream).split("\r\n")
    assert [told[0], *told[2:]] == ["event: x", "", "data: [DONE]", "", ": ***", ""]
    hidden = {"id": "chatcmpl-***", "request_id": "***", "choices": [{"delta": {"content": "no ***"}}]}
    assert json.loads(told[1].removeprefix("data: ")) == hidden


def test_half_a_character_beside_a_secret_can_still_be_written() -> None:
    told = HIDING.text(f'{{"m": "\\ud800 {KEY}"}}')
    assert told.encode() == b'{"m": "\\ud800 ***"}'


def test_of_the_headers_only_those_on_the_list_stay() -> None:
    wire = reply(
        {},
        429,
        content_type="application/json",
        retry_after="7",
        x_ratelimit_remaining="1, 50",
        ratelimit_policy="20;w=1",
        mediawiki_api_error="ratelimited",
        location=f"https://someone:pA55w@search.intranet.example:8443/go/{KEY}?q=moss&key=1#x",
        set_cookie="session=abc",
        cf_ray="8f1e2d3c4b5a-FRA",
        x_request_id="abc",
        server="moss",
        date="Mon, 30 Nov 2026 12:00:00 GMT",
        authorization=KEY,
    )
    assert entry(wire)["headers"] == {
        "content-type": "application/json",
        "retry-after": "7",
        "x-ratelimit-remaining": "1, 50",
        "ratelimit-policy": "20;w=1",
        "mediawiki-api-error": "ratelimited",
        "location": "https://vendor.example/go/***",
    }
    assert entry(reply({}, 302, location="http://[broken/"))["headers"] == {"location": "***"}


# ---------------------------------------------------------------------------------------------------------------------
# what is cut


def test_a_long_body_loses_rows_at_its_end_and_says_so() -> None:
    rows = [ROW | {"url": f"https://moss.example/{n}", "content": "moss " * 1000} for n in range(40)]
    told = made(reply({"query": "moss", "results": rows, "response_time": 1}))
    assert told.entry is not None
    body = told.entry["body"]
    assert 1000 < len(body.encode()) <= MOST_BODY
    kept = json.loads(body)["results"]
    assert kept == rows[: len(kept)]
    assert len(told.entry["expect"]["results"]) == len(kept) == 10
    assert told.remarks == (f"its body of 202760 bytes is cut to {len(body)} bytes",)
    assert told.entry["source"] == "probe; its end is left out"


def test_a_long_page_is_cut_after_an_element_where_it_still_means_the_same() -> None:
    told = made(reply(b"<html><body>" + b"<p>bad gateway</p>" * 5000, 502))
    assert told.entry is not None
    assert told.entry["body"].endswith(">")
    assert len(told.entry["body"]) <= MOST_BODY
    assert told.remarks[0].startswith("its body of 90012 bytes is cut to ")


def test_a_long_body_that_would_mean_something_else_is_kept_whole() -> None:
    page = b"<html><script>" + b"x" * MOST_BODY + b"</script><body><p>No results.</p></body></html>"
    told = made(reply(page, content_type="text/html"), "duckduckgo")
    assert told.entry is not None
    assert told.entry["body"].encode() == page
    assert told.entry["expect"]["outcome"] == "no_results"
    assert told.remarks == (f"its body of {len(page)} bytes is kept whole: cut, it would mean something else",)


def test_a_body_that_could_just_be_read_is_recorded_like_any_other() -> None:
    for depth in (400, 5000):
        body = (b'{"a":[' * depth) + b'{"b": 1}, {"b": 2}' + (b"]}" * depth) + b" " * MOST_BODY
        assert entry(reply(body, 500))["expect"]["outcome"] == "server_error"
