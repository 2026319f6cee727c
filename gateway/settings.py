"""What the operator decided, as typed values. `config.load` makes them; everybody reads them."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from gateway import addresses
from providers import HTTPProvider, find
from providers._declared import declare
from providers._declared._tables import Table
from providers._words import Budget


@dataclass(frozen=True, slots=True)
class Network:
    """How outgoing calls leave. `no_proxy` hosts go direct."""

    proxy: str | None = field(default=None, repr=False)
    no_proxy: tuple[str, ...] = ("localhost", "127.0.0.1", "::1")

    def proxy_for(self, address: str) -> str | None:
        """The proxy a call to `address` goes through; None: straight there."""
        return None if addresses.is_listed(address, self.no_proxy) else self.proxy


@dataclass(frozen=True, slots=True)
class Defaults:
    """`total_budget_ms` None: it follows the slowest provider in the chain.

    `timeout_ms` holds for every provider whose class does not declare a time limit of its own.
    """

    timeout_ms: int = 10_000
    total_budget_ms: int | None = None
    cooldown_default_s: float = 60
    cooldown_max_s: float = 3600
    max_output_chars: int = 12000


@dataclass(frozen=True, slots=True)
class CacheSettings:
    enabled: bool = True
    ttl_s: float = 3600
    ttl_fresh_s: float = 900
    max_entries: int = 512
    stale_if_error_s: float = 0


@dataclass(frozen=True, slots=True)
class StateSettings:
    """`path` (sqlite) None: the user's state directory. `url` (redis) may hold a password; keys begin with `prefix`."""

    type: Literal["sqlite", "memory", "redis"] = "sqlite"
    path: Path | None = None
    url: str | None = field(default=None, repr=False)
    prefix: str = "websearch"


@dataclass(frozen=True, slots=True)
class Token:
    name: str
    token: str = field(repr=False)
    daily_limit: int | None = None


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """`max_in_flight` and `max_in_flight_per_client` bound the calls that one worker works on at a time."""

    host: str = "127.0.0.1"
    port: int = 8787
    workers: int = 1
    max_in_flight: int = 1024
    max_in_flight_per_client: int = 256
    allowed_hosts: tuple[str, ...] = ()
    allowed_origins: tuple[str, ...] = ()
    tokens: tuple[Token, ...] = ()
    allow_query_token: bool = False
    allow_path_token: bool = False


@dataclass(frozen=True, slots=True)
class ProviderSettings:
    """One provider as it will be used: the vendor's defaults with the operator's changes on top.

    `keys` is empty when it is not configured (a provider that needs no key has one empty key). `proxy` is already
    decided for this provider's host; where keys are addresses each has its own in `proxies`, because one may be in this
    house and the next on the internet. Times are in the unit their name ends in. `account` is the file of a login that
    is used (as the first of the keys); `login` says of a provider that takes one how that is, for people. `table` is
    what the operator declared it with, if he did.
    """

    name: str
    in_chain: bool
    keys: tuple[str, ...] = field(repr=False)
    credential_env: str | None
    timeout_ms: int
    budget: Budget
    quota_retry_s: float
    interval_ms: int
    cooldown_max_s: float
    vendor_usage_every_s: float = 0.0
    base_url: str | None = field(default=None, repr=False)
    address: str | None = field(default=None, repr=False)
    proxy: str | None = field(default=None, repr=False)
    options: Mapping[str, str | bool | int] = field(default_factory=dict)
    proxies: Mapping[str, str | None] = field(default_factory=dict, repr=False)
    account: Path | None = None
    login: str = ""
    table: Table | None = field(default=None, repr=False)

    @property
    def vendor(self) -> type[HTTPProvider]:
        """Who is asked. The class of a declared one is made anew: processes pass settings on to each other."""
        return find(self.name) if self.table is None else declare(self.name, self.table)

    def proxy_for(self, key: str) -> str | None:
        """The proxy for a call with `key`; None: straight there."""
        return self.proxies.get(key, self.proxy)


@dataclass(frozen=True, slots=True)
class Config:
    """Everything the operator decided. With `errors`, nobody is asked.

    `providers` holds every provider there is, those of the chain first and in its order. `origins` says for each
    setting, by its place, where its value came from: `env <VARIABLE>`, `file` or `default`.
    """

    source: str | None = None
    errors: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    providers: tuple[ProviderSettings, ...] = ()
    defaults: Defaults = Defaults()
    cache: CacheSettings = CacheSettings()
    state: StateSettings = StateSettings()
    server: ServerSettings = ServerSettings()
    network: Network = Network()
    tool_prefix: str = ""
    debug: bool = False
    log_level: Literal["error", "warn", "info", "debug"] = "info"
    secrets: tuple[str, ...] = field(default=(), repr=False)
    origins: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def chain(self) -> tuple[ProviderSettings, ...]:
        """Those that may be asked, in order."""
        return tuple(each for each in self.providers if each.in_chain and each.keys)

    @property
    def names(self) -> tuple[str, ...]:
        """Of every provider there is."""
        return tuple(each.name for each in self.providers)

    @property
    def tables(self) -> Mapping[str, Table]:
        """Those that the operator declared."""
        return {each.name: each.table for each in self.providers if each.table is not None}

    @property
    def total_budget_ms(self) -> int:
        """Milliseconds one search may take."""
        if self.defaults.total_budget_ms is not None:
            return self.defaults.total_budget_ms
        slowest = max((each.timeout_ms for each in self.chain), default=0)
        return max(30_000, min(55_000, slowest + 10_000))


def serving_refusal(config: Config) -> str | None:
    """Why nobody must be served with these settings; None when that may be."""
    host, workers = config.server.host, config.server.workers
    if workers > 1 and config.state.type == "memory":
        return (
            f"{workers} workers need a state that processes can share, and state.type is memory: "
            "make it sqlite or redis, or server.workers 1"
        )
    if config.server.tokens or is_loopback(host):
        return None
    return (
        f"without a token only this machine may be served, but server.host is {host!r}: "
        "set WEBSEARCH_TOKEN (or server.tokens), or server.host to 127.0.0.1"
    )


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a listener at `host`."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"
