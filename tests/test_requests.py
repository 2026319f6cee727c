"""What each JSON vendor is sent: fields, caps, keys, addresses. Nothing leaves this process."""

from __future__ import annotations

import base64
import json
from datetime import datetime
from typing import Any
from urllib.parse import parse_qsl

import httpx2
import pytest

import providers
from providers import Draft, Outcome, Query, Reply, Settings

KEY = "canary-key-5fb1e0"
NOW = datetime.fromisoformat("2026-11-30T12:00:00+00:00").timestamp()
INSTANCE = "http://searx.example:8080"

JSON_VENDORS = ("bocha", "tavily", "exa")
FULL = Query("kelp forest", 5, "week", ("a.example", "b.example"), ("c.example",))


def draft(name: str, query: Query, *, key: str = KEY, base_url: str | None = None, **options: Any) -> Draft:
    provider = providers.find(name)(Settings(base_url=base_url, options=options), clock=lambda: NOW)
    made = provider.draft(query, key)
    assert isinstance(made, Draft), made
    return made


def sent(name: str, query: Query, **settings: Any) -> tuple[httpx2.Request, dict[str, Any]]:
    """The request, and its fields wherever the vendor takes them."""
    request = draft(name, query, **settings).request
    if name == "brave":
        return request, dict(request.url.params)
    body = request.content.decode()
    return request, dict(parse_qsl(body, keep_blank_values=True)) if name == "searxng" else json.loads(body)


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        (
            "bocha",
            {
                "query": "kelp forest",
                "count": 5,
                "summary": True,
                "freshness": "oneWeek",
                "include": "a.example|b.example",
                "exclude": "c.example",
            },
        ),
        (
            "tavily",
            {
                "query": "kelp forest",
                "max_results": 5,
                "search_depth": "basic",
                "topic": "general",
                "include_published_date": True,
                "time_range": "week",
                "include_domains": ["a.example", "b.example"],
                "include_domains_mode": "restrict",
                "exclude_domains": ["c.example"],
            },
        ),
        (
            "brave",
            {
                "q": "kelp forest site:a.example OR site:b.example -site:c.example",
                "count": "5",
                "result_filter": "web",
                "text_decorations": "false",
                "freshness": "pw",
            },
        ),
        (
            "exa",
            {
                "query": "kelp forest",
                "type": "auto",
                "numResults": 5,
                "contents": {"highlights": True},
                "startPublishedDate": "2026-11-23T12:00:00.000Z",
                "includeDomains": ["a.example", "b.example"],
                "excludeDomains": ["c.example"],
            },
        ),
        (
            "searxng",
            {
                "q": "kelp forest site:a.example OR site:b.example -site:c.example",
                "format": "json",
                "time_range": "week",
            },
        ),
    ],
)
def test_everything_asked_is_sent_in_the_vendors_words(name: str, fields: dict[str, Any]) -> None:
    assert sent(name, FULL, key=INSTANCE if name == "searxng" else KEY)[1] == fields


@pytest.mark.parametrize(
    ("name", "names"),
    [
        ("bocha", {"query", "count", "summary"}),
        ("tavily", {"query", "max_results", "search_depth", "topic", "include_published_date"}),
        ("brave", {"q", "count", "result_filter", "text_decorations"}),
        ("exa", {"query", "type", "numResults", "contents"}),
        ("searxng", {"q", "format"}),
    ],
)
def test_what_was_not_asked_is_not_sent(name: str, names: set[str]) -> None:
    fields = sent(name, Query("kelp"), key=INSTANCE if name == "searxng" else KEY)[1]
    assert fields.keys() == names
    assert not [value for value in fields.values() if value in ("", None, [], [""])]


@pytest.mark.parametrize(
    ("name", "word"),
    [("bocha", "oneDay oneWeek oneMonth oneYear"), ("brave", "pd pw pm py"), ("tavily", "day week month year")],
)
def test_each_freshness_has_the_vendors_word(name: str, word: str) -> None:
    field = "time_range" if name == "tavily" else "freshness"
    asked = [sent(name, Query("kelp", freshness=each))[1][field] for each in ("day", "week", "month", "year")]
    assert asked == word.split()


