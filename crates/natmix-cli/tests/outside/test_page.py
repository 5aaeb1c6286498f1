"""The page in a real browser: no console errors, pictures present, also on a phone and in dark mode. Run by scripts/test."""

import base64
import html
import json
import math
import os
import random
import re
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
    command = [BINARY, "fit", "density", "--spec", spec, "--components", "6", "--trace-frames", "15"]
    command += ["--out", folder / "out", "--quiet"]
    assert subprocess.run(command, check=False).returncode in (0, 1)
    return folder / "out" / "report.html"


def dump(page: Path, profile: Path, look: list[str] = []) -> tuple[str, str]:
    """The page after its scripts have run, and the browser's log."""
    assert BROWSER, "no Chromium: scripts/test installs it from the system's packages"
    command = [BROWSER, *FLAGS, *look, f"--user-data-dir={profile}", "--dump-dom", page.as_uri()]
    run = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    return run.stdout, run.stderr


@pytest.mark.parametrize("look", [[], ["--window-size=500,844"], ["--blink-settings=preferredColorScheme=0"]])
def test_the_page_opens_without_errors(page: Path, look: list[str], tmp_path: Path) -> None:
    dom, log = dump(page, tmp_path, look)
    assert "CONSOLE" not in log, log
    assert dom.count("<svg") >= 4
    for section in ("verdict", "elbo", "weights", "formation", "marginals", "pairs", "parameters"):
        assert f'id="{section}"' in dom
    # The page's own script was allowed to run: only it shows the slider.
    assert '<div class="controls"><button type="button">Play</button>' in dom


# Moves the slider to each end and back, plays briefly, and records what it has seen in the page.
DRIVER = """<script>addEventListener("load", () => {
  const card = document.getElementById("formation");
  const [button, slider] = card.querySelectorAll("button, input");
  const seen = () => ({
    stages: [...card.querySelectorAll(".stage")].map((stage) => stage.innerHTML),
    texts: [...card.querySelectorAll("dd")].map((dd) => dd.textContent),
    label: slider.getAttribute("aria-valuetext"), button: button.textContent, value: slider.value });
  const move = (to) => { slider.value = to; slider.dispatchEvent(new Event("input")); return seen(); };
  const written = window.unscripted;
  const log = { written, loaded: seen(), first: move(0), back: move(slider.max) };
  button.click(); log.playing = seen(); button.click(); log.paused = seen();
  const pre = document.createElement("pre");
  pre.id = "seen"; pre.textContent = btoa(unescape(encodeURIComponent(JSON.stringify(log))));
  document.body.append(pre);
});</script>"""
# Runs before the page's own script: records the page without it.
WITNESS = """<script>window.unscripted = [...document.querySelectorAll("#formation .stage")].map((s) => s.innerHTML);</script>"""


def test_the_slider_changes_the_picture(page: Path, tmp_path: Path) -> None:
    frames = json.loads((page.parent / "frames.json").read_text())["frames"]
    # A copy without the content security policy, which would block the test's own script.
    text, removed = re.subn(r"<meta http-equiv[^>]*>", "", page.read_text())
    assert removed == 1 and text.count('<script type="application/json"') == 1
    text = text.replace('<script type="application/json"', WITNESS + '<script type="application/json"')
    driven = tmp_path / "driven.html"
    driven.write_text(text.replace("</body>", DRIVER + "</body>"))
    dom, log = dump(driven, tmp_path / "profile")
    assert "CONSOLE" not in log, log
    seen = json.loads(base64.b64decode(re.search(r'<pre id="seen">([^<]*)</pre>', dom)[1]))
    # Without any script the last frame is shown, drawn the same in the wide and the narrow picture.
    assert seen["written"] == seen["loaded"]["stages"] == seen["back"]["stages"]
    assert len(seen["written"]) == 2 and len(set(seen["written"])) == 1
    for name, frame in (("first", frames[0]), ("back", frames[-1])):
        assert seen[name]["stages"][0].count("one-sd") == len(frame["weights"])
        iteration, evals, _, components = (text.replace(",", "") for text in seen[name]["texts"])
        assert [int(iteration), int(evals)] == [frame["iteration"], frame["evals"]]
        assert int(components) == len(frame["weights"])
        assert f"iteration {seen[name]['texts'][0]}" in seen[name]["label"]
    assert seen["first"]["stages"] != seen["back"]["stages"]
    # From the last frame it plays from the start.
    assert (seen["playing"]["value"], seen["playing"]["button"]) == ("0", "Pause")
    assert seen["paused"]["button"] == "Play"


