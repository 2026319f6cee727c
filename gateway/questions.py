"""What `probe` asks: four requests that a vendor should answer in four ways, and keys and words made up for them."""

from __future__ import annotations

import re
import secrets
import string
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from urllib.parse import quote, unquote, urlsplit, urlunsplit

from gateway.doctor import QUESTION
from providers import Draft, HTTPProvider, Outcome, Query, Reply
from providers._addresses import cleaned
from providers._login._grant import is_login
from providers._reading import redact


@dataclass(frozen=True, slots=True)
class Question:
    """One of the requests: what it is for, which outcomes would be right, and what would be sent.

    `draft` is a `Reply` when nothing can be sent, and None when there is nothing to send: `about` says why.
    """

    name: str
    expects: tuple[Outcome, ...]
    about: str
    draft: Draft | Reply | None = field(repr=False)
    counts: bool = True

    @property
    def is_left_out(self) -> bool:
        """Whether there is nothing to ask here."""
        return self.draft is None


def questions(adapter: HTTPProvider, key: str) -> Iterator[Question]:
    """The four requests for a provider that is asked with `key`, in the order in which they are sent."""
    word = nonsense()
    yield Question("ordinary", (Outcome.OK,), f"'{QUESTION.text}'", adapter.draft(QUESTION, key))
    about, nothing = "a word made up now, on a site made up with it", Query(word, include_domains=(f"{word}.com",))
    if isinstance(adapter.draft(nothing, key), Reply):  # who has the pages of one site alone
        about, nothing = "a word made up now", Query(word)
    # whoever sends pages about something else has his rows judged later, where the query's words are compared
    found = (Outcome.NO_RESULTS, Outcome.OK) if adapter.sends_unrelated else (Outcome.NO_RESULTS,)
    yield Question("empty", found, about, adapter.draft(nothing, key))
    if is_login(key):
        key_made_up = secrets.token_urlsafe(48)
    else:
        key_made_up = wrong_address(key) if adapter.keys_are_addresses else wrong_key(key)
    if key_made_up:
        about, draft = "the first one, with a key made up to look like yours", adapter.draft(QUESTION, key_made_up)
        yield Question("wrong key", (Outcome.AUTH_FAILURE,), f"{about}; it counts nowhere", draft, counts=False)
    else:
        why = "there is no password in its address" if adapter.keys_are_addresses else "there is no key"
        yield Question("wrong key", (Outcome.AUTH_FAILURE,), f"left out: {why}", None, counts=False)
    # an engine of pages has nobody who could complain: it shows its front page, which is none of results
    refused = (Outcome.REQUEST_ERROR,) if key else (Outcome.REQUEST_ERROR, Outcome.SERVER_ERROR)
    senseless = adapter.unfitted(Query("", max_results=-1), key)
    yield Question("bad parameter", refused, "no words, and -1 results where a number is sent", senseless)


def nonsense() -> str:
    """A word that stands nowhere: 20 consonants."""
    return "".join(secrets.choice("bcdfghjklmnpqrstvwxz") for _ in range(20))


_BEGINNING = re.compile(r"[A-Za-z]{2,3}[-_]v\d[-_/]|[A-Za-z]{2,6}[-_]")
"""What the keys of many vendors begin with (`tvly-`, `sk-`, `bce-v3/`): less than eight signs."""

_KINDS = (string.digits, string.ascii_lowercase, string.ascii_uppercase)
_HEX_KINDS = (string.digits, "abcdef", "ABCDEF")


def wrong_key(key: str) -> str:
    """A key that looks like `key` to whoever checks its form, so that the vendor himself must say that it is wrong.

    It is as long, has signs of the same kinds in the same places, and begins as keys of that vendor do; never are eight
    signs in a row the same. "" for no key.
    """
    found = _BEGINNING.match(key)
    begins = found[0] if found else ""
    rest = key.removeprefix(begins)
    kinds = _HEX_KINDS if all(each in string.hexdigits for each in rest if each.isalnum()) else _KINDS
    for _ in range(100):
        made = begins + "".join(_another(sign, kinds) for sign in rest)
        if redact(made, (key,)) == made:
            return made
    # of nothing but its beginning and signs between
    return "".join(secrets.choice(string.ascii_letters) for _ in key)


def _another(sign: str, kinds: Sequence[str]) -> str:
    kind = next((each for each in kinds if sign in each), sign)
    return secrets.choice(kind.replace(sign, "") or sign)


def wrong_address(address: str) -> str:
    """`address` with another user and password that look like its own; "" when it has none."""
    parts = urlsplit(cleaned(address) or "")
    userinfo, at, host = parts.netloc.rpartition("@")
    user, colon, password = userinfo.partition(":")
    told = [quote(wrong_key(unquote(each)), safe="") for each in (user, password)]
    return urlunsplit(parts._replace(netloc=f"{told[0]}{colon}{told[1]}@{host}")) if at and userinfo != ":" else ""
