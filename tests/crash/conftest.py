"""A bench for each test, in memory where the system has a place for that."""

import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.crash.loop import Bench
from tests.crash.place import Place
from tests.crash.support import end_started_lives

MEMORY = Path("/dev/shm")


@pytest.fixture
def quick_folder(tmp_path: Path) -> Iterator[Path]:
    """A folder whose syncs cost nothing: what a killed process wrote is there whether it was synced or not.

    Power loss is another matter, and has tests of its own.
    """
    if not os.access(MEMORY, os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(prefix="perdure-crash-", dir=MEMORY) as folder:
        yield Path(folder)


@pytest.fixture(autouse=True)
def no_life_is_left() -> Iterator[None]:
    """A test that fails between the start and the end of a life leaves none to the tests after it."""
    yield
    end_started_lives()


@pytest.fixture
def bench(quick_folder: Path, record_property: Callable[[str, object], None]) -> Iterator[Bench]:
    """A provider and launchers of its own for one test; what it lived through is told with the test's result."""
    with Bench(quick_folder) as running:
        yield running
        for name, count in running.tally().items():
            record_property(name, count)


@pytest.fixture
def place(quick_folder: Path) -> Place:
    """A ledger whose disk may fail by a plan."""
    return Place(quick_folder)