def test_pictures_are_files_too(page: Path) -> None:
    figures = page.parent / "figures"
    for name in ("elbo", "weights", "marginals", "pairs"):
        assert (figures / f"{name}.svg").read_text().startswith("<svg") or "<svg" in (figures / f"{name}.svg").read_text()
        assert (figures / f"{name}.png").read_bytes().startswith(b"\x89PNG")


def regressions(folder: Path) -> dict[str, Path]:
    """Pages of regressions that have pictures of their own, of a table with long names."""
    noise = random.Random(3)
    lines = ["x,town,group,yes,stars,time,seen"]
    for row in range(160):
        x, group = noise.gauss(0, 1), row % 9
        eta = 0.5 * x + 0.2 * (group - 4) + noise.gauss(0, 1)
        town = ("Bonn", "a town with a name that is rather long", "Köln")[int(3 * noise.random())]
        time = 1 + 100 * math.exp(eta) * noise.random()
        stars = 1 + int(eta > -0.5) + int(eta > 0.5)
        lines.append(f"{x},{town},clinic number {group} of several,{int(eta > 0)},{stars},{time},{int(time < 90)}")
    (folder / "table.csv").write_text("\n".join(lines) + "\n")
    models = {
        "logistic": "yes ~ x + town + (1 + x | group)",
        "ordinal": "stars ~ x + town + (1 | group)",
        "survival": "time | event(seen) ~ x + (1 | group)",
        "softmax": "town ~ x + yes",
    }
    for model, formula in models.items():
        command = [BINARY, "fit", model, "--data", folder / "table.csv", "--formula", formula, "--max-evals", "4000"]
        command += ["--finish", "never", "--quiet", "--out", folder / model]
        assert subprocess.run(command, check=False).returncode in (0, 1)
    return {model: folder / model / "report.html" for model in models}


# What is wider than the frame, but for tables that scroll in their boxes, and texts that are cut off by their picture.
MEASURE = """<script>addEventListener("load", () => {
  const inside = document.querySelector("iframe").contentDocument;
  const width = inside.documentElement.clientWidth;
  const shown = (e) => e.getBoundingClientRect().width > 0;
  const wide = [...inside.body.querySelectorAll("*")].filter((e) => shown(e) && !e.closest(".box"))
    .filter((e) => e.getBoundingClientRect().right > width + 1).map((e) => e.tagName + ": " + e.textContent.slice(0, 60));
  const cut = [...inside.querySelectorAll("svg text")].filter(shown).filter((text) => {
    const [own, all] = [text.getBoundingClientRect(), text.ownerSVGElement.getBoundingClientRect()];
    return own.left < all.left - 2 || own.right > all.right + 2 || own.top < all.top - 2 || own.bottom > all.bottom + 2;
  }).map((text) => text.closest("section").id + ": " + text.textContent.slice(0, 60));
  const pre = document.createElement("pre");
  pre.id = "seen"; pre.textContent = btoa(unescape(encodeURIComponent(JSON.stringify({ width, wide, cut }))));
  document.body.append(pre);
});</script>"""


def test_pages_of_regressions_fit_on_a_phone(tmp_path: Path) -> None:
    for model, page in regressions(tmp_path).items():
        for width in (390, 1280):
            # In a frame: the window of a browser has a least width, which is more than that of a phone.
            inside = html.escape(page.read_text())
            frame = f'<iframe width="{width}" height="800" style="border:0" srcdoc="{inside}"></iframe>'
            framed = tmp_path / "framed.html"
            framed.write_text(f'<!DOCTYPE html><meta charset="utf-8"><body>{frame}{MEASURE}</body>')
            dom, log = dump(framed, tmp_path / "profile", ["--window-size=1400,900"])
            assert "CONSOLE" not in log, log
            seen = json.loads(base64.b64decode(re.search(r'<pre id="seen">([^<]*)</pre>', dom)[1]))
            assert seen["width"] > width - 20 and not seen["wide"] and not seen["cut"], (model, width, seen)
