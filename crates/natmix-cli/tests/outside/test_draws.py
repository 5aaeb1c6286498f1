"""`draws.zarr` and `.npy` files, opened with the usual packages. Run by scripts/test.

NATMIX_BINARY names the program.
"""

import json
import os
import subprocess
from pathlib import Path

import arviz
import numpy as np
import pytest
import xarray

BINARY = os.environ["NATMIX_BINARY"]


@pytest.fixture(scope="module")
def fit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fit")
    rng = np.random.default_rng(0)
    x = rng.normal(size=(80, 2))
    y = (x[:, 0] + rng.normal(size=80) > 0).astype(int)
    rows = "\n".join(f"{a:.6f},{b:.6f},{c}" for (a, b), c in zip(x, y))
    data = folder / "data.csv"
    data.write_text(f"dose,age,ill\n{rows}\n")
    out = folder / "out"
    command = [BINARY, "fit", "logistic", "--data", data, "--outcome", "ill", "--out", out, "--quiet"]
    code = subprocess.run(command, check=False).returncode
    assert code in (0, 1)
    return out


def inference_data(fit: Path) -> arviz.InferenceData:
    return arviz.InferenceData.from_datatree(xarray.open_datatree(fit / "draws.zarr", engine="zarr"))


def test_xarray_opens_the_posterior_group(fit: Path) -> None:
    posterior = xarray.open_zarr(fit / "draws.zarr", group="posterior")
    assert set(posterior.data_vars) == {"(intercept)", "dose", "age"}
    assert posterior["dose"].dims == ("chain", "draw")
    assert posterior.sizes == {"chain": 1, "draw": 4000}
    assert bool(np.isfinite(posterior["dose"]).all())


def test_xarray_selects_one_of_many_parameters(tmp_path: Path) -> None:
    spec = {"kind": "funnel", "dim": 301, "sd0": 0.1, "init": {"mean": 0, "sd": 1}}
    (tmp_path / "wide.json").write_text(json.dumps(spec))
    command = [BINARY, "fit", "density", "--spec", tmp_path / "wide.json", "--max-evals", "2000"]
    code = subprocess.run([*command, "--out", tmp_path / "out", "--quiet"], check=False).returncode
    assert code in (0, 1)
    posterior = xarray.open_zarr(tmp_path / "out" / "draws.zarr", group="posterior")
    parameter = json.loads((tmp_path / "out" / "report.json").read_text())["parameters"][7]
    column = posterior["parameters"].sel(parameter=parameter["name"])
    assert column.dims == ("chain", "draw")
    # The report may weigh the draws.
    assert float(column.mean()) == pytest.approx(parameter["mean"], abs=0.2 * parameter["sd"])


def test_arviz_summaries_agree_with_the_report(fit: Path) -> None:
    data = inference_data(fit)
    summary = arviz.summary(data, kind="stats", round_to="none")
    report = json.loads((fit / "report.json").read_text())
    for parameter in report["parameters"]:
        assert summary.loc[parameter["name"], "mean"] == pytest.approx(parameter["mean"], abs=1e-9)
        assert summary.loc[parameter["name"], "sd"] == pytest.approx(parameter["sd"], rel=1e-3)


def test_leave_one_out_agrees_with_arviz(fit: Path) -> None:
    data = inference_data(fit)
    theirs = arviz.loo(data, var_name="outcome")
    ours = json.loads((fit / "report.json").read_text())["loo"]
    # Ours also weighs the draws by log p - log q, and both are Monte Carlo.
    assert ours["elpd"] == pytest.approx(theirs.elpd_loo, abs=0.5)


def test_numpy_reads_samples(fit: Path) -> None:
    path = fit / "draws.npy"
    subprocess.run([BINARY, "sample", "--posterior", fit, "-n", "50", "--out", path], check=True)
    draws = np.load(path)
    assert draws.shape == (50, 3)
    text = subprocess.run(
        [BINARY, "sample", "--posterior", fit, "-n", "50"], check=True, capture_output=True, text=True
    ).stdout.splitlines()
    assert text[0] == "(intercept),dose,age"
    np.testing.assert_array_equal(draws, np.array([[float(f) for f in line.split(",")] for line in text[1:]]))
