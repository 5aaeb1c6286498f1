"""Stan programs in Python, compiled: shapes, generated quantities, code as text, and data of every kind."""

import os
import subprocess
import warnings

import numpy as np
import pytest
from stan_tools import PROGRAMS, compiled

import natmix

BINARY = os.environ.get("NATMIX_BINARY")
needs_binary = pytest.mark.skipif(not BINARY, reason="NATMIX_BINARY is not set: nothing to compare with")
EIGHT = {"J": 8, "y": np.array([28, 8, -3, 7, -1, 1, 18, 12]), "sigma": [15.0, 10, 16, 11, 9, 11, 10, 18]}

#: Gives back what it is given.
ECHO = """
data {
  int N;
  array[N] int count;
  vector[N] y;
  matrix[2, 3] A;
  array[2, 3] int B;
  array[0] real nothing;
  matrix[0, 3] flat;
  int<lower=0, upper=1> flag;
  complex c;
  tuple(int, vector[2]) pair;
  array[2] tuple(int, real) pairs;
  real far;
}
parameters {
  real x;
}
model {
  x ~ normal(sum(count), 1);
  print("flag ", flag);
}
generated quantities {
  int half = N / 2;
  vector[N] y_back = y;
  matrix[2, 3] A_back = A;
  array[2, 3] int B_back = B;
  int sizes = size(nothing) + rows(flat) + flag;
  complex c_back = c;
  vector[2] pair_back = pair.1 * pair.2;
  real last = pairs[2].1 + pairs[2].2;
  real far_back = far;
}
"""
GIVEN = {
    "N": np.int64(3),
    "count": (1, 2, 4),
    "y": [0.1, np.nan, -np.inf],
    "A": np.asfortranarray(np.arange(6.0).reshape(2, 3) / 3),
    "B": np.arange(6, dtype=np.int16).reshape(2, 3),
    "nothing": [],
    "flat": np.empty((0, 3)),
    "flag": True,
    "c": 1 - 2j,
    "pair": {1: 3, 2: [0.5, 1.5]},
    "pairs": [{"1": 1, "2": 0.5}, {"1": 2, "2": 0.25}],
    "far": np.inf,
}


def quick(target, **settings):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", natmix.NatmixWarning)
        return natmix.fit(target, max_evals=20_000, finish="never", **settings)


def test_eight_schools():
    schools = [f"school {i}" for i in range(8)]
    target = compiled(
        PROGRAMS / "eight_schools.stan",
        EIGHT,
        dims={"theta": ["school"], "log_lik": ["school"]},
        coords={"school": schools},
    )
    value, grad = target.log_p(np.zeros((1, target.dim)))
    step = 1e-5 * np.eye(target.dim)
    numerical = (target.log_p(step)[0] - target.log_p(-step)[0]) / 2e-5
    np.testing.assert_allclose(grad[0], numerical, rtol=1e-6, atol=1e-6)
    post = natmix.fit(target, seed=1)
    assert post.trusted and abs(post.summary()["mu"]["mean"] - 4.4) < 0.3
    assert post.parameter_names == ["mu", "tau", *(f"{name}[{i}]" for name in ("eta", "theta") for i in range(1, 9))]
    tree = post.to_arviz()
    draws, likelihood = tree["posterior"], tree["log_likelihood"]["log_lik"]
    assert set(draws.data_vars) == {"mu", "tau", "eta", "theta"}
    assert draws["theta"].dims == likelihood.dims == ("chain", "draw", "school")
    assert draws["theta"].coords["school"].values.tolist() == schools
    theta = draws["mu"].values[..., None] + draws["tau"].values[..., None] * draws["eta"].values
    np.testing.assert_allclose(draws["theta"], theta, rtol=1e-12)
    y, sigma = EIGHT["y"], np.array(EIGHT["sigma"])
    expected = -0.5 * ((y - theta) / sigma) ** 2 - np.log(sigma) - 0.5 * np.log(2 * np.pi)
    np.testing.assert_allclose(likelihood, expected, rtol=1e-10)
    # Five standard errors of the mean of independent predictions.
    z = (tree["posterior_predictive"]["y_rep"].values - theta) / sigma
    assert abs(z.mean()) < 5 / np.sqrt(z.size) and abs(z.std() - 1) < 5 / np.sqrt(2 * z.size) < 0.05
    one, two = (post.sample_variables(700, seed=2, threads=threads) for threads in (1, 2))
    assert all((one[name] == two[name]).all() for name in one)
    assert (one["y_rep"] != post.sample_variables(700, seed=3)["y_rep"]).all()
    # A whole number where Stan declares one.
    with pytest.raises(ValueError, match="`data`: `J` is not whole, .* but eight_schools.stan declares int"):
        compiled(PROGRAMS / "eight_schools.stan", {**EIGHT, "J": 8.0})
    with pytest.raises(ValueError, match=r"`y` has dimensions \(7\), but eight_schools.stan declares \(8\)"):
        compiled(PROGRAMS / "eight_schools.stan", {**EIGHT, "y": EIGHT["y"][1:]})
    with pytest.raises(ValueError, match="`data` has no entry `sigma`, which eight_schools.stan needs"):
        compiled(PROGRAMS / "eight_schools.stan", {"J": 8, "y": EIGHT["y"]})
    with pytest.raises(ValueError, match="sigma.*is -15, but must be greater than or equal to 0"):
        compiled(PROGRAMS / "eight_schools.stan", {**EIGHT, "sigma": -np.array(EIGHT["sigma"])})


