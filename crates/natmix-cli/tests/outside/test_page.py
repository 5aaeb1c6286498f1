"""The page in a real browser: no console errors, pictures present, also on a phone and in the dark. Run by scripts/test."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

BINARY = os.environ["NATMIX_BINARY"]
BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --enable-logging=stderr --v=0"
).split()
SPEC = """{"kind": "gaussian_mixture", "dim": 2, "weights": [0.7, 0.3], "means": [[-3, 0], [3, 1]],
"variances": [[1, 0.5], [0.4, 2]], "log_evidence": 0.0, "init": {"mean": 0.0, "sd": 3.0}}"""


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("page")
    spec = folder / "spec.json"
    spec.write_text(SPEC)
    command = [BINARY, "fit", "density", "--spec", spec, "--components", "6", "--out", folder / "out", "--quiet"]
    assert subprocess.run(command, check=False).returncode in (0, 1)
    return folder / "out" / "report.html"


@pytest.mark.parametrize("look", [[], ["--window-size=390,844"], ["--blink-settings=preferredColorScheme=0"]])
def test_the_page_opens_without_errors(page: Path, look: list[str], tmp_path: Path) -> None:
    assert BROWSER, "no Chromium: scripts/test installs it from the system's packages"
    command = [BROWSER, *FLAGS, *look, f"--user-data-dir={tmp_path}", "--dump-dom", page.as_uri()]
    run = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    assert "CONSOLE" not in run.stderr, run.stderr
    assert run.stdout.count("<svg") >= 4
    for section in ("verdict", "elbo", "weights", "marginals", "pairs", "parameters"):
        assert f'id="{section}"' in run.stdout


def test_pictures_are_files_too(page: Path) -> None:
    figures = page.parent / "figures"
    for name in ("elbo", "weights", "marginals", "pairs"):
        assert (figures / f"{name}.svg").read_text().startswith("<svg") or "<svg" in (figures / f"{name}.svg").read_text()
        assert (figures / f"{name}.png").read_bytes().startswith(b"\x89PNG")
