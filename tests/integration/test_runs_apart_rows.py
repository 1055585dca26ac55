"""Every write of a run's rows names the run and the fence it is made under: those of another run let nothing through.

Two runs are in their first life here, so that the numbers of their fences are equal, and each statement of the store is
tried on the rows of the one with the right of the other.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from perdure.model.errors import ConstraintViolated
from perdure.model.run import RunStatus, StepStatus
from perdure.model.toolcall import CallKey, CallStatus
from perdure.runtime.ledger import Ledger
from perdure.store.sql_store import SqlStore
from perdure.store.statements import load_queries
from tests.integration.store_support import LATER, NOW, accept_run, claim_run, new_call, open_ledger

TABLES = [
    "runs",
    "run_attempts",
    "run_steps",
    "checkpoints",
    "tool_calls",
    "turn_calls",
    "approvals",
    "artifacts",
    "run_budgets",
    "run_grants",
    "run_conditions",
]
_WRITES = re.compile(r"^(?:INSERT (?:OR \w+ )?INTO|UPDATE|DELETE FROM) (\w+)", re.MULTILINE)
_FENCED = re.compile(
    r"lease_fence = :fence\b|\(SELECT lease_fence FROM runs WHERE run_id = :run_id[^()]*(?:\([^()]*\))?\s*[^()]*\) = :fence\b|\bfence = :fence\b"
)
_OWN = re.compile(r"\brun_id = :run_id\b")

NO_OWNER_YET = "makes the run, or its fork, in one transaction; nobody owns it yet"
ENDED = "takes the bodies out of a run that has ended for good: nobody may claim it any more"
WITHOUT_FENCE = {
    "insert_run": NO_OWNER_YET,
    "set_origin": NO_OWNER_YET,
    "inherit_step": NO_OWNER_YET,
    "inherit_call": NO_OWNER_YET,
    "inherit_handle": NO_OWNER_YET,
    "insert_attempt": "follows claim_run, which has just made the fence, in its transaction",
    "open_budget": "what it writes follows from rows that are there, and only the first one counts",
    "mark_sealed": "follows from rows that are settled; the greatest number counts",
    **dict.fromkeys(("start_pruning", "end_pruning", "prune_call", "prune_questions", "prune_checkpoints"), ENDED),
    **dict.fromkeys(("prune_steps", "prune_last_error", "prune_conditions"), ENDED),
}


def run_writes() -> dict[str, str]:
    """Return the statements that write rows of a run, by name."""
    found = {name: (_WRITES.search(sql), sql) for name, sql in load_queries("sqlite").items()}
    return {name: sql for name, (hit, sql) in found.items() if hit is not None and hit[1] in TABLES}


FENCED = {name: sql for name, sql in run_writes().items() if name not in WITHOUT_FENCE}


def test_the_list_of_writes_without_a_fence_names_only_what_there_is() -> None:
    assert set(WITHOUT_FENCE) <= set(run_writes())
    assert len(FENCED) > 40


@pytest.mark.parametrize("name", FENCED)
def test_a_write_of_a_run_names_the_run_and_its_fence(name: str) -> None:
    assert _FENCED.search(FENCED[name]), FENCED[name]
    assert _OWN.search(FENCED[name]), FENCED[name]


# --- the same, tried -------------------------------------------------------------------------------------------------

CALLS = {number: status for number, status in enumerate(CallStatus, start=1)}


def _fill(store: SqlStore, run_id: str) -> None:
    accept_run(store, run_id)
    claim_run(store, run_id)
    store.steps.insert(run_id, 1, step_id=f"{run_id}.s0", name="main", phase="run", occurrence=1, now=NOW)
    for number, status in CALLS.items():
        store.calls.insert(
            new_call(
                number,
                tool_call_id=f"{run_id}.{number}",
                run_id=run_id,
                step_id=f"{run_id}.s0",
                key=CallKey("local", "send_mail", f"hash-{run_id}-{number}"),
                idempotency_key=f"key-{run_id}-{number}",
            ),
            NOW,
        )
        store.connection.write(
            "UPDATE tool_calls SET status = :status, same_as = CASE :status WHEN 'cancelled' THEN :other END, "
            "finished_at = CASE WHEN :status IN ('succeeded','failed','cancelled','abandoned') THEN :now END, "
            "response_ref = CASE WHEN :status = 'succeeded' THEN 'null' END WHERE tool_call_id = :id",
            {"status": status, "other": f"{run_id}.1", "now": NOW, "id": f"{run_id}.{number}"},
        )
        _ask(store, run_id, f"{run_id}.{number}")
    _ask(store, run_id, None)
    store.connection.write("UPDATE tool_calls SET attempt = 0 WHERE status IN ('awaiting_approval', 'prepared')", {})
    store.turns.bind((f"{run_id}.1", 0), f"{run_id}.2", store_authority(store, run_id), adopted=False)
    store.budgets.open(run_id)


def _ask(store: SqlStore, run_id: str, call: str | None) -> None:
    store.questions.ask(
        f"a-{call or run_id}", run_id=run_id, fence=1, tool_call_id=call, kind="approval", summary="?", now=NOW
    )


def store_authority(store: SqlStore, run_id: str) -> Any:
    """Return the right over a run as it is now."""
    row = store.runs.get(run_id)
    assert row is not None
    return row.authority


@pytest.fixture(scope="module")
def ledger(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ledger]:
    """A ledger with runs ``r1`` and ``r2``, both under fence 1, each with a call in every state."""
    made = open_ledger(Path(tmp_path_factory.mktemp("apart")) / "runtime_state.db")
    for run_id in ("r1", "r2"):
        made.run(lambda store, run_id=run_id: _fill(store, run_id))
    yield made
    made.close()


class Undone(Exception):
    """Takes a try back."""


def _rows(store: SqlStore, run_id: str) -> list[Any]:
    found: list[Any] = []
    for table in TABLES:
        column = "parent_call_id" if table == "turn_calls" else "run_id"
        found += store.connection.rows(f"SELECT * FROM {table} WHERE {column} GLOB :run", {"run": f"{run_id}*"})
    return found


def reaches(ledger: Ledger, sql: str, *, right_of: str, rows_of: str) -> bool:
    """Return whether a statement under the right of one run changes rows of a run, with whatever it is told of them."""

    def attempt(store: SqlStore) -> None:
        before = _rows(store, rows_of)
        for told in _told(sql, right_of, rows_of):
            store.connection.write("SAVEPOINT trial", {})
            try:
                store.connection.write(sql, told)
                changed = _rows(store, rows_of) != before
            except ConstraintViolated:
                changed = False
            store.connection.write("ROLLBACK TO trial", {})
            store.connection.write("RELEASE trial", {})
            if changed:
                raise Reached
        raise Undone

    try:
        ledger.run(attempt)
    except Reached:
        return True
    except Undone:
        return False
    raise AssertionError("a trial says what it found")


class Reached(Undone):
    """A row was changed."""


def _told(sql: str, right_of: str, rows_of: str) -> Iterator[Mapping[str, Any]]:
    """Yield everything that a statement could be told of the rows of a run."""
    names = set(re.findall(r"(?<![:\w]):(\w+)", sql))
    numbers = list(CALLS) if names & {"call_no", "tool_call_id", "approval_id"} else [1]
    states: list[Any] = [*CallStatus, *RunStatus, "answered"] if "status" in names else [None]
    first = 0 if rows_of == "r1" else len(CALLS)
    for number, status, moment in itertools.product(numbers, states, (None, LATER)):
        known: dict[str, Any] = {
            "run_id": right_of,
            "fence": 1,
            "call_no": first + number,
            "tool_call_id": f"{rows_of}.{number}",
            "parent_call_id": f"{rows_of}.1",
            "call_index": 3,
            "approval_id": f"a-{rows_of}.{number}",
            "step_id": f"{rows_of}.s0",
            "status": status,
            "to_status": CallStatus.PREPARED,
            "now": LATER,
            "deadline_at": LATER,
            "valid_until": LATER,
            "sha256": "s",
            "size_bytes": 1,
            "adopted": 1,
            "again": 1,
            "branch": "elsewhere",
            "left_open": StepStatus.FAILED,
            "kind": "in_doubt" if "approval_id" in names else "calls",
            "takeovers": 1,
            "tokens": 1,
            "usd_micros": 1,
            "count": 1,
            "settled": 1,
            "active_seconds": 1.0,
            **dict.fromkeys(("replayed", "challenged", "unmet"), 1),
            "finished_at": moment,
            **dict.fromkeys(("reason", "same_as", "repeat_of", "not_before")),
        }
        yield {name: known.get(name, f"x-{number}") for name in names}


CHANGING = {name: sql for name, sql in FENCED.items() if not sql.startswith("INSERT") or name == "bind_turn_call"}
NOT_IN_THESE_STATES = ("expire_run", "set_wait_reason", "forget_cancel")


@pytest.mark.parametrize("name", CHANGING)
def test_the_right_of_one_run_moves_no_row_of_another(ledger: Ledger, name: str) -> None:
    assert not reaches(ledger, CHANGING[name], right_of="r1", rows_of="r2")
    if name not in NOT_IN_THESE_STATES:
        assert reaches(ledger, CHANGING[name], right_of="r2", rows_of="r2")


@pytest.mark.parametrize("name", ["move_call", "start_call", "succeed_call", "move_step", "close_approval_of_call"])
def test_a_write_that_trusts_the_number_alone_reaches_another_run(ledger: Ledger, name: str) -> None:
    """The rule broken on purpose: what the statements said before they named their run."""
    trusting = CHANGING[name].replace("run_id = :run_id AND (SELECT", "(SELECT")
    assert trusting != CHANGING[name]
    assert reaches(ledger, trusting, right_of="r1", rows_of="r2")
