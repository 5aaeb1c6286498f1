"""Targets from PyMC models: compiled by numba, called from Rust without the interpreter."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import _natmix
from ._init import spread_of
from ._target import Init, Target, Variable

try:
    import numba
    import pymc as pm
    import pytensor
    import pytensor.tensor as pt
    from pymc.model.transform.optimization import freeze_dims_and_data
    from pytensor.compile.mode import Mode
    from pytensor.graph.replace import graph_replace, vectorize_graph
except ImportError:  # pragma: no cover
    raise ImportError("natmix.from_pymc needs PyMC and numba: pip install natmix[pymc]") from None

#: Number of prior draws that determine the start distribution.
PRIOR_DRAWS = 400

#: `int64 f(size_t dim, const double *z, double *grad, double *value, void *user_data)`, the signature that nutpie uses.
SIGNATURE = numba.types.int64(
    numba.types.uint64,
    numba.types.CPointer(numba.types.double),
    numba.types.CPointer(numba.types.double),
    numba.types.CPointer(numba.types.double),
    numba.types.voidptr,
)


def from_pymc(model: pm.Model | None = None, *, init: Init | None = None) -> Target:
    """A target from a PyMC model (that of the current ``with`` block if none is given).

    Log density and gradient are compiled by numba (which takes a while the first time) and called from all threads of the
    engine without the interpreter. The posterior is fitted in the transformed space; draws, summaries and ``to_arviz`` are in
    the model's own variables, with its coordinates. Data are read when this is called: call it again after changing them. By
    default the start distribution is as wide as the prior; ``init`` changes it.

    Examples
    --------
    >>> import natmix, pymc as pm
    >>> with pm.Model() as model:
    ...     scale = pm.HalfNormal("scale", 1.0)
    ...     y = pm.Normal("y", 0.0, scale, observed=0.5)
    >>> post = natmix.fit(natmix.from_pymc(model), components=3)
    >>> post.parameter_names, bool((post.sample(100) > 0).all())
    (['scale'], True)
    """
    model = pm.modelcontext(model)
    if model.discrete_value_vars:
        discrete = ", ".join(v.name for v in model.discrete_value_vars)
        raise ValueError(f"discrete variables have no gradient: {discrete} (marginalise them)")
    if not model.value_vars:
        raise ValueError("the model has no variable to infer")
    frozen = freeze_dims_and_data(model)
    # Freezing may change the order of variables.
    own = _as_in([*model.free_RVs, *model.deterministics], [*frozen.free_RVs, *frozen.deterministics])
    observed = _as_in(model.observed_RVs, frozen.observed_RVs)
    values = _as_in(model.value_vars, frozen.value_vars)
    joined, pieces, names = _join(frozen, values)
    value = graph_replace(frozen.logp(), pieces, strict=False)
    function = pytensor.function([joined], [value, pt.grad(value, joined)], mode="NUMBA")
    compiled = _compile(function.vm.jit_fn, len(names))
    native = _natmix.Target.compiled(compiled.address, 0, compiled, names)

    to_own = _vectorised(joined, frozen.replace_rvs_by_values(own), pieces)
    shapes = [x.shape for x in to_own(np.zeros((1, len(names))))]
    dims = frozen.named_vars_to_dims
    variables = tuple(
        Variable(v.name, tuple(int(n) for n in shape[1:]), tuple(dims.get(v.name) or _numbered(v.name, len(shape) - 1)))
        for v, shape in zip(own, shapes)
    )

    def constrain(z: np.ndarray) -> dict[str, np.ndarray]:
        return {v.name: x for v, x in zip(own, to_own(z))}

    rows: list[Any] = []

    def log_likelihood(z: np.ndarray) -> dict[str, np.ndarray]:
        if not rows:
            rows.append(_vectorised(joined, frozen.logp(vars=observed, sum=False), pieces))
        return {v.name: x for v, x in zip(observed, rows[0](z))}

    return Target(
        native,
        kind="PyMC model",
        what=f"the PyMC model{f' `{model.name}`' if model.name else ''}",
        variables=variables,
        coords={name: list(values) for name, values in frozen.coords.items() if values is not None},
        constrain=constrain,
        observed=tuple(Variable(v.name, tuple(v.type.shape), tuple(dims.get(v.name) or ())) for v in observed),
        log_likelihood=log_likelihood if observed else None,
        init=_prior_spread(frozen, values) if init is None else init,
    )


def _numbered(name: str, count: int) -> list[str]:
    return [f"{name}_dim_{i}" for i in range(count)]


def _as_in(order: Any, variables: Any) -> list[Any]:
    """The variables in the order of others with the same names."""
    by_name = {v.name: v for v in variables}
    return [by_name[v.name] for v in order if v.name in by_name]


def _join(model: pm.Model, values: list[Any]) -> tuple[Any, dict[Any, Any], list[str]]:
    """One vector in place of all value variables; a name for each of its entries."""
    joined = pt.vector("z", dtype="float64")
    start = model.initial_point()
    pieces, names, at = {}, [], 0
    for variable in values:
        shape = np.shape(start[variable.name])
        size = int(np.prod(shape, dtype=int))
        piece = joined[at : at + size].reshape(shape) if shape else joined[at]
        pieces[variable] = pt.specify_shape(piece, shape).astype(variable.dtype)
        names += Variable(variable.name, shape).parameter_names()
        at += size
    return joined, pieces, names


def _compile(jitted: Any, dim: int) -> Any:
    """A C function of one point that calls numba's compiled function."""

    @numba.njit
    def evaluate(z: Any) -> Any:
        value, grad = jitted(z)
        return np.asarray(value).item(), grad

    @numba.cfunc(SIGNATURE)
    def log_p(n: Any, z: Any, grad: Any, value: Any, _: Any) -> int:
        if n != dim:
            return -1
        place = numba.carray(grad, (dim,))
        result = numba.carray(value, (1,))
        try:
            found, slope = evaluate(numba.carray(z, (dim,)).copy())
        except Exception:  # noqa: BLE001 - numba supports no other class here
            return 1
        result[0] = found
        for i in range(dim):
            place[i] = slope[i]
        return 0

    return log_p


