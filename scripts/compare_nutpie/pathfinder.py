"""Runs of BlackJAX's multi-path Pathfinder on compiled Stan programs."""

import ctypes
import gzip
import time
from pathlib import Path

import blackjax
import jax
import jax.numpy as jnp
import numpy as np

from .draws import shown

jax.config.update("jax_enable_x64", True)

#: As in Stan. BlackJAX estimates the ELBO with as many draws, and after as many steps of L-BFGS as a path may have (30): more
#: would cost millions of evaluations.
PATHS, DRAWS = 4, 1000
#: Attempts at a start that can be evaluated, as in Stan.
ATTEMPTS = 100


class Density:
    """The functions of a compiled program with its data, through BridgeStan's interface; counts its evaluations."""

    def __init__(self, summary):
        path = Path(summary["data"])
        text = gzip.decompress(path.read_bytes()).decode() if path.suffix == ".gz" else path.read_text()
        self._library = ctypes.CDLL(summary["library"])
        construct = self._library.bs_model_construct
        construct.restype = ctypes.c_void_p
        self._model = ctypes.c_void_p(construct(text.encode(), ctypes.c_uint(1), None))
        if not self._model:
            raise ValueError("the program refuses its data")
        self.dim, self.evals = summary["dim"], 0

    def evaluate(self, points):
        """The log density and its gradient at points `(..., d)`; minus infinity where the program rejects."""
        points = np.ascontiguousarray(points, dtype=float)
        values, gradients = np.full(points.shape[:-1], -np.inf), np.zeros(points.shape)
        value = ctypes.c_double()
        for index in np.ndindex(values.shape):
            gradient = np.empty(self.dim)
            arguments = (points[index].ctypes, ctypes.byref(value), gradient.ctypes, None)
            failed = self._library.bs_log_density_gradient(self._model, True, True, *arguments)
            if not failed and np.isfinite(value.value) and np.isfinite(gradient).all():
                values[index], gradients[index] = value.value, gradient
        self.evals += values.size
        return values, gradients

    def parameters(self, points):
        """Parameters and transformed parameters at points, by their names."""
        names = self._library.bs_param_names
        names.restype = ctypes.c_char_p
        names = names(self._model, True, False).decode().split(",")
        table = np.empty((len(points), len(names)))
        for point, row in zip(np.ascontiguousarray(points), table, strict=True):
            if self._library.bs_param_constrain(self._model, True, False, point.ctypes, row.ctypes, None, None):
                row.fill(np.nan)
        return {shown(name): column[None] for name, column in zip(names, table.T, strict=True)}


def differentiable(density):
    """The log density as a function that JAX can differentiate once."""

    def call(point):
        shapes = (jax.ShapeDtypeStruct((), point.dtype), jax.ShapeDtypeStruct(point.shape, point.dtype))
        return jax.pure_callback(density.evaluate, shapes, point, vmap_method="expand_dims")

    @jax.custom_vjp
    def log_density(point):
        return call(point)[0]

    log_density.defvjp(call, lambda gradient, scale: (scale * gradient,))
    return log_density


def starts(density, random):
    """A start for each path, drawn as in Stan."""
    for _ in range(ATTEMPTS):
        points = random.uniform(-2, 2, (PATHS, density.dim))
        if np.isfinite(density.evaluate(points)[0]).all():
            return points
    raise ValueError("the program could not be evaluated where Pathfinder starts")


def run(summary, seed):
    """Draws `{name: (chain, draw)}` and what they took: as many as of all paths, resampled by their weights."""
    density = Density(summary)
    method = blackjax.multipathfinder(differentiable(density))
    begin = starts(density, np.random.default_rng(seed))
    density.evals = 0
    first, second = jax.random.split(jax.random.key(seed))

    @jax.jit
    def fit(points):
        return method.init(first, points, DRAWS)

    compiled = fit.lower(begin).compile()
    cpu = time.process_time()
    state, _ = jax.block_until_ready(compiled(begin))
    draws = method.sample(second, state, PATHS * DRAWS)
    _, k_hat = blackjax.vi.multipathfinder.psis_weights(state)
    figures = {"cpu_seconds": time.process_time() - cpu, "evals": density.evals, "k_hat": float(jnp.asarray(k_hat))}
    return density.parameters(np.asarray(draws)), figures
