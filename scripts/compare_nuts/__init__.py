"""natmix beside NUTS on hierarchical models; `scripts/compare-nuts --help` says how to run it."""

import os

# Read by JAX when it first computes: NUTS runs its four chains on four devices of the host.
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=4")
