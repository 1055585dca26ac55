"""A store on a real file with one claimed run, and rows to put into it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import apsw

from perdure.model.run import Owner
from perdure.model.toolcall import CallKey, CallStatus, ReplayPolicy, SideEffectClass
from perdure.ports.clock import SystemClock
from perdure.runtime.ledger import Ledger
from perdure.store.calls import NewCall
from perdure.store.open import open_store
from perdure.store.sql_store import SqlStore

NOW = "2026-11-22T10:00:00.000000Z"
LATER = "2026-11-22T10:30:00.000000Z"
OWNER = Owner(host="here", boot_id="b", pid=1, start_time=1)
KEY = CallKey("local", "send_mail", "hash-1")


def open_ledger(path: Path) -> Ledger:
    """Open the ledger of a test."""
    return Ledger(open_store(str(path), SystemClock()))


def accept_run(store: SqlStore, run_id: str = "r1") -> None:
    """Insert a queued run."""
    store.runs.insert(
        run_id=run_id,
        name="a run",
        now=NOW,
        entrypoint="library",
        spec='{"name":"a run"}',
        spec_hash="h",
        job_path=None,
        workspace="/nowhere",
        deadline_at=None,
    )


def claim_run(store: SqlStore, run_id: str = "r1") -> int:
    """Begin a life of a run and return its fence."""
    row = store.runs.get(run_id)
    assert row is not None
    return store.runs.claim(row, OWNER, now=NOW, expires=LATER)


def seed(store: SqlStore) -> int:
    """Make run ``r1`` with its root step and return the fence of its first life."""
    accept_run(store)
    fence = claim_run(store)
    store.steps.insert("r1", fence, step_id="r1.s0", name="main", phase="run", occurrence=1, now=NOW)
    return fence


def new_call(number: int, **changes: Any) -> NewCall:
    """Return a started call of run ``r1``."""
    made = NewCall(
        tool_call_id=f"r1.{number}",
        run_id="r1",
        step_id="r1.s0",
        key=KEY,
        raw_tool_name="send_mail",
        side_effect_class=SideEffectClass.EXTERNAL,
        replay_policy=ReplayPolicy.ASK,
        guarantee="ask",
        policy_rule=None,
        effect_scope=None,
        occurrence=number,
        idempotency_key=f"key-{number}",
        dedupe_key=None,
        status=CallStatus.RUNNING,
        fence=1,
        branch="0",
        parent_call_id=None,
        repeat_of=None,
        request="{}",
    )
    return replace(made, **changes)


def rows_of(path: Path, sql: str) -> list[tuple[Any, ...]]:
    """Read the file with a connection of one's own, as anybody may."""
    with apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY) as other:
        return [tuple(row) for row in other.execute(sql)]


def everything(path: Path) -> dict[str, list[tuple[Any, ...]]]:
    """Return all rows of all tables."""
    tables = [name for (name,) in rows_of(path, "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")]
    return {name: rows_of(path, f"SELECT * FROM {name}") for name in tables}
