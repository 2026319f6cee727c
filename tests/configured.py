"""A configuration file in a home, and what comes of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import providers
from gateway.config import Config, ConfigUnparsable, ProviderSettings, load

KEYED = {
    name: "http://searxng.example" if name.endswith("_URL") else f"{name.lower()}-0123"
    for name in (providers.find(each).credential for each in providers.names())
    if name is not None
}
"""What every vendor needs."""


class Home:
    """A user's home with a configuration file in it."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / ".config" / "websearch-gateway" / "config.json"
        self.file.parent.mkdir(parents=True)
        self.environ = {"HOME": str(folder)}

    def write(self, content: object) -> None:
        self.file.write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")
        self.file.chmod(0o600)

    def load(self, content: object = None, **environ: str) -> Config:
        if content is not None:
            self.write(content)
        return load(self.environ | environ)

    def complaints(self, content: object = None, **environ: str) -> tuple[str, ...]:
        """What is wrong, when it is so wrong that the program ends."""
        with pytest.raises(ConfigUnparsable) as raised:
            self.load(content, **environ)
        return raised.value.complaints


def provider(config: Config, name: str) -> ProviderSettings:
    return next(each for each in config.providers if each.name == name)


def chain(config: Config) -> list[str]:
    return [each.name for each in config.chain]
