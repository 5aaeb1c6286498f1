"""scikit-learn estimators of the built-in models.

Features are centred and scaled inside, so that ``prior_sd`` means the same for all of them; results are those of the features
as given.

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
from typing import TYPE_CHECKING, Any

import numpy as np

from . import models
from ._fit import fit
from ._posterior import NatmixWarning, Posterior

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

#: Noise, in standard deviations of the outcome, where the coefficients could go through every row.
INTERPOLATED_NOISE = 0.1


class _Bayes(BaseEstimator):
    """What the estimators share: settings, scaling, and the posterior in ``posterior_``."""

    def __init__(
        self,
        *,
        prior_sd: float = 2.5,
        fit_intercept: bool = True,
        components: int | str = "auto",
        tolerance: float = 0.01,
        random_state: int = 1,
        n_jobs: int | None = None,
    ):
        self.prior_sd = prior_sd
        self.fit_intercept = fit_intercept
        self.components = components
        self.tolerance = tolerance
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _seed(self) -> int:
        if isinstance(self.random_state, (int, np.integer)):
            return int(self.random_state)
        from sklearn.utils import check_random_state

        return int(check_random_state(self.random_state).randint(2**31 - 1))

    def _threads(self) -> int:
        return 1 if self.n_jobs is None else max(int(self.n_jobs), 0)

    def _fit(self, model: Any, X: np.ndarray, y: np.ndarray, sample_weight: Any, **options: Any) -> None:
        if len(X) < 2:
            raise ValueError(f"at least two rows are needed to scale the features, but n_samples = {len(X)}: 1 sample")
        weights = None
        counts = np.ones(len(X))
        if sample_weight is not None:
            counts = weights = _check_sample_weight(sample_weight, X, dtype=float, ensure_non_negative=True)
            if not (weights > 0).any():
                raise ValueError("all weights are zero")
        # By weight, so that a row of weight two is two rows.
        self._centre = np.average(X, axis=0, weights=counts) if self.fit_intercept else np.zeros(X.shape[1])
        variance = np.average((X - self._centre) ** 2, axis=0, weights=counts)
        scale = np.sqrt(variance * counts.sum() / max(counts.sum() - 1, 1))
        self._scale = np.where(scale > 1e-12 * np.maximum(1, np.abs(self._centre)), scale, 1.0)
        target = model(
            (X - self._centre) / self._scale,
            y,
            prior_sd=self.prior_sd,
            standardize=False,
            intercept=self.fit_intercept,
            weights=weights,
            **options,
        )
        self.posterior_: Posterior = fit(
            target,
            components=self.components,
            tolerance=self.tolerance,
            seed=self._seed(),
            threads=self._threads(),
            progress=False,
        )
        self.n_iter_ = self.posterior_.iterations

    def _predict(self, X: Any) -> dict[str, np.ndarray]:
        check_is_fitted(self, "posterior_")
        X = validate_data(self, X, dtype=float, reset=False)
        if len(X) == 0:
            raise ValueError("Found array with 0 sample(s)")
        return self.posterior_.predict((X - self._centre) / self._scale, threads=self._threads())


class _Classes(ClassifierMixin):
    """What the classifiers share, whatever gives them probabilities."""

    if TYPE_CHECKING:

        def _predict(self, X: Any) -> dict[str, np.ndarray]: ...

    def _classes(self, X: Any, y: Any) -> tuple[np.ndarray, np.ndarray]:
        """Checked features, and the number of each row's class."""
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
    components : int or "auto"
        Gaussians in the posterior.
    tolerance : float
        Nats of expected gain below which the fit stops.
    random_state : int, RandomState or None
    n_jobs : int, optional
        Threads; one unless given, -1 for all.

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
    """Linear regression with unknown noise; the outcome is centred and scaled inside.

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
            # The coefficients can go through every row: a noise of zero would be infinitely likely.
            noise = INTERPOLATED_NOISE
            warnings.warn(
                f"there are as many coefficients as different rows, so the noise cannot be inferred: it is taken as "
                f"{noise} standard deviations of the outcome",
                NatmixWarning,
                stacklevel=2,
            )
        self._fit(models.Linear, X, (y - self._outcome[0]) / self._outcome[1], sample_weight, noise_sd=noise)
        return self

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Predicted means and, if asked, standard deviations with the noise included."""
        found = self._predict(X)
        mean = self._outcome[0] + self._outcome[1] * found["mean"]
        return (mean, self._outcome[1] * found["sd"]) if return_std else mean


