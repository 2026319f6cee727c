"""`python -m tests.account_worker FILE BASE_URL`: one search with the login in FILE, in a process of its own.

Says "asking", and then what it came to.
"""

from __future__ import annotations

import sys
from pathlib import Path

import anyio

from providers import Draft, Query, Settings
from providers._login import _grant
from providers.grok import Grok


async def search(file: Path, base_url: str) -> str:
    grant = _grant.read(file)
    assert grant is not None
    grok = Grok(Settings(base_url=base_url, account=file))
    draft = grok.draft(Query("moss"), grant.key)
    assert isinstance(draft, Draft)
    print("asking", flush=True)
    reply = await grok.send(draft, 20)
    await grok.aclose()
    return f"{reply.outcome} {reply.detail}".rstrip()


if __name__ == "__main__":
    print(anyio.run(search, Path(sys.argv[1]), sys.argv[2]), flush=True)
