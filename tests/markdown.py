"""The parts of a page of documentation that tests look at."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).parent.parent

_FENCE = re.compile(r"^(?P<mark>```+)(?P<language>\S*)\n(?P<code>.*?)^(?P=mark)$", re.DOTALL | re.MULTILINE)
_HEADING = re.compile(r"^(#+) (.+)$", re.MULTILINE)
_SPAN = re.compile(r"`([^`\n]+)`")
_LINK = re.compile(r"\]\(([^)\s]+)\)")


@dataclass(frozen=True)
class Snippet:
    """A fenced block: its language as written, its text, the line of the page on which it begins."""

    page: str
    language: str
    code: str
    line: int


@dataclass(frozen=True)
class Page:
    """One Markdown file, by its path below the root."""

    name: str

    @cached_property
    def text(self) -> str:
        return (ROOT / self.name).read_text(encoding="utf-8")

    @cached_property
    def snippets(self) -> tuple[Snippet, ...]:
        return tuple(
            Snippet(self.name, found["language"], found["code"], self.text.count("\n", 0, found.start()) + 1)
            for found in _FENCE.finditer(self.text)
        )

    @cached_property
    def prose(self) -> str:
        """Everything but the fenced blocks."""
        return _FENCE.sub("", self.text)

    @cached_property
    def headings(self) -> tuple[tuple[int, str], ...]:
        """Level and words of each heading."""
        return tuple((len(marks), words) for marks, words in _HEADING.findall(self.prose))

    @cached_property
    def tables(self) -> tuple[list[list[str]], ...]:
        """Each table as rows of cells, its head first and without the line below it."""
        blocks = re.findall(r"(?:^\|.*\|\n)+", self.prose, re.MULTILINE)
        return tuple([_cells(line) for at, line in enumerate(block.splitlines()) if at != 1] for block in blocks)

    def rows(self, *head: str) -> list[list[str]]:
        """The rows of all tables whose head begins so."""
        return [row for table in self.tables if table[0][: len(head)] == list(head) for row in table[1:]]

    @cached_property
    def sections(self) -> tuple[str, ...]:
        """The prose between two headings."""
        return tuple(_HEADING.sub("\f", self.prose).split("\f"))

    @cached_property
    def links(self) -> tuple[str, ...]:
        return tuple(_LINK.findall(self.prose))

    @cached_property
    def anchors(self) -> frozenset[str]:
        """What may stand behind the # of a link to this page."""
        plain = (re.sub(r"[^\w\- ]", "", words.lower()).replace(" ", "-") for _, words in self.headings)
        return frozenset(plain)


def spans(text: str) -> list[str]:
    """What stands in code marks."""
    return _SPAN.findall(text)


def pages() -> tuple[Page, ...]:
    """Every page that people read."""
    names = ["README.md", "README.zh-CN.md", "CONTRIBUTING.md", "CHANGELOG.md"]
    return tuple(Page(name) for name in (*names, *sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md"))))


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().removeprefix("|").removesuffix("|").split("|")]
