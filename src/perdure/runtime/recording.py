"""Write what an attempt gave back: a receipt, a definite failure, or a doubt."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from perdure.core.backoff import delay_seconds
from perdure.core.codec import encode_or_repr, unstorable_part
from perdure.core.transitions import CallEvent
from perdure.model.errors import CallError, ConstraintViolated, LeaseLost, PerdureError
from perdure.model.run import RunStatus
from perdure.model.toolcall import INNER_NAMESPACES, CallRow, CallStatus, Evidence, ReplayPolicy
from perdure.ports.clock import after
from perdure.ports.tool import ToolFailed
from perdure.runtime import artifacts, escalations, late_reply
from perdure.runtime.actions import Ended, Outcome
from perdure.runtime.freeing import let_the_run_go_on
from perdure.runtime.life import Life
from perdure.runtime.naming import named
from perdure.runtime.raised import said_by
from perdure.runtime.returned import returned_type
from perdure.store.questions import NOTICE_KIND
from perdure.store.sql_store import SqlStore


@dataclass(frozen=True, slots=True)
class Receipt:
    """A value as it is stored."""

    text: str
    ref: str | None


def receipt_of(life: Life, row: CallRow, outcome: Outcome) -> Receipt:
    """Return the receipt of a value, warning once where it has no JSON form."""
    text, exact = encode_or_repr(outcome.value)
    if not exact:
        name = f"{row.tool_namespace} {row.tool_name}" if row.tool_namespace in INNER_NAMESPACES else row.tool_name
        warn_of_repr(life, name, outcome.value, where=f"call {row.tool_call_id} of {name}")
    return Receipt(text, None)


def warn_of_repr(life: Life, name: str, value: object, *, where: str) -> None:
    """Say once for each name that a result is stored as its repr, why, and what to do about it (design §5)."""
    life.warn_once(
        f"run {life.run_id}, {where}: {unstorable_part(value, at='result')}; what is stored is the repr of the result, "
        f"a text: let {name} return JSON-like values, a dataclass or a pydantic model",
        about=f"the repr of {name}",
    )


def store_receipt(life: Life, store: SqlStore, row: CallRow, receipt: Receipt) -> bool:
    """Store a receipt for a started row, and return whether this life still had the right to.

    A stale owner's receipt is refused by the fence, but what it knows is kept as evidence: success counts from anyone.
    """
    now = life.now()
    seq = life.delivered + 1
    ref = receipt.ref
    try:
        stored = store.calls.try_succeed(row, life.authority, now, response=receipt.text, ref=ref, delivered_seq=seq)
    except ConstraintViolated:
        life.warn_once(f"{row.tool_call_id}: its reference belongs to another call already")
        store.calls.try_set_handle(row.call_no, life.authority, None, now)
        ref = None
        stored = store.calls.try_succeed(row, life.authority, now, response=receipt.text, ref=ref, delivered_seq=seq)
    if not stored:
        return _refused(life, store, row, receipt)
    if row.attempt > 1 or row.status is CallStatus.IN_DOUBT:
        add_evidence(life, store, row, "attempt", "done", ref=ref)
        close_question(life, store, row, "the call succeeded")
        _look_for_twin(life, store, row)
    artifacts.record_of_receipt(life, store, row, receipt.text)
    life.delivered = seq
    escalations.note_success(life, store, row)
    if row.tool_namespace not in INNER_NAMESPACES:
        life.last_tool_call_id = row.tool_call_id
    return True


def _look_for_twin(life: Life, store: SqlStore, row: CallRow) -> None:
    """Tell of an earlier attempt that was done too: its reply came after it had been taken for not done."""
    earlier = late_reply.reply_before(store, row)
    if earlier is None or not row.effectful or row.replay_policy is ReplayPolicy.REPLAY_IDEMPOTENT:
        return
    done = store.calls.get(row.call_no)
    if earlier.ref is None or earlier.ref != done.external_correlation_id:
        add_evidence(life, store, row, "reply", "duplicate_found", detail=earlier.detail, ref=earlier.ref)
        tell_of_duplicate(life, store, done, earlier.ref)


def let_go(life: Life, store: SqlStore, call_nos: list[int]) -> None:
    """Take rows that a call's body did not ask for out of that call, in the transaction that ends it."""
    for call_no in call_nos:
        store.calls.let_go(call_no, life.authority, life.now())


