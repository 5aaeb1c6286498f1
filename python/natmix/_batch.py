"""The chunks of one batch: sent to workers, collected, tried again where a worker was lost or is slow."""

from __future__ import annotations

import pickle
import time
from collections import Counter, OrderedDict, deque
from concurrent.futures import BrokenExecutor, CancelledError, Future
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np

from ._natmix import __version__
from ._pool import Pool
from .distributed import WorkerError

if TYPE_CHECKING:
    from ._executor import Spread

#: How often a chunk is tried again after its worker was lost.
RETRIES = 3
#: A chunk that takes this many times as long as others, and at least so many seconds, is given to an idle worker too.
SLOW, SLOW_SECONDS = 5.0, 1.0
#: Chunks sent ahead per worker, so that none waits for the host.
AHEAD = 2
#: Seconds between looks at what is under way.
TICK = 0.1


@dataclass
class _Flight:
    """A chunk under way."""

    chunk: int
    future: Future[Any]
    executor: Any
    began: float


class Batch:
    """The chunks of one batch: sent, collected, tried again."""

    def __init__(self, spread: Spread, pool: Pool, what: str, chunks: list[Any]):
        self.spread, self.pool, self.what, self.chunks = spread, pool, what, chunks
        self.values: list[Any] = [None] * len(chunks)
        self.missing = len(chunks)
        self.todo = deque(range(len(chunks)))
        self.flights: OrderedDict[int, _Flight] = OrderedDict()
        self.arrived: SimpleQueue[int] = SimpleQueue()
        self.done = [False] * len(chunks)
        self.lost: Counter[int] = Counter()
        self.needs_code: set[int] = set()
        self.twice: set[int] = set()
        self.flown = 0
        self.refused = 0

    def run(self) -> list[Any]:
        """The values of all chunks, in their order."""
        try:
            while self.missing:
                while self.todo and len(self.flights) < self._most():
                    self._send(self.todo.popleft())
                try:
                    key = self.arrived.get(timeout=TICK)
                except Empty:
                    self._wait()
                    continue
                flight = self.flights.pop(key, None)
                if flight is not None:
                    self._receive(flight)
                if self.spread.stopped:
                    raise KeyboardInterrupt("interrupted twice")
            return self.values
        finally:
            for flight in self.flights.values():
                flight.future.cancel()

    def _most(self) -> int:
        """Chunks to have under way: while workers are new, no more than these, so that the function is not sent too often."""
        workers, known = self.spread.workers(), len(self.spread.known)
        if workers is None:
            return len(self.chunks) if known else 4
        return workers * (AHEAD if known >= workers else 1)

    def _send(self, chunk: int) -> None:
        if self.done[chunk]:
            return
        task = self.spread.task(self.what, self.chunks[chunk], chunk in self.needs_code)
        executor = self.pool.executor
        try:
            future = self.pool.submit(task)
        except BrokenExecutor as error:
            # Not this chunk's fault: it has not been sent.
            self.refused += 1
            self.spread.tally.retries += 1
            if self.refused > RETRIES:
                raise WorkerError(f"the executor broke {self.refused} times before it took a chunk ({_said(error)})") from error
            self._replace(executor, error)
            self.todo.appendleft(chunk)
            return
        except RuntimeError as error:
            raise WorkerError(f"the executor takes no more work: {error}") from error
        self.refused = 0
        self.flown += 1
        key = self.flown
        self.flights[key] = _Flight(chunk, future, executor, time.monotonic())
        future.add_done_callback(lambda _, key=key, arrived=self.arrived: arrived.put(key))  # type: ignore[misc]

    def _wait(self) -> None:
        """Nothing has arrived for a moment: look whether a worker is slow."""
        spread = self.spread
        if spread.stopped:
            raise KeyboardInterrupt("interrupted twice")
        if spread.tell is not None:
            spread.tell()
        recent = spread.tally.seconds
        idle = (spread.workers() or len(spread.known)) - len(self.flights)
        if self.todo or idle <= 0 or not recent:
            return
        limit = max(SLOW_SECONDS, SLOW * median(recent))
        for flight in list(self.flights.values())[:idle]:
            if time.monotonic() - flight.began > limit and flight.chunk not in self.twice:
                self.twice.add(flight.chunk)
                spread.tally.duplicates += 1
                self._send(flight.chunk)

    def _receive(self, flight: _Flight) -> None:
        chunk = flight.chunk
        try:
            error = flight.future.exception(timeout=0)
        except CancelledError as cancelled:
            error = cancelled
        if self.done[chunk]:
            return
        if error is not None:
            self._again(chunk, flight.executor, error)
            return
        state, worker, *rest = flight.future.result()
        spread = self.spread
        if state == "done":
            value, seconds = rest
            self.values[chunk], self.done[chunk] = value, True
            self.missing -= 1
            spread.known[worker] += 1
            if self.chunks[chunk] is not None:
                spread.tally.seconds.append(seconds)
                spread.tally.computing += seconds
                spread.tally.points += len(self.chunks[chunk])
        elif state == "unknown":
            self.needs_code.add(chunk)
            self.todo.appendleft(chunk)
        elif state == "raised":
            _raise(worker, *rest)
        elif state == "version":
            raise WorkerError(
                f"the worker {_named(worker)} has natmix {rest[0]}, this process {__version__}: install the same version for both"
            )
        else:
            raise WorkerError(
                f"the worker {_named(worker)} cannot read the function: {rest[0]}. What it imports must be installed for the "
                "workers too; with cloudpickle, functions of the script itself travel along"
            )

    def _again(self, chunk: int, executor: Any, error: BaseException) -> None:
        """A worker was lost with this chunk: another one gets it, a limited number of times."""
        missing = _missing_module(error)
        if missing is not None:
            raise WorkerError(
                f"a worker cannot import natmix ({missing}): install natmix {__version__} and NumPy where the workers run"
            ) from error
        if isinstance(error, BrokenExecutor) and not self.spread.known:
            raise WorkerError(
                f"the workers died before the first of them had answered ({_said(error)}): can they import natmix and what the "
                "function needs? A script that starts processes needs `if __name__ == '__main__':` around what it does"
            ) from error
        self.spread.tally.retries += 1
        if any(flight.chunk == chunk for flight in self.flights.values()):
            # It was sent twice, as slow: the other copy decides.
            return
        self.lost[chunk] += 1
        if self.lost[chunk] > RETRIES:
            raise WorkerError(
                f"workers were lost {self.lost[chunk]} times with the same points, of which the first is "
                f"{_shown(self.chunks[chunk])} ({_said(error)})"
            ) from error
        if isinstance(error, BrokenExecutor):
            self._replace(executor, error)
        self.todo.appendleft(chunk)

    def _replace(self, executor: Any, error: BaseException) -> None:
        """Another executor in place of one that broke."""
        if not self.pool.replace(executor):
            raise WorkerError(
                f"the executor is broken and cannot be used again ({_said(error)}): give natmix a function that makes one, so "
                "that it can make another, such as executor=lambda: ..."
            ) from error


def _raise(worker: Any, packed: bytes | None, text: str, trace: str) -> None:
    """Raises what the function raised, with the place in the worker as a note."""
    error: Any = None
    if packed is not None:
        try:
            error = pickle.loads(packed)
        except Exception:  # noqa: BLE001 - the class is not known here
            pass
    if not isinstance(error, Exception):
        error = RuntimeError(text)
    error.add_note(f"in the worker {_named(worker)}:\n{trace}")
    raise error


def _named(worker: Any) -> str:
    host, process = worker
    return f"{host}, process {process}"


def _said(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _shown(points: np.ndarray | None) -> str:
    return "unknown" if points is None else np.array2string(points[0], threshold=6, precision=6)


def _missing_module(error: BaseException | None) -> str | None:
    """What is said about natmix, if it is missing where an engine has tried to import it."""
    seen = 0
    while error is not None and seen < 10:
        if isinstance(error, ImportError) and "natmix" in str(error):
            return _said(error)
        error, seen = error.__cause__ or error.__context__, seen + 1
    return None
