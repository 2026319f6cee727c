"""The effective configuration for people: every value with where it came from, and no secret. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

from gateway import addresses, lineup
from gateway.settings import Config, ProviderSettings


def show(config: Config) -> dict[str, Any]:
    """The effective configuration as plain values, each with where it came from; a secret is "set" or "not set"."""

    def told(place: str, value: object) -> dict[str, object]:
        return {"value": value, "from": config.origins.get(place, "default")}

    def section(name: str, settings: object, hidden: Mapping[str, object] | None = None) -> dict[str, object]:
        values = {each.name: getattr(settings, each.name) for each in fields(settings)} | dict(hidden or {})  # type: ignore[arg-type]
        return {each: told(f"{name}.{each}", value) for each, value in values.items()}

    state = {
        "path": None if config.state.path is None else str(config.state.path),
        "url": _shown(config.state.url),
    }
    tokens = {
        "tokens": [
            {"name": each.name, "token": "set", "daily_limit": each.daily_limit} for each in config.server.tokens
        ]
    }
    proxy = {"proxy": _shown(config.network.proxy)}
    return {
        "source": config.source,
        "errors": list(config.errors),
        "warnings": list(config.warnings),
        "credentials": {
            name: told(
                f"credentials.{name}",
                "not set" if config.origins.get(f"credentials.{name}", "default") == "default" else "set",
            )
            for name in lineup.credential_names(config.tables)
        },
        "chain": told("providers", [each.name for each in config.chain]),
        "providers": {each.name: _shown_provider(each, told) for each in config.providers},
        "defaults": section("defaults", config.defaults, {"total_budget_ms": config.total_budget_ms}),
        "cache": section("cache", config.cache),
        "state": section("state", config.state, state),
        "server": section("server", config.server, tokens),
        "network": section("network", config.network, proxy),
        "tool_prefix": told("tool_prefix", config.tool_prefix),
        "debug": told("debug", config.debug),
        "log": told("log", config.log_level),
    }


def _shown(address: str | None) -> str | None:
    return None if address is None else addresses.public(address)


def _shown_provider(settings: ProviderSettings, told: Callable[[str, object], dict[str, object]]) -> dict[str, object]:
    place = f"providers[{settings.name}]"
    values = {
        "base_url": _shown(settings.base_url or settings.address),
        "timeout_ms": settings.timeout_ms,
        "proxy": _shown(settings.proxy),
        "quota.type": settings.budget.type,
        "quota.limit": settings.budget.limit,
        "quota.reset_day": settings.budget.reset_day if settings.budget.type == "monthly" else None,
        "quota.timezone": settings.budget.timezone,
        "quota_retry_s": settings.quota_retry_s,
        "min_interval_ms": settings.interval_ms,
        "cooldown_max_s": settings.cooldown_max_s,
        "vendor_usage_every_s": settings.vendor_usage_every_s,
        **{f"options.{name}": value for name, value in settings.options.items()},
    }
    shown: dict[str, object] = {
        "in_chain": settings.in_chain,
        "keys": len(settings.keys) if settings.credential_env else None,
        **({"account": settings.login} if settings.login else {}),
    }
    return shown | {name: told(f"{place}.{name}", value) for name, value in values.items()}
