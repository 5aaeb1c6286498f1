"""Built-in models: the same numbers as on the command line, and files that either can read."""

import gzip
import json
import os
import pickle
import subprocess
import warnings
from pathlib import Path

import numpy as np
import pytest

import natmix

BINARY = os.environ.get("NATMIX_BINARY")
needs_binary = pytest.mark.skipif(not BINARY, reason="NATMIX_BINARY is not set: nothing to compare with")


def table(kind, rows=200, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, 3)) * [1.0, 20.0, 0.1] + [0.0, 7.0, 1.0]
    eta = 0.5 + X[:, 0] - (X[:, 1] - 7.0) / 20.0
    y = {
        "logistic": lambda: (rng.random(rows) < 1 / (1 + np.exp(-eta))).astype(float),
        "linear": lambda: 40.0 + 10.0 * eta + rng.normal(size=rows),
        "poisson": lambda: rng.poisson(np.exp(0.5 * eta)).astype(float),
        "softmax": lambda: np.digitize(eta + rng.logistic(size=rows), [-0.5, 1.0]).astype(float),
    }[kind]()
    return X, y


MODELS = {
    "logistic": natmix.models.Logistic,
    "linear": natmix.models.Linear,
    "poisson": natmix.models.Poisson,
    "softmax": natmix.models.Softmax,
}


def run(*args):
    done = subprocess.run([BINARY, *map(str, args)], capture_output=True, text=True, timeout=120)
    assert done.returncode in (0, 1), done.stderr
    return done.stdout


def write_csv(path, X, y, names=("a", "b", "c")):
    lines = [",".join([*names, "y"])] + [",".join(map(repr, map(float, row))) for row in np.column_stack([X, y])]
    path.write_text("\n".join(lines) + "\n")


@needs_binary
@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("components", ["auto", 2])
@pytest.mark.filterwarnings("ignore::natmix.NatmixWarning")
def test_same_bits_as_the_command_line(kind, components, tmp_path):
    X, y = table(kind)
    write_csv(tmp_path / "t.csv", X, y)
    run("fit", kind, "--data", tmp_path / "t.csv", "--outcome", "y", "--components", components, "--seed", 3, "--quiet",
        "--prior-sd", 2.0, "--out", tmp_path / "fit")  # fmt: skip
    report = json.loads((tmp_path / "fit/report.json").read_text())
    model = MODELS[kind](X, y, names=["a", "b", "c"], prior_sd=2.0)
    post = natmix.fit(model, components=components, seed=3)
    assert post.weights.tolist() == [c["weight"] for c in report["components"]]
    assert post.means.tolist() == [c["mean"] for c in report["components"]]
    assert (post.elbo, post.k_hat, post.evals) == (report["elbo"]["mean"], report["k_hat"], sum(report["evals"].values()))
    rows = [p["name"] for p in report["parameters"]]
    assert post.parameter_names == rows
    assert post.summary()["mean"].tolist() == [p["mean"] for p in report["parameters"]]
    # Files of the command line, read by Python: draws and predictions have the same bits too.
    loaded = natmix.load(tmp_path / "fit")
    assert (loaded.means == post.means).all() and (loaded.sample(50) == post.sample(50)).all()
    text = run("predict", "--posterior", tmp_path / "fit", "--data", tmp_path / "t.csv").splitlines()
    first = np.array([line.split(",") for line in text[1:]], dtype=float)
    mine = loaded.predict(X)
    mine = np.column_stack([mine["probability"], mine["entropy"]] if kind == "softmax" else list(mine.values()))
    # The likeliest class stands in a column of its own.
    assert (mine == first[:, : mine.shape[1]]).all() and first.shape[1] == mine.shape[1] + (kind in ("logistic", "softmax"))


