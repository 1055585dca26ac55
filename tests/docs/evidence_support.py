"""Which tests there are, as pytest itself collects them."""

from __future__ import annotations

import subprocess
import sys
from functools import cache

from tests.docs.markdown import ROOT


@cache
def collected() -> frozenset[str]:
    """Return the ids of all tests, each whole, without its parameter, and by its file alone.

    Raises:
        AssertionError: a file cannot be collected.
    """
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-o", "addopts=--import-mode=importlib", "tests"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    whole = [line.strip() for line in done.stdout.splitlines() if line.startswith("tests/") and "::" in line]
    without = [one.partition("[")[0] for one in whole]
    return frozenset([*whole, *without, *(one.partition("::")[0] for one in without)])


def missing(tests: object) -> list[str]:
    """Return which of the named tests, below `tests/`, do not exist."""
    assert isinstance(tests, tuple)
    return [test for test in tests if f"tests/{test}" not in collected()]
