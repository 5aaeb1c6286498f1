"""Writes fixture.json: Pareto-smoothed weights by ArviZ, for tests/psis.rs to agree with.

    pip install arviz==0.23.4 numpy==2.4.6 scipy==1.17.1
    python make_fixture.py

JSON has no infinity: null stands for -inf among ratios and weights, and for +inf in k_hat.
"""

import json
import platform
import warnings
from pathlib import Path

import numpy as np
import scipy

warnings.filterwarnings("ignore")
import arviz
from arviz.stats.stats import _gpdfit


def student_over_normal(n):
    """log t_3(x) - log N(x; 0, 1) up to a constant, at x by Box-Muller from a grid and the golden-ratio sequence.

    tests/psis.rs has the same formula, so that the ratios need not be stored.
    """
    i = np.arange(n, dtype=float)
    radius_squared = -2 * np.log((i + 0.5) / n)
    x = np.sqrt(radius_squared) * np.cos(2 * np.pi * np.modf(i * 0.6180339887498949)[0])
    return 0.5 * x**2 - 2 * np.log1p(x**2 / 3)


def ratios():
    def rng(seed):
        return np.random.default_rng(seed)

    yield "normal, sd 1, too few tail points", rng(1).normal(size=20)
    yield "normal, sd 1, shortest tail that is fitted", rng(2).normal(size=25)
    yield "normal, sd 0.1", rng(3).normal(scale=0.1, size=100)
    yield "normal, sd 3", rng(4).normal(scale=3, size=100)
    yield "ties", np.round(2 * rng(5).normal(size=100)) / 2
    yield "a third of weight zero", np.where(np.arange(100) % 3 == 0, -np.inf, rng(6).normal(size=100))
    yield "nearly equal", 1e-3 * rng(7).normal(size=1000)
    yield "normal, sd 5", rng(8).normal(scale=5, size=1000)
    yield "normal, sd 300: most weights underflow", rng(9).normal(scale=300, size=1000)
    yield "Student, 2 degrees of freedom", rng(10).standard_t(2, size=1000)
    yield "shifted by 1e3", 1e3 + rng(11).normal(size=1000)
    dominated = rng(12).normal(size=1000)
    dominated[123] += 40
    yield "one dominating weight", dominated
    x = rng(13).normal(size=1000)
    yield "q wider than p: bounded weights", -1.5 * x**2
    yield "student_over_normal", student_over_normal(4000)


def stored(values):
    return [float(v) if np.isfinite(v) else None for v in values]


def case(name, log_ratios):
    n = len(log_ratios)
    log_weights, k_hat = arviz.psislw(log_ratios, reff=1.0)
    # All of a small case; of a large one a stride through the body and the tail's whole upper part.
    shown = range(n) if n <= 100 else sorted({*range(0, n, 20), *np.argsort(log_ratios)[-40:].tolist()})
    return {
        "name": name,
        "n": n,
        "log_ratios": None if name == "student_over_normal" else stored(log_ratios),
        "k_hat": stored([k_hat])[0],
        "ess": float(1 / np.sum(np.exp(2 * log_weights))),
        "shown": list(shown),
        "log_weights": stored(log_weights[list(shown)]),
    }


def gpd_case(shape, scale, n, seed):
    values = np.sort(scale * np.expm1(shape * np.random.default_rng(seed).exponential(size=n)) / shape)
    k, sigma = _gpdfit(values)
    return {"values": values.tolist(), "shape": float(k), "scale": float(sigma)}


fixture = {
    "versions": {
        "python": platform.python_version(),
        "arviz": arviz.__version__,
        "numpy": np.__version__,
        "scipy": scipy.__version__,
    },
    "cases": [case(*r) for r in ratios()],
    "gpd": [gpd_case(0.7, 2.0, 80, 20), gpd_case(-0.4, 1e-3, 80, 21), gpd_case(1.5, 1e4, 5, 22)],
}
path = Path(__file__).with_name("fixture.json")
path.write_text(json.dumps(fixture, separators=(",", ":")).replace('{"name"', '\n{"name"') + "\n")
print(fixture["versions"], path.stat().st_size, "bytes")
for c in fixture["cases"]:
    print(f"{c['name']:50} n {c['n']:5} k_hat {c['k_hat']} ess {c['ess']}")
