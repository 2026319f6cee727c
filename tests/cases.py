"""Many cases in one test, where a test of its own for each would cost more than the case."""

from __future__ import annotations

from types import TracebackType


class Cases:
    """All are tried: `with Cases() as cases: with cases.case("its name"): ...`. In the end it fails with every case
    that did, and each says its name.
    """

    def __init__(self) -> None:
        self.failed: list[Exception] = []

    def case(self, name: str) -> Case:
        return Case(name, self.failed)

    def __enter__(self) -> Cases:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None and self.failed:
            raise ExceptionGroup("failed", self.failed)


class Case:
    def __init__(self, name: str, failed: list[Exception]) -> None:
        self._name = name
        self._failed = failed

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if not isinstance(error, Exception):
            return False
        error.add_note(f"in the case: {self._name}")
        self._failed.append(error)
        return True
