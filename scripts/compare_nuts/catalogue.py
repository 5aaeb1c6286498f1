"""The models of the comparison: dimension and description."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Entry:
    """A model."""

    dim: int
    about: str
    # Its log density is concave, so that the Hessian at the mode is a good metric.
    concave: bool = False
    # Its table is so large that chains of NUTS which each read it by themselves would wait for memory: they advance together.
    together: bool = False


CATALOGUE = {
    "radon_noncentred": Entry(175, "varying intercepts and slopes, non-centred"),
    "radon_centred": Entry(175, "the same, centred"),
    "volatility": Entry(303, "stochastic volatility, non-centred"),
    "item_response": Entry(143, "item response with two parameters per item"),
    "horseshoe": Entry(122, "sparse regression with heavy-tailed scales"),
    "cox": Entry(103, "log-Gaussian Cox process on a line"),
    "counts": Entry(203, "Poisson regression with a random intercept, centred"),
    "logistic_100": Entry(100, "logistic regression with correlated columns", concave=True),
    "logistic_300": Entry(300, "the same, more columns", concave=True),
    "logistic_1000": Entry(1000, "the same, more columns and rows", concave=True, together=True),
    "walk_500": Entry(500, "Gaussian random walk: hardly anything but correlation"),
    "network": Entry(31, "neural network with 10 units: many symmetric modes"),
    "two_lines": Entry(7, "mixture of two regressions: two labellings"),
}
