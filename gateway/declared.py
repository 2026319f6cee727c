"""Providers that the operator's file declares as tables, beside those that are built in."""

from __future__ import annotations

import re
from collections.abc import Mapping

import providers
from providers import HTTPProvider
from providers._declared import declare
from providers._declared._tables import Table, read
from providers._reading import host_of
from providers._sections import Findings, Section

Tables = Mapping[str, Table]
Vendors = Mapping[str, type[HTTPProvider]]

MEMBER = "generic_json"
RESERVED = ("gateway",)
"""Names that chains have for something else."""

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}")


def tables(written: object, findings: Findings) -> Tables:
    """The table of each provider that `written`, the file's `providers`, declares; every mistake in one is told."""
    found: dict[str, Table] = {}
    for index, item in enumerate(written if isinstance(written, list) else ()):
        if not isinstance(item, dict) or item.get(MEMBER) is None:
            continue
        name = item.get("name")
        usable = name if isinstance(name, str) and _NAME.fullmatch(name) and name not in RESERVED else None
        place = f"providers[{usable or index}]"
        if usable in providers.names():
            findings.wrong(f"{place}.{MEMBER}", "is for a provider of your own, and this one is built in; rename it")
            continue
        if isinstance(name, str) and name and usable is None:
            words = "must be small letters, digits, - and _, at most 32"
            findings.wrong(f"{place}.name", "means something else" if name in RESERVED else words)
        table = read(Section(f"{place}.{MEMBER}", item[MEMBER], findings), usable or "")
        if table.credential in _addresses():
            findings.wrong(f"{place}.{MEMBER}.credential", "names a variable that holds an address")
        elif (owner := _owner(table)) is not None:
            words = f"is the key of {owner.title}, which would be sent to another host; give it a variable of its own"
            findings.warn(f"{place}.{MEMBER}.credential", words)
        if usable is not None:
            found.setdefault(usable, table)
    return found


def _addresses() -> set[str | None]:
    classes = [providers.find(name) for name in providers.names()]
    found = {each.address_variable for each in classes}
    return (found | {each.credential for each in classes if each.keys_are_addresses}) - {None}


def _owner(table: Table) -> type[HTTPProvider] | None:
    """The built-in vendor whose key `table` would send somewhere else."""
    for vendor in map(providers.find, providers.names()):
        if table.credential in (vendor.credential, vendor.shared_credential) and table.credential is not None:
            return None if host_of(vendor.home) == host_of(table.url) else vendor
    return None


def vendors(tables: Tables) -> Vendors:
    """Everybody there is: the built-in providers in their order, then those of `tables`."""
    built_in = {name: providers.find(name) for name in providers.names()}
    return built_in | {name: declare(name, table) for name, table in tables.items()}
