"""What Serper, Firecrawl, Marginalia and Wikipedia are sent, and what they say is left. Nothing leaves this process."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

import httpx2
import pytest

import providers
from providers import Draft, Outcome, Query, Reply, Settings, Wire
from providers._words import Left

KEY = "canary-key-5fb1e0"
NOW = datetime.fromisoformat("2026-11-30T12:00:00+00:00").timestamp()

FULL = Query("kelp forest", 5, "week", ("a.example", "b.example"), ("c.example",))
OPERATORS = "site:a.example OR site:b.example -site:c.example"

POSTING = ("serper", "firecrawl")
KEYED = (*POSTING, "marginalia")


def provider(name: str, base_url: str | None = None, **options: Any) -> providers.HTTPProvider:
    kind = providers.find(name)
    assert options.keys() <= kind.options.keys()
    return kind(Settings(base_url=base_url, options=options), clock=lambda: NOW)


def draft(name: str, query: Query, base_url: str | None = None, **options: Any) -> Draft:
    made = provider(name, base_url, **options).draft(query, KEY if name in KEYED else "")
    assert isinstance(made, Draft), made
    return made


def refusal(name: str, query: Query, base_url: str | None = None, **options: Any) -> Reply:
    made = provider(name, base_url, **options).draft(query, "")
    assert isinstance(made, Reply), made
    return made


def fields(request: httpx2.Request) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(request.content) if request.method == "POST" else dict(request.url.params)
    return found


def sent(name: str, query: Query, **settings: Any) -> dict[str, Any]:
    return fields(draft(name, query, **settings).request)


@pytest.mark.parametrize(
    ("name", "method", "url", "wanted"),
    [
        (
            "serper",
            "POST",
            "https://google.serper.dev/search",
            {"q": f"kelp forest {OPERATORS}", "num": 5, "tbs": "qdr:w"},
        ),
        (
            "firecrawl",
            "POST",
            "https://api.firecrawl.dev/v2/search",
            {"query": f"kelp forest {OPERATORS}", "limit": 5, "tbs": "qdr:w"},
        ),
        (
            "marginalia",
            "GET",
            "https://api2.marginalia-search.com/search",
            {"query": "kelp forest", "count": "5", "nsfw": "1"},
        ),
    ],
)
def test_everything_asked_is_sent_in_the_vendors_words(
    name: str, method: str, url: str, wanted: dict[str, Any]
) -> None:
    request = draft(name, FULL).request
    assert (request.method, str(request.url).partition("?")[0]) == (method, url)
    assert fields(request) == wanted


@pytest.mark.parametrize(
    ("name", "names"),
    [
        ("serper", {"q", "num"}),
        ("firecrawl", {"query", "limit"}),
        ("marginalia", {"query", "count", "nsfw"}),
        ("wikipedia", {"action", "list", "srsearch", "srlimit", "format"}),
    ],
)
def test_what_was_not_asked_is_not_sent(name: str, names: set[str]) -> None:
    assert sent(name, Query("kelp")).keys() == names
    assert draft(name, Query("kelp")).notes == ()


@pytest.mark.parametrize("name", POSTING)
def test_each_freshness_has_googles_word(name: str) -> None:
    asked = [sent(name, Query("kelp", freshness=each))["tbs"] for each in ("day", "week", "month", "year")]
    assert asked == ["qdr:d", "qdr:w", "qdr:m", "qdr:y"]


@pytest.mark.parametrize("name", ["marginalia", "wikipedia"])
def test_who_cannot_be_held_to_freshness_does_not_say_so(name: str) -> None:
    assert sent(name, Query("kelp", freshness="day")) == sent(name, Query("kelp"))
    assert not providers.find(name).enforces_freshness


@pytest.mark.parametrize(
    ("name", "field", "most"),
    [
        ("serper", "num", 10),
        ("firecrawl", "limit", 100),
        ("marginalia", "count", "20"),
        ("wikipedia", "srlimit", "500"),
    ],
)
def test_no_vendor_is_asked_for_more_rows_than_it_gives(name: str, field: str, most: object) -> None:
    assert sent(name, Query("kelp", max_results=700))[field] == most


@pytest.mark.parametrize(
    ("name", "header", "value"),
    [
        ("serper", "x-api-key", KEY),
        ("firecrawl", "authorization", f"Bearer {KEY}"),
        ("marginalia", "api-key", KEY),
    ],
)
def test_the_key_travels_in_one_header_and_nowhere_else(name: str, header: str, value: str) -> None:
    made = draft(name, FULL)
    assert [each for each, said in made.request.headers.items() if KEY in said] == [header]
    assert made.request.headers[header] == value
    assert KEY not in str(made.request.url)
    assert KEY.encode() not in made.request.content
    assert made.secrets == (KEY,)


@pytest.mark.parametrize(
    ("name", "options", "field", "value"),
    [
        ("serper", {"country": "de"}, "gl", "de"),
        ("serper", {"language": "pt-br"}, "hl", "pt-br"),
        ("serper", {"location": "Austin, Texas"}, "location", "Austin, Texas"),
        ("firecrawl", {"country": "DE"}, "country", "DE"),
        ("firecrawl", {"location": "Berlin, Germany"}, "location", "Berlin, Germany"),
        ("firecrawl", {"scrape": True}, "scrapeOptions", {"formats": ["markdown"]}),
        ("marginalia", {"safe": False}, "nsfw", "0"),
        ("marginalia", {"filter": "mine"}, "filter", "mine"),
        ("marginalia", {"per_domain": 3}, "dc", "3"),
    ],
)
def test_an_option_changes_its_field(name: str, options: dict[str, Any], field: str, value: object) -> None:
    assert sent(name, Query("kelp"), **options)[field] == value


@pytest.mark.parametrize("base", [None, "https://relay.example/x", "https://relay.example/x/search/"])
def test_serpers_news_are_at_an_address_of_their_own(base: str | None) -> None:
    request = draft("serper", Query("kelp"), base, kind="news").request
    assert str(request.url) == f"{'https://relay.example/x' if base else 'https://google.serper.dev'}/news"


@pytest.mark.parametrize(
    ("name", "path"),
    [("serper", "/search"), ("firecrawl", "/v2/search"), ("marginalia", "/search"), ("wikipedia", "/w/api.php")],
)
@pytest.mark.parametrize("prefix", ["", "/relay"])
def test_spellings_of_a_base_url_are_one_address(name: str, path: str, prefix: str) -> None:
    bases = [f"http://relay.example:81{prefix}{part}" for part in ("", "/", path, f"{path}/")]
    bases += [f"http://relay.example:81{prefix}/v2"] if name == "firecrawl" else []
    called = {str(draft(name, Query("kelp"), base).request.url).partition("?")[0] for base in bases}
    assert called == {f"http://relay.example:81{prefix}{path}"}


@pytest.mark.parametrize("part", ["/v1", "/v1/", "/v1/search", "/v1/search/"])
@pytest.mark.parametrize("prefix", ["", "/relay"])
def test_a_copy_of_firecrawl_with_the_older_interface_is_asked_there(prefix: str, part: str) -> None:
    request = draft("firecrawl", Query("kelp"), f"http://copy.example:3002{prefix}{part}").request
    assert str(request.url) == f"http://copy.example:3002{prefix}/v1/search"


# ---------------------------------------------------------------------------------------------------------------------
# caps


def test_firecrawl_gets_at_most_500_characters_operators_included() -> None:
    hosts = tuple(f"host-{number}.example" for number in range(9))
    made = draft("firecrawl", Query("kelp " * 180, include_domains=hosts[:6], exclude_domains=hosts[6:]))
    asked = fields(made.request)["query"]
    assert 400 < len(asked) <= 500
    assert all(f"site:{host}" in asked.split() for host in hosts[:6])
    assert all(f"-site:{host}" in asked.split() for host in hosts[6:])
    assert [note.startswith("firecrawl: the query was cut to") for note in made.notes] == [True]


def test_firecrawl_is_sent_nothing_when_operators_leave_no_room() -> None:
    hosts = tuple(f"a-rather-long-host-{number}.example" for number in range(20))
    assert refusal("firecrawl", Query("kelp forest", include_domains=hosts)).outcome is Outcome.REQUEST_ERROR


def test_wikipedia_gets_at_most_300_characters() -> None:
    made = draft("wikipedia", Query("kelp " * 180))
    assert fields(made.request)["srsearch"] == ("kelp " * 60).strip()
    assert made.notes == ("wikipedia: the query was cut to 299 characters",)


@pytest.mark.parametrize("name", ["serper", "marginalia"])
def test_who_has_no_known_cap_gets_the_whole_query(name: str) -> None:
    assert ("kelp " * 180).strip() in sent(name, Query(("kelp " * 180).strip())).values()


# ---------------------------------------------------------------------------------------------------------------------
# Wikipedia: its host, and who asks


def test_wikipedia_is_asked_in_its_own_words() -> None:
    request = draft("wikipedia", Query("kelp forest", 5)).request
    assert (request.method, str(request.url).partition("?")[0]) == ("GET", "https://en.wikipedia.org/w/api.php")
    assert fields(request) == {
        "action": "query",
        "list": "search",
        "srsearch": "kelp forest",
        "srlimit": "5",
        "format": "json",
    }
    assert "gzip" in request.headers["accept-encoding"]


@pytest.mark.parametrize(
    ("language", "host"),
    [("de", "de"), ("ZH", "zh"), ("zh-min-nan", "zh-min-nan"), ("be-x-old", "be-x-old"), ("simple", "simple")],
)
def test_a_language_is_an_edition_of_its_own(language: str, host: str) -> None:
    made = draft("wikipedia", Query("kelp"), language=language)
    assert str(made.request.url).startswith(f"https://{host}.wikipedia.org/w/api.php?")


@pytest.mark.parametrize(
    "language",
    [
        "",
        " ",
        "de ",
        "de\n",
        "-de",
        "de-",
        "d--e",
        ".",
        "evil.example/",
        "evil.example#",
        "evil.example?",
        "a@evil.example:1/",
        "de.evil",
        "de_ch",
        "%65n",
        "ёя",
        "en\u200b",
        "ｅｎ",
        "\u212a",
        "a" * 64,
    ],
)
@pytest.mark.parametrize("base", [None, "http://relay.example"])
def test_nothing_else_may_stand_in_a_language_and_then_nothing_is_sent(language: str, base: str | None) -> None:
    reply = refusal("wikipedia", Query("kelp"), base, language=language)
    assert (reply.outcome, reply.setup) == (Outcome.REQUEST_ERROR, True)
    assert "options.language" in reply.hint
    with pytest.raises(ValueError, match="unfit options"):
        provider("wikipedia", base, language=language).request(Query("kelp"), "")


def test_wikipedia_is_told_who_asks() -> None:
    assert draft("wikipedia", Query("kelp")).request.headers["user-agent"] == (
        "websearch-gateway (self-hosted search gateway)"
    )
    made = draft("wikipedia", Query("kelp"), contact="ops@example.org, https://example.org/bots")
    assert made.request.headers["user-agent"] == "websearch-gateway (ops@example.org, https://example.org/bots)"


@pytest.mark.parametrize("contact", ["", "a\r\nX-Evil: 1", "me (us)", "мы@example.org", "a" * 201])
def test_a_contact_that_no_header_can_hold_is_a_setup_fault(contact: str) -> None:
    reply = refusal("wikipedia", Query("kelp"), contact=contact)
    assert (reply.outcome, reply.setup) == (Outcome.REQUEST_ERROR, True)
    assert "options.contact" in reply.hint


@pytest.mark.parametrize(
    "domains",
    [("wikipedia.org",), ("en.wikipedia.org",), ("org",), ("docs.example", "wikipedia.org")],
)
def test_wikipedia_needs_no_operator_for_its_own_pages(domains: tuple[str, ...]) -> None:
    query = Query("kelp", include_domains=domains, exclude_domains=("docs.example.com", "de.wikipedia.org"))
    assert sent("wikipedia", query) == sent("wikipedia", Query("kelp"))


@pytest.mark.parametrize(
    ("wanted", "unwanted"),
    [
        (("docs.example",), ()),
        (("de.wikipedia.org",), ()),
        (("notwikipedia.org", "www.en.wikipedia.org"), ()),
        ((), ("wikipedia.org",)),
        ((), ("en.wikipedia.org", "x.example")),
        (("wikipedia.org",), ("en.wikipedia.org",)),
    ],
)
def test_wikipedia_is_sent_nothing_when_its_own_pages_are_not_wanted(
    wanted: tuple[str, ...], unwanted: tuple[str, ...]
) -> None:
    reply = refusal("wikipedia", Query("kelp", include_domains=wanted, exclude_domains=unwanted))
    assert (reply.outcome, reply.setup, reply.elapsed_ms) == (Outcome.REQUEST_ERROR, False, None)
    assert reply.detail == "has only pages of en.wikipedia.org"


@pytest.mark.parametrize(
    ("base", "language", "url"),
    [
        (None, "de", "https://de.wikipedia.org/wiki/Kelp_(Alge)"),
        ("https://FR.wikipedia.org/w/api.php", "de", "https://fr.wikipedia.org/wiki/Kelp_(Alge)"),
        ("http://relay.example:81", "de", "https://de.wikipedia.org/wiki/Kelp_(Alge)"),
        ("https://wikipedia.org.evil.example", "de", "https://de.wikipedia.org/wiki/Kelp_(Alge)"),
        ("http://[broken", "de", "https://de.wikipedia.org/wiki/Kelp_(Alge)"),
    ],
)
def test_pages_are_at_wikipedia_whatever_the_way_there(base: str | None, language: str, url: str) -> None:
    body = {"query": {"search": [{"title": "Kelp (Alge)"}]}}
    reply = provider("wikipedia", base, language=language).read(Wire(200, {}, json.dumps(body).encode(), NOW))
    assert [row.url for row in reply.results] == [url]


def test_a_base_url_that_is_none_is_a_setup_fault() -> None:
    assert refusal("wikipedia", Query("kelp"), "http://[broken").setup


def test_a_refusal_of_an_unnamed_client_tells_the_operator_what_to_set() -> None:
    text = b"Please set a user-agent and respect our robot policy https://w.wiki/4wJS."
    reply = provider("wikipedia").read(Wire(403, {"content-type": "text/plain"}, text, NOW))
    assert (reply.outcome, reply.setup, reply.message) == (Outcome.REQUEST_ERROR, True, text.decode())
    assert "options.contact" in reply.hint


# ---------------------------------------------------------------------------------------------------------------------
# what is left


@pytest.mark.parametrize(
    ("header", "left"),
    [("1999", Left(1999)), (" 0 ", Left(0)), ("", None), ("-1", None), ("1.5", None), ("many", None), ("9" * 30, None)],
)
@pytest.mark.parametrize("status", [200, 429])
def test_marginalia_says_beside_its_answers_what_is_left_of_the_day(
    status: int, header: str, left: Left | None
) -> None:
    wire = Wire(status, {"api-remaining-daily-capacity": header}, b'{"results": []}', NOW)
    assert provider("marginalia").read(wire).left == left


@pytest.mark.parametrize(
    ("body", "left"),
    [
        ({"balance": 2487, "rateLimit": 5}, Left(2487)),
        ({"balance": 0}, Left(0)),
        ({"balance": 99.7}, Left(99)),
        ({"credits": 12}, Left(12)),
        ({"balance": 7, "credits": 12}, Left(7)),
        ({"balance": "2487"}, None),
        ({"balance": True}, None),
        ({"balance": -1}, None),
        ({"balance": None}, None),
        ({"balance": float("nan")}, None),
        ({"balance": float("inf")}, None),
        ({}, None),
        ([], None),
        (None, None),
    ],
)
def test_serpers_balance_is_read_where_it_is_plainly_told(body: Any, left: Left | None) -> None:
    assert provider("serper").usage(body) == left


def test_what_a_search_cost_is_not_what_is_left() -> None:
    body = {"searchParameters": {"q": "kelp"}, "organic": [], "credits": 1}
    assert provider("serper").read(Wire(200, {}, json.dumps(body).encode(), NOW)).left is None


MONTH_END = "2026-12-01T12:00:00.000Z"


@pytest.mark.parametrize(
    ("data", "left"),
    [
        ({"remainingCredits": 900, "planCredits": 1000, "billingPeriodEnd": MONTH_END}, Left(900, 1000, 86_400)),
        (
            {"remainingCredits": 0, "planCredits": 1000, "billingPeriodEnd": "2026-12-01T12:00:00"},
            Left(0, 1000, 86_400),
        ),
        ({"remainingCredits": 900, "planCredits": 1000, "billingPeriodEnd": None}, Left(900, 1000)),
        ({"remainingCredits": 900, "planCredits": 1000, "billingPeriodEnd": "2026-11-01T00:00:00Z"}, Left(900, 1000)),
        ({"remainingCredits": 900, "planCredits": 1000, "billingPeriodEnd": "soon"}, Left(900, 1000)),
        ({"remainingCredits": 900, "planCredits": 1000, "billingPeriodEnd": 1_796_000_000}, Left(900, 1000)),
        ({"remainingCredits": 1500, "planCredits": 1000}, Left(1500)),
        ({"remainingCredits": 12.5}, Left(12)),
        ({"remainingCredits": -3, "planCredits": 1000}, None),
        ({"remainingCredits": "900"}, None),
        ({"remainingCredits": True}, None),
        ({"planCredits": 1000}, None),
        (None, None),
        ([], None),
    ],
)
def test_firecrawls_credits_are_renewed_when_the_billing_period_ends(data: Any, left: Left | None) -> None:
    assert provider("firecrawl").usage({"success": True, "data": data}) == left


@pytest.mark.parametrize(
    ("name", "base", "url"),
    [
        ("serper", None, "https://google.serper.dev/account"),
        ("serper", "https://relay.example/s/search", "https://relay.example/s/account"),
        ("firecrawl", None, "https://api.firecrawl.dev/v2/team/credit-usage"),
        ("firecrawl", "https://relay.example/f/v2/search", "https://relay.example/f/v2/team/credit-usage"),
        ("firecrawl", "https://copy.example/v1", "https://copy.example/v1/team/credit-usage"),
    ],
)
def test_the_usage_endpoint_is_found_however_the_base_is_spelled(name: str, base: str | None, url: str) -> None:
    request = provider(name, base).usage_request(KEY)
    assert (request.method, str(request.url)) == ("GET", url)
    assert [each for each, said in request.headers.items() if KEY in said] == [
        {"serper": "x-api-key", "firecrawl": "authorization"}[name]
    ]