def test_exa_counts_freshness_back_from_its_clock_and_says_what_that_costs() -> None:
    made = draft("exa", Query("kelp", freshness="day"))
    assert json.loads(made.request.content)["startPublishedDate"] == "2026-11-29T12:00:00.000Z"
    assert made.notes == ("exa: pages without a known date are left out by freshness",)
    assert draft("exa", Query("kelp")).notes == ()


@pytest.mark.parametrize(
    ("name", "field", "most"), [("tavily", "max_results", 20), ("brave", "count", "20"), ("bocha", "count", 50)]
)
def test_no_vendor_is_asked_for_more_rows_than_it_gives(name: str, field: str, most: object) -> None:
    assert sent(name, Query("kelp", max_results=70))[1][field] == most


@pytest.mark.parametrize(
    ("name", "header", "value"),
    [
        ("bocha", "authorization", f"Bearer {KEY}"),
        ("tavily", "authorization", f"Bearer {KEY}"),
        ("brave", "x-subscription-token", KEY),
        ("exa", "x-api-key", KEY),
    ],
)
def test_the_key_travels_in_one_header_and_nowhere_else(name: str, header: str, value: str) -> None:
    made = draft(name, FULL)
    assert [each for each, said in made.request.headers.items() if KEY in said] == [header]
    assert made.request.headers[header] == value
    assert KEY not in str(made.request.url)
    assert KEY.encode() not in made.request.content
    assert made.secrets == (KEY,)
    assert KEY not in repr(made)


HOMES = {
    "bocha": ("/v1", "/web-search"),
    "tavily": ("", "/search"),
    "brave": ("/res/v1", "/web/search"),
    "exa": ("", "/search"),
    "searxng": ("", "/search"),
}


@pytest.mark.parametrize("name", HOMES)
@pytest.mark.parametrize("prefix", ["", "/relay/search-api"])
def test_four_spellings_of_a_base_url_are_one_address(name: str, prefix: str) -> None:
    version, path = HOMES[name]
    bases = [
        f"http://relay.example:81{prefix}{part}" for part in ("", "/", version, version + path, version + path + "/")
    ]
    calls = {
        str(draft(name, Query("kelp"), **({"key": base} if name == "searxng" else {"base_url": base})).request.url)
        for base in bases
    }
    assert {call.partition("?")[0] for call in calls} == {f"http://relay.example:81{prefix}{version}{path}"}
    assert len(calls) == 1


@pytest.mark.parametrize("name", HOMES)
def test_no_client_goes_without_a_name(name: str) -> None:
    headers = draft(name, Query("kelp"), key=INSTANCE if name == "searxng" else KEY).request.headers
    assert "websearch-gateway" in headers["user-agent"]
    assert "gzip" in headers["accept-encoding"]


@pytest.mark.parametrize(
    ("name", "options", "field", "value"),
    [
        ("bocha", {"summary": False}, "summary", False),
        ("tavily", {"depth": "advanced"}, "search_depth", "advanced"),
        ("exa", {"text": True}, "contents", {"text": {"maxCharacters": 10_000}}),
        ("exa", {"type": "fast"}, "type", "fast"),
        ("searxng", {"categories": "it"}, "categories", "it"),
        ("searxng", {"engines": "mojeek,brave"}, "engines", "mojeek,brave"),
        ("searxng", {"language": "pt-BR"}, "language", "pt-BR"),
    ],
)
def test_an_option_changes_its_field(name: str, options: dict[str, Any], field: str, value: object) -> None:
    kind = providers.find(name)
    assert options.keys() <= kind.options.keys()
    assert sent(name, Query("kelp"), key=INSTANCE if name == "searxng" else KEY, **options)[1][field] == value


# ---------------------------------------------------------------------------------------------------------------------
# caps


def test_tavily_gets_at_most_400_characters() -> None:
    made = draft("tavily", Query("kelp " * 180))
    assert json.loads(made.request.content)["query"] == ("kelp " * 80).strip()
    assert made.notes == ("tavily: the query was cut to 399 characters",)


