"""A Python function evaluated by worker processes: in chunks of fixed size, so that the results do not depend on the workers."""

from __future__ import annotations

import pickle
import time
import uuid
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import numpy as np

from . import _worker
from ._batch import Batch
from ._natmix import __version__
from ._pool import REMEMBERED, Executors, Pool
from .distributed import WorkerError, Workers

#: Most workers whose values are compared with those of this process.
MOST_COMPARED = 16
#: Share of a chunk's time that sending it may take, and chunks per worker and batch that keep all workers busy.
SENDING, PER_WORKER = 0.05, 4
#: Relative difference above which values are different, not merely rounded differently.
ROUNDING = 1e-6


@dataclass
class _Tally:
    """What was measured."""

    batches: list[int] = field(default_factory=list)
    #: Of the latest chunks.
    seconds: deque[float] = field(default_factory=lambda: deque(maxlen=200))
    computing: float = 0.0
    points: int = 0
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
            values = Batch(self, self.pool, what, chunks).run()
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
        there = Batch(self, self.pool, "value", [point] * copies).run()
        # A function that is called for the first time may take long: time it when it is not.
        for _ in range(3):
            began = time.perf_counter()
            Batch(self, self.pool, "value", [None]).run()
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
