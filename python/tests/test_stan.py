"""Stan in Python: a ready library, which needs no Stan, and every kind of bad input refused."""

import json
import os
import pickle
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from stan_tools import fake_tools, library, script

import natmix
from natmix import _stan

BINARY = os.environ.get("NATMIX_BINARY")
needs_binary = pytest.mark.skipif(not BINARY, reason="NATMIX_BINARY is not set: nothing to compare with")
QUICK = {"max_evals": 20_000}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stan")
    library(folder)
    (folder / "data.json").write_text('{"n": 1}')
    return folder


@pytest.fixture(scope="module")
def target(folder):
    return natmix.from_stan(folder / "mock.so", {"n": 1})


@pytest.fixture(scope="module")
def post(target):
    return natmix.fit(target, seed=3, **QUICK)


def test_a_library_is_fitted_in_its_own_parameters(target, post):
    assert target.dim == 2 and target.kind == "stan" and "mock.so (2 parameters)" in target.what
    assert post.trusted and post.parameter_names == ["mu", "s", "t[1]", "t[2]"] == target.parameter_names()
    assert abs(post.log_evidence) < 0.01
    assert abs(post.summary()["s"]["mean"] - np.exp(0.125)) < 0.05
    assert [(v.name, v.shape) for v in post.variables][2:] == [("t", (2,)), ("y_rep", ()), ("log_lik", ())]
    draws = post.sample(500, seed=4)
    assert draws.shape == (500, 4)
    found = post.sample_variables(500, seed=4)
    assert {name: x.shape for name, x in found.items()} == {
        "mu": (500,),
        "s": (500,),
        "t": (500, 2),
        "y_rep": (500,),
        "log_lik": (500,),
    }
    np.testing.assert_array_equal(np.column_stack([found["mu"], found["s"], found["t"]]), draws)
    np.testing.assert_array_equal(found["t"][:, 1], found["mu"] - found["s"])
    np.testing.assert_array_equal(found["log_lik"], found["mu"])
    # Random numbers follow from the seed, whatever the number of threads.
    for threads in (1, 3):
        again = post.sample_variables(500, seed=4, threads=threads)
        assert all((again[name] == found[name]).all() for name in found)
    assert (post.sample_variables(500, seed=5)["y_rep"] != found["y_rep"]).any()
    weighted = post.sample_variables(100, resample=True)
    assert weighted["t"].shape == (100, 2) and len(np.unique(weighted["y_rep"])) == 100
    assert post.plot(["t[2]"]) is not None
    assert "t[1]" in post.report_html()


def test_arviz_gets_all_groups(folder):
    target = natmix.from_stan(folder / "mock.so", {"n": 1}, dims={"t": ["side"]}, coords={"side": ["left", "right"]})
    post = natmix.fit(target, seed=3, **QUICK)
    tree = post.to_arviz()
    assert set(tree["posterior"].data_vars) == {"mu", "s", "t"}
    assert set(tree["posterior_predictive"].data_vars) == {"y_rep"}
    assert set(tree["log_likelihood"].data_vars) == {"log_lik"}
    assert {"log_p", "log_q", "component"} <= set(tree["sample_stats"].data_vars)
    assert tree["posterior"]["t"].dims == ("chain", "draw", "side")
    np.testing.assert_array_equal(tree["posterior"]["t"].sel(side="right"), tree["posterior"]["mu"] - tree["posterior"]["s"])
    # Other draws, or without log likelihoods.
    other = post.to_arviz(50, seed=9, log_likelihood=False)
    assert "log_likelihood" not in other.children and other["posterior_predictive"]["y_rep"].shape == (1, 50)
    np.testing.assert_array_equal(other["posterior"]["t"].values[0], post.sample_variables(50, seed=9)["t"])
    # Draws of chains are several chains.
    with_chains = natmix.finish(post)
    assert with_chains.level == "chains"
    tree = with_chains.to_arviz()
    shape = tree["posterior"]["mu"].shape
    assert shape[0] > 1 and tree["posterior_predictive"]["y_rep"].shape == shape
    np.testing.assert_array_equal(tree["log_likelihood"]["log_lik"], tree["posterior"]["mu"])


