"""The gateway: the only place where a tool is called.

One loop serves every call: load the row → ``decide`` (pure) → act → record → again. A restart enters the same loop with
the same rows, so there is no second code path for recovery. The loop does no I/O; a driver performs its actions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from perdure.core.codec import decode, shape
from perdure.core.decide import Next, Step, decide
from perdure.core.identity import Gate
from perdure.model.errors import (
    CallChallenged,
    SecretUnavailable,
    StoreError,
)
from perdure.model.policy import Decision
from perdure.model.run import WaitReason
from perdure.model.toolcall import CHALLENGED, INNER_NAMESPACES, CallRow, CallStatus
from perdure.ports.tool import ToolFailed
from perdure.runtime import (
    adopting,
    approvals,
    artifacts,
    attached,
    challenges,
    citing,
    doubts,
    late_receipt,
    recording,
    simulation,
    starting,
)
from perdure.runtime.actions import Commit, Dispatch, Ended, Invoke, Loop, Outcome, Park, Post, Withdrawn
from perdure.runtime.delivery import delivered_error, is_told
from perdure.runtime.doubts import Doubt
from perdure.runtime.invoke import context_of
from perdure.runtime.life import Life
from perdure.runtime.operations import Operation
from perdure.runtime.registry import AnyTool
from perdure.runtime.request import CallRequest, positional_and_keywords
from perdure.runtime.timers import wait_of
from perdure.store.sql_store import SqlStore


class Gateway:
    """Serves the calls of one life."""

    def __init__(self, life: Life) -> None:
        self._life = life

    # --- the loop ------------------------------------------------------------------------------------------------

    def serve(self, request: CallRequest, operation: Operation) -> Loop:
        """Bring one call to an outcome and deliver it; the generator's value is what the caller gets."""
        life = self._life
        if operation.is_withdrawn():
            raise Withdrawn
        begun = yield Commit(lambda store: starting.find_or_mint(life, store, request, operation))
        while citing.is_elsewhere(life, begun.row):
            yield Park(WaitReason.IN_DOUBT)
            if operation.is_withdrawn():
                raise Withdrawn
            begun = yield Commit(lambda store: starting.find_or_mint(life, store, request, operation))
        if life.spans is not None and begun.row.status.settled and not operation.minted:
            life.spans.replayed(begun.row)
        doubt = Doubt(request.decision, request.tool)
        row, cause = yield from self._after_start(request, operation, begun)
        while True:
            if row.status not in (CallStatus.RUNNING, CallStatus.IN_DOUBT):
                life.unsettled.discard(row.call_no)
                life.in_body.discard(row.call_no)
            if operation.is_withdrawn() and row.status in (CallStatus.PREPARED, CallStatus.AWAITING_APPROVAL):
                self._withdraw(row)
            step = decide(row, doubts.facts(life, row, doubt))
            if step.kind is Next.DELIVER:
                return self._deliver(row, request, cause, operation.response)
            if step.kind is Next.START:
                begun = yield from self._start(request, operation, row)
                row, cause = yield from self._after_start(request, operation, begun)
            else:
                row, cause = yield from self._advance(row, step, operation, doubt)

    def settle(self, row: CallRow, operation: Operation) -> Loop:
        """Bring one started row of an earlier life to an end, as ``_settle`` says, in a span of its own."""
        spans = self._life.spans
        if spans is None:
            return (yield from self._settle(row, operation))
        with spans.settling(row) as span:
            row = yield from self._settle(row, operation)
            span.facts["perdure.status"] = str(row.status)
        return row

    def _settle(self, row: CallRow, operation: Operation) -> Loop:
        """Bring one started row of an earlier life to an end before the agent is entered (R3).

        The value is the row, in doubt still if only a person can tell. A row that was not done stays prepared: it is
        sent only when it is asked for again (semantics #19).
        """
        life = self._life
        tool = life.registry.find(row.tool_namespace, row.tool_name)
        decision = life.decision(tool) if tool is not None else None
        doubt = Doubt(decision, tool)
        row = yield Commit(lambda store: recording.take_late_reply(life, store, row))
        while row.status in (CallStatus.RUNNING, CallStatus.IN_DOUBT):
            step = decide(row, doubts.facts(life, row, doubt))
            if step.kind is Next.ASK and not life.waits:
                yield from self._ask(row, step)
                return row
            row, _ = yield from self._advance(row, step, operation, doubt)
        life.settled += int(row.tool_namespace not in INNER_NAMESPACES)
        return row

    def _withdraw(self, row: CallRow) -> None:
        """Give a row that is provably not started back, because its caller was cancelled (semantics §2.3)."""
        self._life.unsettled.discard(row.call_no)
        self._life.context.free(row)
        raise Withdrawn

    def _after_start(self, request: CallRequest, operation: Operation, begun: starting.Begun) -> Loop:
        if begun.started:
            return (yield from self._attempt(operation, request.tool, request.decision, begun.row, request))
        if begun.gate is not Gate.PASS:
            return (yield from self._held_back(request, operation, begun)), None
        if begun.held is not None:
            yield Park(begun.held)
            return (yield Commit(lambda store: store.calls.get(begun.row.call_no))), None
        return begun.row, None

    def _start(self, request: CallRequest, operation: Operation, row: CallRow) -> Loop:
        life = self._life
        return (yield Commit(lambda store: starting.try_start(life, store, request, operation, row)))

    def _advance(self, row: CallRow, step: Step, operation: Operation, doubt: Doubt) -> Loop:
        life = self._life
        decision, tool = doubt.decision, doubt.tool
        operation.row = row
        if step.kind is Next.WAIT_UNTIL:
            yield wait_of(row, step)
        elif step.kind in (Next.MARK_LOST, Next.RERUN):
            row = yield Commit(lambda store: recording.store_lost(life, store, row))
            return row, None
        elif step.kind is Next.AWAIT_SENDER:
            return (yield from doubts.await_sender(life, row, doubt)), None
        elif step.kind is Next.AWAIT_TWIN:
            yield Park(WaitReason.IN_DOUBT)
        elif step.kind is Next.PROBE:
            return (yield from doubts.ask_probe(life, row, doubt)), None
        elif step.kind is Next.SEND_AGAIN and decision is not None and tool is not None:
            begun = yield Commit(lambda store: starting.send_again(life, store, operation, row))
            if begun.started:
                return (yield from self._attempt(operation, tool, decision, begun.row, None))
            return begun.row, None
        elif step.kind is Next.NOT_DONE:
            again = doubts.attempts_left(life, row, decision) > 0
            work = recording.store_not_done if again else recording.store_give_up
            row = yield Commit(lambda store: work(life, store, row))
            return row, None
        else:
            yield from self._wait_for_others(row, step, operation)
        return (yield from doubts.late_return(life, row, doubt)), None

    def _ask(self, row: CallRow, step: Step) -> Loop:
        life = self._life
        return (yield Commit(lambda store: recording.ask_doubt(life, store, row, step.why)))

    def _wait_for_others(self, row: CallRow, step: Step, operation: Operation) -> Loop:
        life = self._life
        if step.kind is Next.ASK:
            yield from self._ask(row, step)
            yield Park(WaitReason.IN_DOUBT)
        elif step.kind is Next.AWAIT_PERSON:
            kind = yield Commit(lambda store: approvals.awaited(life, store, row))
            operation.minted = False  # a person may have edited the request: what is sent is what is recorded
            if kind is not None:
                yield Park(kind)
        else:
            yield Park(WaitReason.IN_DOUBT)

    # --- holding back --------------------------------------------------------------------------------------------

    def _held_back(self, request: CallRequest, operation: Operation, begun: starting.Begun) -> Loop:
        life = self._life
        row = begun.row
        if begun.gate is Gate.WAIT:
            yield Park(WaitReason.IN_DOUBT)
        elif is_told(request, begun.gate, begun.kin):
            return (yield self._tell_model(begun))
        elif begun.gate is Gate.CHALLENGE_SEEN:
            refuses = request.options.on_challenge != "wait"
            end = challenges.refuse_challenged if refuses else challenges.ask_challenge
            return (yield Commit(lambda store: end(life, store, row, begun.kin)))
        else:
            operation.challengers = begun.kin
            operation.refuses = request.options.on_challenge != "wait"
            yield Park(WaitReason.CHALLENGE)
            operation.challengers, operation.refuses = (), False
        row = yield Commit(lambda store: store.calls.get(row.call_no))
        return row

    def _tell_model(self, begun: starting.Begun) -> Commit:
        """End a call of a model with the list of what speaks against it: the model decides, and can say so (G2, G3)."""
        life = self._life

        def tell(store: SqlStore) -> CallRow:
            told = challenges.told_to_model(store, begun.row, begun.kin, begun.problem)
            return challenges.refuse_challenged(life, store, begun.row, begun.kin, told=told)

        return Commit(tell)

    # --- one attempt ---------------------------------------------------------------------------------------------

    def _attempt(
        self,
        operation: Operation,
        tool: AnyTool,
        decision: Decision,
        row: CallRow,
        request: CallRequest | None,
    ) -> Loop:
        try:
            arguments = yield from self._arguments(operation, row, request)
        except (SecretUnavailable, ToolFailed) as problem:
            # A request goes out as it was recorded or not at all.
            refused = Outcome(Ended.NOT_DONE, error=problem, retry=False)
            return (yield from self._record(operation, row, refused, decision, request)), problem
        if operation.is_withdrawn() and request is not None:
            self._withdraw((yield Commit(lambda store: starting.take_back(self._life, store, operation, row))))
        dispatch = self._dispatch(tool, decision, row, arguments)
        if row.simulated or self._life.simulates(decision):
            dispatch = simulation.stand_in(dispatch, operation)
        spans = self._life.spans
        if spans is None:
            row, outcome = yield from self._send(operation, dispatch, row, decision, request)
        else:
            with spans.call(row, decision) as span:
                row, outcome = yield from self._send(operation, dispatch, row, decision, request)
                spans.settled(span, row, outcome)
        if outcome.fatal and outcome.error is not None:
            self._life.context.free(row)
            raise outcome.error
        return row, outcome.error

    def _send(
        self, operation: Operation, dispatch: Dispatch, row: CallRow, decision: Decision, request: CallRequest | None
    ) -> Loop:
        try:
            outcome: Outcome = yield Invoke(dispatch)
        except GeneratorExit:
            raise
        except BaseException as error:
            outcome = Outcome(Ended.RAISED, error=error, fatal=True)
        return (yield from self._record(operation, row, outcome, decision, request)), outcome

    def _arguments(self, operation: Operation, row: CallRow, request: CallRequest | None) -> Loop:
        """Return what the tool is called with: declared secrets are looked up now, and nowhere else."""
        if request is not None and operation.minted and not (request.files and row.attempt > 1):
            arguments: Any = request.complete
        else:
            # A row of an earlier life is sent as it was recorded, whatever the program would ask for now.
            stored = decode((yield Commit(lambda store: store.calls.request(row.call_no))))
            arguments = attached.as_recorded(self._life.workspace, stored)
        return self._life.sources.fill(arguments)

    def _dispatch(self, tool: AnyTool, decision: Decision, row: CallRow, arguments: Any) -> Dispatch:
        hints = tool.hints
        shaped = {name: shape(value, hints[name]) if name in hints else value for name, value in arguments.items()}
        args, kwargs = positional_and_keywords(tool.signature, shaped)
        context = context_of(self._life, row, shaped)
        if tool.takes_context:
            kwargs["call"] = context
        return Dispatch(
            tool=tool,
            row=row,
            args=args,
            kwargs=kwargs,
            context=context,
            timeout_seconds=decision.timeout_seconds,
            body=self._body_of(tool, decision),
            is_async=tool.is_async,
        )

    def _body_of(self, tool: AnyTool, decision: Decision) -> Callable[..., Any]:
        stand_ins = self._life.around.tuning.stand_ins
        found = None if stand_ins is None else stand_ins.body(tool, decision)
        return tool.plain if found is None else found

    def _record(
        self,
        operation: Operation,
        row: CallRow,
        outcome: Outcome,
        decision: Decision | None,
        request: CallRequest | None,
    ) -> Loop:
        life = self._life
        if outcome.ended is not Ended.VALUE:
            allowed = doubts.attempts_allowed(life, row, decision)
            row = yield Commit(lambda store: recording.store_setback(life, store, row, outcome, allowed))
            if row.status is CallStatus.FAILED:
                released = life.context.release(row.tool_call_id)
                if released:
                    yield Commit(lambda store: recording.let_go(life, store, released))
            return row
        receipt = recording.receipt_of(life, row, outcome)
        operation.response = receipt.text
        released = life.context.release(row.tool_call_id)
        journal = request.journal(outcome.value) if request is not None and request.journal is not None else None

        def keep(store: SqlStore) -> None:
            recording.keep_receipt(life, store, row, receipt)
            if life.failure is None:
                recording.let_go(life, store, released)
                if journal is not None:
                    journal(store)

        if not life.around.tuning.strict_receipts:
            # Nothing leaves the process between this receipt and the next intent, so they may share a commit.
            life.posted_receipts.add(row.call_no)
            yield Post(
                keep,
                lambda problem: late_receipt.lose(life, row, receipt, problem),
            )
            return row.succeeded(life.now())
        try:
            yield Commit(keep)
        except StoreError as problem:
            late_receipt.lose(life, row, receipt, problem)
            raise
        return row.succeeded(life.now())

    # --- delivery ------------------------------------------------------------------------------------------------

    def meet(self, request: CallRequest) -> tuple[bool, Any]:
        """Deliver a receipt that an earlier life stored, if the call meets one, without a transaction."""
        life = self._life
        options = request.options
        plain = options.dedupe_key is None and options.repeat_of is None and request.handle is None
        if not plain or not life.context.may_find(request.key):
            return False, None

        def find(store: SqlStore) -> tuple[CallRow, str | None] | None:
            row = life.context.find_equal(request.key, request.frame.branch, store.calls.get)
            if row is None or row.status not in (CallStatus.SUCCEEDED, CallStatus.FAILED):
                return None
            if artifacts.is_lost(life, store, row):
                return None
            life.context.hold(row.call_no)
            return row, store.calls.response(row.call_no)

        found = life.ledger.read(find)
        if found is None:
            return False, None
        row, response = found
        if adopting.moves(row, request):
            life.ledger.post(lambda store: adopting.move_to_caller(life, store, row, request), life.fail)
        life.replayed += int(request.key.namespace not in INNER_NAMESPACES)
        if life.spans is not None:
            life.spans.replayed(row)
        try:
            return True, self._deliver(row, request, None, response)
        finally:
            life.operations.met()

    def _deliver(
        self, row: CallRow, request: CallRequest, cause: BaseException | None, response: str | None = None
    ) -> Any:
        life = self._life
        request.row = row
        if row.tool_namespace not in INNER_NAMESPACES:
            life.last_tool_call_id = row.tool_call_id
        life.context.saw(row, request.reader)
        if request.handle is not None:
            life.answered.add(row.call_no)
        if row.status is CallStatus.SUCCEEDED:
            if response is None:
                response = life.ledger.read(lambda store: store.calls.response(row.call_no))
            value = decode(response or "null")
            hints = request.tool.hints
            return shape(value, hints["return"]) if "return" in hints else value
        if row.status is CallStatus.CANCELLED and row.same_as is not None:
            other = life.ledger.read(lambda store: store.calls.by_id(row.same_as or ""))
            if other is not None:
                life.context.met(other.call_no, request.reader)
                return self._deliver(other, request, None)
        if request.reader is not None and row.error_code == CHALLENGED:
            request.listed = life.ledger.read(lambda store: challenges.kin_told(store, row))
        error = delivered_error(row)
        if request.options.on_challenge == "return" and isinstance(error, CallChallenged):
            return error
        raise error from cause
