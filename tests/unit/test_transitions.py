"""The tables of the state machines: every pair of state and event, the schema's words, and what can be reached.

The expectation is written out once more, line by line, so that a change of the table is a change of two places.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any

import apsw
import pytest

from perdure.core.transitions import (
    CALL_TRANSITIONS,
    RUN_TRANSITIONS,
    CallEvent,
    IllegalTransition,
    RunEvent,
    next_call_status,
    next_run_status,
)
from perdure.model.run import RunStatus, StepStatus, WaitReason
from perdure.model.toolcall import CallStatus, ReplayPolicy, SideEffectClass
from perdure.store.migrate import shipped_migrations

CALL_LINES = """
prepared           dispatch      running
prepared           ask_approval  awaiting_approval
prepared           refused       failed
prepared           withdrawn     cancelled
prepared           same_as       cancelled
prepared           done          succeeded
awaiting_approval  approved      prepared
awaiting_approval  refused       failed
awaiting_approval  same_as       cancelled
awaiting_approval  withdrawn     cancelled
running            done          succeeded
running            not_done      prepared
running            failed        failed
running            lost          in_doubt
running            rerun         prepared
in_doubt           done          succeeded
in_doubt           send_again    running
in_doubt           not_done      prepared
in_doubt           failed        failed
in_doubt           give_up       abandoned
failed             reopen        prepared
"""
RUN_LINES = """
queued   claim     running
queued   cancel    cancelled
running  claim     running
running  park      waiting
running  return    succeeded
running  raise     failed
running  cancel    cancelled
waiting  raise     failed
waiting  answered  queued
waiting  resume    queued
waiting  cancel    cancelled
failed   resume    queued
"""


def table_of(lines: str) -> dict[tuple[str, str], str]:
    """Read one of the tables above."""
    parts = (line.split() for line in lines.strip().splitlines())
    return {(state, event): to for state, event, to in parts}


@pytest.mark.parametrize(("status", "event"), [*itertools.product(CallStatus, CallEvent)])
def test_every_event_in_every_state_of_a_call(status: CallStatus, event: CallEvent) -> None:
    expected = table_of(CALL_LINES).get((status, event))
    if expected is None:
        with pytest.raises(IllegalTransition, match=rf"{status} cannot meet the event {event}"):
            next_call_status(status, event)
    else:
        assert next_call_status(status, event) == expected


@pytest.mark.parametrize(("status", "event"), [*itertools.product(RunStatus, RunEvent)])
def test_every_event_in_every_state_of_a_run(status: RunStatus, event: RunEvent) -> None:
    expected = table_of(RUN_LINES).get((status, event))
    if expected is None:
        with pytest.raises(IllegalTransition, match=rf"{status} cannot meet the event {event}"):
            next_run_status(status, event)
    else:
        assert next_run_status(status, event) == expected


def reached(start: Iterable[Any], table: Mapping[tuple[Any, Any], Any]) -> set[Any]:
    """Return the states that can be reached from ``start``, itself included."""
    found, left = set(start), list(start)
    while left:
        state = left.pop()
        for (source, _), target in table.items():
            if source == state and target not in found:
                found.add(target)
                left.append(target)
    return found


def test_every_state_is_reached() -> None:
    assert reached([CallStatus.PREPARED], CALL_TRANSITIONS) == set(CallStatus)
    assert reached([RunStatus.QUEUED], RUN_TRANSITIONS) == set(RunStatus)


@pytest.mark.parametrize("status", CallStatus)
def test_every_call_can_come_to_an_end(status: CallStatus) -> None:
    assert any(end.settled for end in reached([status], CALL_TRANSITIONS))


@pytest.mark.parametrize("status", RunStatus)
def test_every_run_can_come_to_an_end(status: RunStatus) -> None:
    assert any(end.ended for end in reached([status], RUN_TRANSITIONS))


def test_a_settled_call_moves_only_when_its_failure_is_reopened() -> None:
    moves = {(status, event) for status, event in CALL_TRANSITIONS if status.settled}
    assert moves == {(CallStatus.FAILED, CallEvent.REOPEN)}


def test_an_ended_run_moves_only_by_an_explicit_resume_of_a_failed_one() -> None:
    moves = {(status, event) for status, event in RUN_TRANSITIONS if status.ended}
    assert moves == {(RunStatus.FAILED, RunEvent.RESUME)}


def test_a_doubt_ends_in_evidence_a_resend_or_a_verdict_and_in_nothing_else() -> None:
    ways = {event for status, event in CALL_TRANSITIONS if status is CallStatus.IN_DOUBT}
    assert ways == {
        CallEvent.DONE,
        CallEvent.SEND_AGAIN,
        CallEvent.NOT_DONE,
        CallEvent.FAILED,
        CallEvent.GIVE_UP,
    }


def test_only_a_started_call_succeeds() -> None:
    sources = {status for (status, _), target in CALL_TRANSITIONS.items() if target is CallStatus.SUCCEEDED}
    assert sources == {CallStatus.RUNNING, CallStatus.IN_DOUBT, CallStatus.PREPARED}
    # Prepared it is again when it was taken for not done; one that was never started is refused by the rows themselves.
    schema = "".join(step.sql for step in shipped_migrations())
    assert "status NOT IN ('running','in_doubt','succeeded') OR started_at IS NOT NULL" in schema


@pytest.mark.parametrize("event", CallEvent)
def test_every_event_of_a_call_can_happen(event: CallEvent) -> None:
    assert any(happened is event for _, happened in CALL_TRANSITIONS)


@pytest.mark.parametrize("event", RunEvent)
def test_every_event_of_a_run_can_happen(event: RunEvent) -> None:
    assert any(happened is event for _, happened in RUN_TRANSITIONS)


# --- the schema says the same words ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def database() -> apsw.Connection:
    """A ledger in memory with the shipped schema and nothing else."""
    made = apsw.Connection(":memory:")
    for step in shipped_migrations():
        made.execute(step.sql)
    return made


def words_of(database: apsw.Connection, table: str, column: str) -> set[str]:
    """Return the words that the column's CHECK names."""
    sql = str(next(iter(database.execute("SELECT sql FROM sqlite_master WHERE name = ?", (table,))))[0])
    found = re.search(rf"^\s*{column} TEXT[^\n]*CHECK \([^()]*IN\s*\(([^)]*)\)", sql, flags=re.MULTILINE)
    assert found is not None, f"{table}.{column} has no CHECK of words"
    return set(re.findall(r"'([^']*)'", found.group(1)))


