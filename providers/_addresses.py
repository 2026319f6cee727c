"""Spellings of addresses: what an operator writes, what we call, what of it must never be shown. Pure."""

from __future__ import annotations

import base64
import ipaddress
import re
from urllib.parse import unquote, urlsplit, urlunsplit

_LABELS = re.compile(r"[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?(?:\.[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?)*\.?", re.IGNORECASE)


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
    text = text.strip()
    if not text.isprintable() or " " in text or re.match(r"[a-z][a-z0-9+.-]*:/(?!/)", text, re.IGNORECASE):
        return None
    try:
        parts = urlsplit(_with_scheme(text))
        host, port = parts.hostname, parts.port
    except ValueError:
        return None
    if parts.scheme not in ("http", "https") or not host or port == 0 or not is_host(host):
        return None
    return urlunsplit((parts.scheme, parts.netloc, parts.path, "", ""))


def _with_scheme(text: str) -> str:
    return text if "://" in text else f"http://{text.removeprefix('//')}"


def endpoint(base: str, path: str) -> str:
    """`base` with `path` at its end, without user, password, query and fragment.

    A base may be spelled with or without any leading part of that path, or a trailing slash.
    """
    given = urlsplit(base)
    wanted, have = ([part for part in each.split("/") if part] for each in (path, given.path))
    for size in range(min(len(wanted), len(have)), 0, -1):
        if have[-size:] == wanted[:size]:
            have = have[:-size]
            break
    host = given.netloc.rpartition("@")[2]
    return urlunsplit((given.scheme, host, "/" + "/".join([*have, *wanted]), "", ""))


def basic_auth(address: str) -> dict[str, str]:
    """The `Authorization` header for an address written as `https://user:password@host`; {} for any other."""
    given = urlsplit(address)
    if given.username is None and given.password is None:
        return {}
    pair = f"{unquote(given.username or '')}:{unquote(given.password or '')}"
    return {"Authorization": "Basic " + base64.b64encode(pair.encode()).decode()}


def secrets(address: str) -> tuple[str, ...]:
    """Everything in an address that must never be shown, as it is written and as it is sent."""
    try:
        parts = urlsplit(_with_scheme(address.strip()))
        userinfo, password = parts.netloc.rpartition("@")[0], parts.password or ""
    except ValueError:
        return (address,)
    found = (userinfo, unquote(userinfo), password, unquote(password), parts.query, parts.fragment)
    return tuple(dict.fromkeys(each for each in found if each))
