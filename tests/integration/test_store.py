"""The store on a real file: what its rows cannot be made to say, by one process or by several."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from perdure.core.transitions import CallEvent
from perdure.model.errors import ConstraintViolated, LeaseLost, StorageFault, StoreError
from perdure.model.run import Authority, RunStatus, StepStatus
from perdure.model.toolcall import CallStatus, Evidence
from perdure.runtime.ledger import Ledger
from perdure.store.payloads import INLINE_BYTES
from perdure.store.sql_store import SqlStore
from tests.integration.store_support import (
    LATER,
    NOW,
    accept_run,
    claim_run,
    everything,
    new_call,
    open_ledger,
    rows_of,
    seed,
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the ledger of a test is."""
    return tmp_path / "state" / "ledger.db"


@pytest.fixture
def ledger(path: Path) -> Iterator[Ledger]:
    """A ledger with run ``r1``, claimed under fence 1."""
    opened = open_ledger(path)
    assert opened.run(seed) == 1
    yield opened
    opened.close()


# --- rows ------------------------------------------------------------------------------------------------------------


def add_calls(ledger: Ledger, count: int) -> None:
    """Insert started calls 1 to ``count``."""
    for number in range(1, count + 1):
        ledger.run(lambda store, n=number: store.calls.insert(new_call(n), NOW))


@pytest.mark.parametrize("column", ["run_spec_json", "run_spec_hash", "run_id"])
def test_the_specification_of_a_run_cannot_be_changed(ledger: Ledger, column: str) -> None:
    with pytest.raises(ConstraintViolated, match="immutable"):
        ledger.run(lambda store: store.connection.write(f"UPDATE runs SET {column} = 'x'", {}))
    ledger.run(lambda store: store.connection.write("UPDATE runs SET name = 'x'", {}))


@pytest.mark.parametrize("statement", ["UPDATE evidence SET says = 'no'", "DELETE FROM evidence"])
def test_evidence_is_append_only(ledger: Ledger, path: Path, statement: str) -> None:
    add_calls(ledger, 1)
    evidence = Evidence("probe", NOW, "me", 1, "happened", None, "ref")
    ledger.run(lambda store: store.calls.add_evidence("r1.1", evidence))
    with pytest.raises(ConstraintViolated, match="append-only"):
        ledger.run(lambda store: store.connection.write(statement, {}))
    assert ledger.read(lambda store: store.calls.evidence("r1.1")) == [evidence]


def test_evidence_is_about_a_call_that_exists(ledger: Ledger) -> None:
    with pytest.raises(ConstraintViolated, match="FOREIGN KEY"):
        ledger.run(lambda store: store.calls.add_evidence("r1.77", Evidence("probe", NOW, "me", 1, "happened")))


def held(fence: int) -> Authority:
    """Return the right that a fence of run ``r1`` gives."""
    return Authority("r1", fence)


Write = Callable[[SqlStore, int], Any]
FENCED: dict[str, Write] = {
    "insert a call": lambda store, fence: store.calls.insert(new_call(9, fence=fence), NOW),
    "start a call": lambda store, fence: store.calls.start(store.calls.get(2), held(fence), NOW),
    "store a receipt": lambda store, fence: store.calls.succeed(
        store.calls.get(1), held(fence), NOW, response="1", ref=None, delivered_seq=1
    ),
    "end a challenged call": lambda store, fence: store.calls.challenge(
        store.calls.get(2), held(fence), NOW, response="{}", error_detail="done before"
    ),
    "bind a handle": lambda store, fence: store.turns.bind(("r1.1", 0), "r1.2", held(fence), adopted=False),
    "move a call": lambda store, fence: store.calls.move(store.calls.get(1), CallEvent.LOST, held(fence), NOW),
    "insert a step": lambda store, fence: store.steps.insert(
        "r1", fence, step_id="r1.s1", name="s", phase="p", occurrence=1, now=NOW
    ),
    "move a step": lambda store, fence: store.steps.move("r1.s0", held(fence), StepStatus.SUCCEEDED, now=NOW),
    "write a checkpoint": lambda store, fence: store.steps.checkpoint(
        "r1", fence, checkpoint_id="r1.c1", step_id="r1.s0", kind="interrupt", snapshot="{}", cursor="{}", now=NOW
    ),
    "set the pointers": lambda store, fence: store.runs.point(
        "r1", fence, step_id="r1.s0", checkpoint_id=None, now=LATER
    ),
    "renew the lease": lambda store, fence: store.runs.renew("r1", fence, now=LATER, expires=LATER, active_seconds=1.0),
    "end the run": lambda store, fence: store.runs.end("r1", fence, status=RunStatus.SUCCEEDED, reason=None, now=LATER),
    "record an artifact": lambda store, fence: store.steps.add_artifact(
        "r1", fence, path="a", sha256="s", size_bytes=1, now=NOW
    ),
    "ask a person": lambda store, fence: store.questions.ask(
        "a1", run_id="r1", fence=fence, tool_call_id="r1.1", kind="in_doubt", summary="?", now=NOW
    ),
}


