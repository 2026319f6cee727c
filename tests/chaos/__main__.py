"""`python -m tests.chaos [TRIAL …]`: all trials, or those named. Exit 1 when a claim did not hold."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Awaitable, Callable

from tests.chaos.away import ForgetfulRedis, Redis, SQLite, away
from tests.chaos.crowd import crowd_before_a_hanging_head
from tests.chaos.racing import race
from tests.chaos.strangers import without_affinity, without_goodbye

KILLS = 20

TRIALS: dict[str, Callable[[], Awaitable[bool]]] = {
    "crowd": lambda: crowd_before_a_hanging_head(200),
    "processes-sqlite": lambda: race("processes", "sqlite", 0),
    "processes-sqlite-killed": lambda: race("processes", "sqlite", KILLS),
    "workers-sqlite": lambda: race("workers", "sqlite", 0),
    "workers-sqlite-killed": lambda: race("workers", "sqlite", KILLS),
    "processes-redis": lambda: race("processes", "redis", 0),
    "processes-redis-killed": lambda: race("processes", "redis", KILLS),
    "workers-redis": lambda: race("workers", "redis", 0),
    "workers-redis-killed": lambda: race("workers", "redis", KILLS),
    "sqlite-away": lambda: away(SQLite),
    "redis-away": lambda: away(Redis),
    "redis-forgets": lambda: away(ForgetfulRedis),
    "affinity": lambda: without_affinity(100),
    "goodbye": without_goodbye,
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description="Trials under load, with numbers.")
    parser.add_argument("trials", nargs="*", metavar="TRIAL", help=f"one of {', '.join(TRIALS)}; default: all")
    named = parser.parse_args().trials or list(TRIALS)
    if strangers := [name for name in named if name not in TRIALS]:
        parser.error(f"no such trial: {', '.join(strangers)}")
    failed = [name for name in named if not asyncio.run(TRIALS[name]())]  # type: ignore[arg-type]
    sys.exit(f"did not hold: {', '.join(failed)}" if failed else 0)


if __name__ == "__main__":
    main()
