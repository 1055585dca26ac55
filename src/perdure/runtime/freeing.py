"""A run that waits becomes claimable in the transaction that brings what it waited for (semantics #28)."""

from __future__ import annotations

from perdure.model.run import RunStatus, WaitReason
from perdure.store.sql_store import SqlStore


def let_the_run_go_on(store: SqlStore, run_id: str, now: str) -> None:
    """Make a waiting run claimable where nothing is asked any more, or say what it still waits for (semantics #28)."""
    run = store.runs.get(run_id)
    if run is None or run.status is not RunStatus.WAITING or run.reason == WaitReason.CRASH_LOOP:
        return  # a run that crashes on and on goes on when a person says so, whatever else was answered
    still_open = store.questions.awaited(run_id)
    if not still_open:
        store.runs.queue(run.authority, RunStatus.WAITING, now)
    else:
        kinds = {question.kind for question in still_open}
        store.runs.set_reason(run.authority, "in_doubt" if "in_doubt" in kinds else still_open[0].kind, now)
