"""The models, in NumPyro, with simulated data."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro import sample

numpyro.enable_x64()

# Every model simulates its data from a generator with this seed.
DATA_SEED = 7


def radon(rng, centred):
    groups = 85
    group = np.repeat(np.arange(groups), rng.integers(2, 25, groups))
    floor = rng.integers(0, 2, group.size).astype(float)
    intercept = 1.5 + 0.35 * rng.normal(size=groups)
    slope = -0.65 + 0.3 * rng.normal(size=groups)
    y = intercept[group] + slope[group] * floor + 0.75 * rng.normal(size=group.size)

    def model():
        mu = sample("mu", dist.Normal(0, 5).expand([2]))
        tau = sample("tau", dist.HalfNormal(1).expand([2]))
        s = sample("s", dist.HalfNormal(2))
        if centred:
            effects = sample("ab", dist.Normal(mu, tau).expand([groups, 2]))
        else:
            effects = mu + tau * sample("z", dist.Normal(0, 1).expand([groups, 2]))
        sample("y", dist.Normal(effects[group, 0] + effects[group, 1] * floor, s), obs=y)

    return model


def volatility(rng):
    steps = 300
    h = np.zeros(steps)
    for t in range(steps):
        before = h[t - 1] if t > 0 else 0.0
        h[t] = -1 + 0.95 * (before + 1) + 0.2 * rng.normal()
    y = np.exp(h / 2) * rng.normal(size=steps)

    def model():
        mu = sample("mu", dist.Normal(0, 2))
        phi = sample("phi", dist.Beta(20, 1.5))
        s = sample("s", dist.HalfNormal(0.5))
        z = sample("z", dist.Normal(0, 1).expand([steps]))

        def advance(h, e):
            h = mu + phi * (h - mu) + s * e
            return h, h

        _, h = jax.lax.scan(advance, mu, z)
        sample("y", dist.Normal(0, jnp.exp(h / 2)), obs=y)

    return model


def item_response(rng):
    items, people = 20, 100
    ability, difficulty = rng.normal(size=people), rng.normal(size=items)
    discrimination = np.exp(0.4 * rng.normal(size=items))
    chance = 1 / (1 + np.exp(-discrimination * (ability[:, None] - difficulty)))
    y = (rng.random((people, items)) < chance).astype(int)

    def model():
        sa = sample("sa", dist.HalfCauchy(2))
        sb = sample("sb", dist.HalfCauchy(2))
        mb = sample("mb", dist.Normal(0, 5))
        a = sample("a", dist.LogNormal(0, sa).expand([items]))
        b = sample("b", dist.Normal(mb, sb).expand([items]))
        t = sample("t", dist.Normal(0, 1).expand([people]))
        sample("y", dist.Bernoulli(logits=a * (t[:, None] - b)), obs=y)

    return model


def horseshoe(rng):
    columns, rows = 60, 100
    x = rng.normal(size=(rows, columns))
    truth = np.zeros(columns)
    truth[:4] = [3, -2, 2, 1]
    y = x @ truth + rng.normal(size=rows)

    def model():
        tau = sample("tau", dist.HalfCauchy(0.2))
        lam = sample("lam", dist.HalfCauchy(1).expand([columns]))
        z = sample("z", dist.Normal(0, 1).expand([columns]))
        s = sample("s", dist.HalfNormal(3))
        sample("y", dist.Normal(x @ (z * lam * tau), s), obs=y)

    return model


def cox(rng):
    cells = 100
    x = np.linspace(0, 1, cells)
    y = rng.poisson(np.exp(1.2 + np.sin(6 * x)))
    squares = (x[:, None] - x) ** 2

    def model():
        length = sample("l", dist.InverseGamma(3, 0.5))
        s = sample("s", dist.HalfNormal(2))
        mu = sample("mu", dist.Normal(0, 3))
        covariance = s**2 * jnp.exp(-squares / (2 * length**2)) + 1e-6 * jnp.eye(cells)
        z = sample("z", dist.Normal(0, 1).expand([cells]))
        sample("y", dist.Poisson(jnp.exp(mu + jnp.linalg.cholesky(covariance) @ z)), obs=y)

    return model


def counts(rng):
    groups = 200
    group = np.repeat(np.arange(groups), rng.integers(1, 8, groups))
    x = rng.normal(size=group.size)
    effect = 0.8 * rng.normal(size=groups)
    y = rng.poisson(np.exp(0.3 + 0.4 * x + effect[group]))

    def model():
        a = sample("a", dist.Normal(0, 3))
        b = sample("b", dist.Normal(0, 3))
        t = sample("t", dist.HalfNormal(2))
        u = sample("u", dist.Normal(0, t).expand([groups]))
        sample("y", dist.Poisson(jnp.exp(a + b * x + u[group])), obs=y)

    return model


def logistic(rng, columns, rows):
    x = rng.normal(size=(rows, columns)) / np.sqrt(columns)
    x[:, 1:] += 0.7 * x[:, :-1]
    uniform, truth = rng.random(rows), 2 * rng.normal(size=columns)
    y = (uniform < 1 / (1 + np.exp(-x @ truth))).astype(int)

    def model():
        b = sample("b", dist.Normal(0, 2.5).expand([columns]))
        sample("y", dist.Bernoulli(logits=x @ b), obs=y)

    return model


WALK_SD, WALK_STEPS = 0.3, 500


def walk(_rng):
    def model():
        sample("w", dist.GaussianRandomWalk(WALK_SD, num_steps=WALK_STEPS))

    return model


def network(rng):
    units, rows = 10, 60
    x = rng.uniform(-2, 2, rows)
    y = np.sin(2.5 * x) + 0.1 * rng.normal(size=rows)

    def model():
        w = sample("w", dist.Normal(0, 1.5).expand([units]))
        c = sample("c", dist.Normal(0, 1.5).expand([units]))
        v = sample("v", dist.Normal(0, 1).expand([units]))
        s = sample("s", dist.HalfNormal(0.5))
        sample("y", dist.Normal(jnp.tanh(x[:, None] * w + c) @ v, s), obs=y)

    return model


def two_lines(rng):
    rows = 300
    x = rng.normal(size=rows)
    first = rng.random(rows) < 0.35
    y = np.where(first, 2 + 1.5 * x, -1 - x) + 0.5 * rng.normal(size=rows)

    def model():
        pi = sample("pi", dist.Dirichlet(jnp.ones(2)))
        a = sample("a", dist.Normal(0, 3).expand([2]))
        b = sample("b", dist.Normal(0, 3).expand([2]))
        s = sample("s", dist.HalfNormal(2).expand([2]))
        lines = dist.Normal(a + b * x[:, None], s)
        sample("y", dist.MixtureSameFamily(dist.Categorical(pi), lines), obs=y)

    return model


SIMULATED = {
    "radon_noncentred": lambda rng: radon(rng, centred=False),
    "radon_centred": lambda rng: radon(rng, centred=True),
    "volatility": volatility,
    "item_response": item_response,
    "horseshoe": horseshoe,
    "cox": cox,
    "counts": counts,
    "logistic_100": lambda rng: logistic(rng, columns=100, rows=2000),
    "logistic_300": lambda rng: logistic(rng, columns=300, rows=2000),
    "logistic_1000": lambda rng: logistic(rng, columns=1000, rows=5000),
    "walk_500": walk,
    "network": network,
    "two_lines": two_lines,
}


def build(name):
    """A model with its data."""
    return SIMULATED[name](np.random.default_rng(DATA_SEED))
