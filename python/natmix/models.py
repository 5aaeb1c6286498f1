"""Built-in models: no Python in the loop.

The same priors and the same numbers as on the command line: features are centred and scaled and an intercept is added unless
told otherwise, ``prior_sd`` applies to the columns as they are fitted, and results are on the user's own scale.

>>> import numpy as np, natmix
>>> X, y = np.array([[0.0], [1.0], [2.0], [3.0]] * 5), np.array([0, 1, 0, 1] * 5)
>>> post = natmix.fit(natmix.models.Logistic(X, y, names=["age"]), components=5)
>>> post.parameter_names
['(intercept)', 'age']
>>> float(post.predict([[2.5]])["probability"][0]) > 0.5
True
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from . import _natmix
from ._posterior import NatmixWarning
from ._table import Table
from ._target import Target

__all__ = ["Density", "Linear", "Logistic", "Mlp", "Poisson", "Softmax"]


def _table(X: Any, names: Sequence[str] | None, columns: Mapping[str, Any]) -> tuple[Table, dict[str, str]]:
    """Features and further columns, and the name of each of those by its role."""
    table = Table.of(X, names)
    roles = {}
    for role, column in columns.items():
        if column is None:
            continue
        name = "y" if role == "outcome" else role
        name = str(getattr(column, "name", None) or name)
        while name in table.names:
            name += "'"
        table.add(name, column)
        roles[role] = name
    return table, roles


def _regression(kind: str, X: Any, y: Any, given: dict[str, Any], options: dict[str, Any]) -> Target:
    table, roles = _table(X, options["names"], {"outcome": y, **given})
    for name in ("prior_sd", "noise_sd"):
        sd = options[name]
        if (sd is None and name == "prior_sd") or (sd is not None and not (isinstance(sd, (int, float, np.number)) and sd > 0)):
            raise ValueError(f"{name} must be a positive number, not {sd!r}")
    native = _natmix.Target.regression(
        kind,
        table.values(),
        table.names,
        table.levels,
        roles["outcome"],
        roles.get("offset"),
        roles.get("exposure"),
        roles.get("weights"),
        bool(options["standardize"]),
        bool(options["intercept"]),
        float(options["prior_sd"]),
        options["noise_sd"],
    )
    return _of(native, kind)


def _of(native: _natmix.Target, kind: str) -> Target:
    for note in native.warnings:
        warnings.warn(note, NatmixWarning, stacklevel=4)
    return Target(native, kind=kind, what=native.summary)


def Logistic(
    X: Any,
    y: Any,
    *,
    prior_sd: float = 2.5,
    standardize: bool = True,
    intercept: bool = True,
    weights: Any = None,
    offset: Any = None,
    names: Sequence[str] | None = None,
) -> Target:
    """Logistic regression: outcomes 0 and 1, or two levels.

    Parameters
    ----------
    X : array (n, k) or data frame
        Features; columns of a data frame that are not numbers are one-hot encoded.
    y : array (n,)
        Outcomes.
    prior_sd : float
        Prior standard deviation of the coefficients, as fitted; the intercept's is ten times that.
    standardize, intercept : bool
        Whether features are centred and scaled, and whether there is an intercept.
    weights, offset : array (n,), optional
        How often each row counts; what is added to the linear predictor.
    names : sequence of str, optional
        Names of the columns.
    """
    options = dict(prior_sd=prior_sd, standardize=standardize, intercept=intercept, names=names, noise_sd=None)
    return _regression("logistic", X, y, {"offset": offset, "weights": weights}, options)


def Linear(
    X: Any,
    y: Any,
    *,
    prior_sd: float = 2.5,
    noise_sd: float | None = None,
    standardize: bool = True,
    intercept: bool = True,
    weights: Any = None,
    offset: Any = None,
    names: Sequence[str] | None = None,
) -> Target:
    """Linear regression, with unknown noise (half-Cauchy(5) prior on the fitted scale) unless ``noise_sd`` is given.

    The other parameters are those of :func:`Logistic`.
    """
    options = dict(prior_sd=prior_sd, standardize=standardize, intercept=intercept, names=names, noise_sd=noise_sd)
    return _regression("linear", X, y, {"offset": offset, "weights": weights}, options)


def Poisson(
    X: Any,
    y: Any,
    *,
    prior_sd: float = 2.5,
    standardize: bool = True,
    intercept: bool = True,
    weights: Any = None,
    offset: Any = None,
    exposure: Any = None,
    names: Sequence[str] | None = None,
) -> Target:
    """Poisson regression of counts; the logarithm of ``exposure`` is added to the linear predictor.

    The other parameters are those of :func:`Logistic`.
    """
    options = dict(prior_sd=prior_sd, standardize=standardize, intercept=intercept, names=names, noise_sd=None)
    return _regression("poisson", X, y, {"offset": offset, "exposure": exposure, "weights": weights}, options)


def Softmax(
    X: Any,
    y: Any,
    *,
    prior_sd: float = 2.5,
    standardize: bool = True,
    intercept: bool = True,
    weights: Any = None,
    offset: Any = None,
    names: Sequence[str] | None = None,
) -> Target:
    """Softmax regression: outcomes 0, 1, ..., or several levels; the first class is the reference.

    The other parameters are those of :func:`Logistic`.
    """
    options = dict(prior_sd=prior_sd, standardize=standardize, intercept=intercept, names=names, noise_sd=None)
    return _regression("softmax", X, y, {"offset": offset, "weights": weights}, options)


def Mlp(
    X: Any,
    y: Any,
    *,
    hidden: int | Sequence[int] | None = None,
    activation: str | None = None,
    likelihood: str | None = None,
    standardize: bool = True,
    names: Sequence[str] | None = None,
    **training: Any,
) -> Target:
    """A Bayesian neural network: a mixture of Gaussians over its weights.

    ``natmix.fit`` trains it on minibatches (``method="vogn"``, the default, ``"ivon"``, or ``"adam"`` for plain networks);
    small networks, up to 5,000 weights, can be fitted by any method of the engine, with full covariance
    (``method="component-draws"``, ``"von"``, ...). Single weights mean nothing by themselves: use ``predict``.

    Parameters
    ----------
    X : array (n, k) or data frame
        Features; columns of a data frame that are not numbers are one-hot encoded.
    y : array (n,)
        Outcomes.
    hidden : int or sequence of int, optional
        Units of the hidden layers; 50 by default.
    activation : {"relu", "tanh"}, optional
        What hidden units do; ``"relu"`` by default.
    likelihood : {"bernoulli", "categorical", "gaussian"}, optional
        What the outcome is; by default levels are classes, 0 and 1 two of them, anything else a number.
    standardize : bool
        Whether features (and an outcome that is a number) are centred and scaled.
    names : sequence of str, optional
        Names of the columns.
    **training
        Settings of training, with the names that the command line has: ``epochs``, ``batch``, ``prior_precision``,
        ``first_precision``, ``curvature_rate``, ``momentum``, ``damping``, ``schedule``, ``warm_up``, ``curvature``,
        ``weight_step``, ``ensemble``, ``weight_decay``, ``validation``, ``patience``, ``score_draws``.

    Examples
    --------
    >>> import numpy as np, natmix
    >>> X = np.linspace(-2, 2, 200)[:, None]
    >>> network = natmix.models.Mlp(X, np.sin(2 * X[:, 0]), hidden=(20,), activation="tanh")
    >>> post = natmix.fit(network, components=2)
    >>> bool(abs(post.predict([[0.8]])["mean"][0] - np.sin(1.6)) < 0.2)
    True
    """
    table, roles = _table(X, names, {"outcome": y})
    units = None if hidden is None else np.atleast_1d(np.asarray(hidden, dtype=int)).tolist()
    given = {"hidden": units, "activation": activation, "likelihood": likelihood, **training}
    settings = {name: value for name, value in given.items() if value is not None}
    native = _natmix.Target.network(table.values(), table.names, table.levels, roles["outcome"], bool(standardize), settings)
    return _of(native, "mlp")


def Density(spec: Mapping[str, Any] | str) -> Target:
    """An analytic density, from the JSON that ``natmix fit density --spec`` reads (text, or the same as a dictionary).

    >>> spec = {"kind": "funnel", "dim": 2, "sd0": 1.0, "init": {"mean": 0.0, "sd": 1.0}}
    >>> Density(spec).dim
    2
    """
    native = _natmix.Target.density(spec if isinstance(spec, str) else dict(spec))
    return Target(native, kind="density", what=native.summary)
