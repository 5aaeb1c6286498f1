"""Functions of NumPy arrays as targets."""

import os
import pickle
import signal
import threading
import time
import traceback
import warnings

import numpy as np
import pytest

import natmix


def normal(z):
    return -0.5 * ((z - 1.0) ** 2).sum(axis=1), 1.0 - z


def skewed(z):
    """A target that is never fitted exactly, so that a run with a tiny tolerance does not converge."""
    return (z - np.exp(z)).sum(axis=1), 1.0 - np.exp(z)


def quiet(target, **settings):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", natmix.NatmixWarning)
        return natmix.fit(target, **settings)


def test_contract_names():
    post = natmix.fit(normal, dim=25, init=(0.0, 10.0), components=1, seed=1)
    assert isinstance(post, natmix.Posterior)
    assert post.converged and post.trusted
    np.testing.assert_allclose(post.means[0], 1.0, atol=1e-6)
    np.testing.assert_allclose(post.covariances[0], np.eye(25), atol=1e-6)
    assert abs(post.elbo - 12.5 * np.log(2 * np.pi)) < 1e-6 and post.elbo_se < 1e-6
    assert abs(post.log_evidence - post.elbo) < 1e-6
    assert post.weights.tolist() == [1.0]
    z = post.sample(1000)
    assert z.shape == (1000, 25)
    expected = -0.5 * ((z - 1) ** 2).sum(axis=1) - 12.5 * np.log(2 * np.pi)
    np.testing.assert_allclose(post.log_density(z), expected, atol=1e-4)


def test_one_call_per_iteration_with_all_points():
    calls = []

    def counted(z):
        calls.append(z.shape)
        return normal(z)

    post = natmix.fit(counted, dim=3, components=4, seed=1, draws_per_component=42, max_seconds=20)
    probes = 2  # calls before the fit: what it returns, and whether the shapes are right
    # 42 draws and the centre of each of four components. Before the iterations the gradient is checked, and after them the
    # result is measured.
    assert sum(shape in {(168, 3), (172, 3)} for shape in calls) == post.iterations
    assert calls[probes:].index(next(shape for shape in calls if shape[0] >= 168)) <= 3


def test_same_bits_for_any_threads_and_runs():
    one = quiet(normal, dim=4, components=3, seed=5, threads=1)
    two = quiet(normal, dim=4, components=3, seed=5, threads=4)
    assert (one.means == two.means).all() and (one.weights == two.weights).all() and one.elbo == two.elbo


def test_same_as_rust():
    spec = {
        "kind": "gaussian_mixture",
        "dim": 2,
        "weights": [0.3, 0.7],
        "means": [[-2.0, 0.0], [3.0, 1.0]],
        "variances": [[1.0, 1.0], [0.25, 0.25]],
        "init": {"mean": 0.0, "sd": 3.0},
    }
    density = natmix.models.Density(spec)
    post = natmix.fit(density, components=5, seed=2)
    assert post.modes.shape == (2, 2)
    # The engine gets the same numbers directly and through Python.
    again = natmix.fit(density.log_p, dim=2, init=(0.0, 3.0), components=5, seed=2, check=False)
    assert (post.weights == again.weights).all() and (post.means == again.means).all()
    assert post.evals == again.evals


def test_exceptions_are_passed_on_unchanged():
    class Mine(Exception):
        pass

    error = Mine("at the 50th call")
    calls = 0

    def failing(z):
        nonlocal calls
        calls += 1
        if calls == 50:
            raise error
        return skewed(z)

    with pytest.raises(Mine) as caught:
        natmix.fit(failing, dim=2, components=1, tolerance=1e-300)
    assert caught.value is error and calls == 50
    assert "failing" in [frame.name for frame in traceback.extract_tb(error.__traceback__)]


