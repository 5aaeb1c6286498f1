"""What several files of tests need."""

import os
import signal
from pathlib import Path

import pytest

# Compiled Stan programs are shared with the tests in Rust: together they compile each program once.
os.environ.setdefault("NATMIX_CACHE", str(Path(__file__).resolve().parents[2] / "target" / "tmp"))


@pytest.fixture
def ctrl_c():
    """Ctrl-C as in a terminal: a test run in the background starts with the signal ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
