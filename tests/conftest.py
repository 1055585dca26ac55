"""What holds for every test, and which tests belong to the durability matrix."""

import signal

import pytest

from tests.evidence import matrix

# A shell that runs the suite in the background makes it ignore SIGINT, and its children would inherit that: the tests of
# Ctrl-C need what a person at a terminal has.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let one case of the matrix be asked for by its number."""
    parser.addoption(
        "--scenario",
        action="append",
        default=[],
        metavar="N",
        help="only the tests of this case of docs/durability_test_matrix.md, such as 8 or d; may be given again",
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the tests of the matrix, and leave only those of a case that was asked for."""
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
