"""Spellings of addresses: what an operator writes, what we call, what may be shown, who goes past the proxy. Pure."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence
from urllib.parse import unquote, urlsplit, urlunsplit

_LABELS = re.compile(r"[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?(?:\.[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?)*\.?", re.IGNORECASE)
_PORTS = {"http": 80, "https": 443}


def is_host(text: str) -> bool:
    """Whether `text` is a host name or an IP address (IPv6 without brackets). Underscores occur in container names."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        try:
            return len(text) <= 253 and _LABELS.fullmatch(text.encode("idna").decode()) is not None
        except UnicodeError:
            return False
    return True


def cleaned(text: str) -> str | None:
    """`text` as a whole http(s) address with a host, without query and fragment; None when it is none.

    Without a scheme it is http. User and password stay.
    """
    if not text.isprintable() or " " in text or re.match(r"[a-z][a-z0-9+.-]*:/(?!/)", text, re.IGNORECASE):
        return None
    address = text if "://" in text else f"http://{text}"
    try:
        parts = urlsplit(address)
        host, port = parts.hostname, parts.port
    except ValueError:
        return None
    if parts.scheme not in _PORTS or not host or port == 0 or not is_host(host):
        return None
    return urlunsplit((parts.scheme, parts.netloc, parts.path, "", ""))


def has_query(text: str) -> bool:
    """Whether something follows the path of an address."""
    return "?" in text or "#" in text


def public(address: str) -> str:
    """`address` as it may be shown: without user and password, query and fragment."""
    parts = urlsplit(address)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def secrets(text: str) -> tuple[str, ...]:
    """Everything in an address that must never be shown, in the forms in which it may turn up."""
    try:
        parts = urlsplit(text if "://" in text else f"http://{text}")
        userinfo, password = parts.netloc.rpartition("@")[0], parts.password or ""
    except ValueError:
        return (text,)
    pair = ":".join(unquote(part) for part in userinfo.split(":", 1))
    found = (userinfo, pair, password, unquote(password), parts.query, parts.fragment)
    return tuple(dict.fromkeys(each for each in found if each))


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
    try:
        network = ipaddress.ip_network(entry.strip("[]"), strict=False)
    except ValueError:
        pass
    else:
        try:
            return ipaddress.ip_address(host) in network
        except ValueError:
            return False
    name, _, wanted = entry.rpartition(":") if re.search(r":\d+$", entry) else (entry, "", "")
    name = name.strip("[]").removeprefix("*").strip(".")
    if not name or (wanted and int(wanted) != port):
        return False
    return host == name or host.endswith(f".{name}")
