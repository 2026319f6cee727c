"""Vendors that are tables: what they are sent, how their replies are read."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any
from urllib.parse import parse_qsl

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

import providers
from providers import Draft, Outcome, Query, Reply, Settings, Wire
from providers._declared import Declared, declare, shipped
from providers._declared._paths import path, paths
from providers._declared._tables import read
from providers._sections import Findings, Section, Unfit

KEY = "canary-key-5fb1e0"
NOW = datetime.fromisoformat("2026-11-30T12:00:00+00:00").timestamp()
FULL = Query("kelp forest", 5, "week", ("a.example", "b.example"), ("c.example",))
SHIPPED = ("perplexity", "jina", "linkup", "youcom", "serpapi", "parallel", "google_pse")

PLAIN: dict[str, Any] = {
    "url": "https://search.corp.example/api/query",
    "params": {"q": "{query}"},
    "rows": "hits",
    "fields": {"title": "title", "url": "url", "snippet": "text"},
}
"""As little as a table can have."""
ROW = {"title": "Kelp", "url": "https://kelp.example/", "text": "Algae."}


def vendor(**members: Any) -> type[Declared]:
    """The vendor of a table that is `PLAIN` but for `members`, in which nothing is wrong."""
    findings = Findings()
    table = read(Section("table", PLAIN | members, findings), "corp")
    assert findings.errors_at() == ()
    return declare("corp", table)


def drafted(kind: type[providers.HTTPProvider], query: Query, key: str = KEY, **settings: Any) -> Draft:
    made = kind(Settings(**settings), clock=lambda: NOW).draft(query, key)
    assert isinstance(made, Draft), made
    return made


def sent(kind: type[providers.HTTPProvider], query: Query, **settings: Any) -> httpx2.Request:
    return drafted(kind, query, **settings).request


def fields(request: httpx2.Request) -> Any:
    """The body, or what follows the `?`."""
    return json.loads(request.content) if request.content else dict(parse_qsl(request.url.query.decode()))


def reading(kind: type[providers.HTTPProvider], body: object, status: int = 200, **headers: str) -> Reply:
    said = {name.replace("_", "-"): value for name, value in headers.items()}
    text = body if isinstance(body, str) else json.dumps(body)
    return kind(clock=lambda: NOW).read(Wire(status, said, text.encode(), NOW))


# ---------------------------------------------------------------------------------------------------------------------
# those of the package

WHOLE: dict[str, tuple[str, dict[str, Any], str]] = {
    "perplexity": (
        "https://api.perplexity.ai/search",
        {
            "query": "kelp forest",
            "max_results": 5,
            "search_recency_filter": "week",
            "search_domain_filter": ["a.example", "b.example"],
        },
        "authorization",
    ),
    "jina": ("https://s.jina.ai/", {"q": "kelp forest", "num": 5}, "authorization"),
    "linkup": (
        "https://api.linkup.so/v1/search",
        {
            "q": "kelp forest",
            "depth": "standard",
            "outputType": "searchResults",
            "maxResults": 5,
            "includeDomains": ["a.example", "b.example"],
            "excludeDomains": ["c.example"],
            "fromDate": "2026-11-23",
        },
        "authorization",
    ),
    "youcom": (
        "https://ydc-index.io/v1/search",
        {"query": "kelp forest", "count": 5, "freshness": "week", "include_domains": ["a.example", "b.example"]},
        "x-api-key",
    ),
    "serpapi": (
        "https://serpapi.com/search",
        {
            "engine": "google",
            "q": "kelp forest site:a.example OR site:b.example -site:c.example",
            "num": "5",
            "tbs": "qdr:w",
            "api_key": KEY,
        },
        "",
    ),
    "parallel": (
        "https://api.parallel.ai/v1/search",
        {
            "search_queries": ["kelp forest"],
            "advanced_settings": {
                "max_results": 5,
                "source_policy": {
                    "include_domains": ["a.example", "b.example"],
                    "exclude_domains": ["c.example"],
                },
            },
        },
        "x-api-key",
    ),
    "google_pse": (
        "https://www.googleapis.com/customsearch/v1",
        {
            "q": "kelp forest site:a.example OR site:b.example -site:c.example",
            "num": "5",
            "dateRestrict": "w1",
        },
        "x-goog-api-key",
    ),
}


@pytest.mark.parametrize("name", SHIPPED)
def test_a_vendor_of_the_package_is_sent_its_own_fields(name: str) -> None:
    url, wanted, header = WHOLE[name]
    request = sent(providers.find(name), FULL)
    assert str(request.url).partition("?")[0] == url
    assert request.method == ("GET" if "?" in str(request.url) else "POST")
    assert fields(request) == wanted
    assert request.headers["accept"] == "application/json"
    assert [each for each in request.headers if KEY in request.headers[each]] == ([header] if header else [])


BARE: dict[str, dict[str, Any]] = {
    "perplexity": {"query": "kelp", "max_results": 8},
    "jina": {"q": "kelp", "num": 8},
    "linkup": {"q": "kelp", "depth": "standard", "outputType": "searchResults", "maxResults": 8},
    "youcom": {"query": "kelp", "count": 8},
    "serpapi": {"engine": "google", "q": "kelp", "num": "8", "api_key": KEY},
    "parallel": {"search_queries": ["kelp"], "advanced_settings": {"max_results": 8}},
    "google_pse": {"q": "kelp", "num": "8"},
}


@pytest.mark.parametrize("name", SHIPPED)
def test_what_nobody_asked_for_is_not_sent(name: str) -> None:
    assert fields(sent(providers.find(name), Query("kelp"))) == BARE[name]


OPTIONS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "perplexity": ({"country": "DE"}, {"country": "DE"}),
    "jina": ({"country": "de"}, {"gl": "de"}),
    "linkup": ({"depth": "deep"}, {"depth": "deep"}),
    "youcom": ({"country": "DE"}, {"country": "DE"}),
    "serpapi": (
        {"engine": "bing", "country": "de", "language": "fr"},
        {"engine": "bing", "gl": "de", "hl": "fr"},
    ),
    "parallel": (
        {"mode": "basic", "country": "de"},
        {"mode": "basic", "advanced_settings": {"max_results": 8, "location": "de"}},
    ),
    "google_pse": (
        {"cx": "0123:abc", "country": "de", "language": "lang_de"},
        {"cx": "0123:abc", "gl": "de", "lr": "lang_de"},
    ),
}


@pytest.mark.parametrize("name", SHIPPED)
def test_an_option_of_a_vendor_of_the_package_is_sent(name: str) -> None:
    options, changed = OPTIONS[name]
    assert fields(sent(providers.find(name), Query("kelp"), options=options)) == BARE[name] | changed


def test_jina_leaves_the_text_of_pages_out_when_told_to() -> None:
    request = sent(providers.find("jina"), Query("kelp"), options={"respond_with": "no-content"})
    assert request.headers["x-respond-with"] == "no-content"


@pytest.mark.parametrize(("name", "field"), [("perplexity", "search_domain_filter"), ("youcom", "exclude_domains")])
def test_hosts_to_leave_out_are_sent_where_no_host_is_to_be_searched(name: str, field: str) -> None:
    hosts = fields(sent(providers.find(name), Query("kelp", exclude_domains=("a.example", "b.example"))))[field]
    assert [host.removeprefix("-") for host in hosts] == ["a.example", "b.example"]
    assert all(host.startswith("-") == (name == "perplexity") for host in hosts)


@pytest.mark.parametrize("name", ["perplexity", "youcom"])
def test_a_vendor_that_takes_one_list_says_what_it_was_not_sent(name: str) -> None:
    assert drafted(providers.find(name), FULL).notes == (
        f"{name}: domains beyond its own filter were left to the gateway",
    )
    assert drafted(providers.find(name), Query("kelp", include_domains=("a.example",))).notes == ()


@pytest.mark.parametrize(
    ("name", "most"), [("perplexity", 20), ("jina", 20), ("google_pse", 10), ("linkup", None), ("parallel", None)]
)
def test_no_more_rows_are_asked_for_than_the_vendor_gives(name: str, most: int | None) -> None:
    told = str(fields(sent(providers.find(name), Query("kelp", 200))))
    assert ("200" in told) == (most is None)
    assert most is None or str(most) in told


@pytest.mark.parametrize("name", SHIPPED)
def test_what_costs_money_has_to_be_listed(name: str) -> None:
    assert providers.find(name).joins == "if_listed"
    assert providers.find(name).timeout_s == 15


@pytest.mark.parametrize("name", [name for name in SHIPPED if name not in ("jina", "parallel")])
@pytest.mark.parametrize("freshness", ["day", "week", "month", "year"])
def test_every_freshness_is_sent(name: str, freshness: Any) -> None:
    kind = providers.find(name)
    assert kind.enforces_freshness
    assert fields(sent(kind, Query("kelp", freshness=freshness))) != fields(sent(kind, Query("kelp")))


def test_a_mistake_in_a_table_of_the_package_is_an_error_of_ours(tmp_path: Any) -> None:
    (tmp_path / "corp.json").write_text(json.dumps({"generic_json": PLAIN | {"rosw": "hits"}, "joins": "always"}))
    with pytest.raises(ValueError, match=r"corp\.generic_json\.rosw: no such setting; did you mean 'rows'\?") as raised:
        list(shipped(str(tmp_path)))
    assert "corp.joins: must be one of" in str(raised.value)


# ---------------------------------------------------------------------------------------------------------------------
# what is sent


def body(template: object, query: Query = FULL, **members: Any) -> Any:
    """The part of a request's body that `template` becomes."""
    kind = vendor(method="POST", params={}, body={"q": "{query}", "part": template}, **members)
    return fields(sent(kind, query)).get("part", "left out")