def test_variables_have_their_shapes():
    target = compiled(PROGRAMS / "shapes.stan")
    start = {
        "o": [-1, 0.5, 2],
        "q": [0.5, 1.5],
        "share": [0.2, 0.3, 0.5],
        "direction": [0.6, 0.8],
        "L": [[1, 0, 0], [0.6, 0.8, 0], [0, 0.6, 0.8]],
        "C": [[1, 0.5], [0.5, 1]],
        "S": [[2, 0.5], [0.5, 1]],
        "a": [[1, 2, 3], [4, 5, 6]],
        "m": [[0.1, 0.2, 0.3], [0.4, 0.5, 0.6]],
        "v": [[1, 2], [3, 4]],
        "x": 4.0,
    }
    # To the unconstrained space and back.
    point, sd = compiled(PROGRAMS / "shapes.stan", init=start).init
    back = {name: x[0] for name, _, x in target.native.variables_at(point[None], 1)}
    for name, value in start.items():
        np.testing.assert_allclose(back[name], value, rtol=1e-12, atol=1e-12)
    with pytest.raises(ValueError, match="initial values do not fit the model.*x"):
        compiled(PROGRAMS / "shapes.stan", init={name: value for name, value in start.items() if name != "x"})
    post = quick(target, seed=2)
    n = 300
    draws = post.sample_variables(n, seed=7)
    shapes = {name: x.shape[1:] for name, x in draws.items()}
    assert shapes == {v.name: v.shape for v in post.variables} and all(len(x) == n for x in draws.values())
    assert shapes["g"] == (2, 2, 3) and shapes["R"] == (3, 3) and shapes["a"] == shapes["m"] == (2, 3) and shapes["x"] == ()
    assert shapes["z.real"] == shapes["z.imag"] == shapes["pair.1"] == () and shapes["pair.2"] == (2,)
    np.testing.assert_allclose(draws["share"].sum(axis=1), 1)
    assert (np.diff(draws["o"], axis=1) > 0).all() and (draws["q"] > 0).all() and (draws["v"] > 0).all()
    np.testing.assert_allclose((draws["direction"] ** 2).sum(axis=1), 1)
    assert (np.triu(draws["L"], 1) == 0).all()
    np.testing.assert_allclose(draws["R"], draws["L"] @ draws["L"].transpose(0, 2, 1), atol=1e-12)
    assert (np.linalg.eigvalsh(draws["S"]) > 0).all()
    factor = np.array([[11, 12], [21, 22]])
    np.testing.assert_allclose(draws["g"], factor[None, :, :, None] * draws["share"][:, None, None, :], rtol=1e-12)
    np.testing.assert_array_equal(draws["z.real"], draws["x"])
    np.testing.assert_array_equal(draws["pair.2"], draws["direction"])
    # The columns of a draw have Stan's names.
    flat = dict(zip(post.parameter_names, post.sample(n, seed=7).T))
    np.testing.assert_array_equal(flat["m[2,3]"], draws["m"][:, 1, 2])
    np.testing.assert_array_equal(flat["R[3,1]"], draws["R"][:, 2, 0])
    np.testing.assert_array_equal(flat["v[1,2]"], draws["v"][:, 0, 1])
    assert "u" not in flat and "u" in draws and ((draws["u"] > 0) & (draws["u"] < 1)).all()
    tree = post.to_arviz()
    assert tree["posterior"]["g"].shape[2:] == (2, 2, 3)


