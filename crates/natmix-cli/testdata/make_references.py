"""Makes the tables and reference posteriors of tests/references.rs; needs NumPy.

    python make_references.py

Writes poisson.csv, softmax.csv and references.json next to itself. The posteriors are those that the command line
promises: features centred and scaled (divisor n - 1), an intercept with prior sd 25, coefficients with prior sd 2.5,
parameters and evidence on the scale of the table. Nothing here is shared with natmix.

Moments come from importance sampling with a Student t proposal around the mode; Hamiltonian Monte Carlo with 64 chains
is the second method. Both must agree within 4 joint standard errors, or nothing is written.
"""

import json
import math
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
DRAWS = 2_000_000
CHAINS, STEPS, WARM_UP = 64, 6_000, 500
PRIOR_SD, INTERCEPT_SD = 2.5, 25.0


class Poisson:
    """Counts with an exposure."""

    command = "fit poisson --data poisson.csv --outcome claims --exposure years"

    def __init__(self):
        rng = np.random.default_rng(20)
        n = 400
        self.raw = np.c_[rng.normal(40.0, 12.0, n), rng.gamma(2.0, 1.5, n)].round(3)
        years = rng.uniform(0.2, 3.0, n).round(3)
        rate = years * np.exp(0.3 + 0.02 * (self.raw[:, 0] - 40.0) - 0.15 * self.raw[:, 1])
        self.y = rng.poisson(rate)
        self.offset = np.log(years)
        rows = [f"{a},{b},{t},{k}" for (a, b), t, k in zip(self.raw, years, self.y)]
        (HERE / "poisson.csv").write_text("age,income,years,claims\n" + "\n".join(rows) + "\n")
        self.names = ["(intercept)", "age", "income"]
        self.x, self.to_user = design(self.raw)
        self.constant = -sum(math.lgamma(k + 1.0) for k in self.y)

    def log_likelihood(self, z):
        eta = z @ self.x.T + self.offset
        return eta @ self.y - np.exp(eta).sum(axis=1) + self.constant

    def slope(self, z):
        return (self.y - np.exp(z @ self.x.T + self.offset)) @ self.x

    def information(self, z):
        mean = np.exp(self.x @ z + self.offset)
        return (self.x * mean[:, None]).T @ self.x

    def prior_sd(self):
        return np.array([INTERCEPT_SD, PRIOR_SD, PRIOR_SD])


class Softmax:
    """Three classes, the first in the order of their names being the reference."""

    command = "fit softmax --data softmax.csv --outcome kind --categorical kind"
    classes = ["early", "late", "middle"]

    def __init__(self):
        rng = np.random.default_rng(21)
        n = 500
        self.raw = np.c_[rng.normal(0.0, 1.0, n), rng.normal(-3.0, 2.0, n)].round(3)
        first, second = self.raw[:, 0], self.raw[:, 1] + 3.0
        eta = np.c_[np.zeros(n), 0.2 + 0.7 * first - 0.2 * second, -0.1 - 0.5 * first + 0.25 * second]
        share = np.exp(eta) / np.exp(eta).sum(axis=1, keepdims=True)
        self.y = (rng.uniform(size=(n, 1)) > share.cumsum(axis=1)).sum(axis=1)
        rows = [f"{a},{b},{self.classes[k]}" for (a, b), k in zip(self.raw, self.y)]
        (HERE / "softmax.csv").write_text("speed,weight,kind\n" + "\n".join(rows) + "\n")
        self.names = [f"{c}:{name}" for c in self.classes[1:] for name in ["(intercept)", "speed", "weight"]]
        self.x, to_user = design(self.raw)
        self.to_user = lambda z: np.hstack([to_user(z[:, :3]), to_user(z[:, 3:])])
        self.is_class = np.eye(3)[self.y][:, 1:]

    def eta(self, z):
        return np.stack([z[:, :3] @ self.x.T, z[:, 3:] @ self.x.T], axis=2)

    def log_likelihood(self, z):
        eta = self.eta(z)
        return (eta * self.is_class).sum(axis=(1, 2)) - np.log1p(np.exp(eta).sum(axis=2)).sum(axis=1)

    def slope(self, z):
        share = np.exp(self.eta(z))
        share /= 1.0 + share.sum(axis=2, keepdims=True)
        rest = self.is_class - share
        return np.hstack([rest[:, :, 0] @ self.x, rest[:, :, 1] @ self.x])

    def information(self, z):
        share = np.exp(self.eta(z[None]))[0]
        share /= 1.0 + share.sum(axis=1, keepdims=True)
        blocks = [[(self.x * (share[:, a] * ((a == b) - share[:, b]))[:, None]).T @ self.x for b in (0, 1)] for a in (0, 1)]
        return np.block(blocks)

    def prior_sd(self):
        return np.tile([INTERCEPT_SD, PRIOR_SD, PRIOR_SD], 2)


def design(raw):
    """Standardised columns after a one, and the map back to the user's scale."""
    centre, scale = raw.mean(axis=0), raw.std(axis=0, ddof=1)
    x = np.c_[np.ones(len(raw)), (raw - centre) / scale]

    def to_user(z):
        slopes = z[:, 1:] / scale
        return np.c_[z[:, 0] - slopes @ centre, slopes]

    return x, to_user


def log_p(model, z):
    sd = model.prior_sd()
    prior = -0.5 * (z**2 / sd**2 + np.log(2 * np.pi * sd**2)).sum(axis=1)
    return prior + model.log_likelihood(z)


