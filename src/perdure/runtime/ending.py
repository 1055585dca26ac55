"""How a life leaves its run: what is still open decides, whatever main returned or raised (semantics §2.2, R5)."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

from perdure.core.codec import encode_or_repr
from perdure.core.transitions import CallEvent, RunEvent, next_run_status
from perdure.model.errors import CallDenied, CallError, DeadlineExceeded, SimulationMissing
from perdure.model.run import RunStatus, StepStatus, WaitReason
from perdure.model.toolcall import CallRow, CallStatus
from perdure.runtime import cancelling, challenges, late_reply, left_out, limits, recording, stop_conditions
from perdure.runtime.actions import LIVING_SENDERS
from perdure.runtime.checkpointing import INTERRUPT, write_checkpoint
from perdure.runtime.lease import end_children
from perdure.runtime.life import Life
from perdure.runtime.raised import told_by
from perdure.runtime.steps import block_open_steps
from perdure.store.sql_store import SqlStore

_LOG = logging.getLogger("perdure")
_PRECEDENCE = (
    WaitReason.IN_DOUBT,
    WaitReason.APPROVAL,
    WaitReason.CHALLENGE,
    WaitReason.QUESTION,
    WaitReason.BUDGET,
    WaitReason.TIMER,
)


_ANSWERED_MEANWHILE = (
    *(WaitReason.IN_DOUBT, WaitReason.APPROVAL, WaitReason.CHALLENGE),
    *(WaitReason.BUDGET, WaitReason.QUESTION),
)
"""What a person can settle while the life that waits for it is on its way to its end."""


@dataclass(frozen=True, slots=True)
class Ending:
    """What main did: it returned ``result``, raised ``error``, or was ended because everything was parked."""

    result: Any = None
    error: BaseException | None = None
    suspended: bool = False


def end_life(life: Life, store: SqlStore, ending: Ending) -> None:
    """Write the end of this life in one transaction, and seal what it has settled."""
    _leave(life, store, ending)
    store.seals.seal(life.run_id, life.now())


def _leave(life: Life, store: SqlStore, ending: Ending) -> None:
    rows = [_sweep(life, store, row) for row in store.calls.open(life.run_id)]
    if life.cancel_asked:
        _cancel(life, store, rows, "cancelled")
        return
    _ask_what_is_left(life, store)
    problem = ending.error or life.refused
    reason = None if isinstance(problem, DeadlineExceeded) else _reason(life, store, rows)
    if reason is None and _lacks_value(life, store, problem):
        reason = WaitReason.QUESTION
    if reason is not None and store.endings.cancel_asked(life.run_id, life.fence):
        _cancel(life, store, rows, "cancelled")  # it would wait for ever otherwise: nobody drives it any more
        return
    if reason is not None:
        block_open_steps(life, store)
        _finish(life, store, RunEvent.PARK, reason=reason, how=f"waiting ({reason})")
        if reason in _ANSWERED_MEANWHILE and not store.questions.awaited(life.run_id):
            # What it waited for came while the life was being drained.
            store.runs.queue(life.authority, RunStatus.WAITING, life.now())
        return
    for row in rows:
        if row.status in (CallStatus.PREPARED, CallStatus.AWAITING_APPROVAL):
            recording.close_question(life, store, row, "the run ended without asking for it again")
            store.calls.move(row, CallEvent.WITHDRAWN, life.authority, life.now())
    # A limit that was reached, and whose caller gave up waiting: a run that has ended needs no grant.
    store.questions.close_of_run(life.authority, answer="the run ended without it", actor="perdure", now=life.now())
    problem = ending.error or life.refused or stop_conditions.at_the_end(life, store)
    if problem is None:
        _succeed(life, store, ending)
    else:
        _fail(life, store, problem)


def _cancel(life: Life, store: SqlStore, rows: list[CallRow], how: str) -> None:
    cancelling.cancel_life(life, store, rows)
    _finish(life, store, RunEvent.CANCEL, how=how)


def interrupt_life(life: Life, store: SqlStore) -> None:
    """Write in one transaction that a signal stopped this life: anybody may resume, and what was sent is in doubt."""
    open_rows = store.calls.open(life.run_id)
    cancelled = store.endings.cancel_asked(life.run_id, life.fence)
    for row in open_rows:
        left = recording.store_left_behind(life, store, row)
        if cancelled and left.status is CallStatus.IN_DOUBT:
            recording.ask_doubt(life, store, left, "the life was stopped before it was settled")
    step = life.open_steps[-1] if life.open_steps else life.root
    write_checkpoint(life, store, step, INTERRUPT)
    if cancelled:
        _cancel(life, store, store.calls.open(life.run_id), "interrupted")
        return
    store.budgets.charge_time(life.run_id, life.fence, active_seconds=limits.charge_time(life), now=life.now())
    how = _with_senders(life, "interrupted")
    store.runs.end_life(life.run_id, life.fence, how=how, now=life.now(), counts=life.counts())
    store.seals.seal(life.run_id, life.now())


def end_children_of_doubts(life: Life) -> None:
    """End, and wait for, what the tools of calls without an outcome have started, so that settling need not wait.

    Called when nothing of this life is in flight any more. In a process that lives other lives too, a child could be
    theirs; it is then left alone, and its quarantine stands.
    """

    def begun(store: SqlStore) -> list[str]:
        return [
            row.started_at
            for row in store.calls.open(life.run_id)
            if row.status is CallStatus.IN_DOUBT or (row.status is CallStatus.RUNNING and row.call_no in life.in_body)
            if life.began(row) and row.effectful and row.started_at is not None
        ]

    moments = life.ledger.read(begun)
    if moments:
        left = end_children(life.around.owner, since=min(moments))
        if left:
            _LOG.warning("run %s: process %s, which a tool has started, does not end", life.run_id, left[0])


def _with_senders(life: Life, how: str) -> str:
    sends = any(sender.run_id == life.run_id for sender in tuple(LIVING_SENDERS.values()))
    return how + "+sender" if sends else how


def _sweep(life: Life, store: SqlStore, row: CallRow) -> CallRow:
    """Leave no started row behind whose outcome nobody will record."""
    if row.status is CallStatus.RUNNING:
        row = recording.store_left_behind(life, store, row)
    if row.status is CallStatus.PREPARED:
        row = late_reply.settle(store, row, life.authority, life.now())
    if row.status is CallStatus.IN_DOUBT:
        recording.ask_doubt(life, store, row, "the life ended before it was settled")
    return row


def _ask_what_is_left(life: Life, store: SqlStore) -> None:
    for reason, row, against in life.parked_for:
        unmet = set(life.context.unmet())
        still = tuple(kin for kin in against if kin.call_no in unmet)
        if reason == WaitReason.CHALLENGE and row is not None and still:
            challenges.ask_challenge(life, store, row, still)


def _reason(life: Life, store: SqlStore, rows: list[CallRow]) -> WaitReason | None:
    if any(store.calls.get(row.call_no).status is CallStatus.IN_DOUBT for row in rows):
        return WaitReason.IN_DOUBT
    found = {WaitReason(reason) for reason, _, _ in life.parked_for}
    for reason in _PRECEDENCE:
        if reason in found:
            return reason
    return None


def _lacks_value(life: Life, store: SqlStore, problem: BaseException | None) -> bool:
    """Ask for what a person left out, where the program ended without it; a failed call is replayed in every life."""
    return problem is not None and call_behind(problem) is None and left_out.ask(life, store, problem)


def _succeed(life: Life, store: SqlStore, ending: Ending) -> None:
    text, exact = encode_or_repr(ending.result)
    if not exact:
        recording.warn_of_repr(life, "main", ending.result, where="main")
    store.steps.move(life.root.step_id, life.authority, StepStatus.SUCCEEDED, now=life.now())
    _skip_the_rest(life, store)
    _finish(life, store, RunEvent.RETURN, result=text, how="succeeded")


def _skip_the_rest(life: Life, store: SqlStore) -> None:
    """Steps that this life, the last one, has not entered, were skipped."""
    said = "the run ended without it"
    store.steps.close(
        life.run_id, life.fence, now=life.now(), left_open=StepStatus.SKIPPED, error_code=None, error_detail=said
    )


def _fail(life: Life, store: SqlStore, problem: BaseException) -> None:
    _LOG.info("run %s failed", life.run_id, exc_info=problem)
    code, detail = error_words(problem)
    store.steps.move(
        life.root.step_id, life.authority, StepStatus.FAILED, now=life.now(), error_code=code, error_detail=detail
    )
    _skip_the_rest(life, store)
    call = call_behind(problem)
    if call is not None:
        detail += left_out.hint(life, store)
    _finish(life, store, RunEvent.RAISE, error_code=code, error_detail=detail, ended_by=call, how="failed")


def _finish(
    life: Life,
    store: SqlStore,
    event: RunEvent,
    *,
    how: str,
    reason: str | None = None,
    result: str | None = None,
    error_code: str | None = None,
    error_detail: str | None = None,
    ended_by: str | None = None,
) -> None:
    unmet = unmet_effects(life, store)
    store.runs.end(
        life.run_id,
        life.fence,
        status=next_run_status(RunStatus.RUNNING, event),
        reason=reason,
        now=life.now(),
        result=result,
        error_code=error_code,
        error_detail=error_detail,
        ended_by=ended_by,
        active_seconds=limits.charge_time(life),
    )
    how = _with_senders(life, how)
    store.runs.end_life(life.run_id, life.fence, how=how, now=life.now(), counts=life.counts(unmet))


def unmet_effects(life: Life, store: SqlStore) -> list[CallRow]:
    """Return effects done by an earlier life and not asked for by the program, if this one has entered it (R5)."""
    if not life.entered:
        return []
    rows = (store.calls.get(call_no) for call_no in life.context.never_told())
    own = (row for row in rows if row.run_id == life.run_id)  # what a parent did later is no concern of a fork's end
    return [row for row in own if row.effectful and row.status is CallStatus.SUCCEEDED]


def call_behind(problem: BaseException | None) -> str | None:
    """Return the id of the call whose error escaped, looking through ``raise … from``."""
    while problem is not None:
        if isinstance(problem, CallError) and problem.tool_call_id is not None:
            return problem.tool_call_id
        problem = problem.__cause__
    return None


def error_words(problem: BaseException) -> tuple[str, str]:
    """Return the code and the sentence that stand in the run's row."""
    if isinstance(problem, DeadlineExceeded):
        return "deadline", str(problem)
    if isinstance(problem, CallDenied):
        return "denied", str(problem)
    if isinstance(problem, SimulationMissing):
        return "simulation_missing", str(problem)
    return type(problem).__name__, told_by(problem)
