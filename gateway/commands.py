"""The commands that answer once and end, and what every command does first: read the configuration, complain.

Whatever is slow to import is imported by the command that needs it.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from typing import Any, TextIO

import anyio

from gateway.config import Config, ConfigUnparsable, StateSettings, load, show
from gateway.logs import set_up
from gateway.settings import serving_refusal

FOUND, EMPTY, USAGE, UNANSWERED = 0, 1, 2, 3
"""Exit codes of `search`; every command uses 2 for wrong usage and faulty configuration."""

UNEXPECTED = 1
"""Exit code of `probe` when not everything was answered as it should be."""


def complain(what: str, lines: Sequence[str]) -> None:
    """Say on stderr what is wrong, a line a fault."""
    print(f"websearch-gateway: {what}:", file=sys.stderr)
    for line in lines:
        print(f"  {line}", file=sys.stderr)


def loaded() -> Config:
    """The configuration, its warnings and faults told, and logging as it wants it. Raises `ConfigUnparsable`."""
    config = load(os.environ)
    set_up(config)
    for warning in config.warnings:
        print(f"websearch-gateway: warning: {warning}", file=sys.stderr)
    if config.errors:
        complain("the configuration is faulty, so no provider is asked", config.errors)
    return config


def names(config: Config) -> str:
    """Who is in the chain, for people."""
    return ", ".join(each.name for each in config.chain) or "nobody"


def search(asked: argparse.Namespace) -> int:
    """Search once."""
    try:
        config = loaded()
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


def status(asked: argparse.Namespace) -> int:
    """What `web_search_status` says."""
    config = loaded()

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
        if line["vendor_remaining"] is not None:
            of = "" if line["vendor_limit"] is None else f" of {line['vendor_limit']}"
            used += f"; the vendor says {line['vendor_remaining']}{of} left, as of {line['vendor_as_of']}"
        last = line["last_error"]
        failed = f"last call failed: {last['outcome']} {last['detail']}" if last else ""
        parts = (line.get("account", ""), used, line.get("warning", ""), failed.rstrip())
        remarks = "; ".join(part for part in parts if part)
        print(f"{line['name']:<12} {line['state'] or 'unknown':<36} {remarks}".rstrip())
        if line["pace"]:
            print(f"{'':<50}{line['pace']}")
    print(f"\nconfiguration  {told['config']['source'] or 'none: built-in defaults and environment'}")
    print(f"state          {told['state']['type']}, {'kept' if told['state']['persistent'] else 'lost at the end'}")
    if told["state"]["error"]:
        print(f"               {told['state']['error']}")
    return USAGE if config.errors else 0


def doctor(asked: argparse.Namespace) -> int:
    """Check everything that keeps searches from being answered; with --live ask the vendors too."""
    from gateway.doctor import Finding, can_answer, configuration, cost, examine, is_faulty, live
    from gateway.gateway import Gateway

    found: list[Finding] = []

    def tell(finding: Finding) -> None:
        if not asked.json:
            if not found or found[-1].section != finding.section:
                print(f"{'' if not found else chr(10)}{finding.section}")
            print(f"  {finding.verdict:<8} {finding.what:<14} {finding.words}".rstrip())
            if finding.advice:
                print(f"{'':<26}-> {finding.advice}")
        found.append(finding)

    async def run(config: Config) -> bool:
        async with Gateway(config) as gateway:
            status = await gateway.status()
            for finding in examine(gateway, status):
                tell(finding)
            if not asked.live or is_faulty(config):
                return can_answer(status)
            tell(spends := cost(gateway))
            sys.stdout.flush()  # before anything is spent
            if asked.json:
                print(f"live: {spends.words}", file=sys.stderr)
            results = []
            async for finding in live(gateway):
                tell(finding)
                results.append(finding)
            return can_answer(await gateway.status(), results)

    answers = False
    try:
        config = load(os.environ)
    except ConfigUnparsable as faults:
        config = Config(errors=faults.complaints, warnings=faults.warnings)
        for finding in configuration(config):
            tell(finding)
    else:
        set_up(config)
        answers = anyio.run(run, config)
    if asked.json:
        print(json.dumps({"can_answer": answers, "findings": [asdict(each) for each in found]}, ensure_ascii=False))
    elif not is_faulty(config):
        print(f"\n{'searches can be answered' if answers else 'nobody can answer a search now'}")
    return USAGE if is_faulty(config) else FOUND if answers else UNANSWERED


def config(asked: argparse.Namespace) -> int:
    """Check the configuration, or show it."""
    config = load(os.environ)
    if asked.what == "show":
        print(json.dumps(show(config), ensure_ascii=False, indent=2))
        return USAGE if config.errors else 0
    for warning in config.warnings:
        print(f"warning: {warning}")
    if config.errors:
        complain("the configuration is faulty", config.errors)
        return USAGE
    if why := serving_refusal(config):
        complain("cannot serve", [why])
        return USAGE
    print(f"ok: {config.source or 'no file'}; the chain is {names(config)}")
    return 0


def explain(asked: argparse.Namespace) -> int:
    """What a saved vendor reply means."""
    from gateway import explain
    from gateway.keys import candidate

    config = load(os.environ)
    if asked.provider not in config.names:
        complain(f"no provider is called {asked.provider!r}", [f"there are: {', '.join(config.names)}"])
        return USAGE
    settings = next(each for each in config.providers if each.name == asked.provider)
    as_if = candidate(replace(settings, keys=settings.keys or ("",)), config.defaults.cooldown_default_s, time.time)
    adapter, tuning = as_if.adapter, as_if.lanes[0].tuning
    if asked.status in explain.TRANSPORT_FAULTS:
        wire = asked.status
    else:
        try:
            wire = _saved_reply(asked)
        except (ValueError, OSError) as fault:
            complain("the reply cannot be read", [str(fault)])
            return USAGE
    try:
        told = explain.explain(
            adapter, wire, tuning, config.defaults.max_output_chars, config.secrets, first_page=asked.first_page
        )
    except ValueError as fault:
        complain("nothing to explain", [str(fault)])
        return USAGE
    print(json.dumps(told, ensure_ascii=False) if asked.json else explain.readable(told))
    return 0


def _saved_reply(asked: argparse.Namespace) -> Any:
    from gateway.explain import TRANSPORT_FAULTS
    from providers import Wire

    if not (asked.status.isascii() and asked.status.isdigit() and 100 <= int(asked.status) <= 599):
        raise ValueError(f"STATUS must be 100 to 599, or one of {', '.join(TRANSPORT_FAULTS)}; got {asked.status!r}")
    headers: dict[str, str] = {}
    for line in asked.header:
        name, colon, value = line.partition(":")
        if not colon or not name.strip():
            raise ValueError("--header must be written as name:value")
        name = name.strip().lower()
        headers[name] = f"{headers[name]}, {value.strip()}" if name in headers else value.strip()
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


def probe(asked: argparse.Namespace) -> int:
    """Ask one vendor four questions, and keep what he says as recordings."""
    from pathlib import Path

    from gateway import probing

    config = loaded()
    if config.errors:
        return USAGE
    if why := probing.refusal(config, asked.provider):
        complain("nobody is asked", [why])
        return USAGE
    said = sys.stderr if asked.json else sys.stdout

    async def planned() -> probing.Plan:
        async with probing.opened(config, asked.provider) as probe:
            return await probe.plan()

    async def run(path: Path) -> bool:
        told: list[dict[str, Any]] = []
        async with probing.opened(config, asked.provider) as probe:
            with probing.RecordingsFile(path) as file:
                async for each in probe.ask():
                    recorded = probe.record(each)
                    if recorded.entry is not None:
                        file.add(recorded.entry)
                    told.append(probing.data(each) | {"remarks": list(recorded.remarks)})
                    for line in (probing.line(each), *(f"{'':<14} {remark}" for remark in recorded.remarks)):
                        print(line, file=said, flush=True)
        written = str(path) if file.holds_something else None
        as_expected = all(each["as_expected"] or each["left_out"] for each in told)
        if asked.json:
            summary = {"provider": asked.provider, "as_expected": as_expected, "file": written, "requests": told}
            print(json.dumps(summary, ensure_ascii=False))
        else:
            wrote = f"{path}: read it before you give it to anybody" if written else "nothing was recorded"
            print(f"\n{wrote}")
        return as_expected

    try:
        path = probing.free_name(Path(asked.out), asked.provider)
    except probing.Unwritable as why_not:
        complain("nobody is asked", [str(why_not)])
        return USAGE
    plan = anyio.run(planned)
    print(*plan.lines, f"The recordings go into {path}.", sep="\n", file=said, flush=True)
    if plan.refusal:
        complain("nothing is sent", [plan.refusal])
        return USAGE
    if not asked.yes and (code := _no_leave(said)) is not None:
        return code
    try:
        return FOUND if anyio.run(run, path) else UNEXPECTED
    except probing.Unwritable as why_not:
        complain("the recordings cannot be written", [str(why_not)])
        return UNEXPECTED


def _no_leave(said: TextIO) -> int | None:
    """Ask whether to go on: None, or the exit code of a command that does not."""
    if sys.stdin is None or not sys.stdin.isatty():
        complain("nothing is sent", ["there is nobody to ask whether to go on; with --yes it does"])
        return USAGE
    print("go on? [y/N] ", end="", file=said, flush=True)
    if sys.stdin.readline().strip().lower() in ("y", "yes"):
        return None
    print("nothing is sent", file=said)
    return UNEXPECTED


def token(asked: argparse.Namespace) -> int:
    """Make a token."""
    import secrets

    print(secrets.token_urlsafe(32))
    print("Keep it in WEBSEARCH_TOKEN (or server.tokens); clients send it as Authorization: Bearer …", file=sys.stderr)
    return 0
