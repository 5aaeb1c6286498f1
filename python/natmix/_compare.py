"""Models compared with each other, and statements about parameters."""

from __future__ import annotations

import html
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from . import _natmix

if TYPE_CHECKING:
    import numpy as np

    from ._posterior import Posterior


@dataclass(frozen=True, eq=False)
class Loo:
    """Leave-one-out cross-validation of a posterior, see :attr:`natmix.Posterior.loo`."""

    elpd: float
    """Expected log predictive density: larger is better."""
    se: float
    """Its standard error."""
    p_loo: float
    """Effective number of parameters."""
    rows: int
    """Rows of the data."""
    pointwise: np.ndarray
    """Contribution of each row that was left out: all rows, or evenly spaced ones where there are more than about 100,000."""
    k_hats: np.ndarray
    """k-hat of each of these."""
    k_threshold: float
    """The largest k-hat that can be trusted with so many draws."""
    draws: int
    """Draws behind it."""


@dataclass(frozen=True)
class Claim:
    """Posterior probability of a statement, see :meth:`natmix.Posterior.test`."""

    statement: str
    probability: float
    """Share of the draws for which it holds."""
    se: float
    """Monte Carlo error of that."""
    ess: float
    """Effective number of draws behind it."""
    at_most: float | None = None
    """A bound with 95% confidence, if it holds for none of the draws."""
    at_least: float | None = None
    """A bound with 95% confidence, if it holds for all draws."""
    text: str = ""
    """As the command line prints it."""

    def __repr__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Quantity:
    """Summary of a quantity, see :meth:`natmix.Posterior.test`."""

    quantity: str
    mean: float
    se: float
    """Monte Carlo error of the mean."""
    sd: float
    q05: float
    q50: float
    q95: float
    ess: float
    """Effective number of draws for the mean."""
    text: str = ""
    """As the command line prints it."""

    def __repr__(self) -> str:
        return self.text


class Comparison:
    """Models of the same outcomes beside each other, the best first. Made by :func:`natmix.compare`."""

    def __init__(self, found: dict[str, Any], text: str, page: str):
        self._found, self._text, self._page = found, text, page

    @property
    def names(self) -> list[str]:
        """Names of the models, the best first."""
        return [model["name"] for model in self._found["models"]]

    @property
    def rows(self) -> list[dict[str, Any]]:
        """One flat dictionary per model, ready for a data frame; NaN where something is not known."""
        return [_flat(model) for model in self._found["models"]]

    @property
    def weights(self) -> dict[str, float]:
        """Stacking weights by name."""
        return {row["name"]: row["weight"] for row in self.rows}

    @property
    def findings(self) -> list[str]:
        """What the figures say."""
        return self._found["findings"]

    @property
    def warnings(self) -> list[str]:
        """Reasons for caution."""
        return self._found["warnings"]

    def to_dict(self) -> dict[str, Any]:
        """What ``natmix compare --json`` prints."""
        return self._found

    def report_html(self) -> str:
        """The page that ``natmix compare --out`` writes."""
        return self._page

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the page to a file."""
        with open(path, "w", encoding="utf-8") as file:
            file.write(self._page)

    def __getitem__(self, name: str) -> dict[str, Any]:
        """The row of a model."""
        for row in self.rows:
            if row["name"] == name:
                return row
        raise KeyError(name)

    def __len__(self) -> int:
        return len(self._found["models"])

    def __repr__(self) -> str:
        return self._text

    def _repr_html_(self) -> str:
        page = html.escape(self._page, quote=True)
        return f'<iframe srcdoc="{page}" style="width:100%;height:48rem;border:0" title="natmix"></iframe>'


def compare(*posteriors: Posterior | Mapping[str, Posterior]) -> Comparison:
    """Compare posteriors of the same outcomes by leave-one-out cross-validation and by their evidence.

    Posteriors are called ``model 1``, ``model 2``, ...; a mapping gives them names of their own. Leave-one-out is known for
    regressions after a fit, and for all models whose folder has it. Models of other outcomes, or of other rows, raise ValueError.

    Examples
    --------
    >>> import numpy as np, natmix
    >>> x = np.linspace(-2, 2, 120)
    >>> y = 1 + x + 0.5 * np.sin(40 * np.arange(120.0))
    >>> flat = natmix.fit(natmix.models.Linear(np.sin(50 * x)[:, None], y))
    >>> line = natmix.fit(natmix.models.Linear(x[:, None], y))
    >>> found = natmix.compare({"flat": flat, "line": line})
    >>> found.names, round(found["line"]["weight"], 2)
    (['line', 'flat'], 1.0)
    """
    named: dict[str, Posterior] = {}
    for i, one in enumerate(posteriors):
        for name, post in one.items() if isinstance(one, Mapping) else [(f"model {i + 1}", one)]:
            if str(name) in named:
                raise ValueError(f"two posteriors are called {name!r}")
            named[str(name)] = post
    if len(named) < 2:
        raise ValueError("a comparison needs at least two posteriors: give natmix.compare(post1, post2) or a mapping of names")
    records, targets = [post._record for post in named.values()], [post._native() for post in named.values()]
    return Comparison(*_natmix.compare(list(named), records, targets))


def loo_of(post: Posterior) -> Loo | None:
    """See :attr:`natmix.Posterior.loo`."""
    found = post._record.loo_rows(post._native())
    return None if found is None else Loo(**found)


def tested(post: Posterior, statement: str) -> Claim | Quantity:
    """See :meth:`natmix.Posterior.test`."""
    found, text = post._record.test(statement)
    return Quantity(**found, text=text) if "quantity" in found else Claim(**found, text=text)


def _flat(model: dict[str, Any]) -> dict[str, Any]:
    """A row of the table."""
    loo, evidence = model.get("loo") or {}, model.get("evidence") or {}
    row: dict[str, Any] = {"name": model["name"], "trusted": model["trusted"]}
    for name in ("elpd", "se", "difference", "difference_se", "p_loo", "worst_k_hat", "k_hat_above", "bad_rows", "weight"):
        row[name] = _number(loo.get(name))
    for name in ("log_evidence", "log_bayes_factor", "probability"):
        estimate = evidence.get(name) or {}
        row[name], row[f"{name}_se"] = _number(estimate.get("mean")), _number(estimate.get("se"))
    return row


def _number(value: Any) -> Any:
    return math.nan if value is None else value