WEEK = {"day": "d", "week": "w", "month": "m", "year": "y"}


@pytest.mark.parametrize(
    ("template", "value"),
    [
        ("{max_results}", 5),
        ("top {max_results}", "top 5"),
        ("{query}", "kelp forest"),
        ("{{query}} {query}", "{query} kelp forest"),
        ("{include_domains}", ["a.example", "b.example"]),
        ("in {include_domains}", "in a.example,b.example"),
        (["{include_domains}"], ["a.example", "b.example"]),
        (["x", "-{exclude_domains}", "+{include_domains}"], ["x", "-c.example", "+a.example", "+b.example"]),
        ({"not": "{exclude_domains}"}, {"not": ["c.example"]}),
        ("{after:%d.%m.%Y}", "23.11.2026"),
        ([1, None, True, 1.5, {}, []], [1, None, True, 1.5, {}, []]),
        ("", ""),
        (None, None),
    ],
)
def test_a_placeholder_becomes_its_value(template: object, value: object) -> None:
    assert body(template) == value


@pytest.mark.parametrize(
    "template",
    [
        "{include_domains}",
        "since {after:%Y}",
        ["{include_domains}", "-{exclude_domains}"],
        {"a": {"b": ["{exclude_domains}"]}},
        "{options.depth}",
    ],
)
def test_what_has_no_value_is_left_out(template: object) -> None:
    options = {"depth": {"about": "how deep"}} if template == "{options.depth}" else {}
    assert body(template, Query("kelp"), options=options) == "left out"


