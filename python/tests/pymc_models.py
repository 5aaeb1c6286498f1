"""The models of numpyro_models in PyMC."""

import numpy as np
import pymc as pm
from numpyro_models import EIGHT, SCHOOLS, SEVEN, phase_data


def eight_schools(centred):
    y, sigma = EIGHT
    with pm.Model(coords={"school": SCHOOLS}) as model:
        mu = pm.Normal("mu", 0.0, 5.0)
        tau = pm.HalfCauchy("tau", 5.0)
        if centred:
            theta = pm.Normal("theta", mu, tau, dims="school")
        else:
            step = pm.Normal("step", 0.0, 1.0, dims="school")
            theta = pm.Deterministic("theta", mu + tau * step, dims="school")
        pm.Normal("y", theta, sigma, observed=y, dims="school")
    return model


def seven_points():
    x, y = SEVEN
    with pm.Model() as model:
        intercept = pm.Normal("intercept", 0.0, 100.0)
        slope = pm.Normal("slope", 0.0, 100.0)
        noise = pm.HalfCauchy("noise", 5.0)
        pm.Normal("y", intercept + slope * x, noise, observed=y)
    return model


def phases():
    freqs, (real, imaginary) = phase_data()
    with pm.Model() as model:
        tec = pm.Uniform("tec", -100.0, 100.0)
        const = pm.Uniform("const", -np.pi, np.pi)
        angle = -8.4479745e6 * tec / freqs + const
        pm.Normal("real", pm.math.cos(angle), np.sqrt(0.5), observed=real)
        pm.Normal("imaginary", pm.math.sin(angle), np.sqrt(0.5), observed=imaginary)
    return model
