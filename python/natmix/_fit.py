"""From a target to a posterior."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from . import _natmix
from ._posterior import NatmixWarning, Posterior
from ._progress import Progress
from ._target import Init, Target, from_callable, pair


def fit(
    target: Target | Callable[..., Any],
    *,
    dim: int | None = None,
    init: Init | None = None,
    names: Sequence[str] | None = None,
    gradient: str = "auto",
    method: str = "auto",
    components: int | str = "auto",
    covariance: str = "auto",
    rule: str | None = None,
    rate: float | None = None,
    weight_rate: float | None = None,
    draws: str = "auto",
    draws_per_component: int | None = None,
    entropy_trick: str = "fitted",
    minibatch: int | None = None,
    tolerance: float = 0.01,
    max_evals: int | None = None,
    max_seconds: float | None = None,
    seed: int = 1,
    threads: int = 0,
    start: Posterior | None = None,
    progress: bool | None = None,
) -> Posterior:
    """Fit a mixture of Gaussians to a log density.

    Ctrl-C ends the fit after its present iteration and returns what was reached. Exceptions of the target come back as they
    were raised. A :class:`natmix.NatmixWarning` says when a diagnostic speaks against the result.

    Parameters
    ----------
    target : Target or callable
        A target from ``natmix.models`` or one of the ``natmix.from_...`` functions; or a function of points ``(n, d)`` as
        :func:`natmix.from_callable` describes, together with ``dim``.
    dim : int, optional
        Dimension, for a function.
    init : (mean, sd), optional
        Where a start may be drawn from, in the space that is fitted: numbers, or arrays of length ``d``.
    names : sequence of str, optional
        A name for each coordinate, for a function.
    gradient : {"auto", "numerical", "none"}
        What to do about a function that returns values only; see :func:`natmix.from_callable`.
    method : str
        ``"auto"``, or a method that ``natmix methods`` lists: ``"bbvi"``, ``"ngvi"``, ``"von"``, ``"vogn"``,
        ``"mixture-draws"``, ``"component-draws"``.
    components : int or "auto"
        Number of Gaussians.
    covariance : {"auto", "full", "diag"}
    rule : {"plain", "improved", "trust-region"}, optional
        Update rule, the method's own unless given.
    rate, weight_rate : float, optional
        Step sizes of components and weights.
    draws : {"auto", "independent", "antithetic", "orthogonal", "cubature"}
        How points are drawn.
    draws_per_component : int, optional
        Points a component and iteration.
    entropy_trick : {"fitted", "on", "off"}
    minibatch : int, optional
        Rows in a minibatch, for models with data.
    tolerance : float
        Nats of expected gain below which the fit stops.
    max_evals, max_seconds : optional
        Limits on evaluations of the target and on time.
    seed : int
        The same seed and settings give the same bits, for any number of threads.
    threads : int
        Threads; 0 is one a core.
    start : Posterior, optional
        Start from an earlier posterior instead of around ``init``.
    progress : bool, optional
        Whether to show progress; by default in terminals and notebooks.

    Returns
    -------
    Posterior

    Examples
    --------
    >>> def normal(z):
    ...     return -0.5 * ((z - 1) ** 2).sum(axis=1), 1 - z
    >>> post = fit(normal, dim=2, components=1, seed=3)
    >>> [round(float(x), 4) for x in post.means[0]]
    [1.0, 1.0]
    """
    if not isinstance(target, Target):
        if dim is None:
            raise TypeError("natmix.fit needs dim=... with a function")
        target = from_callable(target, dim, init=init, names=names, gradient=gradient)
        if gradient == "none" and method == "auto":
            method = "bbvi"
    elif dim is not None and dim != target.dim:
        raise ValueError(f"dim={dim}, but the target has dimension {target.dim}")
    elif names is not None:
        raise TypeError("names go with a function; this target has its own")
    if start is not None and not isinstance(start, Posterior):
        raise TypeError(f"start must be a natmix.Posterior, not {type(start).__name__}")
    mean, sd = pair(init) or target.init or (None, None)
    settings = {
        "method": method,
        "components": str(components),
        "covariance": covariance,
        "rule": rule,
        "rate": rate,
        "weight_rate": weight_rate,
        "draws": draws,
        "draws_per_component": _whole("draws_per_component", draws_per_component),
        "entropy_trick": entropy_trick,
        "minibatch": _whole("minibatch", minibatch),
        "tolerance": tolerance,
        "max_evals": _whole("max_evals", max_evals),
        "max_seconds": max_seconds,
        "init_mean": _numbers("mean", mean, target.dim),
        "init_sd": _numbers("sd", sd, target.dim),
        "seed": _whole("seed", seed),
        "threads": _whole("threads", threads),
    }
    begin = None if start is None else start._record.mixture
    with Progress.wanted(progress, max_evals) as show:
        run = _natmix.fit(target.native, settings, begin, show)
    post = Posterior._of(run, target)
    if post.stop_reason == "cancelled":
        warnings.warn(f"interrupted after {post.iterations} iterations: this is what was reached", NatmixWarning, 2)
    elif not post.trusted:
        warnings.warn("do not rely on this fit as it stands: " + "; ".join(post.reasons), NatmixWarning, 2)
    return post


def _whole(setting: str, value: Any) -> int | None:
    """A whole number; 1e5 is one."""
    if value is None and setting not in ("seed", "threads"):
        return None
    if not isinstance(value, (int, float, np.integer, np.floating)) or float(value) % 1 != 0 or value < 0:
        raise ValueError(f"{setting} must be a whole number from 0 on, not {value!r}")
    return int(value)


def _numbers(what: str, value: Any, dim: int) -> list[float] | None:
    if value is None:
        return None
    values = np.atleast_1d(np.asarray(value, dtype=float))
    if values.ndim != 1 or len(values) not in (1, dim):
        raise ValueError(f"init {what} has shape {np.shape(value)}, expected a number or ({dim},)")
    if not np.isfinite(values).all():
        raise ValueError(f"init {what} is not finite")
    return values.tolist()