@needs_binary
def test_the_command_line_gives_the_same_bits(tmp_path):
    target = compiled(PROGRAMS / "counts.stan", PROGRAMS / "counts.json")
    post = quick(target, seed=2, threads=2)
    words = ["fit", "stan", "--model", str(PROGRAMS / "counts.stan"), "--data", str(PROGRAMS / "counts.json"), "--seed", "2"]
    words += ["--max-evals", "20000", "--finish", "never", "--threads", "1", "--out", str(tmp_path / "fit"), "--quiet"]
    done = subprocess.run([BINARY, *words], capture_output=True, text=True)
    assert done.returncode in (0, 1), done.stderr
    by_command = natmix.load(tmp_path / "fit")
    np.testing.assert_array_equal(by_command.means, post.means)
    ours, theirs = post.to_arviz(), by_command.to_arviz()
    for group in ("posterior", "posterior_predictive", "log_likelihood"):
        assert list(ours[group].data_vars) == list(theirs[group].data_vars)
        for name, values in ours[group].data_vars.items():
            np.testing.assert_array_equal(theirs[group][name], values)
    assert ours["posterior_predictive"]["y_rep"].dtype == float
    # The same data as a dictionary give the same posterior.
    data = {"N": 6, "G": 2, "group": [1, 1, 1, 2, 2, 2], "y": [3, 0, 5, 1, 0, 9]}
    np.testing.assert_array_equal(quick(compiled(PROGRAMS / "counts.stan", data), seed=2).means, post.means)


def test_code_and_data_of_every_kind(capsys):
    with pytest.warns(natmix.NatmixWarning, match="stanc says:(.|\n)*(int|integer) division"):
        target = compiled(ECHO, GIVEN)
    post = natmix.fit(target, seed=1)
    assert post.parameter_names == ["x"] and abs(post.summary()["x"]["mean"] - 7) < 0.1
    assert "model.stan (1 parameter)" in target.what
    back = {name: x[0] for name, x in post.sample_variables(3).items()}
    for name in ("y", "A", "B"):
        np.testing.assert_array_equal(back[f"{name}_back"], GIVEN[name])
    assert (back["half"], back["sizes"], back["far_back"], back["last"]) == (1, 1, np.inf, 2.25)
    assert (back["c_back.real"], back["c_back.imag"]) == (1, -2)
    np.testing.assert_array_equal(back["pair_back"], [1.5, 4.5])
    assert capsys.readouterr().err.count("the model says: flag 1") >= 1


def test_syntax_errors_are_shown_as_stanc_has_them():
    with pytest.raises(ValueError) as caught:
        compiled("parameters { real mu }\nmodel { mu ~ normal(0, 1); }")
    message = str(caught.value)
    assert message.startswith("model.stan is not a valid Stan program.\nSyntax error in 'model.stan', line 1, column 21")
    assert "   -------------------------------------------------\n     1:  parameters { real mu }\n" in message
