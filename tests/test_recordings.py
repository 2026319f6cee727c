"""Every provider against what its vendor really says: tests/recordings/<provider>.json.

A recording is one reply (`status`, `headers`, `body` as text; or `transport`, when none came), the moment it arrived
(`now`), the face of a provider that has two (`route`), whether it is that of the page visited before the search
(`step`), and what it means (`expect`). In `expect`, a `retry_after_s`
of null means that the vendor named no usable time, `results` names the fields under test of each row, and a null
`published` that no date may be invented. `sent`, which may be left out, is what it answers: the fields of a `query`,
and what goes out for them with the key `the-key`: all `params`, `form` fields or `json` members, and if you like
`method`, `url` (without parameters) and some `headers`.
"""

from __future__ import annotations

import errno
import json
import socket
from datetime import datetime
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import parse_qsl

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

import providers
from providers import Draft, Outcome, Query, Reply, Settings, Wire
from providers._transport import transport_failure
from providers._visiting import VisitingProvider
from tests.cases import Cases

FOLDER = Path(__file__).parent / "recordings"
NOW = datetime.fromisoformat("2026-11-30T12:00:00+00:00").timestamp()

NEEDED = {"name", "status", "headers", "body", "expect", "confidence", "source"}
KEYS = NEEDED | {"transport", "route", "step", "now", "sent"}
SENT_KEYS = {"query", "method", "url", "params", "form", "json", "headers"}
EXPECT_KEYS = {"outcome", "retry_after_s", "results"}
RESULT_KEYS = {"title", "url", "snippet", "content", "published"}
CONFIDENCE = {"documented", "SDK-source", "user-reported", "inferred"}
ROUTES = {"chat"}
STEPS = {"first"}

Recording = dict[str, Any]


def recordings(provider: str) -> list[Recording]:
    path = FOLDER / f"{provider}.json"
    found: list[Recording] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
    return found


RECORDINGS = {name: recordings(name) for name in providers.names()}


def settings_for(recording: Recording) -> Settings:
    """How the operator would have set the provider up to get this reply."""
    return Settings(address="http://relay.example") if recording.get("route") == "chat" else Settings()


def moment(recording: Recording) -> float:
    """When the reply arrived, seconds since the epoch."""
    now = recording.get("now", NOW)
    return datetime.fromisoformat(now).timestamp() if isinstance(now, str) else float(now)


