"""The store of several machines: Redis or Valkey, 6.2 or newer.

Every verb is one command or one script. What ends has a time to live, by the server's clock: a moment is turned into
milliseconds from now by whoever names it, and back by whoever reads it, so machines whose clocks differ still agree.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from redis.exceptions import NoScriptError

from gateway.stores import Rest, StoreUnavailable, Turn
from gateway.stores._server import FOREIGN, Server

PATIENCE_S = 0.1
"""Seconds to wait for a connection, and then for a reply; half of that to connect again after a silence. So a verb
waits 250 ms at most for a store that is away, and so does a search."""

START_S = 2.0
"""Seconds to wait at the start for a connection, which may be far away, so that no search has to."""

AGAIN_S = 0.5
"""Seconds between two looks whether a server that was away is back."""

REMEMBER_MS = 5000
"""How long the server knows what came of a write, for a second try that must not count twice."""

SWEEP_AT_MOST = 16
"""Entries that have ended and are taken from a room at each that is kept: more than come, so that sweeps catch up."""

DROP_AT_MOST = 64
"""Entries that make room at once. More than one are in the way only after the bound was lowered."""

OLDEST_REDIS = (6, 2)


class Script(NamedTuple):
    """Lua, and the name by which a server that knows it calls it."""

    source: str
    sha: str


def _script(source: str) -> Script:
    return Script(source, hashlib.sha1(source.encode(), usedforsecurity=False).hexdigest())


# Where a write may come twice, the last key is that of what came of it, and the last argument how long that is known.
# PTTL is -2 for a key that is not there and -1 for one without end.

REST = _script("""
local said = redis.call('GET', KEYS[2])
if said then return tonumber(said) end
local left = redis.call('PTTL', KEYS[1])
if tonumber(ARGV[2]) > math.max(left, 0) then redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2]) end
local first = left < 0 and 1 or 0
redis.call('SET', KEYS[2], first, 'PX', ARGV[3])
return first
""")

RESTING = _script("""
local found = {}
for number, why in ipairs(redis.call('MGET', unpack(KEYS))) do
  if why then table.insert(found, number .. ' ' .. redis.call('PTTL', KEYS[number]) .. ' ' .. why) end
end
return found
""")

ADD = _script("""
local said = redis.call('GET', KEYS[2])
if said then return tonumber(said) end
local limit, life = tonumber(ARGV[2]), tonumber(ARGV[3])
local before = tonumber(redis.call('GET', KEYS[1]) or 0)
if limit and before >= limit then return false end
local left, lost = redis.call('PTTL', KEYS[1]), math.max(ARGV[4] - before, 0)
local after = redis.call('INCRBY', KEYS[1], ARGV[1] + lost)
if not life then
  redis.call('PERSIST', KEYS[1])
elseif left ~= -1 and life > left or left == -2 then
  redis.call('PEXPIRE', KEYS[1], life)
end
redis.call('SET', KEYS[2], after, 'PX', ARGV[5])
return after
""")

# The time to live is the time until the next free place; the value is the last place given away: how far off it was,
# and the gap after it.
TURN = _script("""
local said = redis.call('GET', KEYS[2])
if said then return {1, tonumber(said)} end
local gap, most = tonumber(ARGV[1]), tonumber(ARGV[2])
local wait = math.max(redis.call('PTTL', KEYS[1]), 0)
if wait > 0 then
  local last_wait, last_gap = string.match(redis.call('GET', KEYS[1]), '(%d+) (%d+)')
  if wait > math.max(tonumber(last_wait), most) + tonumber(last_gap) then wait = 0 end
end
if wait > most then return {0, wait} end
if wait + gap > 0 then
  redis.call('SET', KEYS[1], wait .. ' ' .. ARGV[1], 'PX', wait + gap)
else
  redis.call('DEL', KEYS[1])
