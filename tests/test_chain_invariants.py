"""Whatever vendors do, in whatever order: what every answer keeps."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from typing import Any

import anyio
import jsonschema
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.answer import OUTPUT_SCHEMA
from gateway.gateway import Gateway
from tests.rooms import HandTime, ask, counted, failing, rest, running, tuned, used
from tests.vendors import GARBAGE, RESET, Play, Played, page_play, success
from tests.vendors.plays import Script

NAMES = ("bocha", "tavily", "brave", "exa", "searxng")
HELD_TO = {"bocha": 99, "tavily": 99, "brave": 1, "exa": 99, "searxng": 1}
"""How many hosts each can be held to."""

PLAYS: tuple[Any, ...] = (
    *("success", "empty", "off_site", "success"),
    *(failing(status) for status in (302, 400, 401, 402, 403, 404, 408, 422, 429, 432, 500, 503, 504, 524)),
    *(failing(429, seconds) for seconds in (0, 1, 3, 12)),
    failing(503, 4),
    *(RESET, GARBAGE, page_play(), Play(200), Play(200, body=b"{}"), Play(200, body=b"x" * 50, ending="cut")),
)
SKIPS = (
    r"(rate_limited|quota_exhausted|auth_failure|timeout|network|server_error|request_error)|"
    r"quota_local|local_rate|probing|budget_exhausted|state_unavailable"
)
ENTRY = re.compile(
    rf"(no_results|rate_limited|quota_exhausted|auth_failure|timeout|network|server_error|request_error|skipped:({SKIPS}))"
)
HOSTS = ["a.example", "b.example"]
validator = jsonschema.Draft202012Validator(OUTPUT_SCHEMA)

vendors = st.permutations(NAMES).flatmap(lambda names: st.integers(1, 4).map(lambda size: names[:size]))
stories = vendors.flatmap(
    lambda names: st.tuples(
        st.just(names), st.tuples(*(st.lists(st.sampled_from(PLAYS), min_size=1, max_size=4) for _ in names))
    )
)
searches = st.lists(
    st.tuples(
        st.sampled_from(["moss", "fern", "lichen"]),
        st.sampled_from([[], HOSTS[:1], HOSTS]),
        st.sampled_from([0, 0, 1, 31, 61, 200, 7200]),
    ),
    min_size=1,
    max_size=5,
)


def script(name: str, play: Any) -> Script:
    kinds = {
        "success": lambda: success(name),
        "empty": lambda: success(name, n_rows=0),
        "off_site": lambda: success(name, hosts=["off.example"]),
    }
    found: Script = kinds[play]() if isinstance(play, str) else play
    return found


def came_to(chain: list[dict[str, Any]], found: bool, n_hosts: int) -> tuple[str, bool]:
    """The table of verdicts, once more, from the wire."""
    if found:
        return "found", False
    looked = [step for step in chain if step["outcome"] == "no_results"]
    sure = [step for step in looked if step.get("detail") != "off_site" or HELD_TO[step["provider"]] >= n_hosts]
    if len(sure) == len(chain):
        return "empty", False
    return ("incomplete" if looked else "failed"), True


async def check_one_search(
    gateway: Gateway, played: Played, names: list[str], query: str, hosts: list[str], time: HandTime
) -> None:
    before = Counter(played.counts())
    rests = {name: await rest(gateway, name) for name in names}
    answer = await ask(gateway, query, **({"include_domains": hosts} if hosts else {}))
    body = answer.body
    validator.validate(body)
    chain, meta, winner = body["meta"]["fallback_chain"], body["meta"], used(answer)
    sent = Counter(played.counts()) - before

    assert (meta["verdict"], answer.is_error) == came_to(chain, bool(body["results"]), len(hosts))
    assert (winner is not None) == bool(body["results"])
    assert all(row["url"].split("/")[2] in hosts for row in body["results"] if hosts)
    if "retry_after_s" in meta:
        assert answer.is_error
        assert meta["retry_after_s"] >= 1
    if meta["cache_hit"]:
        assert not sent
        return

    order = sorted(names, key=lambda name: bool(hosts) and HELD_TO[name] < len(hosts))
    listed = [step["provider"] for step in chain]
    everyone_else = [name for name in order if name != winner]
    assert listed in ([everyone_else, order[: order.index(winner)]] if winner else [order])
    for step in chain:
        assert ENTRY.fullmatch(step["outcome"])
        assert len(step.get("detail", "")) <= 200
        is_skip = step["outcome"].startswith("skipped:")
        assert ("elapsedMs" in step) == (not is_skip)
        assert sent[step["provider"]] == (not is_skip)
        if (rested := rests[step["provider"]]) is not None and rested[1] > 10:
            assert step["outcome"] == f"skipped:{rested[0]}"
    asked = {step["provider"] for step in chain if "elapsedMs" in step}
    assert sent == Counter(asked | ({winner} if winner else set()))
    for name in names:
        assert await counted(gateway, name) == played.count(name)


async def live_through(story: Any, calls: Any) -> None:
    names, plays = story
    time = HandTime()
    async with Played() as played:
        for name, scripted in zip(names, plays, strict=True):
            played.script(name, *(script(name, each) for each in scripted))
        async with running(played, [tuned(name) for name in names], time=time) as gateway:
            for query, hosts, seconds in calls:
                await check_one_search(gateway, played, list(names), query, hosts, time)
                time.move(seconds)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(stories, searches)
def test_every_answer_tells_the_truth_about_its_chain(story: Any, calls: Any) -> None:
    anyio.run(live_through, story, calls)


async def search_together(story: Any, n: int, limit: int, n_keys: int) -> None:
    names, plays = story
    keys = {"TAVILY_API_KEY": ",".join(f"tvly-{number}" for number in range(n_keys))}
    async with Played() as played:
        for name, scripted in zip(names, plays, strict=True):
            played.script(name, *(script(name, each) for each in scripted))
        chain = [tuned(name, quota={"type": "daily", "limit": limit}) for name in names]
        async with running(played, chain, time=HandTime(), keys=keys) as gateway:
            answers = await asyncio.gather(*(ask(gateway, f"moss {number}") for number in range(n)))
            lanes = {each.name: len(each.lanes) for each in gateway.current.candidates}
            for name in names:
                per_key = [await counted(gateway, name, number + 1) for number in range(lanes[name])]
                assert max(per_key) <= limit
                assert sum(per_key) == played.count(name)
    told_of: Counter[str] = Counter()
    for answer in answers:
        validator.validate(answer.body)
        steps, winner = answer.body["meta"]["fallback_chain"], used(answer)
        assert (answer.body["meta"]["verdict"], answer.is_error) == came_to(steps, bool(answer.body["results"]), 0)
        asked = [(step["provider"], step.get("key")) for step in steps if "elapsedMs" in step]
        assert len(set(asked)) == len(asked)
        assert asked == sorted(asked, key=lambda each: (names.index(each[0]), each[1] or ""))
        told_of.update([name for name, _ in asked] + ([winner] if winner else []))
    assert told_of == Counter(played.counts())


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(stories, st.integers(2, 12), st.integers(0, 6), st.integers(1, 3))
def test_what_the_chains_of_a_crowd_tell_adds_up_to_what_was_sent(story: Any, n: int, limit: int, n_keys: int) -> None:
    anyio.run(search_together, story, n, limit, n_keys)
