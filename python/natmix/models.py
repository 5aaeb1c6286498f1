"""Built-in models: no Python in the loop.

The priors and the results are those of the command line: by default features are centred and scaled and an intercept is added,
``prior_sd`` applies to the columns as they are fitted, and results are on the user's own scale.

>>> import numpy as np, natmix
>>> X, y = np.array([[0.0], [1.0], [2.0], [3.0]] * 5), np.array([0, 1, 0, 1] * 5)
>>> post = natmix.fit(natmix.models.Logistic(X, y, names=["age"]), components=5)
>>> post.parameter_names
['(intercept)', 'age']
>>> float(post.predict([[2.5]])["probability"][0]) > 0.5
True
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypedDict, TypeVar, Unpack

import numpy as np

from . import _natmix
from ._posterior import NatmixWarning
from ._table import Table
from ._target import Target

__all__ = ["Density", "Formula", "Linear", "Logistic", "Mlp", "Poisson", "Softmax"]


def _table(
    X: Any,
    names: Sequence[str] | None,
    columns: Mapping[str, Any],
    missing: str = "error",
    reference: Mapping[str, str] | None = None,
) -> tuple[Table, dict[str, str]]:
    """A table of features and further columns, and the name of each further column by its role."""
    table = Table.of(X, names, missing=missing, reference=reference)
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
    if missing == "drop":
        table, note = table.complete()
        if note is not None:
            warnings.warn(note, NatmixWarning, stacklevel=4)
    table.check_reference()
    return table, roles


class _Options(TypedDict, total=False):
    """Keywords that all regressions share; defaults are in :func:`_regression`, descriptions at :func:`Logistic`."""

    prior_sd: float
    standardize: bool
    intercept: bool
    weights: Any
    offset: Any
    names: Sequence[str] | None
    missing: Literal["error", "drop"]
    reference: Mapping[str, str] | None


def _regression(
    kind: str,
    X: Any,
    y: Any,
    own: Mapping[str, Any],
    *,
    prior_sd: float = 2.5,
    standardize: bool = True,
    intercept: bool = True,
    weights: Any = None,
    offset: Any = None,
    names: Sequence[str] | None = None,
    missing: Literal["error", "drop"] = "error",
    reference: Mapping[str, str] | None = None,
) -> Target:
    """A regression of the given kind; ``own`` holds the keywords that only this kind has."""
    columns = {"outcome": y, "offset": offset, "exposure": own.get("exposure"), "weights": weights}
    table, roles = _table(X, names, columns, missing, reference)
    noise_sd = own.get("noise_sd")
    for name, sd in {"prior_sd": prior_sd, "noise_sd": 1.0 if noise_sd is None else noise_sd}.items():
        if not (isinstance(sd, (int, float, np.number)) and sd > 0):
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
        bool(standardize),
        bool(intercept),
        float(prior_sd),
        noise_sd,
    )
    return _of(native, kind)


def _of(native: _natmix.Target, kind: str) -> Target:
    for note in native.warnings:
        warnings.warn(note, NatmixWarning, stacklevel=4)
    return Target(native, kind=kind, what=native.summary)


Model = TypeVar("Model", bound=Callable[..., Target])


def _with_options(model: Model) -> Model:
    """Shows the shared keywords, with their defaults, in the signature of a regression."""
    signature = inspect.signature(model)
    own = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
    shared = [p for p in inspect.signature(_regression).parameters.values() if p.kind is p.KEYWORD_ONLY]
    model.__signature__ = signature.replace(parameters=[*own, *shared])  # type: ignore[attr-defined]
    return model


@_with_options
def Logistic(X: Any, y: Any, **options: Unpack[_Options]) -> Target:
    """Logistic regression: outcomes 0 and 1, or two levels.

    Parameters
    ----------
    X : array (n, k) or data frame
        Features; columns of a data frame that are not numbers are one-hot encoded.
    y : array (n,)
        Outcomes.
    prior_sd : float
        Prior standard deviation of the coefficients, on the scale that is fitted; the intercept's is ten times that.
    standardize, intercept : bool
        Whether features are centred and scaled, and whether there is an intercept.
    weights, offset : array (n,), optional
        How often each row counts; a term added to the linear predictor.
    names : sequence of str, optional
        Names of the columns.
    missing : {"error", "drop"}
        Whether rows with a missing value are an error or are dropped, with a warning that counts them.
    reference : dict, optional
        Levels with which the others of a column are compared, by column, instead of the first in order. The outcome is called
        ``"y"`` unless it has a name; its reference is the class that is not the positive one.
    """
    return _regression("logistic", X, y, {}, **options)


@_with_options
def Linear(X: Any, y: Any, *, noise_sd: float | None = None, **options: Unpack[_Options]) -> Target:
    """Linear regression, with unknown noise (half-Cauchy(5) prior on the fitted scale) unless ``noise_sd`` is given.

    The other parameters are those of :func:`Logistic`.
    """
    return _regression("linear", X, y, {"noise_sd": noise_sd}, **options)


@_with_options
def Poisson(X: Any, y: Any, *, exposure: Any = None, **options: Unpack[_Options]) -> Target:
    """Poisson regression of counts; the logarithm of ``exposure`` is added to the linear predictor.

    The other parameters are those of :func:`Logistic`.
    """
    return _regression("poisson", X, y, {"exposure": exposure}, **options)


@_with_options
def Softmax(X: Any, y: Any, **options: Unpack[_Options]) -> Target:
    """Softmax regression: outcomes 0, 1, ..., or several levels; the first class is the reference.

    The other parameters are those of :func:`Logistic`.
    """
    return _regression("softmax", X, y, {}, **options)


def Formula(
    formula: str,
    data: Any,
    *,
    family: str = "linear",
    prior: str | Sequence[str] | None = None,
    weights: str | None = None,
    levels: Sequence[str] | None = None,
    missing: Literal["error", "drop"] = "error",
    reference: Mapping[str, str] | None = None,
) -> Target:
    """A regression by a formula in the notation of R, with varying effects: ``"y ~ x1 * x2 + (1 + x1 | group)"``.

    Parameters
    ----------
    formula : str
        What explains what. Successes among trials are ``y | trials(n) ~ ...``, censored times ``t | event(seen) ~ ...``.
    data : data frame, or dict of columns
        Only the columns that the formula names are used.
    family : str
        ``"linear"``, ``"logistic"``, ``"poisson"``, ``"negative-binomial"``, ``"robust"``, ``"binomial"``, ``"ordinal"``,
        ``"gamma"``, ``"survival"``; or ``"softmax"``, which has no varying effects.
    prior : str or sequence of str, optional
        Priors that differ from the defaults, in the units of the data: ``"age ~ normal(0, 1)"``,
        ``"sd(clinic) ~ half_normal(1)"``. ``target.priors`` lists all.
    weights : str, optional
        Column that says how often each row counts.
    levels : sequence of str, optional
        Categories of an ordinal outcome that is text, from the lowest to the highest.
    missing, reference
        As for :func:`Logistic`.

    Examples
    --------
    >>> import numpy as np, natmix
    >>> school = np.repeat(["a", "b", "c", "d", "e", "f"], 20)
    >>> hours = np.tile(np.linspace(0, 5, 20), 6)
    >>> score = 50 + 3 * hours + np.repeat([-4.0, 1.0, 3.0, -2.0, 0.0, 2.0], 20) + np.cos(7 * np.arange(120))
    >>> target = natmix.models.Formula("score ~ hours + (1 | school)", {"score": score, "hours": hours, "school": school})
    >>> target.parameter_names()[:4]
    ['(intercept)', 'hours', 'sigma', 'sd(school, (intercept))']
    >>> post = natmix.fit(target)
    >>> float(post.predict({"hours": [2.0], "school": ["a new one"]})["sd"][0]) > 2
    True
    """
    columns, complete = _natmix.Target.columns_of_formula(formula)
    wanted = columns if weights is None else [*columns, weights]
    table = Table.of(data, list(dict.fromkeys(wanted)) if complete else None, missing=missing, reference=reference)
    if missing == "drop":
        table, note = table.complete()
        if note is not None:
            warnings.warn(note, NatmixWarning, stacklevel=2)
    table.check_reference()
    given: dict[str, Any] = {"formula": formula}
    if prior is not None:
        given["prior"] = [prior] if isinstance(prior, str) else list(prior)
    if weights is not None:
        given["weights"] = weights
    if levels is not None:
        given["levels"] = [str(level) for level in levels]
    native = _natmix.Target.formula(family, table.values(), table.names, table.levels, given)
    return _of(native, family)


def Mlp(
    X: Any,
    y: Any,
    *,
    hidden: int | Sequence[int] | None = None,
    activation: str | None = None,
    likelihood: str | None = None,
    standardize: bool = True,
    names: Sequence[str] | None = None,
    test: tuple[Any, Any] | None = None,
    validation: tuple[Any, Any] | float | None = None,
    **training: Any,
) -> Target:
    """A Bayesian neural network: a mixture of Gaussians over its weights.

    ``natmix.fit`` trains it on minibatches (``method="vogn"``, the default, ``"ivon"``, or ``"adam"`` for plain networks);
    small networks, up to 5,000 weights, can be fitted by any method of the engine, with full covariance
    (``method="component-draws"``, ``"von"``, ...). Single weights have no meaning of their own: use ``predict``.

    Parameters
    ----------
    X, y
        Features and outcomes, as for :func:`Logistic`.
    hidden : int or sequence of int, optional
        Units of the hidden layers; 50 by default.
    activation : {"relu", "tanh"}, optional
        Activation function of the hidden units; ``"relu"`` by default.
    likelihood : {"bernoulli", "categorical", "gaussian"}, optional
        Distribution of the outcome; by default ``"categorical"`` for levels, ``"bernoulli"`` for 0 and 1, and ``"gaussian"``
        for other numbers.
    standardize : bool
        Whether features (and a numeric outcome) are centred and scaled.
    names : sequence of str, optional
        Names of the columns.
    test : (X, y), optional
        Rows to score and judge predictions on: without these or ``validation``, ``post.trusted`` is None.
    validation : (X, y) or float, optional
        Validation rows, or the fraction of the rows to hold out for that: training stops when they are no longer predicted
        better, and ``weight_step="stacked"`` chooses the weights of the components by them.
    **training
        Settings of training, with the names of the command line: ``epochs``, ``batch``, ``prior_precision``,
        ``first_precision``, ``curvature_rate``, ``momentum``, ``damping``, ``schedule``, ``warm_up``, ``curvature``,
        ``weight_step``, ``ensemble``, ``weight_decay``, ``patience``, ``score_draws``.

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
    rows = {"test": test, "validation": validation}
    if validation is not None and not isinstance(validation, tuple):
        given["validation"] = rows.pop("validation")
    settings = {name: value for name, value in given.items() if value is not None}
    more = {role: _more_rows(role, pair, table, roles["outcome"]) for role, pair in rows.items() if pair is not None}
    outcome = roles["outcome"]
    native = _natmix.Target.network(table.values(), table.names, table.levels, outcome, bool(standardize), settings, **more)
    return _of(native, "mlp")


def _more_rows(role: str, pair: Any, table: Table, outcome: str) -> np.ndarray:
    """Further rows with the columns and levels of a table."""
    if not (isinstance(pair, tuple) and len(pair) == 2):
        raise TypeError(f"{role} must be a pair (X, y), not {type(pair).__name__}")
    levels = {table.names[place]: levels for place, levels in table.levels.items()}
    more = Table.of(pair[0], [name for name in table.names if name != outcome], levels)
    more.add(outcome, pair[1], levels.get(outcome))
    return more.values()


def Density(spec: Mapping[str, Any] | str) -> Target:
    """An analytic density, from the JSON that ``natmix fit density --spec`` reads (text, or the same as a dictionary).

    >>> spec = {"kind": "funnel", "dim": 2, "sd0": 1.0, "init": {"mean": 0.0, "sd": 1.0}}
    >>> Density(spec).dim
    2
    """
    native = _natmix.Target.density(spec if isinstance(spec, str) else dict(spec))
    return Target(native, kind="density", what=native.summary)
