"""Judging results by host and URL: which pages are the same one, and which ones the caller wants. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from gateway.domains import canonical, covers, url_host
from providers._words import Query, Result

TRACKING = frozenset(
    {
        # Click and campaign identifiers that advertisers and mailers append. None of them chooses what a page shows;
        # `from`, `ref`, `source` and the like can, so they are not here.
        "_ga",  # Google Analytics, across domains
        "_gl",
        "_hsenc",  # HubSpot mail
        "_hsmi",
        "_openstat",  # Yandex, Mail.ru
        "dclid",  # Google Display & Video
        "fbclid",  # Facebook
        "gad_source",  # Google Ads
        "gbraid",
        "gclid",
        "gclsrc",
        "igsh",  # Instagram
        "igshid",
        "li_fat_id",  # LinkedIn
        "mc_cid",  # Mailchimp
        "mc_eid",
        "mkt_tok",  # Marketo
        "msclkid",  # Microsoft Advertising
        "srsltid",  # Google Merchant Center
        "ttclid",  # TikTok
        "twclid",  # X
        "wbraid",
        "yclid",  # Yandex Direct
        "ysclid",
    }
)
"""Parameters that do not make another page; so does everything that begins with `utm_`."""

_ADDRESS = re.compile(r"(?:(https?):)?//([^/\\?\s]*)([^?\s]*)\??(\S*)", re.IGNORECASE)
_PORT = re.compile(r"(\[[^\]]*\]|[^:]*):([0-9]*)")
_DEFAULT_PORTS = {"http": "80", "https": "443"}


MAX_URL = 2048
"""A longer address is no use to a reader, and is never cut."""


@dataclass(frozen=True, slots=True)
class Kept:
    """Results the domain lists allow, and how many each list cost. A result that both forbid counts for include."""

    results: tuple[Result, ...]
    dropped_include: int = 0
    dropped_exclude: int = 0


def page_identity(url: str) -> str:
    """A key that is equal for two URLs of one page.

    Scheme, `www.`, default port, fragment, trailing slash and pure tracking parameters make no difference, nor does
    the case of the host. Path case and the order of parameters do. Never raises: what is no web address is its own key.
    """
    found = _ADDRESS.fullmatch(url.partition("#")[0].strip())
    if found is None:
        return url.strip()
    scheme, authority, path, query = found.groups(default="")
    user, at, host = authority.rpartition("@")
    port = ""
    if with_port := _PORT.fullmatch(host):
        host, port = with_port.groups()
    if port == _DEFAULT_PORTS.get(scheme.lower(), ""):
        port = ""
    kept = "&".join(piece for piece in query.split("&") if piece and not _is_tracking(piece))
    return "".join(("//", user, at, _site(host), port and f":{port}", path.rstrip("/"), kept and f"?{kept}"))


def unique(results: Iterable[Result]) -> tuple[Result, ...]:
    """`results` with each page once, where it came first, with the richer of its texts.

    Long extracts are richer than snippets, then more text is richer than less. Title and URL stay those of the first; a
    missing date comes from a later one.
    """
    pages: dict[str, Result] = {}
    for result in results:
        page = page_identity(result.url)
        first = pages.get(page)
        pages[page] = result if first is None else _joined(first, result)
    return tuple(pages.values())


def allowed(results: Iterable[Result], query: Query) -> Kept:
    """Those of `results` whose host the domain lists of `query` allow, in their order."""
    kept: list[Result] = []
    outside = forbidden = 0
    for result in results:
        host = url_host(result.url)
        if query.include_domains and not any(covers(domain, host) for domain in query.include_domains):
            outside += 1
        elif any(covers(domain, host) for domain in query.exclude_domains):
            forbidden += 1
        else:
            kept.append(result)
    return Kept(tuple(kept), outside, forbidden)


def _is_tracking(parameter: str) -> bool:
    name = parameter.partition("=")[0].lower()
    return name in TRACKING or name.startswith("utm_")


def _site(host: str) -> str:
    """`host` in one spelling and without `www.`, unless that leaves no domain."""
    host = canonical(host) or host.lower()
    while host.startswith("www.") and "." in host[4:]:
        host = host[4:]
    return canonical(host) or host


def _joined(first: Result, other: Result) -> Result:
    richer = max(first, other, key=lambda each: (bool(each.content), len(each.content or each.snippet)))
    return replace(first, snippet=richer.snippet, content=richer.content, published=first.published or other.published)


def usable(results: Iterable[Result]) -> tuple[tuple[Result, ...], int]:
    """Those whose address is short enough to be used, and how many are not."""
    rows = tuple(results)
    kept = tuple(row for row in rows if len(row.url) <= MAX_URL)
    return kept, len(rows) - len(kept)