def test_posteriors_are_kept(post, target, folder, tmp_path):
    post.save(tmp_path / "fit")
    for again in (natmix.load(tmp_path / "fit"), pickle.loads(pickle.dumps(post))):
        assert again.parameter_names == post.parameter_names and again.variables == post.variables
        # The draws that the fit delivered, and all that was computed for them.
        ours, theirs = post.to_arviz(), again.to_arviz()
        for group in ("posterior", "posterior_predictive", "log_likelihood"):
            for name, values in ours[group].data_vars.items():
                np.testing.assert_array_equal(theirs[group][name], values)
        with pytest.raises(ValueError, match=r"need the target of the fit: give it to natmix.load\(dir, target\)"):
            again.sample_variables(10)
        whole = again.with_target(target)
        np.testing.assert_array_equal(whole.sample_variables(10)["y_rep"], post.sample_variables(10)["y_rep"])
    # A copy of a copy loses nothing.
    natmix.load(tmp_path / "fit").save(tmp_path / "again")
    np.testing.assert_array_equal(
        natmix.load(tmp_path / "again").to_arviz()["posterior_predictive"]["y_rep"],
        post.to_arviz()["posterior_predictive"]["y_rep"],
    )
    with pytest.warns(natmix.NatmixWarning, match="program or data of this target are not those of the fit"):
        natmix.load(tmp_path / "fit", natmix.from_stan(folder / "mock.so", {"n": 2}))
    normal = natmix.from_callable(lambda z: (-0.5 * (z**2).sum(axis=1), -z), dim=2)
    with pytest.raises(ValueError, match="not the Stan program of this posterior"):
        natmix.load(tmp_path / "fit", normal)


