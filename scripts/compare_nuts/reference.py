"""What natmix is compared with: the usual run of NUTS, and figures of draws that are many or exact enough to be the truth."""

import json
import os
from pathlib import Path

import numpy as np

from . import nuts
from .catalogue import CATALOGUE
from .files import replace
from .judge import truth
from .models import WALK_SD, WALK_STEPS, build

USUAL_DRAWS, USUAL_SEED, LONG_SEED = 1000, 0, 1


class References:
    """Runs of NUTS, kept in a folder if there is one: `MODEL-usual.json` has the figures of the usual run,
    `MODEL-N.npz` the truth by the long one, with N draws per chain."""

    def __init__(self, folder, kept, again=False, tell=print):
        self.folder = None if folder is None else Path(folder)
        self.kept = kept
        self.again = again
        self.tell = tell

    def usual(self, name):
        """Evaluations, seconds, divergences, R-hat and effective draws of four chains of 1,000 + 1,000."""
        path = self._path(f"{name}-usual.json")
        if path and path.exists() and not self.again:
            return json.loads(path.read_text())
        self.tell(f"{name}: NUTS, {nuts.CHAINS} chains of {nuts.WARMUP} + {USUAL_DRAWS}")
        _, figures = nuts.run(build(name), USUAL_DRAWS, USUAL_SEED, CATALOGUE[name].together)
        if path:
            replace(path, json.dumps(figures).encode())
        return figures

    def truth(self, name):
        """The truth `{site: (figure, ...)}`."""
        path = self._path(f"{name}-{self.kept}.npz")
        if path and path.exists():
            with np.load(path) as stored:
                return dict(stored)
        found = truth(self._make(name))
        if path:
            part = path.with_name(f"{name}-{self.kept}.part.npz")
            np.savez(part, **found)
            os.replace(part, path)
        return found

    def _make(self, name):
        if name == "walk_500":
            return {"w": walk_draws(nuts.CHAINS * self.kept, LONG_SEED)}
        if CATALOGUE[name].concave:
            self.tell(f"{name}: reference, NUTS with the Hessian at the mode as metric")
            draws, figures = nuts.run_preconditioned(build(name), nuts.CHAINS * self.kept, LONG_SEED)
        else:
            self.tell(f"{name}: reference, NUTS with {nuts.CHAINS} chains of {nuts.WARMUP} + {self.kept}")
            draws, figures = nuts.run(build(name), self.kept, LONG_SEED)
        self.tell(f"{name}: reference {json.dumps(figures)}")
        draws = {site: values.reshape(-1, *values.shape[2:]) for site, values in draws.items()}
        return both_labellings(draws) if name == "two_lines" else draws

    def _path(self, file):
        if self.folder is None:
            return None
        self.folder.mkdir(parents=True, exist_ok=True)
        return self.folder / file


def walk_draws(count, seed):
    """Exact draws of the random walk."""
    return np.cumsum(WALK_SD * np.random.default_rng(seed).normal(size=(count, WALK_STEPS)), axis=1)


def both_labellings(draws):
    """Each chain stays in one of two labellings that are equally probable: every draw is taken in both."""
    return {site: np.concatenate([values, values[:, ::-1]]) for site, values in draws.items()}