def test_a_list_keeps_what_has_a_value() -> None:
    assert body(["x", "{include_domains}"], Query("kelp")) == ["x"]
    assert body({"x": 1, "y": "{after:%Y}"}, Query("kelp")) == {"x": 1}


def test_freshness_becomes_the_vendors_word() -> None:
    assert body("{freshness}", freshness=WEEK) == "w"
    assert body("{freshness}", freshness={**WEEK, "week": 7}) == 7
    assert body("{freshness}", Query("kelp"), freshness=WEEK) == "left out"


@pytest.mark.parametrize(
    ("members", "is_held"),
    [
        ({}, False),
        ({"params": {"q": "{query}", "t": "{freshness}"}, "freshness": WEEK}, True),
        ({"params": {"q": "{query}", "since": "{after:%Y}"}}, True),
    ],
)
def test_a_vendor_is_held_to_freshness_when_it_is_sent(members: dict[str, Any], is_held: bool) -> None:
    assert vendor(**members).enforces_freshness is is_held


def test_parameters_are_text() -> None:
    params = {
        "q": "{query}",
        "n": "{max_results}",
        "site": ["{include_domains}"],
        "not": "{exclude_domains}",
        "x": True,
    }
    assert sent(vendor(params=params), FULL).url.query == (
        b"q=kelp+forest&n=5&site=a.example&site=b.example&not=c.example&x=true"
    )