@needs_binary
@pytest.mark.filterwarnings("ignore::natmix.NatmixWarning")
def test_density_and_warm_start_like_the_command_line(tmp_path):
    spec = {"kind": "funnel", "dim": 3, "sd0": 1.5, "init": {"mean": 0.0, "sd": 1.0}}
    (tmp_path / "f.json").write_text(json.dumps(spec))
    run("fit", "density", "--spec", tmp_path / "f.json", "--components", 4, "--seed", 2, "--max-evals", 20000, "--quiet",
        "--out", tmp_path / "fit")  # fmt: skip
    report = json.loads((tmp_path / "fit/report.json").read_text())
    post = natmix.fit(natmix.models.Density(spec), components=4, seed=2, max_evals=20000, progress=False)
    assert post.means.tolist() == [c["mean"] for c in report["components"]]
    run("fit", "density", "--spec", tmp_path / "f.json", "--init-posterior", tmp_path / "fit", "--seed", 3, "--max-evals", 20000,
        "--quiet", "--out", tmp_path / "again")  # fmt: skip
    report = json.loads((tmp_path / "again/report.json").read_text())
    again = natmix.fit(natmix.models.Density(spec), start=post, seed=3, max_evals=20000)
    assert again.means.tolist() == [c["mean"] for c in report["components"]]
    fixed = natmix.fit(natmix.models.Density(spec), method="component-draws", start=post, seed=3, max_evals=20000)
    assert fixed.components == 4 and (fixed.means != post.means).any()


@needs_binary
def test_files_of_python_on_the_command_line(tmp_path):
    X, y = table("logistic")
    post = natmix.fit(natmix.models.Logistic(X, y, names=["a", "b", "c"]), seed=1)
    post.save(tmp_path / "fit")
    assert "report.html" in run("report", tmp_path / "fit")
    write_csv(tmp_path / "t.csv", X, y)
    text = run("predict", "--posterior", tmp_path / "fit", "--data", tmp_path / "t.csv").splitlines()
    assert len(text) == 201 and float(text[1].split(",")[0]) == post.predict(X)["probability"][0]
    draws = run("sample", "--posterior", tmp_path / "fit", "-n", 5).splitlines()
    assert np.array([d.split(",") for d in draws[1:]], dtype=float).tolist() == post.sample(5).tolist()


def without_timings(report):
    """A report without what may differ: times, the data file, its name in the summary, what separates columns, and the checksum
    of all this."""
    report = json.loads(json.dumps(report).replace("t.csv, ", ""))
    report["seconds"] = report["checksum"] = report["config"]["settings"]["data"] = None
    table = report["model"].pop("table", {})
    assert table in ({}, {"separator": "comma"})
    return report


@needs_binary
@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.filterwarnings("ignore::natmix.NatmixWarning")
def test_a_saved_folder_equals_that_of_the_command_line(kind, tmp_path):
    X, y = table(kind)
    write_csv(tmp_path / "t.csv", X, y)
    run("fit", kind, "--data", tmp_path / "t.csv", "--outcome", "y", "--components", 2, "--seed", 3, "--quiet",
        "--out", tmp_path / "shell")  # fmt: skip
    post = natmix.fit(MODELS[kind](X, y, names=["a", "b", "c"]), components=2, seed=3)
    post.save(tmp_path / "python")
    shell, python = (json.loads((tmp_path / way / "report.json").read_text()) for way in ("shell", "python"))
    assert python["train"]["rows"] == 200 and python["loo"]["p_loo"] > 0
    assert without_timings(python) == without_timings(shell)
    files = {str(f.relative_to(tmp_path / "shell")) for f in (tmp_path / "shell").rglob("*") if f.is_file()}
    assert files == {str(f.relative_to(tmp_path / "python")) for f in (tmp_path / "python").rglob("*") if f.is_file()}
    for name in [name for name in files if name.startswith("draws.zarr")]:
        assert (tmp_path / "shell" / name).read_bytes() == (tmp_path / "python" / name).read_bytes(), name
    # Only the name of the data file differs: with it, the settings repeat the fit.
    run("fit", "--config", tmp_path / "python/config.toml", "--data", tmp_path / "t.csv", "--quiet", "--out", tmp_path / "again")
    again = json.loads((tmp_path / "again/report.json").read_text())
    assert without_timings(again) == without_timings(shell)
    # Saved again without its target: all figures remain.
    natmix.load(tmp_path / "python").save(tmp_path / "copy")
    assert json.loads((tmp_path / "copy/report.json").read_text()) == python
    assert (tmp_path / "copy/config.toml").read_text() == (tmp_path / "python/config.toml").read_text()


