"""The house stands: imports go one way, outside things have one door each, every vendor is complete."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import providers

ROOT = Path(__file__).parent.parent

PURE = {"policy", "filters", "domains", "operators", "answer", "query", "honesty", "steps", "relevance"}
"""Judging rooms: no store, no clock, no network."""
READERS = {"config", "credentials", "settings", "addresses"}
WEB = {"mcp", "mcp_types", "starlette", "uvicorn"}
WIRES = {"httpx2", "curl_cffi"}


def _modules(package: str) -> list[tuple[str, Path]]:
    return [
        (".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"), path)
        for path in sorted((ROOT / package).rglob("*.py"))
    ]


def _imports(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def _tops(path: Path) -> set[str]:
    return {name.partition(".")[0] for name in _imports(path)}


@pytest.mark.parametrize(("name", "path"), _modules("providers"), ids=lambda part: str(part).rpartition("/")[2])
def test_vendors_never_import_the_gateway(name: str, path: Path) -> None:
    assert "gateway" not in _tops(path), name
    assert not WEB & _tops(path), name


def test_the_words_need_only_the_standard_library() -> None:
    import sys

    assert _tops(ROOT / "providers" / "_words.py") <= sys.stdlib_module_names


@pytest.mark.parametrize(("name", "path"), _modules("gateway"), ids=lambda part: str(part).rpartition("/")[2])
def test_the_web_lives_in_the_doors_and_the_wires_with_the_vendors(name: str, path: Path) -> None:
    if not name.startswith("gateway.doors"):
        assert not WEB & _tops(path), name
    if name != "gateway.explain" and not name.startswith("gateway.pages"):
        assert not WIRES & _tops(path), name


@pytest.mark.parametrize("room", sorted(PURE))
def test_judging_rooms_import_no_store_no_clock_and_no_network(room: str) -> None:
    path = ROOT / "gateway" / f"{room}.py"
    imported = _imports(path)
    assert not {"time", "datetime", "os", "socket", "sqlite3", "anyio", "asyncio"} & _tops(path)
    assert not {name for name in imported if name.startswith(("gateway.stores", "gateway.clock", "gateway.gateway"))}


@pytest.mark.parametrize(("name", "path"), _modules("gateway"), ids=lambda part: str(part).rpartition("/")[2])
def test_only_configuration_and_credentials_read_the_environment(name: str, path: Path) -> None:
    if name.rpartition(".")[2] in READERS:
        return
    words = path.read_text(encoding="utf-8")
    assert "getenv" not in words
    reads = [line for line in words.splitlines() if "os.environ" in line and "load(os.environ)" not in line]
    assert not reads, reads


def test_nobody_catches_everything_but_at_edges_that_say_why() -> None:
    edges = []
    for package in ("providers", "gateway"):
        for name, path in _modules(package):
            lines = path.read_text(encoding="utf-8").splitlines()
            for at, line in enumerate(lines):
                if line.strip().startswith(("except Exception", "except BaseException", "except:")):
                    assert not name.startswith("providers"), name
                    assert "#" in line + lines[at + 1], f"{name}:{at + 1} does not say why"
                    edges.append(name)
    # the tool's door, the search, the flight that carries it to others, a file that is opened, and the workers' parent
    assert len(edges) <= 5, edges


@pytest.mark.parametrize("name", providers.names())
def test_every_vendor_has_its_facts_and_a_recordings_file(name: str) -> None:
    vendor = providers.find(name)
    assert vendor.name == name
    assert vendor.title
    assert vendor.home.startswith("https://") or vendor.keys_are_addresses
    assert vendor.errors
    assert (ROOT / "tests" / "recordings" / f"{name}.json").exists()


@pytest.mark.parametrize("name", providers.names())
def test_every_vendor_has_a_place_of_its_own_and_last_resorts_come_last(name: str) -> None:
    vendor, others = providers.find(name), [providers.find(each) for each in providers.names() if each != name]
    # two with one place would be asked in whatever order their files are found
    assert vendor.priority not in {each.priority for each in others}
    if vendor.joins == "built_in":
        assert not [each.name for each in others if each.joins == "last_resort" and each.priority < vendor.priority]


def test_nothing_committed_names_this_or_any_other_machine() -> None:
    machine = ("/" + "work/", "/" + "root/", "../" + "shared")
    for path in ROOT.rglob("*"):
        parts = path.relative_to(ROOT).parts
        if path.is_file() and not parts[0].startswith((".git", ".venv", ".test", ".mypy", ".ruff", ".pytest", ".hypo")):
            if path.suffix in (".pyc", ".gz", ".png"):
                continue
            words = path.read_text(encoding="utf-8", errors="replace")
            assert not [name for name in machine if name in words], path
