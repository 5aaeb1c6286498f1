"""Targets: a log density over R^d, with what is known about its variables."""

from __future__ import annotations

import contextvars
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from . import _natmix
from ._executor import Spread

Init = tuple[Any, Any]


@dataclass(frozen=True)
class Variable:
    """A variable of a model, on its own scale.

    >>> Variable("theta", (2,), ("school",)).parameter_names({"school": ["a", "b"]})
    ['theta[a]', 'theta[b]']
    """

    name: str
    shape: tuple[int, ...] = ()
    dims: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        """Number of entries."""
        return int(np.prod(self.shape, dtype=int))

    def parameter_names(self, coords: Mapping[str, Sequence[Any]] | None = None) -> list[str]:
        """A name for each entry, with labels where the dimension has coordinates."""
        if not self.shape:
            return [self.name]
        labels = []
        for axis, length in enumerate(self.shape):
            dim = self.dims[axis] if axis < len(self.dims) else None
            known = list((coords or {}).get(dim, [])) if dim else []
            labels.append([str(x) for x in known] if len(known) == length else [str(i) for i in range(length)])
        return [f"{self.name}[{', '.join(labels[a][i] for a, i in enumerate(index))}]" for index in np.ndindex(*self.shape)]


@dataclass(frozen=True)
class Target:
    """A log density over R^d for :func:`natmix.fit`.

    Made by :func:`natmix.from_callable`, :func:`natmix.from_jax`, :func:`natmix.from_numpyro`, :func:`natmix.from_pymc`,
    :func:`natmix.from_stan` and the classes in :mod:`natmix.models`. The posterior is fitted in R^d; ``constrain`` takes its
    draws to the model's own variables.
    """

    native: _natmix.Target
    #: Kind of the target, and a description of it in a few words.
    kind: str = "Python function"
    what: str = "a Python function"
    #: The model's own variables, in the order of the columns of a draw.
    variables: tuple[Variable, ...] = ()
    #: Labels along the dimensions of the variables.
    coords: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    #: Maps points ``(n, d)`` to the variables, each ``(n, *shape)``; None if the coordinates are the variables, and where Rust
    #: computes these.
    constrain: Callable[[np.ndarray], Mapping[str, np.ndarray]] | None = None
    #: Observed variables, with the dimensions of their log likelihoods.
    observed: tuple[Variable, ...] = ()
    #: Log likelihood of each observation, by name, each ``(n, *shape)``.
    log_likelihood: Callable[[np.ndarray], Mapping[str, np.ndarray]] | None = None
    #: Start distribution: mean and standard deviation.
    init: Init | None = None
    #: A function of :func:`natmix.from_callable`, which workers can evaluate.
    spread: Spread | None = field(default=None, repr=False, compare=False)

    @property
    def dim(self) -> int:
        """Dimension of the space that is fitted."""
        return self.native.dim

    def log_p(self, z: Any) -> tuple[np.ndarray, np.ndarray]:
        """Values ``(n,)`` and gradients ``(n, d)`` of the log density at points ``(n, d)``.

        >>> import numpy as np
        >>> target = from_callable(lambda z: (-0.5 * (z**2).sum(axis=1), -z), dim=2)
        >>> target.log_p(np.ones((1, 2)))
        (array([-1.]), array([[-1., -1.]]))
        """
        return self.native.evaluate(z)

    def parameter_names(self) -> list[str]:
        """A name for each column of a draw on the variables' own scale."""
        if self.constrain is None:
            return self.native.parameter_names
        return [name for variable in self.variables for name in variable.parameter_names(self.coords)]

    @property
    def priors(self) -> list[str]:
        """The priors of a built-in regression in words, in the units of the data; empty for other models."""
        return self.native.priors

    def flat(self, z: np.ndarray) -> np.ndarray:
        """Draws ``(n, p)`` on the variables' own scale, from points ``(n, d)``."""
        if self.constrain is None:
            raise ValueError("this target has no scale of its own")
        values = self.constrain(z)
        columns = [np.asarray(values[v.name], dtype=float).reshape(len(z), v.size) for v in self.variables]
        return np.concatenate(columns, axis=1) if columns else np.empty((len(z), 0))


def from_callable(
    f: Callable[..., Any],
    dim: int,
    *,
    init: Init | None = None,
    names: Sequence[str] | None = None,
    gradient: str = "auto",
) -> Target:
    """A target from a function of points ``(n, d)``, one point per row.

    The function returns ``log_p`` of shape ``(n,)``; or a tuple ``(log_p, grad)`` with gradients ``(n, d)``; or a tuple
    ``(log_p, grad, hessian)`` with Hessians ``(n, d, d)`` or their diagonals ``(n, d)``. A method ``curvature`` of ``f``, if it
    has one, gives the Hessians instead, and is called only when a method needs them. Return NaN for a point that cannot be
    evaluated, and minus infinity where the density is zero.

    The function is called once per iteration with all points, in a thread that is not the caller's; with
    ``natmix.fit(..., executor=...)`` in the workers, with a few points at a time. It may modify or keep the array.

    Parameters
    ----------
    f : callable
    dim : int
        Dimension ``d``.
    init : (mean, sd), optional
        Start distribution: numbers, or arrays of length ``d``.
    names : sequence of str, optional
        A name for each coordinate.
    gradient : {"auto", "numerical", "none"}
        What to do with a function that returns values only: ``"numerical"`` takes central differences (``2 d + 1`` evaluations
        per point); with ``"none"`` only black-box variational inference is possible (``method="bbvi"``). ``"auto"`` is
        numerical, with a warning.

    Examples
    --------
    >>> import numpy as np
    >>> target = from_callable(lambda z: (-0.5 * (z**2).sum(axis=1), -z), dim=2, names=["a", "b"])
    >>> target.dim, target.parameter_names()
    (2, ['a', 'b'])
    """
    return of_function(Spread(f), dim, init, names, gradient)


