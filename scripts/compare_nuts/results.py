"""Results that outlive an interruption: written after every fit, read again by the next run."""

import hashlib
import importlib.metadata
import json
import os
from pathlib import Path

from .files import replace


def versions(long):
    """What is compared, with a digest of natmix's compiled part and the length of the references: figures of different builds or
    against different references must not be mixed."""
    from natmix import _natmix

    digest = hashlib.sha256(Path(_natmix.__file__).read_bytes()).hexdigest()[:12]
    found = {name: importlib.metadata.version(name) for name in ("natmix", "numpyro", "jax")}
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {**found, "build": digest, "cores": cores, "long": long}


class Results:
    """The figures of NUTS by model, and those of natmix by model and seed."""

    def __init__(self, path, about=None):
        self.path = None if path is None else Path(path)
        self.about, self.nuts, self.fits = about, {}, []
        if self.path and self.path.exists():
            stored = json.loads(self.path.read_text())
            self.about, self.nuts, self.fits = stored["about"], stored["nuts"], stored["fits"]

    def differs(self, about):
        """Whether a file that was read holds figures of another build of natmix, or against other references."""
        return bool(self.fits) and any(self.about[key] != about[key] for key in ("build", "long"))

    def has(self, model, seed):
        """Whether a fit is there; one that failed is not."""
        return any(row["model"] == model and row["seed"] == seed and "failed" not in row for row in self.fits)

    def add(self, model, seed, figures, usual):
        """Adds a fit, and writes all."""
        self.nuts[model] = usual
        self.fits = [row for row in self.fits if (row["model"], row["seed"]) != (model, seed)]
        self.fits.append({"model": model, "seed": seed, **figures})
        if self.path:
            everything = {"about": self.about, "nuts": self.nuts, "fits": self.fits}
            replace(self.path, (json.dumps(everything, indent=1) + "\n").encode())

    def rows(self, models, seeds=None):
        """The fits of these models and seeds that did not fail, in their order, each with the figures of NUTS as `nuts` and the
        ratio of evaluations as `ratio`."""
        found = []
        for name in models:
            for row in sorted((row for row in self.fits if row["model"] == name), key=lambda row: row["seed"]):
                if "failed" not in row and (seeds is None or row["seed"] in seeds):
                    usual = self.nuts[name]
                    found.append({**row, "nuts": usual, "ratio": row["evals"]["sum"] / usual["evaluations"]})
        return found

    def failed(self, models):
        """A line for each fit of these models that failed."""
        return [
            f"{row['model']}, seed {row['seed']}: failed, {row['failed']}"
            for row in self.fits
            if row["model"] in models and "failed" in row
        ]
