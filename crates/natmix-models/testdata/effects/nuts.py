"""Long runs of NUTS on small tables, one for each family: writes nuts.csv (the rows) and nuts.txt beside this file.

The models are written from docs/regressions.md: likelihoods, what is centred, scales of the priors. A line of nuts.txt has the
case, the parameter, its quantiles at 5, 25, 50, 75 and 95%, mean, standard deviation and kurtosis. `tests/effects_references.rs`
fits the same table. Run with NumPyro 0.22; takes about ten minutes. Names of cases as arguments run only these.
"""

import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.infer import MCMC, NUTS

jax.config.update("jax_enable_x64", True)
HERE = Path(__file__).parent
ROWS, GROUPS = 120, 12


def table():
    """A number `x` whose mean is not 0, a dummy `d`, groups of 1 to 22 rows, and an outcome of each family."""
    rng = np.random.default_rng(15)
    x = np.round(1.5 + 2.0 * rng.normal(size=ROWS), 3)
    d = (rng.random(ROWS) < 0.4).astype(int)
    share = np.linspace(0.05, 1.0, GROUPS)
    g = np.concatenate([np.arange(GROUPS), rng.choice(GROUPS, ROWS - GROUPS, p=share / share.sum())])
    u = 0.6 * rng.normal(size=GROUPS)
    v = 0.25 * rng.normal(size=GROUPS) + 0.2 * u
    eta = 0.2 + 0.35 * x - 0.4 * d
    grouped = eta + u[g]
    slopes = grouped + v[g] * x
    p = 1 / (1 + np.exp(-grouped))
    latent = grouped + rng.logistic(size=ROWS)
    time = np.exp(eta) * rng.exponential(size=ROWS) ** (1 / 1.6)
    censored = rng.exponential(4.0, size=ROWS)
    n = rng.integers(1, 9, ROWS)
    return {
        "x": x,
        "d": d,
        "g": g,
        "count": rng.poisson(np.exp(eta) * rng.gamma(2.0, 0.5, size=ROWS)),
        "odd": np.round(5.0 + 3.0 * eta + 2.0 * rng.standard_t(3.0, size=ROWS), 3),
        "stars": 1 + sum((latent > cut).astype(int) for cut in (-0.8, 0.4, 1.8)),
        "amount": np.maximum(np.round(np.exp(eta) * rng.gamma(2.5, 0.4, size=ROWS), 4), 1e-4),
        "time": np.maximum(np.round(np.minimum(time, censored), 4), 1e-4),
        "seen": (time <= censored).astype(int),
        "n": n,
        "k": rng.binomial(n, p),
        "yes": (rng.random(ROWS) < 1 / (1 + np.exp(-slopes))).astype(int),
        "events": rng.poisson(np.exp(np.minimum(slopes, 4.0))),
    }


def spread(column):
    """Unit of a column for its prior: the standard deviation; a column of zeros and ones has none."""
    return 1.0 if set(np.unique(column)) <= {0, 1} else np.std(column, ddof=1)


def fixed(t, columns, unit=1.0, centre=0.0):
    """Coefficients and the predictor; the prior of the intercept is for the predictor where every column has its mean."""
    at_mean = numpyro.sample("at_mean", dist.Normal(centre, 25.0 * unit))
    eta, intercept = at_mean, at_mean
    for name in columns:
        b = numpyro.sample(name, dist.Normal(0.0, 2.5 * unit / spread(t[name])))
        eta = eta + b * (t[name] - t[name].mean())
        intercept = intercept - b * t[name].mean()
    numpyro.deterministic("(intercept)", intercept)
    return eta


def varying_intercept(t):
    sd = numpyro.sample("sd(g, (intercept))", dist.HalfNormal(2.5))
    with numpyro.plate("groups", GROUPS):
        u = numpyro.sample("u", dist.Normal(0.0, 1.0))
    effects = sd * u
    for level in range(GROUPS):
        numpyro.deterministic(f"g[{level}, (intercept)]", effects[level])
    return effects[t["g"]]


def varying_slopes(t):
    """Intercepts and slopes with correlations; the prior of the sd of slopes is on the scale of the column."""
    sd0 = numpyro.sample("sd(g, (intercept))", dist.HalfNormal(2.5))
    sd1 = numpyro.sample("sd(g, x)", dist.HalfNormal(2.5 / spread(t["x"])))
    factor = numpyro.sample("factor", dist.LKJCholesky(2, concentration=2.0))
    numpyro.deterministic("cor(g, (intercept), x)", (factor @ factor.T)[0, 1])
    with numpyro.plate("groups", GROUPS):
        u = numpyro.sample("u", dist.Normal(jnp.zeros(2), 1.0).to_event(1))
    effects = (u @ factor.T) * jnp.stack([sd0, sd1])
    for level in range(GROUPS):
        numpyro.deterministic(f"g[{level}, (intercept)]", effects[level, 0])
        numpyro.deterministic(f"g[{level}, x]", effects[level, 1])
    return effects[t["g"], 0] + effects[t["g"], 1] * t["x"]


def negative_binomial(t):
    eta = fixed(t, ["x", "d"])
    shape = numpyro.sample("shape", dist.InverseGamma(0.4, 0.3))
    numpyro.sample("y", dist.NegativeBinomial2(jnp.exp(eta), shape), obs=t["count"])


