"""What every vendor is told of what the caller asked; and who is said to have enforced it: only who was told."""

from __future__ import annotations

from urllib.parse import unquote

import pytest

from gateway import honesty
from gateway.filters import Kept
from providers import Draft, Query
from tests.test_hostile import FACES, face

NOTHING_DROPPED = Kept(())

ONE_SITE = "wikipedia"
"""It has pages of its own host alone: all others are left out whoever asks."""


def sent(name: str, query: Query) -> str:
    """Everything that a vendor is sent for `query`; "" when nothing can be."""
    provider, key = face(name, "https://relay.example")
    draft = provider.draft(query, key)
    if not isinstance(draft, Draft):
        return ""
    return unquote(str(draft.request.url)) + unquote(draft.request.read().decode())


@pytest.mark.parametrize("name", FACES)
def test_a_vendor_is_told_the_query_how_much_is_wanted_and_whose_key_it_is(name: str) -> None:
    provider, key = face(name, "https://relay.example")
    assert "kelp 海 forest" in sent(name, Query("kelp 海 forest")).replace("+", " ")
    if provider.limits.results is not None:
        few, many, too_many = (sent(name, Query("kelp", max_results=n)) for n in (3, 7, 10_000))
        assert few != many
        assert too_many == sent(name, Query("kelp", max_results=provider.limits.results))
    draft = provider.draft(Query("kelp"), key)
    assert isinstance(draft, Draft)
    told = [str(draft.request.url), *draft.request.headers.values(), draft.request.read().decode()]
    assert any((key.partition("://")[2] or key) in text for text in told)


@pytest.mark.parametrize("name", [name for name in FACES if face(name, "")[0].limits.query])
def test_a_vendor_is_told_no_more_of_a_long_query_than_he_takes(name: str) -> None:
    limits = face(name, "")[0].limits
    assert limits.query is not None
    assert "x" * (limits.query + 1) not in sent(name, Query("x" * 9_999))
    assert "x" * 32 in sent(name, Query("x" * 9_999))


QUERIES = {
    "one to search": Query("kelp", include_domains=("in.example",)),
    "three to search": Query("kelp", include_domains=("in.example", "in2.example", "in3.example")),
    "one to leave out": Query("kelp", exclude_domains=("out.example",)),
    "both": Query("kelp", include_domains=("in.example",), exclude_domains=("out.in.example",)),
    "twenty-five to leave out": Query("kelp", exclude_domains=tuple(f"out{n}.example" for n in range(10, 35))),
}


@pytest.mark.parametrize("name", FACES)
@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES.keys())
def test_a_vendor_enforces_only_hosts_that_he_is_told(name: str, query: Query) -> None:
    provider, _ = face(name, "https://relay.example")
    told = honesty.report(query, provider, NOTHING_DROPPED)
    words = sent(name, query)
    hosts = {"include_domains": query.include_domains, "exclude_domains": query.exclude_domains}
    for constraint, said in told.items():
        if said["by"] == "provider" and words and name != ONE_SITE:
            assert [host for host in hosts[constraint] if host not in words] == [], constraint


@pytest.mark.parametrize("name", FACES)
def test_a_vendor_enforces_freshness_only_when_he_is_told(name: str) -> None:
    provider, _ = face(name, "https://relay.example")
    told = honesty.report(Query("kelp", freshness="week"), provider, NOTHING_DROPPED)["freshness"]
    is_told = sent(name, Query("kelp", freshness="week")) != sent(name, Query("kelp"))
    assert told["by"] == "nobody" or is_told