class BayesPoissonRegressor(RegressorMixin, _Bayes):
    """Poisson regression of counts.

    Fractions are allowed as in scikit-learn's own ``PoissonRegressor``: a rate, count by exposure, goes with the exposure as its
    weight. Parameters and attributes are those of :class:`BayesClassifier`, without classes.
    """

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> BayesPoissonRegressor:
        """Fit to features ``(n, k)`` and counts ``(n,)``."""
        X, y = validate_data(self, X, y, dtype=float, y_numeric=True)
        whole, share = np.floor(y), y - np.floor(y)
        split = share > 0
        if split.any() and len(X) > 1:
            # y log(mu) - mu is linear in y: a fraction is the counts below and above it, by their shares.
            weights = np.ones(len(y)) if sample_weight is None else _check_sample_weight(sample_weight, X, dtype=float)
            X, y = np.concatenate([X, X[split]]), np.concatenate([whole, whole[split] + 1])
            sample_weight = np.concatenate([weights * (1 - share), weights[split] * share[split]])
        self._fit(models.Poisson, X, y, sample_weight)
        return self

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Expected counts and, if asked, standard deviations with the count's own scatter included."""
        found = self._predict(X)
        return (found["mean"], found["sd"]) if return_std else found["mean"]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = True
        return tags


class _BayesNetwork(BaseEstimator):
    """What the networks share: settings, scaling, training, and the posterior in ``posterior_``."""

    def __init__(
        self,
        *,
        hidden: tuple[int, ...] = (50,),
        activation: str = "relu",
        components: int = 1,
        epochs: int | None = None,
        batch: int | None = None,
        draws: int = 50,
        random_state: Any = 1,
        n_jobs: int | None = None,
    ):
        self.hidden = hidden
        self.activation = activation
        self.components = components
        self.epochs = epochs
        self.batch = batch
        self.draws = draws
        self.random_state = random_state
        self.n_jobs = n_jobs

    _seed = _Bayes._seed
    _threads = _Bayes._threads

    def _fit(self, X: np.ndarray, y: np.ndarray, classes: int) -> None:
        if len(X) < 2:
            raise ValueError(f"at least two rows are needed to scale the features, but n_samples = {len(X)}: 1 sample")
        self._centre, scale = X.mean(axis=0), X.std(axis=0)
        self._scale = np.where(scale > 1e-12 * np.maximum(1, np.abs(self._centre)), scale, 1.0)
        likelihood = {0: "gaussian", 2: "bernoulli"}.get(classes, "categorical")
        with warnings.catch_warnings():
            # Constant columns are no news to a pipeline.
            warnings.simplefilter("ignore", NatmixWarning)
            target = models.Mlp(
                (X - self._centre) / self._scale,
                y,
                hidden=self.hidden,
                activation=self.activation,
                likelihood=likelihood,
                standardize=False,
                epochs=self.epochs,
                batch=None if self.batch is None else min(self.batch, len(X)),
            )
        self.posterior_: Posterior = fit(
            target, components=self.components, seed=self._seed(), threads=self._threads(), progress=False
        )
        self.n_iter_ = self.posterior_.iterations

    def _predict(self, X: Any) -> dict[str, np.ndarray]:
        check_is_fitted(self, "posterior_")
        X = validate_data(self, X, dtype=float, reset=False)
        draws = self.draws * self.components
        return self.posterior_.predict((X - self._centre) / self._scale, draws=draws, threads=self._threads())


class BayesNetworkClassifier(_Classes, _BayesNetwork):
    """A Bayesian neural network for classes: a mixture of Gaussians over its weights, trained by VOGN.

    Parameters
    ----------
    hidden : tuple of int
        Units of the hidden layers.
    activation : {"relu", "tanh"}
    components : int
        Gaussians in the posterior of the weights.
    epochs, batch : int, optional
        Passes over the data and rows in a minibatch; chosen by the number of rows unless given.
    draws : int
        Draws of the weights that a prediction averages over, for each component.
    random_state : int, RandomState or None
    n_jobs : int, optional
        Threads; one unless given, -1 for all.

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
    """A Bayesian neural network for numbers, with unknown noise; the outcome is centred and scaled inside.

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
        """Predicted means and, if asked, standard deviations with the noise included."""
        found = self._predict(X)
        mean = self._outcome[0] + self._outcome[1] * found["mean"]
        return (mean, self._outcome[1] * found["sd"]) if return_std else mean
