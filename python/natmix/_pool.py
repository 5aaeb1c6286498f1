"""An executor that natmix was given or makes: how many workers it has, and another one in place of one that broke."""

from __future__ import annotations

import sys
from collections.abc import Callable
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from typing import Any

from . import _worker

#: An executor, or a function without arguments that makes one.
Executors = Executor | Callable[[], Executor]

#: Seconds for which the number of workers of a cluster is remembered: asking the scheduler takes time.
REMEMBERED = 2.0


class Pool:
    """The executor of a fit. One that natmix made is its own to close; one that was given stays open."""

    def __init__(self, executor: Executors):
        self.make: Callable[[], Executor] | None = None
        self.mended = 0
        if _is_executor(executor):
            self.executor: Any = executor
            self.own = False
        elif callable(executor):
            self.make = executor
            self.executor = _made(executor)
            self.own = True
        else:
            raise TypeError(
                "executor must be an executor of concurrent.futures or a function without arguments that makes one, not "
                f"{type(executor).__name__}"
            )

    def submit(self, task: dict[str, Any]) -> Future[Any]:
        """Sends a task to a worker."""
        return self.executor.submit(_worker.run, task)

    @property
    def name(self) -> str:
        """What the executor is called."""
        return type(self.executor).__name__

    @property
    def shares_memory(self) -> bool:
        """Whether the workers are threads of this process, to which nothing need be sent."""
        return isinstance(self.executor, ThreadPoolExecutor)

    @property
    def gets_interrupts(self) -> bool:
        """Whether Ctrl-C reaches the workers too: processes of the same terminal."""
        return isinstance(self.executor, ProcessPoolExecutor) or _loky(self.executor) is not None

    def workers(self) -> int | None:
        """How many workers there are now; None if that is not known."""
        executor = self.executor
        # Process and thread pools and loky; MPI and the executor for Ray; Dask.
        for name in ("_max_workers", "num_workers"):
            count = getattr(executor, name, None)
            if isinstance(count, int) and count > 0:
                return count
        client: Any = getattr(executor, "_client", None)
        if hasattr(client, "nthreads"):
            return sum(client.nthreads().values()) or None
        return None

    def replace(self, broken: Any) -> bool:
        """Puts another executor in place of one that broke; whether that was possible."""
        if broken is not self.executor:
            return True
        executor: Any = self.executor
        loky = _loky(executor)
        other: Any
        if self.make is not None:
            other = _made(self.make)
        elif type(self.executor) is ProcessPoolExecutor:
            other = ProcessPoolExecutor(
                executor._max_workers,
                mp_context=executor._mp_context,
                initializer=executor._initializer,
                initargs=executor._initargs,
                max_tasks_per_child=executor._max_tasks_per_child,
            )
        elif loky is not None and hasattr(loky, "get_reusable_executor"):
            other = loky.get_reusable_executor(max_workers=executor._max_workers)
        else:
            return False
        if self.own:
            _close(executor)
        self.executor, self.own, self.mended = other, True, self.mended + 1
        return True

    def close(self) -> None:
        """Ends the workers that natmix has started."""
        if self.own:
            _close(self.executor)


def _is_executor(thing: Any) -> bool:
    return isinstance(thing, Executor) or (hasattr(thing, "submit") and not isinstance(thing, type))


def _made(make: Callable[[], Executor]) -> Executor:
    made = make()
    if not _is_executor(made):
        raise TypeError(f"the function given as executor returned {type(made).__name__}, not an executor of concurrent.futures")
    return made


def _close(executor: Any) -> None:
    # Without waiting: a worker may hang, and an executor that broke has nobody to wait for.
    more = {"cancel_futures": True} if isinstance(executor, ProcessPoolExecutor) else {}
    executor.shutdown(wait=False, **more)


def _loky(executor: Any) -> Any:
    """The module loky, or joblib's copy of it, if the executor is one of its own."""
    parts = type(executor).__module__.split(".")
    return sys.modules.get(".".join(parts[: parts.index("loky") + 1])) if "loky" in parts else None
