"""Fits over the workers of an engine, in a process of its own: `engine_runs.py ENGINE COUNT... [--kill]` prints a line
per fit.

It has the number of workers, a digest of the result, and how many processes evaluated points. With `--kill` there is another
fit with the largest number, in the middle of which one of them is killed.
"""

import argparse
import hashlib
import os
import signal
import sys
import tempfile
import threading
import time
import warnings
from pathlib import Path

import numpy as np

import natmix

#: Kills at once; where there is no such signal, SIGTERM does.
KILL = getattr(signal, "SIGKILL", signal.SIGTERM)

SETTINGS = dict(dim=2, method="component-draws", components=2, max_evals=640, seed=3, chunk=32, finish="never")


def banana(marks=None, seconds=0.0):
    """A curved density; each process that evaluates it leaves a file named by its id in the folder `marks`.

    A closure, so that the function itself travels: workers need not have this file.
    """

    def log_p(z):
        if marks is not None:
            import os
            import time
            from pathlib import Path

            Path(marks, str(os.getpid())).touch()
            time.sleep(seconds)
        x, y = z[:, 0], z[:, 1] - 0.3 * z[:, 0] ** 2
        return -0.5 * (x**2 + 4.0 * y**2), np.stack([-x + 4.0 * y * 0.6 * x, -4.0 * y], axis=1)

    return log_p


def digest(post):
    """The bits of a result."""
    found = hashlib.sha256()
    for values in (post.weights, post.means, post.covariances, post.sample(200), np.array([post.elbo, post.elbo_se, post.k_hat])):
        found.update(np.ascontiguousarray(values).tobytes())
    return found.hexdigest()


def kill_one(marks, ended):
    """Kills, once, a process that has evaluated points and is not this one."""
    while not ended.is_set():
        for mark in list(Path(marks).iterdir()):
            if int(mark.name) != os.getpid():
                time.sleep(0.3)
                os.kill(int(mark.name), KILL)
                return
        time.sleep(0.01)


def fitted(executor, kill=False, **more):
    """A fit; the number of processes that evaluated points; and the posterior."""
    warnings.simplefilter("ignore", natmix.NatmixWarning)
    with tempfile.TemporaryDirectory() as marks:
        ended = threading.Event()
        killer = threading.Thread(target=kill_one, args=(marks, ended))
        if kill:
            killer.start()
        try:
            post = natmix.fit(banana(marks, 0.02 if kill else 0.0), executor=executor, **{**SETTINGS, **more})
        finally:
            ended.set()
            if kill:
                killer.join()
        return post, len(list(Path(marks).iterdir()))


def dask(counts):
    from distributed import Client, LocalCluster

    with LocalCluster(n_workers=max(counts), threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster) as client:
        everyone = list(client.nthreads())
        for count in counts:
            yield count, client.get_executor(workers=everyone[:count] if count < len(everyone) else None)


def ray(counts):
    import ray

    most = max(counts)
    ray.init(num_cpus=most, include_dashboard=False, log_to_driver=False)
    for count in counts:
        yield count, natmix.distributed.ray(num_cpus=most // count)
    ray.shutdown()


def mpi(counts):
    from mpi4py.futures import MPIPoolExecutor

    with MPIPoolExecutor() as executor:
        yield executor.num_workers, executor


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("engine", choices=["dask", "ray", "mpi"])
    parser.add_argument("counts", type=int, nargs="+")
    parser.add_argument("--kill", action="store_true")
    args = parser.parse_args()
    last = [max(args.counts)] if args.kill else []
    for at, (count, executor) in enumerate(globals()[args.engine](args.counts + last)):
        post, processes = fitted(executor, kill=at == len(args.counts))
        print("fit", count, digest(post), processes, post.workers.workers, flush=True)
        print(post.workers, file=sys.stderr)
