"""One run of gmmvi: a task as JSON on standard input, figures as JSON on the last line of standard output."""

import json
import os
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402
import yaml  # noqa: E402
from gmmvi.configs import get_default_algorithm_config, get_default_experiment_config  # noqa: E402
from gmmvi.experiments.setup_experiment import init_experiment  # noqa: E402
from gmmvi.optimization.gmmvi import GMMVI  # noqa: E402
from targets import factors, load, mixture  # noqa: E402

# Stein gradients, adaptive components, component-based draws, trust region, improvement-based steps, and the same for weights.
VARIANT = "SAMTRON"
MEASURING_DRAWS, MEASURING_SEED, CHUNK = 200_000, 990_001, 5_000


def start(name, spec):
    """The initial mixture that the package ships for a target; else one component at the target's own start distribution."""
    try:
        return get_default_experiment_config(name)["model_initialization"]
    except FileNotFoundError:
        mean, sd = spec["init"]["mean"], spec["init"]["sd"]
        # Diagonal covariances for the targets whose names say so, as in `natmix bench`.
        cov = (np.array(sd, dtype=float) ** 2).tolist()
        diagonal = name.endswith("_diag")
        return dict(use_diagonal_covs=diagonal, num_initial_components=1, prior_mean=mean, prior_scale=sd, initial_cov=cov)


def change(config, setting):
    """Applies a setting such as `a.b=1` to a nested dictionary."""
    path, value = setting.split("=", 1)
    *outer, last = path.split(".")
    for key in outer:
        config = config[key]
    if last not in config:
        sys.exit(f"gmmvi has no setting {path}; there are: {', '.join(config)}")
    config[last] = yaml.safe_load(value)


def measure(model, target, spec):
    """ELBO from fresh draws in double precision, and the number of modes whose weight is about right."""
    weights = np.exp(model.log_weights.numpy().astype(float))
    weights /= weights.sum()
    means, chols = model.means.numpy().astype(float), model.chol_cov.numpy().astype(float)
    if chols.ndim == 2:
        chols = np.stack([np.diag(sd) for sd in chols])
    kept = weights > 0
    q = mixture(weights[kept], means[kept], chols[kept])
    rng = np.random.default_rng(MEASURING_SEED)
    ratios = []
    for _ in range(MEASURING_DRAWS // CHUNK):
        k = rng.choice(len(weights), size=CHUNK, p=weights)
        z = means[k] + np.einsum("nij,nj->ni", chols[k], rng.standard_normal((CHUNK, means.shape[1])))
        ratios.append((target.log_density(tf.constant(z)) - q.log_density(tf.constant(z))).numpy())
    ratios = np.concatenate(ratios)
    elbo, se = float(ratios.mean()), float(ratios.std() / np.sqrt(len(ratios)))
    return {"elbo": elbo if np.isfinite(elbo) else None, "se": se, "modes_found": found(spec, weights, means)}


def found(spec, weights, means):
    """Modes whose nearest components, in the mode's own metric, hold between half and twice its weight."""
    if spec is None or not spec["kind"].endswith("_mixture"):
        return None
    centres = np.array(spec.get("means", spec.get("locations")), dtype=float)
    whitened = np.einsum("kij,nkj->nki", np.linalg.inv(factors(spec)), means[:, None, :] - centres)
    nearest = (whitened**2).sum(axis=2).argmin(axis=1)
    near = np.bincount(nearest, weights=weights, minlength=len(centres))
    true = np.array(spec["weights"])
    return int(((near >= 0.5 * true) & (near <= 2 * true)).sum())


def main():
    task = json.load(sys.stdin)
    if task["threads"]:
        tf.config.threading.set_intra_op_parallelism_threads(task["threads"])
        tf.config.threading.set_inter_op_parallelism_threads(task["threads"])
    target, spec = load(task["target"])
    config = {
        **get_default_algorithm_config(VARIANT),
        "model_initialization": start(task["target"], spec),
        "use_sample_database": True,
        "max_database_size": 10_000_000,
        "temperature": 1.0,
    }
    for setting in task["settings"]:
        change(config, setting)
    settings = json.loads(json.dumps(config))
    tf.keras.utils.set_random_seed(task["seed"])
    began = time.perf_counter()
    _, model = init_experiment({**config, "target_fn": target})
    gmmvi = GMMVI.build_from_config(config, target, model)
    seconds, cpu = time.perf_counter() - began, 0.0
    budgets, runs, evals = sorted(task["budgets"]), [], 0
    while evals < task["max_evals"] and seconds < task["max_seconds"]:
        began, cpu_began = time.perf_counter(), time.process_time()
        gmmvi.train_iter()
        evals = int(gmmvi.sample_db.num_samples_written.numpy())
        seconds, cpu = seconds + time.perf_counter() - began, cpu + time.process_time() - cpu_began
        over = evals >= task["max_evals"] or seconds >= task["max_seconds"]
        if over or (budgets and evals >= budgets[0]):
            budgets = [budget for budget in budgets if budget > evals]
            figures = {"evals": evals, "seconds": seconds, "cpu_seconds": cpu, "components": int(model.num_components)}
            runs.append({**figures, **measure(model, target, spec)})
    print(json.dumps({"variant": VARIANT, "settings": settings, "runs": runs}))


if __name__ == "__main__":
    main()
