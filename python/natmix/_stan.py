"""Targets from Stan programs: compiled once, evaluated from Rust without the interpreter."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from . import _natmix
from ._posterior import NatmixWarning
from ._target import Init, Target, Variable, pair, say


def from_stan(
    code_or_path: str | os.PathLike[str],
    data: Mapping[str, Any] | str | os.PathLike[str] | None = None,
    *,
    coords: Mapping[str, Sequence[Any]] | None = None,
    dims: Mapping[str, Sequence[str]] | None = None,
    init: Mapping[str, Any] | str | os.PathLike[str] | Init | None = None,
    seed: int = 1,
) -> Target:
    """A target from a Stan program and its data.

    The program is compiled with Stan's tools on this machine, once: ``pip install httpstan`` and a C++ compiler are enough. It is
    evaluated in all threads without the interpreter; for the same program, data, seed and settings, the results are those of
    ``natmix fit stan`` on the command line. The posterior is fitted in the unconstrained space. Summaries are in the program's
    own parameters and transformed parameters, with Stan's names (``theta[1]``); ``post.sample_variables`` and
    ``post.to_arviz`` have all variables with their shapes, generated quantities included. What the program prints, and why it
    rejects points, goes to ``sys.stderr``, each kind of message once.

    Parameters
    ----------
    code_or_path : str or path
        A ``.stan`` file; or the text of a program, which has a line break or a brace, and includes no files; or a library that
        BridgeStan has compiled.
    data : dict, str or path, optional
        A value for each variable of the block ``data``: numbers, lists, arrays, data frames; whole numbers for ``int``. Or a JSON
        file, or the text of one.
    coords : dict, optional
        Labels along named dimensions, for ArviZ.
    dims : dict, optional
        Names of the dimensions of variables, for ArviZ: ``{"theta": ["school"]}``.
    init : dict, str, path or (mean, sd), optional
        Where to start. A value for every parameter, given like ``data``: starts are then drawn around that point, with a standard
        deviation of 1 in the unconstrained space. Or the start distribution in that space. By default around zero.
    seed : int, optional
        Seed of random numbers in the block ``transformed data``: that of the fit, if the results should be those of the command
        line. Random numbers in generated quantities follow from the seed of the fit or of the draws.

    Raises
    ------
    ValueError
        If the program, its data or ``init`` are not valid, with the words of Stan; if a library has another version.
    RuntimeError
        If there is nothing to compile with, or the C++ compiler fails.
    OSError
        If a file cannot be read, a library cannot be loaded, or the compiled program cannot be stored.

    Examples
    --------
    >>> import natmix
    >>> program = "parameters { real<lower=0> scale; } model { scale ~ gamma(3, 2); }"
    >>> post = natmix.fit(natmix.from_stan(program))
    >>> post.parameter_names, bool((post.sample(100) > 0).all())
    (['scale'], True)
    """
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or not 0 <= seed < 2**64:
        raise ValueError(f"seed must be a whole number from 0 to 2**64 - 1, not {seed!r}")
    file, code = _program(code_or_path)
    text, data_file = _text(data, "data")
    place = None
    if isinstance(init, (Mapping, str, os.PathLike)):
        values, _ = _text(init, "init")
    else:
        values, place = None, pair(init)
    native = _natmix.Target.stan(file, code, text, data_file, values, int(seed), _httpstan(), _tell)
    for remark in native.warnings:
        warnings.warn(remark, NatmixWarning, stacklevel=2)
    say(native)
    if native.start is not None:
        place = (native.start, 1.0)
    return Target(
        native,
        kind="stan",
        what=native.summary,
        variables=_variables(native.variables, dims or {}, coords or {}),
        coords=dict(coords or {}),
        init=place,
    )


def _program(given: Any) -> tuple[str | None, str | None]:
    """The file of a program, or its text."""
    if not isinstance(given, (str, os.PathLike)):
        raise TypeError(f"a Stan program is a path or text, not {type(given).__name__}")
    if isinstance(given, str) and ("\n" in given or "{" in given):
        return None, given
    return os.path.abspath(os.fsdecode(given)), None


def _text(given: Any, what: str) -> tuple[str, str | None]:
    """A JSON document as text, and the file that it is from."""
    if given is None:
        return "", None
    if isinstance(given, Mapping):
        return (document(given, what) if given else ""), None
    if isinstance(given, str) and given.lstrip().startswith("{"):
        return given, None
    if isinstance(given, (str, os.PathLike)):
        file = os.path.abspath(os.fsdecode(given))
        return Path(file).read_text(encoding="utf-8"), file
    raise TypeError(f"{what} must be a dictionary, a JSON file or its text, not {type(given).__name__}")


def document(values: Mapping[str, Any], what: str = "data") -> str:
    """The JSON that Stan reads: matrices as lists of rows, not-a-number and infinities by their names.

    >>> document({"N": 2, "flag": True, "y": np.array([1.5, np.nan]), "A": [[1, 2], [3, 4]]})
    '{"N": 2, "flag": 1, "y": [1.5, NaN], "A": [[1, 2], [3, 4]]}'
    """
    for name in values:
        if not isinstance(name, str):
            raise TypeError(f"names in {what} must be text, not {name!r}")
    return json.dumps({name: _plain(value, f"{what} entry `{name}`") for name, value in values.items()})


def _plain(value: Any, what: str) -> Any:
    """A value as JSON has it: numbers, lists of lists, and objects for Stan's tuples."""
    if isinstance(value, Mapping):
        return {str(name): _plain(part, f"{what}, part `{name}`,") for name, part in value.items()}
    if isinstance(value, (list, tuple)) and any(isinstance(part, Mapping) for part in value):
        return [_plain(part, what) for part in value]
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        raise ValueError(f"{what} has masked values: Stan has no missing values")
    try:
        array = np.asarray(value)
        if array.dtype.kind == "O":
            # Numbers as objects, such as a data frame's columns of several types.
            array = np.asarray(array.tolist())
    except ValueError:
        raise ValueError(f"{what} is not a full array: its rows have different lengths") from None
    if array.dtype.kind == "b":
        array = array.astype(np.int64)
    if array.dtype.kind == "f":
        array = array.astype(np.float64)
    if array.dtype.kind == "c":
        array = np.stack([array.real, array.imag], axis=-1).astype(np.float64)
    if array.dtype.kind not in "iuf":
        raise TypeError(f"{what} cannot be given to Stan, which has numbers only: it {_culprit(array)}")
    return array.tolist()


