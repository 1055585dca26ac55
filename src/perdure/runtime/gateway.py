"""The gateway: the only place where a tool is called.

One loop serves every call: load the row → ``decide`` (pure) → act → record → again. A restart enters the same loop with the
same rows, so there is no second code path for recovery. The loop does no I/O; a driver performs its actions.
"""

from __future__ import annotations

import importlib
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from perdure.core.codec import decode, shape
from perdure.core.decide import CallFacts, Next, decide
from perdure.core.identity import Gate
from perdure.model.errors import (
    CallAbandoned,
    CallChallenged,
    CallDenied,
    CallError,
    CallFailed,
    LeaseLost,
    StoreError,
)
from perdure.model.policy import Decision
from perdure.model.run import WaitReason
from perdure.model.toolcall import CHALLENGED, DENIED, INNER_NAMESPACES, CallRow, CallStatus, ReplayPolicy
from perdure.ports.clock import seconds_between
from perdure.ports.tool import CallContext, Probe
from perdure.runtime import recording, starting
from perdure.runtime.actions import (
    LIVING_SENDERS,
    AwaitSender,
    Commit,
    Consult,
    Dispatch,
    Ended,
    Invoke,
    Loop,
    Outcome,
    Park,
    Pause,
    Post,
    Sender,
)
from perdure.runtime.lease import Liveness, liveness, living_children
from perdure.runtime.life import Life
from perdure.runtime.operations import Operation
from perdure.runtime.registry import AnyTool
from perdure.runtime.request import CallRequest, positional_and_keywords
from perdure.store.sql_store import SqlStore

DEFAULT_MAX_ATTEMPTS = 5


@dataclass(slots=True)
class Doubt:
    """What this life has learned about one row in doubt."""

    negatives: int = 0
    negative_after_lag: bool = False
    exhausted: bool = False
    gone_at: float | None = None
    sender: Sender | None = None
    sender_overdue: bool = False