@pytest.mark.parametrize("what", FENCED)
def test_a_write_under_a_stale_fence_changes_nothing(ledger: Ledger, path: Path, what: str) -> None:
    add_calls(ledger, 1)
    ledger.run(lambda store: store.calls.insert(new_call(2, status=CallStatus.PREPARED), NOW))
    assert ledger.run(claim_run) == 2
    before = everything(path)
    try:
        ledger.run(lambda store: FENCED[what](store, 1))
    except LeaseLost as refused:
        assert "no longer owns the run" in str(refused)
    assert everything(path) == before
    ledger.run(lambda store: FENCED[what](store, 2))
    assert everything(path) != before


@pytest.mark.parametrize("what", [name for name in FENCED if name != "record an artifact"])
def test_the_stale_owner_is_told(ledger: Ledger, what: str) -> None:
    add_calls(ledger, 1)
    ledger.run(lambda store: store.calls.insert(new_call(2, status=CallStatus.PREPARED), NOW))
    ledger.run(claim_run)
    with pytest.raises(LeaseLost):
        ledger.run(lambda store: FENCED[what](store, 1))


def test_a_run_is_claimed_by_one_of_two(ledger: Ledger) -> None:
    row = ledger.read(lambda store: store.runs.get("r1"))
    assert row is not None
    ledger.run(claim_run)
    with pytest.raises(LeaseLost):
        ledger.run(lambda store: store.runs.claim(row, store.runs.lives("r1")[0].owner, now=NOW, expires=LATER))
    assert [life.fence for life in ledger.read(lambda store: store.runs.lives("r1"))] == [1, 2]


def test_a_row_that_moved_on_is_not_moved_by_what_was_read_before(ledger: Ledger) -> None:
    add_calls(ledger, 1)
    read = ledger.read(lambda store: store.calls.get(1))
    ledger.run(lambda store: store.calls.move(read, CallEvent.LOST, held(1), NOW))
    with pytest.raises(LeaseLost):
        ledger.run(lambda store: store.calls.move(read, CallEvent.FAILED, held(1), NOW))
    with pytest.raises(LeaseLost):
        ledger.run(lambda store: store.calls.succeed(read, held(1), NOW, response="1", ref=None, delivered_seq=1))
    assert ledger.read(lambda store: store.calls.get(1)).status is CallStatus.IN_DOUBT


def test_what_was_minted_is_what_is_read(ledger: Ledger) -> None:
    for status in (CallStatus.PREPARED, CallStatus.RUNNING, CallStatus.AWAITING_APPROVAL, CallStatus.FAILED):
        number = ledger.read(lambda store: store.calls.count("r1")) + 1
        minted = ledger.run(
            lambda store, n=number, s=status: store.calls.insert(
                new_call(n, status=s, effect_scope="{}", dedupe_key=f"d{n}", key_expires_at=LATER), NOW
            )
        )
        assert ledger.read(lambda store, row=minted: store.calls.get(row.call_no)) == minted


