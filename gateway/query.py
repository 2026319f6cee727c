"""A caller's arguments become a query: lenient where the meaning is clear, one plain complaint where it is not."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gateway import operators
from gateway.domains import normal_host
from providers._cutting import cut
from providers._sections import did_you_mean
from providers._words import FRESHNESS, Freshness, Query

LONGEST_QUERY = 10_000
"""Characters; more is no question but a document, and an argument error."""

KEPT_QUERY = 400
"""Characters that are searched for; the rest is cut off with a note."""

MOST_RESULTS = 20
DEFAULT_RESULTS = 8
MOST_PAGES = 5
MOST_DOMAINS = 50

_SHOWN = 60
_NUMBER = re.compile(r"[+-]?[0-9]{1,400}(?:\.[0-9]{0,400})?")
_BETWEEN_HOSTS = re.compile(r"[\s,;，、；\"'“”]+")
_YES = frozenset({"true", "1", "yes", "on"})
_NO = frozenset({"false", "0", "no", "off"})


class ArgumentError(ValueError):
    """The caller's arguments make no search. The text says which one, and what it may be."""


@dataclass(frozen=True, slots=True)
class Asked:
    """One call, understood. `notes` tell what was changed on the way; `provider` is asked alone when it is set."""

    query: Query
    notes: tuple[str, ...] = ()
    use_cache: bool = True
    provider: str | None = None


def read(arguments: Mapping[str, object], *, debug: bool, provider_names: Collection[str]) -> Asked:
    """Understand the arguments of `web_search`. Unknown ones are ignored. Raises ArgumentError and nothing else.

    `provider` counts only with `debug`; it must be one of `provider_names`.
    """
    notes: list[str] = []
    asked = operators.take_out(_text(arguments.get("query")))
    include = _hosts(*_named(arguments, "include_domains", "allowed_domains"), asked.include)
    exclude = _hosts(*_named(arguments, "exclude_domains", "blocked_domains"), asked.exclude)
    if both := sorted(set(include) & set(exclude)):
        raise ArgumentError(f"include_domains and exclude_domains both name {_shown(both[0])}")
    count = _number(*_named(arguments, "max_results", "count"), DEFAULT_RESULTS, 1, MOST_RESULTS, notes)
    pages = _number("include_content", arguments.get("include_content"), 0, 0, MOST_PAGES, notes)
    freshness = _freshness(arguments.get("freshness"))
    use_cache = _switch("use_cache", arguments.get("use_cache"), True)
    provider = _provider(arguments.get("provider"), provider_names) if debug else None
    # a lone character may carry hundreds of marks: then there is no whole character to end at
    words = cut(asked.words, KEPT_QUERY) or asked.words[:KEPT_QUERY]
    if words != asked.words:
        notes.insert(0, f"the query was cut to {len(words)} of its {len(asked.words)} characters")
    return Asked(Query(words, count, freshness, include, exclude, pages), tuple(notes), use_cache, provider)


def input_schema(*, debug: bool, provider_names: Sequence[str]) -> dict[str, Any]:
    """What the tool advertises: one flat object that every host's validator understands.

    It names the forms to prefer; `read` takes more.
    """
    properties: dict[str, Any] = {
        "query": {
            "type": "string",
            "description": "What to search for, in a few words or one question. Quoted phrases and site:host work.",
        },
        "max_results": {
            "type": "integer",
            "minimum": 1,
            "maximum": MOST_RESULTS,
            "default": DEFAULT_RESULTS,
            "description": "How many results at most.",
        },
        "freshness": {
            "type": "string",
            "enum": list(FRESHNESS),
            "description": "Only pages published within the last day, week, month or year. Leave it out unless recency "
            "is what was asked for: it hides pages whose date is unknown, most documentation among them.",
        },
        "include_domains": {
            "type": "array",
            "items": {"type": "string"},
            "maxItems": MOST_DOMAINS,
            "description": "Only results from these hosts and their subdomains, for example docs.python.org.",
        },
        "exclude_domains": {
            "type": "array",
            "items": {"type": "string"},
            "maxItems": MOST_DOMAINS,
            "description": "No results from these hosts and their subdomains.",
        },
        "include_content": {
            "type": "integer",
            "minimum": 0,
            "maximum": MOST_PAGES,
            "default": 0,
            "description": "Page text of this many top results. Not available yet: a note says so.",
        },
        "use_cache": {
            "type": "boolean",
            "default": True,
            "description": "False searches anew even if the same question was answered a short while ago.",
        },
    }
    if debug and provider_names:  # some validators refuse an empty enum
        properties["provider"] = {
            "type": "string",
            "enum": list(provider_names),
            "description": "For debugging: ask this provider alone, even if it rests.",
        }
    return {"type": "object", "properties": properties, "required": ["query"]}


def _named(arguments: Mapping[str, object], name: str, alias: str) -> tuple[str, object]:
    """The name under which the caller gave an argument, and its value."""
    value, other = arguments.get(name), arguments.get(alias)
    return (alias, other) if _absent(value) and other is not None else (name, value)


