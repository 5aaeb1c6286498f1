"""JAX functions, NumPyro and PyMC models: correct derivatives, own variables, posteriors close to long reference runs."""

import json
import warnings
from pathlib import Path

import numpy as np
import pytest

import natmix

numpyro_models = pytest.importorskip("numpyro_models")
import pymc_models  # noqa: E402
from numpyro_models import EIGHT, SCHOOLS, SEVEN, phase_data  # noqa: E402

REFERENCES = json.loads(Path(__file__).with_name("references.json").read_text())
#: Largest error of a mean, in posterior standard deviations; and the number of draws that it is computed from.
CLOSE, DRAWS = 0.1, 20_000


def check_gradient(target, scale=1.0):
    z = scale * np.random.default_rng(0).normal(size=(4, target.dim))
    value, grad = target.log_p(z)
    assert value.dtype == grad.dtype == np.float64
    for j in range(target.dim):
        step = np.zeros(target.dim)
        step[j] = 1e-5
        numerical = (target.log_p(z + step)[0] - target.log_p(z - step)[0]) / 2e-5
        np.testing.assert_allclose(grad[:, j], numerical, rtol=1e-5, atol=1e-5)


def check_posterior(target, reference, **settings):
    """Means within 0.1 standard deviations of the reference, or a k-hat above 0.7 with a warning."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        post = natmix.fit(target, seed=1, **settings)
    said = [str(w.message) for w in said if issubclass(w.category, natmix.NatmixWarning)]
    assert post.trusted or said, "a diagnostic that speaks against a fit must be said"
    draws = post.sample_variables(DRAWS)
    distances = {}
    for name, known in REFERENCES[reference].items():
        if name in draws:
            off = np.abs(draws[name].mean(axis=0) - known["mean"]) / known["sd"]
            distances[name] = float(np.max(off))
    assert len(distances) >= 2
    if max(distances.values()) > CLOSE:
        assert post.k_hat > 0.7 and any("k-hat" in message for message in said), distances
    return post


def numpyro_target(name):
    return {
        "non-centred": lambda: natmix.from_numpyro(
            numpyro_models.eight_schools, *EIGHT, centred=False, coords={"school": SCHOOLS}
        ),
        "centred": lambda: natmix.from_numpyro(numpyro_models.eight_schools, *EIGHT, centred=True),
        "seven": lambda: natmix.from_numpyro(numpyro_models.seven_points, *SEVEN),
        "phases": lambda: natmix.from_numpyro(numpyro_models.phases, phase_data()[0], *phase_data()[1]),
    }[name]()


def pymc_target(name):
    model = {
        "non-centred": lambda: pymc_models.eight_schools(centred=False),
        "centred": lambda: pymc_models.eight_schools(centred=True),
        "seven": pymc_models.seven_points,
        "phases": pymc_models.phases,
    }[name]()
    return natmix.from_pymc(model)


CASES = [
    ("non-centred", "eight_schools", dict()),
    ("centred", "eight_schools", dict()),
    ("seven", "seven_points", dict()),
    ("phases", "phases", dict()),
]


@pytest.mark.parametrize(("name", "reference", "settings"), CASES, ids=[case[0] for case in CASES])
@pytest.mark.parametrize("library", ["numpyro", "pymc"])
def test_known_posteriors(library, name, reference, settings):
    target = numpyro_target(name) if library == "numpyro" else pymc_target(name)
    check_gradient(target)
    post = check_posterior(target, reference, **settings)
    if name == "phases":
        assert len(post.modes) > 1
        assert abs(post.sample_variables(10)["const"]).max() < np.pi
    if name == "non-centred":
        check_arviz(post)


def check_arviz(post):
    tree = post.to_arviz(n=500)
    posterior = tree["posterior"]
    assert set(posterior.data_vars) == {"mu", "tau", "step", "theta"}
    assert posterior["theta"].dims == ("chain", "draw", "school")
    assert posterior["theta"].coords["school"].values.tolist() == SCHOOLS
    mu, tau, step = (posterior[name].values for name in ("mu", "tau", "step"))
    np.testing.assert_allclose(posterior["theta"].values, mu[..., None] + tau[..., None] * step, atol=1e-9)
    assert (tau > 0).all()
    y, sigma = EIGHT
    expected = -0.5 * ((y - posterior["theta"].values) / sigma) ** 2 - np.log(sigma) - 0.5 * np.log(2 * np.pi)
    likelihood = tree["log_likelihood"]["y"]
    assert likelihood.dims == ("chain", "draw", "school")
    np.testing.assert_allclose(likelihood.values, expected, atol=1e-9)
    assert {"log_p", "log_q", "component"} <= set(tree["sample_stats"].data_vars)


def test_both_libraries_define_the_same_density():
    """Two independent compilations of one model agree up to a constant."""
    z = np.random.default_rng(1).normal(size=(20, 3))
    a, b = numpyro_target("seven"), pymc_target("seven")
    # NumPyro flattens variables by name, PyMC in the order of the model.
    order = [0, 2, 1]
    difference = a.log_p(z[:, [0, 2, 1]])[0] - b.log_p(z)[0]
    np.testing.assert_allclose(difference, difference[0], atol=1e-9)
    np.testing.assert_allclose(a.log_p(z[:, order])[1], b.log_p(z)[1][:, order], rtol=1e-9, atol=1e-9)


def test_loaded_without_the_model(tmp_path):
    target = numpyro_target("seven")
    post = natmix.fit(target)
    post.save(tmp_path / "fit")
    alone = natmix.load(tmp_path / "fit")
    assert alone.parameter_names == ["intercept", "slope", "noise"] and (alone.means == post.means).all()
    assert (alone.to_arviz()["posterior"]["noise"].values == post.to_arviz()["posterior"]["noise"].values).all()
    with pytest.raises(ValueError, match="own variables need the target"):
        alone.sample(10)
    again = natmix.load(tmp_path / "fit", target)
    assert (again.sample(10) == post.sample(10)).all()
    with pytest.raises(ValueError, match="dimension 2"):
        natmix.load(tmp_path / "fit", natmix.from_callable(lambda z: (z.sum(axis=1), z), dim=2))


def test_jax_computes_in_64_bits_whatever_is_set():
    import jax
    import jax.numpy as jnp

    assert not jax.config.jax_enable_x64
    seen = []

    def quartic(z):
        seen.append(z.dtype)
        return -(z**4).sum() - z[0] * z[1]

    target = natmix.from_jax(quartic, dim=2, names=["a", "b"])
    check_gradient(target)
    assert set(map(str, seen)) == {"float64"}
    post = natmix.fit(target, components=4)
    assert post.trusted and post.parameter_names == ["a", "b"]
    newton = natmix.fit(natmix.from_jax(lambda z: -jnp.cosh(z).sum(), dim=2), components=1, method="von")
    np.testing.assert_allclose(newton.means, 0.0, atol=1e-3)
    assert jnp.ones(1).dtype == jnp.float32, "the setting of others is left alone"
    with pytest.raises(TypeError, match="not a real function|scalar-output"):
        natmix.from_jax(lambda z: z, dim=2)


def test_models_without_a_gradient_are_refused():
    import pymc as pm

    with pm.Model() as model:
        pm.Poisson("n", 3.0)
    with pytest.raises(ValueError, match="discrete variables have no gradient: n"):
        natmix.from_pymc(model)
    with pm.Model() as empty:
        pm.Normal("y", 0, 1, observed=1.0)
    with pytest.raises(ValueError, match="no variable"):
        natmix.from_pymc(empty)


def test_constrained_variables_of_pymc():
    import pymc as pm

    with pm.Model(coords={"part": ["a", "b", "c"]}) as model:
        share = pm.Dirichlet("share", np.array([2.0, 3.0, 4.0]), dims="part")
        level = pm.Data("level", 2.0)
        pm.Normal("x", level, 1.0)
        pm.Multinomial("count", n=20, p=share, observed=[3, 7, 10])
    post = natmix.fit(natmix.from_pymc(model), components=5)
    assert post.parameter_names == ["share[a]", "share[b]", "share[c]", "x"]
    draws = post.sample_variables(DRAWS)
    np.testing.assert_allclose(draws["share"].sum(axis=1), 1.0)
    # Conjugate: Dirichlet(5, 10, 14).
    np.testing.assert_allclose(draws["share"].mean(axis=0), np.array([5, 10, 14]) / 29, atol=0.005)
    np.testing.assert_allclose([draws["x"].mean(), draws["x"].std()], [2.0, 1.0], atol=0.03)