def test_save_load_and_pickle(tmp_path):
    X, y = table("linear")
    post = natmix.fit(natmix.models.Linear(X, y), seed=4)
    post.save(tmp_path / "fit")
    for again in (natmix.load(tmp_path / "fit"), pickle.loads(pickle.dumps(post))):
        assert (again.means == post.means).all() and (again.covariances == post.covariances).all()
        assert (again.sample(10) == post.sample(10)).all()
        assert again.elbo == post.elbo and again.parameter_names == post.parameter_names
        assert (again.predict(X)["q95"] == post.predict(X)["q95"]).all()
        assert (again.trace["elbo"] == post.trace["elbo"]).all()
        assert str(again) == str(post)
        with pytest.raises(ValueError, match="weighted draws need the target"):
            again.sample(10, resample=True)
        with_target = again.with_target(natmix.models.Linear(X, y))
        assert (with_target.sample(10, resample=True) == post.sample(10, resample=True)).all()
    assert b"reduce" not in pickle.dumps(post) and b"natmix._posterior" in pickle.dumps(post)


def test_damaged_files_are_refused(tmp_path):
    X, y = table("logistic")
    natmix.fit(natmix.models.Logistic(X, y)).save(tmp_path / "fit")
    with pytest.raises(OSError, match="nowhere"):
        natmix.load(tmp_path / "nowhere")
    file = tmp_path / "fit" / "posterior.safetensors"
    whole = file.read_bytes()
    file.write_bytes(whole[:-7])
    with pytest.raises(ValueError, match="posterior.safetensors"):
        natmix.load(tmp_path / "fit")
    file.write_bytes(whole)
    (tmp_path / "fit/report.json").write_text("{}")
    with pytest.raises(ValueError, match="not a report"):
        natmix.load(tmp_path / "fit")


def test_arviz_has_rows(tmp_path):
    X, y = table("linear", rows=50)
    post = natmix.fit(natmix.models.Linear(X, y, names=["a", "b", "c"]))
    tree = post.to_arviz()
    assert set(tree["posterior"].data_vars) == {"(intercept)", "a", "b", "c", "sigma"}
    sigma, eta = tree["posterior"]["sigma"].values[0], 0
    draws = post.sample(4000, seed=post.seed)
    eta = draws[:, :1] + draws[:, 1:4] @ X.T
    expected = -0.5 * ((y - eta) / sigma[:, None]) ** 2 - np.log(sigma[:, None]) - 0.5 * np.log(2 * np.pi)
    np.testing.assert_allclose(tree["log_likelihood"]["outcome"].values[0], expected, atol=1e-9)
    stats = tree["sample_stats"]
    np.testing.assert_allclose(np.mean(stats["log_p"].values - stats["log_q"].values), post.elbo, atol=6 * post.elbo_se + 1e-3)
    again = pickle.loads(pickle.dumps(post)).to_arviz()
    assert "log_p" not in again["sample_stats"] and (again["posterior"]["a"] == tree["posterior"]["a"]).all()


@pytest.mark.filterwarnings("ignore::natmix.NatmixWarning")
def test_arviz_keeps_variables_that_are_called_draw_or_chain(tmp_path):
    post = natmix.fit(lambda z: (-0.5 * (z**2).sum(-1), -z), dim=3, names=["draw", "chain", "draw~1"], seed=1)
    draws = post.sample(post._record.draws.shape[0], seed=post.seed)
    found = post.to_arviz()["posterior"]
    assert list(found.data_vars) == ["draw~2", "chain~1", "draw~1"]
    assert dict(found.sizes) == {"chain": 1, "draw": len(draws)}
    np.testing.assert_array_equal(found["draw~2"].values[0], draws[:, 0])
    post.save(tmp_path)
    again = natmix.load(tmp_path)
    assert again.parameter_names == ["draw", "chain", "draw~1"]
    np.testing.assert_array_equal(again.sample(10, seed=1), post.sample(10, seed=1))


def test_older_arviz(monkeypatch):
    arviz = pytest.importorskip("arviz")
    if not hasattr(arviz, "InferenceData"):
        pytest.skip("this ArviZ has DataTree only")
    import sys

    X, y = table("logistic", rows=30)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", natmix.NatmixWarning)
        post = natmix.fit(natmix.models.Logistic(X, y), components=3)
    monkeypatch.setitem(sys.modules, "arviz_base", None)
    data = post.to_arviz(100)
    assert isinstance(data, arviz.InferenceData)
    assert set(data.groups()) == {"posterior", "sample_stats", "log_likelihood"}