@pytest.mark.parametrize(
    ("returned", "error", "words"),
    [
        (lambda z: (np.zeros(len(z) + 1), -z), ValueError, r"log_p has shape \(3,\).*expected \(2,\)"),
        (lambda z: (np.zeros((len(z), 1)), -z), ValueError, r"log_p has shape \(2, 1\).*expected \(2,\)"),
        (lambda z: (0.0, -z), ValueError, r"log_p has shape \(\).*expected \(2,\)"),
        (lambda z: (np.zeros(len(z)), -z.T), ValueError, r"grad has shape \(3, 2\), expected \(2, 3\)"),
        (lambda z: (np.zeros(len(z)), -z[:, :2]), ValueError, r"grad has shape \(2, 2\), expected \(2, 3\)"),
        (lambda z: (np.zeros(len(z), complex), -z), TypeError, "log_p has dtype complex128, expected real numbers"),
        (lambda z: (np.array(["a"] * len(z)), -z), TypeError, "log_p has dtype <U1"),
        (lambda z: (np.zeros(len(z)), -z, -z, -z), TypeError, "returned 4 values"),
        (lambda z: [np.zeros(len(z)), -z], TypeError, "returned a list"),
        (lambda z: None, TypeError, "the target returned None"),
        (lambda z: (np.zeros(len(z)), None), TypeError, "grad has dtype object"),
        (lambda z: (np.zeros(len(z)), -z, np.zeros((2, 3, 2))), ValueError, r"hessian has shape"),
    ],
)
def test_wrong_returns_are_named(returned, error, words):
    with pytest.raises(error, match=words):
        natmix.fit(returned, dim=3, components=1, gradient="none", method="von")


def test_other_dtypes_and_layouts_are_converted():
    reference = quiet(normal, dim=2, components=2, seed=1)

    def fortran(z):
        value, grad = normal(z)
        return np.repeat(value, 2)[::2], np.asfortranarray(grad)

    def lists(z):
        value, grad = normal(z)
        return value.tolist(), grad.tolist()

    for f in (fortran, lists):
        post = quiet(f, dim=2, components=2, seed=1)
        assert (post.means == reference.means).all()
    single = quiet(lambda z: tuple(x.astype(np.float32) for x in normal(z)), dim=2, components=1, seed=1)
    np.testing.assert_allclose(single.means, 1.0, atol=1e-3)
    integers = quiet(lambda z: (np.zeros(len(z), int), np.zeros_like(z)), dim=1, components=1, max_evals=500)
    assert integers.iterations > 0


def test_a_function_that_changes_or_keeps_its_input():
    kept = []

    def greedy(z):
        result = normal(z)
        kept.append(z)
        z += 1e6
        return result

    post = quiet(greedy, dim=2, components=2, seed=1)
    assert (post.means == quiet(normal, dim=2, components=2, seed=1).means).all()
    assert len({z.ctypes.data for z in kept}) == len(kept)
    assert all((z > 1e5).all() for z in kept)


def test_points_with_nan_and_infinity_are_left_out():
    def holes(z):
        value, grad = normal(z)
        value = np.where(z[:, 0] > 2.5, np.nan, np.where(z[:, 1] > 3, -np.inf, value))
        return value, grad

    post = quiet(holes, dim=2, components=1, seed=1, max_evals=20_000)
    assert np.isfinite(post.means).all() and np.isfinite(post.elbo)
    with pytest.raises(RuntimeError, match="log p was not finite at any of"):
        natmix.fit(lambda z: (np.full(len(z), np.nan), z), dim=2, components=1)


def test_values_only():
    with pytest.warns(natmix.NatmixWarning, match="returns values only: gradients are computed numerically, with 5 evaluations"):
        numerical = natmix.fit(lambda z: normal(z)[0], dim=2, components=1)
    np.testing.assert_allclose(numerical.means, 1.0, atol=1e-5)
    exact = natmix.fit(normal, dim=2, components=1)
    assert numerical.evals >= 5 * exact.evals * 0.9
    black_box = quiet(lambda z: normal(z)[0], dim=2, components=1, gradient="none", max_evals=200_000)
    np.testing.assert_allclose(black_box.means, 1.0, atol=0.2)
    with pytest.raises(ValueError, match="needs gradients, but the target offers values only"):
        natmix.fit(lambda z: normal(z)[0], dim=2, components=1, gradient="none", method="ngvi")


