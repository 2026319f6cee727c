"""Grok: xAI's Responses API, or an OpenAI-compatible relay.

docs.x.ai, "Web search", "Citations", "Debugging errors", "Rate limits" (read 2026-11); for relays the sources of
GrokSearch, GrokSearch-rs and grok2api.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from typing import ClassVar
from urllib.parse import unquote, urlsplit

import anyio
import httpx2

from providers._http import Draft, HTTPProvider
from providers._login._account import Account
from providers._login._grant import Authority, Grant, is_login
from providers._login._oauth import TIER
from providers._reading import member, result
from providers._transport import Carrier, out_of_time
from providers._wire import Wire
from providers._words import FRESHNESS_DAYS, Option, Outcome, Query, Reply, Results, Row, Said, Settings, monthly
from providers.grok._events import Page, decode
from providers.grok._sources import Answer, read_answer

HOSTS_PER_FILTER = 5

STALE = Row(403, Outcome.AUTH_FAILURE, phrase="OAuth2 access token could not be validated")
"""An access token that is no good any more, whatever it says itself: a new one may be."""

ACCOUNT = Authority(
    # nobody gets a client of his own there: programs for the terminal share this one (GrokSearch-rs, src/oauth)
    issuer="https://auth.x.ai",
    client_id="b1a00492-073a-47ea-816f-4c329264a828",
    scope="openid profile email offline_access grok-cli:access api:access",
    port=56121,
    extra={"plan": "generic", "referrer": "websearch-gateway"},  # others put their own names there
    terms=(
        "xAI has given no client id to this gateway: the login goes under one that several programs share. That may "
        "break xAI's terms and cost you the account. Programs that share one login also end each other's: keep this "
        "one to the gateway. An API key (GROK_API_KEY) has neither trouble."
    ),
)


class Grok(HTTPProvider):
    name = "grok"
    title = "Grok"
    priority = 120
    home = "https://api.x.ai/v1/responses"
    credential = "GROK_API_KEY"
    shared_credential = "XAI_API_KEY"
    address_variable = "GROK_API_URL"
    authority = ACCOUNT
    budget = monthly(500)
    timeout_s = 45.0  # a search takes 16 to 36 s
    domains = HOSTS_PER_FILTER
    enforces_freshness = False
    options: ClassVar = {
        "model": Option(str, "grok-4.7", "the model that searches and answers"),
        "x_search": Option(bool, False, "search posts on X as well; costs a further tool call"),
        "api": Option(
            str,
            "auto",
            "which interface the address has; auto: a relay's chat when GROK_API_URL is set, else xAI's responses",
            ("auto", "responses", "chat"),
        ),
    }

    errors = (
        # what is said                                            what it means             xAI's words, shortened
        Row(None, Outcome.QUOTA_EXHAUSTED, code="insufficient_quota"),  # relays: OpenAI's code
        Row(None, Outcome.QUOTA_EXHAUSTED, code="insufficient_user_quota"),  # relays: new-api's code
        Row(None, Outcome.AUTH_FAILURE, code="invalid_api_key"),  # relays: OpenAI's code (inferred)
        Row(None, Outcome.RATE_LIMITED, code="rate_limit_exceeded"),  # relays: OpenAI's code (inferred)
        Row(None, Outcome.AUTH_FAILURE, phrase="Incorrect API key provided"),  # 400, and inside streams
        Row(None, Outcome.QUOTA_EXHAUSTED, phrase="doesn't have any credits"),  # 403
        Row(None, Outcome.QUOTA_EXHAUSTED, phrase="used all available credits or reached its monthly spending limit"),
        Row(200, Outcome.SERVER_ERROR, code="failed"),  # the response's own status, or an error inside a stream
        Row(200, Outcome.SERVER_ERROR, code="incomplete"),
        Row(
            200,
            Outcome.REQUEST_ERROR,
            code="web page",
            setup=True,
            hint="the address answers with a web page; its /v1 is probably missing",
        ),
        Row(400, Outcome.REQUEST_ERROR),
        Row(401, Outcome.AUTH_FAILURE),  # no authorization header, or an invalid token
        STALE,
        Row(403, Outcome.RATE_LIMITED, code="relay's web page"),  # something before the relay blocks its address
        Row(
            404,
            Outcome.REQUEST_ERROR,
            setup=True,
            hint="unknown model or address; check options.model and GROK_API_URL",
        ),
        Row(405, Outcome.REQUEST_ERROR),
        Row(
            410, Outcome.REQUEST_ERROR, setup=True, hint="this interface is retired; check GROK_API_URL and options.api"
        ),
        Row(415, Outcome.REQUEST_ERROR),
        Row(422, Outcome.REQUEST_ERROR),
        Row(429, Outcome.RATE_LIMITED),
    )

    def __init__(self, settings: Settings | None = None, clock: Callable[[], float] = time.time) -> None:
        super().__init__(settings, clock)
        api = self.option("api")
        # xAI's own chat completions do not search; they invent citations
        relayed = bool(self.settings.address) and not any(
            _host(address) == "api.x.ai" for address in (self.settings.address, self.settings.base_url)
        )
        self.is_relayed = api == "chat" or (api == "auto" and relayed)
        if self.is_relayed:
            self.domains = 0
        file = self.settings.account
        self._account = Account(self.name, file, self._new_connections, clock) if file else None

    # -----------------------------------------------------------------------------------------------------------------
    # asking

    def request(self, query: Query, key: str) -> httpx2.Request:
        url = self.endpoint(path="/v1/chat/completions" if self.is_relayed else "/v1/responses")
        model = str(self.option("model"))
        host = _host(url)
        if (host == "openrouter.ai" or host.endswith(".openrouter.ai")) and not model.endswith(":online"):
            model += ":online"  # without it OpenRouter does not search
        body: dict[str, object] = {"model": model}
        if self.is_relayed:
            body |= {"messages": self._prompt(query), "stream": True}
        else:
            body |= {"input": self._prompt(query), "stream": False, "tools": self._tools(query)}
        # a login's token is put in when it is sent: it may have to be renewed first
        headers = {} if is_login(key) else {"Authorization": f"Bearer {key}"}
        return httpx2.Request("POST", url, headers=headers, json=body)

    def _tools(self, query: Query) -> list[dict[str, object]]:
        web: dict[str, object] = {"type": "web_search"}
        if field := self._filter(query):
            web["filters"] = field
        tools = [web]
        if self.option("x_search"):
            posts: dict[str, object] = {"type": "x_search"}
            if query.freshness:
                posts["from_date"] = self._since(query).date().isoformat()
            tools.append(posts)
        return tools

    def _filter(self, query: Query) -> dict[str, list[str]]:
        """What the tool itself can be held to: one of the two lists, and no more hosts than it takes."""
        if query.include_domains:
            hosts = list(query.include_domains)
            return {"allowed_domains": hosts} if len(hosts) <= HOSTS_PER_FILTER else {}
        hosts = list(query.exclude_domains)[:HOSTS_PER_FILTER]
        return {"excluded_domains": hosts} if hosts else {}

    def unmet(self, query: Query) -> Iterator[str]:
        # that freshness is a wish too follows from `enforces_freshness`
        held = {} if self.is_relayed else self._filter(query)
        if [*query.include_domains, *query.exclude_domains] != [host for hosts in held.values() for host in hosts]:
            yield "grok: domains beyond its own filter were only asked for in words"

    def _prompt(self, query: Query) -> list[dict[str, str]]:
        now = self._now()
        lines = [
            "Search the web and answer the question from what you find.",
            'Link each source where you use it, as [title](address), and list all sources at the end under "Sources".',
            f"Local date and time: {now:%A, %Y-%m-%d %H:%M}, time zone {now:%Z} (UTC{now:%z}).",
        ]
        if query.include_domains:
            lines.append(f"Use only pages of these sites: {', '.join(query.include_domains)}.")
        if query.exclude_domains:
            lines.append(f"Do not use pages of these sites: {', '.join(query.exclude_domains)}.")
        if query.freshness:
            lines.append(f"Use only pages of the past {query.freshness}, from {self._since(query):%Y-%m-%d} on.")
        return [{"role": "system", "content": "\n".join(lines)}, {"role": "user", "content": query.text}]

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self.clock()).astimezone()

    def _since(self, query: Query) -> datetime:
        return self._now() - timedelta(days=FRESHNESS_DAYS[query.freshness or "year"])

    # -----------------------------------------------------------------------------------------------------------------
    # with an account

    async def send(self, draft: Draft, limit_s: float) -> Reply:
        if self._account is None or "Authorization" in draft.request.headers:
            return await super().send(draft, limit_s)
        started = time.perf_counter()
        reply = out_of_time(limit_s)
        with anyio.move_on_after(limit_s):
            reply = await self._send_as(self._account, draft, limit_s)
        return replace(reply, elapsed_ms=round((time.perf_counter() - started) * 1000))

    async def _send_as(self, account: Account, draft: Draft, limit_s: float) -> Reply:
        """Send with the account's token; once more after the first was refused, with a new one."""
        tokens = await account.tokens()
        if isinstance(tokens, Reply):
            return tokens
        reply = await super().send(_signed(draft, tokens), limit_s)
        if reply.matched == STALE:
            tokens = await account.renewed(tokens)
            if isinstance(tokens, Reply):
                return tokens
            reply = await super().send(_signed(draft, tokens), limit_s)
        if reply.outcome is Outcome.AUTH_FAILURE:
            again = f"log in again: websearch-gateway login {self.name}"
            is_tier = reply.matched is not None and reply.matched.status == 403 and reply.matched != STALE
            return replace(reply, hint=TIER if is_tier else again)
        return reply

    def _new_connections(self) -> Carrier:
        return self.connections(self.settings.proxy, self.clock)

    # -----------------------------------------------------------------------------------------------------------------
    # reading; the shape of a body decides, not the way it came

    def decode(self, wire: Wire) -> object:
        return Page() if wire.is_page else decode(wire.text)

    def results(self, body: object) -> Results | Reply | None:
        answer = read_answer(body)
        if answer is None:
            return None
        found = [result(source.title, source.url, snippet=source.snippet) for source in answer.sources]
        if rows := tuple(row for row in found if row is not None):
            return Results(rows, answer.text)
        return _without_sources(answer, body)

    def said(self, wire: Wire, body: object) -> Said:
        if isinstance(body, Page):
            return Said(codes=("web page", "relay's web page") if self.is_relayed else ("web page",))
        if isinstance(body, str):
            return Said(message=_readable(body))
        error = member(body, "error")
        told = (member(error, "code"), member(error, "type"), member(body, "code"), member(body, "status"))
        codes = [code for code in told if isinstance(code, str)]
        if error:
            codes.append("failed")
        for text in (
            member(error, "message"),
            error,
            member(body, "message"),
            member(body, "detail"),
            member(body, "incomplete_details", "reason"),
        ):
            if isinstance(text, str) and text:
                return Said(tuple(codes), _readable(text))
        return Said(tuple(codes))

    def status(self, wire: Wire, body: object) -> int:
        # an error inside a 200 may name the status that it would have had
        for field in ("code", "status"):
            inner = member(body, "error", field)
            number = str(inner) if isinstance(inner, int | str) else ""
            if wire.status == 200 and len(number) == 3 and number.isascii() and number.isdigit() and number[0] in "45":
                return int(number)
        return wire.status


def _signed(draft: Draft, tokens: Grant) -> Draft:
    told = draft.request
    headers = {**told.headers, "authorization": f"Bearer {tokens.access_token}"}
    request = httpx2.Request(told.method, told.url, headers=headers, content=told.content)
    return replace(draft, request=request, secrets=(*draft.secrets, tokens.access_token, tokens.refresh_token))


def _without_sources(answer: Answer, body: object) -> Reply:
    if answer.text:
        # from memory, or a refusal: no search stands behind it
        return Reply(Outcome.NO_RESULTS, detail="ungrounded", row="shape of a success: text without a source")
    told = member(body, "id")
    return Reply(
        Outcome.SERVER_ERROR,
        detail="no text and no source",
        message=f"request {_readable(told)[:100]}" if isinstance(told, str) and told else "",
        row="shape of a success: neither text nor source",
    )


def _host(address: str | None) -> str:
    try:
        return urlsplit(address or "").hostname or ""
    except ValueError:
        return ""


def _readable(text: str) -> str:
    """A sentence as it was meant: some come percent-encoded, some with a printer's apostrophe."""
    plain = unquote(text) if "%20" in text and " " not in text.strip() else text
    return plain.replace("\u2019", "'")
