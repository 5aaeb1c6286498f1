"""scikit-learn estimators of the built-in models.

Features are centred and scaled internally, so that ``prior_sd`` means the same for all of them; predictions take features as
they are.

>>> import numpy as np
>>> from natmix.sklearn import BayesClassifier
>>> X, y = np.array([[0.0], [1.0], [2.0], [3.0]] * 10), np.array(["no", "no", "yes", "yes", "no", "yes", "no", "yes"] * 5)
>>> model = BayesClassifier(components=5).fit(X, y)
>>> model.predict([[0.0], [3.0]]).tolist()
['no', 'yes']
>>> model.predict_proba([[1.5]]).round(1).tolist()
[[0.5, 0.5]]
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from . import models
from ._fit import fit
from ._posterior import NatmixWarning, Posterior
from ._target import Target

try:
    from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data
except ImportError:  # pragma: no cover
    raise ImportError("natmix.sklearn needs scikit-learn: pip install natmix[sklearn]") from None

__all__ = [
    "BayesClassifier",
    "BayesNetworkClassifier",
    "BayesNetworkRegressor",
    "BayesPoissonRegressor",
    "BayesRegressor",
]

#: Standard deviation of the noise, relative to the outcome's, where the coefficients could fit every row exactly.
INTERPOLATED_NOISE = 0.1


class _Estimator(BaseEstimator):
    """What all estimators share: seed, threads, scaled features, and the posterior in ``posterior_``."""

    random_state: Any
    n_jobs: int | None
    _centre: np.ndarray
    _scale: np.ndarray

    def _seed(self) -> int:
        if isinstance(self.random_state, (int, np.integer)):
            return int(self.random_state)
        from sklearn.utils import check_random_state

        return int(check_random_state(self.random_state).randint(2**31 - 1))

    def _threads(self) -> int:
        return 1 if self.n_jobs is None else max(int(self.n_jobs), 0)

    def _scaled(self, X: np.ndarray) -> np.ndarray:
        return (X - self._centre) / self._scale

    def _set_scale(self, X: np.ndarray, centre: np.ndarray, scale: np.ndarray) -> None:
        """Keeps centre and scale of the features; a constant column is not scaled."""
        if len(X) < 2:
            raise ValueError(f"at least two rows are needed to scale the features, but n_samples = {len(X)}: 1 sample")
        self._centre = centre
        self._scale = np.where(scale > 1e-12 * np.maximum(1, np.abs(centre)), scale, 1.0)

    def _fit_target(self, target: Target, **settings: Any) -> None:
        self.posterior_: Posterior = fit(target, seed=self._seed(), threads=self._threads(), progress=False, **settings)
        self.n_iter_ = self.posterior_.iterations

    def _checked_rows(self, X: Any) -> np.ndarray:
        """New rows for a prediction, scaled as those of the fit."""
        check_is_fitted(self, "posterior_")
        return self._scaled(validate_data(self, X, dtype=float, reset=False))


@dataclass(kw_only=True, eq=False, repr=False)
class _Bayes(_Estimator):
    """What the regressions share. As a dataclass, it has the explicit constructor that scikit-learn asks for."""

    prior_sd: float = 2.5
    fit_intercept: bool = True
    components: int | str = "auto"
    tolerance: float = 0.01
    finish: str = "auto"
    random_state: Any = 1
    n_jobs: int | None = None

    def _fit(self, model: Any, X: np.ndarray, y: np.ndarray, sample_weight: Any, **options: Any) -> None:
        weights = None
        counts = np.ones(len(X))
        if sample_weight is not None:
            counts = weights = _check_sample_weight(sample_weight, X, dtype=float, ensure_non_negative=True)
            if not (weights > 0).any():
                raise ValueError("all weights are zero")
        # Weighted, so that a row of weight two counts as two rows.
        centre = np.average(X, axis=0, weights=counts) if self.fit_intercept else np.zeros(X.shape[1])
        variance = np.average((X - centre) ** 2, axis=0, weights=counts)
        self._set_scale(X, centre, np.sqrt(variance * counts.sum() / max(counts.sum() - 1, 1)))
        target = model(
            self._scaled(X),
            y,
            prior_sd=self.prior_sd,
            standardize=False,
            intercept=self.fit_intercept,
            weights=weights,
            **options,
        )
        self._fit_target(target, components=self.components, tolerance=self.tolerance, finish=self.finish)

    def _predict(self, X: Any) -> dict[str, np.ndarray]:
        rows = self._checked_rows(X)
        return self.posterior_.predict(rows, threads=self._threads())


class _Classes(ClassifierMixin):
    """What regressions and networks share as classifiers."""

    if TYPE_CHECKING:

        def _predict(self, X: Any) -> dict[str, np.ndarray]: ...

    def _classes(self, X: Any, y: Any) -> tuple[np.ndarray, np.ndarray]:
        """Checked features, and the index of each row's class."""
        X, y = validate_data(self, X, y, dtype=float)
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(f"only one class, {self.classes_[0]!r}: there is nothing to learn")
        return X, codes

    def predict_proba(self, X: Any) -> np.ndarray:
        """Class probabilities, averaged over the posterior."""
        found = self._predict(X)["probability"]
        return np.column_stack([1 - found, found]) if found.ndim == 1 else found

    def predict(self, X: Any) -> np.ndarray:
        """The most probable classes."""
        probability = self.predict_proba(X)
        return self.classes_[probability.argmax(axis=1)]


