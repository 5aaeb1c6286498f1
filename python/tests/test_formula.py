"""Regressions by formula: the command line's results, all families, predictions for new groups, errors by name."""

import os
import subprocess

import numpy as np
import pytest

import natmix


def data(rows=120):
    rng = np.random.default_rng(4)
    group = np.array([f"g{i % 10}" for i in range(rows)])
    effects = rng.normal(scale=0.7, size=10)
    x = rng.normal(size=rows)
    eta = 0.4 + 0.6 * x + effects[np.arange(rows) % 10]
    p = 1 / (1 + np.exp(-eta))
    latent = eta + rng.logistic(size=rows)
    return {
        "x": x,
        "g": group,
        "real": eta + 0.5 * rng.normal(size=rows),
        "yes": (rng.uniform(size=rows) < p).astype(int),
        "n": np.full(rows, 6),
        "k": rng.binomial(6, p),
        "count": rng.poisson(np.exp(eta)),
        "rating": np.array(["low", "medium", "high"])[(latent > 0).astype(int) + (latent > 1.5)],
        "amount": rng.gamma(3, np.exp(eta) / 3),
        "seen": (rng.uniform(size=rows) < 0.7).astype(int),
    }


CASES = [
    ("linear", "real ~ x + (1 + x | g)", {}, "mean"),
    ("robust", "real ~ x", {}, "mean"),
    ("logistic", "yes ~ x + (1 | g)", {}, "probability"),
    ("binomial", "k | trials(n) ~ x + (1 | g)", {}, "mean"),
    ("poisson", "count ~ x + (1 | g)", {"prior": "x ~ normal(0, 1)"}, "mean"),
    ("negative-binomial", "count ~ x", {}, "mean"),
    ("ordinal", "rating ~ x + (1 | g)", {"levels": ["low", "medium", "high"]}, "probability"),
    ("gamma", "amount ~ s(x)", {}, "mean"),
    ("survival", "amount | event(seen) ~ x + (1 | g)", {"prior": ["shape ~ lognormal(0, 0.5)"]}, "mean"),
    ("softmax", "rating ~ x", {}, "probability"),
]


@pytest.mark.parametrize(("family", "formula", "options", "what"), CASES)
def test_every_family(family, formula, options, what):
    target = natmix.models.Formula(formula, data(), family=family, **options)
    assert target.priors
    post = natmix.fit(target, seed=2)
    assert post.trusted
    assert post.parameter_names == target.parameter_names()
    new = {"x": [0.0, 1.0], "g": ["g3", "never seen"], "n": [6, 6]}
    found = post.predict(new)
    assert len(found[what]) == 2 and all(np.isfinite(values).all() for name, values in found.items() if name != "sd")
    # Censored times cannot be compared with drawn ones.
    assert bool(post.model_checks) == (family != "survival")


@pytest.mark.skipif("NATMIX_BINARY" not in os.environ, reason="NATMIX_BINARY is not set")
def test_same_bits_as_the_command_line(tmp_path):
    frame = data(60)
    columns = ["x", "g", "real"]
    lines = [",".join(columns), *(",".join(str(frame[name][i]) for name in columns) for i in range(60))]
    (tmp_path / "table.csv").write_text("\n".join(lines) + "\n")
    formula = "real ~ x + (1 | g)"
    command = [os.environ["NATMIX_BINARY"], "fit", "linear", "--data", tmp_path / "table.csv", "--formula", formula]
    subprocess.run([*command, "--quiet", "--out", tmp_path / "cli"], check=True)
    post = natmix.fit(natmix.models.Formula(formula, frame))
    theirs = natmix.load(tmp_path / "cli")
    assert np.array_equal(post.means, theirs.means) and post.elbo == theirs.elbo
    post.save(tmp_path / "saved")
    loaded = natmix.load(tmp_path / "saved")
    new = {"x": [0.3], "g": ["g1"]}
    assert np.array_equal(loaded.predict(new)["mean"], post.predict(new)["mean"])
    assert np.array_equal(theirs.predict(new)["mean"], post.predict(new)["mean"])


def test_data_frames_and_missing_values():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(data())
    frame.loc[3, "x"] = np.nan
    with pytest.raises(ValueError, match="missing"):
        natmix.models.Formula("real ~ x + (1 | g)", frame)
    with pytest.warns(natmix.NatmixWarning, match="1 of 120 rows is dropped"):
        target = natmix.models.Formula("real ~ x + (1 | g)", frame, missing="drop")
    assert "119 rows" in target.what


MISTAKES = [
    ({"formula": "real ~ xx"}, "'xx'.*did you mean 'x'"),
    ({"formula": "real ~ x +"}, "formula"),
    ({"formula": "real ~ x", "family": "poison"}, "family must be one of .*poisson.*not poison"),
    ({"formula": "rating ~ x", "family": "ordinal"}, "order is not known"),
    ({"formula": "real ~ x", "prior": "y ~ normal(0, 1)"}, "there is no such parameter"),
    ({"formula": "real ~ x", "prior": "x ~ normal(0, -1)"}, "sd"),
    ({"formula": "k ~ x", "family": "binomial"}, "number of trials"),
]


@pytest.mark.parametrize(("given", "message"), MISTAKES)
def test_mistakes_are_named(given, message):
    given = dict(given)
    with pytest.raises(ValueError, match=message):
        natmix.models.Formula(given.pop("formula"), data(), **given)
