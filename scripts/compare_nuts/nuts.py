"""Runs of NumPyro's NUTS."""

import jax
import numpy as np
from jax.flatten_util import ravel_pytree
from numpyro.diagnostics import summary
from numpyro.infer import MCMC, NUTS
from numpyro.infer.util import initialize_model

from .stopwatch import Stopwatch

CHAINS, WARMUP = 4, 1000
# Chains and warm-up of a run whose metric is known beforehand, so that only the step is adapted.
MANY_CHAINS, SHORT_WARMUP = 64, 200


def run(model, kept, seed):
    """Four chains at NumPyro's defaults: the draws `{site: (chain, draw, ...)}`, and what they took."""
    chains = MCMC(
        NUTS(model), num_warmup=WARMUP, num_samples=kept, num_chains=CHAINS, chain_method="parallel", progress_bar=False
    )
    return _measured(chains, seed, WARMUP, kept)


def run_preconditioned(model, draws, seed):
    """At least so many draws of a log-concave model: many chains side by side, with the Hessian at the mode as metric."""
    potential, mode, unravel = _mode(model)
    covariance = np.linalg.inv(np.asarray(jax.hessian(potential)(mode)))
    kept = -(-draws // MANY_CHAINS)
    kernel = NUTS(model, dense_mass=True, adapt_mass_matrix=False, inverse_mass_matrix=covariance)
    chains = MCMC(
        kernel,
        num_warmup=SHORT_WARMUP,
        num_samples=kept,
        num_chains=MANY_CHAINS,
        chain_method="vectorized",
        progress_bar=False,
    )
    away = np.linalg.cholesky(covariance) @ np.random.default_rng(seed).normal(size=(len(mode), MANY_CHAINS))
    return _measured(chains, seed, SHORT_WARMUP, kept, jax.vmap(unravel)(mode + away.T))


def _mode(model):
    """The negative log density as a function of a vector, its minimum by Newton's method, and the way back to sites."""
    found = initialize_model(jax.random.PRNGKey(0), model, dynamic_args=False)
    start, unravel = ravel_pytree(found.param_info.z)

    def potential(z):
        return found.potential_fn(unravel(z))

    gradient, hessian, z = jax.jit(jax.grad(potential)), jax.jit(jax.hessian(potential)), np.zeros(start.size)
    for _ in range(50):
        step = np.linalg.solve(hessian(z), gradient(z))
        z = z - step
        if np.abs(step).max() < 1e-8:
            return potential, z, unravel
    raise ArithmeticError("Newton's method did not converge: is the model log-concave?")


def _measured(chains, seed, warmup, kept, start=None):
    watch = Stopwatch()
    chains.run(jax.random.PRNGKey(seed), extra_fields=("num_steps", "diverging"), init_params=start)
    draws = jax.block_until_ready(chains.get_samples(group_by_chain=True))
    time = watch.read()
    fields, table = chains.get_extra_fields(group_by_chain=True), summary(draws)
    steps = np.asarray(fields["num_steps"])
    figures = {
        **time,
        # NumPyro does not record the steps of the warm-up: they are taken to be as many as those of the draws that it keeps.
        "evaluations": int(steps.mean() * steps.shape[0] * (warmup + kept)),
        "divergences": int(np.asarray(fields["diverging"]).sum()),
        "r_hat": round(max(float(np.nanmax(site["r_hat"])) for site in table.values()), 3),
        "least_ess": round(min(float(np.nanmin(site["n_eff"])) for site in table.values())),
    }
    return {site: np.asarray(values) for site, values in draws.items()}, figures
