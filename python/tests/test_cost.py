"""Costs of calling from Python: time of a call, time of an import, memory."""

import gc
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import natmix

DIM = 20


class Timed:
    """A density as a Python function that takes and returns NumPy arrays, and measures its own time."""

    def __init__(self, density):
        self.density = density
        self.seconds = 0.0

    def __call__(self, z):
        began = time.thread_time()
        log_p, grad = self.density.log_p(z)
        # The least work that a function in NumPy would do.
        log_p = log_p - 0.0 * np.einsum("ij,ij->i", z, z)
        grad = grad - 0.0 * z
        self.seconds += time.thread_time() - began
        return log_p, grad


@pytest.mark.parametrize(("method", "components"), [("component-draws", 1), ("component-draws", 5), ("auto", "auto")])
@pytest.mark.filterwarnings("ignore::natmix.NatmixWarning")
def test_a_callable_costs_little_more_than_its_own_time(method, components):
    """Whole fit <= 1.1 (own time of the callable + the same fit in Rust), in CPU time, so that a busy machine does not
    matter."""
    settings = dict(method=method, components=components, seed=1, max_evals=40_000, tolerance=1e-300, threads=1)
    density = natmix.models.Density({"kind": "funnel", "dim": DIM, "sd0": 1.0, "init": {"mean": 0.0, "sd": 1.0}})
    ratios = []
    for _ in range(4):
        timed = Timed(density)
        target = natmix.from_callable(timed, DIM)
        timed.seconds = 0.0
        began = time.process_time()
        post = natmix.fit(target, **settings)
        whole = time.process_time() - began
        began = time.process_time()
        in_rust = natmix.fit(density, **settings)
        engine = time.process_time() - began
        assert (in_rust.means == post.means).all(), "the same fit"
        ratios.append(whole / (timed.seconds + engine))
    print(f"{method}, {components} components: whole / (callable + engine):", [round(r, 3) for r in ratios])
    assert sorted(ratios)[1] < 1.1


def counts_model():
    """A Poisson regression with 200 random intercepts, in NumPyro."""
    numpyro = pytest.importorskip("numpyro")
    import jax.numpy as jnp
    import numpyro.distributions as dist

    rng, groups = np.random.default_rng(7), 200
    group = np.repeat(np.arange(groups), rng.integers(1, 8, groups))
    x, effect = rng.normal(size=group.size), 0.8 * rng.normal(size=groups)
    y = rng.poisson(np.exp(0.3 + 0.4 * x + effect[group]))

    def model():
        a, b = (numpyro.sample(name, dist.Normal(0, 3)) for name in "ab")
        t = numpyro.sample("t", dist.HalfNormal(2))
        u = numpyro.sample("u", dist.Normal(0, t).expand([groups]))
        numpyro.sample("y", dist.Poisson(jnp.exp(a + b * x + u[group])), obs=y)

    return model


@pytest.mark.filterwarnings("ignore::natmix.NatmixWarning")
def test_a_jax_density_costs_little_more_than_its_own_time(monkeypatch):
    """Python, blocks and conversions take less than a tenth of a fit, in CPU time; the density is compiled three times."""
    model = counts_model()
    import jax

    from natmix import _jax, _numpyro

    class Timed(_jax.Batched):
        """Measures the compiled function by itself, and all that is between the engine and its results."""

        def __init__(self, f, x64=True):
            super().__init__(f, x64)
            self.compiled, self.function, self.call, self.shapes = 0.0, 0.0, 0.0, set()
            inner = self.value_and_grad

            def timed(z):
                began = time.process_time()
                result = jax.block_until_ready(inner(z))
                spent = time.process_time() - began
                if z.shape in self.shapes:
                    self.function += spent
                else:
                    self.compiled += spent
                    self.shapes.add(z.shape)
                return result

            self.value_and_grad = timed
            targets.append(self)

        def __call__(self, z):
            began = time.process_time()
            result = super().__call__(z)
            self.call += time.process_time() - began
            return result

    targets = []
    monkeypatch.setattr(_numpyro, "Batched", Timed)
    target = natmix.from_numpyro(model)
    (timed,) = targets
    began = time.process_time()
    post = natmix.fit(target, threads=1)
    fit = time.process_time() - began - timed.compiled
    between = timed.call - timed.function - timed.compiled
    shares = [f"{100 * part / fit:.1f}%" for part in (timed.function, between, fit - timed.function - between)]
    print(f"{post.evals} evaluations, {fit:.2f} s: density, conversion, engine", shares, f"compilation {timed.compiled:.2f} s")
    assert len(timed.shapes) <= 3
    assert between < 0.1 * fit


