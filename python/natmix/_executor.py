"""A Python function evaluated by worker processes: in chunks of fixed size, so that the results do not depend on the workers."""

from __future__ import annotations

import pickle
import time
import uuid
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, CancelledError, Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from statistics import median
from typing import Any

import numpy as np

from . import _worker
from ._natmix import __version__
from ._pool import REMEMBERED, Executors, Pool
from .distributed import WorkerError, Workers

#: How often a chunk is tried again after its worker was lost.
RETRIES = 3
#: A chunk that takes this many times as long as others, and at least so many seconds, is given to an idle worker too.
SLOW, SLOW_SECONDS = 5.0, 1.0
#: Chunks sent ahead per worker, so that none waits for the host.
AHEAD = 2
#: Seconds between looks at what is under way.
TICK = 0.1
#: Most workers whose values are compared with those of this process.
MOST_COMPARED = 16
#: Share of a chunk's time that sending it may take, and chunks per worker and batch that keep all workers busy.
SENDING, PER_WORKER = 0.05, 4
#: Relative difference above which values are different, not merely rounded differently.
ROUNDING = 1e-6


@dataclass
class _Flight:
    """A chunk under way."""

    chunk: int
    future: Future[Any]
    executor: Any
    began: float


@dataclass
class _Tally:
    """What was measured."""

    batches: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    computing: float = 0.0
    points: int = 0
    chunks: int = 0
    deliveries: int = 0
    retries: int = 0
    duplicates: int = 0
    latency: float = float("nan")


class Spread:
    """A function of many points, called as it is, or in chunks by the workers of an executor while :meth:`using` one."""

    def __init__(self, function: Callable[..., Any]):
        self.function = function
        self.chunk: int | None = None
        self.pool: Pool | None = None
        self.code: bytes | None = None
        self.tell: Callable[[], None] | None = None
        self.has_curvature = getattr(function, "curvature", None) is not None

    def __call__(self, z: np.ndarray) -> Any:
        if self.chunk is None and self.pool is None:
            return self.function(z)
        return self._evaluate("value", z)

    def curvature(self, z: np.ndarray) -> Any:
        """Hessians, by the method of the function."""
        if self.chunk is None and self.pool is None:
            return self.function.curvature(z)  # type: ignore[attr-defined]
        return self._evaluate("curvature", z)

    @contextmanager
    def using(self, executor: Executors | None, chunk: int | None) -> Iterator[None]:
        """Evaluates in chunks of that many points, and by these workers, until the block ends."""
        if self.pool is not None or self.chunk is not None:
            raise RuntimeError("this target is being fitted with an executor: make another one for a fit beside it")
        if chunk is not None and (isinstance(chunk, bool) or not isinstance(chunk, (int, np.integer)) or chunk < 1):
            raise ValueError(f"chunk must be a positive whole number, not {chunk!r}")
        if executor is None and chunk is None:
            yield
            return
        self.chunk = 1 if chunk is None else int(chunk)
        try:
            if executor is not None:
                self._open(executor)
            yield
        finally:
            if self.pool is not None:
                self.pool.close()
                _worker.KNOWN.pop(self.token, None)
            self.pool = self.chunk = self.code = self.tell = None

    def _open(self, executor: Executors) -> None:
        self.token = uuid.uuid4().hex
        self.serial = 0
        self.stopped = False
        self.known: Counter[Any] = Counter()
        self.tally = _Tally()
        self.counted: tuple[float, int | None] = (-float("inf"), None)
        self.pool = Pool(executor)
        if self.pool.shares_memory:
            _worker.KNOWN[self.token] = self.function
        else:
            self._pickled()

    def stop(self) -> None:
        """Ends the evaluation that is under way."""
        self.stopped = True

    # Evaluating

    def _evaluate(self, what: str, z: np.ndarray) -> Any:
        size = self.chunk or 1
        chunks = [z[at : at + size] for at in range(0, len(z), size)]
        if self.pool is None:
            values = [_worker.evaluate(self.function, what, chunk) for chunk in chunks]
        else:
            values = _Batch(self, self.pool, what, chunks).run()
            self.tally.batches.append(len(z))
        return _joined(values)

    def compare(self, points: np.ndarray) -> None:
        """Evaluates one point here and on several workers at once; an error if the values differ."""
        if self.pool is None:
            return
        # Not the centre of the start, where a density may be flat or symmetric.
        point = np.array(points[-1:])
        here = _worker.evaluate(self.function, "value", point)
        copies = min(self.workers() or 4, MOST_COMPARED)
        there = _Batch(self, self.pool, "value", [point] * copies).run()
        # A function that is called for the first time may take long: time it when it is not.
        for _ in range(3):
            began = time.perf_counter()
            _Batch(self, self.pool, "value", [None]).run()
            latency = time.perf_counter() - began
            self.tally.latency = latency if np.isnan(self.tally.latency) else min(self.tally.latency, latency)
        worst = max(_difference(here, value) for value in there)
        if worst > ROUNDING:
            raise WorkerError(
                f"workers give other values than this process for the same point (relative difference {worst:.1e}): the function "
                "must depend on its points alone, not on random numbers or files that differ; check=False skips this test"
            )
        if worst > 0:
            import warnings

            from ._posterior import NatmixWarning

            warnings.warn(
                f"workers differ from this process in the last digits (relative difference {worst:.1e}): the bits of a result "
                "then depend on who evaluates which point, unless all processors and libraries are of one kind",
                NatmixWarning,
                stacklevel=4,
            )

    def workers(self) -> int | None:
        """How many workers there are; asks at most every few seconds."""
        when, count = self.counted
        if self.pool is not None and time.monotonic() - when > REMEMBERED:
            count = self.pool.workers()
            self.counted = (time.monotonic(), count)
        return count

    def task(self, what: str, points: np.ndarray | None, with_code: bool) -> dict[str, Any]:
        """A task for a worker. No two are equal: engines that recognise equal tasks would give a lost one its old result."""
        assert self.pool is not None
        self.serial += 1
        self.tally.deliveries += with_code
        return {
            "version": __version__,
            "token": self.token,
            "code": self._pickled() if with_code else None,
            "what": what,
            "points": points,
            "serial": f"{self.token}-{self.serial}",
            "ignore_interrupts": self.pool.gets_interrupts,
        }

    def _pickled(self) -> bytes:
        """The function as bytes, made once."""
        if self.code is None:
            try:
                import cloudpickle as pickler
            except ImportError:
                pickler = pickle
            try:
                self.code = pickler.dumps(self.function)
            except Exception as error:  # noqa: BLE001 - whatever the function's parts raise
                advice = "" if pickler is not pickle else ", or pip install cloudpickle, which takes functions defined anywhere"
                raise TypeError(
                    f"the function cannot be sent to workers: {type(error).__name__}: {error}. Open files, locks, connections "
                    f"and compiled objects cannot be pickled: let the function make them when it is first called{advice}"
                ) from error
        return self.code

    # Reports

    def describe(self) -> str:
        """The workers in a few words, for the line of progress."""
        if self.pool is None:
            return ""
        count = self.workers() or len(self.known)
        lost = f", {self.tally.retries} chunks tried again" if self.tally.retries else ""
        return f"{count} worker{'' if count == 1 else 's'}{lost}"

    def report(self) -> Workers | None:
        """What was measured; None without an executor."""
        if self.pool is None:
            return None
        tally, seconds = self.tally, self.tally.computing / max(self.tally.points, 1)
        typical = int(median(tally.batches)) if tally.batches else 0
        count = self.workers() or len(self.known)
        return Workers(
            engine=self.pool.name,
            workers=count,
            chunk=self.chunk or 1,
            suggested_chunk=suggested(tally.latency, seconds, typical, count),
            batches=len(tally.batches),
            points=sum(tally.batches),
            points_per_batch=typical,
            seconds_per_point=seconds,
            latency=tally.latency,
            deliveries=tally.deliveries,
            retries=tally.retries,
            duplicates=tally.duplicates,
        )


