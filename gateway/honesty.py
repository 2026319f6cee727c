"""Who held the results to what the caller asked: for every constraint, by name, with what was dropped. Pure."""

from __future__ import annotations

from typing import Any

from gateway.filters import Kept
from providers import HTTPProvider, Query


def enforced(query: Query, adapter: HTTPProvider) -> bool:
    """Whether the vendor itself is held to the query's hosts."""
    if query.include_domains:
        return adapter.domains >= len(query.include_domains)
    return not query.exclude_domains or (adapter.domains >= 1 and adapter.leaves_out(query))


def report(query: Query, adapter: HTTPProvider, kept: Kept) -> dict[str, Any]:
    """`meta.filters`: who enforced each constraint (`provider`, `gateway`, `nobody`), how many rows were dropped."""
    told: dict[str, Any] = {}
    for name, hosts, is_told, dropped in (
        ("include_domains", query.include_domains, True, kept.dropped_include),
        ("exclude_domains", query.exclude_domains, adapter.leaves_out(query), kept.dropped_exclude),
    ):
        if hosts:
            # a row that had to be dropped proves that the vendor was not held to the list
            is_held = is_told and adapter.domains >= len(hosts) and not dropped
            told[name] = {"by": "provider" if is_held else "gateway", "dropped": dropped}
    if query.freshness:
        told["freshness"] = {"by": "provider" if adapter.enforces_freshness else "nobody", "dropped": 0}
    return told


def notes(query: Query, adapter: HTTPProvider, kept: Kept) -> tuple[str, ...]:
    """The same for readers: only what they could not guess."""
    said: list[str] = []
    if dropped := kept.dropped_include + kept.dropped_exclude:
        rows = "1 result" if dropped == 1 else f"{dropped} results"
        said.append(f"{rows} from other hosts than asked for dropped")
    if query.freshness and not adapter.enforces_freshness:
        said.append(f"{adapter.name} cannot be held to the last {query.freshness}")
    return tuple(said)