def keep_receipt(life: Life, store: SqlStore, row: CallRow, receipt: Receipt) -> None:
    """Store a receipt; where another owner has the run now, end this life's authority and keep the evidence."""
    stored = store_receipt(life, store, row, receipt)
    life.posted_receipts.discard(row.call_no)
    if not stored:
        # Raising here would undo the evidence that the late reply has just left.
        life.fail(LeaseLost(f"another owner has run {row.run_id}; the reply was kept as evidence"))


def _refused(life: Life, store: SqlStore, row: CallRow, receipt: Receipt) -> bool:
    current = store.calls.get(row.call_no)
    ref = receipt.ref or _handle_of_attempt(store, row) or current.handle
    if current.status is CallStatus.SUCCEEDED:
        known = current.external_correlation_id
        # Whoever said that this very attempt had happened may have left its reference out.
        other_effect = ref not in (None, known) and not (known is None and row.attempt == current.attempt)
        # A later attempt succeeded too, and not as a repetition of the same key: both of them had their effect.
        sent_twice = row.attempt < current.attempt and current.replay_policy is not ReplayPolicy.REPLAY_IDEMPOTENT
        if current.effectful and (other_effect or sent_twice):
            add_evidence(life, store, row, "reply", "duplicate_found", detail=receipt.text, ref=ref)
            tell_of_duplicate(life, store, current, ref)
        return True
    if current.status is CallStatus.IN_DOUBT and row.status is CallStatus.RUNNING:
        return store_receipt(life, store, current, receipt)
    add_evidence(life, store, row, "reply", "happened", detail=receipt.text, ref=ref)
    use_late_reply(life, store, current, ref)
    return False


def use_late_reply(life: Life, store: SqlStore, current: CallRow, ref: str | None) -> None:
    """Settle a call of a run that nobody drives by what its sender has just said; a person could say "no" meanwhile."""
    if not current.effectful:
        return
    run = store.runs.get(current.run_id)
    if current.status.settled:
        why = f"is {current.status}, and a late reply says that it was done: {ref or 'it has no reference'}"
        _tell(life, store, current, why, ref)
    elif run is not None and run.status is not RunStatus.RUNNING:
        late_reply.settle(store, current, run.authority, life.now())
        store.seals.seal(run.run_id, life.now())
        let_the_run_go_on(store, run.run_id, life.now())


def _handle_of_attempt(store: SqlStore, row: CallRow) -> str | None:
    evidence = store.calls.evidence(row.tool_call_id)
    said = [item.ref for item in evidence if item.kind == "ref" and item.attempt == row.attempt]
    return said[-1] if said else None


def tell_of_duplicate(life: Life, store: SqlStore, row: CallRow, ref: str | None) -> None:
    """Put a second success of a settled call into the inbox (semantics #30)."""
    known, second = row.external_correlation_id or "the receipt", ref or "a late reply"
    _tell(life, store, row, f"was done twice: {known}, and {second}", ref)


def _tell(life: Life, store: SqlStore, row: CallRow, what: str, ref: str | None) -> None:
    run = store.runs.get(row.run_id)
    if run is None or store.questions.open_of_call(row.tool_call_id) is not None:
        return
    store.questions.ask(
        "a" + life.around.new_token(),
        run_id=row.run_id,
        fence=run.lease_fence,  # a stale owner knows of it, and its own fence is none any more
        tool_call_id=row.tool_call_id,
        kind=NOTICE_KIND,
        summary=f"{named(store, row)} {what}; look at the provider",
        detail=json.dumps({"ref": ref}),
        request_hash=row.args_hash,
        now=life.now(),
    )


def store_handle(life: Life, store: SqlStore, row: CallRow, ref: str) -> None:
    """Store the handle of a remote job; from a stale owner it is evidence, and no error in the middle of its tool."""
    if store.calls.try_set_handle(row.call_no, life.authority, ref, life.now()):
        return
    add_evidence(life, store, row, "ref", "handle", ref=ref)


