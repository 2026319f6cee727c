"""What `web_search_status` says: who may be asked, who rests and why, what was used. No secret, no request."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from gateway import __version__, addresses, balance, budgets, clients
from gateway.keys import Lane
from gateway.keys import lanes as lanes_of
from gateway.settings import ProviderSettings
from gateway.steps import whole_seconds
from gateway.stores import StoreUnavailable
from gateway.tally import What
from providers import Outcome
from providers._login._grant import is_login

if TYPE_CHECKING:
    from gateway.gateway import Gateway

NEARLY_SPENT = 0.9


_VENDOR: dict[str, Any] = {
    "vendor_remaining": {"description": "what the vendor says is left, requests or credits; null when it says nothing"},
    "vendor_limit": {"description": "of how many, by the vendor"},
    "vendor_resets_at": {"description": "when the vendor renews it"},
    "vendor_as_of": {"description": "when the vendor said so"},
    "vendor_source": {"description": "reply or usage: beside an answer, or its usage endpoint"},
    "gated_by": {"description": "local or vendor: whichever has less left; null when neither is known to end"},
}

STATUS_SCHEMA: dict[str, Any] = {
    # a member that may be null has no type
    "type": "object",
    "properties": {
        "version": {"type": "string"},
        "providers": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "name": {"type": "string"},
                    "in_chain": {"type": "boolean"},
                    "credential_env": {"description": "the variable that configures it; null when none is needed"},
                    "state": {"description": "active, unconfigured, disabled…, blocked…; null while the store is away"},
                    "used_requests": {"description": "our own count in this period, not the vendor's balance"},
                    "quota_profile": {"type": "string"},
                    **_VENDOR,
                    "consecutive_failures": {"type": "integer"},
                    "last_outcome": {"description": "outcome of the last real call; null when there was none"},
                    "last_error": {"description": "the last call, when it failed; else null"},
                    "lasts_until": {
                        "description": "day on which all is used up at today's rate; null: it lasts, or unknown"
                    },
                    "pace": {"description": "the same as a sentence; null while nothing was used"},
                    "warning": {"type": "string"},
                    "account": {"type": "string", "description": "how the login with an account is, where one is used"},
                    "keys": {
                        "type": "array",
                        "items": {
                            "type": "object",
                            "properties": {
                                "key": {"type": "string"},
                                "state": {"type": "string"},
                                "used_requests": {"type": "integer"},
                                "login": {"type": "boolean", "description": "true: it is the login, and no key"},
                                **_VENDOR,
                            },
                            "required": ["key", "state", "used_requests"],
                        },
                    },
                },
                "required": ["name", "in_chain", "state"],
            },
        },
        "config": {
            "type": "object",
            "properties": {
                "source": {"description": "the file in use; null when there is none"},
                "error": {"description": "everything that is wrong, one line each; null when nothing is"},
                "warnings": {"type": "array", "items": {"type": "string"}},
            },
        },
        "network": {"type": "object", "properties": {"proxy": {"description": "without user and password"}}},
        "state": {
            "type": "object",
            "properties": {
                "type": {"type": "string"},
                "persistent": {"type": "boolean"},
                "error": {"description": "why the store cannot be used now; null when it can"},
            },
        },
        "cache": {
            "type": "object",
            "properties": {
                "entries": {"description": "answers kept; null when the store does not say"},
                "hits": {"description": "of all workers since the start; null when the store does not say"},
                "misses": {"description": "likewise"},
            },
        },
        "clients": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "name": {"type": "string"},
                    "searches_today": {"description": "cached ones included; null while the store is away"},
                    "daily_limit": {"type": "integer"},
                    "limit_ends": {"type": "string", "description": "when the count starts again, with its zone"},
                },
            },
        },
        "uptime_s": {"type": "integer"},
    },
    "required": ["version", "providers", "config", "network", "state", "cache", "clients", "uptime_s"],
}


async def report(gateway: Gateway) -> dict[str, Any]:
    """The whole status. What the store cannot tell now is null."""
    config = gateway.config
    trouble: str | None = None
    lines: list[dict[str, Any]] = []
    named: list[dict[str, Any]] = []
    entries: int | None = None
    tally: dict[What, int] = {}
    try:
        lines = [await _provider(gateway, settings) for settings in config.providers]
        named = await clients.today(gateway.store, config, gateway.clock.wall())
        entries = await gateway.current.cache.entries()
        tally = await gateway.tally.read()
        trouble = await _write_trouble(gateway)
    except StoreUnavailable as error:
        trouble = str(error)
        lines = [_unknown(settings) for settings in config.providers]
        named = clients.unknown(config)
    return {
        "version": __version__,
        "providers": lines,
        "config": {
            "source": config.source,
            "error": "\n".join(config.errors) or None,
            "warnings": [*config.warnings, *gateway.store_warnings],
        },
        "network": {"proxy": addresses.public(config.network.proxy) if config.network.proxy else None},
        "state": {
            "type": config.state.type if gateway.persistent else "memory",
            "persistent": gateway.persistent,
            "error": trouble,
        },
        "cache": {"entries": entries, "hits": tally.get("hits"), "misses": tally.get("misses")},
        "clients": named,
        "uptime_s": int(max(0.0, gateway.clock.wall() - gateway.run.started)),
    }


async def _write_trouble(gateway: Gateway) -> str | None:
    """Why nothing can be remembered now: a full disk or a lock lets everything be read."""
    try:
        await gateway.store.count("status", gateway.clock.wall() + 60)
    except StoreUnavailable as error:
        return str(error)
    return None


async def _provider(gateway: Gateway, settings: ProviderSettings) -> dict[str, Any]:
    now = gateway.clock.wall()
    lanes = lanes_of(settings.vendor, settings, gateway.config.defaults.cooldown_default_s)
    used = [await budgets.used(gateway.store, lane, now) for lane in lanes]
    entries = [await gateway.ledger.of(lane) for lane in lanes]
    recent = await budgets.recent(gateway.store, lanes, now)
    ends = budgets.period(settings.budget, now).ends
    ahead = balance.outlook(settings.budget, used, entries, recent.per_day, now, ends)
    states = [await _state(gateway, lane, count, now) for lane, count in zip(lanes, used, strict=True)]
    last = await gateway.history.last(settings.name)
    failed = last is not None and last["outcome"] not in (Outcome.OK, Outcome.NO_RESULTS)
    line: dict[str, Any] = {
        "name": settings.name,
        "in_chain": settings.in_chain,
        "credential_env": settings.credential_env,
        "state": _best(settings, states),
        "used_requests": sum(used) if lanes else None,
        "quota_profile": budgets.profile(settings.budget),
        **balance.balance(settings.budget, used, entries),
        "lasts_until": ahead.until.isoformat() if ahead and ahead.until else None,
        "pace": ahead.words if ahead else None,
        "consecutive_failures": max([await gateway.cooldowns.streak(lane) for lane in lanes], default=0),
        "last_outcome": last["outcome"] if last else None,
        "last_error": last if failed else None,
        **_account(settings),
    }
    limit = settings.budget.limit
    if limit is not None and any(count >= NEARLY_SPENT * limit for count in used):
        line["warning"] = f"{sum(used)} of {limit * len(lanes)} requests of this period are used"
    if len(lanes) > 1:
        line["keys"] = [
            {"key": f"#{lane.number}", "state": state.words, "used_requests": count}
            | balance.balance(settings.budget, [count], [entry])
            | ({"login": True} if is_login(lane.key) else {})
            for lane, state, count, entry in zip(lanes, states, used, entries, strict=True)
        ]
    return line


def _account(settings: ProviderSettings) -> dict[str, str]:
    return {"account": settings.login} if settings.account else {}


class State(NamedTuple):
    """What keeps a key from being asked; the least of several comes back first. `seconds` until then, where known."""

    rank: int
    seconds: int
    words: str


async def _state(gateway: Gateway, lane: Lane, used: int, now: float) -> State:
    rest = await gateway.cooldowns.of(lane)
    if rest is not None and rest.why == Outcome.AUTH_FAILURE:
        return State(3, 0, f"disabled({rest.why})")
    if rest is not None:
        left_s = whole_seconds(rest.until, now)
        return State(1, left_s, f"blocked({rest.why}, {left_s}s left)")
    if lane.budget.limit is not None and used >= lane.budget.limit:
        return State(2, 0, "blocked(quota_local)")
    return State(0, 0, "active")


def _best(settings: ProviderSettings, states: Sequence[State]) -> str:
    """One word for the provider: that of the key that would be asked, else of the one that comes back first."""
    if not settings.keys:
        return "unconfigured"
    if not settings.in_chain:
        return "disabled"
    return min(states).words


def _unknown(settings: ProviderSettings) -> dict[str, Any]:
    """A provider about which the store, which knows, cannot be asked."""
    configured = "disabled" if not settings.in_chain else None
    return {
        "name": settings.name,
        "in_chain": settings.in_chain,
        "credential_env": settings.credential_env,
        "state": configured if settings.keys else "unconfigured",
        "used_requests": None,
        "quota_profile": budgets.profile(settings.budget),
        **balance.UNKNOWN,
        "lasts_until": None,
        "pace": None,
        "last_outcome": None,
        "last_error": None,
        **_account(settings),
    }
