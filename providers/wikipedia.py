"""Wikipedia's own search, keyless. mediawiki.org, pages "API:Search", "API:Errors and warnings" and "API:Etiquette",
and Wikimedia's User-Agent policy (read 2026-11).
"""

from __future__ import annotations

import re
from itertools import zip_longest
from typing import ClassVar
from urllib.parse import quote

import httpx2

from providers._addresses import cleaned
from providers._http import Draft, HTTPProvider
from providers._reading import host_of, member, one_line, plain_text, result, rows
from providers._wire import Wire
from providers._words import Limits, Option, Outcome, Query, Reply, Result, Results, Row, Said

LANGUAGE = re.compile(r"(?ai)[a-z0-9]+(?:-[a-z0-9]+)*")
"""It becomes the first label of the host that is asked, so nothing else may stand in it."""

CONTACT = re.compile(r"[ -'*-~]{1,200}", re.ASCII)
"""It stands in the brackets of a header."""

CONTACT_HINT = "Wikipedia wants to know whom it serves: set options.contact to a mail address or a page of yours"

RAW_IN_PATHS = ";@$!*(),/~:"
"""Characters of titles that MediaWiki leaves as they are in its own links."""


class Wikipedia(HTTPProvider):
    name = "wikipedia"
    title = "Wikipedia"
    priority = 190
    home = "https://en.wikipedia.org/w/api.php"
    joins = "if_listed"
    limits = Limits(results=500, query=300)
    min_interval_ms = 200
    domains = 1  # its own, which no operator has to name; whoever wants others is told so in `draft`
    enforces_freshness = False
    timeout_s = 8.0
    options: ClassVar = {
        "language": Option(
            str, "en", "edition: letters, digits and hyphens, such as de or zh-yue", pattern=LANGUAGE.pattern
        ),
        "contact": Option(
            str,
            None,
            "mail address or page of whoever runs this, without brackets; Wikipedia may refuse those without",
            pattern=CONTACT.pattern,
        ),
    }

    errors = (
        # codes stand in bodies under 200, and in a header beside them
        Row(None, Outcome.RATE_LIMITED, code="ratelimited"),
        Row(None, Outcome.SERVER_ERROR, code="maxlag"),
        Row(None, Outcome.REQUEST_ERROR, code="missingparam"),
        Row(None, Outcome.REQUEST_ERROR, code="badvalue"),
        Row(None, Outcome.REQUEST_ERROR, code="badinteger"),
        Row(None, Outcome.SERVER_ERROR, code="internal_api_error"),  # followed by the name of an exception
        Row(None, Outcome.SERVER_ERROR, code="readonly"),
        Row(429, Outcome.RATE_LIMITED),
        # Please set a user-agent and respect our robot policy
        Row(403, Outcome.REQUEST_ERROR, phrase="robot policy", setup=True, hint=CONTACT_HINT),
        Row(403, Outcome.REQUEST_ERROR, phrase="set a user-agent", setup=True, hint=CONTACT_HINT),
        Row(403, Outcome.REQUEST_ERROR, phrase="User-Agent policy", setup=True, hint=CONTACT_HINT),
        Row(403, Outcome.RATE_LIMITED),  # inferred: there is no key that could be wrong, so we are being kept out
        # a way to summaries of pages, at the same host
        Row(404, Outcome.NO_RESULTS, code="not_found"),
        Row(400, Outcome.NO_RESULTS, code="title-invalid-characters"),
    )

    def draft(self, query: Query, key: str) -> Draft | Reply:
        if (fault := self._fault()) is not None:
            return fault
        host = self._host()
        wanted = not query.include_domains or any(_covers(domain, host) for domain in query.include_domains)
        if not wanted or any(_covers(domain, host) for domain in query.exclude_domains):
            # an empty answer would say that those hosts have nothing, which nobody looked up
            return Reply(Outcome.REQUEST_ERROR, detail=f"has only pages of {host}", row="nothing sent")
        return super().draft(query, key)

    def _fault(self) -> Reply | None:
        """What the operator has to mend before anything can be sent."""
        language, contact = str(self.option("language")), self.option("contact")
        if not LANGUAGE.fullmatch(language) or len(language) > 63:
            hint = "options.language takes letters, digits and hyphens only, such as en, de or zh-yue"
            return Reply(Outcome.REQUEST_ERROR, detail="no language", setup=True, hint=hint, row="nothing sent")
        if contact is not None and not CONTACT.fullmatch(str(contact)):
            hint = "options.contact takes up to 200 plain characters without brackets, such as ops@example.org"
            return Reply(Outcome.REQUEST_ERROR, detail="no contact", setup=True, hint=hint, row="nothing sent")
        return None

    def request(self, query: Query, key: str) -> httpx2.Request:
        if self._fault() is not None:  # by whatever way it came here
            raise ValueError("unfit options")
        fields = {
            "action": "query",
            "list": "search",
            "srsearch": query.text,
            "srlimit": str(query.max_results),
            "format": "json",
        }
        address = self.endpoint(self.settings.base_url or f"https://{self._host()}")
        who = self.option("contact") or "self-hosted search gateway"
        return httpx2.Request("GET", address, headers={"User-Agent": f"websearch-gateway ({who})"}, params=fields)

    def _host(self) -> str:
        """Where the pages are; a configured address that is not Wikipedia's own is only a way there."""
        address = cleaned(self.settings.base_url or "")
        host = host_of(address) if address else ""
        return host if host.endswith(".wikipedia.org") else f"{self.option('language')}.wikipedia.org".lower()

    def results(self, body: object) -> Results | None:
        items: object = _suggested(body) if isinstance(body, list) else member(body, "query", "search")
        if items is None and member(body, "query", "searchinfo", "totalhits") == 0:
            items = []
        kept = rows(items, self._row)
        return None if kept is None else Results(kept)

    def _row(self, row: dict[str, object]) -> Result | None:
        title, url = row.get("title"), row.get("url")
        if not isinstance(title, str) or not (name := one_line(title)):
            return None
        if url is None:  # hits have none
            url = f"https://{self._host()}/wiki/{quote(name.replace(' ', '_'), safe=RAW_IN_PATHS)}"
        # the moment is that of the last edit, which is as much of a date as such a page has
        return result(title, url, snippet=row.get("snippet"), published=row.get("timestamp"))

    def said(self, wire: Wire, body: object) -> Said:
        several = member(body, "errors")
        faults = [member(body, "error"), *(several if isinstance(several, list) else ())]
        kind = member(body, "type")  # of the other way's failures: an address that ends in a name
        told = [wire.headers.get("mediawiki-api-error"), *(member(fault, "code") for fault in faults)]
        told += [kind.rpartition("/")[2] if isinstance(kind, str) else None, member(body, "detail")]
        codes = [code.strip() for code in told if isinstance(code, str)]
        codes += ["internal_api_error"] if any(code.lower().startswith("internal_api_error_") for code in codes) else []
        texts = [member(fault, name) for fault in faults for name in ("info", "text")]
        message = next((text for text in texts if isinstance(text, str)), super().said(wire, body).message)
        if body is None and wire.status == 403:
            message = plain_text(wire.text[:10_000])  # the sentence may stand in a page
        return Said(tuple(codes), message)


def _suggested(body: list[object]) -> list[object] | None:
    """The rows of an OpenSearch answer: what was asked, then titles, descriptions and addresses side by side."""
    if len(body) != 4 or not isinstance(body[0], str):
        return None
    lists = [part for part in body[1:] if isinstance(part, list)]
    if len(lists) != 3:
        return None
    return [{"title": title, "snippet": text, "url": url} for title, text, url in zip_longest(*lists)]


def _covers(domain: str, host: str) -> bool:
    return host == domain or host.endswith(f".{domain}")
