"""Runs of nutpie on compiled Stan programs."""

import gzip
import time
import warnings
from pathlib import Path

import numpy as np

with warnings.catch_warnings():
    # About the future of ArviZ.
    warnings.simplefilter("ignore")
    import arviz
    import nutpie
from nutpie import _lib
from nutpie.compile_stan import CompiledStanModel

from .draws import flat

CHAINS = 4


def model(summary):
    """nutpie's model of a compiled program and its data."""
    path = Path(summary["data"])
    text = gzip.decompress(path.read_bytes()).decode() if path.suffix == ".gz" else path.read_text()
    library = _lib.StanLibrary(summary["library"])

    def adapter(*_args, **_kwargs):
        raise NotImplementedError("only for nutpie's transform_adapt")

    compiled = _lib.StanModel(library, {}, {}, {}, 1, text, adapter)
    return CompiledStanModel(_coords={}, code="", data=None, library=library, dims={}, model=compiled)


def run(compiled, seed, **settings):
    """Draws `{name: (chain, draw)}` and what they took."""
    cpu, wall = time.process_time(), time.perf_counter()
    sampler = nutpie.sample(
        compiled, chains=CHAINS, seed=seed, progress_bar=False, blocking=False, return_raw_trace=True, **settings
    )
    raw = sampler.wait()
    figures = {"cpu_seconds": time.process_time() - cpu, "seconds": time.perf_counter() - wall}
    # From here on it is not nutpie's time.
    sampler._return_raw_trace = False
    trace = sampler._extract(raw)
    draws = flat(trace.posterior)
    steps = int(trace.sample_stats.n_steps.sum()) + int(trace.warmup_sample_stats.n_steps.sum())
    figures |= {"evals": steps, "divergences": int(trace.sample_stats.diverging.sum()), **mixing(draws)}
    return draws, figures


def mixing(draws):
    """The largest R-hat and the least effective number of draws of a parameter that is not constant."""
    r_hat, ess = 1.0, np.inf
    for values in draws.values():
        if np.ptp(values) > 0:
            r_hat = max(r_hat, float(arviz.rhat(values)))
            ess = min(ess, *(float(arviz.ess(values, method=method)) for method in ("bulk", "tail")))
    return {"r_hat": r_hat, "ess": ess}
