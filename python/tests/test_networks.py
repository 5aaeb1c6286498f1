"""Networks: the same numbers as on the command line, and files that either can read."""

import json
import os
import pickle
import subprocess

import numpy as np
import pytest

import natmix

BINARY = os.environ.get("NATMIX_BINARY")
needs_binary = pytest.mark.skipif(not BINARY, reason="NATMIX_BINARY is not set: nothing to compare with")
NAMES = ["a", "b"]


def run(*args):
    done = subprocess.run([BINARY, *map(str, args)], capture_output=True, text=True, timeout=120)
    assert done.returncode in (0, 1), done.stderr
    return done.stdout


def rows(likelihood, n=60, seed=5):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2)) * [1.0, 10.0] + [0.0, 3.0]
    score = np.sin(2 * X[:, 0]) + 0.1 * X[:, 1] + 0.2 * rng.normal(size=n)
    y = {
        "gaussian": 20 + 5 * score,
        "bernoulli": (score > 0.3).astype(float),
        "categorical": np.digitize(score, [0.0, 0.6]).astype(float),
    }[likelihood]
    return X, y


def write_csv(path, X, y):
    lines = [",".join([*NAMES, "y"])] + [",".join(map(repr, map(float, row))) for row in np.column_stack([X, y])]
    path.write_text("\n".join(lines) + "\n")


def without_timings(report):
    """A report without what may differ: times, the data file, its name in the summary, what separates columns, and the checksum
    of all this."""
    report = json.loads(json.dumps(report).replace(" in t.csv", ""))
    report["seconds"] = report["checksum"] = report["config"]["settings"]["data"] = None
    table = report["model"].pop("table", {})
    assert table in ({}, {"separator": "comma"})
    return report


@needs_binary
@pytest.mark.parametrize(
    ("likelihood", "method", "options"),
    [
        ("gaussian", "auto", {}),
        ("bernoulli", "vogn", {"components": 2}),
        ("categorical", "ivon", {"rate": 0.05}),
        ("gaussian", "adam", {}),
        ("bernoulli", "component-draws", {"components": 2, "covariance": "full", "max_evals": 2000}),
        ("gaussian", "ngvi", {"rate": 0.01, "minibatch": 20, "max_evals": 2000}),
    ],
)
@pytest.mark.filterwarnings("ignore::natmix.NatmixWarning")
def test_same_bits_as_the_command_line(likelihood, method, options, tmp_path):
    X, y = rows(likelihood)
    write_csv(tmp_path / "t.csv", X, y)
    training = {"epochs": 30} if method in ("auto", "vogn", "ivon", "adam") else {}
    flags = [x for name, value in (options | training).items() for x in (f"--{name.replace('_', '-')}", value)]
    run("fit", "mlp", "--data", tmp_path / "t.csv", "--outcome", "y", "--hidden", "5", "--activation", "tanh",
        "--likelihood", likelihood, "--method", method, "--seed", 3, "--quiet", "--out", tmp_path / "shell", *flags)  # fmt: skip
    network = natmix.models.Mlp(X, y, names=NAMES, hidden=[5], activation="tanh", likelihood=likelihood, **training)
    assert network.dim == network.native.dim == len(network.parameter_names())
    post = natmix.fit(network, method=method, seed=3, **options)
    post.save(tmp_path / "python")
    shell, python = (json.loads((tmp_path / way / "report.json").read_text()) for way in ("shell", "python"))
    assert without_timings(python) == without_timings(shell)
    assert post.means.tolist() == [c["mean"] for c in shell["components"]]
    # The predictions from both folders, by both programs, are the same.
    text = run("predict", "--posterior", tmp_path / "python", "--data", tmp_path / "t.csv").splitlines()
    shown = np.array([line.split(",") for line in text[1:]], dtype=float)
    for way in (post, natmix.load(tmp_path / "shell"), pickle.loads(pickle.dumps(post))):
        found = way.predict(X)
        mine = np.column_stack(list(found.values() if likelihood != "categorical" else reordered(found)))
        # The likeliest class stands in a column of its own.
        assert (mine == shown[:, : mine.shape[1]]).all() and shown.shape[1] == mine.shape[1] + (likelihood != "gaussian")
    assert post.sample(7).shape == (7, network.dim) and post.parameter_names == network.parameter_names()
    run("report", tmp_path / "python")