def _culprit(array: np.ndarray) -> str:
    """What it is that is no number."""
    wrong = [x for x in array.ravel().tolist() if isinstance(x, str) or not isinstance(x, (bool, int, float, complex))]
    verb = "is" if array.ndim == 0 else "contains"
    return f"{verb} {wrong[0]!r}" if wrong else f"has dtype {array.dtype}"


def _variables(
    known: Sequence[tuple[str, Sequence[int]]], dims: Mapping[str, Sequence[str]], coords: Mapping[str, Sequence[Any]]
) -> tuple[Variable, ...]:
    """The program's variables, with the names of their dimensions."""
    shapes = {name: tuple(shape) for name, shape in known}
    for name, named in dims.items():
        if name not in shapes:
            raise ValueError(f"dims names {name!r}, but the program has no such variable")
        if isinstance(named, str) or len(named) != len(shapes[name]):
            raise ValueError(f"dims of {name!r} are {named!r}, but its shape is {shapes[name]}")
        for dim, length in zip(named, shapes[name]):
            if dim in coords and len(coords[dim]) != length:
                raise ValueError(f"coords has {len(coords[dim])} labels for {dim!r}, but {name!r} has shape {shapes[name]}")
    return tuple(Variable(name, shape, tuple(dims.get(name, ()))) for name, shape in shapes.items())


def _httpstan() -> str | None:
    """The folder of this Python's package httpstan, which is not imported: that takes a second."""
    try:
        spec = importlib.util.find_spec("httpstan")
    except (ImportError, ValueError):
        return None
    places = list(spec.submodule_search_locations or []) if spec is not None else []
    # Any folder of that name is a package for Python.
    return next((place for place in places if os.path.exists(os.path.join(place, "stanc"))), None)


def _tell(what: str) -> None:
    print(f"natmix: {what}", file=sys.stderr, flush=True)
