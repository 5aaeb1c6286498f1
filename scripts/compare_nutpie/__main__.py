"""Runs the comparison in an interpreter that has nutpie; with --no-runs in any."""

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


def measure(summary, seeds, reference):
    """A posterior by natmix and by nutpie."""
    from . import sampler, scoreboard
    from .draws import write

    name = summary["name"]
    row = {"name": name, "dim": summary["dim"], "natmix": scoreboard.fits(name, seeds, reference), "nutpie": []}
    compiled = sampler.model(summary)
    for seed in seeds:
        tell(f"{name}: nutpie, seed {seed}")
        try:
            draws, figures = sampler.run(compiled, seed)
            with tempfile.TemporaryDirectory() as folder:
                write(draws, Path(folder) / f"{name}.csv.gz")
                comparison = scoreboard.judged(name, folder, reference)
        except Exception as error:  # noqa: BLE001 - a model that fails is a result, and the others still run
            row["nutpie"].append({"seed": seed, "failed": f"{type(error).__name__}: {error}"[:300]})
        else:
            row["nutpie"].append({"seed": seed, **figures, "comparison": comparison})
    return row


def compare(options, stored):
    """Adds what is not measured yet."""
    from . import reference, scoreboard

    tell(table.HEAD)
    for summary in scoreboard.listed(options.posteriors):
        if options.reference and summary["resolution"] is None:
            reference.make(summary, options.reference, tell)
        if options.only_reference or any(row["name"] == summary["name"] for row in stored["rows"]):
            continue
        stored["rows"].append(measure(summary, options.seeds, options.reference))
        tell(table.line(stored["rows"][-1]))
        if options.json:
            replace(Path(options.json), (json.dumps(stored, indent=1) + "\n").encode())


def versions(options):
    """What is compared: figures of different builds must not be mixed."""
    from . import scoreboard

    binary = Path(os.environ["NATMIX_BINARY"])
    return {
        "natmix": scoreboard.run(["arK-arK"], "--draws", os.devnull)["version"],
        "build": hashlib.sha256(binary.read_bytes()).hexdigest()[:12],
        "nutpie": importlib.metadata.version("nutpie"),
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
    rows = stored["rows"]
    print(table.text(rows))
    if options.markdown:
        page = Path(options.markdown)
        written = table.markdown(rows, stored["about"])
        page.write_text(insert(page.read_text(), written, (table.BEGIN, table.END)))


if __name__ == "__main__":
    main()
