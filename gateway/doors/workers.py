"""The parent of several workers: it has the listeners, passes signals on, and replaces who dies.

It imports nothing of the web and serves nobody, so there is little that could end it.
"""

from __future__ import annotations

import contextlib
import logging
import multiprocessing
import socket
from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess

from gateway.clock import Clock
from gateway.doors import signals
from gateway.doors.listening import DRAIN_S, GRACE_S, announce
from gateway.doors.worker import News, Order, work
from gateway.logs import set_up
from gateway.reloading import faulted, tell
from gateway.settings import Config
from gateway.tally import Run

log = logging.getLogger(__name__)

# the same everywhere, and a child knows nothing of its parent but what it was given
SPAWN = multiprocessing.get_context("spawn")

NEVER_SERVED = 3
"""Exit code when no worker could be started: uvicorn's own for an application that does not start."""

STEADY_S = 1.0
"""Seconds that a worker must have served for its end to be an accident rather than a habit."""
FIRST_DELAY_S = 1.0
MOST_DELAY_S = 30.0

KILL_AFTER_S = DRAIN_S + GRACE_S + 0.6
"""Seconds that workers have to stop, so that we exit with 0 before a container runtime's ten seconds are over."""
HURRY_S = 1.0
"""The same once somebody has pressed Ctrl-C twice."""


def delay_s(falls: int) -> float:
    """Seconds until a worker is replaced that ended `falls` times in a row before it was steady."""
    return 0.0 if falls < 2 else min(FIRST_DELAY_S * 2.0 ** min(falls - 2, 10), MOST_DELAY_S)


@dataclass(eq=False)
class Worker:
    """A process that serves. `since` is when it was ready, else when it was started, in ticks.

    `told` is the configuration it was last given; not `settled` while it has not said what came of that.
    """

    number: int
    process: SpawnProcess
    pipe: Connection
    told: Config
    since: float
    ready: bool = False
    settled: bool = True

    def order(self, what: Order | Config) -> None:
        """Tell it. Whether it is there any more is seen by its end."""
        with contextlib.suppress(OSError):
            self.pipe.send(what)


