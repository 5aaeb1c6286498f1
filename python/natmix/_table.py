"""Columns of numbers and of levels, from arrays and data frames."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any

import numpy as np


class Table:
    """Named columns; a column of levels holds indices into its sorted levels."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.columns: list[np.ndarray] = []
        self.levels: dict[int, list[str]] = {}

    @classmethod
    def of(cls, X: Any, names: Sequence[str] | None, categorical: Mapping[str, Sequence[str]] | None = None) -> Table:
        """A table from a data frame, an array ``(n, k)`` or a column ``(n,)``. ``categorical`` has the levels of columns that
        are known to hold levels; in a data frame, columns that are not numbers hold levels too.
        """
        table = cls()
        known = dict(categorical or {})
        if hasattr(X, "columns") and hasattr(X, "__getitem__"):
            there = [str(c) for c in X.columns]
            for name in there if names is None else names:
                if name not in there:
                    raise ValueError(f"there is no column {name!r} (there are {', '.join(there)})")
                table.add(name, X[list(X.columns)[there.index(name)]], known.get(name))
            return table
        rows = np.asarray(X)
        if rows.ndim == 1:
            if names is not None and len(names) == len(rows) > 1:
                raise ValueError(f"X has shape {rows.shape}, a single column; one row of {len(rows)} columns is [[...]]")
            rows = rows[:, None]
        if rows.ndim != 2:
            raise ValueError(f"X has shape {rows.shape}, expected (rows, columns)")
        names = [f"x{j}" for j in range(rows.shape[1])] if names is None else [str(name) for name in names]
        if len(names) != rows.shape[1]:
            raise ValueError(f"X has {rows.shape[1]} columns, expected {len(names)} ({', '.join(names[:10])})")
        for j, name in enumerate(names):
            table.add(name, rows[:, j], known.get(name))
        return table

    def add(self, name: str, column: Any, levels: Sequence[str] | None = None) -> None:
        """Add a column; one that is not numeric becomes levels."""
        if name in self.names:
            raise ValueError(f"names must differ, but {name!r} is given twice")
        values = np.asarray(column)
        if values.dtype == object and levels is None and all(isinstance(x, (Real, np.bool_)) for x in values.ravel()):
            values = values.astype(float)
        if values.ndim != 1:
            raise ValueError(f"column {name!r} has shape {values.shape}, expected one dimension")
        if self.columns and len(values) != len(self.columns[0]):
            raise ValueError(f"column {name!r} has {len(values)} rows, the others {len(self.columns[0])}")
        if levels is None and values.dtype.kind in "fiub":
            numbers = values.astype(float)
            missing = int(np.isnan(numbers).sum())
            if missing:
                raise ValueError(f"column {name!r} has {missing} missing values")
        else:
            numbers, levels = self._indices(name, values, levels)
            self.levels[len(self.names)] = levels
        self.names.append(name)
        self.columns.append(numbers)

    @staticmethod
    def _indices(name: str, values: np.ndarray, levels: Sequence[str] | None) -> tuple[np.ndarray, list[str]]:
        if values.dtype.kind not in "OUSTb" and levels is None:
            raise TypeError(f"column {name!r} has dtype {values.dtype}, expected numbers or text")
        if any(value is None or value != value for value in values.tolist()):
            raise ValueError(f"column {name!r} has missing values")
        text = [str(value) for value in values.tolist()]
        found = sorted(set(text)) if levels is None else list(levels)
        place = {level: i for i, level in enumerate(found)}
        unknown = sorted(set(text) - set(place))
        if unknown:
            raise ValueError(f"column {name!r} has levels that the fit did not have: {', '.join(unknown[:5])}")
        return np.array([place[t] for t in text], dtype=float), found

    def values(self) -> np.ndarray:
        """All columns as one array ``(rows, columns)``."""
        return np.ascontiguousarray(np.column_stack(self.columns)) if self.columns else np.empty((0, 0))
