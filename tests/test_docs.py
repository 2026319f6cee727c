"""The documentation names what there is: settings, variables, modules, states; and its example provider works."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import httpx2
import pytest

import providers
from gateway.balance import UNKNOWN
from gateway.config import check, load
from gateway.credentials import PROXY, VARIABLES
from gateway.gateway import Gateway
from gateway.lineup import credential_names
from gateway.steps import Skip
from gateway.stores._server import REFUSALS
from providers import Draft, HTTPProvider, Outcome, Query
from tests import test_recordings
from tests.chaos.__main__ import TRIALS
from tests.markdown import ROOT, Page, Snippet, pages, spans

CONFIGURATION = Page("docs/configuration.md")
ARCHITECTURE = Page("docs/architecture.md")
CONTRIBUTING = Page("CONTRIBUTING.md")
TROUBLESHOOTING = Page("docs/troubleshooting.md")
EXAMPLE: dict[str, Any] = json.loads((ROOT / "config.example.json").read_text(encoding="utf-8"))

NOT_OURS = {"NO_PROXY", "TZ", "SSL_CERT_FILE", "SSL_CERT_DIR", "XDG_CONFIG_HOME"}
"""Variables that other programs read too."""

# ---------------------------------------------------------------------------------------------------------------------
# links


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_every_link_leads_somewhere(page: Page) -> None:
    for link in page.links:
        target, _, anchor = link.partition("#")
        if target.startswith(("http://", "https://")):
            continue
        file = ((ROOT / page.name).parent / target).resolve() if target else ROOT / page.name
        assert file.exists(), link
        if anchor:
            assert anchor in Page(str(file.relative_to(ROOT))).anchors, link


# ---------------------------------------------------------------------------------------------------------------------
# settings


def example_settings() -> Iterator[tuple[str, list[Any]]]:
    """Each setting of the example by its place, with its default; of a provider's setting, the default of each."""

    def flat(place: str, value: Any) -> Iterator[tuple[str, Any]]:
        if isinstance(value, dict) and not place.endswith(".options"):
            for name, part in value.items():
                yield from flat(f"{place}.{name}", part)
        else:
            yield place, value

    for section, content in EXAMPLE.items():
        if section == "providers":
            each = [dict(flat("providers[]", provider)) for provider in content]
            yield from ((place, [values[place] for values in each]) for place in each[0])
        else:
            yield from ((place, [value]) for place, value in flat(section, content))


def settings() -> dict[str, list[str]]:
    """Type, default, unit and words of every setting on the page, by its place."""
    rows = CONFIGURATION.rows("setting", "type", "default", "unit")
    found = {spans(place)[0]: rest for place, *rest in rows}
    assert len(found) == len(rows)
    return found


def test_every_setting_is_explained_and_none_that_there_is_not() -> None:
    of_tokens = {f"server.tokens[].{name}" for name in ("name", "token", "daily_limit")}
    assert settings().keys() == {place for place, _ in example_settings()} | of_tokens


def test_no_default_on_the_page_differs_from_the_example() -> None:
    told = settings()
    for place, values in example_settings():
        if place == "providers[].enabled":
            continue  # the example lists everybody, and switches off who has to be listed on purpose
        default = told[place][1]
        if all(value == values[0] for value in values):
            assert json.loads(spans(default)[0]) == values[0], place
        else:
            assert default == "its own", place


def test_every_setting_has_a_sentence_and_a_unit_where_its_name_has_one() -> None:
    for place, (_, _, unit, words) in settings().items():
        assert words[0].isupper() or words.startswith("false"), place
        assert words.endswith("."), place
        assert unit == {"_ms": "ms", "_s": "s"}.get(re.sub(r".*(_ms|_s)$", r"\1", place), unit), place


SAMPLES: dict[str, tuple[Any, Any]] = {
    # a value of the type, and one of none
    "whole number": (1000, 1.5),
    "number": (1.5, "one"),
    "true or false": (True, "yes"),
    "text": ("words", 1),
    "key": ("0123456789abcdef", 1),
    "host": ("127.0.0.1", "a b"),
    "folder": ("/var/lib/websearch", "websearch"),
    "address": ("http://search.example.com", "ftp://search.example.com"),
    "time zone": ("Europe/Berlin", "Mars/Olympus"),
    "list of hosts": (["search.example.com"], ["https://search.example.com/x"]),
    "list of origins": (["https://app.example.com"], ["https://app.example.com/x"]),
    "list of objects": ([], {}),
    "object": ({}, []),
}


