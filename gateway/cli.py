"""The command line. Whatever is slow to import is imported by the command that needs it."""

from __future__ import annotations

import argparse
import json
import logging
import os
import stat
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import anyio

from gateway import __version__
from gateway.config import Config, ConfigUnparsable, StateSettings, load, show
from gateway.logs import set_up

log = logging.getLogger(__name__)

FOUND, EMPTY, USAGE, UNANSWERED = 0, 1, 2, 3
"""Exit codes of `search`; every command uses 2 for wrong usage and faulty configuration."""

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
        _complain("the configuration cannot be used", faults.complaints)
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
    commands = parser.add_subparsers(metavar="COMMAND", required=True)

    serve = commands.add_parser("serve", help="serve MCP over HTTP (what runs without a command)")
    serve.add_argument("--host", help="address to bind (default: as configured, else 127.0.0.1)")
    serve.add_argument("--port", type=int, help="port to bind (default: as configured, else 8787)")
    serve.set_defaults(run=_serve)

    stdio = commands.add_parser("stdio", help="serve MCP over standard input and output")
    stdio.set_defaults(run=_stdio)

    search = commands.add_parser("search", help="search once and print what comes back")
    search.add_argument("query")
    search.add_argument("--max-results", metavar="N")
    search.add_argument("--freshness", metavar="day|week|month|year")
    search.add_argument("--domains", metavar="HOSTS", help="only these hosts, comma-separated")
    search.add_argument("--exclude-domains", metavar="HOSTS", help="none of these hosts, comma-separated")
    search.add_argument("--content", metavar="N", help="page text of that many top results")
    search.add_argument("--no-cache", action="store_true", help="ask the vendors even if the answer is known")
    search.add_argument("--provider", metavar="P", help="ask this provider alone, even if it rests")
    search.add_argument("--json", action="store_true", help="print the answer object and nothing else")
    search.set_defaults(run=_search)

    status = commands.add_parser("status", help="what web_search_status would say")
    status.add_argument("--json", action="store_true")
    status.set_defaults(run=_status)

    config = commands.add_parser("config", help="check or show the configuration")
    config.add_argument("what", choices=("check", "show"))
    config.set_defaults(run=_config)

    explain = commands.add_parser("explain", help="what a saved vendor reply means, and what would follow")
    explain.add_argument("provider", metavar="PROVIDER")
    explain.add_argument("status", metavar="STATUS", help="the HTTP status, or the word for a transport fault")
    explain.add_argument("body", metavar="BODYFILE", nargs="?", help="file with the reply's body; - for standard input")
    explain.add_argument(
        "--header", action="append", default=[], metavar="K:V", help="a header of the reply (repeatable)"
    )
    explain.add_argument("--now", metavar="ISO", help="when the reply arrived (for dates in it; default: now)")
    explain.add_argument("--json", action="store_true")
    explain.set_defaults(run=_explain)

    token = commands.add_parser("token", help="make a new bearer token")
    token.add_argument("what", choices=("new",))
    token.set_defaults(run=_token)
    return parser


def _complain(what: str, lines: Sequence[str]) -> None:
    print(f"websearch-gateway: {what}:", file=sys.stderr)
    for line in lines:
        print(f"  {line}", file=sys.stderr)


def _loaded() -> Config:
    config = load(os.environ)
    set_up(config)
    for warning in config.warnings:
        print(f"websearch-gateway: warning: {warning}", file=sys.stderr)
    if config.errors:
        _complain("the configuration is faulty, so no provider is asked", config.errors)
    return config


# ---------------------------------------------------------------------------------------------------------------------
# servers