def store_setback(life: Life, store: SqlStore, row: CallRow, outcome: Outcome, attempts_allowed: int) -> CallRow:
    """Record an attempt that gave no value: not done and due again, failed for certain, or lost."""
    current = store.calls.get(row.call_no)
    late = current.status is CallStatus.IN_DOUBT and current.attempt == row.attempt and outcome.ended is Ended.NOT_DONE
    if current.status is not CallStatus.RUNNING and not late:
        return current
    now = life.now()
    error = outcome.error
    says = said_by(error) if error is not None else outcome.ended.value
    if outcome.ended is Ended.NOT_DONE:
        add_evidence(life, store, row, "attempt", "not_done", detail=says)
        if row.attempt > 1 and late_reply.reply_before(store, row) is not None:
            # This attempt did nothing, and an earlier one was taken for not done until its reply came late.
            store.calls.move(current, CallEvent.NOT_DONE, life.authority, now)
            return take_late_reply(life, store, store.calls.get(row.call_no))
        if row.call_no in life.resent:
            # Refused was this request; an earlier one with the same key may have gone through, and its answer was lost.
            return _lose(life, store, current, error) if not late else current
        asked = escalations.note_error(life, store, row, error)
        if asked is not None and error is not None and not late:
            return escalations.ask(life, store, current, error, asked, named(store, row))
        if outcome.retry and row.attempt < attempts_allowed:
            wait = _backoff(life, row)
            store.calls.move(current, CallEvent.NOT_DONE, life.authority, now, not_before=after(now, wait))
            close_question(life, store, row, "the sender came back and says no")
            return store.calls.get(row.call_no)
        return _fail(life, store, current, error, now)
    if outcome.fatal and not current.effectful:
        store.calls.move(current, CallEvent.RERUN, life.authority, now)
        return store.calls.get(row.call_no)
    if current.effectful:
        add_evidence(life, store, row, "attempt", "lost", detail=says)
        return _lose(life, store, current, error)
    asked = escalations.note_error(life, store, row, error)
    if asked is not None and error is not None:
        return escalations.ask(life, store, current, error, asked, named(store, row))
    return _fail(life, store, current, error, now)


def _lose(life: Life, store: SqlStore, row: CallRow, error: BaseException | None) -> CallRow:
    now = life.now()
    store.calls.move(
        row,
        CallEvent.LOST,
        life.authority,
        now,
        not_before=after(now, _backoff(life, row)),
        error_code=type(error).__name__ if error is not None else "timeout",
        error_detail=str(error) if error is not None else "no answer within the timeout",
    )
    return store.calls.get(row.call_no)


def _backoff(life: Life, row: CallRow) -> float:
    tuning = life.around.tuning
    return delay_seconds(max(row.attempt, 1), life.around.random_unit(), first_seconds=tuning.first_retry_seconds)


def _fail(life: Life, store: SqlStore, row: CallRow, error: BaseException | None, now: str) -> CallRow:
    store.calls.move(
        row,
        CallEvent.FAILED,
        life.authority,
        now,
        error_code=type(error).__name__ if error is not None else "timeout",
        error_detail=_said(error) if error is not None else "no answer within the timeout",
        caused_by=error.tool_call_id if isinstance(error, CallError) else None,
    )
    close_question(life, store, row, "the call failed for certain")
    return store.calls.get(row.call_no)


def _said(error: BaseException) -> str:
    """Return what an error says; of one that nobody has raised on purpose also what it is and where it came from."""
    if isinstance(error, ToolFailed | PerdureError):
        return str(error)
    return said_by(error)


def store_lost(life: Life, store: SqlStore, row: CallRow) -> CallRow:
    """Record that a started call's sender is gone: in doubt if it has an effect, else not done."""
    current = store.calls.get(row.call_no)
    if current.status is CallStatus.RUNNING:
        if current.effectful:
            add_evidence(life, store, current, "attempt", "lost", detail=SENDER_GONE)
            store.calls.move(current, CallEvent.LOST, life.authority, life.now())
        else:
            store.calls.move(current, CallEvent.RERUN, life.authority, life.now())
    return store.calls.get(row.call_no)


