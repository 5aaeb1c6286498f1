"""The estimators, checked by scikit-learn's own tests."""

import pickle
import warnings

import numpy as np
import pytest
from sklearn.utils.estimator_checks import check_estimator

import natmix
from natmix.sklearn import (
    BayesClassifier,
    BayesNetworkClassifier,
    BayesNetworkRegressor,
    BayesPoissonRegressor,
    BayesRegressor,
)


def checked(estimator):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return check_estimator(estimator, on_skip=None)


ESTIMATORS = [
    BayesClassifier(components=1),
    BayesRegressor(components=1),
    BayesPoissonRegressor(components=1),
    BayesNetworkClassifier(hidden=(16,), epochs=60),
    BayesNetworkRegressor(hidden=(16,), epochs=60),
]


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda estimator: type(estimator).__name__)
def test_check_estimator(estimator):
    results = checked(estimator)
    assert len(results) > 40
    assert {result["status"] for result in results} <= {"passed", "skipped"}
    assert [result["check_name"] for result in results if result["status"] == "skipped"] == ["check_array_api_input"]


def test_rates_with_exposures_as_weights():
    """A rate with its exposure as weight has the likelihood of the count with that exposure."""
    rng = np.random.default_rng(2)
    X, exposure = rng.normal(size=(300, 2)), rng.integers(1, 5, 300).astype(float)
    counts = rng.poisson(exposure * np.exp(0.3 * X[:, 0])).astype(float)
    rates = BayesPoissonRegressor(components=1).fit(X, counts / exposure, sample_weight=exposure)
    centre, scale = rates._centre, rates._scale
    model = natmix.models.Poisson((X - centre) / scale, counts, exposure=exposure, standardize=False)
    post = natmix.fit(model, components=1)
    np.testing.assert_allclose(rates.posterior_.means, post.means, atol=1e-6)
    np.testing.assert_allclose(rates.posterior_.covariances, post.covariances, atol=1e-6)
    with pytest.raises(ValueError, match="is not a count"):
        BayesPoissonRegressor().fit(X, -counts - 0.5)


def test_weights_scale_and_probabilities():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(300, 3)) * [1.0, 100.0, 0.01] + [5.0, -3.0, 0.0]
    eta = (X[:, 0] - 5) - (X[:, 1] + 3) / 100
    y = rng.random(300) < 1 / (1 + np.exp(-eta))
    model = BayesClassifier().fit(X, y)
    assert model.score(X, y) > 0.65 and model.posterior_.trusted
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)
    three = BayesClassifier().fit(X, np.where(y, "a", np.where(eta > 0, "b", "c")))
    assert three.predict_proba(X).shape == (300, 3) and set(three.predict(X)) <= {"a", "b", "c"}


def test_regression_predicts_standard_deviations():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(200, 2))
    y = 1000.0 + 50.0 * X[:, 0] + rng.normal(size=200) * 10.0
    mean, sd = BayesRegressor().fit(X, y).predict([[0.0, 0.0], [1.0, 0.0]], return_std=True)
    np.testing.assert_allclose(mean, [1000.0, 1050.0], atol=3.0)
    np.testing.assert_allclose(sd, 10.0, rtol=0.15)
    counts = rng.poisson(np.exp(1.0 + 0.5 * X[:, 0]))
    mean = BayesPoissonRegressor().fit(X, counts).predict([[0.0, 0.0]])
    np.testing.assert_allclose(mean, np.exp(1.0), rtol=0.1)


def test_more_coefficients_than_rows_warns():
    with pytest.warns(natmix.NatmixWarning, match="the noise cannot be inferred"):
        BayesRegressor().fit(np.eye(3), [1.0, 2.0, 4.0])


def test_networks_learn_what_lines_cannot(tmp_path):
    rng = np.random.default_rng(4)
    X = rng.uniform(-1, 1, size=(400, 2))
    y = np.where(X[:, 0] * X[:, 1] > 0, "same", "other")
    model = BayesNetworkClassifier(hidden=(20,), components=2, epochs=150).fit(X, y)
    assert model.score(X, y) > 0.9 > BayesClassifier(components=1).fit(X, y).score(X, y)
    again = pickle.loads(pickle.dumps(model))
    assert (again.predict_proba(X) == model.predict_proba(X)).all()
    bend = BayesNetworkRegressor(hidden=(20,), epochs=150).fit(X, X[:, 0] ** 2 + 0.05 * rng.normal(size=400))
    mean, sd = bend.predict(X, return_std=True)
    assert np.corrcoef(mean, X[:, 0] ** 2)[0, 1] > 0.95 and (sd > 0).all()
    with pytest.raises(ValueError, match="activation must be relu or tanh, not 'step'"):
        BayesNetworkClassifier(activation="step").fit(X, y)
