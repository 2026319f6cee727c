"""Dialects that vendors share: whatever is in the text, reading it is safe, and says no more than was there."""

from __future__ import annotations

import base64
import calendar
import html
import json
import math
import unicodedata
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from providers._reading import (
    host_of,
    http_date,
    iso_date,
    member,
    one_line,
    plain_text,
    redact,
    result,
    retry_after,
    rows,
    spellings,
    told_wait,
    web_url,
)
from providers._wire import Wire

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC).timestamp()

anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)
nasty = st.text(
    st.sampled_from(
        "ab <>&;#x/lt\"'!-\n\r\t\x00\x1b\x85\u2028\u200b\u200d\u202e\u2066\ufeff\u00ad\u3164\U000e0041\ud800é海"
    )
)
moments = st.datetimes(datetime(1970, 1, 2), datetime(2068, 12, 31)).map(
    lambda at: at.replace(microsecond=0, tzinfo=UTC)
)

# ---------------------------------------------------------------------------------------------------------------------
# waiting


@given(anything | st.from_regex(r"[-+]?[0-9]*[.,]?[0-9]*[smh]?", fullmatch=True))
def test_a_wait_is_absent_or_finite_and_not_negative(value: object) -> None:
    seconds = retry_after(value, NOW)
    assert seconds is None or (seconds >= 0 and math.isfinite(seconds))


@given(st.integers(0, 10**11))
def test_whole_seconds_are_read(seconds: int) -> None:
    assert retry_after(str(seconds), NOW) == seconds
    assert retry_after(f" {seconds} ", NOW) == seconds
    assert retry_after(seconds, NOW) == seconds


@given(st.integers(0, 10**6), st.integers(0, 999))
def test_decimals_are_read(seconds: int, thousandths: int) -> None:
    text = f"{seconds}.{thousandths:03}"
    assert retry_after(text, NOW) == float(text)
    assert retry_after(float(text), NOW) == float(text)


def spelled(at: datetime) -> list[str]:
    """One moment in the three forms that HTTP knows."""
    day, month = calendar.day_name[at.weekday()], calendar.month_abbr[at.month]
    return [
        format_datetime(at, usegmt=True),
        f"{day}, {at.day:02}-{month}-{at.year % 100:02} {at:%H:%M:%S} GMT",
        f"{day[:3]} {month} {at.day:2} {at:%H:%M:%S} {at.year}",
    ]


@given(moments)
def test_the_three_http_dates_are_one_moment(at: datetime) -> None:
    assert {http_date(text) for text in spelled(at)} == {at}


@given(st.integers(0, 10**7))
def test_a_date_ahead_is_the_seconds_until_then(seconds: int) -> None:
    for text in spelled(datetime.fromtimestamp(NOW, UTC) + timedelta(seconds=seconds)):
        assert retry_after(text, NOW) == seconds


@given(st.integers(1, 10**8))
def test_a_date_in_the_past_is_absent(seconds: int) -> None:
    for text in spelled(datetime.fromtimestamp(NOW, UTC) - timedelta(seconds=seconds)):
        assert retry_after(text, NOW) is None


@pytest.mark.parametrize(
    "value",
    [
        "-1",
        "1e3",
        "inf",
        "NaN",
        "9" * 400,
        "",
        " ",
        "1 minute",
        "30s",
        "60, 120",
        "1,5",
        "+5",
        "٣",
        "0x10",
        "Mon, 30 Nov 2026",
        "Mon, 30 Nov 2026 25:00:00 GMT",
        "Mon, 31 Nov 2026 13:00:00 GMT",
        "Mon, 30 Nov 2026 13:00:00 +9999",
        "Mon, 30 Nov 0000 13:00:00 GMT",
        "Nov 30, 2026, 1:00 PM",
        math.inf,
        math.nan,
        -0.5,
        10**400,
        True,
        None,
        [],
        {"seconds": 5},
        b"5",
    ],
)
def test_what_names_no_usable_wait_is_absent(value: object) -> None:
    assert retry_after(value, NOW) is None


def test_a_date_in_another_zone_is_read_in_that_zone() -> None:
    assert retry_after("Mon, 30 Nov 2026 14:00:30 +0200", NOW) == 30