def test_import_is_quick():
    # CPU time, so that a busy machine does not matter.
    code = "import time; t = time.process_time(); import natmix; print(time.process_time() - t)"
    times = []
    for _ in range(7):
        out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        times.append(float(out.stdout))
    print("import:", times)
    assert min(times) < 0.2
    heavy = (
        "import sys, natmix; print(sorted({'jax', 'pymc', 'sklearn', 'matplotlib', 'pandas', 'arviz_base'} & set(sys.modules)))"
    )
    out = subprocess.run([sys.executable, "-c", heavy], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]", "the base package needs only NumPy"


def test_german_credit_is_quick():
    folder = os.environ.get("NATMIX_DATA")
    if not folder:
        pytest.skip("NATMIX_DATA is not set: nothing to read")
    code = """
import time
began = time.perf_counter(), time.process_time()
import sys, natmix
imported = time.perf_counter(), time.process_time()
import numpy as np
values = np.loadtxt(sys.argv[1], delimiter=",", skiprows=1)
ready = time.perf_counter(), time.process_time()
natmix.fit(natmix.models.Logistic(values[:, :-1], values[:, -1]), components=sys.argv[2])
done = time.perf_counter(), time.process_time()
for at in range(2):
    print(imported[at] - began[at] + done[at] - ready[at])
"""
    path = os.path.join(folder, "classification", "german_credit.csv")
    quiet = os.getloadavg()[0] < 0.5 * (os.cpu_count() or 1)
    # Guards against a loss of several times: the figures themselves, as printed, depend on the machine and the profile.
    for components, most in (("auto", 2.0), ("1", 1.2)):
        times = []
        for _ in range(5):
            out = subprocess.run([sys.executable, "-c", code, path, components], capture_output=True, text=True, check=True)
            times.append([float(x) for x in out.stdout.split()])
        wall, processor = (min(column) for column in zip(*times))
        print(f"german credit, {components} components: {wall:.3f} s, {processor:.3f} s of CPU time")
        # On a busy machine the wall-clock time means nothing.
        assert wall < most if quiet else processor < 2 * most


def test_a_thousand_random_calls_leak_nothing():
    """Memory returns to its value after the first 300 calls, within 4 MB: one leaked array per call would be more."""
    script = str(Path(__file__).with_name("random_calls.py"))
    # With a single arena instead of one per thread, free memory is reused.
    environment = {**os.environ, "MALLOC_ARENA_MAX": "1"}
    out = subprocess.run(
        [sys.executable, script, "300", "500", "500"], capture_output=True, text=True, check=True, env=environment
    )
    first, *later = (float(line) for line in out.stdout.split())
    print(f"resident after 300, 800 and 1300 calls: {first, *later} MB")
    assert len(later) == 2 and min(later) < first + 4.0


def test_objects_are_released():
    """No references to functions, targets and arrays remain after a fit."""
    import weakref

    class F:
        def __call__(self, z):
            self.last = z
            return -0.5 * (z**2).sum(axis=1), -z

    f = F()
    watch = weakref.ref(f)
    post = natmix.fit(f, dim=2, components=1)
    array = weakref.ref(f.last)
    del f, post
    gc.collect()
    assert watch() is None and array() is None
