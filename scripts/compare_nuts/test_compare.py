"""Tests of the comparison's parts; NUTS runs for seconds only."""

import json
import math
import time

import jax
import numpy as np
import pytest
from numpyro import handlers
from numpyro.distributions import biject_to
from numpyro.infer.util import log_density

from compare_nuts import nuts, table
from compare_nuts.arguments import arguments
from compare_nuts.catalogue import CATALOGUE
from compare_nuts.judge import first_labelling, judge, quantile_errors, truth
from compare_nuts.models import SIMULATED, WALK_STEPS, build
from compare_nuts.reference import References, both_labellings, walk_draws
from compare_nuts.results import Results
from compare_nuts.stopwatch import Stopwatch, undisturbed


@pytest.fixture(scope="module")
def normal():
    return np.random.default_rng(1).normal(size=(40_000, 3))


def drawn(seed, size=10_000):
    return np.random.default_rng(seed).normal(size=(size, 3))


def test_draws_of_the_same_distribution_are_right(normal):
    found = judge({"x": drawn(2)}, truth({"x": normal}))
    assert found["right"] and found["error"] < 0.6 and found["at"] == "x"
    assert found["mean_error"] < 0.05 and 0.97 < found["sd_ratio"][0] < found["sd_ratio"][1] < 1.03


def test_shifted_narrow_and_wide_draws_are_wrong(normal):
    # The limit: 0.05 of the 5-95% width of 3.29 is a shift by 0.16 sd, or the sd wrong by 10%.
    for draws in (drawn(2) + 0.3, 0.8 * drawn(2), 1.25 * drawn(2)):
        found = judge({"x": draws}, truth({"x": normal}))
        assert not found["right"] and found["error"] > 1.3
    assert judge({"x": drawn(2) + 0.08}, truth({"x": normal}))["right"]
    assert judge({"x": 1.05 * drawn(2)}, truth({"x": normal}))["right"]


def test_one_wrong_scalar_is_enough(normal):
    draws = drawn(2)
    draws[:, 1] += 0.3
    errors = quantile_errors(draws, truth({"x": normal})["x"])
    assert errors.shape == (3,) and errors[1] > 1.3 and max(errors[0], errors[2]) < 0.6
    found = judge({"w": drawn(3), "x": draws}, truth({"w": normal, "x": normal}))
    assert not found["right"] and found["at"] == "x"


def test_heavy_tails_are_judged_by_their_quantiles():
    rng = np.random.default_rng(3)
    cauchy, again = rng.standard_cauchy((2, 40_000, 2))
    # No moments, and the sd is that of the largest draw: quantiles decide.
    found = judge({"x": again}, truth({"x": cauchy}))
    assert found["right"] and not 0.9 < found["sd_ratio"][0] < found["sd_ratio"][1] < 1.1
    # A normal with the same quartiles lacks the tails.
    assert not judge({"x": rng.normal(size=(10_000, 2)) / 0.6745}, truth({"x": cauchy}))["right"]


def test_a_median_in_a_gap_does_not_decide():
    rng = np.random.default_rng(4)

    def two(size, share):
        return np.where(rng.random((size, 1)) < share, -5.0, 5.0) + rng.normal(size=(size, 1))

    assert judge({"x": two(10_000, 0.505)}, truth({"x": two(40_000, 0.495)}))["right"]
    assert not judge({"x": two(10_000, 0.56)}, truth({"x": two(40_000, 0.5)}))["right"]


def test_draws_that_do_not_fit_are_an_error(normal):
    with pytest.raises(ValueError, match="shape"):
        judge({"x": normal[:, :2]}, truth({"x": normal}))
    with pytest.raises(ValueError, match="not finite"):
        judge({"x": np.where(normal > 3, np.nan, normal)}, truth({"x": normal}))


def test_models_are_those_of_the_catalogue():
    assert list(SIMULATED) == list(CATALOGUE)


def traced(name):
    """The sites of a model, without anything computed."""
    sites = {}

    def run():
        sites.update(handlers.trace(handlers.seed(build(name), 0)).get_trace())

    jax.eval_shape(run)
    return {site: found for site, found in sites.items() if found["type"] == "sample"}


@pytest.mark.parametrize("name", CATALOGUE)
def test_models_have_their_dimension(name):
    free = [site for site in traced(name).values() if not site["is_observed"]]
    shapes = [biject_to(site["fn"].support).inverse_shape(site["value"].shape) for site in free]
    assert sum(math.prod(shape) for shape in shapes) == CATALOGUE[name].dim


