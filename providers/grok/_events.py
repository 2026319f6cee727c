"""A reply's body as one value, whichever way it was sent: JSON, or an event stream in any of its spellings."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from providers._reading import member
from providers._wire import Unreadable, read_json


@dataclass(frozen=True, slots=True)
class Page:
    """The body is a web page: somebody else's answer."""


_FIELDS = ("data:", "event:", "id:", "retry:", ":")


def decode(text: str) -> object:
    """The value in `text`; the text itself when it is neither JSON nor an event stream.

    An event stream comes back as the object that it spells out: the last Responses object, or a chat completion.
    Raises `Unreadable` for what was meant as JSON or as a stream and is not whole.
    """
    text = text.lstrip("\ufeff").lstrip()
    if not text.startswith(_FIELDS):
        if text.startswith(("{", "[", '"')):
            return read_json(text)
        return text
    events = list(_events(text))
    whole = _last_response(events)
    return _chat(events) if whole is None else whole


def _events(text: str) -> Iterator[dict[str, object]]:
    """The objects of the stream, in order. An event named "error" counts as an error whatever its shape.

    Events need no blank line between them, the end needs no mark; but a stream that breaks off inside its last line
    raises `Unreadable`.
    """
    # not splitlines(): JSON strings may hold the other separators that it knows
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    name, is_whole = "", not any(field.startswith(lines[-1].strip() or "-") for field in _FIELDS)
    pending: list[str] = []
    for line in [*lines, ""]:
        found = None
        if line.startswith("data:"):
            data = line[5:].strip()
            if data == "[DONE]":
                return
            # one event may be written on several lines, or several without a line between
            found = _object(data)
            if found is None:
                pending.append(data)
        elif not line or line.startswith("event:"):
            data = "\n".join(pending).strip()
            found = _object(data)
            is_whole = is_whole and (found is not None or not data.startswith(("{", "[")))
            pending.clear()
        if found is not None:
            is_bare_error = "error" not in found and (name == "error" or found.get("type") == "error")
            yield {"error": found} if is_bare_error else found
        if line.startswith("event:"):
            name = line[6:].strip()
        elif not line:
            name = ""
    if not is_whole:
        raise Unreadable("cut off")


def _object(data: str) -> dict[str, object] | None:
    if not data.startswith("{"):
        return None
    try:
        value = read_json(data)
    except Unreadable:
        return None
    return value if isinstance(value, dict) else None


def _last_response(events: list[dict[str, object]]) -> dict[str, object] | None:
    """The Responses object with which the stream ended; None when this is no stream of the Responses API."""
    failed = next((event for event in events if event.get("error")), None)
    response: dict[str, object] | None = None
    items: list[object] = []
    for event in events:
        inner = event.get("response")
        if isinstance(inner, dict):
            response = inner
            if event.get("type") in ("response.failed", "response.incomplete"):
                response = {**inner, "status": str(event["type"]).removeprefix("response.")}
        elif event.get("type") == "response.output_item.done":
            items.append(event.get("item"))
        elif event.get("object") == "response":
            response = event
    if response is None:
        return None
    if failed is not None and not response.get("error"):
        return {**response, "error": failed["error"]}
    return response if response.get("output") else {**response, "output": items}


def _chat(events: list[dict[str, object]]) -> dict[str, object]:
    """The chat completion that the chunks of a stream add up to."""
    pieces: list[str] = []
    wholes: list[str] = []
    lists: dict[str, list[object]] = {"annotations": [], "citations": [], "search_sources": []}
    whole: dict[str, object] = {}
    for event in events:
        for name in ("id", "error"):
            if event.get(name) and name not in whole:
                whole[name] = event[name]
        choices = event.get("choices")
        choice = choices[0] if isinstance(choices, list) and choices else None
        delta, message = member(choice, "delta"), member(choice, "message")
        pieces.append(text_of(member(delta, "content")))
        wholes.append(text_of(member(message, "content")))
        for name, gathered in lists.items():
            for holder in (event, choice, delta, message):
                found = member(holder, name)
                # some relays send the list again with each chunk
                gathered += [item for item in found if item not in gathered[-200:]] if isinstance(found, list) else []
    text = "".join(pieces) or "".join(wholes[-1:]) or "".join(wholes)
    return {**whole, "choices": [{"message": {"content": text, **lists}}]}


def text_of(content: object) -> str:
    """The text of a `content`: a string, null, or a list of parts."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    texts = [part if isinstance(part, str) else member(part, "text") or member(part, "refusal") for part in content]
    return "".join(text for text in texts if isinstance(text, str))
