"""Worker processes and clusters: same bits for any number of workers, lost and slow workers, and what is refused."""

import json
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from engine_runs import KILL, SETTINGS, banana, digest, fitted

import natmix
from natmix.distributed import Reached, WorkerError

pytestmark = pytest.mark.filterwarnings("ignore::natmix.NatmixWarning")
HERE = Path(__file__).resolve().parent


def pool(workers, **more):
    return ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn"), **more)


@pytest.fixture(scope="module")
def serial():
    """What the same fit gives in this process alone, in the same chunks."""
    return natmix.fit(banana(), **SETTINGS)


@pytest.fixture(scope="module")
def two():
    """Two processes, for tests that leave them as they are."""
    with pool(2) as executor:
        yield executor


# Same bits


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_process_pools(serial, workers):
    with pool(workers) as executor:
        post, processes = fitted(executor)
    assert digest(post) == digest(serial)
    assert post.evals == serial.evals and serial.workers is None
    assert post.workers.engine == "ProcessPoolExecutor" and post.workers.workers == workers and processes <= workers + 1
    assert post.workers.points_per_batch > 0 and post.workers.seconds_per_point > 0 and post.workers.latency > 0


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_threads(serial, workers):
    lock = threading.Lock()

    log_p = banana()

    def unpicklable(z):
        with lock:
            return log_p(z)

    with ThreadPoolExecutor(workers) as executor:
        post = natmix.fit(unpicklable, executor=executor, **SETTINGS)
    assert digest(post) == digest(serial)
    assert post.workers.deliveries == 0


def test_loky(serial):
    from joblib.externals.loky import get_reusable_executor

    post, _ = fitted(lambda: get_reusable_executor(max_workers=2))
    assert digest(post) == digest(serial) and post.workers.workers == 2


def runs(*arguments, command=(sys.executable,)):
    """What a run of engines in a process of its own prints: digests by number of workers, and processes that evaluated points."""
    environment = {**os.environ, "PYTHONPATH": str(HERE), "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0"}
    done = subprocess.run(
        [*command, str(HERE / "engine_runs.py"), *arguments], capture_output=True, text=True, timeout=240, env=environment
    )
    assert done.returncode == 0, done.stdout + done.stderr
    print(done.stdout, done.stderr)
    lines = [line.split()[1:] for line in done.stdout.splitlines() if line.startswith("fit ")]
    return [(int(count), bits, int(processes), int(workers)) for count, bits, processes, workers in lines]


@pytest.mark.parametrize(("engine", "package"), [("dask", "distributed"), ("ray", "ray")])
def test_clusters_and_a_killed_worker(serial, engine, package):
    """One cluster for all fits, since starting it takes longest; during the last one a worker is killed."""
    pytest.importorskip(package)
    found = runs(engine, "1", "2", "4", "--kill")
    assert [count for count, *_ in found] == [1, 2, 4, 4]
    assert {bits for _, bits, *_ in found} == {digest(serial)}
    assert found[2][2] > 2, "several processes took part"
    assert found[3][2] > 1, "others took over"


@pytest.mark.parametrize("ranks", [2, 3, 5])
def test_mpi(serial, ranks):
    pytest.importorskip("mpi4py")
    if shutil.which("mpirun") is None:
        pytest.skip("mpirun is not installed")
    as_root = ["--allow-run-as-root"] if hasattr(os, "getuid") and os.getuid() == 0 else []
    command = ["mpirun", "--oversubscribe", *as_root, "-n", str(ranks), sys.executable, "-m", "mpi4py.futures"]
    ((count, bits, _, workers),) = runs("mpi", str(ranks - 1), command=command)
    assert (count, workers) == (ranks - 1, ranks - 1)
    assert bits == digest(serial)


