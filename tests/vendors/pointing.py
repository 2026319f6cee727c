"""The configuration that points a gateway at the played vendors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import providers
from tests.vendors.server import Played

_SPELLED = {"bocha": "sk-played-bocha", "tavily": "tvly-played-tavily", "grok": "xai-played-grok"}
"""Keys that begin as the vendor's own do."""


def _keys(name: str) -> Mapping[str, str]:
    vendor = providers.find(name)
    needs_one = vendor.credential is not None and not vendor.keys_are_addresses
    return {str(vendor.credential): _SPELLED.get(name, f"played-{name}")} if needs_one else {}


KEYS: Mapping[str, Mapping[str, str]] = {
    **{name: _keys(name) for name in providers.names()},
    "grok_relay": {"GROK_API_KEY": "sk-played-relay"},
}


def configuration(
    played: Played, chosen: Sequence[str | dict[str, Any]] = ("bocha", "tavily", "brave"), **changes: Any
) -> dict[str, Any]:
    """The content of a configuration file that points the gateway at `played`.

    `chosen` are names, or names with tuning (`{"name": "tavily", "quota": {"limit": 5}}`); `changes` replace whole
    sections. `grok_relay` is the provider grok over a relay.
    """
    credentials: dict[str, str] = {}
    chain: list[dict[str, Any]] = []
    for each in chosen:
        tuned = {"name": each} if isinstance(each, str) else dict(each)
        part = tuned["name"]
        credentials |= KEYS[part]
        if part == "searxng":
            credentials["SEARXNG_URL"] = played.address(part)
        elif part == "grok_relay":
            credentials["GROK_API_URL"] = played.address(part)
            tuned["name"] = "grok"
        else:
            tuned.setdefault("base_url", played.address(part))
        if needed := {
            name: "played" for name, option in providers.find(tuned["name"]).options.items() if option.required
        }:
            tuned["options"] = needed | tuned.get("options", {})
        chain.append(tuned)
    return {"credentials": credentials, "providers": chain, "state": {"type": "memory"}} | changes
