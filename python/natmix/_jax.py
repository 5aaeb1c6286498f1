"""Targets from JAX functions: vectorised, compiled, in 64 bits."""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from . import _natmix
from ._target import Init, Target

try:
    import jax
except ImportError:  # pragma: no cover
    raise ImportError("natmix.from_jax needs JAX: pip install natmix[jax]") from None


def double_precision(on: bool = True) -> Any:
    """A context in which JAX computes in 64 bits, in this thread only."""
    if hasattr(jax, "enable_x64"):
        return jax.enable_x64(on)
    from jax.experimental import enable_x64

    return enable_x64(on)


def from_jax(
    f: Callable[[Any], Any],
    dim: int,
    *,
    init: Init | None = None,
    names: Sequence[str] | None = None,
    x64: bool = True,
) -> Target:
    """A target from a JAX function of one point: ``f(z)`` with ``z`` of shape ``(dim,)`` returns ``log p(z)``.

    It is differentiated, vectorised and compiled, and computes in 64 bits whatever JAX is set to (unless ``x64=False``). The
    Hessian is available to methods that need it (``method="von"``).

    Examples
    --------
    >>> import natmix
    >>> import jax.numpy as jnp
    >>> target = natmix.from_jax(lambda z: -jnp.cosh(z).sum(), dim=2)
    >>> post = natmix.fit(target, components=1)
    >>> bool(abs(post.means).max() < 0.05)
    True
    """
    names = [f"z{i}" for i in range(dim)] if names is None else [str(name) for name in names]
    if len(names) != dim:
        raise ValueError(f"{len(names)} names for {dim} dimensions")
    evaluate = Batched(f, x64)
    native = _natmix.Target.callable(evaluate, contextvars.copy_context(), names, "given", "full", evaluate.curvature)
    mean, sd = (0.0, 1.0) if init is None else init
    native.evaluate(np.broadcast_to(np.asarray(mean, dtype=float), (1, dim)))
    name = getattr(f, "__name__", "<lambda>")
    what = "a JAX function" if name == "<lambda>" else f"the JAX function `{name}`"
    return Target(native, kind="JAX function", what=what, init=init)


# Sizes of the blocks that points are evaluated in: many draws, the chains of a fit, and single points.
BLOCKS = (512, 64, 8)


class Batched:
    """Values and gradients of a function of one point, at many points."""

    def __init__(self, f: Callable[[Any], Any], x64: bool = True):
        self.x64 = x64
        self.value_and_grad = jax.jit(jax.vmap(jax.value_and_grad(f)))
        self.hessian = jax.jit(jax.vmap(jax.hessian(f)))

    def __call__(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        with double_precision(self.x64):
            # All blocks are started before the first result is waited for.
            blocks = [self.value_and_grad(block) for block in _blocks(z)]
            values, grads = (np.concatenate([np.asarray(part) for part in parts]) for parts in zip(*blocks, strict=True))
            return values[: len(z)], grads[: len(z)]

    def curvature(self, z: np.ndarray) -> np.ndarray:
        with double_precision(self.x64):
            return np.concatenate([np.asarray(self.hessian(block)) for block in _blocks(z)])[: len(z)]


def _blocks(z: np.ndarray) -> Iterator[np.ndarray]:
    """The points in blocks of few different sizes: JAX compiles again for every new size. The last one is padded."""
    large, usual, small = BLOCKS
    at = 0
    while at < len(z):
        left = len(z) - at
        size = large if left >= large else usual if left > 2 * small else small
        block = z[at : at + size]
        at += size
        yield (
            block if len(block) == size else np.concatenate([block, np.broadcast_to(block[:1], (size - len(block), z.shape[1]))])
        )
