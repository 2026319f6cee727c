"""200 callers at once over HTTP, while the head of the chain hangs: everybody is answered by the second."""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.chaos.stage import BEARER, Line, check, content, cpu_s, meta_of
from tests.doors_fixtures import call
from tests.processes import serving, written
from tests.vendors import SILENCE, Played

HANG_S = 2.0
SPARE_S = 0.5


async def asked(port: int, query: str) -> tuple[float, dict[str, Any]]:
    """Seconds and the answer's meta, on a connection of its own."""
    line = Line(port)
    begun = time.perf_counter()
    _, body = await line.post(call({"query": query}), Connection="close")
    return time.perf_counter() - begun, meta_of(body)


async def crowd_before_a_hanging_head(callers: int) -> bool:
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        async with Played() as played:
            chain = [{"name": "tavily", "timeout_ms": round(HANG_S * 1000)}, {"name": "brave"}]
            config = written(home / "config.json", content(played, chain, 0, state={"type": "sqlite"}))
            async with serving(home, headers=BEARER, WEBSEARCH_CONFIG=str(config)) as it:
                port = int(it.url.rpartition(":")[2])
                await asked(port, "the first of all")  # what is made once is made now
                played.script("tavily", SILENCE)
                before_s = cpu_s(it.process.pid)
                answers = await asyncio.gather(*(asked(port, f"crowd {n}") for n in range(callers)))
                spent_s = cpu_s(it.process.pid) - before_s
                next_s, next_meta = await asked(port, "afterwards")
                status = await it.status()
                log = it.stderr
            counts = played.counts()
    times = sorted(took_s for took_s, _ in answers)
    line = next(each for each in status["providers"] if each["name"] == "tavily")
    outcomes = {meta["fallback_chain"][0]["outcome"] for _, meta in answers}
    print(f"{callers} callers at once, head of the chain hangs (time limit {HANG_S:.0f} s), requests: {counts}")
    print(f"  answered in {times[0]:.2f} to {times[-1]:.2f} s, median {statistics.median(times):.2f} s")
    print(f"  processor time of the gateway meanwhile: {spent_s:.2f} s")
    print(f"  the next search: {next_s * 1000:.0f} ms, {next_meta['fallback_chain']}")
    print(f"  the head: {line['state']}, streak {line['consecutive_failures']}")
    return all(
        [
            check("all found by the second", all(meta.get("provider_used") == "brave" for _, meta in answers)),
            check(f"all within {HANG_S + SPARE_S:.1f} s", times[-1] <= HANG_S + SPARE_S),
            check("the head was a timeout for all, and no pool's", outcomes == {"timeout"} and b"Pool" not in log),
            check("the next search within 100 ms", next_s < 0.1),
            check("a streak of 1", line["consecutive_failures"] == 1),
        ]
    )
