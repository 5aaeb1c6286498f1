"""Runs the comparison in an interpreter that has the other methods; with --no-runs in any."""

import hashlib
import importlib.metadata
import json
import os
import sys
import tempfile
from pathlib import Path

from compare_nuts.files import replace
from compare_nuts.table import insert

from . import table
from .arguments import arguments


def tell(message):
    print(message, file=sys.stderr, flush=True)


def runs(name, seeds, method, run, reference):
    """Runs of another method, with how natmix judges their draws."""
    from . import scoreboard
    from .draws import write

    found = []
    for seed in seeds:
        tell(f"{name}: {method}, seed {seed}")
        try:
            draws, figures = run(seed)
            with tempfile.TemporaryDirectory() as folder:
                write(draws, Path(folder) / f"{name}.csv.gz")
                comparison = scoreboard.judged(name, folder, reference)
        except Exception as error:  # noqa: BLE001 - a model that fails is a result, and the others still run
            found.append({"seed": seed, "failed": f"{type(error).__name__}: {error}"[:300]})
        else:
            found.append({"seed": seed, **figures, "comparison": comparison})
    return found


def measure(summary, options):
    """A posterior by natmix and by nutpie, or by Pathfinder."""
    name, seeds, reference = summary["name"], options.seeds, options.reference
    row = {"name": name, "dim": summary["dim"]}
    if options.pathfinder:
        from . import pathfinder

        return row | {"pathfinder": runs(name, seeds, "Pathfinder", lambda seed: pathfinder.run(summary, seed), reference)}
    from . import sampler, scoreboard

    row["natmix"] = scoreboard.fits(name, seeds, reference)
    compiled = sampler.model(summary)
    return row | {"nutpie": runs(name, seeds, "nutpie", lambda seed: sampler.run(compiled, seed), reference)}


def compare(options, stored):
    """Adds what is not measured yet."""
    from . import scoreboard

    form = table.of(options)
    tell(form.HEAD)
    for summary in scoreboard.listed(options.posteriors):
        if options.reference and summary["resolution"] is None:
            from . import reference

            reference.make(summary, options.reference, tell)
        if options.only_reference or any(row["name"] == summary["name"] for row in stored["rows"]):
            continue
        stored["rows"].append(measure(summary, options))
        tell(form.line(stored["rows"][-1]))
        if options.json:
            replace(Path(options.json), (json.dumps(stored, indent=1) + "\n").encode())


def versions(options):
    """What is compared: figures of different builds must not be mixed."""
    from . import scoreboard

    binary = Path(os.environ["NATMIX_BINARY"])
    return {
        "natmix": scoreboard.run(["arK-arK"], "--draws", os.devnull)["version"],
        "build": hashlib.sha256(binary.read_bytes()).hexdigest()[:12],
        **{package: importlib.metadata.version(package) for package in (["blackjax"] if options.pathfinder else ["nutpie"])},
        "seeds": options.seeds,
    }


def main():
    options = arguments()
    kept = Path(options.json) if options.json else None
    stored = json.loads(kept.read_text()) if kept and kept.exists() else None
    if not options.no_runs:
        about = versions(options)
        if stored and stored["about"] != about:
            sys.exit(f"{options.json} has results of another build of natmix or of other seeds: give another file")
        stored = stored or {"about": about, "rows": []}
        try:
            compare(options, stored)
        except KeyboardInterrupt:
            tell("interrupted" + (": the same command goes on" if options.json else ""))
            sys.exit(130)
    rows, form = stored["rows"], table.of(options)
    print(form.text(rows))
    if options.markdown:
        page = Path(options.markdown)
        written = form.markdown(rows, stored["about"])
        page.write_text(insert(page.read_text(), written, (form.BEGIN, form.END)))


if __name__ == "__main__":
    main()