def test_data_frames_with_levels_offsets_and_weights():
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(3)
    frame = pandas.DataFrame({"age": rng.normal(50, 10, 300), "town": rng.choice(["x", "y", "z"], 300)})
    rate = np.exp(0.02 * (frame["age"] - 50) + (frame["town"] == "z"))
    exposure = rng.uniform(0.5, 2, 300)
    y = rng.poisson(rate * exposure)
    model = natmix.models.Poisson(frame, y, exposure=exposure, weights=np.ones(300))
    post = natmix.fit(model)
    assert post.parameter_names == ["(intercept)", "age", "town=y", "town=z"]
    assert abs(post.summary()["town=z"]["mean"] - 1) < 0.3
    mean = post.predict(frame, exposure=exposure)["mean"]
    assert abs(mean.mean() - y.mean()) < 0.2
    with pytest.raises(ValueError, match="has an exposure"):
        post.predict(frame)
    with pytest.raises(ValueError, match="levels that the fit did not have: q"):
        post.predict(pandas.DataFrame({"age": [50.0], "town": ["q"]}), exposure=[1.0])
    with pytest.raises(ValueError, match="no column 'town'"):
        post.predict(frame[["age"]], exposure=exposure)
    with pytest.raises(TypeError, match="has no offset"):
        post.predict(frame, exposure=exposure, offset=exposure)
    two = natmix.fit(
        natmix.models.Logistic(frame[["age"]], np.where(frame["age"] + rng.normal(size=300) * 9 > 50, "old", "young"))
    )
    assert two.predict(frame)["probability"].shape == (300,)


@pytest.mark.parametrize(
    ("X", "y", "words"),
    [
        (np.ones((3, 2, 2)), [0, 1, 0], r"X has shape \(3, 2, 2\)"),
        ([[1.0], [np.nan], [2.0]], [0, 1, 0], "1 missing values"),
        ([[1.0], [np.inf], [2.0]], [0, 1, 0], "not a finite number"),
        ([[1.0], [2.0], [3.0]], [0, 1], "has 2 rows, the others 3"),
        ([[1.0], [2.0], [3.0]], [0, 1, 5], "5"),
        ([[1.0], [2.0], [3.0]], [0, 0, 0], "y"),
        (np.empty((0, 2)), [], "rows|no row"),
        ([["a"], ["b"], [None]], [0, 1, 0], "missing values"),
    ],
)
def test_bad_tables_are_named(X, y, words):
    with pytest.raises(ValueError, match=words):
        natmix.models.Logistic(X, y)


def test_constant_columns_are_warned_of():
    X, y = table("logistic")
    with pytest.warns(natmix.NatmixWarning, match="column `c` is always 1: it explains nothing"):
        natmix.models.Logistic(np.column_stack([X[:, :2], np.ones(len(X))]), y, names=["a", "b", "c"])


def test_pictures_and_text():
    X, y = table("logistic")
    post = natmix.fit(natmix.models.Logistic(X, y, names=["a", "b", "c"]))
    page = post.report_html()
    assert page.startswith("<!DOCTYPE html>") and page.count("<svg") > 4 and "Logistic regression" in page
    assert post._repr_html_().startswith("<iframe srcdoc=")
    assert "You can trust" in page
    pytest.importorskip("matplotlib")
    figure = post.plot(["a", "b"])
    assert len(figure.axes) == 4
    with pytest.raises(ValueError, match="no parameter 'q'"):
        post.plot(["q"])
    assert "(intercept)" in str(post.summary()) and len(post.summary()) == 4
    assert post.summary().to_pandas().loc["a", "sd"] > 0


def test_german_credit_against_its_reference():
    folder = os.environ.get("NATMIX_DATA")
    if not folder:
        pytest.skip("NATMIX_DATA is not set: nothing to read")
    path = Path(folder) / "classification" / "german_credit.csv"
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt") as file:
        names = file.readline().strip().split(",")
        values = np.loadtxt(file, delimiter=",")
    at = names.index("y") if "y" in names else len(names) - 1
    X, y = np.delete(values, at, axis=1), values[:, at]
    y = (y == y.max()).astype(float)
    post = natmix.fit(natmix.models.Logistic(X, y, prior_sd=10.0))
    assert post.trusted and post.k_hat < 0.7
    assert 0.7 < ((post.predict(X)["probability"] > 0.5) == y).mean() < 0.85


