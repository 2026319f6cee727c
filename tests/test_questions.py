"""Keys and words made up for a probe."""

from __future__ import annotations

import json
import re
import string
from urllib.parse import parse_qsl, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

import providers
from gateway.questions import nonsense, questions, wrong_address, wrong_key
from providers import Draft
from providers._reading import redact, spellings


@pytest.mark.parametrize("name", providers.names())
def test_every_vendor_can_be_asked_all_four(name: str) -> None:
    vendor = providers.find(name)
    key = (
        "http://user:word@search.example"
        if vendor.keys_are_addresses
        else "sk-Rw4Np6Jx9Tc2"
        if vendor.credential
        else ""
    )
    ordinary, empty, wrong, bad = questions(vendor(), key)
    sent = [each.draft.request for each in (ordinary, empty, bad) if isinstance(each.draft, Draft)]
    assert len({(each.url, each.content) for each in sent}) == 3
    assert re.search("[bcdfghjklmnpqrstvwxz]{20}", f"{sent[1].url} {sent[1].content.decode()}")
    assert (wrong.is_left_out, wrong.counts) == (key == "", False)
    if isinstance(wrong.draft, Draft) and isinstance(ordinary.draft, Draft):
        right, other = ordinary.draft.request, wrong.draft.request
        assert (right.content, right.url.path) == (other.content, other.url.path)
        assert (right.headers, right.url) != (other.headers, other.url)
        assert redact(f"{other.headers} {other.url}", spellings(vendor().secrets(key))).count("***") == 0
    # the least that every one of them sends is the words, and there are none
    written = [*parse_qsl(sent[2].url.query.decode(), keep_blank_values=True), *_members(sent[2].content)]
    assert "" in [value for _, value in written]


def _members(content: bytes) -> list[tuple[str, str]]:
    """Every text of a form or of JSON, with its name."""
    try:
        told = json.loads(content or b"{}")
    except ValueError:
        return parse_qsl(content.decode(), keep_blank_values=True)
    found, waiting = [], [("", told)]
    while waiting:
        name, value = waiting.pop()
        inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        waiting += [(str(each), part) for each, part in inner]
        found += [(name, value)] if isinstance(value, str) else []
    return found


def shape(key: str) -> str:
    kinds = ((string.digits, "0"), (string.ascii_lowercase, "a"), (string.ascii_uppercase, "A"))
    return "".join(next((sign for kind, sign in kinds if each in kind), each) for each in key)


@pytest.mark.parametrize(
    ("key", "begins"),
    [
        ("tvly-dev-Rw4Np6Jx9Tc2FzKq", "tvly-"),
        ("sk-0123456789abcdef", "sk-"),
        ("bce-v3/ALTAK-Jx9Tc2FzKq/0a1b2c3d4e5f", "bce-v3/"),
        ("BSAk7Zr2Vw9Lp4Xn6Cq", ""),
        ("3f9c2a71-0b5e-4d88-9c11-aa22bb33cc44", ""),
        ("0123456789abcdef0123456789abcdef.Rw4Np6Jx9Tc2FzKq", ""),
        ("k", ""),
    ],
)
def test_a_wrong_key_looks_like_the_right_one_and_holds_nothing_of_it(key: str, begins: str) -> None:
    made = wrong_key(key)
    assert shape(made) == shape(key)
    assert made.startswith(begins)
    assert made != key
    assert redact(made, [key]) == made
    assert made != wrong_key(key) or len(key) == 1


def test_a_wrong_key_in_hexadecimal_digits_is_one() -> None:
    assert re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", wrong_key("3f9c2a71-0b5e-4d88-9c11-aa22bb33cc44"))


@given(key=st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), min_size=1, max_size=60))
def test_no_wrong_key_has_eight_signs_of_the_right_one_in_a_row(key: str) -> None:
    made = wrong_key(key)
    assert len(made) == len(key)
    assert not [at for at in range(len(key) - 7) if key[at : at + 8] in made]
    assert made != key


def test_a_wrong_address_differs_in_user_and_password_alone() -> None:
    address = "https://searcher:p%2Fss-Word1@search.example:8443/x"
    made = urlsplit(wrong_address(address))
    assert made._replace(netloc="") == urlsplit(address)._replace(netloc="")
    assert (made.hostname, made.port) == ("search.example", 8443)
    assert redact(made.netloc, spellings(["searcher", "p/ss-Word1"])) == made.netloc
    assert wrong_address("https://search.example/") == ""


def test_no_two_words_are_alike() -> None:
    assert len({nonsense() for _ in range(100)}) == 100