class BayesClassifier(_Classes, _Bayes):
    """Logistic regression for two classes, softmax regression for more.

    Parameters
    ----------
    prior_sd : float
        Prior standard deviation of the coefficients of scaled features; the intercept's is ten times that.
    fit_intercept : bool
        Whether there is an intercept.
    components : int or "auto"
        Number of Gaussians in the posterior.
    tolerance : float
        Nats of expected gain below which the fit stops.
    finish : {"auto", "never", "always"}
        When Hamiltonian chains finish the fit; by default where neither the mixture nor its weighted draws hold.
    random_state : int, RandomState or None
        Seed of the fit; the same seed gives the same result.
    n_jobs : int, optional
        Number of threads; one by default, -1 for one per core.

    Attributes
    ----------
    posterior_ : natmix.Posterior
    classes_ : ndarray
    """

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> BayesClassifier:
        """Fit to features ``(n, k)`` and classes ``(n,)``."""
        X, codes = self._classes(X, y)
        model = models.Logistic if len(self.classes_) == 2 else models.Softmax
        self._fit(model, X, codes, sample_weight)
        return self


class BayesRegressor(RegressorMixin, _Bayes):
    """Linear regression with unknown noise; the outcome is centred and scaled internally.

    Parameters and attributes are those of :class:`BayesClassifier`, without classes.
    """

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> BayesRegressor:
        """Fit to features ``(n, k)`` and outcomes ``(n,)``."""
        X, y = validate_data(self, X, y, dtype=float, y_numeric=True)
        counts = np.ones(len(y)) if sample_weight is None else _check_sample_weight(sample_weight, X, dtype=float)
        centre = np.average(y, weights=counts) if self.fit_intercept and counts.sum() > 0 else 0.0
        scale = np.sqrt(np.average((y - centre) ** 2, weights=counts if counts.sum() > 0 else None))
        self._outcome = (float(centre), float(scale) if scale > 1e-12 * max(1, abs(centre)) else 1.0)
        noise = None
        if len(np.unique(X[counts > 0], axis=0)) <= X.shape[1] + self.fit_intercept:
            # The coefficients can fit every row exactly: the likelihood is unbounded as the noise goes to zero.
            noise = INTERPOLATED_NOISE
            warnings.warn(
                f"there are as many coefficients as distinct rows, so the noise cannot be inferred: its standard deviation is "
                f"set to {noise} times that of the outcome",
                NatmixWarning,
                stacklevel=2,
            )
        self._fit(models.Linear, X, (y - self._outcome[0]) / self._outcome[1], sample_weight, noise_sd=noise)
        return self

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Predicted means and, with ``return_std``, standard deviations that include the noise."""
        found = self._predict(X)
        mean = self._outcome[0] + self._outcome[1] * found["mean"]
        return (mean, self._outcome[1] * found["sd"]) if return_std else mean


class BayesPoissonRegressor(RegressorMixin, _Bayes):
    """Poisson regression of counts.

    Outcomes may be fractions, as in scikit-learn's own ``PoissonRegressor``: for a rate, count / exposure, give the exposure as
    sample weight. Parameters and attributes are those of :class:`BayesClassifier`, without classes.
    """

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> BayesPoissonRegressor:
        """Fit to features ``(n, k)`` and counts ``(n,)``."""
        X, y = validate_data(self, X, y, dtype=float, y_numeric=True)
        whole, share = np.floor(y), y - np.floor(y)
        split = share > 0
        if split.any() and len(X) > 1:
            # y log(mu) - mu is linear in y: a fraction is the weighted mean of the whole counts below and above it.
            weights = np.ones(len(y)) if sample_weight is None else _check_sample_weight(sample_weight, X, dtype=float)
            X, y = np.concatenate([X, X[split]]), np.concatenate([whole, whole[split] + 1])
            sample_weight = np.concatenate([weights * (1 - share), weights[split] * share[split]])
        self._fit(models.Poisson, X, y, sample_weight)
        return self

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Expected counts and, with ``return_std``, standard deviations that include the Poisson variation."""
        found = self._predict(X)
        return (found["mean"], found["sd"]) if return_std else found["mean"]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = True
        return tags


