"""The ledger on a real file: groups, their order, what one member's error does to the others, and the end of authority."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from perdure.model.errors import ConstraintViolated, StorageFault, StoreError
from perdure.ports.clock import SystemClock
from perdure.runtime.ledger import Ledger, Member, Work
from perdure.store.open import open_store
from perdure.store.sql_store import SqlStore

PATIENCE_SECONDS = 60.0


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the ledger of a test is."""
    return tmp_path / "ledger.db"


@pytest.fixture
def ledger(path: Path) -> Iterator[Ledger]:
    """A ledger with a table of notes, which lets a test see what was written, by whom and in which order."""
    store = open_store(str(path), SystemClock())
    store.connection.begin()
    store.connection.write("CREATE TABLE notes (note_no INTEGER PRIMARY KEY, text TEXT NOT NULL UNIQUE)", {})
    store.connection.commit()
    opened = Ledger(store)
    yield opened
    opened.close()


def note(text: str) -> Work[str]:
    """Return work that writes a note."""

    def work(store: SqlStore) -> str:
        store.connection.write("INSERT INTO notes (text) VALUES (:text)", {"text": text})
        return text

    return work


def seen_from_outside(path: Path) -> list[str]:
    """Return the notes, in order, that another connection sees: those of finished transactions."""
    with apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY) as other:
        return [str(row[0]) for row in other.execute("SELECT text FROM notes ORDER BY note_no")]


def wait_until(holds: Callable[[], bool]) -> None:
    """Return as soon as a condition holds."""
    give_up = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        assert time.monotonic() < give_up, "waited in vain"
        time.sleep(0.002)


class Answers:
    """Collects the answers of submitted work."""

    def __init__(self) -> None:
        self.members: list[Member[Any]] = []
        self._all = threading.Semaphore(0)

    def __call__(self, member: Member[Any]) -> None:
        self.members.append(member)
        self._all.release()

    def wait(self, count: int) -> list[Member[Any]]:
        """Return the first ``count`` answers, in the order in which they came."""
        for _ in range(count):
            assert self._all.acquire(timeout=PATIENCE_SECONDS)
        return self.members


def as_one_group(ledger: Ledger, works: list[Work[Any]]) -> list[Member[Any]]:
    """Hand in work while the ledger is busy, so that it becomes one group; return the answers."""
    busy, go = threading.Event(), threading.Event()
    answers = Answers()

    def occupy(_store: SqlStore) -> None:
        busy.set()
        assert go.wait(PATIENCE_SECONDS)

    ledger.submit(occupy, lambda _member: None)
    assert busy.wait(PATIENCE_SECONDS)
    for work in works:
        ledger.submit(work, answers)
    go.set()
    return answers.wait(len(works))


def test_work_is_done_in_the_order_in_which_it_was_handed_in(ledger: Ledger, path: Path) -> None:
    texts = [f"note {number}" for number in range(50)]
    members = as_one_group(ledger, [note(text) for text in texts])
    assert [member.result() for member in members] == texts
    assert seen_from_outside(path) == texts


def test_a_group_is_one_transaction(ledger: Ledger, path: Path) -> None:
    sizes: list[int] = []

    def look(_store: SqlStore) -> None:
        sizes.append(len(seen_from_outside(path)))

    as_one_group(ledger, [note("a"), look, note("b"), look])
    assert sizes == [0, 0]
    assert seen_from_outside(path) == ["a", "b"]


def test_a_waiter_is_answered_only_after_the_commit(ledger: Ledger, path: Path) -> None:
    seen: list[list[str]] = []
    answered = threading.Event()

    def notify(_member: Member[str]) -> None:
        seen.append(seen_from_outside(path))
        answered.set()

    ledger.submit(note("a"), notify)
    assert answered.wait(PATIENCE_SECONDS)
    assert seen == [["a"]]
    assert ledger.run(note("b")) == "b"
    assert seen_from_outside(path) == ["a", "b"]


def test_posted_work_comes_before_what_is_waited_for_and_in_order(ledger: Ledger, path: Path) -> None:
    failures: list[BaseException] = []
    for number in range(20):
        ledger.post(note(f"posted {number}"), failures.append)
    ledger.run(note("waited for"))
    assert seen_from_outside(path) == [*(f"posted {number}" for number in range(20)), "waited for"]
    assert not failures


def test_posted_work_is_committed_without_anybody_waiting(ledger: Ledger, path: Path) -> None:
    ledger.post(note("posted"), lambda _error: None)
    wait_until(lambda: seen_from_outside(path))
    assert seen_from_outside(path) == ["posted"]


