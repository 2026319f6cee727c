"""The operator's check: each part of the house, how it does, what to do. No secrets; no vendor hears of it but live."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Literal

import providers
from gateway import addresses, pace
from gateway.audit import Audit
from gateway.clock import Deadline
from gateway.gateway import Gateway
from gateway.keys import Candidate, Lane
from gateway.settings import Config, serving_refusal
from gateway.steps import Skip, Step, Walked, whole_seconds
from gateway.stores import StoreUnavailable
from gateway.stores.opening import state_folder
from gateway.stores.sqlite import FILE_NAME
from providers import Outcome, Query
from providers._words import Left

QUESTION = Query("open source search engine")
"""Something that every index has pages about."""

Verdict = Literal["ok", "warning", "fault", "note"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the check: what was looked at, the verdict in a word and in words, and what to do about it."""

    section: Literal["configuration", "access", "state", "providers", "not in the chain", "live"]
    what: str
    verdict: Verdict
    words: str
    advice: str = ""


AGAIN = "after a restart (with Redis: a day after it was refused)"
"""When a key that is out for auth gets another chance: what machines share is not for one of them to clear."""

MEANING: Mapping[str, tuple[str, str]] = {
    # what a class or a skip says of a provider, and what helps
    Outcome.OK: ("works", ""),
    Outcome.NO_RESULTS: ("answers, but has nothing on a common question", "look at its options"),
    Outcome.AUTH_FAILURE: ("key refused", f"put another key into {{env}}; this one is tried again {AGAIN}"),
    Outcome.RATE_LIMITED: ("throttled", "wait; a slower local_qps keeps it from happening"),
    Outcome.QUOTA_EXHAUSTED: ("the vendor's quota is used up", "wait until it is renewed, or buy more there"),
    Outcome.TIMEOUT: ("no answer in time", "look at the network and the proxy; timeout_ms may be too short"),
    Outcome.NETWORK: ("cannot be reached", "look at name service, firewall, proxy and base_url"),
    Outcome.SERVER_ERROR: ("the vendor is in trouble", "wait; if it lasts, look at base_url"),
    Outcome.REQUEST_ERROR: ("the request was refused", "look at its options and base_url"),
    Skip.QUOTA_LOCAL: ("our own budget is used up", "raise quota.limit, or wait for the next period"),
    Skip.LOCAL_RATE: ("not asked: its next turn is too far off", "ask again in a moment"),
    Skip.STATE_UNAVAILABLE: ("not asked: its budget cannot be counted now", "mend the state first"),
    Skip.BUDGET_EXHAUSTED: ("no answer in time", "look at the network and the proxy"),
}


def is_faulty(config: Config) -> bool:
    """Whether nothing would be served with this configuration."""
    return bool(config.errors) or serving_refusal(config) is not None


def configuration(config: Config) -> Iterator[Finding]:
    """Where the settings come from, and what is wrong with them."""
    source = config.source or "no file: built-in defaults and environment"
    yield Finding("configuration", "source", "fault" if config.errors else "ok", source)
    for error in config.errors:
        yield Finding("configuration", "error", "fault", error, "nobody is asked until it is mended")
    for warning in config.warnings:
        yield Finding("configuration", "warning", "warning", warning)


def examine(gateway: Gateway, status: Mapping[str, Any]) -> Iterator[Finding]:
    """Everything that can be told without asking a vendor. `status` is the gateway's own, of now."""
    yield from configuration(gateway.config)
    yield from _access(gateway.config)
    yield from _state(gateway, status)
    for line in status["providers"]:
        yield from _provider(line) if line["in_chain"] else _outside(line, gateway.config)
    if not gateway.config.chain and not gateway.config.errors:
        yield Finding("providers", "chain", "fault", "nobody is in it", "set one of the variables below")


def can_answer(status: Mapping[str, Any], asked: Sequence[Finding] | None = None) -> bool:
    """Whether a search would be answered now, as far as is known. `asked` is what came of asking live, if we did."""
    well = None if asked is None else {each.what.partition(" ")[0] for each in asked if each.verdict == "ok"}
    return any(_would_be_asked(line) and (well is None or line["name"] in well) for line in status["providers"])


def _would_be_asked(line: Mapping[str, Any]) -> bool:
    is_uncounted = line["state"] is None and line["quota_profile"] == "unbounded"  # asked though the state is away
    return bool(line["in_chain"]) and (line["state"] == "active" or is_uncounted)


