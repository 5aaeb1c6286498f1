"""Tables of the results: as text, and as Markdown between two marks of a page."""

import math
import statistics
import sys

BEGIN, END = "<!-- begin of what scripts/compare-nutpie writes -->", "<!-- end of what scripts/compare-nutpie writes -->"

HEAD = (
    f"{'posterior':<46} {'d':>5} {'CPU s':>8} {'nutpie':>8} {'ratio':>6} {'evals':>9} {'nutpie':>9} {'error':>6} {'nutpie':>6}"
    f" {'r-hat':>6}  of natmix"
)


def of(options):
    """The module whose tables have what these options measure."""
    from . import pathfinder_table

    return pathfinder_table if options.pathfinder else sys.modules[__name__]


def mean(runs, key):
    return statistics.fmean(run[key] for run in runs)


def worst(runs):
    """The figure that is furthest off in any run, or None if there is no reference."""
    found = [run["comparison"]["worst"]["error"] for run in runs if run["comparison"]]
    # JSON has no infinity.
    return max(math.inf if error is None else error for error in found) if found else None


def figures(row):
    """Means over the seeds, and the worst error of any seed."""
    ours = [fit for fit in row["natmix"] if fit["error"] is None]
    theirs = [run for run in row["nutpie"] if "failed" not in run]
    outcomes = []
    for fit in row["natmix"]:
        right = {True: "right, ", False: "wrong, ", None: ""}[fit["comparison"] and fit["comparison"]["right"]]
        outcomes.append("failed" if fit["error"] else right + ("trusted" if fit["trusted"] else "refused"))
    cpu = mean(ours, "cpu_seconds") if ours else None
    nutpie_cpu = mean(theirs, "cpu_seconds") if theirs else None
    return {
        "cpu": cpu,
        "nutpie_cpu": nutpie_cpu,
        "ratio": cpu / nutpie_cpu if ours and theirs else None,
        "evals": statistics.fmean(sum(fit["evals"]) for fit in ours) if ours else None,
        "nutpie_evals": mean(theirs, "evals") if theirs else None,
        "error": worst(ours),
        "nutpie_error": worst(theirs),
        "r_hat": max((run["r_hat"] for run in theirs), default=None),
        "outcomes": ", ".join(f"{outcomes.count(one)} {one}" for one in dict.fromkeys(outcomes)),
    }


def shown(value, form):
    return "-" if value is None else format(value, form)


def line(row):
    """One posterior."""
    found = figures(row)
    return (
        f"{row['name']:<46} {row['dim']:>5} {shown(found['cpu'], '8.2f'):>8} {shown(found['nutpie_cpu'], '8.2f'):>8}"
        f" {shown(found['ratio'], '6.2f'):>6} {shown(found['evals'], '9,.0f'):>9} {shown(found['nutpie_evals'], '9,.0f'):>9}"
        f" {shown(found['error'], '6.2f'):>6} {shown(found['nutpie_error'], '6.2f'):>6} {shown(found['r_hat'], '6.3f'):>6}"
        f"  {found['outcomes']}"
    )


def both_right(row):
    """Whether all draws of both are known to be right, and natmix trusts its own."""
    right = [run.get("comparison") and run["comparison"]["right"] for run in row["natmix"] + row["nutpie"]]
    return all(right) and all(fit["trusted"] for fit in row["natmix"])


def less(rows):
    """On how many posteriors natmix takes at most nutpie's processor time: of all, and of those where both answers are good."""

    def count(rows):
        ratios = [ratio for ratio in (figures(row)["ratio"] for row in rows) if ratio is not None]
        return f"{sum(ratio <= 1 for ratio in ratios)} of {len(ratios)}"

    good = [row for row in rows if both_right(row)]
    return (
        f"natmix takes at most nutpie's processor time on {count(rows)} posteriors, and on {count(good)} where every run of both"
        " is right and natmix trusted"
    )


def text(rows):
    """All posteriors."""
    return "\n".join([HEAD, *map(line, rows), less(rows)])


def markdown(rows, about):
    """A row per posterior."""
    seeds = ", ".join(map(str, about["seeds"]))
    lines = [
        f"natmix {about['natmix']} on one thread, seed{'s' if ',' in seeds else ''} {seeds}; nutpie {about['nutpie']}, 4 chains"
        f"; {less(rows)}.",
        "",
        "| posterior | CPU s | nutpie | ratio | evaluations | nutpie | worst figure | nutpie | R-hat | natmix |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        found = figures(row)
        cells = [
            f"`{row['name']}`",
            shown(found["cpu"], ".2f"),
            shown(found["nutpie_cpu"], ".2f"),
            shown(found["ratio"], ".2f"),
            shown(found["evals"], ",.0f"),
            shown(found["nutpie_evals"], ",.0f"),
            shown(found["error"], ".2f"),
            shown(found["nutpie_error"], ".2f"),
            shown(found["r_hat"], ".3f"),
            found["outcomes"],
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)
