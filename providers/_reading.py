"""Dialects that many vendors share: waiting times, marked-up text, dates, hosts. Pure functions."""

from __future__ import annotations

import base64
import functools
import html
import json
import re
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from urllib.parse import quote, quote_plus, urlsplit

from providers._cutting import cut
from providers._words import Result

MAX_TITLE = 300

# ---------------------------------------------------------------------------------------------------------------------
# waiting


_NUMBER = re.compile(r"[0-9]{1,12}(?:\.[0-9]{1,9})?")


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


_WAIT_NAMES = ("retry_after_seconds", "retry_after", "retryAfter")
_MOMENT_NAMES = ("reset_at", "retryAfterDate")
_WAIT_WORDS = re.compile(r"\bretry after (\d{1,9}(?:\.\d{1,3})?) ?s(?:ec(?:ond)?s?)?\b", re.IGNORECASE)


def told_wait(body: object, message: str, now: float) -> float | None:
    """Seconds to wait, from the names and words that error bodies use where the header says nothing.

    A moment (`reset_at`) is ISO 8601, a date in words, or seconds since the epoch, as `now` is.
    """
    for place in (body, member(body, "error"), member(body, "detail")):
        for name in _WAIT_NAMES:
            if (told := retry_after(member(place, name), now)) is not None:
                return told
        for name in _MOMENT_NAMES:
            if (moment := _moment(member(place, name))) is not None and moment >= now:
                return moment - now
    found = _WAIT_WORDS.search(message)
    return float(found[1]) if found else None


def _moment(value: object) -> float | None:
    if isinstance(value, int | float) and not isinstance(value, bool) and 1e9 < value < 1e11:
        return float(value)
    date = iso_date(value)
    if date is None:
        return None
    moment = datetime.fromisoformat(date)
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def http_date(text: str) -> datetime | None:
    """The moment that an RFC 1123, RFC 850 or asctime date names; None when it names none."""
    moment = _worded_date(text)
    # asctime carries no zone; HTTP says it is GMT
    return moment.replace(tzinfo=UTC) if moment and not moment.tzinfo else moment


_WORDED = re.compile(
    r"(?:[A-Za-z]{3,9}, ?)?\d{1,2}[ -][A-Za-z]{3}[ -](?:\d{2}|\d{4}) \d{1,2}:\d{2}(?::\d{2})?"
    r"(?: ?[A-Z]{1,5}| ?[+-]\d{4})?"
    r"|[A-Za-z]{3} [A-Za-z]{3} {1,2}\d{1,2} \d{2}:\d{2}:\d{2} \d{4}",
    re.ASCII,
)


def _worded_date(text: str) -> datetime | None:
    # the parser alone would read "Apr 12, 2026, 10:00 PM" as ten in the morning
    if not _WORDED.fullmatch(text):
        return None
    try:
        return parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None


# ---------------------------------------------------------------------------------------------------------------------
# text

MAX_TEXT = 100_000
"""Characters of one text that are looked at; what is beyond them no answer has room for."""

_TAG = re.compile(r"<[/!]?[A-Za-z][^<>]*>")
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
        (0x3164, 0x3164),  # Hangul fillers again
        (0xFFA0, 0xFFA0),
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


def _without_comments(text: str) -> str:
    """`text` without comments; one that never ends stays. (A pattern would look for each end from every beginning.)"""
    kept, at = [], 0
    while (begins := text.find("<!--", at)) >= 0 and (ends := text.find("-->", begins + 4)) >= 0:
        kept.append(text[at:begins])
        at = ends + 3
    return "".join((*kept, text[at:]))


def plain_text(value: object) -> str:
    """What a reader would see of `value`: tags gone, entities resolved once, one clean line. Not text: ""."""
    if not isinstance(value, str):
        return ""
    value = value[:MAX_TEXT]
    if "<" in value:
        value = _TAG.sub("", _BREAKING_TAG.sub(" ", _without_comments(value)))
    if "&" in value:
        value = html.unescape(value)
    return one_line(value)


# ---------------------------------------------------------------------------------------------------------------------
# dates

_ISO = re.compile(
    r"\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d{1,12})?)?(?:Z|[+-]\d{2}:?\d{2})?)?", re.ASCII | re.IGNORECASE
)