# ---------------------------------------------------------------------------------------------------------------------
# text


def is_clean(text: str) -> bool:
    """One line without anything that a reader cannot see or that turns text around."""
    return text == text.strip() and not any(
        unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp")
        or unicodedata.bidirectional(character) in ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")
        or character in "\u200b\u200c\u200d\u200e\u200f\u061c\u2060\ufeff\u00ad\u3164"
        or 0xE0000 <= ord(character) <= 0xE007F
        for character in text
    )


@given(st.text() | nasty)
def test_one_line_is_clean_and_changes_nothing_twice(text: str) -> None:
    line = one_line(text)
    assert is_clean(line)
    assert one_line(line) == line
    assert "  " not in line


@given(st.text() | nasty)
def test_plain_text_is_clean_whatever_was_marked_up(text: str) -> None:
    assert is_clean(plain_text(text))


@given(nasty.filter(lambda text: "&" not in text and "<" not in text))
def test_plain_text_changes_nothing_twice_when_nothing_is_marked_up(text: str) -> None:
    assert plain_text(plain_text(text)) == plain_text(text) == one_line(text)


@given(st.text(st.characters(categories=["L", "N", "P", "S"], exclude_characters="\u3164\uffa0"), max_size=30))
def test_text_that_was_escaped_comes_back_as_it_was(text: str) -> None:
    assert plain_text(html.escape(text)) == one_line(text)


@given(anything)
def test_plain_text_of_anything_is_text(value: object) -> None:
    assert isinstance(plain_text(value), str)


@pytest.mark.parametrize(
    ("marked", "plain"),
    [
        ("A <strong>salt marsh</strong> isn&#x27;t a swamp", "A salt marsh isn't a swamp"),
        ("&amp;lt;b&amp;gt;", "&lt;b&gt;"),
        ("&lt;script&gt;", "<script>"),
        ("one<br>two<br/>three", "one two three"),
        ("<p>one</p><p>two</p>", "one two"),
        ("un<b>believ</b>able", "unbelievable"),
        ("a < b > c and 1<2", "a < b > c and 1<2"),
        ("x<!-- hidden <b>text</b> -->y", "xy"),
        ("tel&#x200b;ephone&#8238;", "telephone"),
        ("lone \ud800 half", "lone \ufffd half"),
        ("ig\U000e0069\U000e0067nore", "ignore"),
        ("&#xD800;&#0;", "\ufffd\ufffd"),
        ("line\r\nfeed\u2028and\x85more", "line feed and more"),
    ],
)
def test_marked_up_text_reads_as_on_a_page(marked: str, plain: str) -> None:
    assert plain_text(marked) == plain


# ---------------------------------------------------------------------------------------------------------------------
# dates


@given(anything)
def test_no_date_raises_and_what_is_read_can_be_read_again(value: object) -> None:
    date = iso_date(value)
    assert date is None or (iso_date(date) == date and datetime.fromisoformat(date))


@given(st.datetimes(timezones=st.none() | st.sampled_from([UTC])))
def test_an_iso_date_stays_as_exact_as_it_was(at: datetime) -> None:
    for text in (at.isoformat(), at.isoformat(" "), at.date().isoformat(), at.isoformat(timespec="milliseconds")):
        assert iso_date(text) == text.replace(" ", "T")


@given(moments)
def test_a_worded_date_keeps_its_moment(at: datetime) -> None:
    assert iso_date(format_datetime(at)) == iso_date(format_datetime(at, usegmt=True)) == at.isoformat()


