"""Long runs of NUTS, for posteriors that have no reference in the database."""

import json
from pathlib import Path

from compare_nuts.files import replace

from . import sampler
from .draws import relabelled, write

WARMUP, KEPT, SEED = 2000, 20_000, 101
# Draws per chain: four times as many until there are enough effective ones.
DRAWS, MOST_DRAWS, LEAST_EFFECTIVE = 10_000, 160_000, 4000
# Short steps: some of these posteriors have narrow places.
TARGET_ACCEPT = 0.95


def run(summary, each, tell):
    """A run with so many draws per chain, in one order of the components."""
    tell(f"{summary['name']}: reference, {sampler.CHAINS} chains of {WARMUP:,} + {each:,}")
    settings = {"tune": WARMUP, "draws": each, "target_accept": TARGET_ACCEPT, "save_warmup": True}
    draws, figures = sampler.run(sampler.model(summary), SEED, **settings)
    if summary["relabelled"]:
        draws = relabelled(draws)
        figures |= sampler.mixing(draws)
    tell(f"{summary['name']}: reference {json.dumps(figures)}")
    return draws, figures


def make(summary, folder, tell):
    """Makes the reference of a posterior in a folder, unless it is there."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    about = folder / f"{summary['name']}.json"
    if about.exists():
        return
    draws, figures = run(summary, DRAWS, tell)
    each = DRAWS
    while figures["ess"] < LEAST_EFFECTIVE and each < MOST_DRAWS:
        each *= 4
        draws, figures = run(summary, each, tell)
    thin = max(1, sampler.CHAINS * each // KEPT)
    kept = {name: values[:, ::thin] for name, values in draws.items()}
    write(kept, folder / f"{summary['name']}.csv.gz")
    # Of what is kept.
    replace(about, (json.dumps(figures | sampler.mixing(kept), indent=1) + "\n").encode())
