"""A vendor that is a table instead of code: what it may say, read member by member. Pure.

The same form serves the tables of this package and those in an operator's file; docs/configuration.md has its members.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal
from urllib.parse import urlsplit

from providers import _addresses
from providers._declared import _templates
from providers._declared._paths import Path, paths
from providers._sections import Section, Unfit, choice, each, flag, line, text, whole
from providers._words import FRESHNESS, MANY, Freshness, Option, Outcome, Row

Object = Mapping[str, object]

FIELDS = ("title", "url", "snippet", "content", "published")

USUAL_CODES = (("error", "code"), ("code",))
USUAL_MESSAGE = (("error", "message"), ("error",), ("message",), ("detail",))

_OUTCOMES = tuple(outcome.value for outcome in Outcome if outcome is not Outcome.OK)
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,64}")
_SECRET_NAME = re.compile(
    r"authorization|cookie|api[-_]?key|(?:^|[-_])key$|token|secret|password|subscription", re.IGNORECASE
)
_OURS = (
    "host",
    "connection",
    "content-length",
    "content-type",
    "transfer-encoding",
    "accept-encoding",
    "te",
    "upgrade",
)
_NO_CREDENTIAL = re.compile(r"WEBSEARCH_.*|.*_FILE|(HTTPS?|ALL|NO)_PROXY")
_NAME = re.compile(r"[a-z][a-z0-9_]{0,31}")


@dataclass(frozen=True, slots=True)
class Table:
    """One vendor. `headers`, `params` and `body` are templates; `slots` are the placeholders in them and in `url`.

    `secrets` are keys that were written into them, where none belongs.
    """

    title: str
    url: str
    rows: tuple[Path, ...]
    fields: Mapping[str, tuple[Path, ...]]
    method: Literal["GET", "POST"] = "GET"
    credential: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    params: Object = field(default_factory=dict, repr=False)
    body: Object | None = field(default=None, repr=False)
    answer: tuple[Path, ...] = ()
    envelope: tuple[Path, ...] = ()
    codes: tuple[Path, ...] = USUAL_CODES
    message: tuple[Path, ...] = USUAL_MESSAGE
    wait: tuple[Path, ...] = ()
    errors: tuple[Row, ...] = ()
    freshness: Mapping[Freshness, str | int] = field(default_factory=dict)
    domains: int = 0
    domain_lists: Literal["both", "one"] = "both"
    operators: bool = False
    max_rows: int | None = None
    max_query: int | None = None
    options: Mapping[str, Option] = field(default_factory=dict)
    slots: frozenset[str] = frozenset()
    secrets: tuple[str, ...] = field(default=(), repr=False)


def read(section: Section, name: str) -> Table:
    """The table of the provider `name`. Every mistake is told; what is wrong or missing has a harmless stand-in."""
    findings, told = section.findings, len(section.findings.complaints)
    if isinstance(url := section.raw("url"), str):
        findings.hide(*_users(url))
    for needed in ("url", "rows", "fields"):
        if not section.names(needed):
            findings.wrong(section.at(needed), "is missing")
    options = _options(section)
    table = Table(
        title=section.take("title", _title, name),
        url=section.take("url", _url, "https://unreadable.invalid/"),
        rows=section.take("rows", paths, ()),
        fields=_fields(section),
        method=section.take("method", choice("GET", "POST"), "GET"),
        credential=section.take("credential", _credential, None),
        headers=_headers(section),
        params=_params(section),
        body=section.take("body", _object, None),
        answer=section.take("answer", paths, ()),
        envelope=section.take("envelope", paths, ()),
        codes=section.take("codes", paths, USUAL_CODES),
        message=section.take("message", paths, USUAL_MESSAGE),
        wait=section.take("wait", paths, ()),
        errors=_errors(section),
        freshness=_freshness(section),
        domains=section.take("domains", _domains, 0),
        domain_lists=section.take("domain_lists", choice("both", "one"), "both"),
        operators=section.take("operators", flag, False),
        max_rows=section.take("max_rows", whole(1), None),
        max_query=section.take("max_query", whole(32), None),
        options=options,
        slots=frozenset(_slots(section, options)),
        secrets=tuple(_secrets(section)),
    )
    section.take("about", text, "")  # for readers: where the facts are from
    section.close()
    _agree(section, table)
    # (a faulty table asks nobody; what is wrong with it may be that it has too many levels to be passed on)
    return table if len(findings.complaints) == told else replace(table, headers={}, params={}, body=None)


# ---------------------------------------------------------------------------------------------------------------------
# what is sent


def _title(value: object) -> str:
    if len(written := line(value)) <= 60:
        return written
    raise Unfit("must be one line of at most 60 characters")


def _url(value: object) -> str:
    written = text(value).strip()
    parts = urlsplit(written) if _addresses.cleaned(written) else None
    if parts is None or not re.match(r"https?://", written):
        raise Unfit("must be an address with its path, such as https://search.example.com/v1/search")
    if "@" in parts.netloc:
        raise Unfit("must have no user and no password; a key belongs into the credential")
    if parts.query or parts.fragment or re.search(r"[{}]", parts.netloc):
        raise Unfit(
            "must end with its path, and have no placeholder in its host; what follows a '?' belongs into params"
        )
    return written


def _users(url: str) -> tuple[str, ...]:
    """User and password of an address, which must not stand there, and never be shown."""
    user = url.partition("://")[2].partition("/")[0].rpartition("@")[0]
    return (user, user.partition(":")[2])


def _credential(value: object) -> str:
    if re.fullmatch(r"[A-Z][A-Z0-9_]{1,63}", written := text(value)) and not _NO_CREDENTIAL.fullmatch(written):
        return written
    raise Unfit("must be the name of a variable such as INTRANET_API_KEY, and none of the gateway's own")


def _object(value: object) -> Object:
    if isinstance(value, dict):
        return value
    raise Unfit("must be an object")


def _headers(parent: Section) -> Mapping[str, str]:
    section = parent.section("headers")
    found = {}
    for name, place, value in section.members():
        if not isinstance(value, str):
            section.findings.wrong(place, "must be text")
        elif not _HEADER.fullmatch(name):
            section.findings.wrong(place, "is no name of a header")
        elif name.lower() in _OURS:
            section.findings.wrong(place, "is set by the gateway")
        elif not all(" " <= sign <= "~" for sign in value):
            section.findings.wrong(place, "must be printable ASCII")
        elif "query" in _templates.names(value):
            section.findings.wrong(place, "cannot hold the query, which may be in any script; use params or body")
        else:
            found[name] = value
    return found


def _params(parent: Section) -> Object:
    section = parent.section("params")
    found = {}
    for name, place, value in section.members():
        found[name] = value
        flat = value if isinstance(value, list) else [value]
        if not all(isinstance(part, str | int | float) for part in flat):
            section.findings.wrong(place, "must be text, a number, true or false, or a list of them")
    return found


def _secrets(section: Section) -> Iterator[str]:
    """Keys that were written into the table itself: they are hidden as any key is, and their right place told."""
    pending = deque((section.at(part), section.raw(part)) for part in ("headers", "params", "body"))
    while pending:
        place, value = pending.popleft()
        if isinstance(value, list):
            pending += [(f"{place}[{index}]", inner) for index, inner in enumerate(value)]
        if not isinstance(value, dict):
            continue
        for name, inner_place, inner in Section(place, value, section.findings).members():
            pending.append((inner_place, inner))
            if not isinstance(inner, str) or not _SECRET_NAME.search(name):
                continue
            pieces = [inner, *inner.split()[-1:]]
            if "{" in inner:
                # beside a placeholder stands a scheme, such as Bearer; a key has digits
                pieces = [piece for piece in re.split(r"\{[^{}]*\}|\s", inner) if re.search(r"\d", piece)]
            if written := [piece for piece in pieces if len(piece.strip()) >= 8]:
                section.findings.hide(*written)
                section.findings.warn(inner_place, "looks like a key; it belongs into the credential, and {key} here")
                yield from written


def _slots(section: Section, options: Mapping[str, Option]) -> Iterator[str]:
    known = [f"options.{name}" for name in options]
    findings = section.findings
    url = section.raw("url")
    if isinstance(url, str):
        for slot in _templates.check(url, section.at("url"), known, findings):
            if slot == "key":
                findings.wrong(section.at("url"), "must not hold the key; put it into headers, params or body")
            yield slot
    for part in ("headers", "params", "body"):
        yield from _templates.check(section.raw(part), section.at(part), known, findings)


# ---------------------------------------------------------------------------------------------------------------------
# what comes back


def _fields(parent: Section) -> Mapping[str, tuple[Path, ...]]:
    section = parent.section("fields")
    if parent.names("fields") and not section.names("url"):
        section.findings.wrong(section.at("url"), "is missing")
    nowhere: tuple[Path, ...] = ()
    found = {name: section.take(name, paths, nowhere) for name in FIELDS}
    section.close()
    return found


def _errors(parent: Section) -> tuple[Row, ...]:
    written = parent.raw("errors")
    if written is not None and not isinstance(written, list):
        parent.findings.wrong(parent.at("errors"), "must be a list of objects")
    sections = (
        Section(f"{parent.at('errors')}[{index}]", item, parent.findings)
        for index, item in enumerate(written if isinstance(written, list) else ())
    )
    return tuple(row for section in sections if (row := _row(section)) is not None)


def _row(section: Section) -> Row | None:
    status = section.take("status", whole(100, 599), None)
    code = section.take("code", _code, None)
    phrase = section.take("phrase", line, None)
    outcome: str | None = section.take("outcome", choice(*_OUTCOMES), None)
    setup = section.take("setup", flag, False)
    hint = section.take("hint", line, "")
    section.take("about", text, "")
    section.close()
    if not section.names("outcome"):
        section.findings.wrong(section.at("outcome"), "is missing")
    if code is None and phrase is None and status in (None, 200):
        section.findings.wrong(section.place, "needs a code or a phrase, or a status other than 200")
        return None
    if setup != bool(hint):
        section.findings.wrong(
            section.at("hint"), "must say how the operator can mend it where setup is true, and only there"
        )
    return None if outcome is None else Row(status, Outcome(outcome), code, phrase, setup and bool(hint), hint)


def _code(value: object) -> str:
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 10**9:
        return str(value)
    if isinstance(value, str):
        return line(value)
    raise Unfit("must be text or a whole number")


# ---------------------------------------------------------------------------------------------------------------------
# what it can do


def _freshness(parent: Section) -> Mapping[Freshness, str | int]:
    section = parent.section("freshness")
    found = {name: word for name in FRESHNESS if (word := section.take(name, _word, None)) is not None}
    section.close()
    if parent.names("freshness") and len(found) < len(FRESHNESS):
        section.findings.wrong(section.place, f"needs a word for each of {', '.join(FRESHNESS)}")
    return found


def _word(value: object) -> str | int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else line(value)


def _domains(value: object) -> int:
    if isinstance(value, str) and value != "many":
        raise Unfit("must be a whole number of hosts, or 'many'")
    return MANY if isinstance(value, str) else whole(0, MANY)(value)


def _options(parent: Section) -> Mapping[str, Option]:
    section = parent.section("options")
    found = {}
    none: tuple[str, ...] = ()
    for name, place, value in section.members():
        option = Section(place, value, section.findings)
        default = option.take("default", _default, None)
        choices: tuple[str, ...] = option.take("choices", each(line), none)
        about = option.take("about", line, "")
        required = option.take("required", flag, False)
        option.close()
        if not _NAME.fullmatch(name):
            section.findings.wrong(place, "must be called with small letters, digits and _, at most 32")
            continue
        if choices and default not in (*choices, None):
            section.findings.wrong(option.at("default"), "must be one of the choices")
        kind = str if default is None else type(default)
        found[name] = Option(kind, default, about, choices, required)
    return found


def _default(value: object) -> str | bool | int:
    if isinstance(value, bool):
        return value
    return whole(0)(value) if isinstance(value, int) else line(value)


# ---------------------------------------------------------------------------------------------------------------------
# what must agree


def _agree(section: Section, table: Table) -> None:
    wrong = section.findings.wrong
    slots = table.slots
    if "key" in slots and not section.names("credential"):
        wrong(section.at("credential"), "is missing: {key} stands in the request")
    if section.names("credential") and "key" not in slots:
        wrong(section.at("credential"), "is not used: {key} stands nowhere in headers, params or body")
    if "query" not in slots:
        wrong(section.place, "never sends the query: {query} stands nowhere in url, params or body")
    if section.names("body") and table.method == "GET":
        wrong(section.at("body"), "is not sent with GET; make the method POST")
    if table.freshness and "freshness" not in slots:
        wrong(section.at("freshness"), "is not used: {freshness} stands nowhere in the request")
    if "freshness" in slots and not section.names("freshness"):
        wrong(section.at("freshness"), "is missing: {freshness} stands in the request")
    if table.domains and not table.operators and slots.isdisjoint(_templates.HOSTS):
        wrong(section.at("domains"), "is not kept: the request has neither of the lists, and operators is not true")
    for name in table.options:
        if f"options.{name}" not in slots:
            wrong(f"{section.at('options')}.{name}", f"is not used: {{options.{name}}} stands nowhere in the request")
