"""Targets from NumPyro models."""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from . import _natmix
from ._init import spread_of
from ._jax import Batched, double_precision
from ._target import Init, Target, Variable

try:
    import jax
    import numpyro  # noqa: F401
    from jax.flatten_util import ravel_pytree
    from numpyro import handlers
    from numpyro.infer import Predictive, log_likelihood
    from numpyro.infer.util import initialize_model, unconstrain_fn
except ImportError:  # pragma: no cover
    raise ImportError("natmix.from_numpyro needs NumPyro: pip install natmix[numpyro]") from None

#: Number of prior draws that determine the start distribution.
PRIOR_DRAWS = 400


def from_numpyro(
    model: Callable[..., Any],
    *args: Any,
    coords: Mapping[str, Sequence[Any]] | None = None,
    dims: Mapping[str, Sequence[str]] | None = None,
    init: Init | None = None,
    **kwargs: Any,
) -> Target:
    """A target from a NumPyro model and its arguments.

    The posterior is fitted in the unconstrained space; draws, summaries and ``to_arviz`` are in the model's own variables, the
    deterministic ones included. Plates name the dimensions; ``dims`` adds or changes names, ``coords`` labels them. Everything
    is computed in 64 bits. By default the start distribution is as wide as the prior; ``init`` changes it.

    Examples
    --------
    >>> import natmix, numpyro, numpyro.distributions as dist
    >>> def model(y):
    ...     scale = numpyro.sample("scale", dist.HalfNormal(1.0))
    ...     numpyro.sample("y", dist.Normal(0.0, scale), obs=y)
    >>> post = natmix.fit(natmix.from_numpyro(model, 0.5), components=3)
    >>> post.parameter_names, bool((post.sample(100) > 0).all())
    (['scale'], True)
    """
    with double_precision():
        # A batch of one key: NumPyro then compiles the search for a valid start as a whole, otherwise operation by operation.
        keys = jax.random.split(jax.random.PRNGKey(0), 1)
        found = initialize_model(keys, model, model_args=args, model_kwargs=kwargs, dynamic_args=False, validate_grad=False)
        start, unravel = ravel_pytree(jax.tree.map(lambda value: value[0], found.param_info.z))
        dim = start.size
        if dim == 0:
            raise ValueError("the model has no continuous variable to infer")
        to_own = jax.jit(jax.vmap(lambda z: found.postprocess_fn(unravel(z))))
        example = jax.eval_shape(lambda z: found.postprocess_fn(unravel(z)), start)

    def constrain(z: np.ndarray) -> dict[str, np.ndarray]:
        with double_precision():
            return {name: np.asarray(value) for name, value in to_own(z).items()}

    # A distribution of vectors has one likelihood per vector.
    observed = {
        name: tuple(site["fn"].batch_shape)
        for name, site in found.model_trace.items()
        if site["type"] == "sample" and site.get("is_observed", False)
    }

    def likelihood(z: np.ndarray) -> dict[str, np.ndarray]:
        with double_precision():
            values = log_likelihood(model, to_own(z), *args, **kwargs)
            return {name: np.asarray(value).reshape(len(z), *np.shape(value)[1:]) for name, value in values.items()}

    sites = [name for name in found.model_trace if name in example]
    sites += [name for name in example if name not in sites]
    variables = []
    for name in sites:
        shape = tuple(example[name].shape)
        named = tuple((dims or {}).get(name, ())) or _plates(found.model_trace.get(name, {}), shape, name)
        if len(named) != len(shape):
            raise ValueError(f"dims of {name!r} are {named}, but its shape is {shape}")
        variables.append(Variable(name, shape, named))
    names = [f"z{i}" for i in range(dim)]
    evaluate = Batched(lambda z: -found.potential_fn(unravel(z)))
    native = _natmix.Target.callable(evaluate, contextvars.copy_context(), names, "given", "full", evaluate.curvature)
    if init is None:
        init = _prior_spread(model, args, kwargs, found, unravel, dim)
    name = getattr(model, "__name__", "<lambda>")
    return Target(
        native,
        kind="NumPyro model",
        what=f"the NumPyro model `{name}`",
        variables=tuple(variables),
        coords=dict(coords or {}),
        constrain=constrain,
        observed=tuple(
            Variable(name, shape, tuple((dims or {}).get(name, ())) or _plates(found.model_trace[name], shape, name))
            for name, shape in observed.items()
        ),
        log_likelihood=likelihood if observed else None,
        init=init,
    )


def _plates(site: Mapping[str, Any], shape: tuple[int, ...], name: str) -> tuple[str, ...]:
    """Names of a site's dimensions: those of its plates, where it has any."""
    named = [f"{name}_dim_{i}" for i in range(len(shape))]
    batch = getattr(site.get("fn"), "batch_shape", None)
    event = 0 if batch is None else max(0, len(shape) - len(batch))
    for frame in site.get("cond_indep_stack", []):
        axis = len(shape) - event + frame.dim
        if 0 <= axis < len(shape) and shape[axis] == frame.size:
            named[axis] = frame.name
    return tuple(named)


def _prior_spread(model: Any, args: Any, kwargs: Any, found: Any, unravel: Any, dim: int) -> Init:
    """Centre and spread of the prior in the unconstrained space; zero and one if the prior cannot be sampled."""
    try:
        with double_precision(), handlers.block():
            wanted = list(found.param_info.z)
            draw = Predictive(model, num_samples=PRIOR_DRAWS, return_sites=wanted)
            to_free = jax.vmap(lambda x: ravel_pytree(unconstrain_fn(model, args, kwargs, x))[0])

            # Compiled as a whole, which takes a fraction of the time of its single operations.
            @jax.jit
            def free_draws(key: Any) -> Any:
                prior = draw(key, *args, **kwargs)
                return to_free({name: prior[name] for name in wanted})

            return spread_of(np.asarray(free_draws(jax.random.PRNGKey(1))))
    except Exception:  # noqa: BLE001 - for instance an improper prior: the start need not follow it
        return np.zeros(dim), np.ones(dim)
