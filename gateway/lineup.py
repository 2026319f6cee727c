"""Who may be asked, in which order, with which settings: the vendors' defaults with the operator's changes on top."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from gateway import accounts, credentials
from gateway.credentials import Variables
from gateway.declared import MEMBER, Tables, Vendors, vendors
from gateway.settings import Defaults, Network, ProviderSettings, StateSettings
from providers import HTTPProvider, find
from providers._budgets import budget, is_zone
from providers._sections import (
    MOST,
    Findings,
    Found,
    Kind,
    Section,
    Unfit,
    choice,
    did_you_mean,
    flag,
    line,
    number,
    printable_name,
    text,
    whole,
)
from providers._words import Budget, Option

QUOTA_RETRY_S = 21600.0


@dataclass(frozen=True, slots=True)
class Tuning:
    """What the file says about one provider; None: nothing."""

    budget: Budget
    options: Mapping[str, str | bool | int]
    enabled: bool = True
    base_url: str | None = field(default=None, repr=False)
    timeout_ms: int | None = None
    proxy: str | None = field(default=None, repr=False)
    quota_retry_s: float = QUOTA_RETRY_S
    interval_ms: int | None = None
    cooldown_max_s: float | None = None
    vendor_usage_every_s: float = 0.0


def credential_names(tables: Tables = MappingProxyType({})) -> tuple[str, ...]:
    """Every variable that some provider's key or address may stand in, those of `tables` among them."""
    classes = vendors(tables).values()
    found = [name for each in classes for name in (each.credential, each.shared_credential, each.address_variable)]
    return tuple(dict.fromkeys(name for name in found if name))


def read(
    written: object, tables: Tables, variables: Variables, network: Network, defaults: Defaults, state: StateSettings
) -> tuple[ProviderSettings, ...]:
    """Every provider there is, those of the chain first and in its order.

    `written` is the file's `providers`, and `tables` are those that it declares; logins lie beside the `state`. A time
    limit is the provider's own, else what its class declares, else `defaults.timeout_ms`.
    """
    findings = variables.findings
    known = vendors(tables)
    tunings = _tunings(written, known, findings)
    order = _order(written, tunings, known, variables)
    listed = order if order is not None else ()
    found = {
        name: _settings(vendor, tunings.get(name), name in listed, variables, network, defaults, state)
        for name, vendor in known.items()
    }
    chain = order if order is not None else _built_in(found, known)
    rest = (name for name in found if name not in chain)
    return tuple(replace(found[name], in_chain=name in chain, table=tables.get(name)) for name in (*chain, *rest))


def _built_in(found: Mapping[str, ProviderSettings], known: Vendors) -> tuple[str, ...]:
    return tuple(
        name
        for joins in ("built_in", "last_resort")
        for name, settings in found.items()
        if settings.keys and known[name].joins == joins
    )


# ---------------------------------------------------------------------------------------------------------------------
# names and order


def _order(
    written: object, tunings: Mapping[str, Tuning], known: Vendors, variables: Variables
) -> tuple[str, ...] | None:
    """The names that the operator listed; None when he listed none and the built-in order holds."""
    findings = variables.findings
    variable = variables.plain("WEBSEARCH_PROVIDERS")
    if variable is None:
        findings.origins["providers"] = "default" if written is None else "file"
        return None if written is None else tuple(name for name, tuning in tunings.items() if tuning.enabled)
    findings.origins["providers"] = variable.origin
    names: dict[str, None] = {}
    written_names = [name for name in re.split(r"[,，;；\s]+", variable.value) if name]
    if not written_names:
        findings.wrong(variable.place, "names nobody")
    for name in written_names:
        if not _is_known(name, variable.place, known, findings):
            continue
        if name in names:
            findings.wrong(variable.place, f"names '{name}' more than once")
        elif name in tunings and not tunings[name].enabled:
            findings.warn(variable.place, f"names '{name}', which the file switches off: it is on")
        names[name] = None
    return tuple(names)


def _is_known(name: str, place: str, known: Vendors, findings: Findings) -> bool:
    if name in known:
        return True
    hint = did_you_mean(name, known) or ""
    valid = ", ".join(known)
    findings.wrong(place, f"no provider is called {printable_name(name)}{hint or ';'} valid names: {valid}")
    return False


def _tunings(written: object, known: Vendors, findings: Findings) -> dict[str, Tuning]:
    if written is not None and not isinstance(written, list):
        findings.wrong("providers", "must be a list of objects, each with a name")
        return {}
    found: dict[str, Tuning] = {}
    for index, item in enumerate(written if isinstance(written, list) else []):
        name = item.get("name") if isinstance(item, dict) else None
        named = name if isinstance(name, str) and name in known else None
        section = Section(f"providers[{named or index}]", item, findings)
        if isinstance(item, dict):
            # (what is wrong with the name of a declared one has been told)
            if section.take("name", text, "") and named is None and not section.names(MEMBER):
                _is_known(str(name), section.at("name"), known, findings)
            elif not name:
                findings.wrong(section.at("name"), "is missing")
        tuning = _tuning(section, known[named] if named else None)
        if named in found:
            findings.wrong(section.place, "is listed more than once")
        elif named:
            found[named] = tuning
    return found


