"""Posteriors for ArviZ."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ._posterior import Posterior


def to_arviz(post: Posterior, n: int | None, seed: int | None, log_likelihood: bool) -> Any:
    """See :meth:`natmix.Posterior.to_arviz`."""
    kept = post._record.draws
    chains = post._record.chains if n is None and seed is None else None
    n = len(kept) if n is None else n
    seed = post.seed if seed is None else seed
    z = post._record.sample(n, seed) if chains is None else chains["z"]
    # The draws kept with the posterior are the same: the target is not needed.
    same = kept.shape == (n, len(post.parameter_names)) and (chains is not None or seed == post.seed and post.level != "chains")
    grouped: dict[str, dict[str, np.ndarray]] = {"posterior": {}}
    if post._record.kind == "stan":
        stored = post._record.variable_draws if same else None
        for name, group, x in post._stan_variables(z, seed) if stored is None else stored:
            grouped.setdefault(group, {})[name] = x
    else:
        grouped["posterior"] = post._by_variable(kept if same else post._own_scale(z))
    # The chains from one start follow one another: by themselves they would be too short for ArviZ's R-hat.
    starts = 1 if chains is None else chains["count"] // chains["per_start"]

    def fold(x: np.ndarray) -> np.ndarray:
        return x.reshape(starts, len(x) // starts, *x.shape[1:])

    names = array_names(name for group in grouped.values() for name in group)
    groups = {group: {names[name]: fold(x) for name, x in values.items()} for group, values in grouped.items()}
    stats = {"log_q": fold(post.log_density(z)), "component": fold(np.array(post._mixture.components_of(z)))}
    if chains is not None:
        walker, at = np.divmod(np.arange(n), n // chains["count"])
        about = {"walker": walker, "iteration": at * chains["every"]}
        stats |= {name: fold(x) for name, x in about.items()}
        stats |= {name: fold(chains[name]) for name in ("lp", "energy", "energy_change", "diverging")}
    likelihood = groups.pop("log_likelihood", {})
    target = post._target
    if target is not None:
        stats["log_p"] = fold(target.native.values(z) if chains is None else chains["lp"])
        if log_likelihood and not likelihood:
            found = target.log_likelihood(z) if target.log_likelihood else row_log_likelihood_of(post, z)
            likelihood = {name: fold(x) for name, x in (found or {}).items()}
    known = (*post.variables, *(target.observed if target is not None else ()))
    dims = {names.get(v.name, v.name): list(v.dims) for v in known if v.dims}
    groups["sample_stats"] = stats
    if likelihood and log_likelihood:
        groups["log_likelihood"] = likelihood
    attrs = {"inference_library": "natmix"}
    try:
        import arviz_base
    except ImportError:
        try:
            import arviz
        except ImportError:
            raise ImportError("Posterior.to_arviz needs ArviZ: pip install natmix[arviz]") from None
        return arviz.from_dict(**groups, coords=post.coords, dims=dims, attrs=attrs)
    return arviz_base.from_dict(groups, coords=post.coords, dims=dims, attrs={"/": attrs})


def array_names(variables: Iterable[str]) -> dict[str, str]:
    """The name of each variable's array, as in draws.zarr: another one where ArviZ numbers chains or draws by that name."""
    known = list(variables)

    def free(name: str) -> str:
        numbered = (f"{name}~{number}" for number in itertools.count(1))
        return next(other for other in numbered if other not in known) if name in ("chain", "draw") else name

    return {name: free(name) for name in known}


def row_log_likelihood_of(post: Posterior, z: np.ndarray) -> dict[str, np.ndarray] | None:
    """Log likelihoods of the rows of a built-in model."""
    found = None if post._target is None else post._target.native.log_likelihood(z)
    return None if found is None else {"outcome": found}
