"""Where the server listens, and how long it takes to stop. Nothing of the web: a parent of workers needs no more."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Sequence
from pathlib import Path

from gateway.settings import Config, serving_refusal

log = logging.getLogger(__name__)

DRAIN_S = 1.0
"""Seconds between a SIGTERM and the closing of the listeners, in which 503 tells balancers to go elsewhere."""

GRACE_S = 8
"""Seconds that running calls may take to end after that. Container runtimes kill ten seconds after SIGTERM."""

WAITING = 2048
"""Connections that may wait to be taken."""


class ListenError(Exception):
    """The address is not to be had, or must not be used. The words are for the person who started us."""


def listeners(config: Config) -> list[socket.socket]:
    """Sockets that listen where `config` says; what its operator should know is logged. Raises `ListenError`."""
    server = config.server
    if why := serving_refusal(config):
        raise ListenError(why)
    if not server.tokens:
        log.warning("no token is configured: only this machine is served, and whoever is on it may search")
        if Path("/.dockerenv").exists() or Path("/run/.containerenv").exists():
            log.warning(
                "this is a container: nobody outside of it reaches %s; set WEBSEARCH_HOST and a token", server.host
            )
    return listen(server.host, server.port)


def listen(host: str, port: int) -> list[socket.socket]:
    """Sockets that listen at every address that `host` has. Port 0: one free port for all. Raises `ListenError`."""
    bound: list[socket.socket] = []
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        for family, kind, protocol, _, address in dict.fromkeys(found):
            if bound and port == 0:
                address = (address[0], bound[0].getsockname()[1], *address[2:])
            one = socket.socket(family, kind, protocol)
            bound.append(one)
            if os.name == "posix":
                # elsewhere it would let two servers share an address
                one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            one.bind(address)
            # at once: until somebody listens, a second server may bind the same address
            one.listen(WAITING)
    except (OSError, UnicodeError, OverflowError) as error:
        for one in bound:
            one.close()
        why = error.strerror if isinstance(error, OSError) else error
        raise ListenError(f"cannot listen on {host} port {port}: {why}") from error
    return bound


def announce(sockets: Sequence[socket.socket]) -> None:
    """Log where we are to be found."""
    for each in sockets:
        name, number = each.getsockname()[:2]
        log.info("listening on http://%s:%d/mcp", f"[{name}]" if ":" in name else name, number)