def test_chains_and_curvature_spread_too(two):
    def heavy(z):
        return -2 * np.log1p(z**2 / 3).sum(axis=1), -4 * z / (3 + z**2)

    post = natmix.fit(heavy, dim=2, components=1, finish="never", max_evals=500, chunk=32)
    here = natmix.finish(post, chunk=32)
    there = natmix.finish(post, executor=two, chunk=32)
    assert there.level == here.level == "chains" and (there.sample(100) == here.sample(100)).all()
    assert there.workers.points > there.workers.batches > 0

    class Curved:
        def __call__(self, z):
            return -0.25 * (z**4).sum(axis=1), -(z**3)

        def curvature(self, z):
            return -3 * z**2

    settings = dict(dim=2, method="von", covariance="diag", components=1, max_evals=300, chunk=16, finish="never")
    assert digest(natmix.fit(Curved(), executor=two, **settings)) == digest(natmix.fit(Curved(), **settings))
    numerical = dict(dim=2, gradient="numerical", components=1, max_evals=200, chunk=32, finish="never")

    def values(z):
        return -0.25 * (z**4).sum(axis=1)

    assert digest(natmix.fit(values, executor=two, **numerical)) == digest(natmix.fit(values, **numerical))


# Lost and slow workers


def test_a_killed_process_changes_nothing(serial):
    with pool(2) as executor:
        post, processes = fitted(executor, kill=True)
    assert digest(post) == digest(serial)
    assert post.workers.retries > 0 and processes > 2, "others took over"


def test_a_killed_process_of_loky_changes_nothing(serial):
    from joblib.externals.loky import get_reusable_executor

    post, _ = fitted(get_reusable_executor(max_workers=2), kill=True)
    assert digest(post) == digest(serial) and post.workers.retries > 0


def test_workers_that_die_every_time(tmp_path):
    flag = str(tmp_path / "die")

    log_p = banana()

    def deadly(z):
        import os

        if os.path.exists(flag):
            os._exit(1)
        return log_p(z)

    made = []

    def make():
        made.append(pool(2))
        return made[-1]

    threading.Timer(4.0, Path(flag).touch).start()
    settings = {**SETTINGS, "max_evals": 10**7, "tolerance": 1e-300}
    with pytest.raises(WorkerError, match=r"^workers were lost 4 times with the same points, of which the first is \[") as caught:
        natmix.fit(deadly, executor=make, **settings)
    assert len(made) >= 4
    reached = caught.value.reached
    assert isinstance(reached, Reached) and reached.iterations > 0 and reached.means.shape == (2, 2)
    assert "start=error.reached" in "".join(caught.value.__notes__)
    post = natmix.fit(banana(), start=reached, **SETTINGS)
    assert post.components == 2 and post.elbo > -3


def test_an_executor_that_cannot_be_replaced():
    class Fragile(ThreadPoolExecutor):
        calls = 0

        def submit(self, fn, /, *args, **kwargs):
            from concurrent.futures import BrokenExecutor

            self.calls += 1
            if self.calls > 20:
                raise BrokenExecutor("out of order")
            return super().submit(fn, *args, **kwargs)

    with pytest.raises(WorkerError, match=r"out of order.*executor=lambda"):
        natmix.fit(banana(), executor=Fragile(2), **SETTINGS)
    shut = ThreadPoolExecutor(1)
    shut.shutdown()
    with pytest.raises(WorkerError, match="takes no more work: cannot schedule new futures after shutdown"):
        natmix.fit(banana(), executor=shut, **SETTINGS)


def test_a_slow_worker_is_helped(serial, tmp_path):
    slow = str(tmp_path / "slow")

    log_p = banana()

    def sometimes(z):
        import os
        import time

        if z[0, 0] > 0.5 and not os.path.exists(slow):
            with open(slow, "w") as file:
                file.write(str(os.getpid()))
            time.sleep(60)
        return log_p(z)

    began = time.monotonic()
    post = natmix.fit(sometimes, executor=lambda: pool(2), check=False, **SETTINGS)
    try:
        assert time.monotonic() - began < 50
        assert digest(post) == digest(natmix.fit(banana(), check=False, **SETTINGS)) and post.workers.duplicates == 1
    finally:
        os.kill(int(Path(slow).read_text()), KILL)


# Errors and bad use


class Odd(Exception):
    """An exception of the user's that does not survive pickling as it is."""

    def __init__(self, first, second):
        super().__init__(f"{first} and {second}")


