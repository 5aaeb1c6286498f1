"""Models that are known to be difficult for other systems, in NumPyro."""

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist

#: Eight schools: estimated effects and their standard errors.
EIGHT = (np.array([28.0, 8, -3, 7, -1, 1, 18, 12]), np.array([15.0, 10, 16, 11, 9, 11, 10, 18]))
SCHOOLS = ["Choate", "Deerfield", "Andover", "Exeter", "Hotchkiss", "Lawrenceville", "St. Paul's", "Mt. Hermon"]
#: The seven points of pymc#2162.
SEVEN = (
    np.array([1.17, 2.97, 3.26, 4.69, 5.83, 6.00, 6.41]),
    np.array([78.93, 58.2, 67.47, 37.47, 45.65, 32.92, 29.97]),
)


def phase_data():
    """Phases of numpyro#643: 24 frequencies, real and imaginary parts with noise; truth: tec 55, const 1."""
    freqs = np.linspace(121e6, 168e6, 24)
    angle = -8.4479745e6 * 55.0 / freqs + 1.0
    rng = np.random.default_rng(643)
    return freqs, (np.cos(angle) + 0.5 * rng.normal(size=24), np.sin(angle) + 0.5 * rng.normal(size=24))


def eight_schools(y, sigma, centred):
    mu = numpyro.sample("mu", dist.Normal(0.0, 5.0))
    tau = numpyro.sample("tau", dist.HalfCauchy(5.0))
    with numpyro.plate("school", 8):
        if centred:
            theta = numpyro.sample("theta", dist.Normal(mu, tau))
        else:
            step = numpyro.sample("step", dist.Normal(0.0, 1.0))
            theta = numpyro.deterministic("theta", mu + tau * step)
        numpyro.sample("y", dist.Normal(theta, sigma), obs=y)


def seven_points(x, y):
    intercept = numpyro.sample("intercept", dist.Normal(0.0, 100.0))
    slope = numpyro.sample("slope", dist.Normal(0.0, 100.0))
    noise = numpyro.sample("noise", dist.HalfCauchy(5.0))
    numpyro.sample("y", dist.Normal(intercept + slope * x, noise), obs=y)


def phases(freqs, real, imaginary):
    tec = numpyro.sample("tec", dist.Uniform(-100.0, 100.0))
    const = numpyro.sample("const", dist.Uniform(-np.pi, np.pi))
    angle = -8.4479745e6 * tec / freqs + const
    sd = np.sqrt(0.5)
    numpyro.sample("real", dist.Normal(jnp.cos(angle), sd), obs=real)
    numpyro.sample("imaginary", dist.Normal(jnp.sin(angle), sd), obs=imaginary)
