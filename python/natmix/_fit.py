"""From a target to a posterior."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Unpack

import numpy as np

from . import _natmix
from ._executor import Spread
from ._pool import Executors
from ._posterior import NatmixWarning, Posterior
from ._progress import Progress
from ._settings import Settings
from ._target import Init, Target, _probe, of_function, pair, say
from .distributed import Reached, Workers


def fit(
    target: Target | Callable[..., Any],
    *,
    dim: int | None = None,
    init: Init | None = None,
    names: Sequence[str] | None = None,
    gradient: str = "auto",
    start: Posterior | Reached | None = None,
    progress: bool | None = None,
    executor: Executors | None = None,
    chunk: int | None = None,
    **settings: Unpack[Settings],
) -> Posterior:
    """Fit a mixture of Gaussians to a log density.

    Ctrl-C ends the fit after the current iteration and returns what was reached. Exceptions raised by the target are passed
    on unchanged. A :class:`natmix.NatmixWarning` is issued if a diagnostic says not to trust the result.

    Parameters
    ----------
    target : Target or callable
        A target from ``natmix.models`` or one of the ``natmix.from_...`` functions; or a function of points ``(n, d)`` as
        :func:`natmix.from_callable` describes, together with ``dim``.
    dim : int, optional
        Dimension, for a function.
    init : (mean, sd), optional
        Start distribution, in the space that is fitted: numbers, or arrays of length ``d``.
    names : sequence of str, optional
        A name for each coordinate, for a function.
    gradient : {"auto", "numerical", "none"}
        What to do with a function that returns values only; see :func:`natmix.from_callable`.
    start : Posterior or natmix.distributed.Reached, optional
        Start from an earlier posterior, or from what a fit that lost its workers had reached, instead of around ``init``.
    progress : bool, optional
        Whether to show progress; by default in terminals and notebooks.
    executor : concurrent.futures.Executor or callable, optional
        Whose workers evaluate a function: a process pool, joblib's loky, Dask's ``client.get_executor()``,
        ``mpi4py.futures.MPIPoolExecutor``, ``natmix.distributed.ray()``; or a function without arguments that makes one, which
        natmix then closes. Built-in and compiled models need none. The result has the same bits for any number of workers.
    chunk : int, optional
        Points per call of a function by a worker; 1 by default with an executor. The same ``chunk`` without an executor calls the
        function in the same way in this process. ``post.workers.suggested_chunk`` says which one would have suited.
    method : str, optional
        ``"auto"``, or a method that ``natmix methods`` lists: ``"bbvi"``, ``"ngvi"``, ``"von"``, ``"vogn"``,
        ``"mixture-draws"``, ``"component-draws"``; for networks also ``"ivon"`` and ``"adam"``. By default ``"auto"``, or
        ``"component-draws"`` where one of the settings from ``source`` to ``minibatch`` is given. A setting that the method
        does not read is an error.
    components : int or "auto", optional
        Number of Gaussians.
    covariance : {"auto", "full", "diag", "low-rank"}, optional
        Kind of the covariances.
    source : {"mixture", "component"}, optional
        Where points are drawn from.
    draws : {"auto", "independent", "antithetic", "orthogonal", "cubature"}, optional
        Draw plan: how the points of a component are placed.
    radius : {"random", "fixed"}, optional
        Radii of cubature draws.
    draws_per_component : int, optional
        Points per component and iteration.
    estimator : {"exact", "gauss-newton", "empirical-fisher", "stein", "score"}, optional
        How curvature is estimated.
    entropy_trick : {"fitted", "on", "off"}, optional
        Control variate for the entropy.
    rule : {"plain", "improved", "trust-region", "momentum", "adam"}, optional
        Update rule.
    rate, decay : float, optional
        Step size, and the exponent of its decay; for every rule but ``"trust-region"``.
    step_cap : float, optional
        Largest step of the improved rule, in units of a component's width.
    trust_region : float, optional
        Initial KL bound of a trust-region step.
    momentum, curvature_rate, damping : float, optional
        Settings of the momentum rule; ``momentum`` is also one of adam.
    weight_rule : {"fixed", "plain", "trust-region"}, optional
        How the weights of the components move.
    weight_rate, weight_trust_region : float, optional
        Step size of the weights, and the KL bound of a step.
    minibatch : int, optional
        Rows per minibatch, for models with data.
    goal : {"answer", "elbo"}, optional
        What the automatic method is for: ``"answer"``, the default, stops as soon as the draws are seen to hold, and in more than
        40 dimensions (20 for regressions) once a single Gaussian has converged, leaving the rest to chains; ``"elbo"`` goes on
        until the ELBO has converged or the budget is spent.
    finish : {"auto", "never", "always"}, optional
        When Hamiltonian chains finish the fit: ``"auto"``, the default, where neither the mixture nor its weighted draws hold.
        The chains start from the mixture; their evaluations come on top of ``max_evals``. See also :func:`natmix.finish`.
    tolerance : float, optional
        Nats of expected gain below which the fit stops; 0.01 by default.
    max_evals, max_seconds : optional
        Limits on evaluations of the target and on time.
    check : bool, optional
        Whether the gradient of a function is compared with differences of its values before the fit, at a few points near the
        start; a wrong one is an error that says what is wrong. True by default; costs a dozen evaluations.
    seed : int, optional
        1 by default. The same seed and settings give the same bits, for any number of threads.
    threads : int, optional
        Number of threads; 0, the default, is one per core.

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
        spread = Spread(target)
        with spread.using(executor, chunk):
            made = of_function(spread, dim, init, names, gradient)
            return _fit(made, init, start, progress, settings)
    if dim is not None and dim != target.dim:
        raise ValueError(f"dim={dim}, but the target has dimension {target.dim}")
    elif names is not None:
        raise TypeError("names can only be given with a function: this target has its own")
    with _spread_over(target, executor, chunk):
        return _fit(target, init, start, progress, settings)