def _vectorised(joined: Any, outputs: Any, pieces: dict[Any, Any]) -> Any:
    """A function of many points at once, interpreted: it is called too rarely to be worth compiling."""
    outputs = graph_replace(list(outputs), pieces, strict=False)
    points = pt.matrix("points", dtype="float64")
    many = vectorize_graph(outputs, {joined: points})
    # An output that does not depend on the points has no axis for them.
    many = [
        x if x.type.ndim == y.type.ndim + 1 else pt.broadcast_to(x, (points.shape[0], *[x.shape[i] for i in range(x.ndim)]))
        for x, y in zip(many, outputs)
    ]
    function = pytensor.function([points], many, mode=Mode(linker="py", optimizer="fast_compile"), on_unused_input="ignore")
    return lambda z: [np.asarray(x, dtype=float) for x in function(np.ascontiguousarray(z, dtype=float))]


def _prior_spread(model: pm.Model, values: list[Any]) -> Init:
    """Centre and spread of the prior in the transformed space; around the initial point if the prior cannot be sampled."""
    try:
        free = [model.values_to_rvs[v] for v in values]
        draws = pm.draw(free, draws=PRIOR_DRAWS, random_seed=1)
        columns = []
        for variable, drawn in zip(free, draws):
            transform = model.rvs_to_transforms[variable]
            drawn = np.asarray(drawn, dtype=float)
            if transform is not None:
                symbol = variable.type()
                forward = transform.forward(symbol, *variable.owner.inputs)
                function = pytensor.function([symbol], forward, mode=Mode(linker="py"), on_unused_input="ignore")
                drawn = np.stack([np.asarray(function(x)) for x in drawn])
            columns.append(drawn.reshape(len(drawn), -1))
        return spread_of(np.concatenate(columns, axis=1))
    except Exception:  # noqa: BLE001 - for instance an improper prior: the start need not follow it
        point = model.initial_point()
        start = np.concatenate([np.ravel(point[v.name]) for v in values])
        return start.astype(float), np.ones(len(start))