@pytest.mark.parametrize(
    ("text", "date"),
    [
        ("2024-02-29", "2024-02-29"),
        ("2000-02-29T00:00:00Z", "2000-02-29T00:00:00Z"),
        ("2026-02-03T00:00:00.000Z", "2026-02-03T00:00:00.000Z"),
        ("2026-02-03T00:00:00.123456789Z", "2026-02-03T00:00:00.123456789Z"),
        ("2026-04-12T14:22:41", "2026-04-12T14:22:41"),
        ("2026-07-22T11:58:00+08:00", "2026-07-22T11:58:00+08:00"),
        # in the hour that summer time skips, and the one that it repeats: a written date has no such thing
        ("2026-03-29T02:30:00", "2026-03-29T02:30:00"),
        ("2026-10-25T02:30:00", "2026-10-25T02:30:00"),
        ("Tue, 17 Nov 2026 08:30:00 GMT", "2026-11-17T08:30:00+00:00"),
        ("Tue, 17 Nov 2026 08:30:00 -0500", "2026-11-17T08:30:00-05:00"),
        ("Tue, 17 Nov 2026 08:30:00", "2026-11-17T08:30:00"),
        ("2023-02-29", None),
        ("1900-02-29", None),
        ("2026-13-01", None),
        ("0000-01-01", None),
        ("2026-04-12\u202e10:00", None),
        ("2026-04-12x10:00", None),
        ("2026-04-12T25:00:00", None),
        ("April 12, 2026", None),
        ("Apr 12, 2026, 10:00 PM", None),
        ("3 days ago", None),
        ("12/04/2026", None),
        ("2026", None),
        (1796000000, None),
        ("", None),
        (None, None),
    ],
)
def test_a_date_is_read_or_left_out_and_never_guessed(text: object, date: str | None) -> None:
    assert iso_date(text) == date


# ---------------------------------------------------------------------------------------------------------------------
# rows


@given(anything | st.from_regex(r"https?://[^\s]{0,40}"))
def test_a_web_address_has_a_scheme_a_host_and_no_hidden_signs(value: object) -> None:
    url = web_url(value)
    if url is not None:
        assert url.lower().startswith(("http://", "https://"))
        assert host_of(url)
        assert is_clean(url)
        assert " " not in url
        assert web_url(url) == url


@pytest.mark.parametrize(
    "value",
    [
        "",
        "/relative",
        "//host/x",
        "host.example",
        "javascript:alert(1)",
        "ftp://host.example/",
        "http://",
        "http:///x",
        "https://[::1",
        "https://host.example:port/",
        "https://ho st.example/",
        "https://host.example/a\nb",
        "https://host.example/\u202egpj.exe",
        "https://host.example/\ud800",
        None,
        5,
    ],
)
def test_what_is_no_web_address_is_refused(value: object) -> None:
    assert web_url(value) is None


@given(anything, anything, anything, anything)
def test_a_row_is_clean_whatever_the_vendor_sent(title: object, snippet: object, content: object, date: object) -> None:
    row = result(title, "https://host.example/é", snippet=snippet, content=content, published=date)
    assert row is not None
    assert row.title
    assert len(row.title) <= 300
    assert all(is_clean(text) for text in (row.title, row.snippet, row.content))
    assert not (row.snippet and row.content)


@pytest.mark.parametrize("title", [None, "", "  ", "<b></b>", "2026", 7, [], "\u200b"])
def test_a_row_without_a_title_is_called_after_its_host(title: object) -> None:
    row = result(title, "https://WWW.Host.example:8443/x")
    assert row is not None
    assert row.title == "www.host.example"


def test_a_long_title_is_cut_where_no_character_is_torn() -> None:
    row = result("🇫🇷" * 200, "https://host.example/")
    assert row is not None
    assert row.title == "🇫🇷" * 149 + "…"


def test_a_bad_row_costs_itself_and_no_good_row_is_no_empty_answer() -> None:
    def read(row: dict[str, object]) -> object:
        return result(row.get("title"), row.get("url"))

    good = {"title": "T", "url": "https://t.example/"}
    kept = rows([None, 5, [], {}, good, {"url": 5}], read)  # type: ignore[arg-type]
    assert kept is not None
    assert [row.title for row in kept] == ["T"]
    assert rows([None, {}], read) is None  # type: ignore[arg-type]
    assert rows([], read) == ()  # type: ignore[arg-type]


@given(anything, st.lists(st.text(max_size=3), max_size=4))
def test_a_member_of_anything_can_be_asked_for(value: object, path: list[str]) -> None:
    found = member(value, *path)
    assert path or found is value


# ---------------------------------------------------------------------------------------------------------------------
# secrets

