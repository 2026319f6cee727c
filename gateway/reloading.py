"""What a hang-up brings: file and environment are read again, checked, and put in force."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING

from gateway.commands import names
from gateway.config import ConfigUnparsable, load
from gateway.logs import set_up
from gateway.settings import Config, serving_refusal

if TYPE_CHECKING:
    from gateway.gateway import Gateway

log = logging.getLogger(__name__)

Options = Mapping[str, str | int]
"""Settings of `server` that the command line gave, by name: they beat file and environment."""


def with_options(config: Config, options: Options) -> Config:
    """`config`, but where the command line said otherwise."""
    return replace(config, server=replace(config.server, **options))  # type: ignore[arg-type]  # checked by argparse


def read_again(old: Config, options: Options) -> Config | None:
    """What may replace `old` now; None, and the log says why, when file or environment are faulty.

    What only a restart can change stays as it is in `old`; the warnings name what differs.
    """
    try:
        read = with_options(load(os.environ), options)
    except ConfigUnparsable as refused:
        _refuse(refused.complaints)
        return None
    kept = replace(read.server, host=old.server.host, port=old.server.port, workers=old.server.workers)
    new = replace(
        read,
        server=kept,
        state=old.state,
        warnings=(*read.warnings, *_only_by_restart(old, read)),
        # what searches under way still use must not be logged either
        secrets=tuple(dict.fromkeys((*read.secrets, *old.secrets))),
    )
    if faults := [*new.errors, *filter(None, [serving_refusal(new)])]:
        _refuse(faults)
        return None
    return new


async def put_in_force(gateway: Gateway, new: Config) -> None:
    """Let `gateway` go on with `new`."""
    # not even what the new one brings may be logged while it comes into force; its level waits until it has
    set_up(replace(gateway.config, secrets=new.secrets))
    await gateway.reload(new)
    set_up(new)


def tell(new: Config) -> None:
    """Log that `new` is in force."""
    log.info("reload: the new configuration is in force; the chain is %s", names(new))
    for warning in new.warnings:
        log.warning("reload: %s", warning)


def faulted(fault: BaseException) -> None:
    """Log that a reload came to nothing by a mistake of ours."""
    log.error("reload: the old configuration stays in force: a fault of the gateway's own", exc_info=fault)


async def reload(gateway: Gateway, options: Options) -> None:
    """Go on with what file and environment say now, unless that is faulty. What comes of it is logged."""
    new = read_again(gateway.config, options)
    if new is not None:
        await put_in_force(gateway, new)
        tell(new)


def _refuse(faults: Sequence[str]) -> None:
    log.error("reload: the old configuration stays in force: %s", "; ".join(faults))


def _only_by_restart(old: Config, read: Config) -> list[str]:
    places = [("server", name) for name in ("host", "port", "workers")]
    places += [("state", each.name) for each in fields(old.state)]
    return [
        f"{section}.{name}: is not what it was at the start; only a restart can change it"
        for section, name in places
        if getattr(getattr(read, section), name) != getattr(getattr(old, section), name)
    ]