class Gateway:
    """Serves the calls of one life."""

    def __init__(self, life: Life) -> None:
        self._life = life

    # --- the loop ------------------------------------------------------------------------------------------------

    def serve(self, request: CallRequest, operation: Operation) -> Loop:
        """Bring one call to an outcome and deliver it; the generator's value is what the caller gets."""
        life = self._life
        begun = yield Commit(lambda store: starting.find_or_mint(life, store, request, operation))
        doubt = Doubt()
        cause: BaseException | None = None
        row: CallRow = begun.row
        if begun.started:
            row, cause = yield from self._attempt(operation, request.tool, request.decision, row, request)
        elif begun.gate is not Gate.PASS:
            row = yield from self._held_back(request, operation, begun)
        while True:
            step = decide(row, self._facts(row, request.decision, request.tool, doubt))
            if step.kind is Next.DELIVER:
                return self._deliver(row, request, cause, operation.response)
            if step.kind is Next.START:
                begun = yield Commit(lambda store, row=row: starting.try_start(life, store, request, operation, row))
                row = begun.row
                if begun.started:
                    row, cause = yield from self._attempt(operation, request.tool, request.decision, row, request)
                elif begun.gate is not Gate.PASS:
                    row = yield from self._held_back(request, operation, begun)
            else:
                row, cause = yield from self._advance(row, step, operation, request.decision, request.tool, doubt)

    def settle(self, row: CallRow, operation: Operation) -> Loop:
        """Bring one started row of an earlier life to an end before the agent is entered (R3).

        The value is the row, in doubt still if only a person can tell. A row that was not done stays prepared: it is sent
        only when it is asked for again (semantics #19).
        """
        life = self._life
        tool = life.registry.find(row.tool_namespace, row.tool_name)
        decision = life.decision(tool) if tool is not None else None
        doubt = Doubt()
        row = yield Commit(lambda store: recording.take_late_reply(life, store, row))
        while row.status in (CallStatus.RUNNING, CallStatus.IN_DOUBT):
            step = decide(row, self._facts(row, decision, tool, doubt))
            if step.kind is Next.ASK and not life.waits:
                yield Commit(lambda store, row=row, step=step: recording.ask_doubt(life, store, row, step.why))
                return row
            row, _ = yield from self._advance(row, step, operation, decision, tool, doubt)
        life.settled += int(row.tool_namespace not in INNER_NAMESPACES)
        return row

    def _advance(
        self,
        row: CallRow,
        step: Any,
        operation: Operation,
        decision: Decision | None,
        tool: AnyTool | None,
        doubt: Doubt,
    ) -> Loop:
        life = self._life
        operation.row = row
        if step.kind is Next.WAIT_UNTIL:
            yield Pause(step.wait_seconds)
        elif step.kind in (Next.MARK_LOST, Next.RERUN):
            row = yield Commit(lambda store: recording.store_lost(life, store, row))
            return row, None
        elif step.kind is Next.AWAIT_SENDER:
            return (yield from self._await_sender(row, doubt)), None
        elif step.kind is Next.PROBE and decision is not None and tool is not None:
            return (yield from self._probe(row, decision, tool, doubt)), None
        elif step.kind is Next.SEND_AGAIN and decision is not None and tool is not None:
            begun = yield Commit(lambda store: starting.send_again(life, store, operation, row))
            if begun.started:
                return (yield from self._attempt(operation, tool, decision, begun.row, None))
            return begun.row, None
        elif step.kind is Next.NOT_DONE:
            work = recording.store_not_done if self._attempts_left(row, decision) > 0 else recording.store_give_up
            row = yield Commit(lambda store: work(life, store, row))
            return row, None
        else:
            yield from self._wait_for_others(row, step)
        return (yield from self._late_return(row, doubt)), None

    def _wait_for_others(self, row: CallRow, step: Any) -> Loop:
        life = self._life
        if step.kind is Next.ASK:
            yield Commit(lambda store: recording.ask_doubt(life, store, row, step.why))
            yield Park(WaitReason.IN_DOUBT)
        elif step.kind is Next.AWAIT_PERSON:
            kind = yield Commit(lambda store: _question_kind(store, row))
            yield Park(kind)
        else:
            yield Park(WaitReason.IN_DOUBT)

    # --- holding back --------------------------------------------------------------------------------------------

    def _held_back(self, request: CallRequest, operation: Operation, begun: starting.Begun) -> Loop:
        life = self._life
        row = begun.row
        if begun.gate is Gate.WAIT:
            yield Park(WaitReason.IN_DOUBT)
        elif request.options.on_challenge != "wait":
            row = yield Commit(lambda store: starting.refuse_challenged(life, store, row, begun.kin))
            return row
        elif begun.gate is Gate.CHALLENGE_SEEN:
            row = yield Commit(lambda store: starting.ask_challenge(life, store, row, begun.kin))
            return row
        else:
            operation.challengers = begun.kin
            yield Park(WaitReason.CHALLENGE)
            operation.challengers = ()
        row = yield Commit(lambda store: store.calls.get(row.call_no))
        return row

    # --- one attempt ---------------------------------------------------------------------------------------------

    def _attempt(
        self,
        operation: Operation,
        tool: AnyTool,
        decision: Decision,
        row: CallRow,
        request: CallRequest | None,
    ) -> Loop:
        life = self._life
        arguments = request.arguments if request is not None else None
        if arguments is None:
            stored = yield Commit(lambda store: store.calls.request(row.call_no))
            arguments = decode(stored)
        dispatch = self._dispatch(tool, decision, row, arguments)
        outcome: Outcome = yield Invoke(dispatch)
        row = yield from self._record(operation, row, outcome, decision)
        if outcome.fatal and outcome.error is not None:
            raise outcome.error
        return row, outcome.error

    def _dispatch(self, tool: AnyTool, decision: Decision, row: CallRow, arguments: Any) -> Dispatch:
        hints = tool.hints
        shaped = {name: shape(value, hints[name]) if name in hints else value for name, value in arguments.items()}
        args, kwargs = positional_and_keywords(tool.signature, shaped)
        context = self.context_of(row, shaped)
        if tool.takes_context:
            kwargs["call"] = context
        return Dispatch(
            tool=tool,
            row=row,
            args=args,
            kwargs=kwargs,
            context=context,
            timeout_seconds=decision.timeout_seconds,
            body=tool.plain,
            is_async=tool.is_async,
        )

    def context_of(self, row: CallRow, arguments: Any) -> CallContext:
        """Return what a tool or a probe may know about a call."""
        life = self._life

        def record(ref: str) -> None:
            life.ledger.run(lambda store: store.calls.set_handle(row.call_no, life.fence, ref, life.now()))

        return CallContext(
            idempotency_key=row.idempotency_key,
            tool_call_id=row.tool_call_id,
            run_id=row.run_id,
            step_id=row.step_id,
            attempt=row.attempt,
            args=arguments,
            workspace=life.workspace,
            handle=row.handle,
            recorder=record,
        )

    def _record(self, operation: Operation, row: CallRow, outcome: Outcome, decision: Decision | None) -> Loop:
        life = self._life
        if outcome.ended is not Ended.VALUE:
            allowed = self._attempts_allowed(decision)
            return (yield Commit(lambda store: recording.store_setback(life, store, row, outcome, allowed)))
        receipt = recording.receipt_of(life, row, outcome)
        operation.response = receipt.text
        if not life.around.tuning.strict_receipts:
            # Nothing leaves the process between this receipt and the next intent, so they may share a commit.
            self._life.posted_receipts.add(row.call_no)
            yield Post(
                lambda store: self._store_receipt(store, row, receipt),
                lambda problem: life.fail(unsaved(row, receipt.text, problem)),
            )
            return row.succeeded(self._life.now())
        try:
            return (yield Commit(lambda store: self._store_receipt(store, row, receipt)))
        except StoreError as problem:
            raise unsaved(row, receipt.text, problem) from problem

    def _store_receipt(self, store: SqlStore, row: CallRow, receipt: recording.Receipt) -> CallRow:
        stored = recording.store_receipt(self._life, store, row, receipt)
        self._life.posted_receipts.discard(row.call_no)
        if stored is None:
            # Raising here would undo the evidence that the late reply has just left.
            self._life.fail(LeaseLost(f"another owner has run {row.run_id}; the reply was kept as evidence"))
            return row.succeeded(self._life.now())
        return stored

    def _await_sender(self, row: CallRow, doubt: Doubt) -> Loop:
        sender = LIVING_SENDERS.get(row.idempotency_key)
        if sender is not None:
            doubt.sender = sender
            sender.on_finished.append(self._life.operations.wake_parked)
            yield AwaitSender(sender, self._life.around.tuning.sender_grace_seconds)
            doubt.sender_overdue = not sender.finished.is_set()
        return (yield from self._late_return(row, doubt))

    def _late_return(self, row: CallRow, doubt: Doubt) -> Loop:
        """Take the outcome of a sender that came back after its timeout: it is the outcome (semantics #25)."""
        life = self._life
        outcome = doubt.sender.outcome if doubt.sender is not None else None
        if outcome is not None and outcome.ended is Ended.VALUE:
            receipt = recording.receipt_of(life, row, outcome)
            yield Commit(lambda store: self._store_receipt(store, row, receipt))
        return (yield Commit(lambda store: store.calls.get(row.call_no)))

    def _probe(self, row: CallRow, decision: Decision, tool: AnyTool, doubt: Doubt) -> Loop:
        life = self._life
        function = _probe_function(decision, tool)
        arguments = decode((yield Commit(lambda store: store.calls.request(row.call_no))))
        asked_at = life.around.clock.monotonic()
        answer: Probe = yield Consult(function, self.context_of(row, arguments))
        row, verdict = yield Commit(lambda store: recording.store_probe(life, store, row, answer))
        if verdict == "not_happened":
            doubt.negatives += 1
            gone = 0.0 if doubt.gone_at is None else asked_at - doubt.gone_at
            doubt.negative_after_lag = doubt.negative_after_lag or gone >= decision.probe_lag_seconds
        elif verdict == "unknown":
            doubt.exhausted = True
        return row

    # --- what is known -------------------------------------------------------------------------------------------

    def _facts(self, row: CallRow, decision: Decision | None, tool: AnyTool | None, doubt: Doubt) -> CallFacts:
        life = self._life
        waiting = 0.0
        now = life.now()
        if row.not_before is not None:
            waiting = max(0.0, seconds_between(now, row.not_before))
        if row.status in (CallStatus.PREPARED, CallStatus.AWAITING_APPROVAL) or row.status.settled:
            return CallFacts(wait_seconds=waiting)
        serving = life.operations.serving(row.call_no) if row.status is CallStatus.RUNNING else None
        alive, here = self._sender_alive(row)
        if not alive and doubt.gone_at is None:
            doubt.gone_at = life.around.clock.monotonic() if row.fence == life.fence else life.began_at
        known = tool is not None and decision is not None
        return CallFacts(
            started_here=serving is not None,
            sender_alive=alive,
            sender_here=here and not doubt.sender_overdue,
            gone_seconds=None if doubt.gone_at is None else life.around.clock.monotonic() - doubt.gone_at,
            has_probe=known and (decision.probe is not None or decision.has_probe),  # type: ignore[union-attr]
            negatives=doubt.negatives,
            negative_after_lag=doubt.negative_after_lag,
            probe_lag_seconds=decision.probe_lag_seconds if decision is not None else 0.0,
            probe_exhausted=doubt.exhausted,
            key_alive_seconds=seconds_between(now, row.key_expires_at) if row.key_expires_at and known else None,
            first_was_keyed=row.key_expires_at is not None,
            attempts_left=self._attempts_left(row, decision),
            wait_seconds=waiting,
            replay_policy=decision.replay_policy if decision is not None else ReplayPolicy.ASK,
        )

    def _sender_alive(self, row: CallRow) -> tuple[bool, bool]:
        life = self._life
        if row.idempotency_key in LIVING_SENDERS:
            return True, True
        if row.fence == life.fence:
            return False, False
        sent_by = life.ledger.read(lambda store: store.runs.life(row.run_id, row.fence))
        if sent_by is None or sent_by.owner == life.around.owner:
            return False, False
        state = liveness(sent_by.owner)
        if state is Liveness.ALIVE:
            return sent_by.ended_at is None or (sent_by.how or "").endswith("+sender"), False
        # Of a process on another host nothing is certain, however old its lease is: only evidence or a person can tell.
        return state is Liveness.UNKNOWN or bool(living_children(sent_by.owner)), False

    def _attempts_allowed(self, decision: Decision | None) -> int:
        if decision is not None and decision.max_attempts is not None:
            return decision.max_attempts
        budget = self._life.spec.get("budgets", {}).get("max_retries_per_tool_call")
        return max(1, int(budget)) if budget is not None else DEFAULT_MAX_ATTEMPTS

    def _attempts_left(self, row: CallRow, decision: Decision | None) -> int:
        return self._attempts_allowed(decision) - row.attempt

    # --- delivery ------------------------------------------------------------------------------------------------

    def meet(self, request: CallRequest) -> tuple[bool, Any]:
        """Deliver a receipt that an earlier life stored, if the call meets one, without a transaction."""
        life = self._life
        options = request.options
        if options.dedupe_key is not None or options.repeat_of is not None or not life.context.may_find(request.key):
            return False, None

        def find(store: SqlStore) -> tuple[CallRow, str | None] | None:
            row = life.context.find_equal(request.key, request.frame.branch, store.calls.get)
            if row is None or row.status not in (CallStatus.SUCCEEDED, CallStatus.FAILED):
                return None
            life.context.hold(row.call_no)
            return row, store.calls.response(row.call_no)

        found = life.ledger.read(find)
        if found is None:
            return False, None
        life.replayed += int(request.key.namespace not in INNER_NAMESPACES)
        return True, self._deliver(found[0], request, None, found[1])

    def _deliver(
        self, row: CallRow, request: CallRequest, cause: BaseException | None, response: str | None = None
    ) -> Any:
        life = self._life
        life.context.saw(row)
        if row.status is CallStatus.SUCCEEDED:
            if response is None:
                response = life.ledger.read(lambda store: store.calls.response(row.call_no))
            value = decode(response or "null")
            hints = request.tool.hints
            return shape(value, hints["return"]) if "return" in hints else value
        if row.status is CallStatus.CANCELLED and row.same_as is not None:
            other = life.ledger.read(lambda store: store.calls.by_id(row.same_as or ""))
            if other is not None:
                life.context.met(other.call_no)
                return self._deliver(other, request, None)
        error = delivered_error(row)
        if request.options.on_challenge == "return" and isinstance(error, CallChallenged):
            return error
        raise error from cause


