"""Processes that are forked from one that has imported everything already: `Forked("gateway", "status")`.

To start Python, to import, and to load the certificate store costs a process ten times what most commands do then.
What else a process is, is its own: its environment, its streams, its signals, how it ends. That commands also start
from nothing is tried by the tests that run `python -m gateway` themselves, in tests/test_cli and elsewhere.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

import providers
from providers._transport import tls

ROOT = Path(__file__).parent.parent
IMPORTED = (
    "gateway.cli",
    "gateway.gateway",
    "gateway.doors.serving",
    "gateway.doors.mcp",
    "gateway.doors.workers",
    "gateway.stores.opening",
    "gateway.doctor",
    "gateway.login",
    "tests.doors_fixtures",
)

AT_START = ("PYTHON", "SSL_")
"""Beginnings of variables that count when Python starts, or before the certificate store is loaded."""


def is_forkable(environ: Mapping[str, str]) -> bool:
    """Whether a forked process would be what one that starts from nothing in `environ` is."""
    # (not every library of other systems lives on in a forked process)
    return sys.platform == "linux" and not any(name.startswith(AT_START) for name in environ)


class Forked:
    """`python -m module` with `arguments` in `environ` and `folder`; as a `subprocess.Popen` as far as it goes.
    In `with`: killed and waited for at the end.

    `stdin` is nothing, a pipe or a descriptor; what is written to `stdout` and `stderr` is read here.
    """

    def __init__(
        self,
        module: str,
        *arguments: str,
        environ: Mapping[str, str],
        stdin: int = subprocess.DEVNULL,
        folder: Path = ROOT,
    ) -> None:
        self.returncode: int | None = None
        self.stdin: IO[bytes] | None = None
        given = os.open(os.devnull, os.O_RDONLY) if stdin == subprocess.DEVNULL else stdin
        if stdin == subprocess.PIPE:
            given, write = os.pipe()
            self.stdin = open(write, "wb")  # noqa: SIM115
        out, err, status = os.pipe(), os.pipe(), os.pipe()
        try:
            order = {"module": module, "arguments": arguments, "environ": dict(environ), "folder": str(folder)}
            _tell(_parent(), json.dumps(order).encode(), [given, out[1], err[1], status[1]])
        finally:
            for each in (out[1], err[1], status[1], *((given,) if given != stdin else ())):
                os.close(each)
        self.stdout: IO[bytes] = open(out[0], "rb")  # noqa: SIM115
        self.stderr: IO[bytes] = open(err[0], "rb")  # noqa: SIM115
        self.status: IO[bytes] = open(status[0], "rb", buffering=0)  # noqa: SIM115
        self.pid = int(self.status.readline())

    def __enter__(self) -> Forked:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        for each in (self.stdin, self.stdout, self.stderr):
            with suppress(BrokenPipeError):
                if each is not None:
                    each.close()
        self.wait()
        self.status.close()

    def wait(self, limit_s: float | None = None) -> int:
        """How it ended, as `Popen.returncode` tells it. Raises TimeoutExpired."""
        if self.returncode is None:
            if not select.select([self.status], [], [], limit_s)[0]:
                raise subprocess.TimeoutExpired("a forked process", limit_s or 0)
            self.returncode = int(self.status.readline())
        return self.returncode

    def communicate(self, given: bytes = b"", timeout: float | None = None) -> tuple[bytes, bytes]:
        """All that it says, until it ends. Raises TimeoutExpired."""
        with ThreadPoolExecutor(2) as together:
            said = [together.submit(each.read) for each in (self.stdout, self.stderr)]
            if self.stdin is not None:
                with suppress(BrokenPipeError), self.stdin:
                    self.stdin.write(given)
            try:
                self.wait(timeout)
            except subprocess.TimeoutExpired:
                self.kill()
                raise
            return said[0].result(), said[1].result()

    def send_signal(self, number: int) -> None:
        """Nothing happens where it has ended already."""
        with suppress(subprocess.TimeoutExpired):
            self.wait(0)
        if self.returncode is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


Process = Forked | subprocess.Popen[bytes]


def begin(
    module: str, *arguments: str, stdin: int = subprocess.DEVNULL, folder: Path = ROOT, **environ: str
) -> Process:
    """`python -m module` with pipes, in little of this machine's environment and in `environ`; forked where it can be.

    To be killed in the end.
    """
    kept = {name: os.environ[name] for name in ("PATH", "SYSTEMROOT", "HOME") if name in os.environ}
    if is_forkable(environ):
        return Forked(module, *arguments, environ=kept | environ, stdin=stdin, folder=folder)
    command = [sys.executable, "-m", module, *arguments]
    pipes = {"stdin": stdin, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, **pipes, cwd=folder, env=kept | {"PYTHONPATH": str(ROOT)} | environ)


# ---------------------------------------------------------------------------------------------------------------------
# the one that all are forked from


_started: tuple[subprocess.Popen[bytes], socket.socket] | None = None


def _parent() -> socket.socket:
    """Where it takes orders; it is started by the first test that needs it."""
    global _started
    if _started is None:
        ours, theirs = socket.socketpair()
        with theirs:
            command = [sys.executable, "-m", "tests.forking", str(theirs.fileno())]
            environ = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
            process = subprocess.Popen(command, cwd=ROOT, env=environ, pass_fds=[theirs.fileno()])
        _started = process, ours
    return _started[1]


def end() -> None:
    """End it."""
    global _started
    if _started is not None:
        process, orders = _started
        orders.close()
        process.wait(20)
        _started = None


def _tell(orders: socket.socket, order: bytes, files: list[int]) -> None:
    socket.send_fds(orders, [len(order).to_bytes(4)], files)
    orders.sendall(order)


def _told(orders: socket.socket) -> tuple[dict[str, Any], list[int]] | None:
    size, files, _, _ = socket.recv_fds(orders, 4, 4)
    if not size:
        return None
    told = b""
    while len(told) < int.from_bytes(size):
        told += orders.recv(65536)
    return json.loads(told), files


def _main(orders: socket.socket) -> None:
    for name in IMPORTED:
        importlib.import_module(name)
    providers.names()
    tls()
    gc.freeze()  # or every process would look through all of it as it ends
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those between
    while (told := _told(orders)) is not None:
        order, files = told
        if os.fork() == 0:
            orders.close()
            _watch(*files)
            _become(**order)
            return
        for each in files:
            os.close(each)


def _watch(stdin: int, stdout: int, stderr: int, status: int) -> None:
    """Returns in a new process, with these streams. This one stays beside it and tells `status` how it ended."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    if (pid := os.fork()) == 0:
        os.close(status)
        for number, each in enumerate((stdin, stdout, stderr)):
            os.dup2(each, number)
            os.close(each)
        return
    for each in (0, 1, 2, stdin, stdout, stderr):
        os.close(each)
    with suppress(BrokenPipeError):
        os.write(status, b"%d\n" % pid)
        os.write(status, b"%d\n" % os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    os._exit(0)


def _become(module: str, arguments: list[str], environ: dict[str, str], folder: str) -> None:
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environ)
    time.tzset()
    # as Python opens them, and as nobody closes them
    sys.stdin = sys.__stdin__ = open(0, encoding="utf-8", errors="surrogateescape", closefd=False)  # type: ignore[misc]  # noqa: SIM115
    sys.stdout = sys.__stdout__ = open(1, "w", encoding="utf-8", errors="surrogateescape", closefd=False)  # type: ignore[misc]  # noqa: SIM115
    sys.stderr = sys.__stderr__ = open(2, "w", 1, encoding="utf-8", errors="backslashreplace", closefd=False)  # type: ignore[misc]  # noqa: SIM115
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    _main(socket.socket(fileno=int(sys.argv[1])))