FITTING = {
    # where not every value of the type will do
    "providers[].name": "brave",
    "providers[].quota.reset_day": 31,
    "server.workers": 4,
    "state.url": "rediss://:0123456789abcdef@redis.example.com:6379/0",
}


def at(place: str, value: Any) -> dict[str, Any]:
    """A configuration that says nothing but `value` at `place`, and what has to stand beside it."""
    section, _, rest = place.partition(".")
    whole: Any = value
    for name in reversed(rest.split(".")):
        whole = {name: whole}
    if section == "providers[]":
        return {"providers": [{"name": "brave"} | whole]}
    if rest.startswith("tokens[]."):
        token = {"name": "n", "token": "0123456789abcdef"} | next(iter(whole.values()))
        return {"server": {"tokens": [token]}}
    if place == "state.type":
        whole |= {"url": "redis://redis.example.com"}
    return {section: whole}


def complaints(tmp_path: Path, content: dict[str, Any]) -> tuple[str, ...]:
    file = tmp_path / "config.json"
    file.write_text(json.dumps(content), encoding="utf-8")
    file.chmod(0o600)
    return check({"WEBSEARCH_CONFIG": str(file)})[0]


def test_every_setting_takes_the_type_that_the_page_names_and_no_other(tmp_path: Path) -> None:
    for place, (kind, *_) in settings().items():
        if kind.startswith("one of "):
            words = [json.loads(word) if '"' in word else word for word in spans(kind)]
            good, bad = words, ["neither"]
        else:
            good, bad = ([value] for value in SAMPLES[kind])
        for value in good:
            wrong = complaints(tmp_path, at(place, FITTING.get(place, value)))
            # a kind of budget may need its limit beside it
            assert [each for each in wrong if "budget needs one" not in each] == [], (place, value)
        for value in bad:
            assert complaints(tmp_path, at(place, value)), (place, value)


def test_every_variable_is_explained_and_none_that_nobody_reads() -> None:
    told = {spans(row[0])[0] for row in CONFIGURATION.rows("variable", "default")}
    ours = {*VARIABLES, *(name for name in PROXY if name.isupper())}
    assert told == ours | NOT_OURS
    code = "\n".join(
        path.read_text("utf-8") for folder in ("gateway", "providers") for path in (ROOT / folder).rglob("*.py")
    )
    assert {name for name in NOT_OURS if name not in code} == set()


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_names_in_code_marks_are_names_of_something(page: Page) -> None:
    known = {re.sub(r"\[.*?\]", "[]", place) for place in settings()}
    known |= {f"options.{name}" for vendor in providers.names() for name in providers.find(vendor).options}
    known |= {place.rpartition(".")[0] for place in known}
    for name in spans(page.prose):
        if re.fullmatch(r"WEBSEARCH_[A-Z_]+", name):
            assert name in VARIABLES, name
        if re.fullmatch(r"(defaults|cache|state|server|quota|options|providers|credentials)\.[a-z_]+", name):
            assert name in known or f"providers[].{name}" in known or (ROOT / name).exists() or "/" in name, name
        if name.endswith((".py", ".json", ".toml")) and "/" in name and "<" not in name:
            assert (ROOT / name).exists() or "/config.json" in name, name


# ---------------------------------------------------------------------------------------------------------------------
# the house


def test_every_module_is_named_and_none_that_there_is_not() -> None:
    told = {spans(row[0])[0] for row in ARCHITECTURE.rows("file")}
    there = {
        str(path.relative_to(ROOT))
        for folder in ("gateway", "providers")
        for path in (ROOT / folder).rglob("*")
        if path.suffix in (".py", ".json") and path.stat().st_size
    }
    assert told == there


def test_there_are_twelve_rules() -> None:
    assert ARCHITECTURE.headings[-1] == (2, "Twelve rules")
    assert re.findall(r"^(\d+)\. ", ARCHITECTURE.sections[-1], re.MULTILINE) == [str(n) for n in range(1, 13)]


# ---------------------------------------------------------------------------------------------------------------------
# what an operator meets


