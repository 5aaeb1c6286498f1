"""`natmix experiments posteriordb`: what it fits, its fits, and its judgement on draws of others."""

import json
import os
import subprocess
import tempfile


def run(posteriors, *more):
    """The report of the command as it prints it in JSON."""
    command = [os.environ["NATMIX_BINARY"], "experiments", "posteriordb", "--json", *more]
    if posteriors:
        command += ["--posteriors", ",".join(posteriors)]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=False)
    if done.returncode != 0:
        raise SystemExit(done.returncode)
    return json.loads(done.stdout)


def listed(posteriors):
    """About the posteriors, each compiled."""
    with tempfile.TemporaryDirectory() as empty:
        return run(posteriors, "--draws", empty)["posteriors"]


def fits(posterior, seeds, reference):
    """Fits of natmix on one thread."""
    return run([posterior], "--seeds", ",".join(map(str, seeds)), "--threads", "1", *_reference(reference))["fits"]


def judged(posterior, folder, reference):
    """How draws in a folder compare with the reference, or None if there is none."""
    fit = run([posterior], "--draws", str(folder), *_reference(reference))["fits"][0]
    if fit["error"]:
        raise ValueError(fit["error"])
    return fit["comparison"]


def _reference(folder):
    return [] if folder is None else ["--reference", str(folder)]
