"""One attempt of a tool or one question to a probe, with what the function may see set around it."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import replace
from typing import Any

from perdure.model.toolcall import INNER_NAMESPACES, CallRow
from perdure.ports.tool import CallContext, Probe, ToolFailed, current_context
from perdure.runtime import recording
from perdure.runtime.actions import LIVING_SENDERS, Consult, Dispatch, Ended, Outcome, Sender
from perdure.runtime.frame import current_parent
from perdure.runtime.life import Life
from perdure.runtime.operations import Operation, current_operation


def context_of(life: Life, row: CallRow, arguments: Mapping[str, Any]) -> CallContext:
    """Return what a tool or a probe may know about a call."""

    def record(ref: str) -> None:
        if row.simulated:
            return  # nothing exists outside that a later life could look up
        life.ledger.run(lambda store: recording.store_handle(life, store, row, ref))

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


@contextmanager
def serving(dispatch: Dispatch, operation: Operation) -> Generator[None, None, None]:
    """Set what a tool's body may see: its call's context, and that calls made inside belong to it."""
    tokens = (
        current_context.set(dispatch.context),
        current_parent.set(dispatch.row.tool_call_id),
        current_operation.set(operation),
    )
    try:
        yield
    finally:
        current_operation.reset(tokens[2])
        current_parent.reset(tokens[1])
        current_context.reset(tokens[0])


@contextmanager
def at_the_edge(life: Life, dispatch: Dispatch, operation: Operation) -> Generator[None, None, None]:
    """Mark physical work for the crash knobs, before and after it."""
    row = dispatch.row
    name = row.tool_name if row.tool_namespace not in INNER_NAMESPACES else f"{row.tool_namespace}:{row.tool_name}"
    place = life.place(operation.frame, name, row.tool_call_id)
    operation.frame.step.physical = True
    life.around.knobs.before_tool(place)
    operation.in_flight = True
    life.in_body.add(row.call_no)
    try:
        yield
    finally:
        operation.in_flight = False
    life.around.knobs.tool_returned(place)


def outcome_of(error: BaseException) -> Outcome:
    """Return what an exception says of an attempt: only ``ToolFailed`` says that nothing happened."""
    if isinstance(error, ToolFailed):
        return Outcome(Ended.NOT_DONE, error=error, retry=error.retry)
    return Outcome(Ended.RAISED, error=error, fatal=not isinstance(error, Exception))


def call_here(dispatch: Dispatch, operation: Operation) -> Outcome:
    """Run a sync body in this thread."""
    with serving(dispatch, operation):
        try:
            return Outcome(Ended.VALUE, value=dispatch.body(*dispatch.args, **dispatch.kwargs))
        except BaseException as error:
            return outcome_of(error)


def start_thread(dispatch: Dispatch, operation: Operation, body: Callable[[], Outcome]) -> Sender:
    """Run a body in a daemon thread of its own, registered as a sender until it returns."""
    sender = Sender(dispatch.row.idempotency_key, dispatch.row.run_id)
    LIVING_SENDERS[sender.key] = sender
    context = copy_context()

    def work() -> None:
        sender.finish(context.run(body))

    threading.Thread(target=work, name=f"perdure-{dispatch.row.tool_call_id}", daemon=True).start()
    return sender


def timed_out(sender: Sender) -> Outcome:
    """Return the outcome of an attempt that gave no answer in time while its sender goes on."""
    return Outcome(Ended.TIMED_OUT, error=TimeoutError("no answer within the timeout"), sender=sender)


def ask_probe(consult: Consult) -> Any:
    """Return what a probe function gives back (maybe an awaitable); an exception is ``unknown``."""
    token = current_context.set(consult.context)
    try:
        return consult.probe(consult.context)
    except BaseException as problem:  # in a thread of its own: nothing that it raises is meant for anybody else
        return failed_probe(problem)
    finally:
        current_context.reset(token)


def start_probe(consult: Consult, wait_for: Callable[[Any], Any]) -> Sender:
    """Ask a probe in a daemon thread of its own, for it may hang; the sender's outcome is its answer.

    Args:
        wait_for: what makes an answer of an awaitable, in that thread.
    """
    asked = Sender("", consult.context.run_id)
    context = copy_context()

    def ask() -> Any:
        answer = ask_probe(consult)
        return wait_for(answer) if is_awaitable(answer) else answer

    def work() -> None:
        asked.finish(Outcome(Ended.VALUE, value=context.run(ask)))

    threading.Thread(target=work, name=f"perdure-probe-{consult.context.tool_call_id}", daemon=True).start()
    return asked


def answer_of(asked: Sender, limit_seconds: float) -> Any:
    """Return the answer of a probe that was started, or ``unknown`` where it has not come in time."""
    return asked.outcome.value if asked.outcome is not None else late_probe(limit_seconds)


def late_probe(limit_seconds: float) -> Probe:
    """Return what a probe is worth that does not come back."""
    return Probe.unknown(f"the probe gave no answer within {limit_seconds:g} s")


def failed_probe(problem: BaseException) -> Probe:
    """Return what a probe is worth that raises."""
    return Probe.unknown(f"the probe raised {type(problem).__name__}: {problem}")


def checked_probe(answer: Any) -> Probe:
    """Return an answer as it may be used, or ``unknown`` where a probe gave back something else.

    Only ``True`` says that a listing was complete, and a reference is a text or a number that is not empty.
    """
    if not isinstance(answer, Probe):
        return Probe.unknown(f"the probe returned {type(answer).__name__}, not a Probe")
    if answer.verdict not in VERDICTS:
        return Probe.unknown(f"the probe said {answer.verdict!r}, which is none of {', '.join(VERDICTS)}")
    said: Any = answer.ref
    if said is not None and (isinstance(said, bool) or not isinstance(said, str | int)):
        return Probe.unknown(f"the probe's reference is of type {type(said).__name__}, not a text")
    ref = str(said) if said not in (None, "") else None
    return replace(answer, ref=ref, complete=answer.complete is True, reason=str(answer.reason))


VERDICTS = ("happened", "not_happened", "unknown")


def is_awaitable(value: Any) -> bool:
    """Return whether a value must be awaited."""
    return inspect.isawaitable(value)
