"""Makes phase.json, the data of numpyro#643: `python3 phase.py > phase.json`.

24 frequencies from 121 to 168 MHz, phase = -8.4479745e6 tec / frequency + const at tec 55 and const 1, cosine and sine
with noise of sd 0.5; the model has variance 0.5. The start is as wide as the uniform priors on their unconstrained scale.
"""

import json
import math
import random

rng = random.Random(1)
frequencies = [121e6 + i * (168e6 - 121e6) / 23 for i in range(24)]
cos, sin = [], []
for frequency in frequencies:
    phase = -8.4479745e6 * 55 / frequency + 1
    cos.append(round(math.cos(phase) + 0.5 * rng.gauss(0, 1), 4))
    sin.append(round(math.sin(phase) + 0.5 * rng.gauss(0, 1), 4))
spec = {
    "kind": "phase",
    "dim": 2,
    "init": {"mean": 0.0, "sd": 1.8},
    "frequencies": [round(f, 1) for f in frequencies],
    "cos": cos,
    "sin": sin,
    "noise_variance": 0.5,
    "bounds": {"tec": [-100.0, 100.0], "const": [-math.pi, math.pi]},
}
print(json.dumps(spec, indent=1))