def _absent(value: object) -> bool:
    """Whether hosts and models write this for "not given"."""
    if isinstance(value, list | tuple):
        return all(each is None or (isinstance(each, str) and not each.strip()) for each in value)
    return value is None or (isinstance(value, str) and not value.strip())


def _text(value: object) -> str:
    if value is None:
        raise ArgumentError("query is missing")
    if not isinstance(value, str):
        raise ArgumentError(f"query must be a string, got {_shown(value)}")
    text = value.strip()
    if len(text) > LONGEST_QUERY:
        raise ArgumentError(f"query must be at most {LONGEST_QUERY} characters long, got {len(text)}")
    text = operators.clean(text)
    if not text:
        raise ArgumentError("query must not be blank")
    return text


def _number(name: str, value: object, default: int, least: int, most: int, notes: list[str]) -> int:
    if _absent(value) and not isinstance(value, list | tuple):
        return default
    number: float | None = None
    if isinstance(value, str):
        number = float(value) if _NUMBER.fullmatch(value.strip()) else None
    elif (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and (isinstance(value, int) or math.isfinite(value))
    ):
        number = value
    if number is not None and number > most:
        notes.append(f"{name} was lowered to {most}, the most there can be")
        return most
    if number is not None and number < least:
        notes.append(f"{name} was raised to {least}, the least there can be")
        return least
    if number is None or number != int(number):
        raise ArgumentError(f"{name} must be a number from {least} to {most}, got {_shown(value)}")
    return int(number)


def _freshness(value: object) -> Freshness | None:
    if value is None or (isinstance(value, str) and not value.strip()):
        return None
    for freshness in FRESHNESS:
        if isinstance(value, str) and value.strip().lower() == freshness:
            return freshness
    raise ArgumentError(f"freshness must be one of {', '.join(FRESHNESS)}, got {_shown(value)}")


def _switch(name: str, value: object, default: bool) -> bool:
    if value is None or (isinstance(value, str) and not value.strip()):
        return default
    if isinstance(value, bool):
        return value
    if isinstance(value, int | float) and value in (0, 1):
        return value == 1
    word = value.strip().lower() if isinstance(value, str) else ""
    if word in _YES or word in _NO:
        return word in _YES
    raise ArgumentError(f"{name} must be true or false, got {_shown(value)}")


def _provider(value: object, names: Collection[str]) -> str | None:
    if value is None or (isinstance(value, str) and not value.strip()):
        return None
    name = value.strip().lower() if isinstance(value, str) else ""
    if name in names:
        return name
    guess = did_you_mean(name[:_SHOWN], names) or ""
    raise ArgumentError(f"provider must be one of {', '.join(names)}, got {_shown(value)}{guess}")


def _hosts(name: str, value: object, more: Collection[str]) -> tuple[str, ...]:
    """The hosts of one list and `more`, sorted, each once."""
    hosts = set(more)
    for each in dict.fromkeys(_members(name, value)):
        host = normal_host(each)
        if host is None:
            raise ArgumentError(f"{name}: {_shown(each)} cannot be a host name")
        hosts.add(host)
    if len(hosts) > MOST_DOMAINS:
        raise ArgumentError(f"{name} must name at most {MOST_DOMAINS} hosts, got {len(hosts)}")
    return tuple(sorted(hosts))


def _members(name: str, value: object) -> list[str]:
    if isinstance(value, str):
        return _listed(value)
    if not isinstance(value, list | tuple):
        if value is None:
            return []
        raise ArgumentError(f"{name} must be a list of host names, got {_shown(value)}")
    members: list[str] = []
    for each in value:
        if isinstance(each, str):
            members += [each] if each.strip() else []
        elif each is not None:
            raise ArgumentError(f"{name} must be a list of host names, got {_shown(each)} in it")
    return members


def _listed(text: str) -> list[str]:
    """The members of a list that was written into one string: as JSON, or with anything between them."""
    if text.strip().startswith("["):
        try:
            items = json.loads(text)
        except (ValueError, RecursionError):
            items = None  # an IPv6 address begins so as well
        if isinstance(items, list) and all(isinstance(each, str) for each in items):
            return [each for each in items if each.strip()]
    return [each for each in _BETWEEN_HOSTS.split(text) if each and each.lower() != "or"]


def _shown(value: object) -> str:
    """`value` in a complaint: short, on one line, whatever it is."""
    if isinstance(value, str):
        text = operators.clean(value[: 4 * _SHOWN])
        return f"'{text}'" if len(text) <= _SHOWN - 2 else f"'{cut(text, _SHOWN - 3)}…'"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, int):
        return str(value) if abs(value) < 10**15 else "a large number"
    if isinstance(value, Mapping):
        return "an object"
    return "a list" if isinstance(value, list | tuple) else "null" if value is None else "something else"