def test_a_reference_belongs_to_one_succeeded_call(ledger: Ledger) -> None:
    add_calls(ledger, 2)

    def succeed(store: SqlStore, number: int, ref: str) -> None:
        store.calls.succeed(store.calls.get(number), held(1), NOW, response="1", ref=ref, delivered_seq=number)

    ledger.run(lambda store: succeed(store, 1, "m1"))
    with pytest.raises(ConstraintViolated):
        ledger.run(lambda store: succeed(store, 2, "m1"))
    ledger.run(lambda store: succeed(store, 2, "m2"))
    assert ledger.read(lambda store: store.calls.ref_owner("send_mail", "m1")) == "r1.1"


def test_a_dedupe_key_belongs_to_one_call_that_is_not_void(ledger: Ledger) -> None:
    first = ledger.run(lambda store: store.calls.insert(new_call(1, dedupe_key="d", status=CallStatus.PREPARED), NOW))
    with pytest.raises(ConstraintViolated):
        ledger.run(lambda store: store.calls.insert(new_call(2, dedupe_key="d"), NOW))
    ledger.run(lambda store: store.calls.move(first, CallEvent.WITHDRAWN, held(1), NOW))
    assert ledger.read(lambda store: store.calls.by_dedupe_key("d")) is None
    ledger.run(lambda store: store.calls.insert(new_call(3, dedupe_key="d"), NOW))
    found = ledger.read(lambda store: store.calls.by_dedupe_key("d"))
    assert found is not None
    assert found.tool_call_id == "r1.3"


# --- payloads --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, 10, INLINE_BYTES - 2, INLINE_BYTES - 1, INLINE_BYTES, 1_000_000])
@pytest.mark.parametrize("letter", ["a", "é", "😀"])
def test_requests_and_receipts_of_any_size_come_back(ledger: Ledger, path: Path, size: int, letter: str) -> None:
    count = size // len(letter.encode())
    text = f'"{letter * count}"'
    ledger.run(lambda store: store.calls.insert(new_call(1, request=text), NOW))
    ledger.run(
        lambda store: store.calls.succeed(store.calls.get(1), held(1), NOW, response=text, ref=None, delivered_seq=1)
    )
    assert ledger.read(lambda store: store.calls.request(1)) == text
    assert ledger.read(lambda store: store.calls.response(1)) == text
    large = len(text.encode()) > INLINE_BYTES
    kept = rows_of(path, "SELECT sha256, bytes FROM payloads")
    assert kept == ([(hashlib.sha256(text.encode()).hexdigest(), text.encode())] if large else [])


def test_a_payload_over_the_limit_is_refused(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("perdure.store.payloads.LARGEST_BYTES", 50_000)
    with pytest.raises(StoreError, match="over the 50000 bytes") as error:
        ledger.run(lambda store: store.calls.insert(new_call(1, request="x" * 50_001), NOW))
    assert "run.workspace" in error.value.next_command
    assert not isinstance(error.value, StorageFault)
    ledger.run(lambda store: store.calls.insert(new_call(1, request="x" * 50_000), NOW))


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE payloads SET bytes = substr(bytes, 1, 20000)",
        "UPDATE payloads SET bytes = x'00'",
        "DELETE FROM payloads",
    ],
)
def test_a_damaged_payload_is_noticed(ledger: Ledger, damage: str) -> None:
    ledger.run(lambda store: store.calls.insert(new_call(1, request="x" * 100_000), NOW))
    ledger.run(lambda store: store.connection.write(damage, {}))
    with pytest.raises(StoreError, match="missing or damaged"):
        ledger.read(lambda store: store.calls.request(1))


# --- two processes ---------------------------------------------------------------------------------------------------

WRITER = """
import sys
from pathlib import Path
from tests.integration.store_support import accept_run, open_ledger

ledger = open_ledger(Path(sys.argv[1]))
print("ready", flush=True)
sys.stdin.readline()
for number in range(int(sys.argv[3])):
    ledger.run(lambda store: accept_run(store, f"{sys.argv[2]}-{number}"))
ledger.close()
"""


def test_processes_write_the_same_ledger_at_the_same_time(path: Path) -> None:
    each, names = 60, ("one", "two", "three")
    open_ledger(path).close()
    root = Path(__file__).resolve().parents[2]
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path), name, str(each)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=root,
            env={**os.environ, "PYTHONPATH": str(root)},
        )
        for name in names
    ]
    for writer in writers:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
    ended = [writer.communicate("go\n") for writer in writers]
    assert [(writer.returncode, errors) for writer, (_, errors) in zip(writers, ended, strict=True)] == [(0, "")] * 3
    written = {str(row[0]) for row in rows_of(path, "SELECT run_id FROM runs")}
    assert written == {f"{name}-{number}" for name in names for number in range(each)}