def test_curvature_by_third_return_and_by_method():
    precision = np.array([[2.0, 0.5], [0.5, 1.0]])

    def third(z):
        g = -z @ precision
        return 0.5 * (z * g).sum(axis=1), g, np.broadcast_to(-precision, (len(z), 2, 2))

    class Curved:
        asked = 0

        def __call__(self, z):
            return third(z)[:2]

        def curvature(self, z):
            self.asked += 1
            return third(z)[2]

    curved = Curved()
    for f in (third, curved):
        post = quiet(f, dim=2, components=1, method="von", rate=1.0, seed=1)
        np.testing.assert_allclose(np.linalg.inv(post.covariances[0]), precision, atol=1e-9)
    asked = curved.asked
    assert asked > 1
    quiet(curved, dim=2, components=1)
    assert curved.asked == asked + 1, "only the probe: the default needs no curvature"
    diagonal = quiet(lambda z: (*normal(z), -np.ones_like(z)), dim=2, components=1, method="von", covariance="diag")
    np.testing.assert_allclose(diagonal.covariances[0], np.eye(2), atol=1e-6)
    with pytest.raises(ValueError, match="no curvature"):
        natmix.fit(normal, dim=2, components=1, method="von")


def test_the_callers_context_is_seen():
    def overflowing(z):
        np.exp(np.full(3, 1e9))
        return normal(z)

    with np.errstate(over="raise"), pytest.raises(FloatingPointError):
        natmix.fit(overflowing, dim=2, components=1)


@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_returns_what_was_reached():
    calls = 0

    def slow(z):
        nonlocal calls
        calls += 1
        if calls == 200:
            os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.002)
        return skewed(z)

    with pytest.warns(natmix.NatmixWarning, match="interrupted after"):
        post = natmix.fit(slow, dim=2, components=1, tolerance=1e-300, max_seconds=60)
    assert post.stop_reason == "cancelled" and not post.converged
    assert post.seconds < 30 and post.iterations > 5
    np.testing.assert_allclose(post.means, -0.5, atol=0.5)


@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_twice_raises():
    def stuck(z):
        time.sleep(0.4)
        return skewed(z)

    target = natmix.from_callable(stuck, dim=2)

    def press():
        for _ in range(2):
            time.sleep(0.25)
            os.kill(os.getpid(), signal.SIGINT)

    presser = threading.Thread(target=press)
    presser.start()
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        natmix.fit(target, components=1, tolerance=1e-300, max_seconds=60)
    assert time.monotonic() - began < 5
    presser.join()


def test_other_python_threads_run_during_a_fit():
    ticks = 0
    stop = threading.Event()

    def count():
        nonlocal ticks
        while not stop.is_set():
            ticks += 1
            time.sleep(0.001)

    counter = threading.Thread(target=count)
    counter.start()
    spec = {"kind": "funnel", "dim": 20, "sd0": 3.0, "init": {"mean": 0.0, "sd": 1.0}}
    post = quiet(natmix.models.Density(spec), components=20, tolerance=1e-300, max_seconds=1.0)
    stop.set()
    counter.join()
    assert post.seconds > 0.9 and ticks > 100


