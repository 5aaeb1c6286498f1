"""Draws by the names of their entries: `{name: (chain, draw)}`."""

import gzip
import os

import numpy as np


def flat(posterior):
    """Variables by the names of their entries, such as `theta[1]`."""
    draws = {}
    for name, variable in posterior.items():
        values = np.asarray(variable, dtype=float)
        for index in np.ndindex(values.shape[2:]):
            entry = ",".join(str(k + 1) for k in index)
            draws[f"{name}[{entry}]" if entry else name] = values[(slice(None), slice(None), *index)]
    return draws


def shown(name):
    """The name of an entry as tools show it: `theta[1,2]` for Stan's `theta.1.2`."""
    variable, *position = name.split(".")
    return f"{variable}[{','.join(position)}]" if position else name


def relabelled(draws):
    """Draws of a mixture with components in the order of `mu`; `theta` is a share of each, or of the first of two."""
    count = sum(name.startswith("mu[") for name in draws)
    order = np.argsort(np.stack([draws[f"mu[{k + 1}]"] for k in range(count)]), axis=0)
    sorted_draws = dict(draws)
    for vector in ("mu", "sigma", "theta"):
        names = [f"{vector}[{k + 1}]" for k in range(count)]
        if names[0] in draws:
            values = np.take_along_axis(np.stack([draws[name] for name in names]), order, axis=0)
            sorted_draws |= dict(zip(names, values, strict=True))
    if "theta" in draws:
        sorted_draws["theta"] = np.where(order[0] == 1, 1 - draws["theta"], draws["theta"])
    return sorted_draws


def write(draws, path):
    """A table with a row per draw, whole or not there."""
    table = np.stack([values.reshape(-1) for values in draws.values()], axis=1)
    part = path.with_name(path.name + ".part")
    with gzip.open(part, "wt", compresslevel=1) as file:
        file.write(",".join(f'"{name}"' if "," in name else name for name in draws) + "\n")
        np.savetxt(file, table, fmt="%.10g", delimiter=",")
    os.replace(part, path)
