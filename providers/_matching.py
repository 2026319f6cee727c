"""The words of a query, and whether a text shares them: judging rows in any script, without a dictionary. Pure.

Words are compared folded: without case and accents, by their stem where they are plain letters. Scripts that put no
spaces between words are compared by overlapping pairs of characters.
"""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

_T = TypeVar("_T")

Term = tuple[str, ...]
"""One thing that was asked for: the whole word first, then the parts it is made of (`os.path`: ospath, os, path)."""

STEM = 6
"""Letters of a word that are compared. Cutting words short joins their forms in most languages that inflect at the end,
where rules know but one; that `internet` meets `international` now and then weakens a judgement, a form that is not
known for the same word makes it wrong."""

LONGEST = 64
"""Characters of a word that are looked at; what is longer is no word, and would be kept in memory."""

MOST = 4000
"""Characters of a text that are looked at: what it is about stands in them, and the time for it has an end."""

# ---------------------------------------------------------------------------------------------------------------------
# characters

_MARKS = re.compile(
    "[\u0300-\u036f\u0483-\u0487\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0640\u064b-\u065f\u0670"  # accents
    "\u00ad\u200b-\u200f\u2060\ufe0e\ufe0f\ufeff]"  # what is not seen
)
_LETTERS = str.maketrans({"ı": "i", "ł": "l", "ø": "o", "đ": "d", "ð": "d", "þ": "th", "æ": "ae", "œ": "oe"})
"""Letters whose stroke or twin Unicode does not take apart."""

_HAN = "\u3005\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003fffd"
_KATAKANA = "\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff"
_UNSPACED = (
    f"{_HAN}\u3041-\u3096\u309d-\u309f{_KATAKANA}\u3105-\u312f"  # Han, kana, bopomofo
    "\u1100-\u11ff\u3131-\u318e\uac00-\ud7a3"  # hangul: has spaces, but particles stick to its words
    "\u0e01-\u0eff\u1000-\u109f\u1780-\u17ff"  # Thai, Lao, Burmese, Khmer
)
# the signs of Indian scripts are marks, which \w leaves out
_LETTER = rf"(?:[^\W_{_UNSPACED}\u0900-\u0dff]|[\u0900-\u0963\u0966-\u0dff])"
_TOKEN = re.compile(
    rf"(?P<run>[{_UNSPACED}]+)"
    # snake_case, dotted.names, 3.11; C++ and C#, but no plus or hash between two words
    rf"|(?P<body>{_LETTER}+(?:[._]+{_LETTER}+)*)(?P<tail>\+\+|#(?!\w)|\+(?![\w+]))?"
)
_SIGN = re.compile(r"[^\w\s]|_")
_JOINTS = re.compile(r"[._]+")
_LOOSE_JOINTS = re.compile(r"[._]+(?![0-9])|(?<![0-9])[._]+")
"""Joints that may be left out: all but the dots of numbers (node.js is nodejs, 3.11 is not 311)."""
_HUMPS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_COUNTED = re.compile(r"(?<=[A-Za-z])(?=[0-9])")
"""Before the number of python3 or RTX4090, which as often stands apart."""

# ---------------------------------------------------------------------------------------------------------------------
# words that say little

_WEAK = frozenset(
    # left out of a query unless nothing else is left of it, as are single letters and digits
    (  # noqa: SIM905
        "a an the and or not of to in on at by for from with without about as is are was were be been am do does did "
        "how what when where which who whom whose why can could will would should may might must i you he she it we "
        "they me my your his her its our their this that these those there here if then than so such no yes vs versus "
        "via into out up down over under between after before use using get make any all some more "
        "der das den dem des ein eine einer und oder nicht von zu im fur auf bei mit wie wer wo ist sind die "
        "le la les un une du de et ou en au aux par sur dans avec est que qui quoi comment pour "
        "el los las del y o con por para como es al su se do da dos uma il lo gli di che e per non sono della "
        "на не по для как что это из от до за или "
        "http https www com html htm php"
    ).split()
)
_FILLERS = re.compile(
    # the same for scripts without spaces: question words and particles, at which a run falls apart
    "什么是|是什么|为什么|什么|怎么样|怎么|怎样|如何|哪些|哪个|哪里|多少|[的吗呢]|什麼是|是什麼|為什麼|什麼|怎麼|"
    rf"とは|について|における|ですか|ください|を|(?<=[{_HAN}{_KATAKANA}])の(?=[{_HAN}{_KATAKANA}])"
)
_START = rf"(?<![^\W{_UNSPACED}])"
_VALUE = r'("[^"]*"|\S+)'
_PLACES = re.compile(
    # operators whose value is no word of the page
    # (only they are without case: to fold all of `_UNSPACED` would take ten milliseconds)
    rf"{_START}-?(?i:site|filetype|ext|language|lang|loc|location|before|after|since|feed|hasfeed|ip)[:：]{_VALUE}"
)
_LABELS = re.compile(rf"{_START}(?i:(?:all)?in(?:title|url|body|text|anchor)|contains|url|site|filetype|ext)[:：]")
_UNWANTED = re.compile(rf'(?<!\S)(?:-(?=[\w"])|NOT\s+){_VALUE}')