def of_function(spread: Spread, dim: int, init: Init | None, names: Sequence[str] | None, gradient: str) -> Target:
    """The target of :func:`from_callable`; with an executor in use, its workers answer the first questions too."""
    f = spread.function
    if not callable(f):
        raise TypeError(f"the target must be callable, not {type(f).__name__}")
    if isinstance(dim, bool) or not isinstance(dim, (int, np.integer)) or dim < 1:
        raise ValueError(f"dim must be a positive whole number, not {dim!r}")
    if gradient not in ("auto", "numerical", "none"):
        raise ValueError(f"gradient must be 'auto', 'numerical' or 'none', not {gradient!r}")
    names = [f"z{i}" for i in range(dim)] if names is None else [str(name) for name in names]
    if len(names) != dim:
        raise ValueError(f"{len(names)} names for {dim} dimensions")
    twice = next((name for i, name in enumerate(names) if name in names[:i]), None)
    if twice is not None:
        raise ValueError(f"names must differ, but {twice!r} is given twice")
    init = pair(init)
    points = _probe(int(dim), init)
    returned = spread(points)
    if returned is None or isinstance(returned, list):
        raise TypeError(f"the target returned {'None' if returned is None else 'a list'}: return log_p, or (log_p, grad)")
    parts = returned if isinstance(returned, tuple) else (returned,)
    if parts and np.shape(parts[0]) != (len(points),):
        raise ValueError(
            f"log_p has shape {np.shape(parts[0])} for points of shape {points.shape}, expected ({len(points)},): the function "
            "gets many points at once, one per row"
        )
    hessians = (points.shape, (*points.shape, int(dim)))
    if len(parts) == 3 and np.shape(parts[2]) not in hessians:
        raise ValueError(
            f"hessian has shape {np.shape(parts[2])} for points of shape {points.shape}, expected {hessians[1]}, or "
            f"{hessians[0]} for diagonals: return (log_p, grad) if the third value is something else"
        )
    curvature_function = spread.curvature if spread.has_curvature else None
    curvature = None
    if curvature_function is not None:
        curvature = "full" if np.ndim(curvature_function(_probe(int(dim), init))) == 3 else "diag"
    elif len(parts) > 2:
        curvature = "full" if np.ndim(parts[2]) == 3 else "diag"
    if len(parts) > 1:
        gradient = "given"
    elif gradient == "auto":
        from ._posterior import NatmixWarning

        warnings.warn(
            f"the target returns values only: gradients are computed numerically, with {2 * dim + 1} evaluations per point "
            "(return (log_p, grad), use natmix.from_jax, or say gradient='none' and method='bbvi')",
            NatmixWarning,
            stacklevel=4,
        )
        gradient = "numerical"
    native = _natmix.Target.callable(spread, contextvars.copy_context(), names, gradient, curvature, curvature_function)
    # Wrong shapes and types are reported here, not in the middle of a fit.
    native.evaluate(_probe(int(dim), init))
    what = getattr(f, "__name__", type(f).__name__)
    what = "a Python function" if what == "<lambda>" else f"the function `{what}`"
    return Target(native, what=what, init=init, spread=spread)


def pair(init: Any) -> Init | None:
    """Mean and standard deviation of the start distribution; an error if ``init`` is not such a pair."""
    if init is None:
        return None
    try:
        mean, sd = init
    except (TypeError, ValueError):
        raise TypeError(f"init must be a pair (mean, sd), not {init!r}") from None
    return mean, sd


def _probe(dim: int, init: Init | None) -> np.ndarray:
    """Two points within the start distribution."""
    mean, sd = (0.0, 1.0) if init is None else init
    for what, value in (("mean", mean), ("sd", sd)):
        if np.shape(value) not in ((), (1,), (dim,)):
            raise ValueError(f"init {what} has shape {np.shape(value)}, expected a number or ({dim},)")
    return np.broadcast_to(np.asarray(mean, dtype=float), (dim,)) + np.array([[0.0], [0.1]]) * np.asarray(sd, dtype=float)


def say(native: _natmix.Target) -> None:
    """Shows what a Stan program has printed or complained about, each kind of message once."""
    for message in native.take_messages():
        print(f"natmix: the model says: {message}", file=sys.stderr, flush=True)
