"""Bad settings in Python's words, and files that are written completely or not at all."""

from __future__ import annotations

import json
import time

import numpy as np
import pytest

import natmix


def normal(z):
    return -0.5 * (z**2).sum(axis=1), -z


NUMBERS = {
    "auto": ["tolerance", "max_seconds"],
    "ngvi": ["rate", "decay"],
    "component-draws": ["trust_region", "weight_trust_region"],
}


@pytest.mark.parametrize(("method", "name"), [(method, name) for method, names in NUMBERS.items() for name in names])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_numbers_that_are_none(method, name, value):
    if name in ("tolerance", "max_seconds") and value == np.inf:
        return
    with pytest.raises(ValueError, match=rf"^{name} must be .*") as caught:
        natmix.fit(normal, dim=1, components=1, method=method, **{name: value})
    assert "line 1" not in str(caught.value) and "NaN" not in str(caught.value)


@pytest.mark.parametrize("name", ["components", "max_evals", "seed", "threads"])
def test_counts_that_are_none(name):
    for value in (np.nan, np.inf, 2.5, -1, "many"):
        with pytest.raises(ValueError, match=f"^{name} must be"):
            natmix.fit(normal, dim=1, **{"components": 1, name: value})


@pytest.mark.filterwarnings("ignore::natmix.NatmixWarning")
def test_threads_are_limited_everywhere():
    for call in (
        lambda: natmix.fit(normal, dim=1, components=1, threads=100_000),
        lambda: natmix.fit(natmix.models.Logistic([[0.0], [1.0], [2.0], [3.0]], [0, 1, 0, 1]), threads=100_000),
        lambda: natmix.fit(natmix.models.Mlp([[0.0], [1.0]], [0, 1], hidden=2, epochs=1), threads=100_000),
    ):
        with pytest.raises(ValueError, match="threads must be at most 1024, not 100000"):
            call()
    post = natmix.fit(natmix.models.Logistic([[0.0], [1.0], [2.0], [3.0]], [0, 1, 0, 1]), components=1)
    with pytest.raises(ValueError, match="threads must be at most 1024"):
        post.predict([[1.0]], threads=100_000)
    with pytest.raises(ValueError, match="threads must be at most 1024"):
        post.sample(10, resample=True, threads=100_000)


def test_names_must_differ():
    with pytest.raises(ValueError, match="names must differ, but 'a' is given twice"):
        natmix.fit(normal, dim=2, names=["a", "a"])
    with pytest.raises(ValueError, match="names must differ, but 'a' is given twice"):
        natmix.models.Linear([[0.0, 1.0], [1.0, 0.0]], [0.0, 1.0], names=["a", "a"])


def test_a_third_value_must_be_a_hessian():
    for third in ("extra", {"n": 1}, 3.0, np.zeros(2), np.zeros((2, 3, 3))):
        with pytest.raises(ValueError, match=r"hessian has shape .*\(log_p, grad\) if the third value is something else"):
            natmix.fit(lambda z, third=third: (*normal(z), third), dim=2, components=1)


def test_seconds_are_within_the_time_that_passed():
    for target, settings in ((normal, {"dim": 3}), (natmix.models.Mlp(np.eye(20), np.arange(20) % 2, hidden=3, epochs=3), {})):
        begun = time.perf_counter()
        post = natmix.fit(target, components=2, threads=2, **settings)
        assert 0 < post.seconds <= time.perf_counter() - begun


def test_saved_names_and_damage(tmp_path):
    names = ["draw", "chain", "a/b", "a_b", "x" * 300, "\x1b[31m"]
    post = natmix.fit(normal, dim=6, names=names, components=1)
    folder = tmp_path / "fit"
    post.save(folder)
    (folder / "mine.txt").write_text("mine")
    post.save(folder)
    assert (folder / "mine.txt").read_text() == "mine"
    assert not [path.name for path in folder.iterdir() if path.name.startswith(".")]
    again = natmix.load(folder)
    assert again.parameter_names == names
    np.testing.assert_array_equal(again._record.draws, post._record.draws)
    report = json.loads((folder / "report.json").read_text())
    report["elbo"]["mean"] += 1e-9
    (folder / "report.json").write_text(json.dumps(report))
    with pytest.raises(ValueError, match="checksum"):
        natmix.load(folder)