end
redis.call('SET', KEYS[2], wait, 'PX', ARGV[3])
return {1, wait}
""")

_NOW = """
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
"""

# A room is two sorted sets of the keys in it, by age and by end; each value has a key of its own.
KEEP = _script(f"""{_NOW}
local by_age, by_end, value, prefix = KEYS[1], KEYS[2], KEYS[3], ARGV[1]
local name, life, most = ARGV[2], tonumber(ARGV[4]), tonumber(ARGV[5])
if redis.call('ZCARD', by_age) ~= redis.call('ZCARD', by_end) then
  -- a full server has dropped one of them: who is the oldest cannot be told any more, and values end by themselves
  redis.call('DEL', by_age, by_end)
end
local ended = redis.call('ZRANGEBYSCORE', by_end, '-inf', now, 'LIMIT', 0, {SWEEP_AT_MOST})
if #ended > 0 then
  redis.call('ZREM', by_age, unpack(ended))
  redis.call('ZREM', by_end, unpack(ended))
end
if life > 0 then
  local youngest = redis.call('ZREVRANGE', by_age, 0, 0, 'WITHSCORES')
  redis.call('SET', value, ARGV[3], 'PX', life)
  redis.call('ZADD', by_age, (youngest[2] or 0) + 1, name)
  redis.call('ZADD', by_end, now + life, name)
else
  redis.call('DEL', value)
  redis.call('ZREM', by_age, name)
  redis.call('ZREM', by_end, name)
end
local excess = most and redis.call('ZCOUNT', by_end, '(' .. now, '+inf') - most or 0
if excess > 0 then
  for _, oldest in ipairs(redis.call('ZRANGE', by_age, 0, {DROP_AT_MOST - 1})) do
    if tonumber(redis.call('ZSCORE', by_end, oldest)) > now then excess = excess - 1 end
    redis.call('DEL', prefix .. oldest)
    redis.call('ZREM', by_age, oldest)
    redis.call('ZREM', by_end, oldest)
    if excess == 0 then break end
  end
end
if redis.call('PTTL', by_end) < life then
  redis.call('PEXPIRE', by_age, life)
  redis.call('PEXPIRE', by_end, life)
