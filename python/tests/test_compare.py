"""Comparison of models against ArviZ and the command line; statements about parameters."""

import json
import math
import pickle
import subprocess

import arviz_stats
import numpy as np
import pytest

import natmix


def data(rows=150):
    rng = np.random.default_rng(7)
    group = np.arange(rows) % 10
    effects = rng.normal(scale=0.8, size=10)
    x = rng.normal(size=rows)
    eta = 0.4 + 0.6 * x + effects[group]
    return {
        "x": x,
        "w": rng.normal(size=rows),
        "g": np.array([f"g{i}" for i in group]),
        "real": eta + 0.5 * rng.normal(size=rows),
        "yes": (rng.uniform(size=rows) < 1 / (1 + np.exp(-eta))).astype(int),
        "count": rng.poisson(np.exp(eta) * rng.gamma(2, 0.5, size=rows)),
    }


def fit(family, formula):
    return natmix.fit(natmix.models.Formula(formula, data(), family=family), seed=2)


PAIRS = {
    "groups": (("linear", "real ~ x + (1 | g)"), ("linear", "real ~ x")),
    "dispersion": (("negative-binomial", "count ~ x"), ("poisson", "count ~ x")),
    "noise": (("logistic", "yes ~ x"), ("logistic", "yes ~ x + w")),
}


@pytest.fixture(scope="module", params=PAIRS)
def pair(request):
    return {name: fit(*model) for name, model in zip("ab", PAIRS[request.param])}


def test_loo_of_each_model_is_that_of_arviz(pair):
    for post in pair.values():
        ours, theirs = post.loo, arviz_stats.loo(post.to_arviz(), pointwise=True)
        # Both have Monte Carlo errors: from 1,000 and from at least 4,000 draws.
        assert ours.elpd == pytest.approx(theirs.elpd, abs=0.4)
        assert ours.p_loo == pytest.approx(theirs.p, abs=0.4)
        assert ours.se == pytest.approx(theirs.se, rel=0.02)
        assert ours.pointwise == pytest.approx(np.asarray(theirs.elpd_i), abs=0.15)
        assert ours.pointwise.sum() == pytest.approx(ours.elpd, abs=1e-9)
        assert ours.rows == len(ours.k_hats) == 150


def test_comparison_is_that_of_arviz(pair):
    ours = natmix.compare(pair)
    theirs = arviz_stats.compare({name: post.to_arviz() for name, post in pair.items()})
    assert ours.names == list(theirs.index)
    for name in "ab":
        row, other = ours[name], theirs.loc[name]
        assert row["difference"] == pytest.approx(-other["elpd_diff"], abs=0.4)
        assert row["difference_se"] == pytest.approx(other["dse"], abs=0.1, rel=0.05)
        assert row["weight"] == pytest.approx(other["weight"], abs=0.1)


def test_differences_and_weights_of_the_same_rows(pair):
    """From the same contributions of rows, so that nothing is left to chance."""
    ours = natmix.compare(pair)
    loos = {name: arviz_stats.loo(post.to_arviz(), pointwise=True) for name, post in pair.items()}
    for name, post in pair.items():
        loos[name].elpd_i = loos[name].elpd_i.copy(data=post.loo.pointwise)
        loos[name].elpd = post.loo.elpd
    theirs = arviz_stats.compare(loos)
    rows = 150
    for name in "ab":
        row, other = ours[name], theirs.loc[name]
        assert row["difference"] == pytest.approx(-other["elpd_diff"], abs=1e-9)
        # ArviZ divides by n, natmix by n - 1.
        assert row["difference_se"] == pytest.approx(other["dse"] * math.sqrt(rows / (rows - 1)), abs=1e-9)
        assert row["weight"] == pytest.approx(other["weight"], abs=2e-3)
    # By a grid, to the resolution of its steps.
    steps = np.linspace(0, 1, 2001)
    a, b = (np.exp(pair[name].loo.pointwise) for name in "ab")
    scores = [np.log(w * a + (1 - w) * b).mean() for w in steps]
    assert ours["a"]["weight"] == pytest.approx(steps[int(np.argmax(scores))], abs=1e-3)


