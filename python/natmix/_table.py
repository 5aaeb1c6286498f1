"""Columns of numbers and of levels, from arrays and data frames."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any

import numpy as np


def _absent(values: np.ndarray) -> np.ndarray:
    """Which values are missing: None, not equal to themselves, or, as pandas.NA, neither equal nor unequal to anything."""
    if values.dtype.kind in "fiub":
        return np.isnan(values.astype(float))
    return np.array([_is_absent(value) for value in values.tolist()], dtype=bool)


def _is_absent(value: Any) -> bool:
    if value is None:
        return True
    try:
        return bool(value != value)
    except TypeError:  # the comparison is pandas.NA itself, which is neither true nor false
        return True


class Table:
    """Named columns; a column of levels holds indices into its levels, which are sorted, a chosen reference level first."""

    def __init__(self, missing: str = "error", reference: Mapping[str, str] | None = None) -> None:
        if missing not in ("error", "drop"):
            raise ValueError(f"missing must be 'error' or 'drop', not {missing!r}")
        self.names: list[str] = []
        self.columns: list[np.ndarray] = []
        self.levels: dict[int, list[str]] = {}
        self.missing = missing
        self.reference = dict(reference or {})

    @classmethod
    def of(
        cls,
        X: Any,
        names: Sequence[str] | None,
        categorical: Mapping[str, Sequence[str]] | None = None,
        missing: str = "error",
        reference: Mapping[str, str] | None = None,
    ) -> Table:
        """A table from a data frame, a dictionary of columns, an array ``(n, k)`` or a column ``(n,)``.

        ``categorical`` has the levels of columns that are known to hold levels; in a data frame columns that are not numbers hold
        levels too. With ``missing="drop"`` columns are kept as they are until :meth:`complete`.
        """
        table = cls(missing, reference)
        known = dict(categorical or {})
        if isinstance(X, Mapping) or (hasattr(X, "columns") and hasattr(X, "__getitem__")):
            columns = list(X) if isinstance(X, Mapping) else list(X.columns)
            there = [str(column) for column in columns]
            for name in there if names is None else names:
                if name not in there:
                    near = difflib.get_close_matches(name, there, n=3)
                    known_names = f"did you mean {' or '.join(map(repr, near))}?" if near else f"there are {', '.join(there)}"
                    raise ValueError(f"there is no column {name!r} ({known_names})")
                table.add(name, X[columns[there.index(name)]], known.get(name))
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
        if self.missing == "drop":
            self.names.append(name)
            self.columns.append(values)
            return
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

    def complete(self) -> tuple[Table, str | None]:
        """The rows in which no value is missing, and how many were dropped, in words, if any."""
        absent = {name: _absent(column) for name, column in zip(self.names, self.columns, strict=True)}
        dropped = np.any(list(absent.values()), axis=0)
        if dropped.all():
            raise ValueError("every row has a missing value, so none is left")
        table = Table(reference=self.reference)
        for name, column in zip(self.names, self.columns, strict=True):
            table.add(name, column[~dropped])
        if not dropped.any():
            return table, None
        counts = ", ".join(f"{name!r} ({int(gone.sum())})" for name, gone in absent.items() if gone.any())
        rows = int(dropped.sum())
        verb = "is" if rows == 1 else "are"
        return table, f"{rows} of {len(dropped)} rows {verb} dropped because values are missing: in {counts}"

    def check_reference(self) -> None:
        """Refuse reference levels of columns that have none."""
        for name in self.reference:
            if name not in self.names or self.names.index(name) not in self.levels:
                known = ", ".join(self.names[i] for i in self.levels) or "there are none"
                raise ValueError(f"reference: {name!r} is no column of levels (these are: {known})")

    def _indices(self, name: str, values: np.ndarray, levels: Sequence[str] | None) -> tuple[np.ndarray, list[str]]:
        if values.dtype.kind not in "OUSTb" and levels is None:
            raise TypeError(f"column {name!r} has dtype {values.dtype}, expected numbers or text")
        if any(_is_absent(value) for value in values.tolist()):
            raise ValueError(f"column {name!r} has missing values")
        text = [str(value) for value in values.tolist()]
        first = self.reference.get(name)
        found = sorted(set(text), key=lambda level: (level != first, level)) if levels is None else list(levels)
        if levels is None and first is not None and first not in found:
            raise ValueError(f"reference: column {name!r} has no level {first!r} (it has {', '.join(found[:20])})")
        place = {level: i for i, level in enumerate(found)}
        unknown = sorted(set(text) - set(place))
        if unknown:
            raise ValueError(f"column {name!r} has levels that the fit did not have: {', '.join(unknown[:5])}")
        return np.array([place[t] for t in text], dtype=float), found

    def values(self) -> np.ndarray:
        """All columns as one array ``(rows, columns)``."""
        return np.ascontiguousarray(np.column_stack(self.columns)) if self.columns else np.empty((0, 0))