def failure(transport: str) -> BaseException:
    """The error that httpx2 raises for a broken exchange, chained as it chains it."""
    outer, inner = {
        "read_timeout": (httpx2.ReadTimeout, TimeoutError()),
        "connect_error": (httpx2.ConnectError, ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")),
        "connection_reset": (httpx2.ReadError, ConnectionResetError(errno.ECONNRESET, "Connection reset by peer")),
        "dns_failure": (httpx2.ConnectError, socket.gaierror(socket.EAI_NONAME, "Name or service not known")),
    }[transport]
    try:
        try:
            raise inner
        except OSError as error:
            raise outer("") from error
    except httpx2.TransportError as error:
        return error


def reading(provider: str, recording: Recording) -> Reply:
    if recording["status"] is None:
        return transport_failure(failure(recording["transport"]))
    wire = Wire(
        status=recording["status"],
        headers={name.lower(): value for name, value in recording["headers"].items()},
        body=(recording["body"] or "").encode("utf-8", "surrogatepass"),
        now=moment(recording),
    )
    adapter = providers.find(provider)(settings_for(recording), clock=lambda: moment(recording))
    if "step" not in recording:
        return adapter.read(wire)
    assert isinstance(adapter, VisitingProvider)
    first = adapter.read_first(wire)
    assert isinstance(first, Reply), "the search goes on: it has come to nothing yet"
    return first


@pytest.mark.parametrize(("provider", "one"), [(name, None) for name in RECORDINGS], ids=RECORDINGS)
def test_a_recording_means_what_it_says(provider: str, one: Recording | None) -> None:
    """Each of the provider; `one` alone for tests that make one."""
    with Cases() as cases:
        for recording in RECORDINGS[provider] if one is None else [one]:
            with cases.case(recording["name"]):
                check_reading(provider, recording)


def check_reading(provider: str, recording: Recording) -> None:
    check_form(recording)
    reply = reading(provider, recording)
    expect = recording["expect"]
    assert reply.outcome == expect["outcome"], reply
    if expect["retry_after_s"] is None:
        assert reply.retry_after_s is None
    else:
        assert reply.retry_after_s == pytest.approx(expect["retry_after_s"], abs=1)
    if expect["results"] is not None:
        assert len(reply.results) == len(expect["results"])
        for row, fields in zip(reply.results, expect["results"], strict=True):
            assert {name: getattr(row, name) for name in fields} == fields
    check_words(reply)
    if "sent" in recording:
        check_request(provider, recording)


def check_form(recording: Recording) -> None:
    """A recording has everything that is needed, and no key that nobody reads."""
    assert recording.keys() >= NEEDED
    assert recording.keys() <= KEYS
    assert recording["expect"].keys() == EXPECT_KEYS
    assert recording["expect"]["outcome"] in set(Outcome)
    assert recording["confidence"] in CONFIDENCE
    assert recording.get("route", "chat") in ROUTES
    assert recording.get("step", "first") in STEPS
    assert ("transport" in recording) == (recording["status"] is None)
    for fields in recording["expect"]["results"] or []:
        assert fields
        assert fields.keys() <= RESULT_KEYS


def check_words(reply: Reply) -> None:
    """A reply never breaks the words it is made of."""
    assert reply.row
    assert bool(reply.results) == (reply.outcome is Outcome.OK) or reply.answer
    assert reply.hint if reply.setup else not reply.hint
    assert "\n" not in reply.detail
    for row in reply.results:
        assert row.title
        assert row.url.startswith(("http://", "https://"))
        assert not (row.snippet and row.content)


def check_request(provider: str, recording: Recording) -> None:
    """What went out is what the recording says: the whole of its `params`, `form` or `json`, and these `headers`."""
    sent = recording["sent"]
    assert sent.keys() >= {"query"}
    assert sent.keys() <= SENT_KEYS
    assert sent.keys() & {"params", "form", "json"}
    query = {name: tuple(value) if isinstance(value, list) else value for name, value in sent["query"].items()}
    adapter = providers.find(provider)(settings_for(recording), clock=lambda: moment(recording))
    draft = adapter.draft(Query(**query), "the-key")
    assert isinstance(draft, Draft), draft
    request = draft.request
    told = {
        "method": request.method,
        "url": str(request.url.copy_with(query=None)),
        "params": dict(request.url.params),
        "form": dict(parse_qsl(request.content.decode(), keep_blank_values=True)),
        "json": json.loads(request.content) if "json" in sent else None,
    }
    for name in sent.keys() & told.keys():
        assert told[name] == sent[name], name
    headers = sent.get("headers", {})
    assert {name: request.headers.get(name) for name in headers} == headers


ODD: list[Any] = [None, True, 0, -1, 1e400, 10**30, "", "\ud800", "200", 429, [], {}, [None], [[]], ["a", 1], {"a": 1}]


def damaged(value: Any, random: Random) -> Any:
    """`value` with parts missing or replaced by something odd."""
    if random.random() < 0.08:
        return random.choice(ODD)
    if isinstance(value, dict):
        return {name: damaged(part, random) for name, part in value.items() if random.random() > 0.05}
    return [damaged(part, random) for part in value] if isinstance(value, list) else value


@pytest.mark.parametrize("provider", providers.names())
@given(seed=st.integers(0, 2**32))
def test_a_damaged_reply_still_has_a_meaning(provider: str, seed: int) -> None:
    random = Random(seed)  # (drawing every choice that it makes would take ten times as long as the reading)
    recording = random.choice([each for each in RECORDINGS[provider] if each["body"] and "step" not in each])
    try:
        body = json.dumps(damaged(json.loads(recording["body"]), random))
    except ValueError:
        body = recording["body"][: random.randrange(len(recording["body"]))]
    headers = {name: random.choice([said, "", "-1", ",,", "9" * 30]) for name, said in recording["headers"].items()}
    status = random.choice([recording["status"], 200, 302, 403, 422, 429, 500])
    reply = reading(provider, recording | {"status": status, "headers": headers, "body": body})
    assert reply.outcome in set(Outcome)
    assert reply.retry_after_s is None or reply.retry_after_s >= 0
    shown = [
        reply.detail,
        reply.message,
        *reply.notes,
        *(row.title + row.snippet + row.content for row in reply.results),
    ]
    assert "".join(shown).isprintable()


@pytest.mark.parametrize("provider", providers.names())
def test_every_row_of_an_error_table_has_a_recording(provider: str) -> None:
    decided = {reading(provider, recording).row for recording in RECORDINGS[provider]}
    assert [str(row) for row in providers.find(provider).errors if str(row) not in decided] == []


@pytest.mark.parametrize("provider", providers.names())
def test_a_provider_has_recordings_of_results_and_of_an_honest_nothing(provider: str) -> None:
    names = [recording["name"] for recording in RECORDINGS[provider]]
    assert len(names) == len(set(names))
    # what no vendor says in words of his own (silence, resets, pages for data) the battery of faults tries on everybody
    assert {recording["expect"]["outcome"] for recording in RECORDINGS[provider]} >= {"ok", "no_results"}


def test_no_recordings_file_belongs_to_nobody() -> None:
    assert sorted(path.name for path in FOLDER.iterdir()) == sorted(f"{name}.json" for name in providers.names())