@pytest.mark.parametrize("way", ["flush", "read", "close"])
def test_posted_work_is_durable_after_a_flush_a_read_or_the_close(path: Path, way: str) -> None:
    store = open_store(str(path), SystemClock())
    store.connection.write("CREATE TABLE notes (note_no INTEGER PRIMARY KEY, text TEXT)", {})
    ledger = Ledger(store, linger_seconds=60)
    ledger.post(note("posted"), lambda _error: None)
    if way == "flush":
        ledger.flush()
    elif way == "read":
        ledger.read(lambda _store: None)
    else:
        ledger.close()
    assert seen_from_outside(path) == ["posted"]
    if way != "close":
        ledger.close()


# --- errors ----------------------------------------------------------------------------------------------------------


def failing(text: str, problem: BaseException) -> Work[None]:
    """Return work that writes a note and then fails."""

    def work(store: SqlStore) -> None:
        note(text)(store)
        raise problem

    return work


def test_a_member_that_breaks_a_constraint_is_undone_alone(ledger: Ledger, path: Path) -> None:
    members = as_one_group(ledger, [note("a"), note("b"), note("a"), note("c")])
    assert [type(member.error) for member in members] == [type(None), type(None), ConstraintViolated, type(None)]
    assert seen_from_outside(path) == ["a", "b", "c"]
    assert ledger.fault is None


def test_a_member_that_raises_leaves_nothing_of_its_own_work(ledger: Ledger, path: Path) -> None:
    members = as_one_group(ledger, [note("a"), failing("half", ValueError("no")), note("b")])
    with pytest.raises(ValueError, match="no"):
        members[1].result()
    assert seen_from_outside(path) == ["a", "b"]
    assert ledger.fault is None


def test_a_lone_member_that_raises_leaves_nothing_either(ledger: Ledger, path: Path) -> None:
    with pytest.raises(ValueError, match="no"):
        ledger.run(failing("half", ValueError("no")))
    ledger.run(note("a"))
    with pytest.raises(ConstraintViolated):
        ledger.run(note("a"))
    assert seen_from_outside(path) == ["a"]
    assert ledger.fault is None


def test_posted_work_that_fails_says_so(ledger: Ledger, path: Path) -> None:
    failures: list[BaseException] = []
    ledger.post(note("a"), failures.append)
    ledger.post(note("a"), failures.append)
    ledger.flush()
    assert [type(failure) for failure in failures] == [ConstraintViolated]
    assert seen_from_outside(path) == ["a"]


def fill_up(store: SqlStore) -> None:
    """Let the database grow by a few pages only, as on a disk that is nearly full."""
    pages = int(next(store.connection.rows("PRAGMA page_count", {}))[0])
    for _ in store.connection.rows(f"PRAGMA max_page_count={pages + 3}", {}):
        continue


def test_a_full_disk_fails_every_member_of_the_group_and_ends_authority(ledger: Ledger, path: Path) -> None:
    ledger.run(note("before"))
    ledger.read(fill_up)
    done: list[str] = []

    def late(store: SqlStore) -> None:
        done.append("late")
        note("late")(store)

    members = as_one_group(ledger, [note("early"), note("x" * 500_000), late])
    for member in members:
        with pytest.raises(StorageFault, match="full"):
            member.result()
    assert done == []
    assert seen_from_outside(path) == ["before"]
    for use in (lambda: ledger.run(note("after")), ledger.flush):
        with pytest.raises(StorageFault, match="full"):
            use()
    failures: list[BaseException] = []
    ledger.post(note("after"), failures.append)
    wait_until(lambda: len(failures) == 1)
    assert isinstance(failures[0], StorageFault)
    assert seen_from_outside(path) == ["before"]


def test_a_lone_member_on_a_full_disk_ends_authority_too(ledger: Ledger, path: Path) -> None:
    ledger.read(fill_up)
    with pytest.raises(StorageFault, match="full"):
        ledger.run(note("x" * 500_000))
    with pytest.raises(StorageFault, match="full"):
        ledger.run(note("small"))
    assert seen_from_outside(path) == []


def test_a_fault_of_the_store_is_nobodys_own_error(ledger: Ledger, path: Path) -> None:
    def fault(store: SqlStore) -> None:
        store.connection.write("INSERT INTO nowhere VALUES (1)", {})

    members = as_one_group(ledger, [note("early"), fault, note("late")])
    for member in members:
        with pytest.raises(StorageFault, match="nowhere"):
            member.result()
    assert seen_from_outside(path) == []


def test_a_transaction_that_is_gone_after_an_error_fails_the_whole_group(ledger: Ledger, path: Path) -> None:
    def lose_it(store: SqlStore) -> None:
        store.connection.rollback()
        raise ValueError("the transaction is gone")

    members = as_one_group(ledger, [note("early"), lose_it, note("late")])
    for member in members:
        with pytest.raises(StorageFault, match="gone"):
            member.result()
    assert seen_from_outside(path) == []
    with pytest.raises(StorageFault):
        ledger.run(note("after"))


