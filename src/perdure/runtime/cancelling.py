"""The end of a run that somebody asks for (semantics §2.2, #39).

Nobody drives it: it is cancelled at once, in one transaction. A living process drives it: the wish is written, and that
process sees it at its next heartbeat or its next start, whichever is first; what is in flight is recorded before it
ends. What is in doubt stays in the inbox in both cases.
"""

from __future__ import annotations

import json

from perdure.core.transitions import CallEvent, RunEvent, next_run_status
from perdure.model.errors import NotFound
from perdure.model.run import Authority, RunRow, RunStatus, StepStatus
from perdure.model.toolcall import CallRow, CallStatus, Evidence
from perdure.ports.clock import after, parse_time
from perdure.runtime import late_reply, recording
from perdure.runtime.lease import OTHER_HOST_MARGIN_SECONDS, Liveness, liveness
from perdure.runtime.life import Life, Surroundings
from perdure.runtime.naming import named
from perdure.store.runs import LifeCounts, owner_from_text
from perdure.store.sql_store import SqlStore

CANCELLED = "cancelled"


def cancel(around: Surroundings, store: SqlStore, run_id: str, *, actor: str, reason: str) -> RunRow:
    """Cancel a run, or let its living owner know that it is to end, and return its row as it is then.

    A run that has ended stays as it ended.

    Raises:
        NotFound: there is no such run.
    """
    row = store.runs.get(run_id)
    if row is None:
        raise NotFound(f"there is no run {run_id!r}")
    if row.status.ended:
        return row
    if is_driven(store, row, around.clock.now()):
        store.endings.ask_cancel(row, now=around.clock.now(), actor=actor, reason=reason)
    else:
        _cancel_now(around, store, row, actor=actor, reason=reason)
    return store.runs.get(run_id) or row


def is_driven(store: SqlStore, row: RunRow, now: str) -> bool:
    """Return whether a process may still be at work on a run; of one on another host only its lease can tell."""
    if row.status is not RunStatus.RUNNING or row.lease_owner is None:
        return False
    owner = owner_from_text(row.lease_owner)
    state = liveness(owner)
    if state is Liveness.ALIVE:
        return not store.runs.has_left(row, owner)
    if state is Liveness.UNKNOWN and row.lease_expires_at is not None:
        return parse_time(now) < parse_time(after(row.lease_expires_at, OTHER_HOST_MARGIN_SECONDS))
    return False


def finish_asked(around: Surroundings) -> None:
    """Cancel the runs whose owner has died before it saw that it should end them."""
    if around.ledger.read(lambda store: store.endings.to_cancel()):
        around.observer.ended(around.ledger.run(lambda store: _finish_all(around, store)))


def _finish_all(around: Surroundings, store: SqlStore) -> list[str]:
    return [row.run_id for row in store.endings.to_cancel() if finish(around, store, row)]


def finish(around: Surroundings, store: SqlStore, row: RunRow) -> bool:
    """Cancel a run for which somebody has asked, if nobody drives it any more; return whether it was cancelled."""
    asked = store.endings.cancel_of(row.run_id)
    if asked is None or row.status is not RunStatus.RUNNING or is_driven(store, row, around.clock.now()):
        return False
    _cancel_now(around, store, row, actor=asked.actor, reason=asked.reason)
    return True


def _cancel_now(around: Surroundings, store: SqlStore, row: RunRow, *, actor: str, reason: str) -> None:
    next_run_status(row.status, RunEvent.CANCEL)
    now = around.clock.now()
    authority = store.endings.cancel(row, now=now, actor=actor, reason=reason)
    for call in store.calls.open(row.run_id):
        _end_call(around, store, call, authority, now)
    _close(store, authority, now, _said(actor, reason))
    if row.status is RunStatus.RUNNING:
        store.runs.end_life(row.run_id, row.lease_fence, how="crashed", now=now, counts=LifeCounts())
    store.seals.seal(row.run_id, now)


def _said(actor: str, reason: str) -> str:
    return f"{actor} cancelled the run" + (f": {reason}" if reason else "")


def _close(store: SqlStore, authority: Authority, now: str, said: str) -> None:
    store.questions.close_of_run(authority, answer=said, actor="perdure", now=now)
    run_id, fence = authority
    store.steps.close(run_id, fence, now=now, left_open=StepStatus.FAILED, error_code=CANCELLED, error_detail=said)


def _end_call(around: Surroundings, store: SqlStore, row: CallRow, authority: Authority, now: str) -> None:
    row = leave_doubt(around, store, row, authority, now, "the run was cancelled before anybody could tell")
    if not row.status.settled and row.status is not CallStatus.IN_DOUBT:
        withdraw(store, row, authority, now)


def leave_doubt(
    around: Surroundings, store: SqlStore, row: CallRow, authority: Authority, now: str, why: str
) -> CallRow:
    """Put a call that a dead process had started into the inbox, where only a person can tell, and return its row.

    Args:
        why: nobody else will.
    """
    if row.status is CallStatus.RUNNING:
        if row.effectful:
            lost = Evidence("attempt", now, "perdure", row.attempt, "lost", recording.SENDER_GONE)
            store.calls.add_evidence(row.tool_call_id, lost)
        store.calls.move(row, CallEvent.LOST if row.effectful else CallEvent.RERUN, authority, now)
        row = store.calls.get(row.call_no)
    if row.status is CallStatus.IN_DOUBT:
        _ask_doubt(around, store, row, authority, now, why)
    return store.calls.get(row.call_no)


def withdraw(store: SqlStore, row: CallRow, authority: Authority, now: str) -> None:
    """Take back a call that was never started, or was not done, and what was asked about it."""
    if late_reply.settle(store, row, authority, now).status is CallStatus.SUCCEEDED:
        return
    store.questions.close_of_call(row.tool_call_id, authority, answer="the run was cancelled", actor="perdure", now=now)
    store.calls.move(row, CallEvent.WITHDRAWN, authority, now)


def _ask_doubt(around: Surroundings, store: SqlStore, row: CallRow, authority: Authority, now: str, why: str) -> None:
    """Settle a doubt by the late reply of its sender, or leave it in the inbox."""
    if late_reply.settle(store, row, authority, now).status is CallStatus.SUCCEEDED:
        return
    if store.questions.open_of_call(row.tool_call_id) is None:
        store.questions.ask(
            "a" + around.new_token(),
            run_id=row.run_id,
            fence=authority.fence,
            tool_call_id=row.tool_call_id,
            kind="in_doubt",
            summary=f"{named(store, row)}: did it happen? {why}",
            detail=json.dumps({"attempt": row.attempt}),
            request_hash=row.args_hash,
            now=now,
        )


def cancel_life(life: Life, store: SqlStore, rows: list[CallRow]) -> None:
    """End a run from inside, because its owner has seen that somebody wants it: all it had in flight is recorded.

    Args:
        rows: those that were open; what is in doubt among them stays in the inbox.
    """
    asked = store.endings.cancel_of(life.run_id)
    now = life.now()
    for row in rows:
        current = store.calls.get(row.call_no)
        if current.status in (CallStatus.PREPARED, CallStatus.AWAITING_APPROVAL):
            withdraw(store, current, life.authority, now)
    said = _said(asked.actor, asked.reason) if asked is not None else "the run was cancelled"
    _close(store, life.authority, now, said)
