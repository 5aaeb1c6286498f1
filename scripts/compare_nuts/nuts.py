"""Runs of NumPyro's NUTS."""

import jax
import numpy as np
from jax.flatten_util import ravel_pytree
from numpyro.diagnostics import summary
from numpyro.infer import MCMC, NUTS
from numpyro.infer.util import initialize_model

from .stopwatch import Stopwatch

CHAINS, WARMUP = 4, 1000
# Chains and warm-up of a run that starts in the posterior and knows its metric: only the step is adapted.
MANY_CHAINS, SHORT_WARMUP = 64, 100


def run(model, kept, seed, together=False):
    """Four chains at NumPyro's defaults, each by itself or all `together`: the draws `{site: (chain, draw, ...)}`, and what they
    took."""
    method = "vectorized" if together else "parallel"
    chains = MCMC(NUTS(model), num_warmup=WARMUP, num_samples=kept, num_chains=CHAINS, chain_method=method, progress_bar=False)
    return _measured(chains, seed)


def run_preconditioned(model, draws, seed):
    """At least so many draws of a log-concave model: many chains side by side, in coordinates that the Hessian at the mode makes
    round."""
    found = initialize_model(jax.random.PRNGKey(0), model, dynamic_args=False)
    start, unravel = ravel_pytree(found.param_info.z)

    def potential(z):
        return found.potential_fn(unravel(z))

    mode, hessian = newton(potential, start.size)
    factor = np.linalg.cholesky(np.linalg.inv(hessian))
    chains = MCMC(
        NUTS(potential_fn=lambda x: potential(mode + factor @ x), adapt_mass_matrix=False),
        num_warmup=SHORT_WARMUP,
        num_samples=-(-draws // MANY_CHAINS),
        num_chains=MANY_CHAINS,
        chain_method="vectorized",
        progress_bar=False,
    )

    def to_sites(x):
        return found.postprocess_fn(unravel(mode + factor @ x))

    near = np.random.default_rng(seed).normal(size=(MANY_CHAINS, start.size))
    return _measured(chains, seed, near, jax.jit(jax.vmap(jax.vmap(to_sites))))


def newton(potential, dim):
    """The minimum of a convex function of a vector, and the Hessian there."""
    gradient, hessian, z = jax.jit(jax.grad(potential)), jax.jit(jax.hessian(potential)), np.zeros(dim)
    for _ in range(50):
        curvature = np.asarray(hessian(z))
        step = np.linalg.solve(curvature, gradient(z))
        z = z - step
        if np.abs(step).max() < 1e-6:
            return z, curvature
    raise ArithmeticError("Newton's method did not converge: is the model log-concave?")


def _measured(chains, seed, start=None, to_sites=None):
    watch = Stopwatch()
    chains.run(jax.random.PRNGKey(seed), extra_fields=("num_steps", "diverging"), init_params=start)
    draws = jax.block_until_ready(chains.get_samples(group_by_chain=True))
    time = watch.read()
    draws = draws if to_sites is None else to_sites(draws)
    fields, table = chains.get_extra_fields(group_by_chain=True), summary(draws)
    steps = np.asarray(fields["num_steps"])
    figures = {
        **time,
        # NumPyro does not record the steps of the warm-up: they are taken to be as many as those of the draws that it keeps.
        "evaluations": int(steps.mean() * chains.num_chains * (chains.num_warmup + chains.num_samples)),
        "divergences": int(np.asarray(fields["diverging"]).sum()),
        "r_hat": round(max(float(np.nanmax(site["r_hat"])) for site in table.values()), 3),
        "least_ess": round(min(float(np.nanmin(site["n_eff"])) for site in table.values())),
    }
    return {site: np.asarray(values) for site, values in draws.items()}, figures
