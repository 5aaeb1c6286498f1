"""The start distribution of a model with priors: as wide as its prior."""

from __future__ import annotations

import numpy as np

#: Interquartile range of a normal distribution, in standard deviations.
INTERQUARTILE_RANGE = 1.349
#: Smallest and largest standard deviation of the start.
MIN_SD, MAX_SD = 1e-2, 1e2


def spread_of(draws: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Centre and spread of prior draws ``(n, d)`` in the space that is fitted, from quartiles: priors can have heavy tails.

    >>> import numpy as np
    >>> mean, sd = spread_of(np.linspace(-1, 1, 101)[:, None])
    >>> mean.tolist(), sd.round(3).tolist()
    ([0.0], [0.741])
    """
    finite = draws[np.isfinite(draws).all(axis=1)]
    if len(finite) < 4:
        return np.zeros(draws.shape[1]), np.ones(draws.shape[1])
    low, middle, high = np.quantile(finite, [0.25, 0.5, 0.75], axis=0)
    return np.clip(middle, -1e3, 1e3), np.clip((high - low) / INTERQUARTILE_RANGE, MIN_SD, MAX_SD)
