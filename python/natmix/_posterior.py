"""A finished fit: figures, draws, files, pictures."""

from __future__ import annotations

import html
import math
import os
import warnings
from typing import Any, Literal

import numpy as np

from . import _natmix
from ._compare import Claim, Loo, Quantity, loo_of, tested
from ._summary import Summary
from ._table import Table
from ._target import Target, Variable, say
from .distributed import Workers

Level = Literal["answer", "mixture", "weighted"]


class NatmixWarning(UserWarning):
    """A fit or its data need attention."""


class Posterior:
    """A mixture of Gaussians as the posterior of a model. Made by :func:`natmix.fit` and :func:`natmix.load`.

    The mixture (``weights``, ``means``, ``covariances``, ``log_density``) lives in the space that was fitted, R^d; draws,
    summaries and predictions are in the model's own variables.

    Examples
    --------
    >>> import natmix
    >>> post = natmix.fit(lambda z: (-0.5 * (z**2).sum(axis=1), -z), dim=2, components=1)
    >>> post.weights, post.means.shape, post.covariances.shape
    (array([1.]), (1, 2), (1, 2, 2))
    >>> post.sample(5).shape, post.log_density(post.sample(5)).shape
    ((5, 2), (5,))
    """

    def __init__(self, record: _natmix.Record, target: Target | None = None, workers: Workers | None = None):
        self._record = record
        self._workers = workers
        self._target = target
        self._report: dict[str, Any] = record.report
        self._mixture = record.mixture

    @classmethod
    def _of(cls, run: _natmix.Run, target: Target, workers: Workers | None = None) -> Posterior:
        variables = [(v.name, list(v.shape), list(v.dims)) for v in target.variables]
        coords = {name: [_label(x) for x in values] for name, values in target.coords.items()}
        names = draws = None
        if target.constrain is not None:
            names, draws = target.parameter_names(), target.flat(run.draws)
        record = _natmix.Record(run, target.native, target.kind, target.what, variables, coords, names, draws)
        return cls(record, target, workers)

    # Figures

    @property
    def elbo(self) -> float:
        """Evidence lower bound, from fresh draws."""
        return _number(self._report["elbo"]["mean"])

    @property
    def elbo_se(self) -> float:
        """Standard error of the ELBO."""
        return _number(self._report["elbo"]["se"])

    @property
    def log_evidence(self) -> float:
        """Logarithm of the integral of the density, by importance or bridge sampling; NaN if it is not known."""
        return _number(self._report["log_evidence"]["mean"])

    @property
    def log_evidence_se(self) -> float:
        """Standard error of the log evidence."""
        return _number(self._report["log_evidence"]["se"])

    @property
    def k_hat(self) -> float:
        """Shape of the tail of the importance weights: above 0.7 the mixture misses part of the posterior."""
        return _number(self._report["k_hat"])

    @property
    def ess(self) -> float:
        """Effective sample size of the importance weights of the diagnostics."""
        return _number(self._report["ess"])

    @property
    def trusted(self) -> bool | None:
        """Whether the delivered draws are right, as far as the tests can tell; None if nothing was measured."""
        return self._report["verdict"]["trusted"]

    @property
    def level(self) -> str | None:
        """Which draws are the answer: ``mixture``, ``weighted``, ``chains`` or ``none`` (no draws that can be relied on).

        None for networks, whose weights are not judged one by one.
        """
        answer = self._report.get("answer")
        return None if answer is None else answer["level"]

    @property
    def r_hat(self) -> dict[str, float] | None:
        """R-hat of each parameter: how far the chains are from agreeing; None if they did not deliver the draws."""
        known = {p["name"]: _number(p["r_hat"]) for p in self._report["parameters"] if "r_hat" in p}
        return known or None

    @property
    def verdict(self) -> str:
        """The verdict in words: what was found, and whether to trust it."""
        return self._report["verdict"]["sentence"]

    @property
    def reasons(self) -> list[str]:
        """Reasons not to trust the fit; each says what to try."""
        return self._report["verdict"]["reasons"]

    @property
    def converged(self) -> bool:
        """Whether the fit came to its own end: the ELBO had converged, or the answer was seen to hold."""
        return self._report["stop"]["converged"]

    @property
    def stop_reason(self) -> str:
        """Why the fit ended: ``converged``, ``answer-holds``, ``max-evals``, ``max-seconds``, ``cancelled``, ..."""
        return self._report["stop"]["reason"]

    @property
    def iterations(self) -> int:
        """Iterations done."""
        return self._report["iterations"]

    @property
    def evals(self) -> int:
        """Points at which the target was evaluated: by the fit, its diagnostics and its chains together."""
        return sum(self._report["evals"].values())

    @property
    def seconds(self) -> float:
        """Seconds that the fit took."""
        return self._report["seconds"]

    @property
    def seed(self) -> int:
        """Seed of the fit."""
        return self._report["seed"]

    @property
    def workers(self) -> Workers | None:
        """What was measured of the workers that evaluated the function; None without an executor, and after loading."""
        return self._workers

    @property
    def trace(self) -> dict[str, np.ndarray]:
        """History of the run, one entry per iteration: iteration, evals, seconds, elbo, se, components."""
        return self._record.trace

    # The mixture

    @property
    def dim(self) -> int:
        """Dimension of the space that was fitted."""
        return self._mixture.dim

    @property
    def components(self) -> int:
        """Number of Gaussians."""
        return len(self.weights)

    @property
    def weights(self) -> np.ndarray:
        """Weights of the Gaussians, ``(k,)``."""
        return self._mixture.weights

    @property
    def means(self) -> np.ndarray:
        """Means of the Gaussians, ``(k, d)``."""
        return self._mixture.means

    @property
    def covariances(self) -> np.ndarray:
        """Covariances of the Gaussians, ``(k, d, d)``."""
        return self._mixture.covariances

    @property
    def modes(self) -> np.ndarray:
        """Modes (local maxima) of the density of the mixture, ``(m, d)``."""
        return self._mixture.modes()

    def log_density(self, z: Any) -> np.ndarray:
        """Log density of the mixture at points ``(n, d)`` of the space that was fitted."""
        return self._mixture.log_density(z)

    # Draws

    @property
    def parameter_names(self) -> list[str]:
        """A name for each column of :meth:`sample`."""
        return self._record.parameter_names

    @property
    def variables(self) -> tuple[Variable, ...]:
        """The model's own variables."""
        known = self._record.variables
        if known:
            return tuple(Variable(name, tuple(shape), tuple(dims)) for name, shape, dims in known)
        return tuple(Variable(name) for name in self.parameter_names)

    @property
    def coords(self) -> dict[str, list[Any]]:
        """Labels along the dimensions of the variables."""
        return self._record.coords

    def sample(
        self, n: int = 1000, *, seed: int = 1, level: Level = "answer", resample: bool = False, threads: int = 0
    ) -> np.ndarray:
        """Draws ``(n, p)`` on the parameters' own scale.

        ``level="answer"`` gives those that the fit delivers, ``"mixture"`` those of the mixture itself, and ``"weighted"`` (or
        ``resample=True``) those of the mixture corrected by their importance weights. Where these are not the answer, they
        need the target: it is available after a fit, and after ``natmix.load(dir, target)``.
        """
        return self._own_scale(self._points(n, seed, "weighted" if resample else level, threads))

    def sample_variables(
        self, n: int = 1000, *, seed: int = 1, level: Level = "answer", resample: bool = False, threads: int = 0
    ) -> dict[str, np.ndarray]:
        """Draws by variable, each ``(n, *shape)``; arguments as for :meth:`sample`.

        Those of a Stan program include its generated quantities, whose random numbers follow from ``seed``.
        """
        if self._record.kind == "stan":
            z = self._points(n, seed, "weighted" if resample else level, threads)
            return {name: values for name, _, values in self._stan_variables(z, seed, threads)}
        return self._by_variable(self.sample(n, seed=seed, level=level, resample=resample, threads=threads))

    def _points(self, n: int, seed: int, level: Level, threads: int) -> np.ndarray:
        if n < 0:
            raise ValueError(f"n must not be negative, not {n}")
        if level == "mixture":
            return self._mixture.sample(n, seed)
        if level not in ("answer", "weighted"):
            raise ValueError(f"level must be 'answer', 'mixture' or 'weighted', not {level!r}")
        if level == "weighted" and not self._record.has_weighted_draws:
            return self._mixture.resample(self._needed("weighted draws").native, n, seed, threads)
        return self._record.sample(n, seed)

    def _stan_variables(self, z: np.ndarray, seed: int, threads: int = 0) -> list[tuple[str, str, np.ndarray]]:
        """Name, group and draws of each variable of a Stan program."""
        native = self._needed("draws of a Stan program's variables").native
        try:
            return native.variables_at(z, seed, threads)
        finally:
            say(native)

    def _own_scale(self, z: np.ndarray) -> np.ndarray:
        if self._record.kind == "stan":
            return self._needed("draws in the model's own variables").native.to_parameters(z)
        if self._record.variables:
            return self._needed("draws in the model's own variables").flat(z)
        return self._record.to_own_scale(z)

    def _by_variable(self, flat: np.ndarray) -> dict[str, np.ndarray]:
        values, at = {}, 0
        for variable in self.variables:
            values[variable.name] = flat[:, at : at + variable.size].reshape(len(flat), *variable.shape)
            at += variable.size
        return values

    def _needed(self, what: str) -> Target:
        if self._target is None:
            raise ValueError(f"{what} need the target of the fit: give it to natmix.load(dir, target)")
        return self._target

    def _native(self) -> _natmix.Target | None:
        return None if self._target is None else self._target.native

    def with_target(self, target: Target) -> Posterior:
        """The same posterior with its target, for one that was loaded or unpickled without it."""
        if target.dim != self.dim:
            raise ValueError(f"the target has dimension {target.dim}, the posterior {self.dim}")
        if self._record.kind == "stan":
            same = self._record.is_of(target.native)
            if same is None:
                raise ValueError("the target is not the Stan program of this posterior: its variables are others")
            if not same:
                warnings.warn(
                    "program or data of this target are not those of the fit, or are written differently: draws of generated "
                    "quantities and weighted draws are wrong unless they mean the same",
                    NatmixWarning,
                    3,
                )
        return Posterior(self._record, target, self._workers)

    # Reports

    def summary(self, *, resample: bool = False) -> Summary:
        """Mean, standard deviation and quantiles of each parameter.

        They describe the draws that the fit delivers; with ``resample``, those of the mixture corrected by their importance
        weights, as in :meth:`sample`.

        >>> import natmix
        >>> post = natmix.fit(lambda z: (-0.5 * (z**2).sum(axis=1), -z), dim=1, names=["a"], components=1)
        >>> post.summary().columns
        ('mean', 'sd', 'q05', 'q50', 'q95')

        If chains delivered the draws there are two more columns: ``r_hat`` and ``ess``, the effective draws.
        """
        if resample:
            return Summary.of_draws(self.parameter_names, self.sample(len(self._record.draws), resample=True, seed=self.seed))
        return Summary.of(self._report["parameters"])

    def __repr__(self) -> str:
        k = self.components
        figures = [
            (self.elbo, f"ELBO {self.elbo:.4f} ± {self.elbo_se:.4f}"),
            (self.log_evidence, f"log evidence {self.log_evidence:.4f} ± {self.log_evidence_se:.4f}"),
            (self.k_hat, f"k-hat {self.k_hat:.2f}"),
        ]
        # A network trained on minibatches has no evidence and no k-hat.
        known = [text for value, text in figures if not math.isnan(value)]
        known += [f"{k} Gaussian{'' if k == 1 else 's'}", f"{self.evals} evaluations, {self.seconds:.2f} s"]
        lines = [self.verdict, *(f"  - {reason}" for reason in self.reasons), "   ".join(known), "", str(self.summary())]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        page = html.escape(self.report_html(), quote=True)
        return f'<iframe srcdoc="{page}" style="width:100%;height:56rem;border:0" title="natmix"></iframe>'

    def report_html(self) -> str:
        """The report as an HTML page with pictures, as ``natmix report`` writes it."""
        return self._record.html(self._native())

    def plot(self, names: list[str] | None = None, *, n: int = 2000) -> Any:
        """Plot of marginals and pairs of parameters, as a matplotlib figure; by default of the first six."""
        from ._plot import plot

        return plot(self, names, n)

    # Models with data

    def predict(
        self, X: Any, *, draws: int = 1000, seed: int = 1, threads: int = 0, per_component: bool = False, **columns: Any
    ) -> dict[str, np.ndarray]:
        """Predictions of a regression or a network for new rows.

        Arrays by name: ``probability``, ``sd`` and ``entropy`` for outcomes 0 and 1; ``mean``, ``sd`` and quantiles for
        numbers; ``mean`` and ``sd`` for counts; ``probability (n, classes)`` and ``entropy`` for classes; for classes of a
        network also ``expected_entropy`` and ``mutual_information``. ``columns`` are the offset or exposure of the new rows,
        which are required if the model has one.

        With ``per_component`` every array gets a first axis of length ``components``: the predictions of each component of
        a network by itself, from the same draws. Probabilities and means averaged by ``weights`` are those of the mixture.
        """
        known = self._record.columns
        if known is None:
            network = self._record.kind == "network"
            what = "a network of images: predict on the command line" if network else "not that of a regression or a network"
            raise ValueError(f"this posterior is {what}: there is nothing to predict here")
        features, offset, exposure = known
        categorical = {name: levels for name, levels in features if levels is not None}
        table = Table.of(X, [name for name, _ in features], categorical)
        for role, column in (("offset", offset), ("exposure", exposure)):
            if column is not None:
                if columns.get(role) is None:
                    raise ValueError(f"the model has an {role}: give predict(X, {role}=...)")
                table.add(column, columns.pop(role))
        if any(value is not None for value in columns.values()):
            raise TypeError(f"the model has no {', '.join(sorted(columns))}")
        found = self._record.predict(table.values(), table.names, table.levels, draws, seed, threads, per_component)
        return {name: np.stack([part[name] for part in found]) for name in found[0]} if per_component else found[0]

    @property
    def loo(self) -> Loo | None:
        """Leave-one-out cross-validation with the contribution of each row; None for models without rows.

        It is known for regressions after a fit, for Stan programs with a generated quantity ``log_lik``, and for what was loaded
        from a folder that has it.
        """
        return loo_of(self)

    def test(self, statement: str) -> Claim | Quantity:
        """The posterior probability of a statement about the parameters, with its Monte Carlo error.

        ``"a > 0"``, ``"0 < a < 1 and b < a"``: comparisons joined by ``and``; parameters have the names of :meth:`summary`, in
        backquotes where these are not plain, and ``+ - * / ^``, ``log``, ``exp``, ``sqrt`` and ``abs`` compute with them. Without
        a comparison it is a quantity, such as ``"a / b"``, whose mean, standard deviation and quantiles are returned.

        >>> import natmix
        >>> post = natmix.fit(lambda z: (-0.5 * (z**2).sum(axis=1), -z), dim=2, names=["a", "b"], components=1)
        >>> found = post.test("a > 0")
        >>> abs(found.probability - 0.5) < 5 * found.se
        True
        """
        return tested(self, statement)

    @property
    def model_checks(self) -> list[dict[str, Any]]:
        """Statistics of the data and of data drawn from the fitted regression; empty for other models.

        Dictionaries with ``statistic``, ``observed``, ``mean``, ``q05``, ``q95`` and ``p``, the share of drawn data sets with a
        larger value.
        """
        return self._record.whole_report(self._native()).get("model_checks", [])

    @property
    def model_notes(self) -> list[str]:
        """Remarks on a regression and its data, each with a remedy. They do not change ``trusted``."""
        return self._record.whole_report(self._native()).get("model_notes", [])

    # Export

    def to_arviz(self, n: int | None = None, *, seed: int | None = None, log_likelihood: bool = True) -> Any:
        """Draws for ArviZ: a DataTree, or InferenceData where only an older ArviZ is installed.

        Groups: ``posterior``; ``sample_stats`` with ``log_q``, the ``component`` of each draw and, if the target is available,
        ``log_p``; ``log_likelihood`` if the model has data. Of a Stan program, generated quantities named ``log_lik`` or
        ``log_likelihood`` are in ``log_likelihood``, those whose names end with ``_rep``, ``_pred`` or ``_tilde`` in
        ``posterior_predictive``, and all other variables in ``posterior``.

        Draws of chains come as several chains, unless ``n`` or ``seed`` is given: one for each start, in which the chains from
        there follow one another, so that ArviZ's R-hat and effective draws compare the starts. ``sample_stats`` then also has
        ``lp``, ``energy``, ``diverging``, and which ``walker`` and ``iteration`` each draw is from.
        """
        from ._arviz import to_arviz

        return to_arviz(self, n, seed, log_likelihood)

    def save(self, dir: str | os.PathLike[str]) -> None:
        """Write the files that the command line writes: posterior, report, trace, draws, settings and the page.

        The folder of a built-in model works on the command line: ``natmix report``, ``natmix predict`` and ``natmix sample``
        read it, and ``natmix fit --config dir/config.toml --data table.csv`` repeats the fit. So does that of a Stan program, if
        program and data were given as files.
        """
        self._record.save(os.fspath(dir), self._native())

    def __reduce__(self) -> Any:
        return _restore, self._record.parts()


def load(dir: str | os.PathLike[str], target: Target | None = None) -> Posterior:
    """Read what :meth:`Posterior.save` or the command line wrote to a folder. Nothing in it is ever executed.

    ``target`` is needed where the model must be evaluated again: for resampling, and for draws in the variables of PyMC,
    NumPyro and Stan models. The draws that the fit delivered are in the folder: summaries and ``to_arviz`` need no target.
    """
    post = Posterior(_natmix.Record.load(os.fspath(dir)))
    return post if target is None else post.with_target(target)


def _restore(*parts: Any) -> Posterior:
    return Posterior(_natmix.Record.from_parts(*parts))


def _number(value: float | None) -> float:
    """A number of the report; null stands for NaN, which JSON does not have."""
    return math.nan if value is None else value


def _label(value: Any) -> Any:
    """A label as JSON can hold it: a number or text."""
    if isinstance(value, np.generic):
        value = value.item()
    return value if isinstance(value, (int, float, str, bool)) else str(value)
