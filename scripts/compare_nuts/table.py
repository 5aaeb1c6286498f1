"""Tables of the results: as text, and as Markdown between two marks of a page."""

import math
import statistics

from .catalogue import CATALOGUE
from .stopwatch import undisturbed

# One Gaussian is the whole answer there, which says little about models that people have.
NOT_IN_MEAN = "walk_500"
BEGIN, END = "<!-- begin of what scripts/compare-nuts writes -->", "<!-- end of what scripts/compare-nuts writes -->"


def geometric_mean(rows):
    """Of natmix's evaluations as multiples of NUTS's: every model counts the same, the random walk not at all."""
    by_model = {}
    for row in rows:
        if row["model"] != NOT_IN_MEAN:
            by_model.setdefault(row["model"], []).append(math.log(row["ratio"]))
    return math.exp(statistics.fmean(map(statistics.fmean, by_model.values()))) if by_model else None


def yes(value):
    return {True: "yes", False: "no", None: "-"}[value]


HEAD = (
    f"{'model':<17}{'seed':>4} {'d':>5} {'level':<9}{'fit':>8} {'diagn.':>7} {'chains':>9} {'sum':>9} {'NUTS':>10} {'ratio':>6}"
    f" {'seconds':>8} {'NUTS':>7} {'error':>6} {'right':>5} {'trusted':>7}"
)


def seconds(figures):
    """Wall time, with a mark if other programs were running or may have been."""
    return f"{figures['seconds']:.1f}{' ' if undisturbed(figures) else '*'}"


def line(row):
    """One fit."""
    evals, nuts = row["evals"], row["nuts"]
    return (
        f"{row['model']:<17}{row['seed']:>4} {row['dim']:>5} {row['level'] or 'none':<9}{evals['points']:>8,}"
        f" {evals['diagnostics']:>7,} {evals['chains']:>9,} {evals['sum']:>9,} {nuts['evaluations']:>10,} {row['ratio']:>6.2f}"
        f" {seconds(row):>8} {seconds(nuts):>7} {row['error']:>6.2f} {yes(row['right']):>5} {yes(row['trusted']):>7}"
    )


def text(rows):
    """All fits, and the mean of the ratios."""
    lines = [HEAD, *map(line, rows)]
    for row in rows:
        if "first_labelling" in row:
            lines.append(f"{row['model']}, seed {row['seed']}: share of the first labelling {row['first_labelling']}")
    if any("*" in line for line in lines):
        lines.append("* other programs used the machine meanwhile, or it is not known whether they did")
    mean = geometric_mean(rows)
    if mean is not None:
        lines.append(f"geometric mean of the ratios, without {NOT_IN_MEAN}: {mean:.2f}")
    return "\n".join(lines)


def markdown(rows, about):
    """A row per model, with the ratio of every seed."""
    seeds = sorted({row["seed"] for row in rows})
    lines = [
        f"natmix {about['natmix']} at its defaults, seed {', '.join(map(str, seeds))}; NUTS of NumPyro {about['numpyro']}"
        f" on JAX {about['jax']}, 4 chains of 1,000 + 1,000; {about['cores']} cores.",
        "",
        "| model | d | level | evaluations | NUTS | ratio, by seed | seconds | NUTS | worst error | right | trusted |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for name in CATALOGUE:
        fits = [row for row in rows if row["model"] == name]
        if fits:
            lines.append(_markdown_row(name, fits))
    mean = geometric_mean(rows)
    if mean is not None:
        lines += ["", f"Geometric mean of the ratios, without `{NOT_IN_MEAN}`: **{mean:.2f}**."]
    return "\n".join(lines)


def _markdown_row(name, fits):
    def share(key):
        return f"{sum(row[key] is True for row in fits)} of {len(fits)}"

    nuts, first = fits[0]["nuts"], fits[0]
    cells = [
        f"`{name}`: {CATALOGUE[name].about}",
        f"{first['dim']:,}",
        ", ".join(dict.fromkeys(row["level"] or "none" for row in fits)),
        f"{statistics.fmean(row['evals']['sum'] for row in fits):,.0f}",
        f"{nuts['evaluations']:,}",
        ", ".join(f"{row['ratio']:.2f}" for row in fits),
        f"{statistics.fmean(row['seconds'] for row in fits):.1f}" if all(map(undisturbed, fits)) else "-",
        f"{nuts['seconds']:.1f}" if undisturbed(nuts) else "-",
        f"{max(row['error'] for row in fits):.2f}",
        share("right"),
        share("trusted"),
    ]
    return f"| {' | '.join(cells)} |"


def insert(page, table, marks=(BEGIN, END)):
    """The page with the table between its marks."""
    before, begin, rest = page.partition(marks[0])
    _, end, after = rest.partition(marks[1])
    if not (begin and end):
        raise ValueError(f"the page has no line {marks[0]} followed by {marks[1]}")
    return f"{before}{begin}\n{table}\n{end}{after}"
