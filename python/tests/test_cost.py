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