SUMS = {
    "radon_noncentred": 1426.453969863176,
    "radon_centred": 1426.453969863176,
    "volatility": -19.72958462039446,
    "item_response": 999.0,
    "horseshoe": 42.64521071703144,
    "cox": 438.0,
    "counts": 1674.0,
    "logistic_100": 994.0,
    "logistic_300": 936.0,
    "logistic_1000": 2519.0,
    "network": -1.1311145106759333,
    "two_lines": 12.388482097280423,
}


def test_data_do_not_change():
    sums = {name: float(np.sum(traced(name)["y"]["value"])) for name in CATALOGUE if name != "walk_500"}
    assert sums == pytest.approx(SUMS, rel=1e-9)


def test_the_walk_is_exact():
    draws = walk_draws(20_000, 1)
    assert draws.shape == (20_000, WALK_STEPS)
    # The density of independent steps, up to a constant.
    log_p = jax.jit(lambda w: log_density(build("walk_500"), (), {}, {"w": w})[0])
    steps = np.diff(draws[:3], axis=1, prepend=0.0)
    difference = [-0.5 * (step**2).sum() / 0.09 - log_p(w) for step, w in zip(steps, draws)]
    np.testing.assert_allclose(difference, difference[0], rtol=1e-10)


def test_preconditioned_runs_agree_with_exact_moments():
    """A Gaussian is log-concave: known mean and sd, and short trajectories since the metric is exact."""
    import numpyro
    import numpyro.distributions as dist

    def model():
        x = numpyro.sample("x", dist.Normal(0, 1).expand([3]))
        numpyro.sample("y", dist.Normal(x[0] + 10 * x[1], 0.1), obs=10.0)

    draws, figures = nuts.run_preconditioned(model, 6400, 1)
    assert draws["x"].shape == (nuts.MANY_CHAINS, 100, 3)
    assert figures["r_hat"] < 1.05 and figures["least_ess"] > 2000 and figures["divergences"] == 0
    assert figures["evaluations"] < 10 * nuts.MANY_CHAINS * 200
    observed = np.array([1.0, 10.0, 0.0])
    covariance = np.linalg.inv(np.eye(3) + 100 * np.outer(observed, observed))
    mean = covariance @ observed * 100 * 10
    found = draws["x"].reshape(-1, 3)
    error = np.sqrt(np.diag(covariance) / 2000)
    assert (np.abs(found.mean(axis=0) - mean) < 5 * error).all()
    np.testing.assert_allclose(found.std(axis=0), np.sqrt(np.diag(covariance)), rtol=0.1)


def test_both_labellings_have_the_same_share():
    draws = {"a": np.array([[2.0, -1.0], [2.1, -0.9]]), "pi": np.array([[0.3, 0.7], [0.4, 0.6]])}
    both = both_labellings(draws)
    assert first_labelling(draws) == 1.0 and first_labelling(both) == 0.5
    assert both["pi"].tolist() == [[0.3, 0.7], [0.4, 0.6], [0.7, 0.3], [0.6, 0.4]]


def test_runs_of_nuts_are_kept(tmp_path, monkeypatch):
    def run(model, kept, seed, together=False):
        runs.append((kept, seed))
        return {"a": np.zeros((4, kept, 2))}, {"evaluations": 10, "seconds": 1.0}

    runs = []
    monkeypatch.setattr(nuts, "run", run)
    for _ in range(2):
        references = References(tmp_path, 7, tell=lambda _: None)
        assert references.usual("two_lines")["evaluations"] == 10
        assert references.truth("two_lines")["a"].shape == (7, 2)
    assert runs == [(1000, 0), (7, 1)]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["two_lines-7.npz", "two_lines-usual.json"]
    References(tmp_path, 7, again=True, tell=lambda _: None).usual("two_lines")
    assert runs[2:] == [(1000, 0)]


def test_the_stopwatch_knows_its_own_time_from_that_of_others():
    watch = Stopwatch()
    began = time.perf_counter()
    while time.perf_counter() - began < 0.3:
        pass
    found = watch.read()
    assert 0.3 <= found["seconds"] < 30 and (found["others"] is None or 0.0 <= found["others"] <= 1.0)
    assert undisturbed({"others": 0.05}) and not undisturbed({"others": 0.3}) and not undisturbed({})