@dataclass(kw_only=True, eq=False, repr=False)
class _BayesNetwork(_Estimator):
    """What the networks share. As a dataclass, it has the explicit constructor that scikit-learn asks for."""

    hidden: tuple[int, ...] = (50,)
    activation: str = "relu"
    components: int = 1
    epochs: int | None = None
    batch: int | None = None
    draws: int = 50
    random_state: Any = 1
    n_jobs: int | None = None

    def _fit(self, X: np.ndarray, y: np.ndarray, classes: int) -> None:
        self._set_scale(X, X.mean(axis=0), X.std(axis=0))
        likelihood = {0: "gaussian", 2: "bernoulli"}.get(classes, "categorical")
        with warnings.catch_warnings():
            # In a pipeline, constant columns are common and need no warning.
            warnings.simplefilter("ignore", NatmixWarning)
            target = models.Mlp(
                self._scaled(X),
                y,
                hidden=self.hidden,
                activation=self.activation,
                likelihood=likelihood,
                standardize=False,
                epochs=self.epochs,
                batch=None if self.batch is None else min(self.batch, len(X)),
            )
        self._fit_target(target, components=self.components)

    def _predict(self, X: Any) -> dict[str, np.ndarray]:
        rows = self._checked_rows(X)
        return self.posterior_.predict(rows, draws=self.draws * self.components, threads=self._threads())


class BayesNetworkClassifier(_Classes, _BayesNetwork):
    """A Bayesian neural network for classes: a mixture of Gaussians over its weights, trained by VOGN.

    Parameters
    ----------
    hidden : tuple of int
        Units of each hidden layer.
    activation : {"relu", "tanh"}
        Activation function of the hidden units.
    components : int
        Number of Gaussians in the posterior of the weights.
    epochs, batch : int, optional
        Passes over the data, and rows per minibatch; by default they depend on the number of rows.
    draws : int
        Draws of the weights per component that a prediction averages over.
    random_state, n_jobs
        Seed and number of threads, as for :class:`BayesClassifier`.

    Attributes
    ----------
    posterior_ : natmix.Posterior
        The mixture over the weights.
    classes_ : ndarray
    """

    def fit(self, X: Any, y: Any) -> BayesNetworkClassifier:
        """Fit to features ``(n, k)`` and classes ``(n,)``."""
        X, codes = self._classes(X, y)
        self._fit(X, codes, len(self.classes_))
        return self


class BayesNetworkRegressor(RegressorMixin, _BayesNetwork):
    """A Bayesian neural network for numbers, with unknown noise; the outcome is centred and scaled internally.

    Parameters and attributes are those of :class:`BayesNetworkClassifier`, without classes.
    """

    def fit(self, X: Any, y: Any) -> BayesNetworkRegressor:
        """Fit to features ``(n, k)`` and outcomes ``(n,)``."""
        X, y = validate_data(self, X, y, dtype=float, y_numeric=True)
        centre, scale = float(np.mean(y)), float(np.std(y))
        self._outcome = (centre, scale if scale > 1e-12 * max(1, abs(centre)) else 1.0)
        self._fit(X, (y - self._outcome[0]) / self._outcome[1], 0)
        return self

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Predicted means and, with ``return_std``, standard deviations that include the noise."""
        found = self._predict(X)
        mean = self._outcome[0] + self._outcome[1] * found["mean"]
        return (mean, self._outcome[1] * found["sd"]) if return_std else mean
