"""Bayesian inference by natural-gradient variational inference with Gaussian mixtures.

Give it a log density and get the posterior as a mixture of Gaussians, with the ELBO, its standard error and a verdict.

>>> import natmix
>>> def normal(z):                       # points (n, d) -> values (n,), gradients (n, d)
...     return -0.5 * (z ** 2).sum(axis=1), -z
>>> post = natmix.fit(normal, dim=3, components=1)
>>> bool(abs(post.means).max() < 1e-6), post.converged
(True, True)
"""

from typing import TYPE_CHECKING, Any

from . import distributed, models
from ._compare import Claim, Comparison, Loo, Quantity, compare
from ._fit import finish, fit
from ._natmix import __version__
from ._posterior import NatmixWarning, Posterior, load
from ._stan import from_stan
from ._summary import Summary
from ._target import Target, Variable, from_callable

if TYPE_CHECKING:
    from ._jax import from_jax
    from ._numpyro import from_numpyro
    from ._pymc import from_pymc

__all__ = [
    "Claim",
    "Comparison",
    "Loo",
    "NatmixWarning",
    "Posterior",
    "Quantity",
    "Summary",
    "Target",
    "Variable",
    "__version__",
    "compare",
    "distributed",
    "finish",
    "fit",
    "from_callable",
    "from_jax",
    "from_numpyro",
    "from_pymc",
    "from_stan",
    "load",
    "models",
]

# Imported on first use: their packages take seconds to import, and may not be installed.
_LAZY = {"from_jax": "_jax", "from_numpyro": "_numpyro", "from_pymc": "_pymc"}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        from importlib import import_module

        return getattr(import_module(f".{_LAZY[name]}", __name__), name)
    raise AttributeError(f"module 'natmix' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
