"""Find a call's row or mint one, and let it start: the work the ledger does in one transaction (F1-F4, G1-G3).

Everything here runs while the ledger's lock is held, in call order; what it changes in memory it changes last, so that
a member that is undone leaves no trace.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace

from perdure.core import conditions
from perdure.core.identity import Gate, idempotency_key, joinable
from perdure.model.errors import DeadlineExceeded, DedupeConflict
from perdure.model.run import WaitReason
from perdure.model.toolcall import DENIED, INNER_NAMESPACES, CallRow, CallStatus
from perdure.ports.clock import FOREVER, after, parse_time
from perdure.runtime import adopting, approvals, artifacts, citing, guarding, lags, limits, recording, simulation
from perdure.runtime.challenges import ask_person
from perdure.runtime.checkpointing import pre_side_effect
from perdure.runtime.life import Life
from perdure.runtime.operations import Operation
from perdure.runtime.request import CallRequest
from perdure.store.new_call import NewCall
from perdure.store.sql_store import SqlStore


@dataclass(frozen=True, slots=True)
class Begun:
    """What became of a wish to start: started, or the gate that held it, the kin behind it and what is wrong."""

    row: CallRow
    started: bool = False
    gate: Gate = Gate.PASS
    kin: tuple[CallRow, ...] = ()
    problem: str = ""
    held: WaitReason | None = None


def find_or_mint(life: Life, store: SqlStore, request: CallRequest, operation: Operation) -> Begun:
    """Return the row of a call; a new one that nothing holds back is started in the same transaction."""
    if life.lineage.ancestors:
        citing.as_own(life, store, request)
    found = _find(life, store, request)
    if found is not None and citing.is_elsewhere(life, found):
        citing.tell(life, found)
        operation.row = found
        return Begun(found)
    if found is not None:
        life.context.hold(found.call_no)
        approvals.asked_for_again(life, store, found)
        operation.row = found
        refused_here = found.error_code == DENIED and life.began(found)
        if found.status.settled and not refused_here:
            life.replayed += int(request.key.namespace not in INNER_NAMESPACES)
        return Begun(found)
    return _mint(life, store, request, operation)


def _find(life: Life, store: SqlStore, request: CallRequest) -> CallRow | None:
    options = request.options
    if options.dedupe_key is not None:
        row = citing.by_dedupe_key(life, store, options.dedupe_key)
        if row is not None:
            if row.effect_scope != request.scope or row.tool_name != request.key.tool_name:
                raise DedupeConflict(
                    f"dedupe_key {options.dedupe_key!r} belongs to {row.tool_call_id}, which has another effect scope",
                    tool_call_id=row.tool_call_id,
                )
            if row.args_hash != request.key.args_hash:
                life.warn_once(
                    f"dedupe_key {options.dedupe_key!r}: the arguments differ from those of {row.tool_call_id}; "
                    "its receipt stands"
                )
            return row
    if request.handle is not None:
        row = _bound(store, request)
        if row is not None:
            return row
    row = find_free(life, store, request)
    if row is not None:
        adopting.take(life, store, request, row)
        return row
    row = find_done(life, store, request)
    if row is not None and request.handle is not None:
        adopting.bind(life, store, request, row, adopted=True)
    return row


def _bound(store: SqlStore, request: CallRequest) -> CallRow | None:
    """Return the row that an exact handle stands for (F2); one that was withdrawn stands for nothing any more."""
    found = store.turns.find(request.handle) if request.handle is not None else None
    if found is None:
        return None
    row = store.calls.get(found[0])
    if row.status is CallStatus.CANCELLED and row.void:
        return None
    request.adopted = found[1]
    return row


def find_free(life: Life, store: SqlStore, request: CallRequest) -> CallRow | None:
    """Return the unmet equal row that a call adopts (F3)."""
    cited = request.options.repeat_of
    find, branch = life.context.find_equal, request.frame.branch
    row = find(request.key, branch, store.calls.get, cited=cited, reader=request.reader)
    while row is not None and artifacts.is_lost(life, store, row):
        life.context.met(row.call_no)
        row = find(request.key, branch, store.calls.get, cited=cited, reader=request.reader)
    return row


def find_done(life: Life, store: SqlStore, request: CallRequest) -> CallRow | None:
    """Return the equal row that a call joins under ``no_duplicate_external_actions: true`` (F3b)."""
    wanted = life.no_duplicates() and request.options.repeat_of is None
    if wanted and request.decision.side_effect_class.effectful:
        return joinable(store.calls.same_tool(life.run_id, request.key), request.key)
    return None


def _mint(life: Life, store: SqlStore, request: CallRequest, operation: Operation) -> Begun:
    status, refused = first_status(life, request)
    held: WaitReason | None = None
    gate, against, problem = guarding.OPEN
    simulated = None
    if status is CallStatus.PREPARED:
        gate, against, problem = guarding.gate_of(life, store, request, None)
        if gate is Gate.PASS and request.not_before is None:
            _check_deadline(life, store)
            held = limits.held(life, store, request)
            if held is None:
                simulated = _simulated(life, store, request, None)
                status = CallStatus.RUNNING
    if status is CallStatus.RUNNING and request.decision.side_effect_class.effectful:
        pre_side_effect(life, store, request.frame.step)
    row = insert(life, store, request, status, refused, life.next_call_number)
    adopting.bind(life, store, request, row, adopted=False)
    life.next_call_number += 1
    life.context.hold(row.call_no)
    operation.row = row
    operation.minted = True
    operation.started = status is CallStatus.RUNNING
    if simulated is not None:
        operation.simulation = simulation.begin(life, store, row, simulated)
    _note_start(life, store, row, request)
    return Begun(row, status is CallStatus.RUNNING, gate, against, problem, held)


def first_status(life: Life, request: CallRequest) -> tuple[CallStatus, str | None]:
    """Return the state in which a call is minted, and why it is refused if it is."""
    refused = request.refused or refusal(life, request)
    if refused:
        return CallStatus.FAILED, refused
    if request.asked is not None:
        return CallStatus.AWAITING_APPROVAL, None
    asks = conditions.approval_needed(request.decision, request.complete) and not life.simulates(request.decision)
    return CallStatus.AWAITING_APPROVAL if asks else CallStatus.PREPARED, None


def insert(
    life: Life, store: SqlStore, request: CallRequest, status: CallStatus, refused: str | None, number: int
) -> CallRow:
    """Insert the row of a call, the ``number``-th of its run, with the question that it begins with."""
    decision, frame = request.decision, request.frame
    occurrence = store.calls.last_occurrence(life.run_id, request.key) + 1
    now = life.now()
    simulated = life.simulates(decision)
    new = NewCall(
        tool_call_id=f"{life.run_id}.{number}",
        run_id=life.run_id,
        step_id=frame.step.step_id,
        key=request.key,
        raw_tool_name=request.raw_name or request.key.tool_name,
        side_effect_class=decision.side_effect_class,
        replay_policy=decision.replay_policy,
        guarantee=decision.guarantee,
        policy_rule=str(decision.rule) if decision.rule else None,
        effect_scope=request.scope,
        occurrence=occurrence,
        idempotency_key=idempotency_key(
            life.around.ledger_id, life.run_id, request.key, life.vault.hashed_scope(request.scope), occurrence
        ),
        dedupe_key=None if simulated else request.options.dedupe_key,
        status=status,
        fence=life.fence,
        branch=frame.branch,
        parent_call_id=frame.parent_call_id,
        call_index=request.handle[1] if request.handle is not None else None,
        repeat_of=citing.own_citation(life, request) if status is CallStatus.RUNNING else None,
        request=request.stored,
        key_expires_at=_key_expiry(request, now) if status is CallStatus.RUNNING else None,
        not_before=request.not_before,
        valid_until=approvals.valid_until(request, now),
        error_code=DENIED if refused else None,
        error_detail=refused,
        simulated=int(simulated),
    )
    row = store.calls.insert(new, now)
    if status is CallStatus.AWAITING_APPROVAL:
        (approvals.ask if request.asked is None else ask_person)(life, store, row, request, now)
    return row


def try_start(life: Life, store: SqlStore, request: CallRequest, operation: Operation, row: CallRow) -> Begun:
    """Start a prepared row if the guard lets it; the guard stands in every prepared → running (R2b)."""
    row = store.calls.get(row.call_no)
    if row.status is CallStatus.PREPARED and row.attempt > 0:
        # It was taken for not done; a reply that has come since then knows better.
        row = recording.take_late_reply(life, store, row)
    if row.status is not CallStatus.PREPARED:
        return Begun(row)
    gate, against, problem = guarding.gate_of(life, store, request, row)
    if gate is not Gate.PASS:
        return Begun(row, False, gate, against, problem)
    held_back = None if row.simulated else approvals.hold_back(life, store, request, row)
    if held_back is not None:
        return Begun(held_back)
    _check_deadline(life, store)
    held = limits.held(life, store, request)
    if held is not None:
        return Begun(row, held=held)
    simulated = _simulated(life, store, request, row)
    now = life.now()
    if request.decision.side_effect_class.effectful:
        pre_side_effect(life, store, request.frame.step)
    adopting.note_what_is_sent(life, store, request, row)
    store.calls.start(
        row, life.authority, now, key_expires_at=_key_expiry(request, now), repeat_of=citing.own_citation(life, request)
    )
    life.resent.discard(row.call_no)
    operation.row = store.calls.get(row.call_no)
    operation.started = True
    if simulated is not None:
        operation.simulation = simulation.begin(life, store, operation.row, simulated)
    _note_start(life, store, operation.row, request)
    return Begun(operation.row, started=True)


def _simulated(life: Life, store: SqlStore, request: CallRequest, row: CallRow | None) -> simulation.Found | None:
    """Return what stands in for the tool, where this run only simulates it."""
    if not life.simulates(request.decision) and not (row is not None and row.simulated):
        return None
    occurrence = row.occurrence if row is not None else store.calls.last_occurrence(life.run_id, request.key) + 1
    return simulation.find(life, store, request, occurrence)


def _note_start(life: Life, store: SqlStore, row: CallRow, request: CallRequest) -> None:
    if row.effectful and row.status is CallStatus.RUNNING:
        life.unsettled.add(row.call_no)
        lags.record(life, store, row, request.decision)


def take_back(life: Life, store: SqlStore, operation: Operation, row: CallRow) -> CallRow:
    """Make a row prepared again whose dispatch this life committed and never began (semantics §2.1)."""
    store.calls.take_back(row, life.authority, life.now())
    operation.started = False
    operation.row = store.calls.get(row.call_no)
    return operation.row


def send_again(life: Life, store: SqlStore, operation: Operation, row: CallRow) -> Begun:
    """Put a row in doubt back to running with the same key and the same request."""
    row = store.calls.get(row.call_no)
    if row.status is not CallStatus.IN_DOUBT:
        return Begun(row)
    _check_deadline(life, store)
    store.calls.start(row, life.authority, life.now())
    life.resent.add(row.call_no)
    operation.row = store.calls.get(row.call_no)
    operation.started = True
    life.unsettled.add(row.call_no)
    return Begun(operation.row, started=True)


def refusal(life: Life, request: CallRequest) -> str | None:
    """Return why a call may not be made at all, or ``None``."""
    key = request.key
    return conditions.refusal(life.spec, request.decision, key.namespace, key.tool_name, request.complete)


def deadline_problem(life: Life) -> DeadlineExceeded | None:
    """Return the error of a run whose absolute deadline has passed."""
    deadline = life.run.deadline_at
    if deadline is None or parse_time(life.now()) < parse_time(deadline):
        return None
    return DeadlineExceeded(
        f"the deadline {deadline} of run {life.run_id} has passed",
        next_command=f"perdure resume {shlex.quote(life.run_id)} --grant deadline=+2h",
    )


def overdue(life: Life, store: SqlStore) -> DeadlineExceeded | None:
    """Return what ``deadline_problem`` does, after a look at the ledger: a later deadline may have been granted."""
    if deadline_problem(life) is None:
        return None
    run = store.runs.get(life.run_id)
    if run is not None:
        life.run = replace(life.run, deadline_at=run.deadline_at)
    return deadline_problem(life)


def _check_deadline(life: Life, store: SqlStore) -> None:
    life.refused = life.refused or overdue(life, store)
    if life.refused is not None:
        raise life.refused


def _key_expiry(request: CallRequest, now: str) -> str | None:
    ttl = request.decision.key_ttl_seconds
    if ttl is None:
        return None
    return FOREVER if ttl == float("inf") else after(now, ttl)
