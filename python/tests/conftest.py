"""Compiled Stan programs are shared with the tests in Rust: together they compile each program once."""

import os
from pathlib import Path

os.environ.setdefault("NATMIX_CACHE", str(Path(__file__).resolve().parents[2] / "target" / "tmp"))