def test_processes_that_open_a_new_ledger_at_once_agree_on_its_id(path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from tests.integration.store_support import open_ledger\n"
        "ledger = open_ledger(Path(sys.argv[1]))\n"
        "print(ledger.read(lambda store: store.meta('ledger_id')))\nledger.close()\n"
    )
    root = Path(__file__).resolve().parents[2]
    openers = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(path)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=root,
            env={**os.environ, "PYTHONPATH": str(root)},
        )
        for _ in range(4)
    ]
    answers = [opener.communicate() for opener in openers]
    assert [errors for _, errors in answers] == [""] * 4
    assert len({answer for answer, _ in answers}) == 1


def test_a_second_run_of_one_id_is_refused(ledger: Ledger) -> None:
    with pytest.raises(ConstraintViolated):
        ledger.run(accept_run)


def test_a_handle_of_a_turn_is_taken_away_by_the_owner_only(ledger: Ledger) -> None:
    add_calls(ledger, 1)
    ledger.run(lambda store: store.turns.bind(("r1.1", 0), "r1.1", held(1), adopted=False))
    fence = ledger.run(claim_run)
    assert ledger.run(lambda store: store.turns.unbind("r1.1", held(fence - 1))) == 0
    assert ledger.read(lambda store: store.turns.find(("r1.1", 0))) == (1, False)
    assert ledger.run(lambda store: store.turns.unbind("r1.1", held(fence))) == 1
    assert ledger.read(lambda store: store.turns.find(("r1.1", 0))) is None


@pytest.mark.parametrize(
    ("stored", "stale", "taken"), [("null", False, True), ("null", True, False), ("1", False, False)]
)
def test_a_value_is_added_to_a_receipt_that_has_none_by_who_has_the_run(
    ledger: Ledger, stored: str, stale: bool, taken: bool
) -> None:
    add_calls(ledger, 1)
    fence = ledger.run(claim_run)

    def succeed(store: SqlStore) -> None:
        store.calls.succeed(store.calls.get(1), held(fence), NOW, response=stored, ref=None, delivered_seq=None)

    def amend(store: SqlStore) -> None:
        store.calls.amend(store.calls.get(1), held(fence - stale), NOW, response="2", ref=None)

    ledger.run(succeed)
    if taken:
        ledger.run(amend)
    else:
        with pytest.raises(LeaseLost):
            ledger.run(amend)
    assert ledger.read(lambda store: store.calls.response(1)) == ("2" if taken else stored)


def test_an_overdue_run_is_ended_under_its_own_fence(ledger: Ledger) -> None:
    add_calls(ledger, 1)
    fence = ledger.run(claim_run)
    ledger.run(lambda store: store.runs.end("r1", fence, status=RunStatus.WAITING, reason="in_doubt", now=NOW))
    with pytest.raises(LeaseLost):
        ledger.run(lambda store: store.runs.expire("r1", fence - 1, now=NOW, error_detail="late"))
    ledger.run(lambda store: store.runs.expire("r1", fence, now=NOW, error_detail="late"))
    row = ledger.read(lambda store: store.runs.get("r1"))
    assert row is not None and (row.status, row.error_code) == ("failed", "deadline")


def test_a_handle_under_a_stale_fence_is_not_stored_and_no_error(ledger: Ledger) -> None:
    """What a stale owner knows of its remote job is kept as evidence instead."""
    add_calls(ledger, 1)
    fence = ledger.run(claim_run)
    assert not ledger.run(lambda store: store.calls.try_set_handle(1, held(fence - 1), "h", NOW))
    assert ledger.read(lambda store: store.calls.get(1).handle) is None
    assert ledger.run(lambda store: store.calls.try_set_handle(1, held(fence), "h", NOW))
    assert ledger.read(lambda store: store.calls.get(1).handle) == "h"
