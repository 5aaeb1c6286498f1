"""A fit by natmix with nothing set, and how it compares with the reference."""

import warnings

import natmix

from .judge import first_labelling, judge
from .models import build
from .stopwatch import Stopwatch

JUDGED_DRAWS = 10_000


def fit(name, seed, true):
    """Figures of one fit; a fit that fails has only the reason, as `failed`."""
    model = build(name)
    watch = Stopwatch()
    try:
        with warnings.catch_warnings():
            # The verdict is among the figures.
            warnings.simplefilter("ignore")
            post = natmix.fit(natmix.from_numpyro(model), seed=seed, progress=False)
        time = watch.read()
        draws = post.sample_variables(JUDGED_DRAWS)
        figures = {
            "dim": post.dim,
            "level": post.level,
            "evals": {**post._report["evals"], "sum": post.evals},
            **time,
            "components": post.components,
            "trusted": post.trusted,
            **judge(draws, true),
        }
    except Exception as error:  # noqa: BLE001 - a model that fails is a result, and the others still run
        return {"failed": f"{type(error).__name__}: {error}"[:300]}
    if name == "two_lines":
        figures["first_labelling"] = first_labelling(draws)
    return {**figures, "reasons": post.reasons}
