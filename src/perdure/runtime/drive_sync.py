"""Performs the gateway's actions in the calling thread."""

from __future__ import annotations

import threading
from typing import Any, TypeVar

from perdure.model.errors import LeaseLost, StorageFault
from perdure.model.run import WaitReason
from perdure.ports.tool import Probe
from perdure.runtime import invoke, starting
from perdure.runtime.actions import (
    Action,
    AwaitSender,
    Commit,
    Consult,
    Dispatch,
    Invoke,
    Loop,
    Outcome,
    Park,
    Pause,
    Post,
)
from perdure.runtime.ledger import Work
from perdure.runtime.life import Life
from perdure.runtime.operations import Operation

T = TypeVar("T")


def drive(life: Life, loop: Loop, operation: Operation) -> Any:
    """Run a gateway loop to its end and return its value."""
    answer: Any = None
    problem: BaseException | None = None
    while True:
        try:
            action = loop.throw(problem) if problem is not None else loop.send(answer)
        except StopIteration as stop:
            return stop.value
        answer, problem = None, None
        try:
            answer = _perform(life, action, operation)
        except BaseException as error:
            problem = error


def _perform(life: Life, action: Action, operation: Operation) -> Any:
    match action:
        case Commit(work):
            return commit(life, work)
        case Post(work, failed):
            life.ledger.post(work, failed)
        case Invoke(dispatch):
            with invoke.at_the_edge(life, dispatch, operation):
                return _invoke(action, operation)
        case Consult():
            return _consult(action)
        case Pause(seconds):
            life.around.clock.sleep(seconds)
            life.check_open()
        case AwaitSender(sender, seconds):
            sender.finished.wait(seconds)
        case Park(reason):
            park(life, operation, reason)
    return None


def commit(life: Life, work: Work[T]) -> T:
    """Commit; a lost lease or a fault of the store ends the life's authority."""
    try:
        return life.ledger.run(work)
    except (LeaseLost, StorageFault) as problem:
        life.fail(problem)
        raise


def _invoke(action: Invoke, operation: Operation) -> Outcome:
    dispatch = action.dispatch
    if dispatch.is_async:
        return _in_a_loop(dispatch, operation, None)
    if dispatch.timeout_seconds is None:
        outcome = invoke.call_here(dispatch, operation)
        awaits = invoke.is_awaitable(outcome.value)
        return _in_a_loop(dispatch, operation, outcome.value) if awaits else outcome
    sender = invoke.start_thread(dispatch, operation, lambda: invoke.call_here(dispatch, operation))
    if sender.finished.wait(dispatch.timeout_seconds) and sender.outcome is not None:
        return sender.outcome
    return invoke.timed_out(sender)


def _in_a_loop(dispatch: Dispatch, operation: Operation, begun: Any) -> Outcome:
    from perdure.runtime.drive_async import call_in_own_loop

    return call_in_own_loop(dispatch, operation, begun=begun)


def _consult(action: Consult) -> Probe:
    answer = invoke.ask_probe(action)
    if invoke.is_awaitable(answer):
        from perdure.runtime.drive_async import await_in_own_loop

        answer = await_in_own_loop(answer)
    return invoke.checked_probe(answer)


def park(life: Life, operation: Operation, reason: str) -> None:
    """Wait for something else to move the row, or end the life (semantics §2.3).

    Without ``--wait`` a sync agent's parked call ends the life at once, and so does a sync call that blocks the loop
    of an async one. With it, and in a thread of an async agent, it blocks until there is something new to look at.

    Raises:
        RunSuspended: the life has ended.
    """
    woken = threading.Event()
    life.operations.park(operation, reason, woken.set)
    try:
        life.check_open()
        if life.is_async and life.loop_thread != threading.get_ident():
            # Not by time: a call that kept looking would never let the life be quiet.
            if not life.operations.must_look(operation):
                woken.wait()
                life.operations.must_look(operation)
        elif life.waits:
            _ask_now(life, operation, reason)
            woken.wait(life.around.tuning.wait_poll_seconds)
        else:
            life.parked_for.append((reason, operation.row, operation.challengers))
            life.close()
        life.check_open()
    finally:
        life.operations.unpark(operation)


def _ask_now(life: Life, operation: Operation, reason: str) -> None:
    row, against = operation.row, operation.challengers
    if reason == WaitReason.CHALLENGE and row is not None and against and life.operations.all_parked():
        commit(life, lambda store: starting.ask_challenge(life, store, row, against))
