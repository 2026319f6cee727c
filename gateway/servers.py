"""The commands that stay: MCP over HTTP, in one process or several, and over standard input and output."""

from __future__ import annotations

import argparse
import logging
import os
import stat
import sys
from contextlib import suppress

import anyio

from gateway.clock import Clock
from gateway.commands import USAGE, complain, loaded
from gateway.doors.listening import ListenError, listeners
from gateway.reloading import read_again, reload, with_options
from gateway.settings import Config

log = logging.getLogger(__name__)


def serve(asked: argparse.Namespace) -> int:
    """Serve until a signal ends it."""
    options = {name: value for name in ("host", "port", "workers") if (value := getattr(asked, name)) is not None}
    config = with_options(loaded(), options)
    if sys.stdin is not None and not sys.stdin.closed and stat.S_ISFIFO(os.fstat(sys.stdin.fileno()).st_mode):
        print(
            "websearch-gateway: this serves HTTP; for MCP over standard input and output, use: stdio", file=sys.stderr
        )
    try:
        sockets = listeners(config)
    except ListenError as refused:
        complain("cannot serve", [str(refused)])
        return USAGE
    if config.server.workers > 1 and anyio.run(begin_shared, config):
        from gateway.doors.workers import Workers

        return Workers(config, sockets, lambda old: read_again(old, options)).serve()

    from gateway.doors import serving
    from gateway.gateway import Gateway

    gateway = Gateway(config, fresh_start=True)
    serving.serve(gateway, sockets, reload=lambda: reload(gateway, options))
    return 0


async def begin_shared(config: Config) -> bool:
    """Whether workers can share the state. Then keys that are out for auth are tried again: no worker lets them."""
    from gateway.cooldowns import Cooldowns
    from gateway.keys import lanes
    from gateway.stores import StoreUnavailable
    from gateway.stores.opening import open_store

    now = Clock().wall
    opened = await open_store(config.state, now)
    try:
        if not opened.persistent:
            log.warning(
                "one worker serves instead of %d: they must share their state, which cannot be had",
                config.server.workers,
            )
            return False
        for warning in opened.warnings:
            log.warning("%s", warning)
        rest_s = config.defaults.cooldown_default_s
        known = [lane for each in config.chain for lane in lanes(each.vendor, each, rest_s)]
        if opened.clears_auth:
            with suppress(StoreUnavailable):
                await Cooldowns(opened.store, now).forgive(known)
        return True
    finally:
        await opened.store.aclose()


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
