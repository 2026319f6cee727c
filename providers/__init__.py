"""Search vendors. Each file without a leading underscore is one vendor; this package never imports the gateway.

A vendor is a module, or a table in a JSON file.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil

from providers._declared import shipped
from providers._http import Draft, HTTPProvider
from providers._wire import Wire
from providers._words import Outcome, Query, Reply, Result, Results, Settings

__all__ = [
    "Draft",
    "HTTPProvider",
    "Outcome",
    "Query",
    "Reply",
    "Result",
    "Results",
    "Settings",
    "Wire",
    "find",
    "names",
]


@functools.cache
def _classes() -> dict[str, type[HTTPProvider]]:
    found: list[type[HTTPProvider]] = []
    for module in pkgutil.iter_modules(__path__):
        if not module.name.startswith("_"):
            members = vars(importlib.import_module(f"{__name__}.{module.name}")).values()
            found += [
                member
                for member in members
                if isinstance(member, type)
                and issubclass(member, HTTPProvider)
                and vars(member).get("name") == module.name
            ]
    for folder in __path__:
        found += shipped(folder)
    return {provider.name: provider for provider in sorted(found, key=lambda each: each.priority)}


def names() -> tuple[str, ...]:
    """Every provider there is, in the built-in order."""
    return tuple(_classes())


def find(name: str) -> type[HTTPProvider]:
    """The provider called `name`. Raises KeyError."""
    return _classes()[name]