def _access(config: Config) -> Iterator[Finding]:
    server = config.server
    where = f"{server.host}:{server.port}"
    if why := serving_refusal(config):
        yield Finding("access", where, "fault", why)
    elif not server.tokens:
        yield Finding("access", where, "ok", "without a token, from this machine only")
    else:
        named = (
            f"{each.name} ({each.daily_limit} a day)" if each.daily_limit is not None else each.name
            for each in server.tokens
        )
        yield Finding("access", where, "ok", f"with the token of {', '.join(named)}")
    for name, is_on in (("query", server.allow_query_token), ("path", server.allow_path_token)):
        if is_on:
            words = f"tokens may stand in the {name} of an address, where proxies and histories keep them"
            yield Finding("access", where, "warning", words, f"server.allow_{name}_token: false, if no client needs it")


def _state(gateway: Gateway, status: Mapping[str, Any]) -> Iterator[Finding]:
    state, wanted = status["state"], gateway.config.state
    shared = {
        "memory": "forgotten at the end of each process, and shared with none: a running server's is not this one",
        "sqlite": f"{(wanted.path or state_folder()) / FILE_NAME}: kept, and shared by the processes of this machine",
        "redis": f"{addresses.public(wanted.url or '')}, prefix {wanted.prefix}: kept, and shared by every machine",
    }[state["type"]]
    if state["error"]:
        advice = "until it is mended, providers with a limited budget are not asked"
        yield Finding("state", state["type"], "fault", f"{shared}; {state['error']}", advice)
    elif state["type"] != wanted.type:
        yield Finding("state", state["type"], "warning", shared, f"mend the {wanted.type} state that was wanted")
    elif state["type"] == "memory":
        yield Finding("state", "memory", "warning", shared, "state.type sqlite or redis would outlive a restart")
    else:
        yield Finding("state", state["type"], "ok", f"{shared}; can be written")
    for warning in gateway.store_warnings:
        if not state["error"] or state["error"] not in warning:
            yield Finding("state", "warning", "warning", warning)


def _provider(line: Mapping[str, Any]) -> Iterator[Finding]:
    name, state, last = line["name"], line["state"], line["last_error"]
    if state == "unconfigured":
        words = f"in the chain, but {line['credential_env']} is not set"
        yield Finding("providers", name, "warning", words, f"set {line['credential_env']}, or take it out of the list")
        return
    if state is None:
        asked = "asked all the same" if _would_be_asked(line) else "not asked"
        yield Finding("providers", name, "warning", f"{asked} while the state is away", "mend the state first")
        return
    told = [state, *([line["account"]] if "account" in line else []), *_counted(line)]
    if line["last_outcome"] is None:
        told.append("not asked yet, as far as is remembered")
    elif last is None:
        told.append(f"last call: {line['last_outcome']}")
    else:
        told.append(f"last call failed: {_sentence(last['outcome'], last)}")
    is_well = state == "active" and last is None and "warning" not in line
    advice = _advice(_reason(state), line, last)
    yield Finding("providers", name, "ok" if is_well else "warning", "; ".join(told), advice)
    for key in line.get("keys", ()):
        if key["state"] != "active":
            words, helps = "; ".join([key["state"], *_counted(key)]), _advice(_reason(key["state"]), line | key, None)
            yield Finding("providers", f"{name} {key['key']}", "warning", words, helps)


def _counted(line: Mapping[str, Any]) -> Iterator[str]:
    """What a provider or a key has used, and what is left."""
    if line["used_requests"] is not None:
        profile = f", {line['quota_profile']}" if "quota_profile" in line else ""
        yield f"{line['used_requests']} used{profile}"
    if line["vendor_remaining"] is not None:
        of = "" if line["vendor_limit"] is None else f" of {line['vendor_limit']}"
        yield f"the vendor says {line['vendor_remaining']}{of} left"
    if line.get("pace"):
        yield line["pace"]


def _reason(state: str) -> str:
    """What stands in the brackets of a state: `blocked(rate_limited, 42s left)` rests for `rate_limited`."""
    return state.partition("(")[2].partition(",")[0].rstrip(")")


def _advice(reason: str, line: Mapping[str, Any], last: Mapping[str, Any] | None) -> str:
    if last is not None and "hint" in last:
        return str(last["hint"])
    reason = reason or (last["outcome"] if last is not None else "")
    if reason == Outcome.AUTH_FAILURE and line.get("login"):
        return f"log in again: websearch-gateway login {line['name']}"
    return MEANING[reason][1].format(env=line["credential_env"]) if reason in MEANING else ""


def _outside(line: Mapping[str, Any], config: Config) -> Iterator[Finding]:
    """One that is not in the chain, and what keeps it out."""
    origin = config.origins.get("providers", "default")
    listed = "WEBSEARCH_PROVIDERS" if origin.startswith("env") else "providers in the file"
    if origin == "default":
        listed += ", beside everybody else who is to be asked"  # a list of one would be the whole chain
    joins = origin == "default" and providers.find(line["name"]).joins != "if_listed"
    if line["state"] == "unconfigured":
        wanted = f"set {line['credential_env']}" + ("" if joins else f", and add it to {listed}")
        yield Finding("not in the chain", line["name"], "note", "not configured", wanted)
    else:
        yield Finding("not in the chain", line["name"], "note", "has what it needs", f"add it to {listed}")


