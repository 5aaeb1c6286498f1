"""Long runs of NUTS, for posteriors that have no reference in the database."""

import json
from pathlib import Path

from compare_nuts.files import replace

from . import sampler
from .draws import relabelled, write

WARMUP, DRAWS, KEPT, SEED = 2000, 10_000, 20_000, 101
# Short steps: some of these posteriors have narrow places.
TARGET_ACCEPT = 0.95


def make(summary, folder, tell):
    """Makes the reference of a posterior in a folder, unless it is there."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    about = folder / f"{summary['name']}.json"
    if about.exists():
        return
    tell(f"{summary['name']}: reference, {sampler.CHAINS} chains of {WARMUP:,} + {DRAWS:,}")
    settings = {"tune": WARMUP, "draws": DRAWS, "target_accept": TARGET_ACCEPT, "save_warmup": True}
    draws, figures = sampler.run(sampler.model(summary), SEED, **settings)
    if summary["relabelled"]:
        draws = relabelled(draws)
        figures |= sampler.mixing(draws)
    tell(f"{summary['name']}: reference {json.dumps(figures)}")
    thin = max(1, sampler.CHAINS * DRAWS // KEPT)
    kept = {name: values[:, ::thin] for name, values in draws.items()}
    write(kept, folder / f"{summary['name']}.csv.gz")
    # Of what is kept.
    replace(about, (json.dumps(figures | sampler.mixing(kept), indent=1) + "\n").encode())