def test_exceptions_of_the_function_are_raised_as_they_are(two):
    class Own(Exception):
        pass

    def wrong(z):
        if abs(z).max() > 1.2:
            raise Own("solver failed")
        return -0.5 * (z**2).sum(axis=1), -z

    with pytest.raises(Exception, match="^solver failed") as caught:
        natmix.fit(wrong, dim=2, executor=two, components=1)
    assert type(caught.value).__name__ == "Own"
    note = "".join(caught.value.__notes__)
    assert "in the worker" in note and "in wrong" in note, "the worker's traceback"
    with pytest.raises(ZeroDivisionError):
        natmix.fit(lambda z: 1 / 0, dim=2, executor=two)

    def odd(z):
        raise Odd("this", "that")

    with pytest.raises(RuntimeError, match="^Odd: this and that"):
        natmix.fit(odd, dim=2, executor=two)
    for returned, error in ((lambda z: None, TypeError), (lambda z: np.zeros(3), ValueError), (lambda z: [z], TypeError)):
        with pytest.raises(error, match="the target returned"):
            natmix.fit(returned, dim=2, executor=two)


def test_a_function_that_cannot_be_pickled(two):
    lock = threading.Lock()
    with pytest.raises(
        TypeError, match=r"^the function cannot be sent to workers: .*lock.*cannot be pickled: let the function make them"
    ):
        natmix.fit(lambda z: (lock, z), dim=2, executor=two)


def test_workers_that_give_other_values(two):
    def random(z):
        return -0.5 * (z**2).sum(axis=1) + np.random.default_rng().normal(), -z

    with pytest.raises(WorkerError, match="^workers give other values than this process"):
        natmix.fit(random, dim=2, executor=two, components=1)
    here = os.getpid()

    def rounded(z):
        import os

        return (-0.5 * (z**2).sum(axis=1) - 0.5) * (1.0 if os.getpid() == here else 1.0 + 1e-15), -z

    with pytest.warns(natmix.NatmixWarning, match="in the last digits"):
        natmix.fit(rounded, dim=2, executor=two, components=1, max_evals=200, chunk=50, finish="never")


def other_version():
    from natmix import _worker

    _worker.__version__ = "0.0.1"


def without_natmix():
    sys.modules["natmix"] = None


def test_workers_with_another_natmix_or_none():
    with pool(1, initializer=other_version) as executor:
        with pytest.raises(WorkerError, match=r"has natmix 0.0.1, this process .*: install the same version"):
            natmix.fit(banana(), executor=executor, **SETTINGS)
    with pool(1, initializer=without_natmix) as executor:
        with pytest.raises(WorkerError, match="^the workers died before the first of them had answered.*can they import natmix"):
            natmix.fit(banana(), executor=executor, **SETTINGS)

    class Elsewhere(Executor):
        """As Dask says it."""

        def submit(self, fn, /, *args, **kwargs):
            from concurrent.futures import Future

            future = Future()
            error = RuntimeError("Error during deserialization of the task graph")
            error.__cause__ = ModuleNotFoundError("No module named 'natmix'", name="natmix")
            future.set_exception(error)
            return future

    with pytest.raises(
        WorkerError, match=r"^a worker cannot import natmix \(ModuleNotFoundError: No module named 'natmix'\): install"
    ):
        natmix.fit(banana(), executor=Elsewhere(), **SETTINGS)


def test_a_function_that_workers_cannot_read(two):
    class Unreadable:
        def __call__(self, z):
            return -0.5 * (z**2).sum(axis=1), -z

        def __reduce__(self):
            import importlib

            return importlib.import_module, ("a_module_that_is_not_there",)

    with pytest.raises(WorkerError, match="cannot read the function: ModuleNotFoundError.*a_module_that_is_not_there"):
        natmix.fit(Unreadable(), dim=2, executor=two)


def test_what_needs_no_executor(two):
    for target in (
        natmix.models.Linear([[0.0], [1.0], [2.5]], [0.0, 1.0, 2.0]),
        natmix.models.Density({"kind": "funnel", "dim": 2, "sd0": 1.0, "init": {"mean": 0.0, "sd": 1.0}}),
    ):
        with pytest.raises(TypeError, match="executor and chunk are for functions in Python; this is a"):
            natmix.fit(target, executor=two)
    with pytest.raises(TypeError, match="executor must be an executor"):
        natmix.fit(banana(), dim=2, executor=4)
    with pytest.raises(TypeError, match="the function given as executor returned int"):
        natmix.fit(banana(), dim=2, executor=lambda: 4)
    for chunk in (0, 2.5, True):
        with pytest.raises(ValueError, match="chunk must be a positive whole number"):
            natmix.fit(banana(), dim=2, chunk=chunk)


# What travels, and what it costs


