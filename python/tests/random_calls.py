"""Random calls of natmix, valid and invalid; prints the resident memory in MB after each batch.

    python random_calls.py 300 500 500

Also to be run under valgrind: PYTHONMALLOC=malloc valgrind --leak-check=full python random_calls.py 1000
"""

import gc
import pickle
import random
import resource
import sys
import warnings

import numpy as np

import natmix


def random_call(rng):
    """One random call, valid or not."""
    dim = rng.choice([1, 2, 3, 7])
    returns = rng.choice(["good", "good", "values", "hessian", "shape", "nan", "raise", "float32", "list", "none"])

    def f(z):
        value, grad = -0.5 * (z**2).sum(axis=1), -z
        return {
            "good": lambda: (value, grad),
            "values": lambda: value,
            "hessian": lambda: (value, grad, np.broadcast_to(-np.eye(z.shape[1]), (len(z), z.shape[1], z.shape[1]))),
            "shape": lambda: (value[:-1], grad),
            "nan": lambda: (value * np.nan, grad),
            "raise": lambda: 1 / 0,
            "float32": lambda: (value.astype("f4"), np.asfortranarray(grad.astype("f4"))),
            "list": lambda: (value.tolist(), grad.tolist()),
            "none": lambda: None,
        }[returns]()

    options = dict(
        dim=dim,
        components=rng.choice([1, 2, 5, "auto"]) if dim < 7 else 2,
        seed=rng.randrange(100),
        max_evals=rng.choice([300, 1000]),
        method=rng.choice(["auto", "auto", "ngvi", "von", "mixture-draws", "bbvi"]),
        covariance=rng.choice(["auto", "diag"]),
        threads=rng.choice([1, 2]),
        progress=False,
    )
    try:
        post = natmix.fit(f, **options)
        post.sample(rng.randrange(50), resample=rng.random() < 0.3)
        post.log_density(post.sample(3))
        if rng.random() < 0.05:
            pickle.loads(pickle.dumps(post)).report_html()
    except (ValueError, TypeError, RuntimeError, ZeroDivisionError):
        pass


def resident():
    gc.collect()
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize() / 1e6


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    numbers = random.Random(5)
    for batch in sys.argv[1:]:
        for _ in range(int(batch)):
            random_call(numbers)
        print(resident(), flush=True)
