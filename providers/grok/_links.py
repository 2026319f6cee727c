"""Sources inside an answer's text: links, pseudo-calls, lists. Every step takes time in proportion to the text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from providers._reading import member, web_url
from providers._wire import Unreadable, read_json


class Link(NamedTuple):
    """An address, its title ("" when none stands by it), and where all of it stands in the text."""

    url: str
    title: str
    start: int
    end: int


def is_address(text: str) -> bool:
    """Whether `text` is a whole http(s) address."""
    return web_url(text) is not None


# ---------------------------------------------------------------------------------------------------------------------
# thoughts

_THINK = re.compile(r"<(/?)think>", re.IGNORECASE)


def without_thoughts(text: str) -> str:
    """`text` without `<think>…</think>`; one that is never closed goes to the end, one never opened from the start."""
    kept: list[str] = []
    at, is_thinking = 0, False
    for tag in _THINK.finditer(text):
        if tag[1] == "":
            if not is_thinking:
                kept.append(text[at : tag.start()])
            is_thinking = True
        else:
            if not is_thinking:
                kept.clear()
            is_thinking, at = False, tag.end()
    return "".join(kept) if is_thinking else "".join(kept) + text[at:]


# ---------------------------------------------------------------------------------------------------------------------
# links

_ADDRESS = re.compile(r"https?://", re.IGNORECASE)
_CALL = re.compile(
    # a space after an everyday word makes it prose: "sources (see …)"
    r"(?<![A-Za-z0-9_])(?:(?:citation_card|source_cards?)\s{0,3}|citations?|references?|sources?)\(",
    re.IGNORECASE,
)
_ENDS = frozenset(' \t\n\r\f\v<>"`\u3000')
_BARE_ENDS = _ENDS | frozenset("[]{}|'，。、；：！？（）《》【】「」『』“”‘’…")
_TITLE_REACH = 400
"""Characters before an address in which the title of its link must begin."""
_CALL_REACH = 20_000


def links(text: str) -> Iterator[Link]:
    """Every address in `text` in order: Markdown links, arguments of pseudo-calls, bare ones. Pictures are left out."""
    cards = {link.start: link for call in calls(text) for link in call.links}
    at = 0
    while (found := _ADDRESS.search(text, at)) is not None:
        link = _link(text, found.start())
        at = max(link.end, found.end())
        if text[link.start - 1 : link.start] == "!" and text[link.start] == "[":
            continue
        link = cards.get(link.start, link)
        if is_address(link.url):
            yield link


def _link(text: str, start: int) -> Link:
    """The link whose address begins at `start`."""
    before = start
    while before > 0 and text[before - 1] in " <" and start - before < 4:
        before -= 1
    if text[max(before - 2, 0) : before] == "](" and (opened := _bracket(text, before - 2)) is not None:
        end = _address_end(text, start, _ENDS)
        closed = text.find(")", end, end + 200)
        title = text[opened + 1 : before - 2].replace("\\[", "[").replace("\\]", "]")
        if title.startswith("!["):
            title = title[2:].partition("](")[0]
        elif title.startswith("[") and title.find("]") == len(title) - 1:
            title = title[1:-1]  # double brackets, as around a citation's number
        return Link(text[start:end], _plain(title), opened, closed + 1 if closed >= 0 else end)
    end = _address_end(text, start, _BARE_ENDS)
    while end > start and text[end - 1] in ".,;:!?*_~":
        end -= 1
    return Link(text[start:end], "", start, end)


def _address_end(text: str, start: int, ends: frozenset[str]) -> int:
    """Where the address ends: parentheses inside it are in pairs."""
    depth = 0
    for at in range(start, len(text)):
        sign = text[at]
        if sign in ends:
            return at
        depth += (sign == "(") - (sign == ")")
        if depth < 0:
            return at
    return len(text)


def _bracket(text: str, closing: int) -> int | None:
    """Where the bracket opens that closes at `closing`; brackets inside it are in pairs, or marked by a backslash."""
    depth, nearest = 0, None
    for at in range(closing, max(closing - _TITLE_REACH, -1), -1):
        if text[at] not in "[]" or (at and text[at - 1] == "\\"):
            continue
        depth += 1 if text[at] == "]" else -1
        if depth == 0:
            return at
        if text[at] == "[" and nearest is None:
            nearest = at
    return nearest


def _plain(title: str, around: str = " \t\n\r\"'`*_") -> str:
    """A title without the signs around it; "" for one that is no more than a number, signs, or an address."""
    title = title.strip(around)
    return title if any(sign.isalpha() for sign in title) and not is_address(title) else ""


# ---------------------------------------------------------------------------------------------------------------------
# pseudo-calls


class Call(NamedTuple):
    """`citation_card(…)` or `sources(…)` as it stands in the text, and the links in it."""

    start: int
    end: int
    links: tuple[Link, ...]


def calls(text: str) -> list[Call]:
    """The outermost pseudo-calls in `text` that name an address, and citation cards that do not."""
    found: list[Call] = []
    at, budget = 0, 4 * len(text)
    while budget > 0 and (opened := _CALL.search(text, at)) is not None:
        closed = _closing(text, opened.end(), quotes=True) or _closing(text, opened.end(), quotes=False)
        budget -= (closed or min(len(text), opened.end() + _CALL_REACH)) - opened.end()
        at = opened.end()
        if closed is None:
            continue
        named = tuple(_arguments(text, opened.end(), closed - 1))
        if named or opened[0].lower().startswith("citation_card"):
            found.append(Call(opened.start(), closed, named))
            at = closed
    return found


def _closing(text: str, start: int, *, quotes: bool) -> int | None:
    """The place after the parenthesis that closes the one before `start`; those in quotation marks do not count."""
    depth, quote = 1, ""
    for at in range(start, min(len(text), start + _CALL_REACH)):
        sign = text[at]
        if quote:
            quote = "" if sign == quote and text[at - 1] != "\\" else quote
        elif quotes and (sign == '"' or (sign == "'" and not text[at - 1].isalnum())):
            quote = sign
        elif sign in "()":
            depth += 1 if sign == "(" else -1
            if depth == 0:
                return at + 1
    return None


_TITLE_KEY = re.compile(r"[\"']?\b(?:title|name|label)[\"']?\s{0,3}[:=]\s{0,3}", re.IGNORECASE)
_URL_KEY = re.compile(r"[\"']?\b(?:url|href|link|source)[\"']?\s{0,3}[:=]\s{0,3}[\"'<]?$", re.IGNORECASE)
_VALUE = re.compile(r"\"([^\"]{1,300})\"|'([^']{1,300})'|([^,;\"'()\[\]{}]{1,300})")
_QUOTED = re.compile(r"\"([^\"]{1,300})\"|'([^']{1,300})'")


def _arguments(text: str, start: int, end: int) -> Iterator[Link]:
    """The links among arguments written as JSON, as `title="…", url="…"`, or in a row."""
    arguments = text[start:end]
    titles = _json_titles(arguments)
    before = 0
    found: list[Link] = []
    while (address := _ADDRESS.search(arguments, before)) is not None:
        link = _link(arguments, address.start())
        found.append(link)
        before = max(link.end, address.end())
    for position, link in enumerate(found):
        left = arguments[found[position - 1].end if position else 0 : link.start][-_TITLE_REACH:]
        # the quotation mark that closes the address before opens nothing
        left = left.lstrip("\"'>") if position else left
        right = arguments[link.end : found[position + 1].start if position + 1 < len(found) else None][:_TITLE_REACH]
        title = link.title or titles.get(link.url) or _title_before(left) or _title_after(right)
        yield Link(link.url, title, start + link.start, start + link.end)


def _json_titles(arguments: str) -> dict[str, str]:
    try:
        value = read_json(arguments)
    except Unreadable:
        return {}
    items = member(value, "sources") or value
    titles: dict[str, str] = {}
    for item in items if isinstance(items, list) else [items]:
        url, title = member(item, "url"), member(item, "title")
        if isinstance(url, str) and isinstance(title, str):
            titles[url] = title
    return titles


def _title_before(left: str) -> str:
    left = _URL_KEY.sub("", left)
    if keys := list(_TITLE_KEY.finditer(left)):
        value = _VALUE.match(left, keys[-1].end())
        return _plain(value[1] or value[2] or value[3]) if value else ""
    if quoted := list(_QUOTED.finditer(left)):
        return _plain(quoted[-1][1] or quoted[-1][2])
    return _plain(re.split("[,;\n]", _CALL.sub("", left).rstrip(" ,"))[-1], " \t\"'`*_()[]{}:=#-–—|")


def _title_after(right: str) -> str:
    key = _TITLE_KEY.search(right)
    value = _VALUE.match(right, key.end()) if key else None
    return _plain(value[1] or value[2] or value[3]) if value else ""


# ---------------------------------------------------------------------------------------------------------------------
# lists of sources

_HEADING = re.compile(
    r"^(?:[^\w\n]|_){0,12}(?:sources?|references?|citations?"
    r"|参考资料|参考来源|参考文献|参考链接|参考|信息来源|来源列表|来源|信源|引用)"
    r"[*_\s]{0,6}(?:[（(][^()（）\n]{0,30}[)）])?[*_\s]{0,6}(?P<colon>[:：])?[*_\s]{0,6}",
    re.IGNORECASE,
)
_MARKER = re.compile(r"\s*(?:[-*+•]\s+|\(?\d{1,3}[.)、:]\s*|\[\^?\d{1,3}\][:.]?\s*)+")
_LIST_WORDS = 80
"""Characters that a line of a list of links may hold beside each link."""


def without_sources(text: str) -> str:
    """`text` without pseudo-calls, `<details>` of sources, and the lists of sources after headings or at its end."""
    pieces: list[str] = []
    at = 0
    for call in calls(text):
        pieces.append(text[at : call.start].rstrip(" \t"))
        at = call.end
    lines = _without_details("".join(pieces) + text[at:]).split("\n")
    for number in range(len(lines) - 1, -1, -1):
        if (end := _list_end(lines, number)) is not None:
            del lines[number:end]
    tail = len(lines)
    while tail and (not lines[tail - 1].strip() or _is_link_line(lines[tail - 1])):
        tail -= 1
    if sum(1 for line in lines[tail:] if line.strip()) > 1:
        del lines[tail:]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(line.rstrip() for line in lines)).strip()


def _without_details(text: str) -> str:
    kept: list[str] = []
    at = 0
    for opened in re.finditer("<details", text, re.IGNORECASE):
        if opened.start() < at:
            continue
        closed = _DETAILS_END.search(text, opened.end())
        end = closed.end() if closed else len(text)
        if _ADDRESS.search(text, opened.start(), end) is not None:
            kept.append(text[at : opened.start()])
            at = end
        elif closed is None:
            break
    return "".join(kept) + text[at:]


_DETAILS_END = re.compile("</details>", re.IGNORECASE)


def _list_end(lines: list[str], heading: int) -> int | None:
    """The line after the list of sources that the line `heading` opens; None when it opens none."""
    opening = _HEADING.match(lines[heading][:200])
    if opening is None or _marked(lines[heading]) > 0:
        return None
    rest = lines[heading][opening.end() :].strip()
    if rest and not (opening["colon"] and _is_mostly_links(rest)):
        return None
    end = heading + 1 if rest else None
    for number in range(heading + 1, len(lines)):
        line = lines[number]
        is_marked = _marked(line) > 0
        if not is_marked and _HEADING.match(line[:200]) is not None:
            break
        is_entry = is_marked or line.startswith((" ", "\t"))
        if _ADDRESS.search(line) is not None and (is_entry or _is_mostly_links(line)):
            end = number + 1
        elif line.strip() and not is_entry:
            # a title may stand on a line of its own above its address, prose may not
            below = lines[number + 1].strip() if number + 1 < len(lines) else ""
            if len(line) > _LIST_WORDS or not below.startswith(("http://", "https://", "<http")):
                break
        elif line.strip() and end is not None:
            end = number + 1
    return end


def _marked(line: str) -> int:
    """Where the text of a list's line begins, behind its bullet or number."""
    marker = _MARKER.match(line)
    return marker.end() if marker else 0


def _is_mostly_links(line: str) -> bool:
    found = list(links(line[:4000]))
    others = len(line) - sum(link.end - link.start for link in found)
    return bool(found) and others <= _LIST_WORDS * len(found)


def _is_link_line(line: str) -> bool:
    """Whether `line` is an entry of a list of links: it begins with one, or a few words lead to a bare address."""
    body = line[_marked(line) :].strip(" *_")
    first = next(links(body[:4000]), None)
    if first is None or not _is_mostly_links(body):
        return False
    # a citation in brackets at the end of a sentence is no address: the sentence is what was asked for
    is_bare = body[first.start].lower() in "<h"
    ends_bare = is_bare and not first.title and body.rstrip(" .)>").endswith(first.url.rstrip(")"))
    return first.start <= 1 or ends_bare
