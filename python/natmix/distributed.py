"""Fits over worker processes and clusters: ``natmix.fit(f, dim=..., executor=...)``.

Any executor of :mod:`concurrent.futures` will do: process pools, joblib's loky, Dask (``client.get_executor()``), MPI
(``mpi4py.futures.MPIPoolExecutor``), and Ray through :func:`ray`. See the page "More than one machine".
"""

from __future__ import annotations

from concurrent.futures import Executor, Future
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["Reached", "WorkerError", "Workers", "ray"]


@dataclass(frozen=True)
class Reached:
    """The mixture that a fit had reached when its workers were lost: ``natmix.fit(..., start=error.reached)`` goes on from it.

    It can be pickled.
    """

    #: Iterations that were complete.
    iterations: int
    #: Weights of the Gaussians, ``(k,)``.
    weights: np.ndarray
    #: Means, ``(k, d)``.
    means: np.ndarray
    #: Covariances ``(k, d, d)``, or variances ``(k, d)``.
    covariances: np.ndarray


class WorkerError(RuntimeError):
    """Workers were lost too often, or cannot evaluate the function as this process does. The message says which and what to try.

    ``reached`` is a :class:`Reached` where the fit had completed an iteration, otherwise None.
    """

    reached: Reached | None = None


@dataclass(frozen=True)
class Workers:
    """What was measured while workers evaluated a fit: ``post.workers``."""

    #: Class of the executor.
    engine: str
    #: Number of workers.
    workers: int
    #: Points per chunk: the setting ``chunk``.
    chunk: int
    #: A chunk large enough that sending it costs little, and small enough that all workers have some.
    suggested_chunk: int
    #: Calls of the function with all points of a step, and the points in all of them and in a typical one.
    batches: int
    points: int
    points_per_batch: int
    #: Seconds that the function takes for a point, in a worker.
    seconds_per_point: float
    #: Seconds until a worker has answered a task without points.
    latency: float
    #: How often the function was sent; chunks sent again since workers were lost; chunks of slow workers sent twice.
    deliveries: int
    retries: int
    duplicates: int

    @property
    def advice(self) -> str | None:
        """What to set where the workers lost much of their time; None where they did not."""
        if self.latency > 0.5 * self.chunk * self.seconds_per_point and self.suggested_chunk >= 2 * self.chunk:
            return (
                f"a chunk took {1e3 * self.chunk * self.seconds_per_point:.2g} ms to compute and {1e3 * self.latency:.2g} ms to "
                f"send: chunk={self.suggested_chunk} would suit this function better"
            )
        busy = -(-self.points_per_batch // self.chunk)
        if busy < self.workers and self.chunk > 1:
            chunks = "1 chunk" if busy == 1 else f"{busy} chunks"
            return (
                f"a step has {chunks} for {self.workers} workers: a smaller chunk than {self.chunk} would keep more of them busy"
            )
        return None


class _RayExecutor(Executor):
    """Tasks of Ray as an executor. Ray itself repeats a task whose worker process or node was lost."""

    def __init__(self, module: Any, options: dict[str, Any]):
        from . import _worker

        self._ray = module
        self._cpus = float(options.get("num_cpus", 1))
        self._task = module.remote(**{"max_retries": 3, "num_cpus": 1, **options})(_worker.run)

    @property
    def num_workers(self) -> int:
        """Tasks that the cluster runs at once."""
        return max(1, int(self._ray.cluster_resources().get("CPU", 1) / max(self._cpus, 1e-9)))

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Starts a task; only natmix's own."""
        future: Future[Any] = Future()
        reference = self._task.remote(*args, **kwargs)

        def arrived(inner: Future[Any]) -> None:
            error = inner.exception()
            if future.cancelled():
                return
            if error is None:
                future.set_result(inner.result())
            else:
                future.set_exception(error)

        reference.future().add_done_callback(arrived)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Nothing to do: Ray and its workers belong to the caller."""


def ray(**options: Any) -> Executor:
    """An executor over the tasks of Ray, for ``natmix.fit(..., executor=...)``.

    Ray is started on this machine unless ``ray.init(...)`` has connected to a cluster before. ``options`` are those of a Ray task
    (``num_cpus``, ``num_gpus``, ``resources``, ``runtime_env``, ...). A task whose worker was lost is repeated by Ray itself
    (``max_retries``, 3 by default).
    """
    try:
        import ray as module
    except ImportError:
        raise ImportError("natmix.distributed.ray needs Ray: pip install ray") from None
    if not module.is_initialized():
        module.init(include_dashboard=False, log_to_driver=False)
    return _RayExecutor(module, options)
