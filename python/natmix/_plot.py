"""Marginals and pairs with matplotlib."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from ._posterior import Posterior

#: Number of parameters shown by default.
DEFAULT_COUNT = 6


def plot(post: Posterior, names: list[str] | None, n: int) -> Any:
    """See :meth:`natmix.Posterior.plot`."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise ImportError("Posterior.plot needs matplotlib: pip install natmix[plot]") from None
    known = post.summary().names
    names = known[:DEFAULT_COUNT] if names is None else list(names)
    missing = [name for name in names if name not in known]
    if missing:
        raise ValueError(f"there is no parameter {missing[0]!r}")
    draws = post._record.draws
    draws = draws[np.linspace(0, len(draws) - 1, min(n, len(draws))).astype(int)]
    columns = [draws[:, known.index(name)] for name in names]
    size = len(names)
    figure = Figure(figsize=(1.2 + 1.8 * size, 1.2 + 1.8 * size), layout="constrained")
    axes = figure.subplots(size, size, squeeze=False)
    for i in range(size):
        for j in range(size):
            ax = axes[i, j]
            if j > i:
                ax.set_visible(False)
            elif i == j:
                ax.hist(columns[i], bins=40, density=True, histtype="stepfilled", alpha=0.6)
                ax.set_yticks([])
            else:
                ax.scatter(columns[j], columns[i], s=2, alpha=0.3, linewidths=0)
            if i == size - 1:
                ax.set_xlabel(names[j])
            if j == 0 and i > 0:
                ax.set_ylabel(names[i])
    return figure