def _fit(
    target: Target, init: Init | None, start: Posterior | Reached | None, progress: bool | None, settings: Mapping[str, Any]
) -> Posterior:
    if start is not None and not isinstance(start, (Posterior, Reached)):
        raise TypeError(f"start must be a natmix.Posterior, not {type(start).__name__}")
    # In other libraries None means a random seed: refuse it rather than be misunderstood.
    given: dict[str, Any] = {name: value for name, value in settings.items() if value is not None or name == "seed"}
    for name in given.keys() - Settings.__annotations__.keys():
        raise TypeError(f"natmix.fit has no setting {name!r}")
    place = pair(init) or target.init
    if place is not None:
        given |= _start(place, target.dim)
    begin: _natmix.Mixture | None = None
    if isinstance(start, Reached):
        begin = _natmix.Mixture(start.weights, start.means, start.covariances)
    elif start is not None:
        begin = start._record.mixture
    if target.spread is not None and settings.get("check") is not False:
        target.spread.compare(_probe(target.dim, place))
    return _judged(_run(target, given, begin, progress))


def finish(
    post: Posterior,
    target: Target | None = None,
    *,
    progress: bool | None = None,
    seed: int | None = None,
    threads: int = 0,
    executor: Executors | None = None,
    chunk: int | None = None,
) -> Posterior:
    """Let Hamiltonian chains finish a posterior: exact draws from a mixture that need not be.

    The chains start from the mixture of ``post`` and run until they agree (R-hat below 1.01) and have enough effective draws;
    the mixture itself stays as it is. :func:`natmix.fit` does this by itself where neither the mixture nor its weighted draws
    hold, unless it is called with ``finish="never"``.

    Parameters
    ----------
    post : Posterior
        Whose mixture to start from.
    target : Target, optional
        The target of the fit, for a posterior that was loaded or unpickled without it.
    progress : bool, optional
        Whether to show progress; by default in terminals and notebooks.
    seed : int, optional
        By default that of the fit.
    threads : int, optional
        Number of threads; 0, the default, is one per core.
    executor, chunk : optional
        Whose workers evaluate a function, and points per call, as for :func:`natmix.fit`.

    Returns
    -------
    Posterior
        At level ``"chains"`` if they agree. Its ``evals`` include those of ``post``.

    Examples
    --------
    >>> def heavy(z):  # Student t with 3 degrees of freedom
    ...     return -2 * np.log1p(z**2 / 3).sum(axis=1), -4 * z / (3 + z**2)
    >>> post = fit(heavy, dim=2, components=1, finish="never", max_evals=2000)
    >>> better = finish(post)
    >>> better.level, better.to_arviz().posterior.sizes["chain"] > 1
    ('chains', True)
    """
    if not isinstance(post, Posterior):
        raise TypeError(f"natmix.finish needs a natmix.Posterior, not {type(post).__name__}")
    if target is not None:
        post = post.with_target(target)
    target = post._needed("chains")
    given: dict[str, Any] = {"seed": post.seed if seed is None else seed, "threads": threads, "check": False}
    if target.init is not None:
        given |= _start(target.init, target.dim)
    with _spread_over(target, executor, chunk):
        if target.spread is not None:
            target.spread.compare(_probe(target.dim, target.init))
        return _judged(_run(target, given, post._record.mixture, progress, post.evals))


