"""Log likelihoods of every family by SciPy, at given parameters: writes likelihoods.txt beside this file.

Six rows with the predictor `intercept + slope x + offset`, each counted `weight` times. Run with SciPy 1.17.
"""

from pathlib import Path

import numpy as np
from scipy import special, stats

x = np.array([0, 1, 1, 0, 1, 0])
offset = np.array([0.1, -0.2, 0.0, 0.3, 0.05, -0.1])
weight = np.array([1, 2, 0.5, 1, 0, 3])
eta = 0.4 - 0.7 * x + offset

real = np.array([0.3, -1.2, 2.5, 0.9, -0.4, 7.0])
count = np.array([0, 3, 1, 700, 12, 2])
binary = np.array([0, 1, 1, 0, 1, 1])
trials = np.array([1, 5, 0, 1000, 15, 2])
category = np.array([0, 1, 3, 2, 2, 3])
time = np.array([0.3, 1.2, 2.5, 0.9, 14.0, 7.0])
seen = np.array([1, 0, 1, 1, 0, 1])

cuts = np.concatenate([[-np.inf], [-0.9, 0.35, 1.6], [np.inf]])
by_category = special.expit(cuts[category + 1] - eta) - special.expit(cuts[category] - eta)
weibull = stats.weibull_min(1.8, scale=np.exp(eta))
mean = np.exp(eta)
terms = {
    "linear": stats.norm.logpdf(real, eta, 1.3),
    "logistic": stats.bernoulli.logpmf(binary, special.expit(eta)),
    "poisson": stats.poisson.logpmf(count, mean),
    "negative-binomial": stats.nbinom.logpmf(count, 2.4, 2.4 / (2.4 + mean)),
    "robust": stats.t.logpdf(real, 3.7, eta, 1.3),
    "binomial": stats.binom.logpmf(np.minimum(count, trials), trials, special.expit(eta)),
    "ordinal": np.log(by_category),
    "gamma": stats.gamma.logpdf(time, 2.4, scale=mean / 2.4),
    "survival": np.where(seen == 1, weibull.logpdf(time), weibull.logsf(time)),
}
lines = [f"{name} {float(weight @ terms[name])!r}\n" for name in terms]
Path(__file__).with_suffix(".txt").write_text("".join(lines))
