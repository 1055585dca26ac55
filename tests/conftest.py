"""What holds for every test, and which tests belong to the durability matrix."""

import os
import signal
import zlib
from collections.abc import Iterator

import pytest

from tests.crash.loop import EVERY_POINT
from tests.docs import evidence_support
from tests.evidence import matrix

LONG = (
    "crash/test_children.py",
    "crash/test_forks.py",
    "crash/test_hard_programs.py",
    "crash/test_mails.py",
    "crash/test_owners.py",
    "crash/test_owners_processes.py",
    "crash/test_planted_bugs.py",
    "crash/test_planted_bugs_calls.py",
    "crash/test_planted_lives.py",
    "crash/test_planted_owners.py",
    "crash/test_power_loss.py",
    "crash/test_probes_provider.py",
    "crash/test_soak_slice.py",
    "crash/test_storage_faults.py",
    "crash/test_storage_faults_damage.py",
    "crash/test_suspension_siblings.py",
    "crash/test_turns.py",
    "acceptance/test_crashtest.py",
    "integration/test_testing_kit.py",
    "property/test_engine_against_model.py",
)
"""What takes most of the time. A run of the whole suite takes every fourth of these tests, always the same ones."""
ONE_OF = 4

# A shell that runs the suite in the background makes it ignore SIGINT, and its children would inherit that: the tests of
# Ctrl-C need what a person at a terminal has.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let one case of the matrix be asked for by its number."""
    parser.addoption(
        "--all", action="store_true", help="every test, where a run of the whole suite takes a sample of the longest"
    )
    parser.addoption(
        "--scenario",
        action="append",
        default=[],
        metavar="N",
        help="only the tests of this case of docs/durability_test_matrix.md, such as 8 or d; may be given again",
    )


def sampled(items: list[pytest.Item]) -> Iterator[pytest.Item]:
    """Yield the tests that a run of the whole suite leaves to `--all` and to the proofs."""
    for item in items:
        name = item.nodeid.removeprefix("tests/")
        if name.startswith(LONG) and zlib.crc32(name.encode()) % ONE_OF:
            yield item


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the tests of the matrix, and leave only those of a case that was asked for."""
    asked_for = config.getoption("--all") or config.getoption("--scenario") or os.environ.get(EVERY_POINT)
    whole = not config.getoption("keyword") and not config.getoption("markexpr") and config.args == ["tests"]
    if whole:
        evidence_support.are_all([item.nodeid for item in items])
    if whole and not asked_for and not config.getoption("collectonly"):
        left = set(sampled(items))
        config.hook.pytest_deselected(items=[item for item in items if item in left])
        items[:] = [item for item in items if item not in left]
    everything = matrix.chosen()
    for item in items:
        if belongs(item.nodeid, everything):
            item.add_marker(pytest.mark.matrix)
    numbers: list[str] = config.getoption("--scenario")
    if not numbers:
        return
    try:
        wanted = matrix.chosen(numbers)
    except KeyError as unknown:
        raise pytest.UsageError(f"the matrix has no case {unknown} with a test") from None
    left_out = [item for item in items if not belongs(item.nodeid, wanted)]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if belongs(item.nodeid, wanted)]


def belongs(nodeid: str, tests: frozenset[str]) -> bool:
    """Return whether a test, or the test that it is one parameter of, is among `tests`."""
    return nodeid in tests or nodeid.partition("[")[0] in tests
