"""One running gateway: the configured chain, its memory, and the searches under way."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from gateway.config import Config

Step = dict[str, Any]
"""One line of the audit: who was considered, what came of it. The winner's step has the outcome `ok`."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a door sends back: `body` satisfies the output schema, whatever happened.

    `argument_error` is true when the caller's arguments were at fault and nobody was asked.
    """

    body: dict[str, Any]
    is_error: bool
    argument_error: bool = False

    @property
    def text(self) -> str:
        """The body as compact JSON with literal non-ASCII."""
        return json.dumps(self.body, ensure_ascii=False, separators=(",", ":"))


class Gateway:
    """Enter it once (`async with`); then search from as many tasks as you like."""

    def __init__(self, config: Config) -> None:
        self.config = config

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    async def search(
        self,
        arguments: Mapping[str, object],
        *,
        client: str = "default",
        progress: Callable[[int, Step], Awaitable[None]] | None = None,
    ) -> Answer:
        """Answer one call of `web_search`. Never raises but for cancellation: a fault of ours is `internal_error`.

        `progress` is awaited once per provider considered, skipped ones and the winner included, with a number that
        counts from 1. Cancelling the calling task leaves the search.
        """
        raise NotImplementedError

    async def status(self) -> dict[str, Any]:
        """What `web_search_status` says. Costs no request to a vendor."""
        raise NotImplementedError

    def usable(self) -> tuple[str, ...]:
        """Titles of the providers that are configured, in the chain and not out for auth, as of start or reload."""
        raise NotImplementedError

    async def reload(self, config: Config) -> None:
        """Go on with `config`; searches under way end on the old one. Host, port and state stay."""
        raise NotImplementedError
