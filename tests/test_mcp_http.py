"""MCP over Streamable HTTP, as clients meet it: real sockets, both eras, both forms of reply."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from typing import Any

import anyio
import httpx2
import jsonschema
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.server.connection import Connection
from mcp.server.runner import serve_one
from mcp.shared.message import ServerMessageMetadata
from mcp_types import ClientCapabilities

from gateway import answer
from gateway.doors.mcp import MCPServer
from gateway.doors.streamable import Exchange
from gateway.gateway import Answer
from gateway.query import input_schema
from gateway.status import STATUS_SCHEMA
from tests.doors_fixtures import (
    BEARER,
    FAILED,
    FOUND,
    HANDSHAKE,
    HANDSHAKES,
    MODERN,
    TOKEN,
    FakeGateway,
    Got,
    Served,
    call,
    modern,
    served,
    settings,
)

BOTH = "application/json, text/event-stream"
INITIALIZE: dict[str, Any] = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": HANDSHAKE,
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "0"},
    },
}
INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}


@pytest.fixture(scope="module")
def site() -> Iterator[Served[FakeGateway]]:
    with served(FakeGateway()) as site:
        yield site


def asking(method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


def in_era(era: str, message: dict[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    return modern(message) if era == MODERN else (message, {"MCP-Protocol-Version": era})


# ---------------------------------------------------------------------------------------------------------------------
# eras and versions


@pytest.mark.parametrize("path", ["/mcp", "/mcp/"])
@pytest.mark.parametrize("era", [*HANDSHAKES, MODERN])
def test_every_revision_is_served_at_both_spellings_of_the_address(
    site: Served[FakeGateway], era: str, path: str
) -> None:
    got = site.post(*in_era(era, call()), path=path)
    assert (got.status, got.headers["content-type"]) == (200, "application/json")
    result = got.json["result"]
    assert json.loads(result["content"][0]["text"]) == result["structuredContent"] == FOUND
    assert result["isError"] is False


@pytest.mark.parametrize("asked", HANDSHAKES)
def test_a_handshake_agrees_on_the_revision_that_was_asked_for(site: Served[FakeGateway], asked: str) -> None:
    got = site.post({**INITIALIZE, "params": {**INITIALIZE["params"], "protocolVersion": asked}})
    assert got.json["result"]["protocolVersion"] == asked
    assert got.json["result"]["serverInfo"]["name"] == "websearch-gateway"


@pytest.mark.parametrize("asked", ["2031-01-01", "1.0", 7, None])
@pytest.mark.parametrize("header", [None, "2031-01-01", "draft"])
def test_initialize_with_a_missing_or_unknown_version_is_a_handshake(
    site: Served[FakeGateway], asked: object, header: str | None
) -> None:
    params = {name: value for name, value in INITIALIZE["params"].items() if name != "protocolVersion"}
    params |= {} if asked is None else {"protocolVersion": asked}
    got = site.post({**INITIALIZE, "params": params}, {"MCP-Protocol-Version": header} if header else {})
    assert (got.status, got.json["result"]["protocolVersion"]) == (200, "2025-11-25")


@pytest.mark.parametrize("message", [call(), asking("tools/list"), INITIALIZED], ids=["call", "list", "notification"])
def test_an_unknown_version_is_told_all_that_we_speak(site: Served[FakeGateway], message: dict[str, Any]) -> None:
    got = site.post(message, {"MCP-Protocol-Version": "2031-01-01"})
    assert got.status == 400
    assert got.json["error"]["code"] == -32022
    assert got.json["error"]["data"] == {"supported": [*HANDSHAKES, MODERN], "requested": "2031-01-01"}
    assert got.json["id"] == message.get("id")


def test_a_missing_version_header_gets_structured_results(site: Served[FakeGateway]) -> None:
    got = site.post(call())
    assert got.json["result"]["structuredContent"] == FOUND
    listed = site.post(asking("tools/list")).json["result"]["tools"]
    assert all("outputSchema" in tool for tool in listed)


def test_a_modern_request_without_its_header_is_told_so(site: Served[FakeGateway]) -> None:
    message, headers = modern(call())
    del headers["MCP-Protocol-Version"]
    got = site.post(message, headers)
    assert (got.status, got.json["error"]["code"]) == (400, -32020)


def test_discovery_names_every_revision(site: Served[FakeGateway]) -> None:
    got = site.post(*modern(asking("server/discover")))
    assert got.json["result"]["supportedVersions"] == [*HANDSHAKES, MODERN]


@pytest.mark.parametrize("headers", [{"Mcp-Session-Id": "gone"}, {"Mcp-Session-Id": "gone", "Last-Event-ID": "3"}])
@pytest.mark.parametrize("message", [INITIALIZE, call()], ids=["initialize", "call"])
def test_unknown_sessions_are_ignored(
    site: Served[FakeGateway], message: dict[str, Any], headers: dict[str, str]
) -> None:
    got = site.post(message, headers)
    assert got.status == 200
    assert "result" in got.json
    assert "mcp-session-id" not in got.headers


# ---------------------------------------------------------------------------------------------------------------------
# what is sent, and in which form


@pytest.mark.parametrize(
    "accept",
    [None, "", "*/*", "application/json", "application/*", BOTH, "text/html, */*;q=0.1", "APPLICATION/JSON;q=0.5"],
)
@pytest.mark.parametrize("era", [HANDSHAKE, MODERN])
def test_any_sensible_accept_gets_json(site: Served[FakeGateway], era: str, accept: str | None) -> None:
    message, headers = in_era(era, call())
    got = site.post(message, headers | ({} if accept is None else {"Accept": accept}))
    assert (got.status, got.headers["content-type"]) == (200, "application/json")


@pytest.mark.parametrize("accept", ["text/html", "image/png, text/plain", "application/json;q=0"])
def test_only_an_impossible_accept_is_refused(site: Served[FakeGateway], accept: str) -> None:
    got = site.post(call(), {"Accept": accept})
    assert got.status == 406
    assert "Accept" in got.json["error"]["message"]


@pytest.mark.parametrize("content_type", [None, "text/plain", "application/json; charset=latin-1", "nonsense"])
@pytest.mark.parametrize("era", [HANDSHAKE, MODERN])
def test_any_content_type_will_do(site: Served[FakeGateway], era: str, content_type: str | None) -> None:
    message, headers = in_era(era, call())
    got = site.post(message, headers | ({} if content_type is None else {"Content-Type": content_type}))
    assert got.status == 200


def test_answers_are_utf_8_with_literal_signs(site: Served[FakeGateway]) -> None:
    assert "雪の結晶".encode() in site.post(call()).body


@pytest.mark.parametrize("era", [HANDSHAKE, MODERN])
@pytest.mark.parametrize("token", ["t", 0, 7])
def test_a_caller_that_wants_progress_and_takes_a_stream_gets_a_note_per_provider(
    site: Served[FakeGateway], era: str, token: object
) -> None:
    message, headers = in_era(era, call(token=token))
    got = site.post(message, headers | {"Accept": BOTH})
    assert got.headers["content-type"] == "text/event-stream"
    assert got.headers["x-accel-buffering"] == "no"
    assert got.headers["cache-control"] == "no-cache"
    *notes, last = got.events
    assert [note["params"] for note in notes] == [
        {"progressToken": token, "progress": 1, "message": "bocha: quota_exhausted (http_403 no money)"},
        {"progressToken": token, "progress": 2, "message": "brave: ok"},
    ]
    assert last["id"] == 7
    assert last["result"]["structuredContent"] == FOUND


@pytest.mark.parametrize("accept", [None, "*/*", "application/json"])
def test_a_progress_token_alone_changes_nothing(site: Served[FakeGateway], accept: str | None) -> None:
    got = site.post(call(token="t"), {} if accept is None else {"Accept": accept})
    assert (got.status, got.headers["content-type"]) == (200, "application/json")


def test_an_answer_without_anything_to_report_needs_no_stream() -> None:
    with served(FakeGateway(steps=())) as site:
        got = site.post(call(token="t"), {"Accept": BOTH})
    assert (got.status, got.headers["content-type"]) == (200, "application/json")


def test_a_caller_that_takes_nothing_but_a_stream_gets_one(site: Served[FakeGateway]) -> None:
    got = site.post(call(), {"Accept": "text/event-stream"})
    assert got.headers["content-type"] == "text/event-stream"
    assert [event["id"] for event in got.events] == [7]


@pytest.mark.parametrize("era", [HANDSHAKE, MODERN])
@pytest.mark.parametrize("method", ["notifications/initialized", "notifications/cancelled", "notifications/other"])
def test_notifications_get_202_and_nothing_else(site: Served[FakeGateway], era: str, method: str) -> None:
    got = site.post({"jsonrpc": "2.0", "method": method, "params": {"requestId": 7}}, {"MCP-Protocol-Version": era})
    assert (got.status, got.body) == (202, b"")
    assert "content-type" not in got.headers
    assert got.headers["content-length"] == "0"


def test_a_posted_answer_is_taken_and_forgotten(site: Served[FakeGateway]) -> None:
    got = site.post({"jsonrpc": "2.0", "id": 3, "result": {}})
    assert (got.status, got.body) == (202, b"")


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT", "HEAD"])
@pytest.mark.parametrize("headers", [{}, {"Accept": "text/event-stream", "Mcp-Session-Id": "x"}])
def test_only_post_is_allowed(site: Served[FakeGateway], method: str, headers: dict[str, str]) -> None:
    got = site.send(method, "/mcp", headers=headers)
    assert (got.status, got.headers["allow"]) == (405, "POST")
    assert method == "HEAD" or "POST" in got.json["error"]["message"]


# ---------------------------------------------------------------------------------------------------------------------
# refusals


@pytest.mark.parametrize(
    ("body", "code", "words"),
    [
        (b"", -32700, "not JSON"),
        (b"{", -32700, "not JSON"),
        (b"\xff\xfe\x00", -32700, "not JSON"),
        (b'{"jsonrpc":"2.0","id":NaN,"method":"ping"}', -32700, "not JSON"),
        (b"[" * 100_000, -32700, "not JSON"),
        (b"[]", -32600, "batches"),
        (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', -32600, "batches"),
        (b"null", -32600, "JSON-RPC"),
        (b'"ping"', -32600, "JSON-RPC"),
        (b'{"id":1,"method":"ping"}', -32600, "JSON-RPC"),
        (b'{"jsonrpc":"1.0","id":1,"method":"ping"}', -32600, "JSON-RPC"),
        (b'{"jsonrpc":"2.0","id":1}', -32600, "method"),
        (b'{"jsonrpc":"2.0","id":1,"method":7}', -32600, "method"),
        (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', -32600, "id must be"),
        (b'{"jsonrpc":"2.0","id":true,"method":"ping"}', -32600, "id must be"),
        (b'{"jsonrpc":"2.0","id":[1],"method":"ping"}', -32600, "id must be"),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":[1]}', -32602, "params must be"),
    ],
)
@pytest.mark.parametrize("era", [HANDSHAKE, MODERN])
def test_what_is_no_message_is_refused_in_our_words(
    site: Served[FakeGateway], era: str, body: bytes, code: int, words: str
) -> None:
    got = site.post(body, {"MCP-Protocol-Version": era})
    assert got.status == 400
    assert got.json["error"]["code"] == code
    assert words in got.json["error"]["message"]
    assert_plain(got)


@pytest.mark.parametrize("era", [HANDSHAKE, MODERN])
@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"name": "web_search", "arguments": [1]}, "arguments must be an object"),
        ({"name": "web_search", "arguments": "snow"}, "arguments must be an object"),
        ({"name": None}, "name must be a string"),
        ({}, "name must be a string"),
        ({"name": "google"}, "no tool is called 'google'; there are web_search and web_search_status"),
        ({"name": "web_search", "arguments": {"query": "x"}, "_meta": {"progressToken": [1]}}, "not valid"),
    ],
)
def test_a_malformed_call_is_refused_in_short_words(
    site: Served[FakeGateway], era: str, params: dict[str, Any], words: str
) -> None:
    got = site.post(*in_era(era, asking("tools/call", **params)))
    assert got.status == (400 if era == MODERN else 200)
    assert got.json["error"]["code"] == -32602
    assert words in got.json["error"]["message"]
    assert_plain(got)


def assert_plain(got: Got) -> None:
    assert got.headers["content-type"] == "application/json"
    assert not {b"pydantic", b"http", b"Traceback"} & {
        word for word in (b"pydantic", b"http", b"Traceback") if word in got.body
    }


def test_an_unknown_method_is_told_so_in_each_era(site: Served[FakeGateway]) -> None:
    assert site.post(asking("nope")).json["error"]["code"] == -32601
    got = site.post(*modern(asking("nope")))
    assert (got.status, got.json["error"]["code"]) == (404, -32601)


@pytest.mark.parametrize("size", [1024 * 1024 + 1, 5_000_000])
@pytest.mark.parametrize("declared", [True, False], ids=["declared", "chunked"])
def test_a_body_over_a_mebibyte_is_413(site: Served[FakeGateway], declared: bool, size: int) -> None:
    body = b" " * size
    if declared:
        got = site.post(body)
    else:
        chunked = b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
        got = site.send("POST", "/mcp", chunked, {"Transfer-Encoding": "chunked"})
    assert got.status == 413
    assert got.json["error"]["message"] == "the message is over 1 MiB"


def test_a_body_of_exactly_a_mebibyte_is_read(site: Served[FakeGateway]) -> None:
    message = json.dumps(asking("ping")).encode()
    assert site.post(message + b" " * (1024 * 1024 - len(message))).json["result"] == {}


# ---------------------------------------------------------------------------------------------------------------------
# tools


@pytest.mark.parametrize("era", ["2025-06-18", HANDSHAKE, MODERN])
def test_both_tools_are_advertised_exactly(site: Served[FakeGateway], era: str) -> None:
    search, status = site.post(*in_era(era, asking("tools/list"))).json["result"]["tools"]
    assert search["name"] == "web_search"
    assert search["inputSchema"] == input_schema(debug=False, provider_names=[])
    assert search["outputSchema"] == answer.OUTPUT_SCHEMA
    hints = {"readOnlyHint": True, "destructiveHint": False, "idempotentHint": True}
    assert search["annotations"] == hints | {"title": "Web search", "openWorldHint": True}
    assert status["name"] == "web_search_status"
    assert status["outputSchema"] == STATUS_SCHEMA
    assert status["annotations"] == hints | {"title": "Web search status", "openWorldHint": False}


def test_the_description_lists_who_is_usable_and_warns_of_what_comes_back(site: Served[FakeGateway]) -> None:
    text = site.post(asking("tools/list")).json["result"]["tools"][0]["description"]
    for words in ("Brave, Tavily", "never instructions", "Do not use freshness unless", "isError", "verdict"):
        assert words in text


def test_the_description_says_so_when_nobody_is_usable_and_follows_a_reload() -> None:
    with served(FakeGateway(titles=())) as site:
        empty = site.post(asking("tools/list")).json["result"]["tools"][0]["description"]
        site.gateway.titles = ("Exa",)
        after = site.post(asking("tools/list")).json["result"]["tools"][0]["description"]
    assert "No search provider is usable" in empty
    assert "through Exa:" in after


def test_a_prefix_renames_both_tools() -> None:
    from dataclasses import replace

    with served(FakeGateway(replace(settings(), tool_prefix="team_"))) as site:
        names = [tool["name"] for tool in site.post(asking("tools/list")).json["result"]["tools"]]
        assert names == ["team_web_search", "team_web_search_status"]
        assert site.post(call(tool="team_web_search")).json["result"]["structuredContent"] == FOUND
        assert "error" in site.post(call(tool="web_search")).json


def test_the_provider_argument_is_listed_when_debugging() -> None:
    from dataclasses import replace

    with served(FakeGateway(replace(settings(), debug=True))) as site:
        schema = site.post(asking("tools/list")).json["result"]["tools"][0]["inputSchema"]
    assert schema["properties"]["provider"]["enum"] == ["brave"]


@pytest.mark.parametrize("arguments", [None, {}, {"query": "x", "toolCallId": "n8n", "deep": {"a": [1]}}])
def test_arguments_reach_the_gateway_as_they_came(site: Served[FakeGateway], arguments: object) -> None:
    message = call()
    message["params"]["arguments"] = arguments
    assert "result" in site.post(message).json
    assert site.gateway.asked[-1] == (arguments or {}, "default")


def test_a_lone_surrogate_reaches_the_gateway_and_comes_back_escaped(site: Served[FakeGateway]) -> None:
    body = json.dumps(call({"query": "x\ud800y"}, id="\ud800")).encode()
    got = site.post(body)
    assert got.json["id"] == "\ud800"
    assert site.gateway.asked[-1][0] == {"query": "x\ud800y"}


def test_the_status_keeps_its_nulls(site: Served[FakeGateway]) -> None:
    result = site.post(call({}, tool="web_search_status")).json["result"]
    assert result["structuredContent"]["network"] == {"proxy": None}
    assert json.loads(result["content"][0]["text"]) == result["structuredContent"]


@pytest.mark.parametrize("era", [HANDSHAKE, MODERN])
def test_a_failed_search_is_an_error_that_satisfies_the_schema(era: str) -> None:
    with served(FakeGateway(answer=Answer(FAILED, is_error=True))) as site:
        result = site.post(*in_era(era, call())).json["result"]
    assert result["isError"] is True
    jsonschema.validate(result["structuredContent"], answer.OUTPUT_SCHEMA)


@pytest.mark.parametrize("era", [HANDSHAKE, MODERN])
def test_a_fault_of_ours_is_told_in_fixed_words_and_explained_in_the_log(
    era: str, caplog: pytest.LogCaptureFixture
) -> None:
    with served(FakeGateway(fault=RuntimeError("the canary sings"))) as site:
        found = site.post(*in_era(era, call()))
        status = site.post(*in_era(era, call({}, tool="web_search_status")))
    result = found.json["result"]
    jsonschema.validate(result["structuredContent"], answer.OUTPUT_SCHEMA)
    assert result["isError"] is True
    (step,) = result["structuredContent"]["meta"]["fallback_chain"]
    assert (step["provider"], step["outcome"]) == ("gateway", "internal_error")
    assert status.json["error"]["code"] == -32603
    assert b"canary" not in found.body + status.body
    incident = step["detail"].removeprefix("incident ")
    assert f"internal_error {incident}" in caplog.text


@pytest.mark.anyio
@pytest.mark.parametrize("era", [HANDSHAKE, MODERN])
async def test_progress_that_nobody_reads_any_more_does_no_harm_to_the_search(era: str) -> None:
    events, reader = anyio.create_memory_object_stream[bytes](1)
    reader.close()
    about = ServerMessageMetadata(request_context="default")
    exchange = Exchange(7, about, progress_token="t", events=events)
    connection = Connection.from_envelope(era, None, None if era == HANDSHAKE else ClientCapabilities())
    with events:
        told = await serve_one(
            MCPServer(FakeGateway()),  # type: ignore[arg-type]
            exchange,
            "tools/call",
            in_era(era, call(token="t"))[0]["params"],
            connection=connection,
            lifespan_state={},
        )
    assert told["structuredContent"] == FOUND


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        ("ping", {}),
        ("resources/list", {"resources": []}),
        ("resources/templates/list", {"resourceTemplates": []}),
        ("prompts/list", {"prompts": []}),
    ],
)
def test_hosts_may_ask_for_what_we_do_not_have(
    site: Served[FakeGateway], method: str, expected: dict[str, Any]
) -> None:
    assert site.post(asking(method)).json["result"] == expected


@pytest.mark.parametrize(("method", "params"), [("resources/read", {"uri": "x://y"}), ("prompts/get", {"name": "x"})])
def test_what_we_do_not_have_cannot_be_read(site: Served[FakeGateway], method: str, params: dict[str, Any]) -> None:
    assert site.post(asking(method, **params)).json["error"]["code"] == -32602


def test_listening_for_changes_is_switched_off(site: Served[FakeGateway]) -> None:
    got = site.post(*modern(asking("subscriptions/listen", notifications={"toolsListChanged": True})))
    assert (got.status, got.json["error"]["code"]) == (404, -32601)


# ---------------------------------------------------------------------------------------------------------------------
# leaving


@pytest.mark.parametrize("form", ["json", "stream"])
@pytest.mark.parametrize("era", [HANDSHAKE, MODERN])
def test_a_caller_who_closes_the_response_cancels_the_search(
    era: str, form: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    with served(FakeGateway(hangs=True)) as site:
        message, headers = in_era(era, call(token="t" if form == "stream" else None))
        opened = site.open(message, headers | {"Accept": BOTH})
        assert site.gateway.entered.wait(10)
        if form == "stream":
            assert b"text/event-stream" in opened.recv(65536)
        opened.close()
        assert site.gateway.left.wait(10)
        assert site.post(asking("ping")).status == 200
    assert caplog.text == ""


def test_a_cancellation_posted_over_http_does_nothing() -> None:
    with served(FakeGateway(hangs=True)) as site, site.open(call(), {}) as opened:
        assert site.gateway.entered.wait(10)
        cancelled = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}}
        assert site.post(cancelled).status == 202
        site.gateway.go_on.set()
        assert opened.recv(65536).startswith(b"HTTP/1.1 200")
    assert not site.gateway.left.is_set()


# ---------------------------------------------------------------------------------------------------------------------
# the SDK's own client


@pytest.mark.anyio
@pytest.mark.parametrize("mode", ["auto", "legacy", MODERN])
async def test_the_python_sdk_client_works_in_both_eras_with_a_bearer_token(mode: str) -> None:
    heard: list[tuple[float, str | None]] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        heard.append((progress, message))

    gateway = FakeGateway(settings(TOKEN))
    with served(gateway) as site:
        async with (
            httpx2.AsyncClient(headers=BEARER) as http,
            Client(streamable_http_client(site.url, http_client=http), mode=mode) as client,
        ):
            assert client.protocol_version == (HANDSHAKE if mode == "legacy" else MODERN)
            tools = (await client.list_tools()).tools
            found = await client.call_tool("web_search", {"query": "snow"}, progress_callback=on_progress)
            gateway.answer = Answer(FAILED, is_error=True)
            failed = await client.call_tool("web_search", {"query": "snow"})
    assert [tool.output_schema for tool in tools] == [answer.OUTPUT_SCHEMA, STATUS_SCHEMA]
    assert (found.structured_content, found.is_error) == (FOUND, False)
    assert (failed.structured_content, failed.is_error) == (FAILED, True)
    assert heard == [(1, "bocha: quota_exhausted (http_403 no money)"), (2, "brave: ok")]
    assert gateway.asked[0] == ({"query": "snow"}, "t1")
