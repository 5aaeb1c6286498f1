"""What worker processes run: one chunk of points per task.

A task is a dictionary and a reply a tuple, both of plain values, so that host and worker understand each other even if their
versions differ. The function travels once: tasks name it by a token, and a worker that does not know it says so.
"""

from __future__ import annotations

import os
import pickle
import signal
import socket
import threading
import time
import traceback
from collections import OrderedDict
from typing import Any

import numpy as np

from ._natmix import __version__

#: The functions that this process knows, by token. Threads of the host find theirs here.
KNOWN: OrderedDict[str, Any] = OrderedDict()
#: Functions that a worker keeps; one that was dropped is sent again when it is needed.
MOST_KNOWN = 8


def run(task: dict[str, Any]) -> tuple[Any, ...]:
    """The reply to a task: what happened, which worker it is, and what belongs to it."""
    worker = (socket.gethostname(), os.getpid())
    if task["version"] != __version__:
        return "version", worker, __version__
    if task["ignore_interrupts"]:
        _ignore_interrupts()
    token = task["token"]
    if token not in KNOWN:
        if task["code"] is None:
            return "unknown", worker
        try:
            function = pickle.loads(task["code"])
        except Exception as error:  # noqa: BLE001 - whatever unpickling runs
            return "unreadable", worker, f"{type(error).__name__}: {error}"
        while len(KNOWN) >= MOST_KNOWN:
            KNOWN.popitem(last=False)
        KNOWN[token] = function
    if task["points"] is None:
        return "done", worker, None, 0.0
    began = time.perf_counter()
    try:
        value = evaluate(KNOWN[token], task["what"], task["points"])
    except Exception as error:  # noqa: BLE001 - the user's own, raised again by the host
        return "raised", worker, _packed(error), f"{type(error).__name__}: {error}", traceback.format_exc()
    return "done", worker, value, time.perf_counter() - began


def evaluate(function: Any, what: str, points: np.ndarray) -> tuple[np.ndarray, ...] | np.ndarray:
    """Values at a chunk of points: an array, or a tuple of arrays, with a row per point."""
    # An array of its own: the function may modify it.
    value = function.curvature(points) if what == "curvature" else function(np.array(points))
    if value is None or isinstance(value, list):
        raise TypeError(f"the target returned {'None' if value is None else 'a list'}: return log_p, or (log_p, grad)")
    parts = tuple(np.asarray(part) for part in (value if isinstance(value, tuple) else (value,)))
    for part in parts:
        if part.shape[:1] != points.shape[:1]:
            raise ValueError(
                f"the target returned an array of shape {part.shape} for points of shape {points.shape}: the function gets "
                "several points at once, one per row"
            )
    return parts if isinstance(value, tuple) else parts[0]


def _packed(error: Exception) -> bytes | None:
    """The exception as bytes, if it survives the way."""
    try:
        try:
            import cloudpickle as pickler
        except ImportError:
            pickler = pickle
        packed = pickler.dumps(error)
        pickle.loads(packed)
    except Exception:  # noqa: BLE001 - whatever the class of the exception does
        return None
    return packed


def _ignore_interrupts() -> None:
    """Ctrl-C goes to every process of a terminal; the host decides what it means."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_IGN)