def delivered_error(row: CallRow) -> CallError:
    """Return the error that a call which is settled, but did not succeed, raises in every life."""
    detail = row.error_detail or str(row.status)
    kind: Callable[..., CallError] = CallFailed
    if row.status is CallStatus.ABANDONED:
        kind, detail = CallAbandoned, "a person decided to go on without knowing whether it happened"
    elif row.error_code == DENIED:
        kind = CallDenied
    elif row.error_code == CHALLENGED:
        kind = CallChallenged
    elif row.status is CallStatus.CANCELLED:
        kind, detail = CallDenied, "it was withdrawn"
    return kind(
        f"{row.tool_name}: {detail}",
        tool_call_id=row.tool_call_id,
        tool_name=row.tool_name,
        error_type=row.error_code,
    )


def unsaved(row: CallRow, response: str, problem: BaseException) -> BaseException:
    """Return the error of an effect that was done and whose receipt could not be stored, with the line that records it."""
    if not isinstance(problem, StoreError):
        return problem
    return type(problem)(
        f"{row.tool_call_id} ({row.tool_name}) succeeded, and its receipt could not be stored: {problem}",
        safe="Nothing more is dispatched; after a restart this call is in doubt.",
        next_command=f"perdure resolve {row.tool_call_id} --happened --result {shlex.quote(response)}",
    )


def _question_kind(store: Any, row: CallRow) -> str:
    question = store.questions.open_of_call(row.tool_call_id)
    return question.kind if question is not None else WaitReason.APPROVAL


def _probe_function(decision: Decision, tool: AnyTool) -> Callable[[CallContext], Any]:
    if decision.probe is None:
        if tool.probe_function is None:
            raise StoreError(f"tool {tool.name} has no probe")
        return tool.probe_function
    module, _, name = decision.probe.partition(":")
    found: Callable[[CallContext], Any] = getattr(importlib.import_module(module), name)
    return found