@pytest.mark.parametrize("text", ["kelp " * 100, "海" * 900, "a b " * 90])
def test_brave_gets_at_most_400_characters_and_50_words_operators_included(text: str) -> None:
    hosts = tuple(f"host-{number}.example" for number in range(12))
    made = draft("brave", Query(text.strip(), include_domains=hosts[:8], exclude_domains=hosts[8:]))
    asked = made.request.url.params["q"]
    assert len(asked) <= 400
    assert len(asked.split()) <= 50
    assert all(f"site:{host}" in asked.split() for host in hosts[:8])
    assert all(f"-site:{host}" in asked.split() for host in hosts[8:])
    assert made.notes


def test_brave_is_sent_nothing_when_operators_leave_no_room() -> None:
    hosts = tuple(f"a-rather-long-host-{number}.example" for number in range(20))
    reply = providers.find("brave")().draft(Query("kelp forest", include_domains=hosts), KEY)
    assert isinstance(reply, Reply)
    assert reply.outcome is Outcome.REQUEST_ERROR
    assert not reply.setup


# ---------------------------------------------------------------------------------------------------------------------
# SearXNG's address and query


@pytest.mark.parametrize(
    ("address", "url"),
    [
        ("searx.example:8080", "http://searx.example:8080/search"),
        ("//searx.example", "http://searx.example/search"),
        ("localhost:8080/searxng", "http://localhost:8080/searxng/search"),
        ("https://searx.example/search?q=<query>", "https://searx.example/search"),
        ("http://searx.example/x/search?q=<query>&language=auto#top", "http://searx.example/x/search"),
        ("[::1]:8888", "http://[::1]:8888/search"),
        (" HTTPS://searx.example/ ", "https://searx.example/search"),
        ("me:s3cret-pass@searx.example:8080", "http://searx.example:8080/search"),
    ],
)
def test_a_searxng_address_may_be_spelled_in_many_ways(address: str, url: str) -> None:
    request, fields = sent("searxng", Query("kelp"), key=address)
    assert (request.method, str(request.url)) == ("POST", url)
    assert fields == {"q": "kelp", "format": "json"}


@pytest.mark.parametrize("address", ["", "ftp://searx.example", "http://", "http://searx.example:port", "http://[::1"])
def test_a_searxng_address_that_is_none_is_a_setup_fault_and_nothing_is_sent(address: str) -> None:
    reply = providers.find("searxng")().draft(Query("kelp"), address)
    assert isinstance(reply, Reply)
    assert (reply.outcome, reply.setup) == (Outcome.REQUEST_ERROR, True)


@pytest.mark.parametrize("address", ["me:p%40ss-word-9@searx.example", "https://me:p%40ss-word-9@searx.example/x"])
def test_user_and_password_become_basic_auth_and_are_secrets(address: str) -> None:
    made = draft("searxng", Query("kelp"), key=address)
    assert made.request.headers["authorization"] == "Basic " + base64.b64encode(b"me:p@ss-word-9").decode()
    assert "@" not in str(made.request.url)
    assert {"me:p@ss-word-9", "p@ss-word-9", "me:p%40ss-word-9"} <= set(made.secrets)


def test_searxng_looks_like_a_client_that_its_limiter_lets_in() -> None:
    headers = draft("searxng", Query("kelp"), key=INSTANCE).request.headers
    assert "text/html" in headers["accept"]
    assert headers["accept-language"] == "*", "a language would be taken for the one to search in"
    assert "deflate" in headers["accept-encoding"]
    assert headers["content-type"] == "application/x-www-form-urlencoded"
    assert "authorization" not in headers


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("!wp kelp", "wp kelp"),
        ("kelp !!g forest", "kelp g forest"),
        (":fr kelp", "fr kelp"),
        ("kelp <3", "kelp 3"),
        ("kelp ! :: forest", "kelp forest"),
    ],
)
def test_marks_that_give_searxng_orders_are_left_out_and_noted(text: str, asked: str) -> None:
    made = draft("searxng", Query(text), key=INSTANCE)
    assert dict(parse_qsl(made.request.content.decode()))["q"] == asked
    assert made.notes == ("searxng: the marks ! : < that give it orders were left out",)


