"""The command line: what may be asked for. Whatever is slow to import is imported by the command that needs it."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from typing import TypeVar

from gateway import __version__, commands, servers
from gateway.commands import USAGE, complain
from gateway.config import MOST_WORKERS, ConfigUnparsable
from gateway.credentials import read_host
from providers._sections import Kind, Unfit, digits

T = TypeVar("T")

UNREAD = 141
"""What shells show for a command whose reader went away."""


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command: its exit code."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            # results are in every script there is; a console's code page must not end the process
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    asked = _parser().parse_args(_with_default(list(sys.argv[1:] if arguments is None else arguments)))
    command: Callable[[argparse.Namespace], int] = asked.run
    try:
        code = command(asked)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        # whoever reads us has seen enough (`| head`); at its end Python would try to write the rest once more
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return UNREAD
    except ConfigUnparsable as faults:
        for warning in faults.warnings:
            print(f"websearch-gateway: warning: {warning}", file=sys.stderr)
        complain("the configuration cannot be used", faults.complaints)
        return USAGE
    except KeyboardInterrupt:
        return 130


def _with_default(arguments: list[str]) -> list[str]:
    """`serve` is what runs without a command, also with options alone."""
    if not arguments or (arguments[0].startswith("-") and arguments[0] not in ("-h", "--help", "--version")):
        return ["serve", *arguments]
    return arguments


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="websearch-gateway",
        description="Many search vendors behind one dependable web_search for agents, IDEs and workflows.",
    )
    parser.add_argument("--version", action="version", version=f"websearch-gateway {__version__}")
    listed = parser.add_subparsers(metavar="COMMAND", required=True)

    serve = listed.add_parser("serve", help="serve MCP over HTTP (what runs without a command)")
    serve.add_argument(
        "--host", type=_as_configured(read_host), help="address to bind (default: as configured, else 127.0.0.1)"
    )
    serve.add_argument(
        "--port", type=_as_configured(digits(0, 65535)), help="port to bind (default: as configured, else 8787)"
    )
    serve.add_argument(
        "--workers",
        type=_as_configured(digits(1, MOST_WORKERS)),
        help="processes that serve together (default: as configured, else 1)",
    )
    serve.set_defaults(run=servers.serve)

    stdio = listed.add_parser("stdio", help="serve MCP over standard input and output")
    stdio.set_defaults(run=servers.stdio)

    search = listed.add_parser("search", help="search once and print what comes back")
    search.add_argument("query")
    search.add_argument("--max-results", metavar="N")
    search.add_argument("--freshness", metavar="day|week|month|year")
    search.add_argument("--domains", metavar="HOSTS", help="only these hosts, comma-separated")
    search.add_argument("--exclude-domains", metavar="HOSTS", help="none of these hosts, comma-separated")
    search.add_argument("--content", metavar="N", help="page text of that many top results")
    search.add_argument("--no-cache", action="store_true", help="ask the vendors even if the answer is known")
    search.add_argument("--provider", metavar="P", help="ask this provider alone, even if it rests")
    search.add_argument("--json", action="store_true", help="print the answer object and nothing else")
    search.set_defaults(run=commands.search)

    status = listed.add_parser("status", help="what web_search_status would say")
    status.add_argument("--json", action="store_true")
    status.set_defaults(run=commands.status)

    doctor = listed.add_parser("doctor", help="check everything that keeps searches from being answered")
    doctor.add_argument("--live", action="store_true", help="ask the vendors too: it says first what that will spend")
    doctor.add_argument("--json", action="store_true")
    doctor.set_defaults(run=commands.doctor)

    config = listed.add_parser("config", help="check or show the configuration")
    config.add_argument("what", choices=("check", "show"))
    config.set_defaults(run=commands.config)

    explain = listed.add_parser("explain", help="what a saved vendor reply means, and what would follow")
    explain.add_argument("provider", metavar="PROVIDER")
    explain.add_argument("status", metavar="STATUS", help="the HTTP status, or the word for a transport fault")
    explain.add_argument("body", metavar="BODYFILE", nargs="?", help="file with the reply's body; - for standard input")
    explain.add_argument(
        "--header", action="append", default=[], metavar="K:V", help="a header of the reply (repeatable)"
    )
    explain.add_argument(
        "--first-page", action="store_true", help="the reply is of the page that an engine visits before it searches"
    )
    explain.add_argument("--now", metavar="ISO", help="when the reply arrived (for dates in it; default: now)")
    explain.add_argument("--json", action="store_true")
    explain.set_defaults(run=commands.explain)

    probe = listed.add_parser("probe", help="ask one vendor four questions, and record what he says")
    probe.add_argument("provider", metavar="PROVIDER")
    probe.add_argument("--out", metavar="FOLDER", default=".", help="folder for the recordings (default: this one)")
    probe.add_argument("--yes", action="store_true", help="go on without asking; what it spends is told first")
    probe.add_argument("--json", action="store_true")
    probe.set_defaults(run=commands.probe)

    login = listed.add_parser("login", help="log in with an account that a vendor takes in place of a key")
    login.add_argument("provider", metavar="PROVIDER", help="grok")
    login.add_argument("--no-browser", action="store_true", help="only print the address to be opened")
    login.add_argument(
        "--port",
        type=_as_configured(digits(0, 65535)),
        help="port on this machine that the browser comes back to (default: the one known at the vendor)",
    )
    login.set_defaults(run=_login("login"))

    logout = listed.add_parser("logout", help="forget that login, and have the vendor forget it")
    logout.add_argument("provider", metavar="PROVIDER", help="grok")
    logout.set_defaults(run=_login("logout"))

    token = listed.add_parser("token", help="make a new bearer token")
    token.add_argument("what", choices=("new",))
    token.set_defaults(run=commands.token)
    return parser


def _login(name: str) -> Callable[[argparse.Namespace], int]:
    """The command `name` of a module that only it needs."""

    def run(asked: argparse.Namespace) -> int:
        from gateway import login

        command: Callable[[argparse.Namespace], int] = getattr(login, name)
        return command(asked)

    return run


def _as_configured(kind: Kind[T]) -> Callable[[str], T]:
    """The reader of an option that takes what the setting of its name takes."""

    def read(written: str) -> T:
        try:
            return kind(written)
        except Unfit as unfit:
            raise argparse.ArgumentTypeError(str(unfit)) from None

    return read
