"""What the tests of Stan programs need: tools to compile them, the programs, and a library that needs no Stan."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

import natmix

CRATE = Path(__file__).resolve().parents[2] / "crates" / "natmix-stan"
PROGRAMS = CRATE / "tests" / "programs"


def found():
    """Whether programs can be compiled here."""
    try:
        natmix.from_stan("{")
    except RuntimeError:
        return False
    except ValueError:
        # What stanc says about this program.
        return any(shutil.which(name) for name in (os.environ.get("CXX", "g++").split()[0], "clang++", "c++"))
    raise AssertionError("this is no program")


def needs_tools():
    """Without tools the test says so and checks nothing, unless NATMIX_STAN is `required`."""
    if found():
        return
    if os.environ.get("NATMIX_STAN") == "required":
        pytest.fail("Stan programs cannot be compiled here")
    pytest.skip("nothing is checked: Stan programs cannot be compiled here")


def compiled(program, data=None, **options):
    """A target, where programs can be compiled."""
    needs_tools()
    return natmix.from_stan(program, data, **options)


def library(folder, name="mock.so", *flags):
    """The library of `mock/model.rs`, a small model with BridgeStan's interface."""
    allow = ["-Aunsafe_code", "-Anon_upper_case_globals", "-Aunexpected_cfgs"]
    source = CRATE / "tests" / "mock" / "model.rs"
    more = [word for flag in flags for word in ("--cfg", flag)]
    command = ["rustc", "--edition=2024", "--crate-type=cdylib", *allow, *more, str(source), "-o", str(folder / name)]
    subprocess.run(command, check=True)
    return folder / name


def script(path, text):
    """A program in place of a real one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(0o755)
    return path


def fake_tools(folder, stanc):
    """A folder laid out like CmdStan's, with this script for stanc."""
    for place in ("eigen_3", "boost_1", "sundials_6/lib", "tbb_2/include", "tbb"):
        (folder / "stan/lib/stan_math/lib" / place).mkdir(parents=True)
    (folder / "stan/lib/rapidjson_1").mkdir()
    (folder / "stan/lib/stan_math/lib/tbb/libtbb.so").write_text("")
    script(folder / "bin" / "stanc", stanc)
    return folder
