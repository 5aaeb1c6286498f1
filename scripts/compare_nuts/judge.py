"""Whether draws are right: quantiles compared with those of reference draws."""

import numpy as np

PROBABILITIES = (0.05, 0.25, 0.5, 0.75, 0.95)
# Of the 5-95% width of the reference, and of probability.
QUANTILE_LIMIT, PROBABILITY_LIMIT = 0.05, 0.02


def truth(draws):
    """What draws are compared with, from reference draws `{site: (draw, ...)}`: quantiles, mean and standard deviation, one after
    another, of every scalar."""
    return {
        site: np.concatenate([np.quantile(values, PROBABILITIES, axis=0), values.mean(axis=0)[None], values.std(axis=0)[None]])
        for site, values in draws.items()
    }


def quantile_errors(draws, true):
    """The worst error of a quantile, for each scalar of a site, as a multiple of its limit.

    A quantile may be off by 0.05 of the 5-95% width, or the probability below the true quantile by 0.02: the smaller of both
    errors counts, so that a median in the gap between two modes does not decide.
    """
    true = true[: len(PROBABILITIES)]
    by_place = np.abs(np.quantile(draws, PROBABILITIES, axis=0) - true) / (true[-1] - true[0]) / QUANTILE_LIMIT
    below = np.stack([(draws <= quantile).mean(axis=0) for quantile in true])
    wanted = np.reshape(PROBABILITIES, (-1,) + (1,) * (below.ndim - 1))
    by_probability = np.abs(below - wanted) / PROBABILITY_LIMIT
    return np.minimum(by_place, by_probability).max(axis=0)


def judge(draws, true):
    """Figures of all sites together, beside the `truth`: `right`, the worst `error` and the site it is `at`; for information also
    the largest error of a mean in standard deviations, and the least and the largest ratio of standard deviations."""
    error, at, mean_error, low, high = 0.0, "", 0.0, np.inf, 0.0
    for site, figures in true.items():
        ours = np.asarray(draws[site])
        if ours.shape[1:] != figures.shape[1:]:
            raise ValueError(f"draws of {site} have shape {ours.shape[1:]}, those of the reference {figures.shape[1:]}")
        if not np.isfinite(ours).all():
            raise ValueError(f"draws of {site} are not finite")
        worst = float(quantile_errors(ours, figures).max())
        if worst > error:
            error, at = worst, site
        mean, sd = figures[len(PROBABILITIES) :]
        mean_error = max(mean_error, float((np.abs(ours.mean(axis=0) - mean) / sd).max()))
        ratios = ours.std(axis=0) / sd
        low, high = min(low, float(ratios.min())), max(high, float(ratios.max()))
    return {
        "right": error <= 1,
        "error": round(error, 2),
        "at": at,
        "mean_error": round(mean_error, 3),
        "sd_ratio": [round(low, 3), round(high, 3)],
    }


def first_labelling(draws):
    """The share of draws of the two lines in which the first has the larger intercept; it should be a half."""
    return round(float(np.mean(draws["a"][:, 0] > draws["a"][:, 1])), 3)
