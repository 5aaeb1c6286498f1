"""Settings of a fit, with their types; :func:`natmix.fit` describes them."""

from __future__ import annotations

from typing import Literal, TypedDict


class Settings(TypedDict, total=False):
    """Keywords of :func:`natmix.fit`. A setting that is not given gets a value that suits the target and the method."""

    method: str
    components: int | str
    covariance: Literal["auto", "full", "diag", "low-rank"]
    source: Literal["mixture", "component"]
    draws: Literal["auto", "independent", "antithetic", "orthogonal", "cubature"]
    radius: Literal["random", "fixed"]
    draws_per_component: int
    estimator: Literal["exact", "gauss-newton", "empirical-fisher", "stein", "score"]
    entropy_trick: Literal["fitted", "on", "off"]
    rule: Literal["plain", "improved", "trust-region", "momentum", "adam"]
    rate: float
    decay: float
    step_cap: float
    trust_region: float
    momentum: float
    curvature_rate: float
    damping: float
    weight_rule: Literal["fixed", "plain", "trust-region"]
    weight_rate: float
    weight_trust_region: float
    minibatch: int
    goal: Literal["answer", "elbo"]
    finish: Literal["auto", "never", "always"]
    tolerance: float
    max_evals: int
    max_seconds: float
    check: bool
    seed: int
    threads: int
