"""The arguments of the comparison; needs nothing but Python's own modules."""

import argparse
from pathlib import Path

DESCRIPTION = """\
natmix at its defaults beside nutpie's NUTS with 4 chains and its defaults otherwise, on the posteriors of
`natmix experiments posteriordb`, with the same compiled programs.

For every posterior and seed: a fit of natmix on one thread, and a run of nutpie with its chains side by side. `CPU s` is the
processor time of all threads, for nutpie of the sampling alone; compiling and starting are left out of both. `evals` counts
gradients, for nutpie the leapfrog steps, those of the warm-up included. The draws of both are judged by natmix: `error` is the
figure that is furthest off, as a multiple of its limit.

NATMIX_DATA must name the folder that holds posteriordb. --reference keeps long runs of NUTS, by which posteriors are judged that
have no reference in the database; those that are not there yet are made.

--pathfinder runs BlackJAX's multi-path Pathfinder in place of both: 4 paths of 1,000 draws, resampled by their importance
weights.

Results are written to --json after every posterior, and those that are there already are not measured again. Seconds mean
something only on a machine without other work.

The first run makes a virtual environment in .venv-nutpie, with nutpie, BlackJAX and httpstan. Every run builds natmix from this
checkout, optimised; --natmix uses a binary that is there.

examples:
  NATMIX_DATA=data scripts/compare-nutpie --json compared.json --markdown docs/posteriordb.md
  NATMIX_DATA=data scripts/compare-nutpie harder --seeds 1 --reference references
"""


def arguments(given=None):
    """The options, checked."""
    parser = argparse.ArgumentParser(
        prog="scripts/compare-nutpie", description=DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "posteriors",
        nargs="*",
        metavar="POSTERIOR",
        help="names, or `harder` for those without a reference in the database [default: all with one]",
    )
    parser.add_argument("--seeds", type=seeds, default=[1, 2, 3], metavar="N,...", help="seeds of both [default: 1,2,3]")
    parser.add_argument("--reference", metavar="DIR", help="keep long runs of NUTS in this folder, and use those that are there")
    parser.add_argument("--only-reference", action="store_true", help="only make what is missing in --reference")
    parser.add_argument("--pathfinder", action="store_true", help="run Pathfinder, and neither natmix nor nutpie")
    parser.add_argument("--json", metavar="FILE", help="write the results to this file, and go on from what it holds")
    parser.add_argument(
        "--markdown", metavar="FILE", help="write the table between the marks of this page, such as docs/posteriordb.md"
    )
    parser.add_argument(
        "--natmix", type=Path, metavar="FILE", help="the command line of natmix [default: built from this checkout]"
    )
    parser.add_argument("--no-runs", action="store_true", help="run nothing: show what --json holds")
    options = parser.parse_args(given)
    if options.no_runs and not (options.json and Path(options.json).exists()):
        parser.error("--no-runs needs a file --json")
    if options.only_reference and not options.reference:
        parser.error("--only-reference needs --reference")
    return options


def seeds(text):
    """Seeds from a list such as 1,2,3."""
    return [int(part) for part in text.split(",")]
