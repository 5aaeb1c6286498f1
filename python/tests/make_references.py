"""Writes references.json: long runs of NUTS, and quadrature where a posterior has many modes. Run by hand; takes minutes."""

import json
from pathlib import Path

import jax
import numpy as np
from numpyro.infer import MCMC, NUTS
from numpyro_models import EIGHT, SEVEN, eight_schools, phase_data, seven_points

jax.config.update("jax_enable_x64", True)


def nuts(model, *args, **kwargs):
    """Means and standard deviations, from 4 chains of 25,000 draws."""
    kernel = NUTS(model, target_accept_prob=0.99)
    mcmc = MCMC(kernel, num_warmup=3000, num_samples=25000, num_chains=4, chain_method="sequential", progress_bar=False)
    mcmc.run(jax.random.PRNGKey(20), *args, **kwargs)
    draws = {name: np.asarray(x) for name, x in mcmc.get_samples().items()}
    return {name: {"mean": x.mean(axis=0).tolist(), "sd": x.std(axis=0).tolist()} for name, x in draws.items()}


def phases():
    """Quadrature on a grid that resolves every ridge."""
    freqs, observed = phase_data()
    tec = np.linspace(-100, 100, 20001)
    const = np.linspace(-np.pi, np.pi, 721)
    phase = -8.4479745e6 / freqs
    log_p = np.empty((len(tec), len(const)))
    for i, t in enumerate(tec):
        angle = phase[:, None] * t + const
        residual = (observed[0][:, None] - np.cos(angle)) ** 2 + (observed[1][:, None] - np.sin(angle)) ** 2
        log_p[i] = -0.5 * residual.sum(axis=0) / 0.5
    weight = np.exp(log_p - log_p.max())
    weight /= weight.sum()
    result = {}
    for name, grid, marginal in (("tec", tec, weight.sum(axis=1)), ("const", const, weight.sum(axis=0))):
        mean = (grid * marginal).sum()
        result[name] = {"mean": mean, "sd": np.sqrt(((grid - mean) ** 2 * marginal).sum())}
    return result


if __name__ == "__main__":
    references = {
        "eight_schools": nuts(eight_schools, *EIGHT, centred=False),
        "seven_points": nuts(seven_points, *SEVEN),
        "phases": phases(),
    }
    Path(__file__).with_name("references.json").write_text(json.dumps(references, indent=1) + "\n")
