"""The targets of `natmix bench` for TensorFlow: single precision for gmmvi, double precision to measure with."""

import json
import math
import os
import sys
from pathlib import Path

import numpy as np
import tensorflow as tf
from gmmvi.experiments.target_distributions.lnpdf import LNPDF

LOG_TAU = math.log(2 * math.pi)
PRIOR_SD = 10.0
REGRESSIONS = ("german_credit", "breast_cancer")
# The targets that come with natmix.
TARGETS = Path(__file__).resolve().parents[2] / "crates" / "natmix-experiments" / "targets"


class Density(LNPDF):
    """A log density that computes in the precision of its points."""

    def __init__(self, dim, log_density):
        super().__init__(use_log_density_and_grad=False, safe_for_tf_graph=True)
        self.dim, self._log_density = dim, log_density

    def get_num_dimensions(self):
        return self.dim

    def log_density(self, x):
        return self._log_density(x)


def like(x, value):
    return tf.constant(np.asarray(value), dtype=x.dtype)


def mixture(weights, means, factors, df=None):
    """A mixture of Gaussians, or of Student's t, from lower factors of covariances or scale matrices."""
    weights, means, factors = (np.asarray(a, dtype=float) for a in (weights, means, factors))
    dim = means.shape[1]
    whiten = np.linalg.inv(factors)
    heights = np.log(weights) - np.log(np.diagonal(factors, axis1=1, axis2=2)).sum(axis=1)
    if df is None:
        heights -= 0.5 * dim * LOG_TAU
    else:
        heights += math.lgamma(0.5 * (df + dim)) - math.lgamma(0.5 * df) - 0.5 * dim * math.log(math.pi * df)

    def log_density(x):
        y = tf.einsum("kij,nj->nki", like(x, whiten), x) - like(x, np.einsum("kij,kj->ki", whiten, means))
        square = tf.reduce_sum(y * y, axis=2)
        bell = -0.5 * square if df is None else -0.5 * (df + dim) * tf.math.log1p(square / df)
        return tf.reduce_logsumexp(like(x, heights) + bell, axis=1)

    return Density(dim, log_density)


def normal(x, sd):
    sd = like(x, sd)
    return tf.reduce_sum(-0.5 * (x / sd) ** 2 - tf.math.log(sd) - 0.5 * LOG_TAU, axis=1)


def logistic(file):
    """Logistic regression on the columns as they are, with the same prior for every coefficient."""
    table = np.loadtxt(file, delimiter=",", skiprows=1)
    rows, sign = table[:, 1:], 2 * table[:, 0] - 1

    def log_density(x):
        eta = tf.matmul(x, like(x, rows), transpose_b=True)
        likelihood = tf.reduce_sum(tf.math.log_sigmoid(like(x, sign) * eta), axis=1)
        return likelihood + normal(x, np.full(rows.shape[1], PRIOR_SD))

    return Density(rows.shape[1], log_density)


def funnel(spec):
    def log_density(x):
        first, rest = x[:, :1], x[:, 1:]
        each = -0.5 * rest**2 * tf.exp(-first) - 0.5 * first - 0.5 * LOG_TAU
        return normal(first, [spec["sd0"]]) + tf.reduce_sum(each, axis=1)

    return Density(spec["dim"], log_density)


def double_banana(spec):
    def log_density(x):
        inside = (1 - x[:, 0]) ** 2 + 100 * (x[:, 1] - x[:, 0] ** 2) ** 2
        error = like(x, spec["observed"]) - tf.math.log(inside)
        variance = spec["noise_variance"]
        return normal(x, np.ones(2)) - 0.5 * error**2 / variance - 0.5 * (LOG_TAU + math.log(variance))

    return Density(2, log_density)


def planar_robot(spec):
    goals, sd = np.array(spec["goals"], dtype=float), spec["goal_sd"]

    def log_density(x):
        angles = tf.cumsum(x, axis=1)
        tip = tf.stack((tf.reduce_sum(tf.cos(angles), axis=1), tf.reduce_sum(tf.sin(angles), axis=1)), axis=1)
        square = tf.reduce_sum((tip[:, None, :] - like(x, goals)) ** 2, axis=2)
        best = tf.reduce_max(-0.5 * square / sd**2, axis=1) - LOG_TAU - 2 * math.log(sd)
        return normal(x, spec["prior_sd"]) + best

    return Density(spec["dim"], log_density)


def load(name):
    """A target by name, and the content of its file; None for the regressions."""
    if name in REGRESSIONS:
        if "NATMIX_DATA" not in os.environ:
            sys.exit(f"{name} needs targets/{name}_design.csv in the folder that NATMIX_DATA names; see docs/data.md")
        return logistic(Path(os.environ["NATMIX_DATA"]) / "targets" / f"{name}_design.csv"), None
    spec = json.loads((TARGETS / f"{name}.json").read_text())
    kind = spec["kind"]
    if kind == "gaussian_mixture":
        return mixture(spec["weights"], spec["means"], factors(spec)), spec
    if kind == "student_mixture":
        return mixture(spec["weights"], spec["locations"], factors(spec), df=spec["df"]), spec
    return {"funnel": funnel, "double_banana": double_banana, "planar_robot": planar_robot}[kind](spec), spec


def factors(spec):
    if "variances" in spec:
        return np.stack([np.diag(np.sqrt(variances)) for variances in spec["variances"]])
    return np.linalg.cholesky(np.array(spec.get("covariances", spec.get("scales")), dtype=float))