# ---------------------------------------------------------------------------------------------------------------------
# what the file says


def _tuning(section: Section, vendor: type[HTTPProvider] | None) -> Tuning:
    several = vendor is not None and vendor.keys_are_addresses
    tuning = Tuning(
        budget=budget(section, vendor.budget if vendor else Budget("monthly", 0)),
        options=_options(section, vendor),
        enabled=section.take("enabled", flag, True),
        base_url=section.take("base_url", text if several else _address(section, "base_url"), None),
        timeout_ms=section.take("timeout_ms", whole(1), None),
        proxy=section.take("proxy", _proxy(section), None),
        quota_retry_s=section.take("quota_retry_s", number, QUOTA_RETRY_S),
        interval_ms=_interval_ms(section),
        cooldown_max_s=section.take("cooldown_max_s", number, None),
        vendor_usage_every_s=section.take("vendor_usage_every_s", _usage_every_s(section, vendor), 0.0),
    )
    section.raw(MEMBER)
    section.close()
    return tuning


@functools.cache
def _untuned(name: str) -> tuple[Tuning, Mapping[str, str]]:
    """What holds for a built-in provider of whom the file says nothing, and where that comes from: for nearly all."""
    findings = Findings()
    return _tuning(Section(f"providers[{name}]", None, findings), find(name)), findings.origins


def _address(section: Section, name: str) -> Kind[str | None]:
    def kind(value: object) -> str | None:
        return credentials.read_address(text(value), section.at(name), section.findings)

    return kind


def _proxy(section: Section) -> Kind[str | None]:
    def kind(value: object) -> str | None:
        return credentials.proxy_address(text(value), section.at("proxy"), section.findings)

    return kind


def _interval_ms(section: Section) -> int | None:
    """Spacing as the operator wants it, the slower of the two ways to say it; None when he says nothing."""
    qps = section.take("local_qps", _per_second, None)
    spacing = section.take("min_interval_ms", whole(0), None)
    if qps is None and spacing is None:
        return None
    section.findings.origins[section.at("min_interval_ms")] = "file"
    return max(math.ceil(1000 / qps) if qps else 0, spacing or 0)


def _usage_every_s(section: Section, vendor: type[HTTPProvider] | None) -> Kind[float]:
    def kind(value: object) -> float:
        every_s = number(value)
        if not every_s or vendor is None:
            return every_s
        if vendor.usage_every_s is None:
            place = section.at("vendor_usage_every_s")
            section.findings.warn(place, f"is not used: {vendor.name} has no endpoint that tells what is left")
        elif every_s < vendor.usage_every_s:
            raise Unfit(f"must be 0 (never), or from {vendor.usage_every_s:g}: the vendor lets nobody ask more often")
        return every_s

    return kind


def _per_second(value: object) -> float | None:
    qps = number(value)
    if 0 < qps < 0.001:
        raise Unfit("must be 0 (off), or from 0.001 a second")
    return qps


def _local_zone(variables: Variables) -> str | None:
    """The zone that `TZ` names; None where it names none, which leaves the machine's own."""
    found = variables.plain("TZ")
    name = found.value.removeprefix(":") if found else ""
    return name if is_zone(name) else None


def _options(parent: Section, vendor: type[HTTPProvider] | None) -> dict[str, str | bool | int]:
    if vendor is None:
        parent.raw("options")
        return {}
    section = parent.section("options")
    found = {name: section.take(name, _option(option), option.default) for name, option in vendor.options.items()}
    section.close()
    return {name: value for name, value in found.items() if value is not None}


def _option(option: Option) -> Kind[str | bool | int | None]:
    if option.choices:
        return choice(*option.choices)
    if option.kind is bool:
        return flag
    if option.pattern is not None:
        return _fitting(option.pattern, option.about)
    return whole(0, MOST) if option.kind is int else line


def _fitting(pattern: str, about: str) -> Kind[str]:
    def kind(value: object) -> str:
        if re.fullmatch(pattern, written := line(value)):
            return written
        raise Unfit(f"must be as said of it: {about}")

    return kind


# ---------------------------------------------------------------------------------------------------------------------
# one provider