@contextmanager
def _spread_over(target: Target, executor: Executors | None, chunk: int | None) -> Iterator[None]:
    """Lets workers evaluate the target until the block ends; an error where it is not a function of the user's."""
    if executor is None and chunk is None:
        yield
    elif target.spread is None:
        raise TypeError(
            f"executor and chunk are for functions in Python; this is a {target.kind}, which is compiled and uses the cores of "
            "this machine by itself (threads=...)"
        )
    else:
        with target.spread.using(executor, chunk):
            yield


def _run(
    target: Target, given: dict[str, Any], begin: _natmix.Mixture | None, progress: bool | None, finish: int | None = None
) -> Posterior:
    spread = target.spread if target.spread is not None and target.spread.pool is not None else None
    workers: Workers | None = None
    try:
        with Progress.wanted(progress, given.get("max_evals")) as show:
            if spread is not None and show is not None:
                show.workers, spread.tell = spread.describe, show.tell
            run = _natmix.fit(target.native, given, begin, show, finish, spread)
            workers = None if spread is None else spread.report()
        if workers is not None and workers.advice is not None:
            print(f"natmix: {workers.advice}", file=sys.stderr, flush=True)
        return Posterior._of(run, target, workers)
    except Exception as error:
        reached = getattr(error, "reached", None)
        if isinstance(reached, tuple):
            iterations, mixture = reached
            error.reached = Reached(iterations, mixture.weights, mixture.means, mixture.covariances)  # type: ignore[attr-defined]
            error.add_note(
                f"natmix: {iterations} iterations were complete; natmix.fit(..., start=error.reached) goes on from there"
            )
        raise
    finally:
        say(target.native)


def _judged(post: Posterior) -> Posterior:
    """The posterior, after a warning if it should not be relied on."""
    if post.stop_reason == "cancelled":
        warnings.warn(f"interrupted after {post.iterations} iterations: this is what was reached", NatmixWarning, 3)
    elif post.trusted is False:
        warnings.warn("do not rely on this fit as it stands: " + "; ".join(post.reasons), NatmixWarning, 3)
    return post


def _start(place: Init, dim: int) -> dict[str, Any]:
    return {"init_mean": _numbers("mean", place[0], dim), "init_sd": _numbers("sd", place[1], dim)}


def _numbers(what: str, value: Any, dim: int) -> list[float]:
    values = np.atleast_1d(np.asarray(value, dtype=float))
    if values.ndim != 1 or len(values) not in (1, dim):
        raise ValueError(f"init {what} has shape {np.shape(value)}, expected a number or ({dim},)")
    if not np.isfinite(values).all():
        raise ValueError(f"init {what} is not finite")
    return values.tolist()
