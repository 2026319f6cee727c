"""Spellings of addresses, for those who configure: what may be shown, who goes past the proxy. Pure."""

from __future__ import annotations

import functools
import ipaddress
import re
from collections.abc import Sequence
from urllib.parse import parse_qsl, quote, unquote, urlsplit, urlunsplit

from providers._addresses import cleaned, is_host, secrets

__all__ = ["cleaned", "has_query", "inserted", "is_host", "is_listed", "passwords", "public", "secrets"]

_PORTS = {"http": 80, "https": 443}


def passwords(address: str) -> tuple[str, ...]:
    """What of an address opens a door, as it is written and as it is sent; not the user's name, which may be a word."""
    try:
        parts = urlsplit(address)
        queried = parse_qsl(parts.query, keep_blank_values=True)
        found = [parts.password or "", unquote(parts.password or "")]
    except ValueError:
        return (address,)
    for name, value in queried:
        if "password" in name:
            found += [value, quote(value, safe="")]
    return tuple(dict.fromkeys(each for each in found if each))


def inserted(address: str) -> tuple[str, ...]:
    """All that of an address is somebody's own, for words in which it may be repeated: passwords, the user's name, and
    what options are set to, but for bare numbers.
    """
    found = passwords(address)
    if found == (address,):
        return found
    parts = urlsplit(address)
    user = parts.username or ""
    values = [value for _, value in parse_qsl(parts.query) if not value.isdecimal()]
    return tuple(dict.fromkeys(each for each in (*found, user, unquote(user), *values) if each))


def has_query(text: str) -> bool:
    """Whether something follows the path of an address."""
    return "?" in text or "#" in text


def public(address: str) -> str:
    """`address` as it may be shown: without user and password, query and fragment."""
    parts = urlsplit(address)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def is_listed(address: str, no_proxy: Sequence[str]) -> bool:
    """Whether `no_proxy` covers the host of `address`.

    As is the custom: `*` is everybody; `example.com`, `.example.com` and `*.example.com` are that host and all below
    it; `host:port` is that port only; `10.0.0.0/8` covers addresses that are written as numbers.
    """
    parts = urlsplit(address)
    host = (parts.hostname or "").rstrip(".")
    port = parts.port or _PORTS.get(parts.scheme)
    return any(_covers(entry.strip().lower(), host, port) for entry in no_proxy)


def _covers(entry: str, host: str, port: int | None) -> bool:
    if entry == "*":
        return True
    if (network := _network(entry)) is not None:
        address = _numbers(host)
        return address is not None and address in network
    name, _, wanted = entry.rpartition(":") if re.search(r":\d+$", entry) else (entry, "", "")
    name = name.strip("[]").removeprefix("*").strip(".")
    if not name or (wanted and int(wanted) != port):
        return False
    return host == name or host.endswith(f".{name}")


# (every start asks the same few entries about every vendor's host)
@functools.lru_cache(maxsize=256)
def _network(entry: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    try:
        return ipaddress.ip_network(entry.strip("[]"), strict=False)
    except ValueError:
        return None


@functools.lru_cache(maxsize=256)
def _numbers(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None