class Workers:
    """As many workers as `config.server.workers` says, on `sockets` that are bound.

    `read_again` gives what a hang-up puts in force instead of a configuration; None: nothing. `task` is what each
    process runs, called with its pipe, the sockets, the configuration and the run they all belong to.
    """

    def __init__(
        self,
        config: Config,
        sockets: list[socket.socket],
        read_again: Callable[[Config], Config | None],
        *,
        task: Callable[..., None] = work,
        clock: Clock | None = None,
    ) -> None:
        self._clock = clock or Clock()
        self._config = config
        self._sockets = sockets
        self._read_again = read_again
        self._task = task
        self._run = Run(started=self._clock.wall())
        self._workers: dict[int, Worker] = {}
        self._due: dict[int, float] = {}
        self._falls: dict[int, int] = {}
        self._served = False
        self._reloading = False
        self._ending: Order | None = None
        self._kill_at = inf

    def serve(self) -> int:
        """Serve until SIGTERM or SIGINT; SIGHUP reloads. The exit code."""
        with signals.numbers() as numbers:
            self._want_all()
            while self._workers or self._due:
                self._attend(numbers)
        if self._served or self._ending is not None:
            return 0
        log.error("no worker could be started, so nothing is served")
        return NEVER_SERVED

    def _attend(self, numbers: socket.socket) -> None:
        """Do what is due, wait for something to happen, and do what follows."""
        for number in [number for number, moment in self._due.items() if moment <= self._clock.ticks()]:
            del self._due[number]
            self._start(number)
        pipes = {each.pipe: each for each in self._workers.values() if not each.pipe.closed}
        ends = {each.process.sentinel: each for each in self._workers.values()}
        moment = min([*self._due.values(), self._kill_at])
        happened = wait([numbers, *pipes, *ends], None if moment == inf else max(moment - self._clock.ticks(), 0.0))
        # what a worker said last comes before its end
        for pipe in pipes.keys() & set(happened):
            self._hear(pipes[pipe])
        for end in ends.keys() & set(happened):
            self._bury(ends[end])
        if numbers in happened:
            for number in numbers.recv(64):
                self._signalled(number)
        if self._clock.ticks() >= self._kill_at:
            self._kill()

    # -----------------------------------------------------------------------------------------------------------------
    # workers come and go

    def _want_all(self) -> None:
        """Let every worker be started that is not there."""
        for number in range(1, self._config.server.workers + 1):
            if number not in self._workers:
                self._due.setdefault(number, self._clock.ticks())

    def _start(self, number: int) -> None:
        here, there = SPAWN.Pipe()
        given = (there, self._sockets, self._config, self._run)
        # the name is in its log lines; a daemon is told to end if we do without a word
        process = SPAWN.Process(target=self._task, args=given, name=f"worker {number}", daemon=True)
        try:
            with signals.deaf():
                process.start()
        except OSError as error:
            here.close()
            self._fell(number, steady=False, how=f"could not be started: {error.strerror}")
        else:
            log.debug("worker %d is started: process %d", number, process.pid)
            self._workers[number] = Worker(number, process, here, self._config, self._clock.ticks())
        finally:
            there.close()

    def _bury(self, worker: Worker) -> None:
        del self._workers[worker.number]
        worker.process.join()
        code = worker.process.exitcode or 0
        worker.process.close()
        worker.pipe.close()
        self._settle()
        if self._ending is None:
            steady = worker.ready and self._clock.ticks() - worker.since >= STEADY_S
            how = f"was ended by {signals.named(-code)}" if code < 0 else f"ended with code {code}"
            self._fell(worker.number, steady=steady, how=how)

    def _fell(self, number: int, *, steady: bool, how: str) -> None:
        """A worker is there no more that should be."""
        self._falls[number] = 0 if steady else self._falls.get(number, 0) + 1
        if not self._served:
            # perhaps none can be started at all: what becomes of the others will show
            log.error("worker %d %s before it served", number, how)
            return
        wait_s = delay_s(self._falls[number])
        log.error("worker %d %s; it is replaced %s", number, how, f"in {wait_s:g} s" if wait_s else "at once")
        self._due[number] = self._clock.ticks() + wait_s

    def _hear(self, worker: Worker) -> None:
        try:
            news = worker.pipe.recv()
        except (EOFError, OSError):
            worker.pipe.close()
            return
        if news is News.READY:
            worker.ready, worker.since = True, self._clock.ticks()
            if self._ending is not None:
                return  # it was told to end while it started
            log.info("worker %d is ready: process %d", worker.number, worker.process.pid)
            if not self._served:
                self._served = True
                announce(self._sockets)
                self._want_all()
        else:
            worker.settled = True
            if news is News.KEPT:
                log.error("reload: worker %d goes on with the old configuration", worker.number)
        self._catch_up(worker)

    # -----------------------------------------------------------------------------------------------------------------
    # signals

    def _signalled(self, number: int) -> None:
        name = signals.named(number)
        if name == "SIGINT":
            self._end(Order.INTERRUPT)
        elif self._ending is not None:
            return
        elif name == "SIGTERM":
            self._end(Order.DRAIN)
        elif (new := self._read()) is not None:
            set_up(new)
            self._config, self._reloading = new, True
            for worker in self._workers.values():
                self._catch_up(worker)
            self._settle()

    def _read(self) -> Config | None:
        try:
            return self._read_again(self._config)
        except Exception as fault:  # noqa: BLE001 - told in the log: workers who serve must not lose their parent by it
            faulted(fault)
            return None

    def _catch_up(self, worker: Worker) -> None:
        """Give `worker` the configuration in force. Never a second one before it is done: its pipe must not fill up."""
        if self._ending is None and worker.ready and worker.settled and worker.told is not self._config:
            worker.told, worker.settled = self._config, False
            worker.order(self._config)
        self._settle()

    def _settle(self) -> None:
        """Say once what came of a reload, when every worker has done it."""
        if self._reloading and all(each.settled and each.told is self._config for each in self._workers.values()):
            self._reloading = False
            tell(self._config)

    def _end(self, order: Order) -> None:
        now = self._clock.ticks()
        if self._ending is None:
            log.info("stopping, and %d workers with us", len(self._workers))
            self._kill_at = now + KILL_AFTER_S
            self._due.clear()
            # workers have their own, which they close when nobody should come any more
            for each in self._sockets:
                each.close()
        elif self._ending is order:
            self._kill_at = min(self._kill_at, now + HURRY_S)
        self._ending = order
        for worker in self._workers.values():
            if worker.ready:
                worker.order(order)
            else:
                worker.process.terminate()

    def _kill(self) -> None:
        self._kill_at = inf
        for worker in self._workers.values():
            log.warning("worker %d has not ended in time and is killed", worker.number)
            worker.process.kill()
