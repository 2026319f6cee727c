"""What Grok answered and on what it stands: the text without its lists of sources, and every source once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from providers._reading import member
from providers._wire import Unreadable, read_json
from providers.grok import _links
from providers.grok._events import text_of


@dataclass(frozen=True, slots=True)
class Source:
    """A page that the answer names. An empty `title` means that none was told."""

    url: str
    title: str = ""
    snippet: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    text: str
    sources: tuple[Source, ...]


def read_answer(body: object) -> Answer | None:
    """The answer in a Responses object or a chat completion; None for anything else, or when it is not complete.

    Sources that the answer cites come before those that were only met on the way.
    """
    if isinstance(output := member(body, "output"), list):
        if member(body, "status") not in (None, "completed"):
            return None
        said = [item for item in output if member(item, "type") == "message"]
        texts = [text_of(member(item, "content")) for item in said]
        annotations = [
            note
            for item in said
            for part in _items(member(item, "content"))
            for note in _items(member(part, "annotations"))
        ]
        met = [each for item in output for each in _items(member(item, "action", "sources"))]
    elif isinstance(body, dict) and "choices" in body:
        choice = next(iter(_items(body["choices"])), None)
        message = member(choice, "message")
        texts = [text_of(member(message, "content")) or text_of(member(message, "refusal"))]
        annotations = _items(member(message, "annotations"))
        met = [*_items(member(message, "citations")), *_items(member(message, "search_sources"))]
    else:
        return None
    # JSON can spell half a character, which nobody could send on
    whole = "\n\n".join(text for text in texts if text).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    text = _links.without_thoughts(whole).strip()
    met += [*_items(member(body, "citations")), *_items(member(body, "search_sources"))]
    listed = _whole_list(text)
    if listed is not None:
        return Answer("", _merged([*listed, *_told(annotations), *_told(met)]))
    linked = [Source(link.url, link.title) for link in _links.links(text)]
    return Answer(_links.without_sources(text), _merged([*_told(annotations), *linked, *_told(met)]))


def _items(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _whole_list(text: str) -> list[Source] | None:
    """The sources, when the whole answer is a JSON list of them, fenced or bare."""
    bare = text.strip()
    if bare.startswith("```") and bare.endswith("```"):
        bare = bare[3:-3].strip()
        bare = bare[4:].strip() if bare[:4].lower() == "json" else bare
    if not (bare.startswith("[") and bare.endswith("]")):
        return None
    try:
        found = _told(_items(read_json(bare)))
    except Unreadable:
        return None
    return list(found) or None


def _told(items: Iterable[object]) -> Iterator[Source]:
    """Sources from addresses or objects, as annotations and the various lists hold them."""
    for item in items:
        told = inner if isinstance(inner := member(item, "url_citation"), dict) else item
        url = told if isinstance(told, str) else member(told, "url")
        if isinstance(url, str) and _links.is_address(url):
            title, snippet = member(told, "title"), member(told, "description")
            yield Source(
                url.strip(), title if isinstance(title, str) else "", snippet if isinstance(snippet, str) else ""
            )


def _merged(sources: Iterable[Source]) -> tuple[Source, ...]:
    """Each address once, in the order of its first appearance, with the first title that is more than a number."""
    found: dict[str, Source] = {}
    for source in sources:
        title = "" if source.title.strip(" []()#").isdigit() else source.title.strip()
        before = found.get(source.url, Source(source.url))
        found[source.url] = Source(source.url, before.title or title, before.snippet or source.snippet)
    return tuple(found.values())
