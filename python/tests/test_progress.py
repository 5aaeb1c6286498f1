"""Progress is shown in terminals and notebooks, and nowhere else."""

import io
import sys
import time

import numpy as np
import pytest

import natmix


def slow(z):
    time.sleep(0.02)
    return (z - np.exp(z)).sum(axis=1), 1.0 - np.exp(z)


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.filterwarnings("ignore::natmix.NatmixWarning")
@pytest.mark.parametrize(("terminal", "progress", "shown"), [(True, None, True), (True, False, False), (False, None, False)])
def test_terminals(monkeypatch, terminal, progress, shown):
    stream = Terminal() if terminal else io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    natmix.fit(slow, dim=2, components=2, tolerance=1e-300, max_seconds=0.6, progress=progress)
    text = stream.getvalue()
    assert (("looking for modes" in text or "ELBO" in text) and "evaluations" in text) == shown
    if shown:
        assert text.endswith("\r\x1b[2K"), "the line is cleared at the end"


@pytest.mark.filterwarnings("ignore::natmix.NatmixWarning")
def test_iterations_are_shown(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    natmix.fit(slow, dim=2, method="component-draws", components=1, tolerance=1e-300, max_seconds=0.6)
    assert "ELBO" in sys.stderr.getvalue() and "1 component " in sys.stderr.getvalue()


def test_an_error_while_showing_progress_is_raised(monkeypatch):
    class Broken(Terminal):
        def write(self, text):
            raise BrokenPipeError("nobody reads")

    monkeypatch.setattr(sys, "stderr", Broken())
    with pytest.raises(BrokenPipeError, match="nobody reads"):
        natmix.fit(slow, dim=2, components=1, tolerance=1e-300, max_seconds=20)


def test_notebooks():
    nbformat = pytest.importorskip("nbformat")
    from nbclient import NotebookClient

    code = """
import time, warnings, numpy as np, natmix
warnings.simplefilter("ignore")
def slow(z):
    time.sleep(0.02)
    return (z - np.exp(z)).sum(axis=1), 1.0 - np.exp(z)
post = natmix.fit(slow, dim=2, components=2, tolerance=1e-300, max_seconds=0.6)
post
"""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code)])
    NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
    outputs = notebook.cells[0].outputs
    assert [output.output_type for output in outputs] == ["display_data", "execute_result"]
    assert outputs[0].data["text/plain"] == "", "the line is cleared at the end"
    assert outputs[1].data["text/html"].startswith("<iframe")


@pytest.mark.filterwarnings("ignore::natmix.NatmixWarning")
def test_chains_are_shown(monkeypatch):
    def heavy(z):
        time.sleep(0.002)
        return -2 * np.log1p(z**2 / 3).sum(axis=1), -4 * z / (3 + z**2)

    rough = natmix.fit(heavy, dim=2, components=1, finish="never", max_evals=500, progress=False)
    monkeypatch.setattr(sys, "stderr", Terminal())
    natmix.finish(rough)
    text = sys.stderr.getvalue()
    assert "chains  " in text and "iterations kept" in text and "R-hat 1." in text
