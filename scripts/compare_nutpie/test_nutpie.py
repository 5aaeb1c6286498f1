"""Tests of the comparison's parts that need neither nutpie nor Stan."""

import gzip

import numpy as np
import pytest
from compare_nuts.table import insert

from compare_nutpie import pathfinder_table, table
from compare_nutpie.arguments import arguments
from compare_nutpie.draws import flat, relabelled, shown, write


def test_arguments_are_checked():
    assert arguments(["harder", "--seeds", "1,3"]).seeds == [1, 3]
    for wrong in (["--no-runs"], ["--only-reference"], ["--seeds", "a"]):
        with pytest.raises(SystemExit):
            arguments(wrong)


def test_entries_have_the_names_of_stan():
    draws = flat({"a": np.zeros((2, 3)), "S": np.arange(24.0).reshape(2, 3, 2, 2)})
    assert list(draws) == ["a", "S[1,1]", "S[1,2]", "S[2,1]", "S[2,2]"]
    assert draws["S[2,1]"][1, 2] == 22
    assert [shown(name) for name in ("a", "S.2.1")] == ["a", "S[2,1]"]


def test_components_are_sorted_by_their_means():
    draws = {"theta": 0.25, "mu[1]": 1.0, "mu[2]": -1.0, "sigma[1]": 3.0, "sigma[2]": 4.0}
    found = relabelled({name: np.full((1, 2), value) for name, value in draws.items()})
    assert {name: values[0, 1] for name, values in found.items()} == {
        "theta": 0.75,
        "mu[1]": -1.0,
        "mu[2]": 1.0,
        "sigma[1]": 4.0,
        "sigma[2]": 3.0,
    }
    shares = {"theta[1]": 0.1, "theta[2]": 0.2, "theta[3]": 0.7, "mu[1]": 5.0, "mu[2]": -1.0, "mu[3]": 2.0}
    found = relabelled({name: np.full((1, 1), value) for name, value in shares.items()})
    assert [values.item() for values in found.values()] == [0.2, 0.7, 0.1, -1.0, 2.0, 5.0]


def test_draws_are_written_as_a_table(tmp_path):
    write({"a": np.array([[1.0, 2.0]]), "S[1,2]": np.array([[3.0, 0.25]])}, tmp_path / "x.csv.gz")
    assert gzip.decompress((tmp_path / "x.csv.gz").read_bytes()).decode() == 'a,"S[1,2]"\n1,3\n2,0.25\n'


def row(name, cpu, nutpie_cpu, trusted=True, right=True):
    comparison = {"right": right, "worst": {"error": 0.5 if right else 1.5}}
    fit = {"error": None, "cpu_seconds": cpu, "evals": [10, 20, 0], "comparison": comparison, "trusted": trusted}
    run = {"cpu_seconds": nutpie_cpu, "evals": 500, "r_hat": 1.002, "comparison": comparison}
    return {"name": name, "dim": 3, "natmix": [fit, {**fit, "error": "no start", "comparison": None}], "nutpie": [run]}


def test_tables_have_means_counts_and_all_outcomes():
    rows = [row("a", 1.0, 2.0), row("b", 3.0, 2.0, trusted=False, right=False)]
    text = table.text(rows)
    assert "at most nutpie's processor time on 1 of 2 posteriors, and on 0 of 0 where" in text
    assert "1 right, trusted, 1 failed" in text and "1 wrong, refused, 1 failed" in text
    good = row("c", 1.0, 2.0)
    good["natmix"].pop()
    assert "on 2 of 3 posteriors, and on 1 of 1 where" in table.less([*rows, good])
    unknown = {"right": False, "worst": {"error": None}}
    assert table.worst([{"comparison": unknown}, {"comparison": None}]) == float("inf")
    about = {"natmix": "0.1.0", "nutpie": "0.16", "seeds": [1, 2]}
    written = table.markdown(rows, about)
    assert "| `b` | 3.00 | 2.00 | 1.50 | 30 | 500 | 1.50 | 1.50 | 1.002 | 1 wrong, refused, 1 failed |" in written
    page = insert(f"x\n{table.BEGIN}\nold\n{table.END}\ny", written, (table.BEGIN, table.END))
    assert "old" not in page and written in page


def test_tables_of_pathfinder_count_what_is_right():
    def run(right, error, k_hat):
        return {"evals": 1000, "k_hat": k_hat, "comparison": {"right": right, "worst": {"error": error}}}

    rows = [
        {"name": "a", "dim": 2, "pathfinder": [run(True, 0.75, 0.25), run(False, 3.0, 0.875)]},
        {"name": "b", "dim": 3, "pathfinder": [{"seed": 1, "failed": "no start"}, {**run(True, 0, 0.5), "comparison": None}]},
    ]
    assert table.of(arguments(["--pathfinder"])) is pathfinder_table and table.of(arguments([])) is table
    text = pathfinder_table.text(rows)
    assert (
        text.endswith("right in 1 of 4 runs") and text.splitlines()[1].split() == "a 2 1,000 0.88 3.00 1 right, 1 wrong".split()
    )
    written = pathfinder_table.markdown(rows, {"blackjax": "1.7", "seeds": [1, 2]})
    assert "BlackJAX 1.7, seeds 1, 2: Pathfinder's draws are right in 1 of 4 runs." in written
    assert written.splitlines()[-1] == "| `b` | 1,000 | 0.50 | - | 1 failed |"