def test_functions_travel_once_per_worker(two):
    table = np.arange(1_000_000, dtype=float)

    log_p = banana()

    def with_data(z):
        assert table[-1] == 999_999.0
        return log_p(z)

    post = natmix.fit(with_data, executor=two, **SETTINGS)
    assert post.workers.points > 50 * post.workers.chunk and 2 <= post.workers.deliveries <= 4


def test_chunks_are_suggested(two, capsys):
    post = natmix.fit(banana(), executor=two, **{**SETTINGS, "chunk": 1})
    assert post.workers.chunk == 1 < post.workers.suggested_chunk
    assert f"chunk={post.workers.suggested_chunk} would suit" in capsys.readouterr().err
    again = natmix.fit(banana(), **{**SETTINGS, "chunk": 1})
    assert digest(again) == digest(post), "a suggestion changes nothing"


def sleeping(seconds):
    def log_p(z):
        import time

        time.sleep(seconds * len(z))
        return -0.5 * (z**2).sum(axis=1), -z

    return log_p


def test_four_workers_are_as_fast_as_the_model_of_cost_predicts():
    """Sleeping work: 50 ms per point; at least 3.5 times as fast, and within a fifth of what `natmix experiments scale` says."""
    binary = os.environ.get("NATMIX_BINARY")
    points, batches, measured = np.zeros((40, 2)), 2, {}
    for workers in (1, 2, 4):
        target = natmix.from_callable(sleeping(0.05), 2)
        with pool(workers) as executor, target.spread.using(executor, 1):
            target.spread.compare(np.zeros((1, 2)))
            began = time.perf_counter()
            for _ in range(batches):
                target.log_p(points)
            measured[workers] = time.perf_counter() - began
            latency = target.spread.report().latency
    print(f"seconds by workers: {measured}, latency {latency:.4f} s")
    assert measured[1] / measured[4] >= 3.5
    if not binary:
        return
    constants = {"points": 40, "batches": batches, "seconds-per-point": 0.05, "latency": latency, "workers": "1,2,4"}
    flags = [f"--{name}={value}" for name, value in constants.items()]
    done = subprocess.run([binary, "experiments", "scale", "--json", *flags], capture_output=True, text=True, check=True)
    for prediction in json.loads(done.stdout)["predictions"]:
        assert measured[prediction["workers"]] == pytest.approx(prediction["seconds"], rel=0.2)


def test_progress_shows_workers(two, monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    natmix.fit(sleeping(0.002), dim=2, executor=two, chunk=8, components=1, max_evals=800, finish="never", progress=True)
    assert "2 workers" in capsys.readouterr().err


@pytest.mark.skipif(os.name != "posix", reason="signals to a group of processes")
@pytest.mark.parametrize("times", [1, 2])
def test_ctrl_c_reaches_all_processes(times):
    """As in a terminal, where every process of the group gets the signal."""
    script = f"""
import signal, sys, time, warnings
sys.path.insert(0, {str(HERE)!r})
signal.signal(signal.SIGINT, signal.default_int_handler)
import multiprocessing, natmix
from concurrent.futures import ProcessPoolExecutor

def slow(z):
    import time
    time.sleep({0.002 if times == 1 else 2.0} * len(z))
    return (z - z**2).sum(axis=1), 1 - 2 * z

if __name__ == "__main__":
    warnings.simplefilter("ignore")
    context = multiprocessing.get_context("spawn")
    print("ready", flush=True)
    try:
        post = natmix.fit(slow, dim=2, executor=lambda: ProcessPoolExecutor(2, mp_context=context), chunk=4, check=False,
                          method="ngvi", components=1, max_evals=10**7, tolerance=1e-300, finish="never")
        print(post.stop_reason, post.iterations > 0)
    except KeyboardInterrupt:
        print("stopped")
"""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "script.py")
        path.write_text(script)
        process = subprocess.Popen([sys.executable, str(path)], stdout=subprocess.PIPE, text=True, start_new_session=True)
        try:
            assert process.stdout.readline() == "ready\n"
            time.sleep(12 if times == 2 else 8)
            for _ in range(times):
                os.killpg(process.pid, signal.SIGINT)
                time.sleep(1)
            said, _ = process.communicate(timeout=60)
        finally:
            process.kill()
    assert said == ("cancelled True\n" if times == 1 else "stopped\n")
