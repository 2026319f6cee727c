"""The commands that stay: MCP over HTTP, with its reload, and over standard input and output."""

from __future__ import annotations

import argparse
import logging
import os
import stat
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import anyio

from gateway.commands import USAGE, complain, loaded, names
from gateway.config import ConfigUnparsable, load
from gateway.logs import set_up
from gateway.settings import binding_refusal

if TYPE_CHECKING:
    from gateway.gateway import Gateway

log = logging.getLogger(__name__)


def serve(asked: argparse.Namespace) -> int:
    """Serve until a signal ends it."""
    config = loaded()
    changes = {name: value for name in ("host", "port") if (value := getattr(asked, name)) is not None}
    config = replace(config, server=replace(config.server, **changes))
    if sys.stdin is not None and not sys.stdin.closed and stat.S_ISFIFO(os.fstat(sys.stdin.fileno()).st_mode):
        print(
            "websearch-gateway: this serves HTTP; for MCP over standard input and output, use: stdio", file=sys.stderr
        )

    from gateway.doors import serving
    from gateway.gateway import Gateway

    gateway = Gateway(config, fresh_start=True)
    try:
        serving.serve(gateway, reload=lambda: reload(gateway))
    except serving.ListenError as refused:
        complain("cannot serve", [str(refused)])
        return USAGE
    return 0


async def reload(gateway: Gateway) -> None:
    """Go on with what file and environment say now, unless that is faulty. What comes of it is logged."""

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
    # nor what the new one brings, while it comes into force; its level waits until it has
    set_up(replace(old, secrets=new.secrets))
    await gateway.reload(new)
    set_up(new)
    for warning in new.warnings:
        log.warning("reload: %s", warning)
    log.info("reload: the new configuration is in force; the chain is %s", names(new))


def _refuse(faults: Sequence[str]) -> None:
    log.error("reload: the old configuration stays in force: %s", "; ".join(faults))


def stdio(asked: argparse.Namespace) -> int:
    """Serve one client until it closes the pipe. A hang-up ends it, for then its client's terminal is gone."""
    config = loaded()

    from gateway.doors.mcp import serve_stdio
    from gateway.gateway import Gateway

    async def run() -> None:
        async with Gateway(config, fresh_start=True) as gateway:
            await serve_stdio(gateway)

    anyio.run(run)
    return 0