def test_every_outcome_and_every_skip_is_explained() -> None:
    reasons = {*Outcome, *Skip} - {Outcome.OK}
    for name in ("README.md", "README.zh-CN.md"):
        told = {word for table in Page(name).tables for row in table for word in spans(row[0] + row[1])}
        assert reasons <= told
    resting = {Outcome.OK, Outcome.NO_RESULTS, Outcome.AUTH_FAILURE}
    states = [spans(row[0])[0] for row in TROUBLESHOOTING.rows("`state`")]
    blocked = {state.split("(")[1].split(",")[0].rstrip(")") for state in states if state.startswith("blocked")}
    assert blocked == set(Outcome) - resting | {Skip.QUOTA_LOCAL.value}


@pytest.mark.parametrize("words", ["no token", "token not accepted", "this Origin", "this Host", "without a token"])
def test_refusals_are_quoted_as_they_are(words: str) -> None:
    assert words in "".join(row[0] for row in TROUBLESHOOTING.rows("status"))
    assert words in (ROOT / "gateway" / "doors" / "access.py").read_text("utf-8")


@pytest.mark.parametrize(
    "words",
    [
        "cannot be written by",
        "file system that cannot share a SQLite file (WAL)",
        "is locked by another process",
        "is damaged",
        "written by a newer websearch-gateway",
        "the disk is full",
    ],
)
def test_troubles_with_the_state_are_quoted_as_they_are(words: str) -> None:
    assert words in TROUBLESHOOTING.prose
    assert words in (ROOT / "gateway" / "stores" / "sqlite.py").read_text("utf-8")


def test_every_refusal_of_redis_is_quoted_as_it_is() -> None:
    told = "".join(row[0] for row in TROUBLESHOOTING.rows("words behind the address"))
    assert {words for words in REFUSALS.values() if f'"{words}"' not in told} == set()


QUOTED = {
    "stores/_server.py": [
        "cannot be reached: ",
        "does not answer within ",
        "ended the connection: ",
        "refuses our user or password: ",
        "refuses: ",
        "cannot be used: ",
    ],
    "stores/redis.py": [
        "6.2 or newer is needed",
        "may drop counts when it is full: set its maxmemory-policy to noeviction",
    ],
    "config.py": [
        "needs the package redis",
        "pip install 'websearch-gateway[redis]'",
        "is no less than max_in_flight, so that one client may take every place",
    ],
    "lineup.py": ["has no endpoint that tells what is left"],
    "settings.py": ["workers need a state that processes can share, and state.type is memory"],
    "servers.py": ["one worker serves instead of ", "they must share their state, which cannot be had"],
    "doors/workers.py": [
        "was ended by ",
        "it is replaced ",
        "at once",
        "ended with code ",
        "could not be started: ",
        "no worker could be started, so nothing is served",
        "has not ended in time and is killed",
        "goes on with the old configuration",
    ],
    "doors/worker.py": ["the parent is gone"],
    "doors/fair.py": ["too many calls wait: of the client ", "are worked on at a time"],
    "reloading.py": [
        "the old configuration stays in force: ",
        "is not what it was at the start; only a restart can change it",
    ],
    "clients.py": ["searches of today"],
}


@pytest.mark.parametrize("file", QUOTED)
def test_what_the_log_and_the_door_say_is_quoted_as_it_is(file: str) -> None:
    code = (ROOT / "gateway" / file).read_text("utf-8")
    assert {words for words in QUOTED[file] if words not in code or words not in TROUBLESHOOTING.text} == set()


def test_every_field_of_the_vendors_own_count_is_explained() -> None:
    told = {
        name for row in CONFIGURATION.rows("field of a provider, and of each of several keys") for name in spans(row[0])
    }
    assert told == {*UNKNOWN, "lasts_until", "pace"}


def test_every_trial_is_told() -> None:
    told = {name for row in Page("docs/benchmarks.md").rows("trial") for name in spans(row[0])}
    assert told - {"-killed"} == set(TRIALS)


# ---------------------------------------------------------------------------------------------------------------------
# add a provider in four steps


def snippet(language: str) -> Snippet:
    return next(each for each in CONTRIBUTING.snippets if each.language == language)


RECORDINGS: list[dict[str, Any]] = json.loads(snippet("json").code)


@pytest.fixture
def example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[type[HTTPProvider]]:
    """The provider of the page, in a folder beside the real ones."""
    (tmp_path / "example.py").write_text(snippet("python").code, encoding="utf-8")
    monkeypatch.setattr(providers, "__path__", [*providers.__path__, str(tmp_path)])
    providers._classes.cache_clear()
    yield providers.find("example")
    providers._classes.cache_clear()
    del sys.modules["providers.example"]