def test_what_stands_in_the_path_is_percent_encoded() -> None:
    kind = vendor(
        url="https://corp.example/{options.index}/find/{query}/", params={}, options={"index": {"default": "a/b"}}
    )
    assert str(sent(kind, Query("été 50%/?#")).url) == (
        "https://corp.example/a%2Fb/find/%C3%A9t%C3%A9%2050%25%2F%3F%23/"
    )
    assert sent(kind, Query("..")).url.raw_path == b"/a%2Fb/find/..%20/"


@pytest.mark.parametrize(
    ("url", "base_url", "called"),
    [
        ("https://corp.example/v1/search", None, "https://corp.example/v1/search"),
        ("https://corp.example/v1/search/", None, "https://corp.example/v1/search/"),
        ("https://corp.example", None, "https://corp.example/"),
        ("https://corp.example/", None, "https://corp.example/"),
        ("https://corp.example/v1/search", "http://10.0.0.5:8080", "http://10.0.0.5:8080/v1/search"),
        ("https://corp.example/v1/search", "http://10.0.0.5:8080/v1/", "http://10.0.0.5:8080/v1/search"),
        ("https://corp.example/v1/search", "http://10.0.0.5/{query}", "http://10.0.0.5/%7Bquery%7D/v1/search"),
    ],
)
def test_the_address_is_the_tables_or_the_entrys(url: str, base_url: str | None, called: str) -> None:
    assert str(sent(vendor(url=url), Query("kelp"), base_url=base_url).url).partition("?")[0] == called


def test_the_key_stands_where_the_table_wants_it_and_nowhere_else() -> None:
    kind = vendor(credential="CORP_API_KEY", headers={"X-Key": "{key}", "accept": "text/json"})
    draft = drafted(kind, FULL)
    assert (draft.request.headers["x-key"], draft.request.headers["accept"]) == (KEY, "text/json")
    assert KEY not in str(draft.request.url)
    assert draft.secrets == (KEY,)


def test_a_key_that_was_written_into_the_table_is_hidden_as_well() -> None:
    findings = Findings()
    members = {
        "headers": {"Authorization": "Bearer sk-written-here"},
        "params": {"q": "{query}", "token": "tok-written"},
    }
    kind = declare("corp", read(Section("table", PLAIN | members, findings), "corp"))
    secrets = {"Bearer sk-written-here", "sk-written-here", "tok-written"}
    assert secrets <= set(findings.secrets)
    assert set(drafted(kind, FULL, "").secrets) == secrets
    words = "looks like a key; it belongs into the credential, and {key} here"
    assert list(findings.remarks) == [f"table.headers.Authorization: {words}", f"table.params.token: {words}"]
    assert "written" not in repr(kind.table)


def test_operators_go_into_the_query_and_keep_its_cap() -> None:
    kind = vendor(operators=True, domains=1, max_query=80)
    draft = drafted(kind, Query("kelp " * 40, include_domains=("a.example",)))
    text = dict(parse_qsl(draft.request.url.query.decode()))["q"]
    assert text.endswith("kelp site:a.example")
    assert len(text) <= 80
    assert draft.notes[0].startswith("corp: the query was cut to ")
    hosts = tuple(f"host-{number}.example" for number in range(9))
    refused = kind().draft(Query("kelp " * 40, include_domains=hosts), "")
    assert isinstance(refused, Reply)
    assert refused.outcome is Outcome.REQUEST_ERROR


LISTS = {"q": "{query}", "in": "{include_domains}", "out": "{exclude_domains}"}


