"""Who may come in, by which door, and what everybody else hears."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace

import pytest

from gateway.config import ServerSettings
from gateway.doors.access import Rules, place
from gateway.settings import serving_refusal
from tests.doors_fixtures import BEARER, FOUND, TOKEN, FakeGateway, Served, call, served, settings

ORIGIN = "https://app.example.com"
PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}


@pytest.fixture(scope="module")
def site() -> Iterator[Served[FakeGateway]]:
    """With two tokens and one allowed origin."""
    with served(FakeGateway(settings(TOKEN, "other-token", allowed_origins=(ORIGIN,)))) as site:
        yield site


@pytest.fixture(scope="module")
def bare() -> Iterator[Served[FakeGateway]]:
    """Without a token."""
    with served(FakeGateway()) as bare:
        yield bare


# ---------------------------------------------------------------------------------------------------------------------
# open paths


@pytest.mark.parametrize("headers", [{}, {"Host": "evil.example.com"}, {"Origin": "https://evil.example.com"}])
def test_healthz_is_always_ok(site: Served[FakeGateway], bare: Served[FakeGateway], headers: dict[str, str]) -> None:
    for each in (site, bare):
        got = each.send("GET", "/healthz", headers=headers)
        assert (got.status, got.json) == (200, {"status": "ok"})


def test_readyz_is_open_and_says_ready(site: Served[FakeGateway]) -> None:
    assert site.send("GET", "/readyz").json == {"status": "ready"}


@pytest.mark.parametrize(
    ("gateway", "words"),
    [
        (FakeGateway(titles=()), "no search provider is usable"),
        (FakeGateway(replace(settings(), errors=("providers[brave].quota.limt: no such setting",))), "has 1 fault;"),
    ],
)
def test_readyz_says_what_is_wrong_without_details(gateway: FakeGateway, words: str) -> None:
    with served(gateway) as site:
        got = site.send("GET", "/readyz")
    assert got.status == 503
    assert words in got.json["reasons"][0]
    assert b"limt" not in got.body


@pytest.mark.parametrize(
    "path",
    [
        "/.well-known/oauth-authorization-server",
        "/.well-known/oauth-protected-resource/mcp",
        "/mcp/.well-known/openid-configuration",
        "/register",
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_whoever_looks_for_an_oauth_server_gets_a_plain_json_404(
    site: Served[FakeGateway], method: str, path: str
) -> None:
    got = site.send(method, path)
    assert (got.status, got.headers["content-type"]) == (404, "application/json")
    assert "error" in got.json


@pytest.mark.parametrize("path", ["/", "/static/page.js", "/openapi.json"])
def test_the_page_and_its_files_need_no_token(site: Served[FakeGateway], path: str) -> None:
    assert site.send("GET", path).status != 401
    assert site.send("POST", path).status == 401


# ---------------------------------------------------------------------------------------------------------------------
# tokens


@pytest.mark.parametrize("path", ["/mcp", "/mcp/", "/nope", "/metrics", "/status", "/t/x/mcp", "/sse", "/static"])
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
def test_everything_else_is_401_first(site: Served[FakeGateway], method: str, path: str) -> None:
    got = site.send(method, path, headers={"Mcp-Session-Id": "old", "Origin": "https://evil.example.com"})
    assert got.status == 401
    assert got.headers["www-authenticate"] == "Bearer"
    assert got.headers["content-type"] == "application/json"


@pytest.mark.parametrize(
    "authorization",
    [f"Bearer {TOKEN}", f"bearer {TOKEN}", f"BEARER   {TOKEN}", f"  Bearer \t {TOKEN} \t", f"Bearer\t{TOKEN}"],
)
def test_scheme_case_and_spaces_are_forgiven(site: Served[FakeGateway], authorization: str) -> None:
    assert site.post(PING, {"Authorization": authorization}).status == 200


def test_wrong_tokens_get_the_same_bytes_whatever_is_wrong_with_them(site: Served[FakeGateway]) -> None:
    wrong = [
        "Bearer x",
        f"Bearer {TOKEN[:-1]}",
        f"Bearer {TOKEN}x",
        f"Bearer {TOKEN.upper()}",
        "Bearer ${TOKEN}",
        "Bearer ${env:WEBSEARCH_TOKEN}",
        "Bearer",
        "Bearer " + "y" * 5000,
        f"Basic {TOKEN}",
        TOKEN,
        "",
    ]
    answers = [site.post(PING, {"Authorization": each}) for each in wrong]
    assert {(got.status, got.body) for got in answers} == {(401, answers[0].body)}
    assert len({tuple(sorted(name for name in got.headers)) for got in answers}) == 1
    assert "resource_metadata" not in answers[0].headers["www-authenticate"]
    assert answers[0].json == {
        "error": "token not accepted; is it an old one, or a ${variable} that was sent without its value?"
    }


def test_a_missing_header_is_told_apart_from_a_wrong_token(site: Served[FakeGateway]) -> None:
    assert site.post(PING).json == {"error": "no token: send Authorization: Bearer <token>"}


def test_each_token_counts_under_its_own_name(site: Served[FakeGateway]) -> None:
    for token in ("other-token", TOKEN):
        assert site.post(call(), {"Authorization": f"Bearer {token}"}).json["result"]["structuredContent"] == FOUND
    assert [client for _, client in site.gateway.asked[-2:]] == ["t2", "t1"]


def test_an_unknown_path_is_404_and_a_wrong_method_405_only_for_those_who_may(site: Served[FakeGateway]) -> None:
    missing = site.send("GET", "/nope", headers=BEARER)
    assert (missing.status, missing.headers["content-type"]) == (404, "application/json")
    wrong = site.send("POST", "/readyz", headers=BEARER)
    assert (wrong.status, wrong.json) == (405, {"error": "method not allowed"})


@pytest.mark.parametrize("path", ["/mcp//", "//mcp", "/MCP", "/healthz/", "/sse"])
def test_nothing_is_redirected(site: Served[FakeGateway], path: str) -> None:
    got = site.send("GET", path, headers=BEARER)
    assert (got.status, got.headers["content-type"]) == (404, "application/json")


def test_a_token_in_the_query_or_path_counts_only_when_allowed(
    site: Served[FakeGateway], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    assert site.post(PING, path=f"/mcp?token={TOKEN}").status == 401
    assert site.post(PING, path=f"/t/{TOKEN}/mcp").status == 401
    with served(FakeGateway(settings(TOKEN, allow_query_token=True, allow_path_token=True))) as generous:
        assert generous.post(PING, path=f"/mcp?x=1&token={TOKEN}").status == 200
        assert generous.post(call(), path=f"/t/{TOKEN}/mcp").status == 200
        assert generous.gateway.asked[-1][1] == "t1"
        wrong = [generous.post(PING, path=path) for path in ("/mcp?token=x", "/t/x/mcp", "/mcp?token=")]
        assert {(got.status, got.body) for got in wrong} == {(401, wrong[0].body)}
        assert generous.post(PING, {"Authorization": "Bearer x"}, path=f"/mcp?token={TOKEN}").status == 401
    # pytest hears uvicorn's access log, which no one else does: we switch it off
    assert not [record for record in caplog.records if TOKEN in record.getMessage() and record.name != "uvicorn.access"]


def test_an_empty_token_lets_nobody_in() -> None:
    with served(FakeGateway(settings(""))) as site:
        assert {site.post(PING, {"Authorization": each}).status for each in ("Bearer ", "Bearer", "")} == {401}


def test_new_tokens_hold_from_the_next_request_after_a_reload() -> None:
    with served(FakeGateway(settings("first"))) as site:
        assert site.post(PING, {"Authorization": "Bearer first"}).status == 200
        site.gateway.config = settings("second")
        assert site.post(PING, {"Authorization": "Bearer first"}).status == 401
        assert site.post(PING, {"Authorization": "Bearer second"}).status == 200


def test_every_token_is_compared_even_after_a_match(monkeypatch: pytest.MonkeyPatch) -> None:
    import hmac

    compared: list[bytes] = []

    def watched(known: bytes, given: bytes) -> bool:
        compared.append(known)
        return known == given

    monkeypatch.setattr(hmac, "compare_digest", watched)
    rules = Rules(settings("a", "b", "c").server)
    assert rules.name_of(b"a") == "t1"
    assert len(compared) == 3
    assert {len(each) for each in compared} == {32}


# ---------------------------------------------------------------------------------------------------------------------
# Host and Origin


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1", "127.0.0.1:9999", "[::1]", "[::1]:80"])
def test_without_a_token_local_names_are_served(bare: Served[FakeGateway], host: str) -> None:
    assert bare.post(PING, {"Host": host}).status == 200


@pytest.mark.parametrize(
    "host", ["search.lan", "127.0.0.1.evil.com", "localhost.evil.com:80", "evil@localhost", "192.168.0.7:8787", ""]
)
def test_without_a_token_other_names_are_refused_and_the_setting_is_named(bare: Served[FakeGateway], host: str) -> None:
    got = bare.post(PING, {"Host": host})
    assert got.status == 421
    assert "server.tokens" in got.json["error"]


@pytest.mark.parametrize("origin", ["http://localhost:6274", "http://127.0.0.1", "https://[::1]:3000"])
def test_without_a_token_local_pages_may_call(bare: Served[FakeGateway], origin: str) -> None:
    assert bare.post(PING, {"Origin": origin}).status == 200


@pytest.mark.parametrize("origin", ["https://evil.example.com", "null", "http://localhost.evil.com", ORIGIN, ""])
def test_without_a_token_foreign_pages_are_refused(bare: Served[FakeGateway], origin: str) -> None:
    got = bare.post(PING, {"Origin": origin})
    assert got.status == 403
    assert "server.allowed_origins" in got.json["error"]


@pytest.mark.parametrize("host", ["search.lan:8080", "10.0.0.7", "anything.example.com"])
def test_with_a_token_any_host_is_served(site: Served[FakeGateway], host: str) -> None:
    assert site.post(PING, BEARER | {"Host": host}).status == 200


def test_with_allowed_hosts_only_those_are_served() -> None:
    with served(FakeGateway(settings(TOKEN, allowed_hosts=("search.lan", "gw.example.com:8443")))) as site:
        statuses = {
            host: site.post(PING, BEARER | {"Host": host}).status
            for host in (
                "search.lan",
                "Search.LAN:8080",
                "gw.example.com:8443",
                "gw.example.com:1",
                "gw.example.com",
                "x",
            )
        }
        refused = site.post(PING, BEARER | {"Host": "x"})
    assert statuses == {
        "search.lan": 200,
        "Search.LAN:8080": 200,
        "gw.example.com:8443": 200,
        "gw.example.com:1": 421,
        "gw.example.com": 421,
        "x": 421,
    }
    assert "server.allowed_hosts" in refused.json["error"]


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        (ORIGIN, 200),
        (ORIGIN + ":8443", 200),
        ("http://app.example.com", 403),
        ("https://gw.example.com", 200),
        ("https://gw.example.com:3000", 200),
        ("https://evil.example.com", 403),
        ("null", 403),
    ],
)
def test_with_a_token_an_origin_must_be_the_same_host_or_listed(
    site: Served[FakeGateway], origin: str, status: int
) -> None:
    got = site.post(PING, BEARER | {"Host": "gw.example.com", "Origin": origin})
    assert got.status == status
    assert status == 200 or "server.allowed_origins" in got.json["error"]
    assert ("access-control-allow-origin" in got.headers) is origin.startswith(ORIGIN)


def test_a_preflight_of_an_allowed_page_needs_no_token(site: Served[FakeGateway]) -> None:
    asked = {
        "Origin": ORIGIN,
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "authorization",
    }
    got = site.send("OPTIONS", "/mcp", headers=asked)
    assert (got.status, got.body) == (204, b"")
    assert got.headers["access-control-allow-origin"] == ORIGIN
    assert "POST" in got.headers["access-control-allow-methods"]
    assert "authorization" in got.headers["access-control-allow-headers"]


def test_a_preflight_of_a_foreign_page_is_refused(site: Served[FakeGateway]) -> None:
    got = site.send("OPTIONS", "/mcp", headers={"Origin": "https://evil.example.com"})
    assert got.status == 403
    assert "access-control-allow-origin" not in got.headers


def test_an_allowed_page_may_read_refusals_too(site: Served[FakeGateway]) -> None:
    got = site.post(PING, {"Origin": ORIGIN})
    assert (got.status, got.headers["access-control-allow-origin"]) == (401, ORIGIN)


# ---------------------------------------------------------------------------------------------------------------------
# pure


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "localhost", "::1", "[::1]"])
def test_loopback_may_be_bound_without_a_token(host: str) -> None:
    assert serving_refusal(settings(host=host)) is None


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "", "192.168.0.7", "search.lan"])
def test_anything_else_needs_a_token(host: str) -> None:
    why = serving_refusal(settings(host=host))
    assert why is not None
    assert "WEBSEARCH_TOKEN" in why
    assert serving_refusal(settings("x", host=host)) is None


@pytest.mark.parametrize("text", ["", "a b", "http://", "user@host", "host/path", "host:port", "[::1", "host?x"])
def test_what_names_no_place_is_none(text: str) -> None:
    found = place(text)
    assert found is None or " " in found.host


def test_rules_without_tokens_hold_no_digests() -> None:
    assert Rules(ServerSettings()).digests == []