@pytest.mark.parametrize(
    "text", ["C++ std::vector", "what? now!", "a != b".replace("!=", "<>"), "<div> 12:30", '"!wp"']
)
def test_other_marks_stay(text: str) -> None:
    made = draft("searxng", Query(text), key=INSTANCE)
    assert dict(parse_qsl(made.request.content.decode()))["q"] == text
    assert made.notes == ()


def test_a_query_of_marks_alone_is_quoted() -> None:
    assert sent("searxng", Query("!!"), key=INSTANCE)[1]["q"] == '"!!"'


# ---------------------------------------------------------------------------------------------------------------------
# notes and hints in replies


def reply_to(name: str, status: int, body: str, **headers: str) -> Reply:
    wire = providers.Wire(status, headers, body.encode(), NOW)
    return providers.find(name)().read(wire)


def test_searxng_says_how_many_engines_did_not_answer() -> None:
    row = {"url": "https://t.example/", "title": "T"}
    reply = reply_to(
        "searxng", 200, json.dumps({"results": [row], "unresponsive_engines": [["a", "CAPTCHA"], ["b", "timeout"]]})
    )
    assert reply.notes == ("searxng: 2 of its engines did not answer",)


@pytest.mark.parametrize("status", [200, 302, 403])
def test_searxng_names_what_the_operator_can_mend(status: int) -> None:
    reply = reply_to("searxng", status, "<!doctype html><title>SearXNG</title>", **{"content-type": "text/html"})
    assert reply.outcome is Outcome.REQUEST_ERROR
    assert reply.setup
    assert "search.formats" in reply.hint
    assert "settings.yml" in reply.hint
    assert ("reverse proxy" in reply.hint) == (status == 403)


def test_searxng_tells_which_engines_failed_to_the_operator() -> None:
    reply = reply_to(
        "searxng", 200, json.dumps({"results": [], "unresponsive_engines": [["brave", "Suspended: CAPTCHA"]]})
    )
    assert (reply.detail, reply.message) == ("http_200 all engines blocked", "brave: captcha")


def test_exa_says_when_the_vendor_dropped_a_filter_or_ignored_a_field() -> None:
    body = {
        "results": [{"url": "https://t.example/"}],
        "notices": [{"code": "RESTRICTIONS_RELAXED", "path": "includeDomains"}, {"code": "OTHER"}],
        "warnings": [{"code": "IGNORED_FIELD", "path": "<b>\n"}],
    }
    assert reply_to("exa", 200, json.dumps(body)).notes == (
        "exa: nothing matched includeDomains, so the vendor dropped that filter",
        "exa: a field had no effect",
    )


@pytest.mark.parametrize(
    ("name", "status", "body", "message"),
    [
        ("tavily", 400, '{"detail": {"error": "a"}}', "a"),
        ("tavily", 400, '{"detail": "b"}', "b"),
        ("tavily", 422, '{"detail": [{"msg": "c"}]}', "c"),
        ("tavily", 429, '{"error": "d"}', "d"),
        ("tavily", 429, '{"error": {"message": "e"}}', "e"),
        ("tavily", 400, '{"detail": [], "error": 5}', ""),
        ("brave", 422, '{"error": {"detail": "f", "code": 7, "meta": []}}', "f"),
        ("brave", 422, '{"errors": [null, {"detail": "g"}]}', "g"),
        ("brave", 400, '{"message": "h"}', "h"),
        ("exa", 401, '{"error": "i"}', "i"),
        ("exa", 500, '{"error": {"message": "j"}, "tag": 5}', "j"),
        ("bocha", 403, '{"code": "403", "message": "k"}', "k"),
        ("bocha", 200, '{"code": 500, "msg": "l"}', "l"),
        ("searxng", 400, '{"error": "m"}', "m"),
        ("searxng", 502, "<h1>n</h1>", "n"),
    ],
)
def test_the_vendors_own_sentence_is_found_in_every_shape(name: str, status: int, body: str, message: str) -> None:
    assert reply_to(name, status, body).message == message