def store_left_behind(life: Life, store: SqlStore, row: CallRow) -> CallRow:
    """Record a started row at the end of a life: prepared if no body was entered for it, else lost."""
    current = store.calls.get(row.call_no)
    if current.status is CallStatus.RUNNING and life.began(row) and row.call_no not in life.in_body:
        store.calls.take_back(current, life.authority, life.now())
        return store.calls.get(row.call_no)
    return store_lost(life, store, row)


def take_late_reply(life: Life, store: SqlStore, row: CallRow) -> CallRow:
    """Settle a call that was lost, or taken for not done, by the reply that an old owner left as evidence."""
    item = late_reply.reply_about(store, row)
    if item is not None:
        store_receipt(life, store, row, Receipt(item.detail or "null", item.ref))
    return store.calls.get(row.call_no)


def store_not_done(life: Life, store: SqlStore, row: CallRow) -> CallRow:
    """Believe that it did not happen: the quarantine is over and the provider said no twice."""
    current = store.calls.get(row.call_no)
    if current.status is CallStatus.IN_DOUBT:
        store.calls.move(current, CallEvent.NOT_DONE, life.authority, life.now())
        life.believed_noes.add(row.call_no)
        close_question(life, store, row, "the probe says no, after the quarantine")
        take_late_reply(life, store, store.calls.get(row.call_no))
    return store.calls.get(row.call_no)


def store_give_up(life: Life, store: SqlStore, row: CallRow) -> CallRow:
    """Fail a call that provably did nothing and has no attempts left."""
    current = store.calls.get(row.call_no)
    if current.status is CallStatus.IN_DOUBT:
        store.calls.move(
            current,
            CallEvent.FAILED,
            life.authority,
            life.now(),
            error_code=current.error_code or "ToolFailed",
            error_detail=current.error_detail or "it did not happen, and the attempts are used up",
        )
        close_question(life, store, row, "it did not happen, and the attempts are used up")
    return store.calls.get(row.call_no)


def ask_doubt(life: Life, store: SqlStore, row: CallRow, why: str) -> CallRow:
    """Put a call in doubt into the inbox, once; the probe lag goes with it, for it binds people too."""
    current = store.calls.get(row.call_no)
    if current.status is CallStatus.IN_DOUBT and store.questions.open_of_call(row.tool_call_id) is None:
        store.questions.ask(
            "a" + life.around.new_token(),
            run_id=life.run_id,
            fence=life.fence,
            tool_call_id=row.tool_call_id,
            kind="in_doubt",
            summary=f"{named(store, row)}: did it happen? {_lost_by(store, row)}{why}",
            detail=json.dumps(_facts_of_doubt(life, row)),
            request_hash=row.args_hash,
            now=life.now(),
        )
    return current


def _facts_of_doubt(life: Life, row: CallRow) -> dict[str, Any]:
    returns = returned_type(life.registry.find(row.tool_namespace, row.tool_name))
    return {
        "attempt": row.attempt,
        "probe_lag_seconds": _lag_seconds(life, row),
        **({"returns": returns} if returns is not None else {}),
    }


def _lost_by(store: SqlStore, row: CallRow) -> str:
    lost = [
        item.detail
        for item in store.calls.evidence(row.tool_call_id)
        if item.says == "lost" and item.detail != SENDER_GONE
    ]
    return f"its last attempt: {lost[-1]}; " if lost else ""


SENDER_GONE = "the process that sent it is gone"


def _lag_seconds(life: Life, row: CallRow) -> float | None:
    tool = life.registry.find(row.tool_namespace, row.tool_name)
    if tool is None:
        return None
    decision = life.decision(tool)
    return decision.probe_lag_seconds if decision.probe is not None or decision.has_probe else 0.0


def close_question(life: Life, store: SqlStore, row: CallRow, why: str) -> None:
    """Close what is open about a call, because evidence settled it."""
    store.questions.close_of_call(row.tool_call_id, life.authority, answer=why, actor="perdure", now=life.now())


def add_evidence(
    life: Life,
    store: SqlStore,
    row: CallRow,
    kind: str,
    says: str,
    *,
    detail: str | None = None,
    ref: str | None = None,
) -> None:
    """Append one fact about a call."""
    owner = life.around.owner
    actor = f"life {life.run.attempt + 1} (pid {owner.pid})"
    store.calls.add_evidence(row.tool_call_id, Evidence(kind, life.now(), actor, row.attempt, says, detail, ref))