def reordered(found):
    """The class columns as the command line writes them."""
    return [found["probability"], found["entropy"], found["expected_entropy"], found["mutual_information"]]


@pytest.mark.filterwarnings("ignore::natmix.NatmixWarning")
def test_it_learns_and_is_uncertain_away_from_the_data():
    rng = np.random.default_rng(1)
    X = rng.uniform(-2, 2, size=(200, 1))
    y = np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=200)
    post = natmix.fit(natmix.models.Mlp(X, y, hidden=(20,), activation="tanh"), components=2)
    found = post.predict(X)
    assert np.sqrt(np.mean((found["mean"] - np.sin(2 * X[:, 0])) ** 2)) < 0.15
    far = post.predict([[6.0]])["sd"][0]
    assert far > 1.1 * np.median(found["sd"])


def test_trust_comes_from_rows_that_were_not_trained_on():
    rng = np.random.default_rng(4)
    X, later = rng.normal(size=(300, 2)), rng.normal(size=(400, 2))
    y, outcome = ((rng.uniform(size=len(x)) < 1 / (1 + np.exp(-1.5 * x[:, 0]))).astype(float) for x in (X, later))
    alone = natmix.fit(natmix.models.Mlp(X, y, hidden=(8,), epochs=60))
    assert alone.trusted is None and "Not measured: calibration" in alone.verdict and not alone.reasons
    tested = natmix.fit(natmix.models.Mlp(X, y, hidden=(8,), epochs=60, test=(later, outcome)))
    assert tested.trusted is True and (tested.means == alone.means).all()
    with pytest.warns(natmix.NatmixWarning, match="not calibrated"):
        wrong = natmix.fit(natmix.models.Mlp(X, y, hidden=(8,), epochs=60, test=(later, 1 - outcome)))
    assert wrong.trusted is False and wrong.reasons
    with pytest.raises(TypeError, match=r"test must be a pair \(X, y\), not list"):
        natmix.models.Mlp(X, y, test=[later, outcome])


@pytest.mark.parametrize("likelihood", ["bernoulli", "categorical", "gaussian"])
@pytest.mark.filterwarnings("ignore::natmix.NatmixWarning")
def test_components_predict_alone_and_are_stacked(likelihood):
    (X, y), held_out = rows(likelihood, 100), rows(likelihood, 300, seed=6)
    settings = {"likelihood": likelihood, "hidden": (5,), "epochs": 20, "validation": held_out}
    equal = natmix.fit(natmix.models.Mlp(X, y, **settings), components=3)
    post = natmix.fit(natmix.models.Mlp(X, y, weight_step="stacked", **settings), components=3)
    assert np.allclose(equal.weights, 1 / 3) and not np.allclose(post.weights, 1 / 3)
    whole, each = post.predict(X), post.predict(X, per_component=True)
    for name in ("probability",) if likelihood != "gaussian" else ("mean",):
        assert each[name].shape == (3, *whole[name].shape)
        assert np.allclose(np.tensordot(post.weights, each[name], 1), whole[name], atol=1e-6)
    with pytest.raises(ValueError, match="weight_step must not be stacked without rows"):
        natmix.fit(natmix.models.Mlp(X, y, weight_step="stacked", epochs=1), components=2)