def _serve(asked: argparse.Namespace) -> int:
    config = _loaded()
    changes = {name: value for name in ("host", "port") if (value := getattr(asked, name)) is not None}
    config = replace(config, server=replace(config.server, **changes))
    if sys.stdin is not None and not sys.stdin.closed and stat.S_ISFIFO(os.fstat(sys.stdin.fileno()).st_mode):
        print(
            "websearch-gateway: this serves HTTP; for MCP over standard input and output, use: stdio", file=sys.stderr
        )

    from gateway.doors.access import binding_refusal
    from gateway.doors.serving import ListenError, serve
    from gateway.gateway import Gateway

    gateway = Gateway(config, fresh_start=True)

    async def reload() -> None:
        """Go on with what file and environment say now, unless that is faulty."""
        old = gateway.config
        try:
            read = load(os.environ)
        except ConfigUnparsable as refused:
            _refuse(refused.complaints)
            return
        new = replace(
            read,
            server=replace(read.server, host=old.server.host, port=old.server.port),
            state=old.state,
            # what searches under way still use must not be logged either
            secrets=tuple(dict.fromkeys((*read.secrets, *old.secrets))),
        )
        if faults := [*new.errors, *filter(None, [binding_refusal(new)])]:
            _refuse(faults)
            return
        set_up(new)
        for warning in new.warnings:
            log.warning("reload: %s", warning)
        await gateway.reload(new)
        log.info("reload: the new configuration is in force; the chain is %s", _names(new))

    try:
        serve(gateway, reload=reload)
    except ListenError as refused:
        _complain("cannot serve", [str(refused)])
        return USAGE
    return 0


def _refuse(faults: Sequence[str]) -> None:
    log.error("reload: the old configuration stays in force: %s", "; ".join(faults))


def _names(config: Config) -> str:
    return ", ".join(each.name for each in config.chain) or "nobody"


def _stdio(asked: argparse.Namespace) -> int:
    config = _loaded()

    from gateway.doors.mcp import serve_stdio
    from gateway.gateway import Gateway

    async def run() -> None:
        async with Gateway(config, fresh_start=True) as gateway:
            await serve_stdio(gateway)

    anyio.run(run)
    return 0


# ---------------------------------------------------------------------------------------------------------------------
# one-shot commands


def _search(asked: argparse.Namespace) -> int:
    try:
        config = _loaded()
    except ConfigUnparsable as faults:
        if not asked.json:
            raise
        # scripts that parse our output get the answer object even now
        config = Config(errors=faults.complaints, state=StateSettings("memory"))
    arguments: dict[str, object] = {
        "query": asked.query,
        "max_results": asked.max_results,
        "freshness": asked.freshness,
        "include_domains": asked.domains,
        "exclude_domains": asked.exclude_domains,
        "include_content": asked.content,
        "use_cache": not asked.no_cache,
    }
    if asked.provider:
        arguments["provider"] = asked.provider
        config = replace(config, debug=True)

    from gateway.clients import COMMAND_LINE
    from gateway.gateway import Answer, Gateway

    async def run() -> Answer:
        async with Gateway(config) as gateway:
            return await gateway.search(arguments, client=COMMAND_LINE)

    found = anyio.run(run)
    print(found.text if asked.json else _readable(found.body))
    if config.errors or found.argument_error:
        return USAGE
    return {"found": FOUND, "empty": EMPTY}.get(found.body["meta"]["verdict"], UNANSWERED)


def _readable(body: dict[str, Any]) -> str:
    meta = body["meta"]
    lines = [body["answer"], ""] if "answer" in body else []
    for number, row in enumerate(body["results"], 1):
        dated = f"  ({row['publishedDate'][:10]})" if "publishedDate" in row else ""
        lines += [f"{number}. {row['title']}{dated}", f"   {row['url']}"]
        if text := row.get("snippet") or row.get("content"):
            lines.append(f"   {text[:300]}")
    used = f" by {meta['provider_used']}" if "provider_used" in meta else ""
    cached = f", from the cache, {meta['cache_age_s']} s old" if meta["cache_hit"] else ""
    lines += ["", f"{meta['verdict']}{used} in {meta['elapsed_ms']} ms{cached}"]
    lines += [
        f"  {step['provider']:<12} {step['outcome']}  {step.get('detail', '')}" for step in meta["fallback_chain"]
    ]
    lines += [meta["note"]] if "note" in meta else []
    return "\n".join(lines).strip("\n")