end
""")

KEPT = _script(f"""{_NOW}
return redis.call('ZCOUNT', KEYS[1], '(' .. now, '+inf')
""")


class RedisStore:
    """A `Store` in a server that gateways on several machines share: those with the same `prefix` share everything.

    A verb that raised may still have happened, for a reply can be lost. Whatever was taken so is gone, never given
    twice.
    """

    def __init__(
        self,
        url: str,
        prefix: str,
        clock: Callable[[], float] = time.time,
        *,
        patience_s: float = PATIENCE_S,
        again_s: float = AGAIN_S,
    ) -> None:
        """`clock` gives seconds since the epoch. Nothing is connected before the first verb."""
        self._prefix = prefix
        self._clock = clock
        self._server = Server(url, ("SET", f"{prefix}:probe", "", "PX", 1000), patience_s, again_s)

    async def open(self) -> tuple[str, ...]:
        """See that the server can be used: what its operator should know. Raises `StoreUnavailable`."""
        await self._server.meet(START_S)
        await self.count("opened", self._clock() + 1)
        try:
            said: bytes = await self._server.ask("INFO")
        except StoreUnavailable:
            return ()  # an access list may keep it from us
        facts = dict(line.split(":", 1) for line in said.decode("utf-8", "replace").splitlines() if ":" in line)
        found = []
        version, policy = facts.get("redis_version", ""), facts.get("maxmemory_policy", "noeviction")
        numbers = re.match(r"(\d+)\.(\d+)", version)
        if numbers and (int(numbers[1]), int(numbers[2])) < OLDEST_REDIS:
            found.append(f"{self._server.name} is Redis {version}; 6.2 or newer is needed")
        if facts.get("maxmemory", "0") != "0" and policy != "noeviction":
            found.append(f"{self._server.name} may drop counts when it is full: set its maxmemory-policy to noeviction")
        return tuple(found)

    async def rest(self, key: str, until: float, why: str) -> bool:
        return bool(await self._run(REST, [self._key("rest", key), self._once()], why, self._ms(until), REMEMBER_MS))

    async def resting(self, keys: Sequence[str]) -> dict[str, Rest]:
        if not keys:
            return {}
        found = await self._run(RESTING, [self._key("rest", key) for key in keys])
        now = self._clock()
        try:
            rests = [each.decode().split(" ", 2) for each in found]
        except (UnicodeDecodeError, AttributeError, TypeError):  # the last two: whatever answers there is no Redis
            raise StoreUnavailable(f"{self._server.name} {FOREIGN}") from None
        return {keys[int(number) - 1]: Rest(now + int(left) / 1000, why) for number, left, why in rests}

    async def spend(self, key: str, limit: int, expires: float | None) -> int | None:
        return await self._add(key, 1, expires, limit)

    async def turn(self, key: str, interval_ms: int, at_most_ms: int) -> Turn:
        keys = [self._key("turn", key), self._once()]
        taken, wait_ms = await self._run(TURN, keys, interval_ms, at_most_ms, REMEMBER_MS)
        return Turn(wait_ms, bool(taken))

    async def keep(self, room: str, key: str, value: bytes, ttl_s: float, at_most: int | None = None) -> None:
        values = self._key("kept", f"{room}:")
        keys = [self._key("ages", room), self._key("ends", room), values + key]
        await self._run(KEEP, keys, values, key, value, round(ttl_s * 1000), "" if at_most is None else at_most)

    async def recall(self, room: str, key: str) -> bytes | None:
        value: bytes | None = await self._server.ask("GET", self._key("kept", f"{room}:{key}"))
        return value

    async def kept(self, room: str) -> int:
        living: int = await self._run(KEPT, [self._key("ends", room)])
        return living

    async def count(self, key: str, expires: float | None, by: int = 1, at_least: int = 0) -> int:
        after = await self._add(key, by, expires, None, at_least)
        assert after is not None, "only a limit refuses"
        return after

    async def counted(self, keys: Sequence[str]) -> dict[str, int]:
        if not keys:
            return {}
        values = await self._server.ask("MGET", *(self._key("count", key) for key in keys))
        try:
            counts = {key: int(value) for key, value in zip(keys, values, strict=True) if value}
        except ValueError:
            raise StoreUnavailable(f"{self._server.name} {FOREIGN}") from None
        return {key: count for key, count in counts.items() if count > 0}

    async def clear(self, *keys: str) -> None:
        if keys:
            await self._server.ask("DEL", *(self._key(kind, key) for kind in ("rest", "count", "turn") for key in keys))

    async def aclose(self) -> None:
        await self._server.aclose()

    async def _add(
        self, key: str, by: int, expires: float | None, limit: int | None = None, at_least: int = 0
    ) -> int | None:
        keys, life = [self._key("count", key), self._once()], None if expires is None else self._ms(expires)
        spelled = ("" if each is None else each for each in (limit, life))
        after: int | None = await self._run(ADD, keys, by, *spelled, at_least, REMEMBER_MS)
        return after

    async def _run(self, script: Script, keys: Sequence[str], *values: str | bytes | int) -> Any:
        try:
            return await self._server.ask("EVALSHA", script.sha, len(keys), *keys, *values)
        except NoScriptError:
            return await self._server.ask("EVAL", script.source, len(keys), *keys, *values)

    def _key(self, kind: str, name: str) -> str:
        return f"{self._prefix}:{kind}:{name}"

    def _once(self) -> str:
        """The key of what comes of one write."""
        return self._key("once", secrets.token_urlsafe(12))

    def _ms(self, moment: float) -> int:
        """Milliseconds from now."""
        return round((moment - self._clock()) * 1000)