ABOUT = {"natmix": "1.0", "numpyro": "2.0", "jax": "3.0", "build": "abc", "cores": 2, "long": 5000}


def figures(evaluations, level="chains", **others):
    evals = {"points": evaluations - 300, "diagnostics": 100, "chains": 200, "sum": evaluations}
    found = {
        "dim": 203,
        "level": level,
        "evals": evals,
        "seconds": 2.5,
        "others": 0.02,
        "error": 0.66,
        "right": True,
        "trusted": True,
    }
    return {**found, **others}


def usual(evaluations):
    return {"evaluations": evaluations, "seconds": 3.5, "others": 0.0}


@pytest.fixture
def results(tmp_path):
    results = Results(tmp_path / "compared.json", ABOUT)
    results.add("counts", 2, figures(50_000, right=False, error=1.25), usual(100_000))
    results.add("counts", 1, figures(12_500), usual(100_000))
    results.add("logistic_100", 1, figures(100_000, level="none", trusted=False), usual(100_000))
    results.add("walk_500", 1, figures(1_000), usual(1_000_000))
    results.add("network", 1, {"failed": "ValueError: draws"}, usual(1_000_000))
    return results


def test_an_interrupted_run_goes_on(results):
    again = Results(results.path, ABOUT)
    assert again.has("counts", 1) and again.has("counts", 2)
    # What failed is tried again.
    assert not again.has("counts", 3) and not again.has("network", 1)
    assert again.rows(["counts"]) == results.rows(["counts"])
    assert not again.differs(ABOUT)
    assert again.differs({**ABOUT, "build": "def"}) and again.differs({**ABOUT, "long": 1000})
    again.add("network", 1, figures(5000), usual(1_000_000))
    assert len(json.loads(results.path.read_text())["fits"]) == 5 and again.failed(CATALOGUE) == []


def test_the_text_has_a_line_per_fit(results):
    assert results.failed(CATALOGUE) == ["network, seed 1: failed, ValueError: draws"]
    lines = table.text(results.rows(CATALOGUE)).splitlines()
    assert [line.split()[:2] for line in lines[1:5]] == [
        ["counts", "1"],
        ["counts", "2"],
        ["logistic_100", "1"],
        ["walk_500", "1"],
    ]
    assert lines[1].split()[3:] == "chains 12,200 100 200 12,500 100,000 0.12 2.5 3.5 0.66 yes yes".split()
    assert lines[2].split()[-3:] == ["1.25", "no", "yes"] and lines[3].split()[3] == "none"
    assert {len(line) for line in lines[:5]} == {len(table.HEAD)}
    # counts has a mean of 0.25, logistic_100 of 1; the walk does not count.
    assert lines[-1] == "geometric mean of the ratios, without walk_500: 0.50"


def test_the_page_has_a_row_per_model(results):
    rows = results.rows(CATALOGUE)
    page = f"# Title\nbefore\n{table.BEGIN}\nold\n{table.END}\nafter\n"
    new = table.insert(page, table.markdown(rows, ABOUT))
    assert new.startswith("# Title\nbefore\n") and new.endswith("\nafter\n") and "old" not in new
    # Writing it again changes nothing.
    assert table.insert(new, table.markdown(rows, ABOUT)) == new
    (row,) = (line for line in new.splitlines() if line.startswith("| `counts`"))
    about = f"`counts`: {CATALOGUE['counts'].about}"
    cells = [about, "203", "chains", "31,250", "100,000", "0.12, 0.50", "2.5", "3.5", "1.25", "1 of 2", "2 of 2"]
    assert row == f"| {' | '.join(cells)} |"
    assert "**0.50**" in new
    # Times on a busy machine are marked, or left out.
    rows[0]["others"], rows[0]["nuts"] = 0.4, {**rows[0]["nuts"], "others": None}
    assert "2.5*    3.5*" in table.text(rows)
    assert " | - | - | 1.25 | " in table.markdown(rows, ABOUT)
    with pytest.raises(ValueError, match="the page has no line"):
        table.insert("# Title\n", "table")


def test_arguments_are_checked(capsys):
    assert arguments([]).models == list(CATALOGUE) and arguments(["--seeds", "1,2"]).seeds == [1, 2]
    for wrong in (["nothing"], ["--long", "0"], ["--no-runs"], ["--no-runs", "--json", "no such file"]):
        with pytest.raises(SystemExit):
            arguments(wrong)
    assert "there is no model nothing" in capsys.readouterr().err
