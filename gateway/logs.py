"""Log lines: to stderr, one line an event, never a secret, on any console."""

from __future__ import annotations

import io
import logging
import sys
import traceback
from collections.abc import Sequence
from types import TracebackType
from typing import Any

from gateway.settings import Config
from providers._reading import redact, spellings

OURS = ("gateway", "providers")
LEVELS = {"error": logging.ERROR, "warn": logging.WARNING, "info": logging.INFO, "debug": logging.DEBUG}

_BREAKS = str.maketrans(
    {"\n": "\\n", "\r": "\\r", "\x85": "\\x85", "\u2028": "\\u2028", "\u2029": "\\u2029", "\x1b": "\\x1b"}
)


class OneLine(logging.Formatter):
    """An event as one line, secrets replaced, with the worker that tells it where there are several.

    A traceback becomes the error's words and the way to it.
    """

    def __init__(self, secrets: Sequence[str] = ()) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")
        self._forms = spellings(secrets)

    def format(self, record: logging.LogRecord) -> str:
        # a copy: a formatted record keeps its exception text for whoever formats it next
        own: dict[str, Any] = {"exc_text": None, "stack_info": None}
        if record.processName not in (None, "MainProcess"):
            own["name"] = f"{record.processName} {record.name}"
        line = super().format(logging.makeLogRecord(record.__dict__ | own))
        return redact(line, self._forms).translate(_BREAKS)

    def formatException(  # noqa: N802  # logging's name
        self,
        ei: tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None],
    ) -> str:
        error = ei[1]
        return "" if error is None else " <- ".join(_told(each) for each in _causes(error))


def set_up(config: Config) -> None:
    """Log as `config` says, from now on; call it again after a reload.

    Other people's loggers stay quiet below warnings: httpx2 writes whole URLs at info, the MCP SDK a line a request.
    """
    if isinstance(sys.stderr, io.TextIOWrapper):
        # a console that cannot show a sign must not end the process
        sys.stderr.reconfigure(errors="backslashreplace")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(OneLine(config.secrets))
    root = logging.getLogger()
    for old in root.handlers[:]:
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(logging.INFO if config.log_level == "debug" else logging.WARNING)
    for name in OURS:
        logging.getLogger(name).setLevel(LEVELS[config.log_level])


def _causes(error: BaseException) -> list[BaseException]:
    """`error` and what led to it, innermost last; of a group its first member."""
    chain = [error]
    while len(chain) < 10:
        last = chain[-1]
        cause = last.exceptions[0] if isinstance(last, BaseExceptionGroup) else last.__cause__ or last.__context__
        if cause is None or cause in chain:
            break
        chain.append(cause)
    return chain


def _told(error: BaseException) -> str:
    way = "".join(
        f" at {frame.filename}:{frame.lineno}" for frame in reversed(traceback.extract_tb(error.__traceback__)[-6:])
    )
    return f"{type(error).__name__}: {error}{way}"
