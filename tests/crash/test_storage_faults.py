"""A disk that is full, fails, is locked, is read-only or is somebody else's: the stated outcome, and nothing lost or repeated.

The life that meets the fault is a real process that runs the command line on a failing VFS; the lives after it have a good
disk. What happened outside is read from a letterbox that no ledger knows of.
"""

import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

import perdure
from tests.crash.failing_disk import FAULT_VARIABLE
from tests.crash.place import BOTH, EVERY_MAIN, STORE_UNUSABLE, Place, finish, plan, resolve_lines
from tests.crash.support import Launcher

# --- disk full, or failing -------------------------------------------------------------------------------------------


@EVERY_MAIN
@pytest.mark.parametrize("what", ["full", "io", "sync"])
def test_a_tool_is_not_called_when_its_intent_cannot_be_written(place: Place, main: str, what: str) -> None:
    ended = place.live(main, what=what, at="start")
    assert ended.exit_code == STORE_UNUSABLE, ended
    assert "error[PERDURE-403]" in ended.stderr
    assert place.posted() == []
    # Whether the commit whose sync failed is there after all is known only to whoever opens the file again; the process
    # itself does that, and takes back what it never began to send.
    assert place.recover(main) == 0


def test_a_ledger_that_cannot_be_opened_for_writing_is_refused(place: Place) -> None:
    ended = place.live("two_mails", what="read_only")
    assert (ended.exit_code, place.posted()) == (STORE_UNUSABLE, []), ended
    with perdure.open(state_dir=place.state) as engine:
        assert engine.runs() == []
    ended = place.live("two_mails", what="read_only")
    assert (ended.exit_code, place.posted()) == (STORE_UNUSABLE, []), ended
    assert "error[PERDURE-40" in ended.stderr
    assert place.recover("two_mails") == 0


def test_a_state_directory_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(perdure.StoreError, match="cannot be made") as refused:
        perdure.open(state_dir=tmp_path / "file" / "state")
    assert refused.value.exit_code == STORE_UNUSABLE


@pytest.fixture(scope="module")
def launcher() -> Iterator[Launcher]:
    """Forks lives quickly."""
    started = Launcher()
    yield started
    started.stop()


@pytest.mark.parametrize("main", ["two_mails"])
@pytest.mark.parametrize(("what", "step"), [("full", 5), ("io", 5), ("sync", 1)])
def test_any_operation_of_a_life_may_fail(
    quick_folder: Path, launcher: Launcher, main: str, what: str, step: int
) -> None:
    """From the opening of a new ledger on: each sync, and every fifth of all operations (SQLite writes a page in two).

    Where only one of them fails, nobody is ever asked: a receipt that did not get through is kept as evidence.
    """
    ends: Counter[int] = Counter()
    asked = number = 0
    fired = True
    while fired:
        number += step
        folder = quick_folder / f"{number}"
        folder.mkdir()
        place = Place(folder)
        order = place.order(main, late_receipt_seconds=0 if what == "full" else 10)
        ended = launcher.live(order, {FAULT_VARIABLE: plan(what=what, at="open", number=number)})
        fired = not ended.stderr.rstrip().endswith(" 0")
        assert ended.exit_code in (0, STORE_UNUSABLE), (number, ended)
        assert fired or ended.exit_code == 0
        ends[ended.exit_code] += 1
        assert Counter(place.posted()) <= Counter(BOTH), (number, ended)
        asked += place.recover(main)
    assert ends[STORE_UNUSABLE] > 10
    assert ends[0] >= 1
    assert (asked >= 1) is (what == "full")


# --- locked, replaced, forked ----------------------------------------------------------------------------------------


@EVERY_MAIN
def test_nothing_is_sent_while_another_process_holds_the_ledger_past_the_timeout(place: Place, main: str) -> None:
    life = place.start(main, what="locked", at="start", busy=100)
    assert life.stdout is not None and life.stdout.readline() == "ready\n"
    with closing(sqlite3.connect(place.ledger, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        ended = finish(life, "go\n")
        other.execute("ROLLBACK")
    assert ended.exit_code == STORE_UNUSABLE, ended
    assert "locked" in ended.stderr
    assert (place.posted(), place.statuses()) == ([], {})
    assert place.recover(main) == 0


@pytest.mark.parametrize("what", ["replaced", "removed"])
@pytest.mark.parametrize(("at", "posted"), [("start", []), ("first", ["first"])])
def test_nothing_more_is_sent_once_another_file_stands_where_the_ledger_was(
    place: Place, what: str, at: str, posted: list[str]
) -> None:
    """A copy that took its place keeps what is known; where there is no file at all, a person is told."""
    ended = place.live("two_mails", what=what, at=at, patience=0)
    assert ended.exit_code == STORE_UNUSABLE, ended
    assert "replaced or removed" in ended.stderr
    assert place.posted() == posted
    told = len(resolve_lines(ended))
    assert told == (len(posted) if what == "removed" else 0), ended.stderr
    if what == "replaced":
        assert place.recover("two_mails") == 0


FORKING = """
import os, sys
import perdure
from tests.crash.failing_disk import mail

def main(run):
    outside = run.inputs["outside"]
    first = mail(outside, "first")["sent"]
    child = os.fork()
    if child == 0:
        try:
            mail(outside, "of the child")
        except perdure.StoreError as refused:
            print("refused:", refused, flush=True)
        sys.exit(3)  # by way of every with-block and every finaliser
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) in (3, 4)
    return [first, mail(outside, "second")["sent"]]
"""


def test_a_forked_child_sends_nothing_and_harms_nothing(place: Place) -> None:
    job = place.state / "forking.py"
    job.write_text(FORKING)
    ended = finish(place.command("run", f"{job}:main", "--run-id", "job", "-i", f"outside={place.letterbox}"))
    assert ended.exit_code == 0, ended
    assert "refused: this process was forked" in ended.stdout
    assert place.posted() == BOTH
    assert place.statuses() == {"first": "succeeded", "second": "succeeded"}
    assert place.recover("two_mails") == 0


FORKED_WHILE_BUSY = """
import os, signal, sys, threading
from perdure.model.errors import StoreError
from perdure.ports.clock import SystemClock
from perdure.runtime.ledger import Ledger
from perdure.store.open import open_store

ledger = Ledger(open_store(sys.argv[1], SystemClock()))
busy, go = threading.Event(), threading.Event()

def occupy(store):
    busy.set()
    go.wait()
    store.set_meta("parent", "done")

ledger.submit(occupy, lambda member: None)
busy.wait()
child = os.fork()
if child == 0:
    signal.alarm(60)
    for use in (ledger.run, ledger.read):
        try:
            use(lambda store: store.set_meta("child", "done"))
        except StoreError as refused:
            print("refused:", refused, flush=True)
    ledger.close()
    os._exit(0)
print("child:", os.waitpid(child, 0)[1])
go.set()
print(ledger.read(lambda store: [store.meta("parent"), store.meta("child")]))
ledger.close()
"""


def test_a_child_that_is_forked_in_the_middle_of_a_commit_does_not_wait_for_ever(place: Place) -> None:
    command = [sys.executable, "-W", "ignore", "-c", FORKED_WHILE_BUSY, str(place.ledger)]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    refused, refused_too, child, rows = ran.stdout.splitlines()
    assert "forked" in refused and "forked" in refused_too
    assert (child, rows) == ("child: 0", "['done', None]")