def test_fits_in_threads_and_after_fork():
    reference = quiet(normal, dim=3, components=2, seed=7)
    results = []
    workers = [threading.Thread(target=lambda: results.append(quiet(normal, dim=3, components=2, seed=7))) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(results) == 4 and all((post.means == reference.means).all() for post in results)
    reference.sample(100, resample=True)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            post = quiet(normal, dim=3, components=2, seed=7)
            post.sample(100, resample=True)
            code = 0 if (post.means == reference.means).all() else 2
        finally:
            os._exit(code)
    for _ in range(600):
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            break
        time.sleep(0.1)
    else:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        pytest.fail("the fit hangs after a fork")
    assert os.waitstatus_to_exitcode(status) == 0


def test_untrusted_fits_warn():
    def two_modes(z):
        a, b = -50 * (z - 4) ** 2, -50 * (z + 4) ** 2
        share = np.exp(a - np.logaddexp(a, b))
        return np.logaddexp(a, b)[:, 0] + 0.0, -100 * (share * (z - 4) + (1 - share) * (z + 4))

    with pytest.warns(natmix.NatmixWarning, match="do not rely on this fit"):
        post = natmix.fit(two_modes, dim=1, components=1, max_evals=300)
    assert not post.trusted and post.reasons


@pytest.mark.parametrize(
    ("settings", "error", "words"),
    [
        (dict(dim=0), ValueError, "dim must be a positive"),
        (dict(dim=2.5), ValueError, "dim must be a positive"),
        (dict(), TypeError, "needs dim"),
        (dict(dim=2, components=0), ValueError, "components"),
        (dict(dim=2, components="many"), ValueError, "components must be auto or a non-negative whole number, not 'many'"),
        (dict(dim=2, method="magic"), ValueError, "method must be one of auto, bbvi, .*, not 'magic'"),
        (dict(dim=2, draws="dice"), ValueError, "draws must be auto or one of independent, .*, not 'dice'"),
        (dict(dim=2, tolerance=-1.0), ValueError, "tolerance must be a positive number, not -1"),
        (dict(dim=2, goal="gold"), ValueError, "goal must be answer or elbo, not 'gold'"),
        (dict(dim=2, goal=1), ValueError, "goal must be answer or elbo, not 1"),
        (dict(dim=2, finish=True), ValueError, "finish must be one of auto, never, always, not True"),
        (dict(dim=2, finish=["never"]), ValueError, "finish must be one of auto, never, always, not \\['never'\\]"),
        (dict(dim=2, draws=3), ValueError, "draws must be auto or one of independent, .*, not 3"),
        (dict(dim=2, components=1.5), ValueError, "components must be auto or a non-negative whole number, not 1.5"),
        (dict(dim=2, seed=-1), ValueError, "seed must be a non-negative whole number, not -1"),
        (dict(dim=2, rate="fast"), ValueError, "rate must be a number, not 'fast'"),
        (dict(dim=2, method="ngvi", rate=np.nan), ValueError, "rate must be a positive number, not nan"),
        (dict(dim=2, rate=0.1), ValueError, "rate is not read by method component-draws with rule trust-region, but by bbvi"),
        (dict(dim=2, method="auto", rule="plain"), ValueError, "rule is not read by method auto, but by bbvi"),
        (dict(dim=2, pace=3), TypeError, "no setting 'pace'"),
        (dict(dim=2, init=(0.0, -1.0)), ValueError, "init_sd"),
        (dict(dim=2, init=([0.0] * 3, 1.0)), ValueError, "could not be broadcast|init mean"),
        (dict(dim=2, names=["a"]), ValueError, "1 names for 2"),
        (dict(dim=2, covariance="round"), ValueError, "covariance must be auto or one of full, diag, low-rank, not 'round'"),
        (dict(dim=2, minibatch=3), ValueError, "minibatch"),
    ],
)
def test_bad_settings_are_named(settings, error, words):
    with pytest.raises(error, match=words):
        natmix.fit(normal, **{"components": 1, **settings})


def test_functions_of_one_point_are_refused():
    with pytest.raises(ValueError, match=r"log_p has shape \(\) for points of shape \(2, 3\).*many points at once"):
        natmix.fit(lambda z: 0.0, dim=3)
    with pytest.raises(TypeError, match="the target returned None"):
        natmix.fit(lambda z: None, dim=3)
    with pytest.raises(RuntimeError, match=r"init=\(mean, sd\)"):
        natmix.fit(lambda z: (np.full(len(z), np.nan), z), dim=2)


def test_a_resampled_summary_is_closer():
    """Draws of a mixture that is too wide, corrected to a normal distribution. The standard error of a mean is 1/60."""
    post = natmix.fit(lambda z: (-0.125 * z[:, 0] ** 2, -0.25 * z), dim=1, names=["a"], components=1)
    normal = natmix.from_callable(lambda z: (-0.5 * (z[:, 0] - 0.5) ** 2, 0.5 - z), dim=1, names=["a"])
    plain, corrected = post.summary()["a"], post.with_target(normal).summary(resample=True)["a"]
    assert abs(plain["sd"] - 2.0) < 0.1 and abs(plain["mean"]) < 0.1
    assert abs(corrected["sd"] - 1.0) < 0.07 and abs(corrected["mean"] - 0.5) < 0.07
    assert abs(corrected["q05"] + 1.145) < 0.15 and abs(corrected["q50"] - 0.5) < 0.1 and abs(corrected["q95"] - 2.145) < 0.15
    with pytest.raises(ValueError, match="need the target"):
        pickle.loads(pickle.dumps(post)).summary(resample=True)