# ---------------------------------------------------------------------------------------------------------------------
# live


def cost(gateway: Gateway) -> Finding:
    """What `live` will spend."""
    told = [each for each in gateway.current.candidates if _tells(each)]
    searched = [each for each in gateway.current.candidates if not _tells(each)]
    parts = [f"asks {_names(told)} what is left, which is no search, or one where that is not told"] if told else []
    parts += [f"asks {_names(searched)} one search with each key; these count in their budgets"] if searched else []
    return Finding("live", "cost", "note", "; ".join(parts) or "nothing: there is nobody to ask")


async def live(gateway: Gateway) -> AsyncIterator[Finding]:
    """Ask with each key what is left, where there is an endpoint for it, else one search, made as any search is.

    An endpoint that does not tell is noted, for that says nothing of the key; the search does.
    """
    for candidate in gateway.current.candidates:
        for lane in candidate.lanes:
            name = f"{candidate.name} #{lane.number}" if len(candidate.lanes) > 1 else candidate.name
            if _tells(candidate):
                yield (told := await _usage(gateway, candidate, lane, name))
                if told.verdict != "note":
                    continue
            yield await _search(gateway, candidate, lane, name)


def _tells(candidate: Candidate) -> bool:
    return candidate.adapter.usage_every_s is not None


def _names(candidates: list[Candidate]) -> str:
    return ", ".join(f"{each.name} ({n} keys)" if (n := len(each.lanes)) > 1 else each.name for each in candidates)


async def _usage(gateway: Gateway, candidate: Candidate, lane: Lane, name: str) -> Finding:
    told = await gateway.ledger.ask(candidate, lane)
    if isinstance(told, Left):
        of = "" if told.limit is None else f" of {told.limit}"
        if told.remaining:
            return await _well(gateway, lane, name, f"says {told.remaining}{of} left")
        return Finding("live", name, "warning", f"says 0{of} left", MEANING[Outcome.QUOTA_EXHAUSTED][1])
    words = " ".join(part for part in ("does not tell what is left:", told.outcome, told.detail, told.message) if part)
    return Finding("live", name, "note", words)


async def _search(gateway: Gateway, candidate: Candidate, lane: Lane, name: str) -> Finding:
    alone = replace(candidate, lanes=(lane,))
    audit, deadline = Audit(), Deadline(candidate.timeout_s + pace.PATIENCE_S, gateway.clock)
    walked = await gateway.current.chain.ask_only(alone, QUESTION, deadline, audit)
    if walked.winner is None:
        return await _failed(gateway, candidate, walked, name)
    count, elapsed_ms = len(walked.rows), audit.history[-1].elapsed_ms
    words = f"works: {count} result{'' if count == 1 else 's'} in {elapsed_ms} ms"
    return await _well(gateway, lane, name, words)


async def _well(gateway: Gateway, lane: Lane, name: str, words: str) -> Finding:
    """It works; yet searches leave it alone while it rests, and an answer ends no rest."""
    with suppress(StoreUnavailable):
        if rest := await gateway.cooldowns.of(lane):
            left_s = whole_seconds(rest.until, gateway.clock.wall())
            is_out = rest.why == Outcome.AUTH_FAILURE
            advice = f"it is tried again {AGAIN}" if is_out else "that ends by itself"
            return Finding("live", name, "warning", f"{words}, but it rests: {rest.why}, {left_s} s left", advice)
    return Finding("live", name, "ok", words)


async def _failed(gateway: Gateway, candidate: Candidate, walked: Walked, name: str) -> Finding:
    step: Step = walked.steps[-1]
    reason = step.skip or step.outcome
    told: dict[str, Any] = {"outcome": reason, "detail": step.detail}
    with suppress(StoreUnavailable):
        last = None if step.skip else await gateway.history.last(candidate.name)
        if last is not None and last["outcome"] == reason:
            told = last
    advice = _advice(reason, {"credential_env": candidate.settings.credential_env}, told)
    verdict: Verdict = "warning" if reason == Outcome.NO_RESULTS else "fault"
    return Finding("live", name, verdict, _sentence(reason, told), advice)


def _sentence(reason: str, told: Mapping[str, Any]) -> str:
    """An outcome for people: `key refused: http_401 Unauthorized`."""
    detail, message = told["detail"], told.get("message", "")
    cause = " ".join(part for part in (detail, "" if message in detail else message) if part)
    meaning = MEANING[reason][0] if reason in MEANING else reason
    return f"{meaning}: {cause}" if cause else meaning