@pytest.mark.parametrize(
    ("table", "column", "words"),
    [
        ("runs", "status", RunStatus),
        ("runs", "reason", WaitReason),
        ("run_steps", "status", StepStatus),
        ("tool_calls", "status", CallStatus),
        ("tool_calls", "side_effect_class", SideEffectClass),
        ("tool_calls", "replay_policy", ReplayPolicy),
    ],
)
def test_the_words_of_the_schema_are_those_of_the_model(
    database: apsw.Connection, table: str, column: str, words: type[StrEnum]
) -> None:
    assert words_of(database, table, column) == {str(word) for word in words}


def test_the_tables_use_all_words_of_the_schema(database: apsw.Connection) -> None:
    moved = {status for pair, target in CALL_TRANSITIONS.items() for status in (pair[0], target)}
    assert {str(status) for status in moved} == words_of(database, "tool_calls", "status")
    ran = {status for pair, target in RUN_TRANSITIONS.items() for status in (pair[0], target)}
    assert {str(status) for status in ran} == words_of(database, "runs", "status")


def put_run(database: apsw.Connection, **changes: Any) -> None:
    """Insert a run and undo it."""
    fields = {
        "run_id": "r1",
        "name": "n",
        "created_at": "t",
        "updated_at": "t",
        "status": "queued",
        "reason": None,
        "entrypoint": "library",
        "run_spec_json": "{}",
        "run_spec_hash": "h",
        "workspace": "w",
        **changes,
    }
    names = ", ".join(fields)
    values = ", ".join(f":{name}" for name in fields)
    with pytest.raises(Undone), database:
        database.execute(f"INSERT INTO runs ({names}) VALUES ({values})", fields)
        raise Undone


class Undone(Exception):
    """Rolls the insert back."""


@pytest.mark.parametrize("status", RunStatus)
def test_a_run_has_a_reason_exactly_when_it_waits(database: apsw.Connection, status: RunStatus) -> None:
    waits = status is RunStatus.WAITING
    put_run(database, status=str(status), reason="timer" if waits else None)
    with pytest.raises(apsw.ConstraintError, match="CHECK"):
        database.execute(
            "INSERT INTO runs (run_id, name, created_at, updated_at, status, reason, entrypoint, run_spec_json, "
            "run_spec_hash, workspace) VALUES ('r', 'n', 't', 't', ?, ?, 'x', '{}', 'h', 'w')",
            (str(status), None if waits else "timer"),
        )


def test_the_public_view_of_activities_knows_every_state(database: apsw.Connection) -> None:
    sql = str(next(iter(database.execute("SELECT sql FROM sqlite_master WHERE name = 'activity_log'")))[0])
    assert set(re.findall(r"'(INTENT|DONE|FAILED)'", sql)) == {"INTENT", "DONE", "FAILED"}
    named = set(re.findall(r"WHEN '(\w+)'", sql))
    assert named <= {str(status) for status in CallStatus}