signs = st.characters(min_codepoint=0x21, max_codepoint=0x7E, exclude_characters="*")
keys = st.text(signs, min_size=8, max_size=60)


def echoes(secret: str) -> list[str]:
    """How a vendor may say a key back."""
    return [
        secret,
        quote(secret, safe=""),
        quote(secret, safe="").lower(),
        quote(secret),
        json.dumps(secret)[1:-1],
        html.escape(secret),
        base64.b64encode(secret.encode()).decode().rstrip("="),
        base64.urlsafe_b64encode(secret.encode()).decode().rstrip("="),
        secret.upper(),
    ]


@given(keys, st.text(signs, max_size=20), st.text(signs, max_size=20), st.data())
def test_no_eight_characters_of_a_secret_survive_in_any_spelling(
    secret: str, before: str, after: str, data: st.DataObject
) -> None:
    for echo in echoes(secret):
        start = data.draw(st.integers(0, len(echo) - 8))
        end = data.draw(st.integers(start + 8, len(echo)))
        shown = redact(before + echo[start:end] + after, spellings([secret]))
        assert not [echo[at : at + 8] for at in range(len(echo) - 7) if echo[at : at + 8] in shown]


@given(st.text(signs, min_size=1, max_size=7))
def test_a_short_secret_is_hidden_whole(secret: str) -> None:
    assert redact(f"user:{secret}@host", spellings([secret])).count(secret) == 0


@given(st.text(max_size=200))
def test_text_without_secrets_stays_as_it_is(text: str) -> None:
    assert redact(text, spellings([])) == text
    assert redact(text, spellings([""])) == text
    assert redact(text, spellings(["a secret that no text has: \U0001f511" * 2])) == text


def test_what_stands_around_a_secret_is_kept() -> None:
    forms = spellings(["canary-key-5fb1e0"])
    assert redact("bad key canary-key-5fb1e0, sorry", forms) == "bad key ***, sorry"
    assert redact("ends in y-5fb1e0", forms) == "ends in ***"
    assert redact("ends in -5fb1e0", forms) == "ends in -5fb1e0"


@pytest.mark.parametrize("charset", ["unicode_escape", "raw_unicode_escape", "idna", "punycode", "base64", "none-such"])
def test_a_codec_that_is_no_character_set_is_not_used(charset: str) -> None:
    wire = Wire(200, {"content-type": f"application/json; charset={charset}"}, '{"a": "\\q é"}'.encode(), 0.0)
    assert wire.text == '{"a": "\\q é"}'


def test_a_body_is_read_in_the_character_set_it_claims() -> None:
    body = "海洋".encode("gb18030")
    assert Wire(200, {"content-type": 'text/html; charset="GB18030"'}, body, 0.0).text == "海洋"
    assert "\ufffd" in Wire(200, {"content-type": "text/html"}, body, 0.0).text


def test_a_space_in_an_address_is_written_as_it_is_sent() -> None:
    assert web_url(" https://host.example/a b?c=d e ") == "https://host.example/a%20b?c=d%20e"


@pytest.mark.parametrize(
    ("body", "message", "expected"),
    [
        ({"retryAfter": 12}, "", 12),
        ({"retry_after": "7"}, "", 7),
        ({"detail": {"retry_after_seconds": 40}}, "", 40),
        ({"error": {"retry_after_seconds": 1.5}}, "", 1.5),
        ({"reset_at": "1970-01-01T00:16:45Z"}, "", 5),
        ({"reset_at": 2_000_000_060}, "", None),
        ({}, "Too many requests, retry after 54s", 54),
        ({}, "Please retry after 3 seconds.", 3),
        ({}, "retry after lunch", None),
        ({"retryAfter": -1, "reset_at": "soon"}, "", None),
        (["no object"], "", None),
    ],
)
def test_a_wait_is_read_from_the_names_and_words_of_error_bodies(
    body: object, message: str, expected: float | None
) -> None:
    now = 2_000_000_000.0 if isinstance(member(body, "reset_at"), int) else 1000.0
    assert told_wait(body, message, now) == (60 if isinstance(member(body, "reset_at"), int) else expected)