def test_the_example_is_found_by_its_file_alone(example: type[HTTPProvider]) -> None:
    assert providers.names().index("example") < providers.names().index("exa")
    assert "EXAMPLE_API_KEY" in credential_names()


@pytest.mark.parametrize("recording", RECORDINGS, ids=lambda recording: recording["name"])
def test_the_example_reads_its_recordings(example: type[HTTPProvider], recording: dict[str, Any]) -> None:
    test_recordings.test_a_recording_means_what_it_says("example", recording)


def test_every_row_of_the_example_has_a_recording(example: type[HTTPProvider]) -> None:
    decided = {test_recordings.reading("example", recording).row for recording in RECORDINGS}
    assert {str(row) for row in example.errors} <= decided


def test_the_example_asks_for_what_it_can_get(example: type[HTTPProvider]) -> None:
    drafted = example().draft(Query("moss", max_results=50), "key")
    assert isinstance(drafted, Draft)
    assert drafted.request.url == httpx2.URL("https://api.example.com/v1/search?q=moss&count=20")


class Vendor(BaseHTTPRequestHandler):
    """Sends the page's first recording."""

    def do_GET(self) -> None:
        body = RECORDINGS[0]["body"].encode()
        self.send_response(RECORDINGS[0]["status"])
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.mark.anyio
async def test_the_example_answers_a_search(example: type[HTTPProvider], tmp_path: Path) -> None:
    with HTTPServer(("127.0.0.1", 0), Vendor) as server:
        Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        file = tmp_path / "config.json"
        where = {"name": "example", "base_url": f"http://127.0.0.1:{server.server_port}"}
        content = {"providers": [where], "state": {"type": "memory"}}
        file.write_text(json.dumps(content), encoding="utf-8")
        config = load({"WEBSEARCH_CONFIG": str(file), "EXAMPLE_API_KEY": "0123456789abcdef"})
        assert (config.errors, config.warnings) == ((), ())
        async with Gateway(config) as gateway:
            body = (await gateway.search({"query": "moss"})).body
        server.shutdown()
    assert (body["meta"]["verdict"], body["meta"]["provider_used"]) == ("found", "example")
    assert body["results"] == [
        {
            "title": "Moss",
            "url": "https://example.org/moss",
            "snippet": "Green.",
            "publishedDate": "2026-09-18",
            "provider": "example",
        }
    ]


# ---------------------------------------------------------------------------------------------------------------------
# a whole vendor


def added(diff: str) -> dict[str, list[str]]:
    """The lines of each new file, by its name."""
    files: dict[str, list[str]] = {}
    for part in re.split(r"^diff --git .*$", diff, flags=re.MULTILINE)[1:]:
        head, _, body = part.partition("\n@@")
        assert "new file mode" in head
        name = head.rpartition("+++ b/")[2].strip()
        files[name] = [line[1:] for line in body.splitlines() if line.startswith("+")]
    return files


WHOLE = added((ROOT / "docs" / "adding-a-vendor.diff").read_text(encoding="utf-8"))
QUOKKA: list[dict[str, Any]] = json.loads("\n".join(WHOLE["tests/recordings/quokka.json"]))


@pytest.fixture
def quokka(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[type[HTTPProvider]]:
    """The vendor of the diff, in a folder beside the real ones."""
    (tmp_path / "quokka.py").write_text("\n".join(WHOLE["providers/quokka.py"]) + "\n", encoding="utf-8")
    monkeypatch.setattr(providers, "__path__", [*providers.__path__, str(tmp_path)])
    providers._classes.cache_clear()
    yield providers.find("quokka")
    providers._classes.cache_clear()
    del sys.modules["providers.quokka"]


def test_a_whole_vendor_takes_less_than_sixty_lines() -> None:
    assert WHOLE.keys() == {"providers/quokka.py", "tests/recordings/quokka.json"}
    assert sum(map(len, WHOLE.values())) < 60


def test_the_whole_vendor_sends_and_reads_what_its_page_says(quokka: type[HTTPProvider]) -> None:
    for recording in QUOKKA:
        test_recordings.test_a_recording_means_what_it_says("quokka", recording)
    assert [recording["name"] for recording in QUOKKA if "sent" in recording]
    decided = {test_recordings.reading("quokka", recording).row for recording in QUOKKA}
    assert {str(row) for row in quokka.errors} <= decided
