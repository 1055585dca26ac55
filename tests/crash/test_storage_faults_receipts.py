"""A receipt that arrives while the store is down (semantics #40): kept in memory, left as evidence, or told to a person.

Nothing is tried again on the connection that failed, and nothing more is sent. What is left as evidence is taken by the
next life, so that nobody has to be asked about an outcome that was known.
"""

import signal
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure import Run, tool
from perdure.store.sql_store import SqlStore
from tests.crash.failing_disk import FAULT_VARIABLE
from tests.crash.place import BOTH, EVERY_MAIN, IN_DOUBT, STORE_UNUSABLE, Place, finish, plan, resolve_lines
from tests.crash.support import Ended, Launcher, LedgerFile

FOR_A_WHILE: dict[str, dict[str, Any]] = {
    "has room again": {"what": "full", "last": 3},
    "fails one operation": {"what": "io"},
    "fails one sync": {"what": "sync"},
}
PATIENT = {"patience": 20}


@pytest.fixture(scope="module")
def launcher() -> Iterator[Launcher]:
    """Forks lives quickly."""
    started = Launcher()
    yield started
    started.stop()


def replies(place: Place) -> list[tuple[str, str]]:
    """What was left as evidence: the call, and what it says."""
    rows = LedgerFile(place.state).everything()["evidence"]
    return [(row[1], row[6]) for row in rows if row[2] == "reply"]


def kept(place: Place, ended: Ended) -> None:
    """See that a life ended as it must when its receipts are safe, and that nobody is asked afterwards."""
    assert ended.exit_code == STORE_UNUSABLE, ended
    assert resolve_lines(ended) == []
    assert sorted(place.posted()) == BOTH


@EVERY_MAIN
@pytest.mark.parametrize("disk", FOR_A_WHILE)
def test_a_disk_that_fails_for_a_while_costs_no_receipt_and_nobody_is_asked(place: Place, main: str, disk: str) -> None:
    ended = place.live(main, at="second", **FOR_A_WHILE[disk], **PATIENT)
    kept(place, ended)
    if replies(place):
        assert "keeps what is known" in ended.stderr
        assert f"next: perdure --state-dir {place.state} resume job" in ended.stderr
    assert {says for _, says in replies(place)} <= {"happened"}
    assert place.recover(main) == 0
    assert set(place.statuses().values()) == {"succeeded"}


@EVERY_MAIN
def test_a_disk_that_stays_full_is_tried_until_the_lease_ends_and_then_a_person_gets_the_line(
    place: Place, main: str
) -> None:
    ended = place.live(main, what="full", at="second", patience=0.4)
    assert ended.exit_code == STORE_UNUSABLE, ended
    assert sorted(place.posted()) == BOTH
    assert "is kept in memory, and the ledger is opened anew" in ended.stderr
    lines = resolve_lines(ended)
    lost = [what for what, status in place.statuses().items() if status != "succeeded"]
    assert len(lines) == len(lost) > 0, ended.stderr
    assert replies(place) == []
    assert all(f"{line[1]} (mail) succeeded" in ended.stderr for line in lines)
    outcome = place.resume(main)
    assert (outcome.reason, outcome.exit_code) == ("in_doubt", IN_DOUBT)
    assert len(outcome.waiting_for) == len(lost)
    for line in lines:
        assert finish(place.command(*line)).exit_code == 0
    assert place.recover(main) == 0


@pytest.mark.parametrize("line_first", [True, False])
def test_the_line_may_be_typed_before_anybody_resumes(place: Place, line_first: bool) -> None:
    ended = place.live("two_mails", what="full", at="second", patience=0)
    (line,) = resolve_lines(ended)
    if not line_first:
        assert place.resume("two_mails").reason == "in_doubt"
    assert finish(place.command(*line)).exit_code == 0
    assert place.recover("two_mails") == 0


def test_a_receipt_and_the_next_intent_that_share_a_commit_fail_together(place: Place) -> None:
    ended = place.live("two_mails", what="full", at="first", patience=0)
    assert ended.exit_code == STORE_UNUSABLE, ended
    assert place.posted() == ["first"]
    assert [line[:3] for line in resolve_lines(ended)] == [["resolve", "job.1", "--happened"]]
    assert place.statuses() == {"first": "running"}
    assert place.recover("two_mails") == 1


def test_nothing_more_is_sent_after_a_receipt_was_kept_as_evidence(place: Place) -> None:
    ended = place.live("two_mails", what="full", at="first", last=2, **PATIENT)
    assert ended.exit_code == STORE_UNUSABLE, ended
    assert place.posted() == ["first"]
    assert replies(place) == [("job.1", "happened")]
    assert place.recover("two_mails") == 0


