"""A printable table of parameters."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

COLUMNS = ("mean", "sd", "q05", "q50", "q95")
OF_CHAINS = ("r_hat", "ess")


@dataclass(frozen=True)
class Summary:
    """Mean, standard deviation and quantiles, one row per parameter; R-hat and effective draws if they are from chains.

    >>> table = Summary(["a"], {"mean": [1.0], "sd": [0.5], "q05": [0.2], "q50": [1.0], "q95": [1.8]})
    >>> print(table)
           mean    sd   q05   q50   q95
    a     1.000 0.500 0.200 1.000 1.800
    """

    names: list[str]
    values: Mapping[str, Any]
    columns: tuple[str, ...] = COLUMNS

    @classmethod
    def of(cls, parameters: list[dict[str, Any]]) -> Summary:
        """From the parameters of a report."""
        known = any("r_hat" in p for p in parameters)
        columns = (*COLUMNS, *OF_CHAINS) if known else COLUMNS
        values = {c: np.array([math.nan if p.get(c) is None else p[c] for p in parameters]) for c in columns}
        return cls([p["name"] for p in parameters], values, columns)

    @classmethod
    def of_draws(cls, names: list[str], draws: np.ndarray) -> Summary:
        """From draws ``(n, p)``."""
        quantiles = dict(zip(COLUMNS[2:], np.quantile(draws, [0.05, 0.5, 0.95], axis=0)))
        return cls(names, {"mean": draws.mean(axis=0), "sd": draws.std(axis=0, ddof=1), **quantiles})

    def __getitem__(self, key: str) -> Any:
        """A column, or the row of a parameter as a dictionary."""
        if key in self.values:
            return self.values[key]
        if key in self.names:
            return {c: float(self.values[c][self.names.index(key)]) for c in self.columns}
        raise KeyError(key)

    def __len__(self) -> int:
        return len(self.names)

    def _cells(self) -> list[list[str]]:
        return [[name, *(_short(float(self.values[c][i])) for c in self.columns)] for i, name in enumerate(self.names)]

    def __str__(self) -> str:
        rows = [["", *self.columns], *self._cells()]
        widths = [max(len(row[j]) for row in rows) for j in range(len(rows[0]))]
        widths[0] = max(widths[0], 5)
        return "\n".join(
            row[0].ljust(widths[0]) + " " + " ".join(cell.rjust(w) for cell, w in zip(row[1:], widths[1:])) for row in rows
        )

    __repr__ = __str__

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{c}</th>" for c in ("", *self.columns))
        body = "".join("<tr>" + "".join(f"<td>{html.escape(c)}</td>" for c in row) + "</tr>" for row in self._cells())
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"

    def to_pandas(self) -> Any:
        """The table as a DataFrame."""
        try:
            import pandas
        except ImportError:
            raise ImportError("Summary.to_pandas needs pandas: pip install pandas") from None
        return pandas.DataFrame({c: self.values[c] for c in self.columns}, index=self.names)


def _short(x: float) -> str:
    if not math.isfinite(x):
        return str(x)
    return f"{x:.3e}" if x != 0 and not 1e-3 <= abs(x) < 1e5 else f"{x:.3f}"