@pytest.mark.parametrize(
    ("members", "wanted"),
    [
        ({"domains": "many"}, {"in": "a.example,b.example", "out": "c.example"}),
        ({"domains": 2}, {"in": "a.example,b.example", "out": "c.example"}),
        ({"domains": 1}, {"out": "c.example"}),  # half of a list of hosts to search would leave out good pages
        ({"domains": 0}, {"in": "a.example,b.example", "out": "c.example"}),
        ({"domains": 2, "domain_lists": "one"}, {"in": "a.example,b.example"}),
        ({"domains": 1, "domain_lists": "one"}, {"out": "c.example"}),
    ],
)
def test_a_list_of_hosts_is_sent_as_far_as_the_vendor_takes_it(members: dict[str, Any], wanted: dict[str, str]) -> None:
    draft = drafted(vendor(params=LISTS, **members), FULL)
    assert fields(draft.request) == {"q": "kelp forest"} | wanted
    assert bool(draft.notes) == (len(wanted) < 2)


# ---------------------------------------------------------------------------------------------------------------------
# what comes back


@pytest.mark.parametrize(
    ("rows", "body", "count"),
    [
        ("hits", {"hits": [ROW, ROW]}, 2),
        ("data.hits", {"data": {"hits": [ROW]}}, 1),
        (["a", "b"], {"b": [ROW], "a": [ROW, ROW]}, 3),
        (["a", "b"], {"b": [ROW], "a": "?"}, 1),
        ("groups.*.hits", {"groups": [{"hits": [ROW]}, {"hits": []}, {}, {"hits": [ROW]}]}, 2),
        ("pages.*", {"pages": {"17": ROW, "4": ROW}}, 2),
        ("pages.*", {"pages": [ROW, None, 3]}, 1),
        ("answers.1.hits", {"answers": [{"hits": [ROW, ROW]}, {"hits": [ROW]}]}, 1),
        (".", [ROW, ROW], 2),
        ("hits", {"hits": [ROW, {"title": "No address"}, [], None]}, 1),
    ],
)
def test_rows_are_found_where_the_table_says(rows: Any, body: Any, count: int) -> None:
    reply = reading(vendor(rows=rows), body)
    assert (reply.outcome, len(reply.results)) == (Outcome.OK, count)


@pytest.mark.parametrize(
    ("rows", "body"),
    [
        ("hits", {"hits": []}),
        (["a", "b"], {"b": []}),
        ("groups.*.hits", {"groups": []}),
        ("groups.*.hits", {"groups": [{"hits": []}]}),
        ("pages.*", {"pages": {}}),
        (".", []),
    ],
)
def test_an_empty_list_is_an_honest_nothing(rows: Any, body: Any) -> None:
    assert reading(vendor(rows=rows), body).outcome is Outcome.NO_RESULTS


@pytest.mark.parametrize(
    ("rows", "body"),
    [
        ("hits", {}),
        ("hits", {"hits": None}),
        ("hits", {"hits": "none"}),
        ("hits", {"hits": [{"title": "No address"}]}),
        (["a", "b"], {"a": [], "b": "?"}),
        ("groups.*.hits", {"groups": [{}]}),
        (".", {"error": "?"}),
        ("hits", []),
        ("hits", None),
        ("hits", "{"),
    ],
)
def test_what_the_table_does_not_know_is_no_honest_nothing(rows: Any, body: Any) -> None:
    assert reading(vendor(rows=rows), body).outcome is Outcome.SERVER_ERROR


@pytest.mark.parametrize(
    ("body", "outcome"),
    [
        ({"found": {}}, Outcome.NO_RESULTS),
        ({"found": {"hits": None}}, Outcome.NO_RESULTS),
        ({"found": {"hits": [ROW]}}, Outcome.OK),
        ({"found": {"hits": "?"}}, Outcome.SERVER_ERROR),
        ({"found": []}, Outcome.SERVER_ERROR),
        ({"found": None}, Outcome.SERVER_ERROR),
        ({}, Outcome.SERVER_ERROR),
    ],
)
def test_an_envelope_without_lists_is_an_honest_nothing(body: Any, outcome: Outcome) -> None:
    assert reading(vendor(rows="found.hits", envelope="found"), body).outcome is outcome


