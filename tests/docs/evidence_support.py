"""Which tests there are, as pytest itself collects them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable
from functools import cache

from tests.docs.markdown import ROOT

_of_this_run: list[str] = []
"""The ids of all tests, where this very run has collected them all."""


def are_all(ids: Iterable[str]) -> None:
    """Tell which tests there are, so that nobody has to collect them again."""
    _of_this_run[:] = ids


@cache
def collected() -> frozenset[str]:
    """Return the ids of all tests, each whole, without its parameter, and by its file alone.

    Raises:
        AssertionError: a file cannot be collected.
    """
    whole = _of_this_run or _collect()
    without = [one.partition("[")[0] for one in whole]
    return frozenset([*whole, *without, *(one.partition("::")[0] for one in without)])


def _collect() -> list[str]:
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-o", "addopts=--import-mode=importlib", "tests"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return [line.strip() for line in done.stdout.splitlines() if line.startswith("tests/") and "::" in line]


def missing(tests: object) -> list[str]:
    """Return which of the named tests, below `tests/`, do not exist."""
    assert isinstance(tests, tuple)
    return [test for test in tests if f"tests/{test}" not in collected()]