def test_command_line_and_python_agree(tmp_path, pair):
    for name, post in pair.items():
        post.save(tmp_path / name)
    found = natmix.compare(pair)
    loaded = natmix.compare({name: natmix.load(tmp_path / name) for name in pair})
    pickled = natmix.compare({name: pickle.loads(pickle.dumps(natmix.load(tmp_path / name))) for name in pair})
    assert found.to_dict() == loaded.to_dict() == pickled.to_dict()
    assert repr(found) == repr(loaded) and found.report_html() == loaded.report_html()
    statements = ["x > 0.5", "0 < x < 9", "x / 2"]
    of_a = [pair["a"].test(statement) for statement in statements]
    assert of_a == [natmix.load(tmp_path / "a").test(statement) for statement in statements]
    found.save(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text() == found.report_html()
    assert "Stacking weights" in found._repr_html_()
    program = natmix_command()
    if program is None:
        pytest.skip("the command line is not built")
    run = subprocess.run([program, "compare", "a", "b", "--json"], cwd=tmp_path, capture_output=True, text=True)
    assert run.returncode in (0, 1) and json.loads(run.stdout) == found.to_dict(), run.stderr
    run = subprocess.run([program, "test", "a", *statements], cwd=tmp_path, capture_output=True, text=True)
    assert run.stdout.splitlines() == [repr(one) for one in of_a], run.stderr


def natmix_command():
    """The command line, if it was built."""
    from pathlib import Path

    folder = Path(__file__).resolve().parents[2] / "target"
    found = [path for profile in ("debug", "release") if (path := folder / profile / "natmix").exists()]
    return str(max(found, key=lambda path: path.stat().st_mtime)) if found else None


def test_names_and_refusals():
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=(60, 1)), np.exp(rng.normal(size=60))
    one = natmix.fit(natmix.models.Linear(x, y))
    two = natmix.fit(natmix.models.Linear(x, y, prior_sd=10.0))
    log = natmix.fit(natmix.models.Linear(x, np.log(y)))
    found = natmix.compare(one, two)
    assert sorted(found.names) == ["model 1", "model 2"] and len(found) == 2
    assert sum(found.weights.values()) == pytest.approx(1)
    assert any("60 rows" in warning for warning in found.warnings)
    with pytest.raises(KeyError):
        found["model 3"]
    with pytest.raises(ValueError, match="is the logarithm of the outcome"):
        natmix.compare(one, log)
    with pytest.raises(ValueError, match="at least two"):
        natmix.compare({"a": one})
    with pytest.raises(ValueError, match="two posteriors are called"):
        natmix.compare({"a": one}, {"a": two})
    density = natmix.fit(lambda z: (-0.5 * (z**2).sum(axis=1), -z), dim=2, components=1)
    assert density.loo is None
    mixed = natmix.compare({"rows": one, "density": density})
    assert math.isnan(mixed["density"]["elpd"]) and math.isfinite(mixed["density"]["log_evidence"])
    assert any("evidence only" in warning for warning in mixed.warnings)


def test_statements_of_a_known_posterior():
    post = natmix.fit(lambda z: (-0.5 * (z**2).sum(axis=1), -z), dim=2, names=["a", "b[1]"], components=1)
    for statement, probability in [
        ("a > 0", 0.5),
        ("-1 < a < 1", 0.682689),
        ("a > 0 and b[1] > 0", 0.25),
        ("a^2 + b[1]^2 < 2", 1 - math.exp(-1)),
        ("a > 1 and abs(b[1]) < 1", 0.158655 * 0.682689),
    ]:
        found = post.test(statement)
        assert abs(found.probability - probability) < 5 * found.se < 0.05, found
        assert found.ess == pytest.approx(4000)
        draws = post._record.draws
        assert found.se == pytest.approx(math.sqrt(found.probability * (1 - found.probability) / len(draws)))
    quantity = post.test("exp(a)")
    assert abs(quantity.mean - math.exp(0.5)) < 5 * quantity.se
    assert quantity.q50 == pytest.approx(1, abs=0.1)
    never = post.test("a > 9")
    assert never.probability == 0 and never.at_most == pytest.approx(3 / 4000) and "< 0.0008" in repr(never)
    with pytest.raises(ValueError, match="there is no parameter `aa`"):
        post.test("aa > 0")
