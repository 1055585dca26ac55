"""A deadline that passes while nobody drives the run: whoever touches the ledger next applies it (semantics #39)."""

from __future__ import annotations

from perdure.core.transitions import CallEvent, RunEvent, next_run_status
from perdure.model.run import RunRow, RunStatus
from perdure.model.toolcall import DENIED, CallStatus
from perdure.runtime import cancelling
from perdure.runtime.life import Surroundings
from perdure.store.sql_store import SqlStore

EXPIRED = "it expired: "
"""How the reason of a call begins whose approval came to its end with the deadline."""


def end_overdue_runs(around: Surroundings) -> None:
    """End every waiting run whose absolute deadline has passed; what is in doubt stays in the inbox."""
    now = around.clock.now()
    if around.ledger.read(lambda store: store.runs.overdue(now)):
        around.observer.ended(around.ledger.run(lambda store: _end_all(around, store, now)))


def _end_all(around: Surroundings, store: SqlStore, now: str) -> list[str]:
    overdue = store.runs.overdue(now)
    for run in overdue:
        _end(around, store, run, now)
    return [run.run_id for run in overdue]


def _end(around: Surroundings, store: SqlStore, run: RunRow, now: str) -> None:
    said = f"the deadline {run.deadline_at} passed while the run waited"
    for known in store.calls.open(run.run_id):
        # What a dead process has left running was settled by nobody if no life began since (crash_loop, on_change).
        row = cancelling.leave_doubt(around, store, known, run.authority, now, said)
        if row.status is CallStatus.AWAITING_APPROVAL:
            store.calls.move(
                row, CallEvent.REFUSED, run.authority, now, error_code=DENIED, error_detail=f"{EXPIRED}{said}"
            )
            store.questions.close_of_call(row.tool_call_id, run.authority, answer="expired", actor="perdure", now=now)
        elif row.status is CallStatus.PREPARED:
            cancelling.withdraw(store, row, run.authority, now)
    store.questions.close_of_run(run.authority, answer="expired", actor="perdure", now=now)
    next_run_status(RunStatus.WAITING, RunEvent.RAISE)
    store.runs.expire(run.run_id, run.lease_fence, now=now, error_detail=said)
    store.seals.seal(run.run_id, now)
