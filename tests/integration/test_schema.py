"""The schema as people read it: tables, columns, views that only grow, and the indexes that their questions use."""

from __future__ import annotations

import json
from pathlib import Path

import apsw
import pytest

from perdure.core.identity import idempotency_key
from perdure.model.errors import ConstraintViolated
from perdure.model.toolcall import CallKey
from perdure.ports.clock import SystemClock
from perdure.store.migrate import shipped_migrations
from perdure.store.open import open_store
from tests.integration.store_support import new_call, open_ledger, rows_of, seed

V_CALLS = [
    "call_no",
    "tool_call_id",
    "run_id",
    "step_id",
    "tool_namespace",
    "tool_name",
    "raw_tool_name",
    "side_effect_class",
    "replay_policy",
    "guarantee",
    "status",
    "attempt",
    "occurrence",
    "idempotency_key",
    "effect_scope",
    "external_correlation_id",
    "prepared_at",
    "started_at",
    "finished_at",
    "error_code",
    "error_detail",
    "step_name",
    "phase",
    "seconds",
    "parent_call_id",
    "handle",
    "policy_rule",
    "dedupe_key",
    "repeat_of",
    "same_as",
    "not_before",
    "key_expires_at",
]
V_RUNS = [
    "run_id",
    "name",
    "status",
    "reason",
    "attempt",
    "created_at",
    "updated_at",
    "error_code",
    "error_detail",
    "workspace",
    "calls",
    "entrypoint",
    "deadline_at",
    "active_seconds",
    "life_started_at",
    "life_ended_at",
    "life_ended_how",
    "owner_pid",
    "owner_host",
    "lease_expires_at",
    "step_name",
    "phase",
    "steps",
    "effects",
    "in_doubt",
    "questions",
    "artifacts",
    "max_active_minutes",
    "max_steps",
    "max_tool_calls",
]


