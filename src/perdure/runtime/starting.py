"""Find a call's row or mint one, and let it start: the work the ledger does in one transaction (F1-F4, G1-G3).

Everything here runs while the ledger's lock is held, in call order; what it changes in memory it changes last, so that
a member that is undone leaves no trace.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

from perdure.core.conditions import approval_needed, check_args
from perdure.core.identity import Gate, GuardFacts, citation_error, guard, idempotency_key, joinable, kin
from perdure.core.transitions import CallEvent
from perdure.model.errors import DeadlineExceeded, DedupeConflict, UsageError
from perdure.model.toolcall import (
    CHALLENGED,
    DENIED,
    INNER_NAMESPACES,
    CallKey,
    CallRow,
    CallStatus,
    Repeat,
)
from perdure.ports.clock import after, parse_time
from perdure.runtime import recording
from perdure.runtime.checkpointing import pre_side_effect
from perdure.runtime.life import Life
from perdure.runtime.operations import Operation
from perdure.runtime.request import CallRequest
from perdure.store.calls import NewCall
from perdure.store.sql_store import SqlStore


@dataclass(frozen=True, slots=True)
class Begun:
    """What became of a wish to start: started, or the gate that held it and the kin behind it."""

    row: CallRow
    started: bool = False
    gate: Gate = Gate.PASS
    kin: tuple[CallRow, ...] = ()


def find_or_mint(life: Life, store: SqlStore, request: CallRequest, operation: Operation) -> Begun:
    """Return the row of a call; a new one that nothing holds back is started in the same transaction."""
    found = _find(life, store, request)
    if found is not None:
        life.context.hold(found.call_no)
        operation.row = found
        if found.status.settled:
            life.replayed += int(request.key.namespace not in INNER_NAMESPACES)
        return Begun(found)
    return _mint(life, store, request, operation)


def _find(life: Life, store: SqlStore, request: CallRequest) -> CallRow | None:
    options = request.options
    if options.dedupe_key is not None:
        row = store.calls.by_dedupe_key(options.dedupe_key)
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
    if options.repeat_of is None:
        row = life.context.find_equal(request.key, request.frame.branch, store.calls.get)
        if row is not None:
            if moves(row, request):
                move_to_caller(life, store, row, request)
            return row
    if life.no_duplicates() and request.decision.side_effect_class.effectful and options.repeat_of is None:
        return joinable(store.calls.same_tool(life.run_id, request.key), request.key)
    return None


def moves(row: CallRow, request: CallRequest) -> bool:
    """Return whether a row that is adopted was made somewhere else in the program."""
    return (row.parent_call_id, row.branch) != (request.frame.parent_call_id, request.frame.branch)


def move_to_caller(life: Life, store: SqlStore, row: CallRow, request: CallRequest) -> None:
    """Move an adopted row, so that a later life sees it inside the call, and on the branch, that took it."""
    frame = request.frame
    life.context.moved(row, frame.parent_call_id)
    store.calls.adopt(row.call_no, life.fence, life.now(), parent_call_id=frame.parent_call_id, branch=frame.branch)


def _mint(life: Life, store: SqlStore, request: CallRequest, operation: Operation) -> Begun:
    decision = request.decision
    refused = refusal(life, request)
    asks = refused is None and approval_needed(decision, request.complete)
    status = CallStatus.FAILED if refused else CallStatus.AWAITING_APPROVAL if asks else CallStatus.PREPARED
    gate, against = Gate.PASS, tuple[CallRow, ...]()
    if status is CallStatus.PREPARED:
        gate, against = _gate(life, store, request, None)
        if gate is Gate.PASS:
            _check_deadline(life)
            status = CallStatus.RUNNING
    occurrence = store.calls.last_occurrence(life.run_id, request.key) + 1
    now = life.now()
    new = NewCall(
        tool_call_id=f"{life.run_id}.{life.next_call_number}",
        run_id=life.run_id,
        step_id=request.frame.step.step_id,
        key=request.key,
        raw_tool_name=request.key.tool_name,
        side_effect_class=decision.side_effect_class,
        replay_policy=decision.replay_policy,
        guarantee=decision.guarantee,
        policy_rule=str(decision.rule) if decision.rule else None,
        effect_scope=request.scope,
        occurrence=occurrence,
        idempotency_key=idempotency_key(life.around.ledger_id, life.run_id, request.key, request.scope, occurrence),
        dedupe_key=request.options.dedupe_key,
        status=status,
        fence=life.fence,
        branch=request.frame.branch,
        parent_call_id=request.frame.parent_call_id,
        repeat_of=request.options.repeat_of,
        request=request.stored,
        key_expires_at=_key_expiry(request, now) if status is CallStatus.RUNNING else None,
        error_code=DENIED if refused else None,
        error_detail=refused,
    )
    if status is CallStatus.RUNNING and decision.side_effect_class.effectful:
        pre_side_effect(life, store, request.frame.step)
    row = store.calls.insert(new, now)
    if asks:
        _ask_approval(life, store, row, request, now)
    life.next_call_number += 1
    life.context.hold(row.call_no)
    operation.row = row
    operation.minted = True
    operation.started = status is CallStatus.RUNNING
    _note_start(life, row)
    return Begun(row, started=status is CallStatus.RUNNING, gate=gate, kin=against)


def try_start(life: Life, store: SqlStore, request: CallRequest, operation: Operation, row: CallRow) -> Begun:
    """Start a prepared row if the guard lets it; the guard stands in every prepared → running (R2b)."""
    row = store.calls.get(row.call_no)
    if row.status is not CallStatus.PREPARED:
        return Begun(row)
    gate, against = _gate(life, store, request, row)
    if gate is not Gate.PASS:
        return Begun(row, gate=gate, kin=against)
    _check_deadline(life)
    now = life.now()
    if request.decision.side_effect_class.effectful:
        pre_side_effect(life, store, request.frame.step)
    store.calls.start(
        row, life.fence, now, key_expires_at=_key_expiry(request, now), repeat_of=request.options.repeat_of
    )
    operation.row = store.calls.get(row.call_no)
    operation.started = True
    _note_start(life, operation.row)
    return Begun(operation.row, started=True)


def _note_start(life: Life, row: CallRow) -> None:
    if row.effectful and row.status is CallStatus.RUNNING:
        life.unsettled.add(row.call_no)


def take_back(life: Life, store: SqlStore, operation: Operation, row: CallRow) -> CallRow:
    """Make a row prepared again whose dispatch this life committed and never began (semantics §2.1)."""
    store.calls.take_back(row, life.fence, life.now())
    operation.started = False
    operation.row = store.calls.get(row.call_no)
    return operation.row


def send_again(life: Life, store: SqlStore, operation: Operation, row: CallRow) -> Begun:
    """Put a row in doubt back to running with the same key and the same request."""
    row = store.calls.get(row.call_no)
    if row.status is not CallStatus.IN_DOUBT:
        return Begun(row)
    _check_deadline(life)
    store.calls.start(row, life.fence, life.now())
    operation.row = store.calls.get(row.call_no)
    operation.started = True
    _note_start(life, operation.row)
    return Begun(operation.row, started=True)


def _gate(life: Life, store: SqlStore, request: CallRequest, row: CallRow | None) -> tuple[Gate, tuple[CallRow, ...]]:
    if not request.decision.side_effect_class.effectful:
        return Gate.PASS, ()
    doubtful = doubts(life, store, row)
    if doubtful:
        return Gate.WAIT, doubtful
    cited = request.options.repeat_of
    repeat = _repeat(life, request)
    own = row.call_no if row is not None else -1
    seen = tuple(_seen_kin(life, store, request, own)) if cited is not None or repeat is not None else ()
    if cited is not None:
        already = any(item.repeat_of == cited and item.call_no != own for item in _all_of_tool(life, store, request))
        problem = citation_error(cited, seen, already)
        if problem is not None:
            raise UsageError(problem, next_command=f"perdure calls ls {life.run_id}")
    facts = GuardFacts(
        unmet_kin=tuple(_unmet_kin(life, store, request, own)),
        seen_kin=seen,
        passed=passed_for(store, row),
        repeat=repeat,
        cited=cited,
    )
    return guard(facts)


def doubts(life: Life, store: SqlStore, row: CallRow | None) -> tuple[CallRow, ...]:
    """Return what must be settled before a new effect of the run: rows in doubt, and running ones without a caller."""
    if not life.unsettled:
        # Nothing was in doubt when the agent was entered (R3), and nothing has been started since that is not settled.
        return ()
    return tuple(
        item
        for item in store.calls.open(life.run_id)
        if item.effectful
        and (row is None or item.call_no != row.call_no)
        and item.call_no not in life.receipts_posted
        and (
            item.status is CallStatus.IN_DOUBT
            or (
                item.status is CallStatus.RUNNING
                and item.call_no not in life.posted_receipts
                and life.operations.serving(item.call_no) is None
            )
        )
    )


def _repeat(life: Life, request: CallRequest) -> Repeat | None:
    if life.no_duplicates() is False:
        return Repeat.ALLOW
    return request.decision.repeat


def _unmet_kin(life: Life, store: SqlStore, request: CallRequest, own: int) -> Iterator[CallRow]:
    for call_no in life.context.unmet_of_tool(request.key):
        if call_no != own:
            row = store.calls.get(call_no)
            if not row.void and kin(row, request.key, request.scope, unmet=True):
                yield row


def _seen_kin(life: Life, store: SqlStore, request: CallRequest, own: int) -> Iterator[CallRow]:
    for row in _all_of_tool(life, store, request):
        if (
            row.call_no != own
            and row.call_no in life.context.seen
            and kin(row, request.key, request.scope, unmet=False)
        ):
            yield row


def _all_of_tool(life: Life, store: SqlStore, request: CallRequest) -> list[CallRow]:
    return store.calls.same_tool(life.run_id, request.key)


def passed_for(store: SqlStore, row: CallRow | None) -> frozenset[str]:
    """Return the kin that a person passed for this one row (a verdict binds one pair)."""
    if row is None:
        return frozenset()
    passed: set[str] = set()
    for item in store.calls.evidence(row.tool_call_id):
        if item.kind == "verdict" and item.says == "another" and item.detail:
            passed.update(json.loads(item.detail)["kin"])
    return frozenset(passed)


def refusal(life: Life, request: CallRequest) -> str | None:
    """Return why a call may not be made at all, or ``None``."""
    problems = check_args(request.decision, request.complete)
    forbidden = life.spec.get("constraints", {}).get("forbidden_actions") or ()
    if request.key.tool_name in forbidden:
        problems = [*problems, f"the job forbids {request.key.tool_name}"]
    return "; ".join(problems) or None


def deadline_problem(life: Life) -> DeadlineExceeded | None:
    """Return the error of a run whose absolute deadline has passed."""
    deadline = life.run.deadline_at
    if deadline is None or parse_time(life.now()) < parse_time(deadline):
        return None
    return DeadlineExceeded(f"the deadline {deadline} of run {life.run_id} has passed")


def _check_deadline(life: Life) -> None:
    life.refused = life.refused or deadline_problem(life)
    if life.refused is not None:
        raise life.refused


def _key_expiry(request: CallRequest, now: str) -> str | None:
    ttl = request.decision.key_ttl_seconds
    if ttl is None:
        return None
    return FOREVER if ttl == float("inf") else after(now, ttl)


FOREVER = "9999-12-31T23:59:59.999999Z"


def _ask_approval(life: Life, store: SqlStore, row: CallRow, request: CallRequest, now: str) -> None:
    store.questions.ask(
        "a" + life.around.new_token(),
        run_id=life.run_id,
        fence=life.fence,
        tool_call_id=row.tool_call_id,
        kind="approval",
        summary=f"{recording.named(store, row)}: may it be sent?",
        detail=json.dumps({"arguments": json.loads(request.stored)}),
        request_hash=request.key.args_hash,
        now=now,
    )


def ask_challenge(life: Life, store: SqlStore, row: CallRow, against: tuple[CallRow, ...]) -> CallRow:
    """Turn a challenged call into one question that lists every kin that speaks against it."""
    row = store.calls.get(row.call_no)
    if row.status is not CallStatus.PREPARED:
        return row
    now = life.now()
    store.calls.move(row, CallEvent.ASK_APPROVAL, life.fence, now)
    ids = [item.tool_call_id for item in against]
    again = any(
        item.tool_call_id in json.loads(question.detail or "{}").get("kin", ())
        for item in against
        for other in store.calls.same_tool(life.run_id, CallKey(row.tool_namespace, row.tool_name, row.args_hash))
        if other.call_no != row.call_no
        for question in store.questions.of_call(other.tool_call_id)
        if question.kind == "challenge"
    )
    hint = "; your arguments change per life: use run.memo" if again else ""
    store.questions.ask(
        "a" + life.around.new_token(),
        run_id=life.run_id,
        fence=life.fence,
        tool_call_id=row.tool_call_id,
        kind="challenge",
        summary=f"{recording.named(store, row)}: an earlier life already did {_listed(store, against)}; "
        f"is this the same or another?{hint}",
        detail=json.dumps({"kin": ids}),
        request_hash=row.args_hash,
        now=now,
    )
    life.challenged += 1
    return store.calls.get(row.call_no)


def _listed(store: SqlStore, rows: tuple[CallRow, ...]) -> str:
    return ", ".join(f"{row.tool_call_id} {recording.named(store, row)} at {row.finished_at}" for row in rows)


def refuse_challenged(life: Life, store: SqlStore, row: CallRow, against: tuple[CallRow, ...]) -> CallRow:
    """End a challenged call that its caller wants to hear of: nothing happened."""
    row = store.calls.get(row.call_no)
    if row.status is CallStatus.PREPARED:
        listed = ", ".join(f"{item.tool_call_id} at {item.finished_at}" for item in against)
        store.calls.move(
            row,
            CallEvent.REFUSED,
            life.fence,
            life.now(),
            error_code=CHALLENGED,
            error_detail=f"an effect of this kind was already done: {listed}",
        )
        life.challenged += 1
    return store.calls.get(row.call_no)