def test_the_first_field_with_something_in_it_counts_and_a_list_is_taken_whole() -> None:
    kind = vendor(
        fields={
            "title": ["name", "title"],
            "url": ["link", "links.*.href"],
            "snippet": ["parts", "text"],
            "published": ["changed", "made"],
        }
    )
    row = {"name": " ", "title": ["Kelp", "forest"], "links": [{"href": "https://kelp.example/1"}, {"href": "x"}]}
    found = reading(kind, {"hits": [row | {"parts": ["One.", None, "", "Two."], "made": "2026-09-18"}]}).results[0]
    assert (found.title, found.url) == ("Kelp … forest", "https://kelp.example/1")
    assert (found.snippet, found.published) == ("One. … Two.", "2026-09-18")


@pytest.mark.parametrize(
    ("snippet", "content", "kept"),
    [
        ("Short.", "A long text.", ("", "A long text.")),
        ("What a search says.", "…", ("What a search says.", "")),
        ("", "Long.", ("", "Long.")),
        ("Short.", "", ("Short.", "")),
    ],
)
def test_of_two_texts_of_a_row_the_longer_one_stays(snippet: str, content: str, kept: tuple[str, str]) -> None:
    kind = vendor(fields={"url": "url", "snippet": "text", "content": "page"})
    found = reading(kind, {"hits": [{"url": "https://kelp.example/", "text": snippet, "page": content}]}).results[0]
    assert (found.snippet, found.content) == kept


def test_a_written_answer_comes_with_the_results_it_stands_on() -> None:
    kind = vendor(answer="summary.text")
    assert reading(kind, {"hits": [ROW], "summary": {"text": "Kelp <b>grows</b>."}}).answer == "Kelp grows."
    assert reading(kind, {"hits": [], "summary": {"text": "I know nothing."}}).answer == ""


ERRORS = [
    {"code": "NOTHING", "outcome": "no_results"},
    {"code": 4003, "outcome": "auth_failure"},
    {"status": 403, "phrase": "Licence used up", "outcome": "quota_exhausted"},
    {"status": 200, "phrase": "being rebuilt", "outcome": "server_error"},
    {"status": 404, "outcome": "request_error", "setup": True, "hint": "look at options.space"},
]


@pytest.mark.parametrize(
    ("headers", "error", "wait_s"),
    [
        ({}, {"wait_s": 30}, 30),
        ({}, {"wait_s": "1.5"}, 1.5),
        ({}, {"wait_s": "soon"}, None),
        ({}, {"wait_s": True}, None),
        ({}, {}, None),
        ({"retry-after": "7"}, {"wait_s": 30}, 7),
        ({"retry-after-ms": "2500", "retry-after": "7"}, {}, 2.5),
    ],
)
def test_a_table_may_say_where_the_waiting_time_stands(
    headers: dict[str, str], error: dict[str, Any], wait_s: float | None
) -> None:
    wire = Wire(429, {"content-type": "application/json", **headers}, json.dumps({"error": error}).encode(), 0.0)
    assert vendor(wait="error.wait_s")().read(wire).retry_after_s == wait_s


@pytest.mark.parametrize(
    ("status", "body", "outcome"),
    [
        (404, {"error": {"code": "nothing"}}, Outcome.NO_RESULTS),
        (200, {"code": "NOTHING"}, Outcome.NO_RESULTS),
        (400, {"error": {"code": 4003}}, Outcome.AUTH_FAILURE),
        (400, {"code": "4003"}, Outcome.AUTH_FAILURE),
        (403, {"message": "The LICENCE used up."}, Outcome.QUOTA_EXHAUSTED),
        (403, {"message": "No."}, Outcome.AUTH_FAILURE),
        (403, "<html>No.</html>", Outcome.SERVER_ERROR),
        (200, {"detail": "The index is being rebuilt", "hits": []}, Outcome.SERVER_ERROR),
        (404, {}, Outcome.REQUEST_ERROR),
        (429, "", Outcome.RATE_LIMITED),
        (503, "", Outcome.SERVER_ERROR),
    ],
)
def test_the_tables_rows_decide_before_every_vendors_statuses(status: int, body: Any, outcome: Outcome) -> None:
    reply = reading(vendor(errors=ERRORS), body, status)
    assert reply.outcome is outcome
    assert reply.hint == ("look at options.space" if status == 404 and not body else "")