def test_large_networks_keep_all_weights():
    X, y = rows("gaussian")
    post = natmix.fit(natmix.models.Mlp(X, y, hidden=(60, 20), epochs=2))
    assert post.dim > 1000 and len(post.parameter_names) == post.dim and post.sample(3).shape == (3, post.dim)
    assert len(post.summary()) == 1
    tree = pytest.importorskip("arviz_base") and post.to_arviz(5)
    assert len(tree["posterior"].data_vars) == post.dim


def test_levels_and_frames():
    pandas = pytest.importorskip("pandas")
    X, y = rows("categorical")
    frame = pandas.DataFrame({"a": X[:, 0], "b": np.where(X[:, 1] > 3, "high", "low")})
    kinds = np.array(["no", "perhaps", "yes"])[y.astype(int)]
    post = natmix.fit(natmix.models.Mlp(frame, kinds, hidden=(5,), epochs=20))
    found = post.predict(frame)
    assert found["probability"].shape == (60, 3) and np.allclose(found["probability"].sum(axis=1), 1)
    with pytest.raises(ValueError, match="levels that the fit did not have: middle"):
        post.predict(frame.assign(b="middle"))


def test_interrupted_training_returns_what_was_reached():
    X, y = rows("gaussian")

    class Stop:
        seen = 0

        def __call__(self, *_):
            Stop.seen += 1
            if Stop.seen == 1:
                raise KeyboardInterrupt

    import natmix._fit as module

    class Shown:
        def __enter__(self):
            return Stop()

        def __exit__(self, *_):
            return None

    wanted = module.Progress.wanted
    module.Progress.wanted = lambda *_: Shown()
    try:
        with pytest.warns(natmix.NatmixWarning, match="interrupted after"):
            post = natmix.fit(natmix.models.Mlp(X, y, hidden=(50,), epochs=1_000_000))
    finally:
        module.Progress.wanted = wanted
    assert Stop.seen >= 1 and not post.converged and post.predict(X)["mean"].shape == (60,)


@pytest.mark.parametrize(
    ("model", "fit", "words"),
    [
        ({"hidden": (0,)}, {}, "hidden|units|layer"),
        ({"activation": "gelu"}, {}, "activation must be relu or tanh, not 'gelu'"),
        ({"likelihood": "poisson"}, {}, "likelihood must be one of bernoulli, categorical, gaussian, not 'poisson'"),
        ({"epoch": 3}, {}, "networks have no setting `epoch`"),
        ({"batch": 61}, {}, "minibatch must be from 1 to 60, the number of rows, not 61"),
        ({}, {"components": "many"}, "components must be auto or a non-negative whole number, not 'many'"),
        ({"hidden": (80, 80)}, {"method": "von"}, "method must be vogn, ivon or adam, not von, for"),
        ({}, {"method": "magic"}, "method must be one of auto, .*, not 'magic'"),
        ({"batch": 20}, {"minibatch": 30}, "minibatch is given twice"),
        ({}, {"tolerance": 0.1}, "tolerance is not read by method vogn"),
        ({}, {"method": "adam", "momentum": 0.8}, "momentum is not read by method adam"),
        ({}, {"method": "ngvi"}, "epochs is not read by method ngvi, but by vogn, ivon and adam"),
    ],
)
def test_bad_settings_are_named(model, fit, words):
    X, y = rows("gaussian")
    with pytest.raises(ValueError, match=words):
        natmix.fit(natmix.models.Mlp(X, y, **{"epochs": 1, **model}), **fit)


@pytest.mark.filterwarnings("ignore::natmix.NatmixWarning")
def test_a_start_needs_a_method_of_the_engine():
    X, y = rows("bernoulli")
    first = natmix.fit(natmix.models.Mlp(X, y, hidden=(3,), epochs=5))
    network = natmix.models.Mlp(X, y, hidden=(3,))
    with pytest.raises(ValueError, match="works with methods of the engine"):
        natmix.fit(network, start=first)
    later = natmix.fit(network, method="ngvi", rate=0.01, start=first, max_evals=1000, progress=False)
    assert later.components == first.components and (later.means != first.means).any()
