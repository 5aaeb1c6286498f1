"""The examples in pages, notebook and README run, and the API page matches the docstrings."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import stan_tools

REPOSITORY = Path(__file__).resolve().parents[2]
MORE = ("python/README.md", "README.md", "docs/answer.md", "docs/chains.md", "docs/comparing.md", "docs/distributed.md")
PAGES = sorted((REPOSITORY / "docs" / "python").glob("*.md")) + [REPOSITORY / page for page in MORE]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: f"{page.parent.name}-{page.stem}")
def test_pages_run(page, tmp_path, monkeypatch):
    if page.stem == "coming-from-stan":
        stan_tools.needs_tools()
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(.*?)^```", page.read_text(), flags=re.S | re.M)
    # Examples that start processes run only in scripts.
    namespace = {"__name__": "__main__" if page.stem == "distributed" else "page"}
    for block in blocks:
        exec(compile(block, str(page), "exec"), namespace)
    if page.stem.startswith("coming-from"):
        assert blocks


def outputs_of(notebook, folder):
    """What the cells of a notebook print and show when they are run again."""
    nbformat = pytest.importorskip("nbformat")
    from nbclient import NotebookClient

    cells = nbformat.read(REPOSITORY / "docs" / notebook, as_version=4)
    NotebookClient(cells, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(folder)}}).execute()
    return "".join(str(output) for cell in cells.cells for output in cell.get("outputs", []))


def test_tutorial_runs(tmp_path):
    text = outputs_of("python/tutorial.ipynb", tmp_path)
    assert "2 modes" in text and "k-hat" in text and "obs" not in text


def test_example_notebook_runs(tmp_path):
    text = outputs_of("examples/schools.ipynb", tmp_path)
    # What its text says about the figures.
    assert "`intercepts` is not clearly worse" in text and "image/png" in text and "a new school" in text
    assert text.count("you can use them") >= 2
    assert (tmp_path / "schools" / "report.html").exists()


def test_example_notebook_is_that_of_its_script():
    done = subprocess.run(
        [sys.executable, str(REPOSITORY / "scripts" / "example-notebook"), "--check"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_api_page_is_up_to_date():
    done = subprocess.run(
        [sys.executable, str(REPOSITORY / "scripts" / "python-api"), "--check"],
        capture_output=True,
        text=True,
        env={**os.environ, "JAX_PLATFORMS": "cpu"},
    )
    assert done.returncode == 0, done.stderr


def test_examples_in_docstrings_run():
    without = [] if stan_tools.found() else ["--ignore-glob=*/_stan.py"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "--doctest-modules", "--pyargs", "natmix", "-p", "no:cacheprovider", *without],
        capture_output=True,
        text=True,
        cwd="/",
    )
    assert done.returncode == 0, done.stdout


def test_stubs_match_the_compiled_module():
    done = subprocess.run([sys.executable, "-m", "mypy.stubtest", "natmix._natmix"], capture_output=True, text=True, cwd="/")
    assert done.returncode == 0, done.stdout
