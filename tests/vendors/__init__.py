"""Vendors to play with: a real HTTP server that answers as search vendors do, faults included.

In a test: `async with Played() as played`, then `played.script("tavily", Play(429), success("tavily"))`. From another
process: `python -m tests.vendors`.
"""

from tests.vendors.plays import (
    GARBAGE,
    RESET,
    SILENCE,
    Play,
    Request,
    Script,
    bomb,
    elsewhere,
    json_play,
    page_play,
    recording,
)
from tests.vendors.pointing import KEYS, configuration
from tests.vendors.server import Played
from tests.vendors.successes import played_names, success
from tests.vendors.trap import Trap

__all__ = [
    "GARBAGE",
    "KEYS",
    "RESET",
    "SILENCE",
    "Play",
    "Played",
    "Request",
    "Script",
    "Trap",
    "bomb",
    "configuration",
    "elsewhere",
    "json_play",
    "page_play",
    "played_names",
    "recording",
    "success",
]
