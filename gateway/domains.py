"""One spelling for every host, and which hosts a domain covers. Pure."""

from __future__ import annotations

import re
from functools import lru_cache
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from urllib.parse import unquote

import idna

_OPERATOR = re.compile(r"site:\s*", re.IGNORECASE)
_SCHEME = re.compile(r"https?:[/\\]*|(?:[a-z][a-z0-9+.-]*:)?[/\\]{2,}", re.IGNORECASE)
_WILDCARD = re.compile(r"\*?\.")
_AUTHORITY = re.compile(r"[^/\\?#]*")  # browsers read a backslash as a slash, so it ends the host as well
_DOTS = str.maketrans("。．｡", "...")
# Underscores, inner double hyphens and a last hyphen occur in real host names; a first one is somebody's minus sign.
_HOST = re.compile(r"(?:[a-z0-9_][a-z0-9_-]{0,62}\.)*([a-z0-9_][a-z0-9_-]{0,62})")
_LONGEST = 253


def normal_host(text: str) -> str | None:
    """The host that `text` names, however it is written; None when it names none.

    Takes a URL, `site:host`, `*.host`, `.host`, any case, a port, a trailing dot, Unicode. Gives lower-case punycode, a
    dotted IPv4 address, or an IPv6 address in brackets.
    """
    return split_host(text)[0]


def split_host(text: str) -> tuple[str | None, str]:
    """What `normal_host` gives, and what follows the host in `text`: path, query and fragment, as written."""
    text = text.strip()
    if operator := _OPERATOR.match(text):
        text = text[operator.end() :]
    host, rest = _cut_out(text)
    wildcard = _WILDCARD.match(host)
    return canonical(host[wildcard.end() :] if wildcard else host), rest


def url_host(url: str) -> str:
    """The host of a web address in the spelling of `normal_host`; in lower case when it is no proper one."""
    return _spelling(_cut_out(url)[0])


def covers(domain: str, host: str) -> bool:
    """Whether `host` is `domain` or lies below it. An address covers only itself."""
    upper, lower = _spelling(domain), _spelling(host)
    if upper == lower:
        return upper != ""
    return upper != "" and not _is_address(upper) and not _is_address(lower) and lower.endswith("." + upper)


def readable_host(host: str) -> str:
    """A canonical host in the letters that people write it with."""
    try:
        return ".".join(idna.ulabel(label) if label.startswith("xn--") else label for label in host.split("."))
    except UnicodeError:
        return host


def canonical(host: str) -> str | None:
    """A bare host, without scheme, port or wildcard, in the spelling of `normal_host`; None when it cannot be one."""
    if "%" in host and not host.startswith("["):
        host = unquote(host)
    if host.startswith("[") or host.count(":") > 1:
        return _ipv6(host)
    host = (host if host.isascii() else host.translate(_DOTS)).removesuffix(".")
    if len(host) > _LONGEST:  # before the encoding below, whose cost grows faster than its input
        return None
    if not host.isascii():
        host = _punycode(host).removesuffix(".")
    host = host.lower()  # after the encoding, which has its own rules for capitals (final sigma, sharp s)
    whole = _HOST.fullmatch(host)
    if whole is None or len(host) > _LONGEST:
        return None
    if whole[1].isdigit():  # browsers take such a host for an IPv4 address, or refuse it
        try:
            return str(IPv4Address(host))
        except AddressValueError:
            return None
    return host


def _cut_out(text: str) -> tuple[str, str]:
    """The host as it is written in `text`, and what follows the authority."""
    scheme = _SCHEME.match(text)
    start = scheme.end() if scheme else 0
    found = _AUTHORITY.match(text, start)
    end = found.end() if found else start
    host = text[start:end]
    if scheme:
        host = host.rpartition("@")[2]
    name, colon, port = host.rpartition(":")
    if colon and (":" not in name or name.endswith("]")) and (not port or (port.isascii() and port.isdigit())):
        host = name
    return host, text[end:]


def _punycode(host: str) -> str:
    """`host` by the rules browsers use, else by the older ones, which know emoji; "" when neither can."""
    try:
        mapped = idna.uts46_remap(host, std3_rules=False)
        return ".".join(label if label.isascii() else _label(label) for label in mapped.split("."))
    except UnicodeError:
        return ""


def _label(label: str) -> str:
    try:
        return idna.alabel(label).decode("ascii")
    except UnicodeError:
        return label.encode("idna").decode("ascii")


def _ipv6(host: str) -> str | None:
    try:
        address = IPv6Address(host[1:-1] if host.startswith("[") and host.endswith("]") else host)
    except AddressValueError:
        return None
    return None if address.scope_id else f"[{address.compressed}]"


@lru_cache(maxsize=1024)  # one search compares the same few hosts again and again
def _spelling(host: str) -> str:
    return canonical(host) or host.lower().removesuffix(".")


def _is_address(host: str) -> bool:
    return host.endswith("]") or host.rpartition(".")[2].isdigit()
