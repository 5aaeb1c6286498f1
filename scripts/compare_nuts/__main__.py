"""Runs the comparison in an interpreter that has natmix, numpyro and jax; with --no-runs in any."""

import json
import sys
from pathlib import Path

from . import table
from .arguments import arguments
from .results import Results, versions


def tell(message):
    print(message, file=sys.stderr, flush=True)


def run_nuts(options):
    """Runs of NUTS alone."""
    from .reference import References

    references = References(options.reference, options.long, options.again, tell)
    for name in options.models:
        references.truth(name)
        tell(f"{name}: usual {json.dumps(references.usual(name))}")


def compare(options, results):
    """Runs what is not in the results yet."""
    import jax

    from .fits import fit
    from .reference import References

    tell(table.HEAD)
    # So that the first fit or run of NUTS does not pay for the start of JAX.
    jax.block_until_ready(jax.jit(lambda x: x + 1)(1.0))
    references = References(options.reference, options.long, options.again, tell)
    for name in options.models:
        left = [seed for seed in options.seeds if not results.has(name, seed)]
        if not left:
            continue
        usual, true = references.usual(name), references.truth(name)
        for seed in left:
            tell(f"{name}: natmix, seed {seed}")
            results.add(name, seed, fit(name, seed, true), usual)
            tell("\n".join(map(table.line, results.rows([name], [seed]))) or results.fits[-1]["failed"])


def main():
    options = arguments()
    if options.only_nuts:
        run_nuts(options)
        return
    if options.no_runs:
        results = Results(options.json)
    else:
        about = versions(options.long)
        results = Results(options.json, about)
        if results.differs(about):
            sys.exit(f"{options.json} has results of another build of natmix or with another --long: give another file")
        try:
            compare(options, results)
        except KeyboardInterrupt:
            tell("interrupted" + (": the same command goes on" if options.json else ""))
            sys.exit(130)
    rows = results.rows(options.models)
    print("\n".join([table.text(rows), *results.failed(options.models)]))
    if options.markdown:
        page = Path(options.markdown)
        page.write_text(table.insert(page.read_text(), table.markdown(rows, results.about)))


if __name__ == "__main__":
    main()
