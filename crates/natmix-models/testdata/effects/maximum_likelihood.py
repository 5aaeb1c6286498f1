"""Maximum likelihood of every family on simulated data, by SciPy's densities: writes maximum_likelihood.txt beside this file.

A line has the family, the parameter, its estimate and its standard error; of parameters that are positive the estimate and the
standard error of the logarithm, marked `log`. `tests/effects_families.rs` simulates the same data. Run with SciPy 1.17.
"""

from pathlib import Path

import numpy as np
from scipy import optimize, special, stats

ROWS = 10_000
EACH = 10  # uniform numbers per row


def uniforms(seed):
    """The stream of `Stream` in tests/common/normal_hierarchy.rs."""
    mask = (1 << 64) - 1
    start = (seed * 0x9E3779B97F4A7C15 & mask) ^ 0x123456789ABCDEF0
    step = np.arange(1, ROWS * EACH + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    x = np.uint64(start) + step
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    x = (x ^ (x >> np.uint64(31))) >> np.uint64(11)
    return ((x.astype(float) + 0.5) / 2.0**53).reshape(ROWS, EACH)


def poisson(u, mean):
    return stats.poisson.ppf(u, mean)


def data(seed):
    u = uniforms(seed)
    x = np.column_stack([np.ones(ROWS), 3 + 2 * u[:, 0], u[:, 1] < 0.3])
    return x, x @ [-0.9, 0.4, -0.5], u[:, 2:]


def normal(u):
    return np.sqrt(-2 * np.log(u[:, 0])) * np.cos(2 * np.pi * u[:, 1])


def fit(name, names, log_likelihood, start, positive=()):
    found = optimize.minimize(lambda p: -log_likelihood(p), start, method="BFGS", options={"gtol": 1e-4})
    p, h = found.x, 1e-3
    d = len(p)
    hessian = np.zeros((d, d))
    for i in range(d):
        for j in range(d):
            a, b = np.eye(d)[i] * h, np.eye(d)[j] * h
            corners = log_likelihood(p + a + b) - log_likelihood(p + a - b)
            corners += log_likelihood(p - a - b) - log_likelihood(p - a + b)
            hessian[i, j] = -corners / (4 * h * h)
    se = np.sqrt(np.diag(np.linalg.inv(hessian)))
    gradient = [(log_likelihood(p + np.eye(d)[i] * h) - log_likelihood(p - np.eye(d)[i] * h)) / (2 * h) for i in range(d)]
    assert np.all(np.abs(gradient) * se < 0.01), (name, gradient)
    for i, parameter in enumerate(names):
        lines.append(f"{name} {parameter} {p[i]:.6g} {se[i]:.6g}{' log' if parameter in positive else ''}\n")


lines = []
three = ["(intercept)", "x", "dummy"]

x, eta, u = data(1)
y = eta + 1.5 * normal(u)
fit("linear", [*three, "sigma"], lambda p: stats.norm.logpdf(y, x @ p[:3], np.exp(p[3])).sum(), [0, 0, 0, 0.4], ["sigma"])

x, eta, u = data(2)
y = u[:, 0] < special.expit(eta)
fit("logistic", three, lambda p: stats.bernoulli.logpmf(y, special.expit(x @ p)).sum(), [0, 0, 0])

x, eta, u = data(3)
y3 = poisson(u[:, 0], np.exp(eta))
fit("poisson", three, lambda p: stats.poisson.logpmf(y3, np.exp(x @ p)).sum(), [0, 0, 0])

x, eta, u = data(4)
y4 = poisson(u[:, 0], -np.log(u[:, 1] * u[:, 2]) / 2 * np.exp(eta))


def negative_binomial(p):
    shape = np.exp(p[3])
    return stats.nbinom.logpmf(y4, shape, shape / (shape + np.exp(x @ p[:3]))).sum()


fit("negative-binomial", [*three, "shape"], negative_binomial, [-0.9, 0.4, -0.5, 0.7], ["shape"])

x, eta, u = data(5)
y5 = eta + 1.2 * normal(u) * np.sqrt(2 / -np.log(u[:, 2] * u[:, 3]))
fit(
    "robust",
    [*three, "sigma", "df"],
    lambda p: stats.t.logpdf(y5, np.exp(p[4]), x @ p[:3], np.exp(p[3])).sum(),
    [-0.9, 0.4, -0.5, 0.2, 1.4],
    ["sigma", "df"],
)

x, eta, u = data(6)
trials = 1 + np.arange(ROWS) % 6
y6 = ((u[:, :6] < special.expit(eta)[:, None]) & (np.arange(6) < trials[:, None])).sum(axis=1)
fit("binomial", three, lambda p: stats.binom.logpmf(y6, trials, special.expit(x @ p)).sum(), [0, 0, 0])

x, eta, u = data(7)
latent = eta + special.logit(u[:, 0])
y7 = (latent > -1).astype(int) + (latent > 0.3) + (latent > 1.7)


def ordinal(p):
    cuts = np.concatenate([[-np.inf], p[2:], [np.inf]])
    predictor = x[:, 1:] @ p[:2]
    return np.log(special.expit(cuts[y7 + 1] - predictor) - special.expit(cuts[y7] - predictor)).sum()


fit("ordinal", ["x", "dummy", "cut[1]", "cut[2]", "cut[3]"], ordinal, [0.4, -0.5, -0.1, 1.2, 2.6])

x, eta, u = data(8)
y8 = -np.log(u[:, 0] * u[:, 1] * u[:, 2]) / 3 * np.exp(eta)
fit(
    "gamma",
    [*three, "shape"],
    lambda p: stats.gamma.logpdf(y8, np.exp(p[3]), scale=np.exp(x @ p[:3] - p[3])).sum(),
    [-0.9, 0.4, -0.5, 1.1],
    ["shape"],
)

x, eta, u = data(9)
time = np.exp(eta) * (-np.log(u[:, 0])) ** (1 / 1.6)
seen = time < 2
time = np.minimum(time, 2)


def survival(p):
    weibull = stats.weibull_min(np.exp(p[3]), scale=np.exp(x @ p[:3]))
    return np.where(seen, weibull.logpdf(time), weibull.logsf(time)).sum()


fit("survival", [*three, "shape"], survival, [-0.9, 0.4, -0.5, 0.5], ["shape"])

Path(__file__).with_suffix(".txt").write_text("".join(lines))