def grad(model, z):
    return model.slope(z) - z / model.prior_sd() ** 2


def mode(model):
    z = np.zeros(len(model.names))
    for _ in range(100):
        information = model.information(z) + np.diag(model.prior_sd() ** -2.0)
        z = z + np.linalg.solve(information, grad(model, z[None])[0])
    assert np.abs(grad(model, z[None])).max() < 1e-8
    return z, np.linalg.inv(information)


def moments_by_importance(model, rng):
    centre, covariance = mode(model)
    d, df = len(centre), 6.0
    factor = np.linalg.cholesky(covariance)
    log_w, user = [], []
    for _ in range(DRAWS // 10_000):
        t = rng.normal(size=(10_000, d)) * np.sqrt(df / rng.chisquare(df, size=(10_000, 1)))
        log_t = (
            math.lgamma((df + d) / 2) - math.lgamma(df / 2) - 0.5 * d * math.log(df * math.pi)
            - np.log(np.diag(factor)).sum() - 0.5 * (df + d) * np.log1p((t**2).sum(axis=1) / df)
        )
        z = centre + t @ factor.T
        log_w.append(log_p(model, z) - log_t)
        user.append(model.to_user(z))
    log_w, user = np.concatenate(log_w), np.concatenate(user)
    most = log_w.max()
    w = np.exp(log_w - most)
    log_evidence = most + np.log(w.mean())
    log_evidence_se = w.std() / w.mean() / math.sqrt(DRAWS)
    w /= w.sum()
    mean = w @ user
    mean_se = np.sqrt((w**2) @ (user - mean) ** 2)
    square = w @ (user - mean) ** 2
    square_se = np.sqrt((w**2) @ ((user - mean) ** 2 - square) ** 2)
    sd = np.sqrt(square)
    print(f"  importance sampling: effective sample size {1 / (w**2).sum():.0f} of {DRAWS}")
    return mean, mean_se, sd, square_se / (2 * sd), log_evidence, log_evidence_se


def moments_by_hmc(model, rng):
    centre, covariance = mode(model)
    d = len(centre)
    factor = np.linalg.cholesky(covariance)
    # In u, with z = centre + factor u, the posterior is nearly standard normal.
    value = lambda u: log_p(model, centre + u @ factor.T)
    slope = lambda u: grad(model, centre + u @ factor.T) @ factor
    u = rng.normal(size=(CHAINS, d))
    now = value(u)
    sums, squares, accepted = np.zeros((CHAINS, d)), np.zeros((CHAINS, d)), 0.0
    shift = model.to_user(centre[None])
    for step in range(WARM_UP + STEPS):
        p = rng.normal(size=(CHAINS, d))
        energy = now - 0.5 * (p**2).sum(axis=1)
        # Steps of varying length, so that no trajectory is periodic.
        length = rng.uniform(0.2, 0.4)
        new, q = u.copy(), p.copy()
        q += 0.5 * length * slope(new)
        for leap in range(5):
            new += length * q
            q += (0.5 if leap == 4 else 1.0) * length * slope(new)
        there = value(new)
        accept = np.log(rng.uniform(size=CHAINS)) < there - 0.5 * (q**2).sum(axis=1) - energy
        u[accept], now[accept] = new[accept], there[accept]
        if step >= WARM_UP:
            user = model.to_user(centre + u @ factor.T) - shift
            sums += user
            squares += user**2
            accepted += accept.mean() / STEPS
    means, squares = sums / STEPS, squares / STEPS
    mean = means.mean(axis=0)
    variances = squares - 2 * means * mean + mean**2
    sd = np.sqrt(variances.mean(axis=0))
    error = lambda of_chains: of_chains.std(axis=0, ddof=1) / math.sqrt(CHAINS)
    print(f"  Hamiltonian Monte Carlo: {100 * accepted:.1f}% accepted")
    return mean + shift[0], error(means), sd, error(variances) / (2 * sd)


def main():
    references = {}
    for number, model in enumerate([Poisson(), Softmax()]):
        name = type(model).__name__.lower()
        print(name)
        z = np.random.default_rng(0).normal(size=(1, len(model.names))) * 0.3
        for j in range(z.shape[1]):
            h = np.zeros_like(z)
            h[0, j] = 1e-5
            difference = (log_p(model, z + h) - log_p(model, z - h))[0] / 2e-5
            assert abs(difference - grad(model, z)[0, j]) < 1e-4 * (1 + abs(difference)), (name, j)
        mean, mean_se, sd, sd_se, log_evidence, log_evidence_se = moments_by_importance(
            model, np.random.default_rng(100 + number)
        )
        other = moments_by_hmc(model, np.random.default_rng(200 + number))
        for what, (a, a_se), (b, b_se) in [("mean", (mean, mean_se), other[:2]), ("sd", (sd, sd_se), other[2:])]:
            gap = np.abs(a - b) / np.hypot(a_se, b_se)
            print(f"  {what}s of the two methods differ by", gap.round(2), "standard errors")
            assert (gap < 4.0).all()
        references[name] = {
            "command": model.command,
            "log_evidence": log_evidence,
            "log_evidence_se": log_evidence_se,
            "parameters": [
                {"name": n, "mean": m, "mean_se": me, "sd": s, "sd_se": se}
                for n, m, me, s, se in zip(model.names, mean, mean_se, sd, sd_se)
            ],
        }
    (HERE / "references.json").write_text(json.dumps(references, indent=1) + "\n")


if __name__ == "__main__":
    main()