def test_numbers_in_an_array_of_objects_are_numbers():
    X, y = table("logistic")
    assert natmix.models.Logistic(X.astype(object), y).dim == 4
    levels = np.array([["a", 1.0], ["b", 2.0], ["a", 3.0], ["b", 5.0]], dtype=object)
    assert natmix.models.Logistic(levels, [0, 1, 1, 0]).parameter_names() == ["(intercept)", "x0=b", "x1"]


@pytest.mark.parametrize(
    ("settings", "error", "words"),
    [
        (dict(seed=-1), ValueError, "seed must be a non-negative whole number, not -1"),
        (dict(seed=None), ValueError, "seed must be a non-negative whole number, not None"),
        (dict(threads=1.5), ValueError, "threads must be a non-negative whole number"),
        (dict(max_evals="many"), ValueError, "max_evals must be a non-negative whole number"),
        (dict(tolerance=0), ValueError, "tolerance must be a positive number, not 0"),
        (dict(init=3.0), TypeError, r"init must be a pair \(mean, sd\)"),
        (dict(init=([0.0, 0.0], 1.0)), ValueError, r"init mean has shape \(2,\), expected a number or \(4,\)"),
        (dict(start=3), TypeError, "start must be a natmix.Posterior"),
        (dict(components=20_000), ValueError, "components must be at most 10000, not 20000"),
    ],
)
def test_bad_settings_are_named(settings, error, words):
    X, y = table("logistic")
    with pytest.raises(error, match=words):
        natmix.fit(natmix.models.Logistic(X, y), **settings)


@pytest.mark.filterwarnings("ignore::natmix.NatmixWarning")
def test_messages_use_python_names():
    X, y = table("logistic")
    with pytest.raises(ValueError, match="only one row.*standardize=False"):
        natmix.models.Linear(X[:1], y[:1])
    post = natmix.fit(natmix.models.Logistic(X, y), components=1, max_evals=1e4)
    with pytest.raises(ValueError, match=r"one row of 3 columns is \[\[...\]\]"):
        post.predict(X[0])
    with pytest.raises(ValueError, match="prior_sd must be a positive number, not 'wide'"):
        natmix.models.Logistic(X, y, prior_sd="wide")


def test_rows_with_missing_values_are_dropped():
    X = [[1.0, "u"], [np.nan, "v"], [3.0, "w"], [4.0, None], [5.0, "u"]]
    frame = {"a": [x for x, _ in X], "g": [g for _, g in X]}
    pandas = pytest.importorskip("pandas")
    y = np.array(["yes", "no", "yes", "no", "no"])
    with pytest.warns(natmix.NatmixWarning, match=r"2 of 5 rows are dropped.*'a' \(1\), 'g' \(1\)"):
        dropped = natmix.models.Logistic(pandas.DataFrame(frame), y, missing="drop")
    kept = natmix.models.Logistic(pandas.DataFrame(frame).iloc[[0, 2, 4]], y[[0, 2, 4]])
    assert dropped.native.parameter_names == kept.native.parameter_names == ["(intercept)", "a", "g=w"]
    z = np.random.default_rng(1).normal(size=(5, dropped.dim))
    assert (dropped.native.values(z) == kept.native.values(z)).all()
    with pytest.raises(ValueError, match="missing must be 'error' or 'drop'"):
        natmix.models.Logistic([[1.0], [2.0]], [0, 1], missing="skip")
    with pytest.raises(ValueError, match="every row has a missing value"):
        natmix.models.Logistic([[np.nan], [np.nan]], [0, 1], missing="drop")


def test_reference_levels_are_chosen():
    X, y = np.array([["u"], ["v"], ["w"], ["u"], ["v"], ["w"]]), np.array(["yes", "no", "no", "no", "yes", "yes"])
    usual = natmix.models.Logistic(X, y, names=["g"])
    other = natmix.models.Logistic(X, y, names=["g"], reference={"g": "w", "y": "yes"})
    assert (usual.native.parameter_names[1:], other.native.parameter_names[1:]) == (["g=v", "g=w"], ["g=u", "g=v"])
    for reference, message in [({"g": "x"}, "no level 'x'"), ({"h": "u"}, "'h' is no column of levels")]:
        with pytest.raises(ValueError, match=message):
            natmix.models.Logistic(X, y, names=["g"], reference=reference)
