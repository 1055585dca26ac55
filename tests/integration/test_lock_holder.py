"""A ledger that another process keeps locked: who it is, and what to type."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from perdure.model.errors import StorageFault
from perdure.ports.clock import SystemClock
from perdure.store.open import open_store
from perdure.store.sqlite.connection import SqliteConnection
from perdure.store.sqlite.lock_holder import lock_holder

HOLD = """
import sys
from perdure.store.sqlite.connection import SqliteConnection
connection = SqliteConnection(sys.argv[1])
connection.begin()
print("locked", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    """A ledger that nobody has open."""
    path = tmp_path / "ledger.db"
    open_store(str(path), SystemClock()).connection.close()
    return path


@pytest.fixture
def holder(ledger: Path) -> Iterator[int]:
    """A process that is in the middle of a transaction."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(ledger)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "locked\n"
        yield process.pid
        process.kill()


def refused(ledger: Path) -> StorageFault:
    """What another process is told that wants to write."""
    connection = SqliteConnection(str(ledger), busy_milliseconds=20)
    try:
        with pytest.raises(StorageFault) as told:
            connection.begin()
    finally:
        connection.close()
    return told.value


def test_the_process_that_holds_the_lock_is_named(ledger: Path, holder: int) -> None:
    assert lock_holder(str(ledger)) == holder
    assert f"process {holder} is writing to it" in str(refused(ledger))


def test_one_that_was_stopped_is_said_to_be_and_how_to_wake_it(ledger: Path, holder: int) -> None:
    os.kill(holder, signal.SIGSTOP)
    os.waitid(os.P_PID, holder, os.WSTOPPED | os.WNOWAIT)
    told = refused(ledger)
    assert f"process {holder} holds its write lock and is stopped" in str(told)
    assert f"kill -CONT {holder}" in told.next_command


def test_a_ledger_that_is_locked_can_still_be_opened_and_read(ledger: Path, holder: int) -> None:
    """Whoever opens it to look, or to kill its owner, must not wait for the owner's lock."""
    os.kill(holder, signal.SIGSTOP)
    store = open_store(str(ledger), SystemClock())
    assert store.runs.newest(status=None, limit=1) == []
    store.connection.close()


def test_without_a_lock_nobody_is_named(ledger: Path) -> None:
    assert lock_holder(str(ledger)) is None