@pytest.fixture(scope="module")
def ledger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ledger file with one run and one call."""
    path = tmp_path_factory.mktemp("schema") / "runtime_state.db"
    ledger = open_ledger(path)
    ledger.run(lambda store: (seed(store), store.calls.insert(new_call(1), "2026-11-22T10:00:00.000000Z")))
    ledger.close()
    return path


def columns_of(path: Path, table: str) -> dict[str, tuple[str, bool]]:
    """Return each column of a table or view in its order, with its type and whether it may not be NULL."""
    return {row[1]: (row[2], bool(row[3])) for row in rows_of(path, f"PRAGMA table_info({table})")}


def plan(path: Path, question: str) -> str:
    """Return how SQLite would answer a question."""
    return "\n".join(row[3] for row in rows_of(path, f"EXPLAIN QUERY PLAN {question}"))


@pytest.mark.parametrize(("view", "promised"), [("v_calls", V_CALLS), ("v_effects", V_CALLS), ("v_runs", V_RUNS)])
def test_the_columns_of_a_view_keep_their_place_and_new_ones_come_after_them(
    ledger: Path, view: str, promised: list[str]
) -> None:
    assert list(columns_of(ledger, view))[: len(promised)] == promised


def test_a_view_tells_what_its_tables_hold(ledger: Path) -> None:
    (run,) = rows_of(ledger, "SELECT run_id, status, calls, owner_pid, steps, effects, in_doubt FROM v_runs")
    assert run == ("r1", "running", 1, 1, 1, 0, 0)
    assert rows_of(ledger, "SELECT tool_call_id, status, seconds FROM v_effects") == [("r1.1", "running", None)]


@pytest.mark.parametrize(
    ("question", "index"),
    [
        (
            "SELECT * FROM tool_calls WHERE run_id = 'r1' AND step_id = 'r1.s0'",
            "idx_tool_calls_run_step (run_id=? AND step_id=?)",
        ),
        ("SELECT * FROM run_steps WHERE run_id = 'r1' ORDER BY step_index", "idx_run_steps_run (run_id=?)"),
        ("SELECT * FROM v_calls WHERE run_id = 'r1'", "(run_id=?)"),
        ("SELECT * FROM v_effects WHERE run_id = 'r1' AND status = 'succeeded'", "(run_id=?)"),
        ("SELECT * FROM v_calls WHERE tool_call_id = 'r1.1'", "(tool_call_id=?)"),
        ("SELECT * FROM v_runs WHERE run_id = 'r1'", "(run_id=?)"),
        ("SELECT * FROM v_runs WHERE status = 'waiting'", "idx_runs_status (status=?)"),
        (
            "SELECT * FROM tool_calls WHERE run_id = 'r1' AND status IN ('prepared','awaiting_approval','running','in_doubt')",
            "idx_tool_calls_open (run_id=?",
        ),
        ("SELECT * FROM evidence WHERE tool_call_id = 'r1.1'", "idx_evidence_call (tool_call_id=?)"),
        ("SELECT * FROM approvals WHERE status = 'open' AND run_id = 'r1'", "idx_approvals_open (run_id=?)"),
        (
            "SELECT run_id FROM runs WHERE run_id >= 'r' AND run_id < 'r' || char(1114111) ORDER BY run_no DESC LIMIT 5",
            "(run_id>? AND run_id<?)",
        ),
    ],
)
def test_what_people_ask_by_run_step_or_call_is_answered_by_an_index(ledger: Path, question: str, index: str) -> None:
    found = plan(ledger, question)
    assert index in found
    assert "SCAN tool_calls" not in found
    assert "SCAN c" not in found.splitlines()
    assert "SCAN run_steps" not in found


def test_foreign_keys_are_on_and_a_row_without_its_run_or_step_is_refused(ledger: Path) -> None:
    store = open_store(str(ledger), SystemClock())
    try:
        assert list(store.connection.rows("PRAGMA foreign_keys", {})) == [(1,)]
        targets = {row[2:5] for row in store.connection.rows("PRAGMA foreign_key_list(tool_calls)", {})}
        assert {("runs", "run_id", "run_id"), ("run_steps", "step_id", "step_id")} <= targets
        for column in ("run_id", "step_id"):
            with pytest.raises(ConstraintViolated, match="FOREIGN KEY constraint failed"):
                store.connection.write(f"UPDATE tool_calls SET {column} = 'nobody'", {})
    finally:
        store.connection.close()
    assert rows_of(ledger, "PRAGMA foreign_key_check") == []


REQUIRED = {
    "runs": "run_id created_at updated_at status entrypoint run_spec_json",
    "run_steps": "step_id run_id step_index created_at updated_at status phase",
    "tool_calls": (
        "tool_call_id run_id step_id created_at updated_at tool_name tool_namespace side_effect_class "
        "normalized_args_hash idempotency_key status attempt"
    ),
    "checkpoints": "checkpoint_id run_id step_id created_at checkpoint_type state_snapshot_json",
}
"""Columns of document 000 §5 that may not be NULL."""
OPTIONAL = {
    "runs": "current_step_id last_checkpoint_id final_artifact_ref",
    "run_steps": "output_ref",
    "tool_calls": "request_ref response_ref external_correlation_id error_code error_detail",
    "checkpoints": "cursor_json",
}


@pytest.mark.parametrize("table", REQUIRED)
def test_a_table_has_the_columns_that_it_must_have_and_what_must_be_there_cannot_be_null(
    ledger: Path, table: str
) -> None:
    found = columns_of(ledger, table)
    assert [name for name in REQUIRED[table].split() if not found[name][1]] == []
    assert set(OPTIONAL[table].split()) <= set(found)


def test_the_store_holds_its_own_tables_only(ledger: Path) -> None:
    """R012: a file of its own at the path that was asked for, and nothing of anybody else in it."""
    migrations = "".join(step.sql for step in shipped_migrations())
    tables = {row[0] for row in rows_of(ledger, "SELECT name FROM sqlite_master WHERE type = 'table'")}
    assert {name for name in tables if f"CREATE TABLE {name} " not in migrations} == {"schema_migrations"}
    assert ledger.name == "runtime_state.db"


@pytest.mark.parametrize(
    ("column", "value"),
    [("run_spec_json", '{"name": "another"}'), ("run_spec_hash", "other"), ("run_id", "r2")],
)
def test_a_specification_cannot_be_changed_after_it_was_accepted(tmp_path: Path, column: str, value: str) -> None:
    path = tmp_path / "runtime_state.db"
    ledger = open_ledger(path)
    ledger.run(seed)
    ledger.close()
    with apsw.Connection(str(path)) as other, pytest.raises(apsw.ConstraintError, match="immutable"):
        other.execute("PRAGMA foreign_keys = off")
        other.execute(f"UPDATE runs SET {column} = ?", [value])
    assert rows_of(path, "SELECT run_id, run_spec_json, run_spec_hash FROM runs") == [("r1", '{"name":"a run"}', "h")]


@pytest.mark.parametrize("word", ["internet", "EXTERNAL", "", None])
def test_a_class_that_is_none_of_the_four_is_refused_by_the_database(ledger: Path, word: str | None) -> None:
    with apsw.Connection(str(ledger)) as other, pytest.raises(apsw.ConstraintError):
        other.execute("UPDATE tool_calls SET side_effect_class = ?", [word])


@pytest.mark.parametrize("namespace", ["composio", "mcp", "local", "claude_code", "gmail"])
def test_the_namespace_is_stored_and_tells_two_equal_calls_apart(tmp_path: Path, namespace: str) -> None:
    path = tmp_path / "runtime_state.db"
    ledger = open_ledger(path)
    key = CallKey(namespace, "send_mail", "hash-1")
    ledger.run(lambda store: (seed(store), store.calls.insert(new_call(1, key=key), "2026-11-22T10:00:00.000000Z")))
    ledger.close()
    assert rows_of(path, "SELECT tool_namespace FROM tool_calls") == [(namespace,)]
    other = key._replace(namespace="somewhere else")
    assert idempotency_key("l", "r1", key, None, 1) != idempotency_key("l", "r1", other, None, 1)


def test_the_numbers_of_a_run_stand_in_its_view(tmp_path: Path) -> None:
    path = tmp_path / "runtime_state.db"
    ledger = open_ledger(path)
    spec = {"name": "n", "budgets": {"max_tool_calls": 7, "max_steps": 3, "max_wallclock_minutes": 90}}

    def put(store: object) -> None:
        store.runs.insert(  # type: ignore[attr-defined]
            run_id="r1", name="n", now="2026-11-22T10:00:00.000000Z", entrypoint="cli", spec=json.dumps(spec),
            spec_hash="h", job_path=None, workspace="/nowhere", deadline_at=None,
        )  # fmt: skip

    ledger.run(put)
    ledger.close()
    found = rows_of(path, "SELECT max_tool_calls, max_steps, max_active_minutes, active_seconds, phase FROM v_runs")
    assert found == [(7, 3, 90, 0.0, None)]
