"""Dialects that many vendors share: waiting times, marked-up text, dates, hosts. Pure functions."""

from __future__ import annotations

import base64
import html
import json
import re
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from urllib.parse import quote, urlsplit

from providers._words import Result

MAX_URL = 2048
MAX_TITLE = 300
URL_DROPPED = "a result was dropped: its URL is over 2048 characters"

# ---------------------------------------------------------------------------------------------------------------------
# waiting


_NUMBER = re.compile(r"\d{1,12}(?:\.\d{1,9})?")


def retry_after(value: object, now: float) -> float | None:
    """Seconds to wait, from a `Retry-After` in seconds, decimals or an HTTP date.

    `now` is seconds since the epoch. A value that is past, negative, endless or unreadable counts as absent: None.
    """
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return float(value) if 0 <= value < 1e12 else None
    if not isinstance(value, str):
        return None
    text = value.strip()
    if _NUMBER.fullmatch(text):
        return float(text)
    moment = http_date(text)
    if moment is None:
        return None
    seconds = moment.timestamp() - now
    return seconds if seconds >= 0 else None


def http_date(text: str) -> datetime | None:
    """The moment that an RFC 1123, RFC 850 or asctime date names; None when it names none."""
    try:
        moment = parsedate_to_datetime(text)
        # asctime carries no zone; HTTP says it is GMT
        return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None


# ---------------------------------------------------------------------------------------------------------------------
# text

_TAG = re.compile(r"<(?:/?[A-Za-z][^<>]*|!--.*?--|![A-Za-z][^<>]*)>", re.DOTALL)
_BREAKING_TAG = re.compile(r"</?(?:br|p|div|li|ul|ol|tr|td|th|h[1-6]|table|blockquote)\b[^<>]*>", re.IGNORECASE)
_SPACE = re.compile(r"\s+")


def _dropped() -> dict[int, str | None]:
    table: dict[int, str | None] = {}
    for start, end in (
        (0x00AD, 0x00AD),  # soft hyphen
        (0x061C, 0x061C),  # Arabic letter mark
        (0x115F, 0x1160),  # Hangul fillers
        (0x180E, 0x180E),
        (0x200B, 0x200B),  # zero-width space
        (0x200C, 0x200F),  # joiners and direction marks
        (0x202A, 0x202E),  # embeddings and overrides
        (0x2060, 0x206F),  # word joiner, isolates, invisible operators
        (0xFEFF, 0xFEFF),
        (0xFFF9, 0xFFFB),
        (0xE0000, 0xE007F),  # tags: invisible copies of ASCII
    ):
        table |= dict.fromkeys(range(start, end + 1))
    controls = [*range(0x20), *range(0x7F, 0xA0), 0x2028, 0x2029]
    table |= dict.fromkeys(controls, " ")
    table |= dict.fromkeys(range(0xD800, 0xE000), "\ufffd")
    return table


_DROPPED = _dropped()


def one_line(text: str) -> str:
    """`text` on one line, without control, zero-width, bidi and tag characters; lone surrogates become U+FFFD."""
    return _SPACE.sub(" ", text.translate(_DROPPED)).strip()


def plain_text(value: object) -> str:
    """What a reader would see of `value`: tags gone, entities resolved once, one clean line. Not text: ""."""
    if not isinstance(value, str):
        return ""
    if "<" in value:
        value = _TAG.sub("", _BREAKING_TAG.sub(" ", value))
    if "&" in value:
        value = html.unescape(value)
    return one_line(value)


# ---------------------------------------------------------------------------------------------------------------------
# dates

_FRACTION = re.compile(r"(\.\d{6})\d+")
_ISO = re.compile(r"\d{4}-\d{2}-\d{2}")


def iso_date(value: object) -> str | None:
    """`value` as ISO 8601, exactly as the vendor wrote it where it was ISO already; None when it cannot be read."""
    if not isinstance(value, str):
        return None
    text = value.strip()
    if not text or len(text) > 64:
        return None
    if _ISO.match(text):
        try:
            datetime.fromisoformat(_FRACTION.sub(r"\1", text))
        except ValueError:
            return None
        return text.replace(" ", "T", 1)
    if "," not in text:
        return None
    moment = http_date(text)
    return moment.isoformat() if moment else None


# ---------------------------------------------------------------------------------------------------------------------
# rows


def web_url(value: object) -> str | None:
    """`value` when it is a whole http(s) address with a host and nothing that could break a line; else None."""
    if not isinstance(value, str):
        return None
    url = value.strip()
    if not url.isprintable() or " " in url or url != one_line(url):
        return None
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        return None
    return url if parts.scheme.lower() in ("http", "https") and host else None


def host_of(url: str) -> str:
    """The host of a URL that `web_url` accepted, in lower case."""
    return urlsplit(url).hostname or ""


def result(
    title: object, url: object, *, snippet: object = "", content: object = "", published: object = None
) -> Result | None:
    """One clean row, or None when it has no usable address. A title that is missing or only a number is the host."""
    address = web_url(url)
    if address is None or len(address) > MAX_URL:
        return None
    name = plain_text(title)
    if not name or name.isdigit():
        name = host_of(address)
    long = plain_text(content)
    return Result(
        title=name if len(name) <= MAX_TITLE else name[: MAX_TITLE - 1].rstrip() + "…",
        url=address,
        snippet="" if long else plain_text(snippet),
        content=long,
        published=iso_date(published),
    )


def rows(items: Sequence[object], read: Callable[[dict[str, object]], Result | None]) -> tuple[Result, ...] | None:
    """The rows that can be used, in order; a bad one costs itself.

    None when there were rows and none could be used: that is no honest "nothing found".
    """
    kept = tuple(row for item in items if isinstance(item, dict) and (row := read(item)) is not None)
    return None if items and not kept else kept


def member(value: object, *path: str) -> object:
    """What stands at `path` inside nested objects; None when anything on the way is missing or no object."""
    for name in path:
        if not isinstance(value, dict):
            return None
        value = value.get(name)
    return value


# ---------------------------------------------------------------------------------------------------------------------
# secrets

_PART = 8


def spellings(secrets: Iterable[str]) -> tuple[str, ...]:
    """Each secret in the forms in which a vendor may echo it: plain, percent-encoded, JSON-escaped, base64."""
    forms: dict[str, None] = {}
    for secret in secrets:
        if not secret:
            continue
        raw = secret.encode("utf-8", "replace")
        for form in (
            secret,
            quote(secret, safe=""),
            json.dumps(secret)[1:-1],
            base64.b64encode(raw).decode().rstrip("="),
            base64.urlsafe_b64encode(raw).decode().rstrip("="),
        ):
            forms[form] = None
    return tuple(sorted(forms, key=len, reverse=True))


def redact(text: str, secret_forms: Sequence[str]) -> str:
    """`text` with every secret, and every piece of one that is eight characters or longer, replaced by `***`."""
    for form in secret_forms:
        text = text.replace(form, "***")
        for start in range(len(form) - _PART):
            end = start + _PART
            while form[start:end] in text and end < len(form):
                end += 1
            if end > start + _PART or form[start:end] in text:
                text = text.replace(form[start : end if form[start:end] in text else end - 1], "***")
    return text