def command(folder, *words):
    done = subprocess.run([BINARY, *words], cwd=folder, capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


@needs_binary
def test_the_command_line_gives_the_same_bits(folder, tmp_path):
    fit = ["fit", "stan", "--model", "mock.so", "--data", "data.json", "--seed", "3", "--max-evals", "20000", "--out", "fit"]
    assert command(folder, *fit)[0] == 0
    by_command = natmix.load(folder / "fit")
    target = natmix.from_stan(folder / "mock.so", folder / "data.json")
    post = natmix.fit(target, seed=3, threads=1, **QUICK)
    for name in ("weights", "means", "covariances"):
        np.testing.assert_array_equal(getattr(post, name), getattr(by_command, name))
    ours, theirs = post._record.report, by_command._record.report
    for part in ("parameters", "elbo", "log_evidence", "model", "evals", "verdict"):
        assert ours[part] == theirs[part]
    for (name, group, x), other in zip(post._record.variable_draws, by_command._record.variable_draws):
        assert (name, group) == other[:2]
        np.testing.assert_array_equal(x, other[2])
    # New draws, too, on either side.
    np.testing.assert_array_equal(by_command.with_target(target).sample(9, seed=5), post.sample(9, seed=5))
    code, table, _ = command(folder, "sample", "--posterior", "fit", "-n", "9", "--seed", "5")
    rows = np.array([[float(x) for x in line.split(",")] for line in table.splitlines()[1:]])
    draws = post.sample_variables(9, seed=5)
    assert code == 0
    np.testing.assert_array_equal(rows, np.column_stack([draws[name] for name in ("mu", "s", "t", "y_rep", "log_lik")]))
    # A folder from Python, where program and data are files.
    post.save(tmp_path / "python")
    assert command(folder, "sample", "--posterior", str(tmp_path / "python"), "-n", "9", "--seed", "5") == (0, table, "")
    assert command(folder, "fit", "--config", str(tmp_path / "python" / "config.toml"), "--out", "again")[0] == 0
    np.testing.assert_array_equal(natmix.load(folder / "again").means, post.means)


@needs_binary
def test_the_command_line_says_what_it_cannot_find_again(folder, post, tmp_path):
    post.save(tmp_path / "fit")
    code, _, message = command(folder, "sample", "--posterior", str(tmp_path / "fit"), "-n", "9")
    assert code == 2 and "in Python, with code or data that are in no file" in message and "natmix.load(dir, target)" in message


def test_starts(folder):
    program, data = folder / "mock.so", {"n": 1}
    for init in ({"mu": 1.5, "s": np.float64(1.0)}, '{"mu": 1.5, "s": 1}'):
        mean, sd = natmix.from_stan(program, data, init=init).init
        assert mean.tolist() == [1.5, 0.0] and sd == 1.0
    (folder / "init.json").write_text('{"mu": 1.5, "s": 1}')
    target = natmix.from_stan(program, data, init=folder / "init.json")
    assert natmix.fit(target, **QUICK)._report["config"]["engine"]["init_mean"] == [1.5, 0.0]
    assert natmix.from_stan(program, data, init=(0.5, 2.0)).init == (0.5, 2.0)
    with pytest.raises(ValueError, match="initial values do not fit the model: s is -1"):
        natmix.from_stan(program, data, init={"mu": 1.5, "s": -1})
    with pytest.raises(TypeError, match="init must be a pair"):
        natmix.from_stan(program, data, init=3.0)


def test_what_a_model_says_is_shown_once(folder, capsys):
    target = natmix.from_stan(folder / "mock.so", {"n": 1, "print": 1})
    natmix.fit(target, **QUICK)
    said = capsys.readouterr().err
    assert said.count("natmix: the model says: mu is") == 2, said
    assert "now (and" in said and "more like this)" in said
    natmix.from_stan(folder / "mock.so", {"n": 1})
    assert capsys.readouterr().err == ""


def test_bad_data_and_libraries_are_refused(folder):
    library(folder, "old.so", "other_version")
    (folder / "text.so").write_text("text")
    cases = [
        (("mock.so", {"m": 1}), ValueError, "`data` has no entry `n`, which mock.so needs"),
        (("mock.so", {"n": [1, 2]}), ValueError, r"`n` has dimensions \(2\), but mock.so declares \(\)"),
        (("mock.so",), ValueError, "mock.so needs data"),
        (("mock.so", "missing.json"), OSError, "missing.json"),
        (("mock.so", 3), TypeError, "data must be a dictionary, a JSON file or its text, not int"),
        (("mock.so", {1: 2}), TypeError, "names in data must be text, not 1"),
        (("old.so", {"n": 1}), ValueError, "version 1.7.0 .* uses version 2"),
        (("text.so", {"n": 1}), OSError, "text.so cannot be loaded"),
        (("data.json", {"n": 1}), ValueError, "data.json is neither a Stan program"),
        (("missing.stan", {"n": 1}), OSError, "missing.stan.*No such file"),
    ]
    for (program, *data), error, words in cases:
        with pytest.raises(error, match=words) as caught:
            natmix.from_stan(folder / program, *data)
        assert "\n" not in str(caught.value)
    with pytest.raises(TypeError, match="a Stan program is a path or text, not int"):
        natmix.from_stan(3)
    with pytest.raises(ValueError, match="seed must be a whole number from 0 to .*, not -1"):
        natmix.from_stan(folder / "mock.so", {"n": 1}, seed=-1)
    for dims, words in [({"u": ["a"]}, "no such variable"), ({"t": ["a", "b"]}, r"its shape is \(2,\)"), ({"t": "a"}, "shape")]:
        with pytest.raises(ValueError, match=words):
            natmix.from_stan(folder / "mock.so", {"n": 1}, dims=dims)
    with pytest.raises(ValueError, match="coords has 1 labels for 'side'"):
        natmix.from_stan(folder / "mock.so", {"n": 1}, dims={"t": ["side"]}, coords={"side": ["left"]})
    nowhere = natmix.from_stan(folder / "mock.so", {"n": 1, "nowhere": 1})
    with pytest.raises(RuntimeError, match="could not be evaluated at any of .* which is too much .* accepts in init"):
        natmix.fit(nowhere)


def test_data_become_the_json_that_stan_reads():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": [1, 2], "b": [0.5, np.nan]})
    values = {
        "whole": np.int32(3),
        "number": np.float32(0.5),
        "truth": [True, False],
        "ints": np.arange(3),
        "infinite": [np.inf, -np.inf],
        "none": np.empty((2, 0)),
        "matrix": np.asfortranarray([[1, 2], [3, 4]]),
        "frame": frame,
        "column": frame["a"],
        "nullable": pandas.Series([1, 2], dtype="Int64"),
        "range": range(3),
        "complex": np.array([1 + 2j]),
        "pair": {"1": 1, 2: [0.5]},
        "pairs": [{"1": 1}, {"1": 2}],
        "big": 2**31,
    }
    text = _stan.document(values)
    read = json.loads(text)
    assert np.isnan(read["frame"][1].pop())
    assert read == {
        "whole": 3,
        "number": 0.5,
        "truth": [1, 0],
        "ints": [0, 1, 2],
        "infinite": [np.inf, -np.inf],
        "none": [[], []],
        "matrix": [[1, 2], [3, 4]],
        "frame": [[1.0, 0.5], [2.0]],
        "column": [1, 2],
        "nullable": [1, 2],
        "range": [0, 1, 2],
        "complex": [[1.0, 2.0]],
        "pair": {"1": 1, "2": [0.5]},
        "pairs": [{"1": 1}, {"1": 2}],
        "big": 2**31,
    }
    assert "true" not in text and '"ints": [0, 1, 2]' in text and '"infinite": [Infinity, -Infinity]' in text
    # Every bit of a number arrives.
    x = np.random.default_rng(1).normal(size=1000) * 10.0 ** np.arange(-500, 500, 1)[:1000].clip(-300, 300)
    assert json.loads(_stan.document({"x": x}))["x"] == x.tolist()
    cases = [
        ({"y": "text"}, TypeError, "data entry `y` cannot be given to Stan, which has numbers only: it is 'text'"),
        ({"y": [1, None]}, TypeError, "entry `y` .* contains None"),
        ({"y": None}, TypeError, "entry `y` .* is None"),
        ({"y": [[1, 2], [3]]}, ValueError, "entry `y` is not a full array"),
        ({"y": np.ma.masked_array([1, 2], [False, True])}, ValueError, "entry `y` has masked values"),
        ({"y": pandas.Series(["a", "b"])}, TypeError, "entry `y` .* contains 'a'"),
        ({"y": np.array(["2020-01-01"], dtype="datetime64[D]")}, TypeError, "entry `y`"),
        ({"y": {"1": object()}}, TypeError, "entry `y`, part `1`"),
    ]
    for wrong, error, words in cases:
        with pytest.raises(error, match=words):
            _stan.document(wrong)


@pytest.fixture
def only(monkeypatch, tmp_path):
    """An environment in which nothing is found."""
    for name in ("BRIDGESTAN", "CMDSTAN", "NATMIX_PYTHON", "VIRTUAL_ENV", "CXX"):
        monkeypatch.delenv(name, raising=False)
    for name in ("HOME", "PATH"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.setenv("NATMIX_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(_stan, "_httpstan", lambda: None)
    return monkeypatch


PROGRAM = "parameters { real mu; } model { mu ~ normal(0, 1); }"


def test_missing_tools_are_named(only, tmp_path):
    with pytest.raises(RuntimeError, match="no Stan tools were found to compile model.stan with: `pip install httpstan`"):
        natmix.from_stan(PROGRAM)
    only.setenv("CMDSTAN", str(tmp_path))
    with pytest.raises(RuntimeError, match="CMDSTAN is .* no bin/stanc"):
        natmix.from_stan(PROGRAM)
    only.setenv("PATH", os.defpath)
    only.setenv("CMDSTAN", str(fake_tools(tmp_path / "tools", "echo code")))
    only.setenv("CXX", "no-such-compiler")
    with pytest.raises(RuntimeError, match="no C\\+\\+ compiler was found .* no-such-compiler"):
        natmix.from_stan(PROGRAM)
    only.setenv("CXX", str(script(tmp_path / "cxx", "echo compiler 1")))
    (tmp_path / "file").write_text("")
    only.setenv("NATMIX_CACHE", str(tmp_path / "file"))
    with pytest.raises(OSError, match="cannot store compiled models in .* NATMIX_CACHE"):
        natmix.from_stan(PROGRAM)


def test_what_stanc_says_stays_as_it_is(only, tmp_path):
    said = "Syntax error in 'model.stan', line 1:\n   -----\n   1:  wrong --here\n       ^\n   -----"
    only.setenv("PATH", os.defpath)
    only.setenv("CMDSTAN", str(fake_tools(tmp_path / "tools", f"cat >&2 <<'E'\n{said}\nE\nexit 1")))
    with pytest.raises(ValueError) as caught:
        natmix.from_stan("wrong\n")
    assert str(caught.value) == f"model.stan is not a valid Stan program.\n{said}"


@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_returns_what_was_reached(target):
    timer = threading.Timer(0.7, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.warns(natmix.NatmixWarning, match="interrupted after"):
        post = natmix.fit(target, components=20, tolerance=1e-300, goal="elbo", max_evals=10**9, max_seconds=60, finish="never")
    assert post.stop_reason == "cancelled" and post.seconds < 30
    assert post.sample_variables(10)["t"].shape == (10, 2)


@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_ends_compilers(only, tmp_path):
    only.setenv("PATH", os.defpath)
    only.setenv("CMDSTAN", str(fake_tools(tmp_path / "tools", "sleep 60 & wait")))
    timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
    began = time.monotonic()
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        natmix.from_stan(PROGRAM)
    assert time.monotonic() - began < 30


def test_importing_needs_no_tools(tmp_path):
    """Neither a compiler nor Stan nor libclang, nor a package but NumPy."""
    code = "import sys, natmix; natmix.from_stan; print([m for m in ('httpstan', 'pandas', 'arviz') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], env={"PATH": str(tmp_path)}, capture_output=True, text=True, cwd=tmp_path)
    assert (done.stdout, done.stderr) == ("[]\n", "")