def terms(query: str) -> tuple[Term, ...]:
    """What `query` asks for, each once, in its order; nothing only for a text in which nothing is seen.

    Operators, words with a minus and words that say little count only when there is nothing else, and signs only when
    there is no word at all.
    """
    query = query[:MOST]
    bare = _LABELS.sub(" ", query)
    for text in (_UNWANTED.sub(" ", _LABELS.sub(" ", _PLACES.sub(" ", query))), bare):
        if strong := _unique(_strong(text)):
            return strong
    return _unique(_any(bare)) or _unique((sign,) for sign in _SIGN.findall(_clean(query)))


def words(query: str) -> frozenset[str]:
    """All that can be compared of what `query` asks for, folded: whole words, and parts of names made of several."""
    return frozenset(word for term in terms(query) for word in term)


def vocabulary(text: str) -> frozenset[str]:
    """Everything that a word of a query can meet in `text`."""
    clean = _clean(text[:MOST])
    found = set(_SIGN.findall(clean))
    for run, body, tail in _TOKEN.findall(clean):
        found.update(_forms(body[:LONGEST], tail) if body else (*run, *_pairs(run)))
    return frozenset(found)


def share(words: frozenset[str], *texts: str) -> bool:
    """Whether any of `texts` has one of `words`. Without words there is nothing to compare: True."""
    return not words or any(not words.isdisjoint(vocabulary(text)) for text in texts)


# ---------------------------------------------------------------------------------------------------------------------
# reading


def _unique(found: Iterable[_T]) -> tuple[_T, ...]:
    return tuple(dict.fromkeys(found))


def _clean(text: str) -> str:
    """`text` in plain letters, case as it was. Full-width and half-width forms are the usual ones."""
    if text.isascii():
        return text
    return unicodedata.normalize("NFC", _MARKS.sub("", unicodedata.normalize("NFKD", text)))


def _strong(query: str) -> Iterator[Term]:
    """The terms of `query` that say something, each with those of its parts that do."""
    for run, body, tail in _TOKEN.findall(_clean(query)):
        if run:
            yield from ((pair,) for piece in _FILLERS.split(run) for pair in _pairs(piece))
        elif not _is_weak(body + tail):
            yield _term(body[:LONGEST], tail, _is_weak)


def _any(query: str) -> Iterator[Term]:
    for run, body, tail in _TOKEN.findall(_clean(query)):
        yield from [_term(body[:LONGEST], tail)] if body else ((pair,) for pair in _pairs(run))


def _is_weak(word: str) -> bool:
    return len(word) == 1 or word.casefold() in _WEAK


def _pairs(run: str) -> list[str]:
    return [run[at : at + 2] for at in range(len(run) - 1)] if len(run) != 1 else [run]


def _term(body: str, tail: str, spare: Callable[[str], bool] = lambda part: False) -> Term:
    """What a word asks for, without those of its parts that are `spare`."""
    parts = _parts(body)
    if parts == [body] and not tail:
        return (_cut(_folded(body)),)
    return _unique((_whole(body, tail), *(_cut(_folded(part)) for part in parts if not spare(part))))


@functools.lru_cache(maxsize=8192)  # a few words are most of any text
def _forms(body: str, tail: str) -> Term:
    """Everything that a query's word can meet in a word."""
    whole = _whole(body, tail)
    return _unique((whole, _cut(whole), *(_cut(_folded(part)) for part in _parts(body))))


def _parts(body: str) -> list[str]:
    """What a word is made of: the names between its joints, then the humps of each; itself when it is plain."""
    names = [name for joined in _JOINTS.split(body) for name in _COUNTED.split(joined)]
    humps = [hump for name in names for hump in _HUMPS.split(name)]
    return names if humps == names else [*names, *humps]


def _whole(body: str, tail: str) -> str:
    return _folded(_LOOSE_JOINTS.sub("", body)) + tail


def _folded(word: str) -> str:
    return word.casefold().translate(_LETTERS)


def _cut(word: str) -> str:
    """`word` as it is compared: the first letters of its stem."""
    return _stem(word)[:STEM] if word.isalpha() else word


def _stem(word: str) -> str:
    """`word` without the commonest English endings: bogs, boxes, queries, cached, parsing."""
    word = _without(word, "s", 3)
    word = _without(word, "ing", 4) if word.endswith("ing") else _without(word, "ed", 4)
    word = _without(_without(word, "e", 3), "s", 3)
    return word[:-1] + "i" if word.endswith("y") and len(word) > 2 else word


def _without(word: str, ending: str, least: int) -> str:
    """`word` without `ending`, where at least so many letters stay; the s of a double one is no ending."""
    if len(word) - len(ending) < least or not word.endswith(ending) or (ending == "s" and word.endswith("ss")):
        return word
    return word[: -len(ending)]