def robust(t):
    # The spread of the outcome must not follow outliers: its interquartile range over that of the normal distribution.
    ordered = np.sort(t["odd"])
    quartiles = [ordered[round((ROWS - 1) * share)] for share in (0.25, 0.5, 0.75)]
    unit = (quartiles[2] - quartiles[0]) / 1.3489795
    eta = fixed(t, ["x", "d"], unit, quartiles[1])
    sigma = numpyro.sample("sigma", dist.HalfCauchy(5.0 * unit))
    df = numpyro.sample("df", dist.Gamma(2.0, 0.1))
    numpyro.sample("y", dist.StudentT(df, eta, sigma), obs=t["odd"])


def ordinal(t):
    x = t["x"] - t["x"].mean()
    b = numpyro.sample("x", dist.Normal(0.0, 2.5 / spread(t["x"])))
    # Ordered draws: the density is that of independent ones on the ordered points.
    cuts = numpyro.sample("cuts", dist.ImproperUniform(dist.constraints.ordered_vector, (), event_shape=(3,)))
    numpyro.factor("prior", dist.Logistic(0.0, 1.0).log_prob(cuts).sum())
    for k in range(3):
        numpyro.deterministic(f"cut[{k + 1}]", cuts[k] + b * t["x"].mean())
    eta = b * x + varying_intercept(t)
    numpyro.sample("y", dist.OrderedLogistic(eta, cuts), obs=t["stars"] - 1)


def gamma(t):
    eta = fixed(t, ["x", "d"])
    shape = numpyro.sample("shape", dist.InverseGamma(0.4, 0.3))
    numpyro.sample("y", dist.Gamma(shape, shape * jnp.exp(-eta)), obs=t["amount"])


def survival(t):
    eta = fixed(t, ["x", "d"])
    shape = numpyro.sample("shape", dist.LogNormal(0.0, 1.0))
    weibull = dist.Weibull(jnp.exp(eta), shape)
    after = -((t["time"] * jnp.exp(-eta)) ** shape)
    numpyro.factor("y", jnp.where(t["seen"] == 1, weibull.log_prob(t["time"]), after).sum())


def binomial(t):
    eta = fixed(t, ["x", "d"]) + varying_intercept(t)
    numpyro.sample("y", dist.Binomial(t["n"], logits=eta), obs=t["k"])


def logistic(t):
    eta = fixed(t, ["x", "d"]) + varying_slopes(t)
    numpyro.sample("y", dist.Bernoulli(logits=eta), obs=t["yes"])


def poisson(t):
    eta = fixed(t, ["x", "d"]) + varying_slopes(t)
    numpyro.sample("y", dist.Poisson(jnp.exp(eta)), obs=t["events"])


CASES = {
    "negative-binomial": negative_binomial,
    "robust": robust,
    "ordinal": ordinal,
    "gamma": gamma,
    "survival": survival,
    "binomial": binomial,
    "logistic": logistic,
    "poisson": poisson,
}
#: What a run has beside the parameters.
OTHERS = {"at_mean", "u", "factor", "cuts"}


def run(name, t):
    kernel = NUTS(CASES[name], target_accept_prob=0.95)
    mcmc = MCMC(kernel, num_warmup=3000, num_samples=20_000, num_chains=4, chain_method="sequential", progress_bar=False)
    mcmc.run(jax.random.PRNGKey(15), t)
    by_chain = mcmc.get_samples(group_by_chain=True)
    lines = []
    for parameter, draws in by_chain.items():
        if parameter in OTHERS:
            continue
        draws = np.asarray(draws)
        r_hat = numpyro.diagnostics.split_gelman_rubin(draws)
        effective = numpyro.diagnostics.effective_sample_size(draws)
        x = draws.ravel()
        mean, sd = x.mean(), x.std()
        worst[name] = min(worst.get(name, (np.inf, 0, "")), (effective, r_hat, parameter))
        assert r_hat < 1.003 and effective > 8000, (name, parameter, r_hat, effective)
        kurtosis = ((x - mean) ** 4).mean() / sd**4
        numbers = [*np.quantile(x, [0.05, 0.25, 0.5, 0.75, 0.95]), mean, sd, kurtosis]
        lines.append(f"{name}\t{parameter}\t" + "\t".join(f"{number:.6g}" for number in numbers) + "\n")
    diverging = int(np.asarray(mcmc.get_extra_fields()["diverging"]).sum())
    print(name, "worst effective draws, R-hat:", worst[name], "divergences:", diverging, flush=True)
    assert diverging <= 40, (name, diverging)
    return lines


if __name__ == "__main__":
    rows = table()
    text = ",".join(rows) + "\n"
    text += "".join(",".join(str(column[i]) for column in rows.values()) + "\n" for i in range(ROWS))
    (HERE / "nuts.csv").write_text(text)
    out, worst = HERE / "nuts.txt", {}
    wanted = sys.argv[1:] or list(CASES)
    kept = out.read_text().splitlines(keepends=True) if out.exists() else []
    for case in wanted:
        found = run(case, rows)
        kept = [line for line in kept if line.split("\t")[0] != case] + found
        out.write_text("".join(kept))