def iso_date(value: object) -> str | None:
    """`value` as ISO 8601, exactly as the vendor wrote it where it was ISO already; None when it cannot be read."""
    if not isinstance(value, str):
        return None
    text = value.strip()
    if not text or len(text) > 64:
        return None
    if _ISO.fullmatch(text):
        text = text.upper().replace(" ", "T")
        try:
            datetime.fromisoformat(text)
        except ValueError:
            return None
        return text
    moment = _worded_date(text)
    return moment.isoformat() if moment else None


# ---------------------------------------------------------------------------------------------------------------------
# rows


def web_url(value: object) -> str | None:
    """`value` when it is a whole http(s) address with a host and nothing that could break a line; else None."""
    if not isinstance(value, str):
        return None
    url = value.strip().replace(" ", "%20")
    if not url.isprintable() or " " in url or url != one_line(url):
        return None
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        return None
    return url if parts.scheme.lower() in ("http", "https") and host and "%" not in host else None


def host_of(url: str) -> str:
    """The host of a URL that `web_url` accepted, in lower case."""
    return urlsplit(url).hostname or ""


def result(
    title: object, url: object, *, snippet: object = "", content: object = "", published: object = None
) -> Result | None:
    """One clean row, or None when it has no usable address. A title that is missing or only a number is the host."""
    address = web_url(url)
    if address is None:
        return None
    name = plain_text(title)
    if not name or name.isdigit():
        name = host_of(address)
    long = plain_text(content)
    return Result(
        title=name if len(name) <= MAX_TITLE else cut(name, MAX_TITLE - 1) + "…",
        url=address,
        snippet="" if long else plain_text(snippet),
        content=long,
        published=iso_date(published),
    )


MOST_ROWS = 300
"""Rows that are read of one reply. No vendor has so many for a search; a broken one must not hold up everybody."""


def rows(items: object, read: Callable[[dict[str, object]], Result | None]) -> tuple[Result, ...] | None:
    """The rows that can be used, in order; a bad one costs itself.

    None when `items` is no list, or when there were rows and none could be used: that is no honest "nothing found".
    """
    if not isinstance(items, list):
        return None
    kept = tuple(row for item in items[:MOST_ROWS] if isinstance(item, dict) and (row := read(item)) is not None)
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
_FOLD = str.maketrans("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz")


def spellings(secrets: Iterable[str]) -> tuple[str, ...]:
    """Each secret in the forms in which a vendor may echo it: plain, percent-encoded, as in JSON or HTML, base64."""
    return _spellings(tuple(secrets))


@functools.lru_cache(maxsize=64)  # each reply asks for the same ones
def _spellings(secrets: tuple[str, ...]) -> tuple[str, ...]:
    forms: dict[str, None] = {}
    for secret in secrets:
        if not secret:
            continue
        raw = secret.encode("utf-8", "replace")
        for form in (
            secret,
            quote(raw, safe=""),
            quote(raw),
            quote_plus(raw),
            json.dumps(secret)[1:-1],
            html.escape(secret),
            base64.b64encode(raw).decode().rstrip("="),
            base64.urlsafe_b64encode(raw).decode().rstrip("="),
        ):
            forms[form] = None
    return tuple(sorted(forms, key=len, reverse=True))


@functools.lru_cache(maxsize=64)  # each log line asks for the same ones
def _pieces(forms: tuple[str, ...]) -> dict[int, set[str]]:
    """What must not be shown, by length: every run of eight characters, and what is shorter whole."""
    pieces: dict[int, set[str]] = {}
    for form in (form.translate(_FOLD) for form in forms if form):
        size = min(len(form), _PART)
        pieces.setdefault(size, set()).update(form[at : at + size] for at in range(len(form) - size + 1))
    return pieces


def redact(text: str, secret_forms: Sequence[str]) -> str:
    """`text` with every secret, and every piece of one that is eight characters or longer, replaced by `***`.

    Upper and lower case are one: a percent-encoding may be spelled in either.
    """
    folded = text.lower() if text.isascii() else text.translate(_FOLD)  # lower() alone may change the length
    hidden: set[int] = set()
    for size, pieces in _pieces(tuple(secret_forms)).items():
        for at in range(len(folded) - size + 1):
            if folded[at : at + size] in pieces:
                hidden.update(range(at, at + size))
    if not hidden:
        return text
    return "".join(
        "***" if at in hidden and at - 1 not in hidden else "" if at in hidden else character
        for at, character in enumerate(text)
    )