def _status(asked: argparse.Namespace) -> int:
    config = _loaded()

    from gateway.gateway import Gateway

    async def run() -> dict[str, Any]:
        async with Gateway(config) as gateway:
            return await gateway.status()

    told = anyio.run(run)
    if asked.json:
        print(json.dumps(told, ensure_ascii=False))
        return USAGE if config.errors else 0
    for line in told["providers"]:
        used = "" if line["used_requests"] is None else f"{line['used_requests']} used, {line['quota_profile']}"
        print(f"{line['name']:<12} {line['state'] or 'unknown':<36} {used}  {line.get('warning', '')}".rstrip())
    print(f"\nconfiguration  {told['config']['source'] or 'none: built-in defaults and environment'}")
    print(f"state          {told['state']['type']}, {'kept' if told['state']['persistent'] else 'lost at the end'}")
    return USAGE if config.errors else 0


def _config(asked: argparse.Namespace) -> int:
    config = load(os.environ)
    if asked.what == "show":
        print(json.dumps(show(config), ensure_ascii=False, indent=2))
        return USAGE if config.errors else 0
    for warning in config.warnings:
        print(f"warning: {warning}")
    if config.errors:
        _complain("the configuration is faulty", config.errors)
        return USAGE
    print(f"ok: {config.source or 'no file'}; the chain is {_names(config)}")
    return 0


def _explain(asked: argparse.Namespace) -> int:
    import providers
    from gateway import explain
    from gateway.keys import candidate
    from providers._reading import spellings

    if asked.provider not in providers.names():
        _complain(f"no provider is called {asked.provider!r}", [f"there are: {', '.join(providers.names())}"])
        return USAGE
    config = load(os.environ)
    settings = next(each for each in config.providers if each.name == asked.provider)
    as_if = candidate(replace(settings, keys=settings.keys or ("",)), config.defaults.cooldown_default_s, time.time)
    adapter, tuning = as_if.adapter, as_if.lanes[0].tuning
    if asked.status in explain.TRANSPORT_FAULTS:
        told = explain.explain(adapter, asked.status, tuning)
    else:
        try:
            wire = _saved_reply(asked)
        except (ValueError, OSError) as fault:
            _complain("the reply cannot be read", [str(fault)])
            return USAGE
        told = explain.explain(adapter, wire, tuning)
    told = explain.redacted(told, spellings(config.secrets))
    print(json.dumps(told, ensure_ascii=False) if asked.json else explain.readable(told))
    return 0


def _saved_reply(asked: argparse.Namespace) -> Any:
    from gateway.explain import TRANSPORT_FAULTS
    from providers import Wire

    if not (asked.status.isascii() and asked.status.isdigit() and 100 <= int(asked.status) <= 599):
        raise ValueError(f"STATUS must be 100 to 599, or one of {', '.join(TRANSPORT_FAULTS)}; got {asked.status!r}")
    headers = {}
    for line in asked.header:
        name, colon, value = line.partition(":")
        if not colon or not name.strip():
            raise ValueError("--header must be written as name:value")
        headers[name.strip().lower()] = value.strip()
    if asked.body is None:
        body = b""
    elif asked.body == "-":
        body = sys.stdin.buffer.read()
    else:
        with open(asked.body, "rb") as file:
            body = file.read()
    now = time.time()
    if asked.now:
        moment = datetime.fromisoformat(asked.now)
        now = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    return Wire(int(asked.status), headers, body, now)


def _token(asked: argparse.Namespace) -> int:
    import secrets

    print(secrets.token_urlsafe(32))
    print("Keep it in WEBSEARCH_TOKEN (or server.tokens); clients send it as Authorization: Bearer …", file=sys.stderr)
    return 0