def test_an_interrupt_in_the_middle_of_a_group_is_no_success_for_its_other_members(ledger: Ledger, path: Path) -> None:
    busy, go = threading.Event(), threading.Event()
    outcomes: dict[str, BaseException | str] = {}

    def occupy(_store: SqlStore) -> None:
        busy.set()
        assert go.wait(PATIENCE_SECONDS)

    def caller(name: str, work: Work[Any]) -> None:
        try:
            outcomes[name] = ledger.run(work)
        except BaseException as problem:
            outcomes[name] = problem

    works = {"occupies": occupy, "writes": note("a"), "is interrupted": failing("b", KeyboardInterrupt())}
    threads = [threading.Thread(target=caller, args=item) for item in works.items()]
    threads[0].start()
    assert busy.wait(PATIENCE_SECONDS)
    for thread in threads[1:]:
        thread.start()
    wait_until(lambda: len(ledger._queue) == 2)
    go.set()
    for thread in threads:
        thread.join(PATIENCE_SECONDS)
    assert isinstance(outcomes["is interrupted"], KeyboardInterrupt | StorageFault)
    assert isinstance(outcomes["writes"], KeyboardInterrupt | StorageFault)
    assert seen_from_outside(path) == []
    assert ledger.run(note("after")) == "after"


def test_a_waiter_that_cannot_be_told_harms_nobody_else(ledger: Ledger, path: Path) -> None:
    def gone(_member: Member[Any]) -> None:
        raise RuntimeError("Event loop is closed")

    ledger.submit(note("a"), gone)
    assert ledger.run(note("b")) == "b"
    answers = Answers()
    ledger.submit(note("c"), answers)
    assert answers.wait(1)[0].result() == "c"
    assert seen_from_outside(path) == ["a", "b", "c"]


# --- the file and the process ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["replaced", "removed"])
def test_nothing_is_written_once_the_file_is_not_the_one_that_was_opened(
    ledger: Ledger, path: Path, tmp_path: Path, how: str
) -> None:
    ledger.run(note("a"))
    os.rename(path, tmp_path / "elsewhere.db")
    if how == "replaced":
        path.write_bytes((tmp_path / "elsewhere.db").read_bytes())
    for use in (lambda: ledger.run(note("b")), lambda: ledger.read(lambda _store: None), ledger.flush):
        with pytest.raises(StoreError, match="replaced or removed"):
            use()


FORKED = """
import os, sys
from perdure.model.errors import StoreError
from perdure.ports.clock import SystemClock
from perdure.runtime.ledger import Ledger
from perdure.store.open import open_store

ledger = Ledger(open_store(sys.argv[1], SystemClock()))
ledger.run(lambda store: store.set_meta("parent", "1"))
child = os.fork()
if child == 0:
    for use in (ledger.run, ledger.read):
        try:
            use(lambda store: store.set_meta("child", "1"))
        except StoreError as refused:
            print("refused:", refused, flush=True)
    os._exit(0)
os.waitpid(child, 0)
ledger.run(lambda store: store.set_meta("parent", "2"))
print(ledger.read(lambda store: [store.meta("parent"), store.meta("child")]), flush=True)
ledger.close()
"""


def test_a_forked_child_cannot_use_the_ledger_of_its_parent(path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORKED, str(path)], capture_output=True, text=True, check=True
    )
    refused, refused_too, answer = ran.stdout.splitlines()
    assert "forked" in refused
    assert "forked" in refused_too
    assert answer == "['2', None]"


def test_many_threads_write_every_member_exactly_once(ledger: Ledger, path: Path) -> None:
    threads, each = 8, 200
    answers = Answers()
    failures: list[BaseException] = []

    def write(thread: int) -> None:
        for number in range(each):
            text = f"{thread}.{number}"
            if number % 3 == 0:
                assert ledger.run(note(text)) == text
            elif number % 3 == 1:
                ledger.post(note(text), failures.append)
            else:
                ledger.submit(note(text), answers)

    writers = [threading.Thread(target=write, args=(thread,)) for thread in range(threads)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    answers.wait(threads * len(range(2, each, 3)))
    ledger.flush()
    found = seen_from_outside(path)
    assert sorted(found) == sorted(f"{thread}.{number}" for thread in range(threads) for number in range(each))
    for thread in range(threads):
        mine = [text for text in found if text.startswith(f"{thread}.")]
        assert mine == [f"{thread}.{number}" for number in range(each)]
    assert not failures