def _settings(
    vendor: type[HTTPProvider],
    tuning: Tuning | None,
    listed: bool,
    variables: Variables,
    network: Network,
    defaults: Defaults,
    state: StateSettings,
) -> ProviderSettings:
    findings = variables.findings
    if tuning is None:
        # (a declared one is in the file)
        tuning, origins = _untuned(vendor.name)
        findings.origins |= origins
    keys, credential_env = _keys(vendor, tuning, listed, variables)
    base_url, address = (
        (None, None) if vendor.keys_are_addresses else _addresses(vendor, tuning, credential_env, variables)
    )
    login = None
    if vendor.authority is not None:
        login = accounts.find(vendor, accounts.file_of(vendor.name, state), base_url or address, findings)
        keys = (*login.keys, *keys)
    for name, option in vendor.options.items():
        if option.required and listed and keys and name not in tuning.options:
            findings.warn(f"providers[{vendor.name}].options.{name}", f"is not set: {option.about}")
    budget = tuning.budget
    if budget.type in ("monthly", "daily") and budget.timezone is None and (zone := _local_zone(variables)):
        budget = replace(budget, timezone=zone)
    timeout_ms = tuning.timeout_ms or defaults.timeout_ms
    if tuning.timeout_ms is None and vendor.timeout_s is not None:
        timeout_ms = round(vendor.timeout_s * 1000)
    elif tuning.timeout_ms is None:
        findings.origins[f"providers[{vendor.name}].timeout_ms"] = findings.origins["defaults.timeout_ms"]
    if tuning.proxy is None:
        findings.origins[f"providers[{vendor.name}].proxy"] = findings.origins["network.proxy"]
    cooldown_max_s = tuning.cooldown_max_s
    if cooldown_max_s is None and (cooldown_max_s := vendor.rest_max_s) is None:
        cooldown_max_s = defaults.cooldown_max_s
        findings.origins[f"providers[{vendor.name}].cooldown_max_s"] = findings.origins["defaults.cooldown_max_s"]

    def proxy_for(target: str) -> str | None:
        return tuning.proxy or network.proxy_for(target)

    return ProviderSettings(
        name=vendor.name,
        in_chain=listed,
        keys=keys,
        credential_env=credential_env,
        timeout_ms=timeout_ms,
        budget=budget,
        quota_retry_s=tuning.quota_retry_s,
        interval_ms=vendor.min_interval_ms if tuning.interval_ms is None else tuning.interval_ms,
        cooldown_max_s=cooldown_max_s,
        vendor_usage_every_s=tuning.vendor_usage_every_s,
        base_url=base_url,
        address=address,
        proxy=proxy_for(keys[0] if vendor.keys_are_addresses and keys else base_url or address or vendor.home),
        proxies={key: proxy_for(key) for key in keys} if vendor.keys_are_addresses else {},
        options=tuning.options,
        account=login.file if login else None,
        login=login.state if login else "",
    )


def _keys(
    vendor: type[HTTPProvider], tuning: Tuning, listed: bool, variables: Variables
) -> tuple[tuple[str, ...], str | None]:
    """The keys of a provider and the variable that they stand in, or would have to stand in."""
    findings = variables.findings
    if vendor.credential is None:
        return ("",), None
    found = variables.secret(vendor.credential)
    if vendor.keys_are_addresses:
        place = f"providers[{vendor.name}].base_url"
        if tuning.base_url is not None:
            if found is not None:
                winner, loser = (found.place, place) if found.origin != "file" else (place, found.place)
                findings.warn(loser, f"is not used: {winner} is set too")
            if found is None or found.origin == "file":
                found = Found(tuning.base_url, place, "file")
        return credentials.several_addresses(found, findings), vendor.credential
    shared = variables.secret(vendor.shared_credential) if vendor.shared_credential else None
    if shared is not None and found is None and listed:
        return credentials.keys(shared, findings), vendor.shared_credential
    if shared is not None:
        # other programs use this variable too: that it is set is no wish to pay for our searches with it
        findings.hide(shared.value)
    return credentials.keys(found, findings), vendor.credential


def _addresses(
    vendor: type[HTTPProvider], tuning: Tuning, credential_env: str | None, variables: Variables
) -> tuple[str | None, str | None]:
    """The provider's base URL and the value of its address variable; of the two only the one that counts."""
    findings = variables.findings
    if vendor.address_variable is None or (found := variables.secret(vendor.address_variable)) is None:
        return tuning.base_url, None
    address = credentials.read_address(found.value, found.place, findings)
    if credential_env is not None and credential_env == vendor.shared_credential:
        # the shared key is the vendor's own: a relay must not get to see it
        findings.warn(found.place, f"is not used with {credential_env}; it needs {vendor.credential}")
        return tuning.base_url, None
    if tuning.base_url is not None:
        place = f"providers[{vendor.name}].base_url"
        if found.origin != "file":
            findings.warn(place, f"is not used: {found.place} is set too")
            return None, address
        findings.warn(found.place, f"is not used: {place} is set too")
        return tuning.base_url, None
    return None, address
