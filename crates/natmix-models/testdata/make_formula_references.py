"""Makes formula_references.json, the designs of tests/formula_references.rs; needs formulaic (1.2), pandas and NumPy.

    python make_formula_references.py

Each formula stands for the same design in natmix and in the Python package formulaic. Where they write it differently there
are two formulas. Values are stored by row, as they come from formulaic; its names of columns are stored for reading only.
"""

import json
from pathlib import Path

import numpy as np
import pandas as pd
from formulaic import model_matrix

HERE = Path(__file__).parent

FORMULAS = [
    "y ~ x1",
    "y ~ x1 + x2",
    "y ~ x1 * x2",
    "y ~ x1:x2",
    "y ~ (x1 + x2 + x3)^2",
    "y ~ (x1 + x2 + x3)^3 - x1:x2:x3",
    "y ~ x1 * x2 * x3",
    "y ~ x1 * x2 - x1",
    "y ~ x1 + x2 - 1",
    "y ~ 0 + x1 + x2",
    "y ~ 1",
    "y ~ x1 + a - x1",
    "y ~ a",
    "y ~ 0 + a",
    "y ~ a + b",
    "y ~ 0 + a + b",
    "y ~ 0 + b + a + x1",
    "y ~ a * b",
    "y ~ a:b",
    "y ~ a:b - 1",
    "y ~ a + a:b",
    "y ~ b + a:b",
    "y ~ 0 + a * b",
    "y ~ 0 + a:b + b",
    "y ~ a * b * c",
    "y ~ a:b:c",
    "y ~ 0 + a:b:c",
    "y ~ (a + b + c)^2",
    "y ~ a + b + a:b:c",
    "y ~ x1:a",
    "y ~ x1 * a",
    "y ~ 0 + x1:a",
    "y ~ x1:a + a",
    "y ~ a:x1:x2 + x1",
    "y ~ x1 + x1:a:b",
    "y ~ a/b",
    "y ~ a/x1",
    "y ~ (a + b)/x1",
    "y ~ a/b/c",
    "y ~ .",
    "y ~ . - x3",
    "y ~ .^2 - a:c",
    "y ~ 0 + .",
    "y ~ poly(x1, 2)",
    "y ~ poly(x3, 4) + a",
    "y ~ poly(x1, 3):a",
    "y ~ poly(x1, 2) * poly(x2, 2)",
    ("y ~ poly(x1, 3, raw=TRUE)", "y ~ poly(x1, 3, raw=True)"),
    "y ~ scale(x1) + center(x2)",
    "y ~ scale(x1) * a",
    ("y ~ scale(log(x1)) + exp(x2)", "y ~ scale(np.log(x1)) + exp(x2)"),
    "y ~ bs(x1, df=5)",
    "y ~ bs(x2, df=7, degree=2) + b",
    "y ~ bs(x3, df=4):b",
    "y ~ bs(x1)",
    ("y ~ I(x1^2) + I(x1 / x3 - 2 * x2)", "y ~ I(x1**2) + I(x1 / x3 - 2 * x2)"),
    ("y ~ log(x1) + log2(x1) + log10(x3)", None),
    ("y ~ log1p(x1) + sqrt(x1) + abs(x2)", "y ~ np.log1p(x1) + np.sqrt(x1) + np.abs(x2)"),
    ('y ~ C(a, ref="w") * x1', 'y ~ C(a, contr.treatment("w")) * x1'),
    ('y ~ C(a, ref="v") + C(c, ref="r"):b', 'y ~ C(a, contr.treatment("v")) + C(c, contr.treatment("r")):b'),
    ('y ~ 0 + C(a, ref="v") + b', 'y ~ 0 + C(a, contr.treatment("v")) + b'),
    ("y ~ factor(k) + x1", "y ~ C(k) + x1"),
    ("y ~ C(k):a", None),
    "y ~ `x 4` + x1:`x 4`",
    ("y ~ x1 + b %in% a", "y ~ x1 + b:a"),
]


def table():
    generator = np.random.default_rng(20)
    rows = 54
    levels = {"a": ["u", "v", "w"], "b": ["no", "yes"], "c": ["p", "q", "r"]}
    index = np.arange(rows)
    parts = {"a": index % 3, "b": index // 3 % 2, "c": index // 6 % 3}
    data = {
        "y": generator.normal(size=rows),
        "x1": generator.gamma(2.0, size=rows) + 0.1,
        "x2": generator.normal(size=rows),
        "x3": generator.uniform(10.0, 60.0, size=rows),
        "x 4": generator.normal(1000.0, 10.0, size=rows),
        "k": generator.integers(3, 7, size=rows).astype(float),
    }
    data = {name: np.round(values, 6) for name, values in data.items()}
    data |= {name: [levels[name][i] for i in parts[name]] for name in levels}
    return pd.DataFrame(data)


def main():
    data = table()
    designs = []
    for entry in FORMULAS:
        ours, theirs = entry if isinstance(entry, tuple) else (entry, None)
        matrix = model_matrix(theirs or ours, data, context={"np": np}).rhs
        designs.append(
            {
                "formula": ours,
                "formulaic": theirs or ours,
                "columns": list(matrix.columns),
                "values": np.asarray(matrix, dtype=float).ravel().tolist(),
            }
        )
    # New rows within the range of the fitted ones, by the designs that learn from the data.
    new = data.iloc[[3, 50, 17, 8]].assign(x1=lambda rows: rows["x1"] * 0.9 + 0.2, x2=lambda rows: rows["x2"] * 0.5)
    stateful = "y ~ poly(x1, 3) + scale(x2) * a + bs(x1, df=6) + center(x3)"
    spec = model_matrix(stateful, data).rhs.model_spec
    result = {
        "table": {name: data[name].tolist() for name in data.columns},
        "designs": designs,
        "new": {
            "table": {name: new[name].tolist() for name in new.columns},
            "formula": stateful,
            "values": np.asarray(spec.get_model_matrix(new), dtype=float).ravel().tolist(),
        },
    }
    path = HERE / "formula_references.json"
    path.write_text(json.dumps(result, separators=(",", ":")) + "\n")
    print(f"{path.name}: {len(designs)} designs of {len(data)} rows, {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