@EVERY_MAIN
@pytest.mark.parametrize("disk", FOR_A_WHILE)
def test_a_receipt_with_a_commit_of_its_own_is_kept_as_well(
    place: Place, launcher: Launcher, main: str, disk: str
) -> None:
    order = place.order(main, strict_receipts=True)
    ended = launcher.live(order, {FAULT_VARIABLE: plan(at="second", **FOR_A_WHILE[disk])})
    assert (ended.exit_code, ended.says["error"]) == (STORE_UNUSABLE, "StorageFault"), ended
    assert "its receipt could not be stored" not in ended.says["message"]
    assert sorted(place.posted()) == BOTH
    assert place.recover(main) == 0


@EVERY_MAIN
def test_a_receipt_with_a_commit_of_its_own_is_not_lost_in_silence_either(
    place: Place, launcher: Launcher, main: str
) -> None:
    order = place.order(main, strict_receipts=True, late_receipt_seconds=0)
    ended = launcher.live(order, {FAULT_VARIABLE: plan(what="full", at="second")})
    assert (ended.exit_code, ended.says["error"]) == (STORE_UNUSABLE, "StorageFault"), ended
    lost = [call for call in LedgerFile(place.state).calls() if call.status != "succeeded"]
    assert lost
    for call in lost:
        assert f"{call.tool_call_id} (mail) succeeded, and its receipt could not be stored" in ended.says["message"]
    assert place.recover(main) == len(lost)


# --- locked by another process ---------------------------------------------------------------------------------------


def locked_at_the_receipt(place: Place, **fault: Any) -> tuple[Any, sqlite3.Connection]:
    """Start a life, and lock its ledger from here at the moment its last mail is posted."""
    life = place.start("two_mails", what="locked", at="second", **fault)
    assert life.stdout is not None and life.stdout.readline() == "ready\n"
    other = sqlite3.connect(place.ledger, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    assert life.stdin is not None
    life.stdin.write("go\n")
    life.stdin.flush()
    return life, other


def test_a_receipt_waits_for_another_process_that_holds_the_ledger(place: Place) -> None:
    life, other = locked_at_the_receipt(place, busy=20_000)
    with closing(other):
        other.execute("ROLLBACK")
    ended = finish(life)
    assert ended.exit_code == 0, ended
    assert place.recover("two_mails") == 0


def heard(life: "subprocess.Popen[str]", words: str) -> bool:
    """Whether a life says these words before it ends; a slow one tells of its progress first."""
    assert life.stderr is not None
    return any(words in line for line in life.stderr)


def test_a_receipt_outlasts_a_process_that_holds_the_ledger_for_too_long(place: Place) -> None:
    life, other = locked_at_the_receipt(place, busy=50, **PATIENT)
    with closing(other):
        assert heard(life, "is kept in memory, and the ledger is opened anew")
        other.execute("ROLLBACK")
    kept(place, finish(life))
    assert place.recover("two_mails") == 0


def test_a_receipt_gives_up_on_a_process_that_holds_the_ledger_for_ever(place: Place) -> None:
    life, other = locked_at_the_receipt(place, busy=50, patience=0.2)
    with closing(other):
        ended = finish(life)
        assert ended.exit_code == STORE_UNUSABLE, ended
        assert [line[:3] for line in resolve_lines(ended)] == [["resolve", "job.2", "--happened"]]
        other.execute("ROLLBACK")
    assert place.recover("two_mails") == 1


@EVERY_MAIN
def test_somebody_who_does_not_want_to_wait_gets_the_line_at_once(place: Place, main: str) -> None:
    life = place.start(main, what="full", at="second", patience=1000)
    assert heard(life, "is kept in memory")
    life.send_signal(signal.SIGINT)
    ended = finish(life)
    assert ended.exit_code == STORE_UNUSABLE, ended
    assert len(resolve_lines(ended)) >= 1
    assert place.recover(main) >= 1


def test_the_same_process_may_open_the_ledger_again_and_go_on(quick_folder: Path) -> None:
    """The life says itself that it has left the run, so that nobody has to wait for its process to end."""
    posted: list[str] = []

    def fill_up(store: SqlStore) -> None:
        pages = next(store.connection.rows("PRAGMA page_count", {}))[0]
        list(store.connection.rows(f"PRAGMA max_page_count={pages + 2}", {}))

    with perdure.open(state_dir=quick_folder) as engine:

        @tool(side_effect_class="external", scope=["what"])
        def letter(what: str) -> str:
            posted.append(what)
            engine._ledger.read(fill_up)  # of this connection only, as on a disk that has room again at once
            return "x" * 200_000

        def main(run: Run) -> int:
            return len(letter("one")) + len(letter("two"))

        with pytest.raises(perdure.StoreError, match=r"keeps what is known: job\.1 \(letter\) succeeded"):
            engine.run(main, run_id="job")
        with pytest.raises(perdure.StoreError, match="full"):
            engine.resume("job", main=main)
    assert posted == ["one"]
    with perdure.open(state_dir=quick_folder) as engine:
        fill_up = lambda store: None  # noqa: E731
        outcome = engine.resume("job", main=main)
        assert (outcome.status, outcome.result) == ("succeeded", 400_000)
        assert next(row["how"] for row in engine.details("job")["lives"]) == "store failed"
    assert posted == ["one", "two"]
