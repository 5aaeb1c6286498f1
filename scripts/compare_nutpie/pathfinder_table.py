"""Tables of Pathfinder's results."""

from .table import mean, shown, worst

BEGIN, END = (f"<!-- {end} of what scripts/compare-nutpie --pathfinder writes -->" for end in ("begin", "end"))

HEAD = f"{'posterior':<46} {'d':>5} {'evals':>9} {'k-hat':>6} {'error':>9}  draws"


def figures(row):
    """Means over the seeds, and the worst k-hat and error of any seed."""
    done = [run for run in row["pathfinder"] if "failed" not in run]
    right = [run["comparison"]["right"] for run in done if run["comparison"]]
    failed = len(row["pathfinder"]) - len(done)
    outcomes = {"right": sum(right), "wrong": len(right) - sum(right), "failed": failed}
    return {
        "evals": mean(done, "evals") if done else None,
        "k_hat": max((run["k_hat"] for run in done), default=None),
        "error": worst(done),
        "outcomes": ", ".join(f"{count} {what}" for what, count in outcomes.items() if count),
    }


def cells(row):
    """The figures of a posterior as text."""
    found = figures(row)
    forms = {"evals": ",.0f", "k_hat": ".2f", "error": ".2f"}
    return [*(shown(found[key], form) for key, form in forms.items()), found["outcomes"]]


def line(row):
    """One posterior."""
    evals, k_hat, error, outcomes = cells(row)
    return f"{row['name']:<46} {row['dim']:>5} {evals:>9} {k_hat:>6} {error:>9}  {outcomes}"


def right(rows):
    """How often the draws are right."""
    runs = [run for row in rows for run in row["pathfinder"]]
    good = sum(bool(run.get("comparison") and run["comparison"]["right"]) for run in runs)
    return f"Pathfinder's draws are right in {good} of {len(runs)} runs"


def text(rows):
    """All posteriors."""
    return "\n".join([HEAD, *map(line, rows), right(rows)])


def markdown(rows, about):
    """A row per posterior."""
    seeds = ", ".join(map(str, about["seeds"]))
    lines = [
        f"BlackJAX {about['blackjax']}, seed{'s' if ',' in seeds else ''} {seeds}: {right(rows)}.",
        "",
        "| posterior | evaluations | k-hat | worst figure | draws |",
        "|---|---|---|---|---|",
    ]
    for row in rows:
        lines.append(f"| `{row['name']}` | {' | '.join(cells(row))} |")
    return "\n".join(lines)
