"""The arguments of the comparison; needs nothing but Python's own modules."""

import argparse
from pathlib import Path

from .catalogue import CATALOGUE

# What the runs of NUTS found for the table in docs/nuts.md: some of them take an hour.
REFERENCES = Path(__file__).resolve().parent / "references"

DESCRIPTION = """\
natmix at its defaults beside NumPyro's NUTS, on hierarchical models with 7 to 1,000 parameters.

For every model: NUTS with 4 chains of 1,000 + 1,000 (evaluations, and seconds with compilation); reference draws, from a NUTS run
that is several times as long or, for the random walk, exact; then `natmix.fit(natmix.from_numpyro(model))` with nothing set.

The table has a line per fit: the level of the answer, evaluations of the fit, of its diagnostics and of its chains, their sum,
NUTS's, and the ratio; seconds of both; `error`, the worst error of a 5, 25, 50, 75 or 95% quantile of any parameter as a multiple
of its limit; whether the draws are right (no error above 1); and whether natmix trusts them.

Results are written to --json after every fit, and fits that are there already are not run again: an interrupted comparison
goes on when the command is repeated. Seconds mean something only on a machine without other work.

The first run makes a virtual environment in .venv-nuts, and every run builds natmix in it from this checkout, optimised; --python
uses an interpreter that has all of this already. What NUTS found is kept with the scripts: only natmix runs, unless --again
repeats the usual runs of NUTS, to compare times on this machine, or --reference names an empty folder, to repeat them all.

examples:
  scripts/compare-nuts --seeds 1,2,3 --json compared.json
  scripts/compare-nuts counts two_lines --again
  scripts/compare-nuts --no-runs --json compared.json --markdown docs/nuts.md
"""


def seeds(text):
    """Seeds from a list such as 1,2,3."""
    return [int(part) for part in text.split(",")]


def arguments(given=None):
    """The options, checked."""
    parser = argparse.ArgumentParser(
        prog="scripts/compare-nuts", description=DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "models", nargs="*", default=list(CATALOGUE), metavar="MODEL", help=f"[default: all] {', '.join(CATALOGUE)}"
    )
    parser.add_argument("--seeds", type=seeds, default=[1], metavar="N,...", help="seeds of natmix [default: 1]")
    parser.add_argument("--long", type=int, default=5000, metavar="N", help="draws per chain of the reference [default: 5000]")
    parser.add_argument(
        "--reference",
        metavar="DIR",
        default=str(REFERENCES),
        help="keep what the runs of NUTS found in this folder, and use what is there [default: that of the published table]",
    )
    parser.add_argument(
        "--again", action="store_true", help="repeat the usual runs of NUTS in --reference, to measure their time"
    )
    parser.add_argument("--json", metavar="FILE", help="write the results to this file, and go on from what it holds")
    parser.add_argument("--markdown", metavar="FILE", help="write the table between the marks of this page, such as docs/nuts.md")
    parser.add_argument("--only-nuts", action="store_true", help="only run NUTS, for --reference")
    parser.add_argument("--python", metavar="FILE", help="interpreter that has natmix, numpyro and jax [default: one is made]")
    parser.add_argument("--no-runs", action="store_true", help="run nothing: show what --json holds")
    options = parser.parse_args(given)
    for name in set(options.models) - set(CATALOGUE):
        parser.error(f"there is no model {name}; there are {', '.join(CATALOGUE)}")
    if options.long < 1:
        parser.error("--long must be at least 1")
    if options.no_runs and not options.json:
        parser.error("--no-runs needs --json")
    if options.no_runs and not Path(options.json).exists():
        parser.error(f"there is no file {options.json}")
    return options