def suggested(latency: float, seconds: float, points: int, workers: int) -> int:
    """A chunk large enough that sending it costs little, and small enough that all workers have some."""
    if not latency > 0 or not seconds > 0:
        return 1
    enough = int(np.ceil(latency / (SENDING * seconds)))
    return max(1, min(enough, points // (PER_WORKER * max(workers, 1))))


class _Batch:
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
            self._again(chunk, executor, error)
            return
        except RuntimeError as error:
            raise WorkerError(f"the executor takes no more work: {error}") from error
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
        recent = spread.tally.seconds[-200:]
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
                spread.tally.chunks += 1
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
        self.lost[chunk] += 1
        self.spread.tally.retries += 1
        if self.lost[chunk] > RETRIES:
            raise WorkerError(
                f"workers were lost {self.lost[chunk]} times with the same points, of which the first is "
                f"{_shown(self.chunks[chunk])} ({_said(error)})"
            ) from error
        if isinstance(error, BrokenExecutor) and not self.pool.replace(executor):
            raise WorkerError(
                f"the executor is broken and cannot be used again ({_said(error)}): give natmix a function that makes one, so "
                "that it can make another, such as executor=lambda: ..."
            ) from error
        self.todo.appendleft(chunk)


def _joined(values: list[Any]) -> Any:
    """The values of chunks side by side."""
    if isinstance(values[0], tuple):
        if len({len(value) for value in values}) > 1:
            raise TypeError("the target returned different numbers of values for different points")
        return tuple(np.concatenate(parts) for parts in zip(*values))
    return np.concatenate(values)


def _difference(here: Any, there: Any) -> float:
    """Largest relative difference; zero for the same bits."""
    pairs = list(zip(here, there)) if isinstance(here, tuple) else [(here, there)]
    if isinstance(here, tuple) != isinstance(there, tuple) or isinstance(here, tuple) and len(here) != len(there):
        return float("inf")
    worst = 0.0
    for a, b in pairs:
        if a.shape != b.shape:
            return float("inf")
        a, b = np.asarray(a, dtype=float), np.asarray(b, dtype=float)
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        if not same.all():
            with np.errstate(all="ignore"):
                # In units of the largest entry: others may be what rounding left of zero.
                relative = np.abs(a - b)[~same] / max(np.abs(a).max(), np.finfo(float).tiny)
            worst = max(worst, float(np.nan_to_num(relative, nan=np.inf).max()))
    return worst


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