def test_a_status_without_a_body_may_be_an_honest_nothing() -> None:
    assert reading(vendor(), "", 204).outcome is Outcome.SERVER_ERROR
    assert reading(vendor(errors=[{"status": 204, "outcome": "no_results"}]), "", 204).outcome is Outcome.NO_RESULTS


def test_codes_and_sentence_are_read_where_the_table_says() -> None:
    kind = vendor(
        codes=["faults.*.id"],
        message=["faults.*.words", "status.text"],
        errors=[{"code": "B", "outcome": "timeout"}, {"phrase": "no more", "outcome": "quota_exhausted"}],
    )
    assert reading(kind, {"faults": [{"id": "A"}, {"id": "B"}]}, 400).outcome is Outcome.TIMEOUT
    reply = reading(kind, {"status": {"text": "No more today"}, "error": "elsewhere"}, 400)
    assert (reply.outcome, reply.message) == (Outcome.QUOTA_EXHAUSTED, "No more today")


@pytest.mark.parametrize(
    ("headers", "body", "wait"),
    [
        ({"retry_after_ms": "1500", "retry_after": "60"}, {}, 1.5),
        ({"retry_after_ms": "soon", "retry_after": "60"}, {}, 60),
        ({}, {"retryAfter": 9}, 9),
        ({}, {"reset_at": "2026-11-30T12:01:00Z"}, 60),
        ({}, {"retryAfterDate": "Mon, 30 Nov 2026 12:00:30 GMT"}, 30),
        ({}, {}, None),
    ],
)
def test_a_waiting_time_is_read(headers: dict[str, str], body: Any, wait: float | None) -> None:
    assert reading(vendor(), body, 429, **headers).retry_after_s == wait


# ---------------------------------------------------------------------------------------------------------------------
# paths


@pytest.mark.parametrize("written", ["", "a..b", ".a", "a.", "..", ".".join("a" * 17), None, 3, {}, ["a"]])
def test_what_is_no_path_is_told(written: object) -> None:
    with pytest.raises(Unfit):
        path(written)


@pytest.mark.parametrize("written", [[], {}, None, 3, ["a", ""], [["a"]]])
def test_what_are_no_paths_is_told(written: object) -> None:
    with pytest.raises(Unfit):
        paths(written)


def test_a_number_is_a_place_in_a_list_or_a_member_called_so() -> None:
    kind = vendor(fields={"url": "urls.1"})
    for urls in (["x", "https://kelp.example/"], {"1": "https://kelp.example/"}):
        assert reading(kind, {"hits": [{"urls": urls}]}).results[0].url == "https://kelp.example/"
    assert reading(kind, {"hits": [{"urls": ["https://kelp.example/"]}]}).outcome is Outcome.SERVER_ERROR


# ---------------------------------------------------------------------------------------------------------------------
# anything at all

ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["{key}", "*.a", "{"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@given(value=ANYTHING, status=st.sampled_from([200, 204, 302, 400, 403, 422, 429, 503]))
def test_any_reply_has_a_meaning(value: Any, status: int) -> None:
    kind = vendor(
        rows=["hits", "groups.*.hits", "*", "0.a"],
        fields={"title": ["title", "*"], "url": ["url", "*.*"], "snippet": "*.*.*", "published": "0"},
        answer="*.text",
        envelope=".",
        codes="*.*",
        message="*",
        errors=ERRORS,
    )
    for body in (value, {"hits": value}, {"groups": [{"hits": [ROW, value]}]}, {"hits": [ROW, value], "error": value}):
        reply = reading(kind, body, status)
        assert reply.outcome in set(Outcome)
        assert bool(reply.results) == (reply.outcome is Outcome.OK)
