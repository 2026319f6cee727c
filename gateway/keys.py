"""One provider may have several keys (or addresses). A lane is one of them: what is asked, and what rests."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from gateway.policy import Tuning
from gateway.settings import ProviderSettings
from providers import HTTPProvider, Settings
from providers._words import Budget


def fingerprint(provider: str, key: str) -> str:
    """What stands for a key in the store. It cannot be turned back."""
    return hashlib.sha256(f"{provider}\0{key}".encode()).hexdigest()[:20]


@dataclass(frozen=True, slots=True)
class Lane:
    """One key of one provider. `number` counts from 1 in configured order.

    `wide` is the name under which faults of the provider rest, `narrow` that for faults of the key.
    """

    provider: str
    number: int
    key: str = field(repr=False)
    budget: Budget
    interval_ms: int
    tuning: Tuning
    wide: str
    narrow: str

    @property
    def scopes(self) -> tuple[str, ...]:
        """Every name whose rest keeps this lane from being asked."""
        return (self.narrow,) if self.wide == self.narrow else (self.wide, self.narrow)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A provider that may be asked: its settings, its lanes in order, an adapter for each way out of this network."""

    settings: ProviderSettings
    lanes: tuple[Lane, ...]
    adapters: Mapping[str | None, HTTPProvider]

    @property
    def name(self) -> str:
        return self.settings.name

    @property
    def adapter(self) -> HTTPProvider:
        """Any of the adapters: they differ in nothing but their proxy."""
        return next(iter(self.adapters.values()))

    def adapter_for(self, lane: Lane) -> HTTPProvider:
        """The adapter that goes through the lane's proxy."""
        return self.adapters[self.settings.proxy_for(lane.key)]

    @property
    def timeout_s(self) -> float:
        return self.settings.timeout_ms / 1000


def candidate(settings: ProviderSettings, cooldown_default_s: float, clock: Callable[[], float]) -> Candidate:
    """A configured provider, ready to be asked. `clock` gives seconds since the epoch."""
    vendor = settings.vendor
    adapters = {
        proxy: vendor(Settings(settings.base_url, settings.address, proxy, settings.options, settings.account), clock)
        for proxy in dict.fromkeys(settings.proxy_for(key) for key in settings.keys)
    }
    return Candidate(settings, lanes(vendor, settings, cooldown_default_s), adapters)


def lanes(vendor: type[HTTPProvider], settings: ProviderSettings, cooldown_default_s: float) -> tuple[Lane, ...]:
    """The lanes of a configured provider."""
    tuning = Tuning(
        throttle_s=cooldown_default_s,
        limited_s=vendor.rest_default_s,
        quota_retry_s=settings.quota_retry_s,
        most_s=settings.cooldown_max_s,
    )
    found = []
    for number, key in enumerate(settings.keys, 1):
        narrow = f"{vendor.name}:{fingerprint(vendor.name, key)}"
        wide = narrow if vendor.keys_are_addresses else vendor.name
        found.append(
            Lane(vendor.name, number, key, settings.budget, settings.interval_ms, tuning, wide=wide, narrow=narrow)
        )
    return tuple(found)
