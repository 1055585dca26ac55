"""Performs the gateway's actions in the calling thread."""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, TypeVar

from perdure.model.errors import CancelSeen, LeaseLost, RunSuspended, StorageFault
from perdure.model.run import WaitReason
from perdure.ports.clock import SystemClock
from perdure.ports.tool import Probe
from perdure.runtime import challenges, invoke
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
from perdure.runtime.stopping import Doing

T = TypeVar("T")

LOOK_UP_SECONDS = 0.5
"""How long a wait in the calling thread goes on at most without a look whether the life is over."""


def drive(life: Life, loop: Loop, operation: Operation) -> Any:
    """Run a gateway loop to its end and return its value.

    Raises:
        KeyboardInterrupt: a signal has stopped this life; what was in flight is recorded.
    """
    stopping = life.stopping
    if stopping is None:
        return _drive(life, loop, operation)
    stopping.check()
    with _doing(life, Doing.ENGINE):
        value = _drive(life, loop, operation)
    if operation.enclosing is None:
        stopping.check()
    return value


def _drive(life: Life, loop: Loop, operation: Operation) -> Any:
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


def _pause(life: Life, seconds: float) -> None:
    """Wait, but not longer than until the life is over: somebody may want its end meanwhile.

    Raises:
        RunSuspended: it is.
    """
    clock = life.around.clock
    until, left = clock.monotonic() + seconds, seconds
    longest = LOOK_UP_SECONDS if isinstance(clock, SystemClock) else seconds  # time that a test moves is not cut up
    while left > 0 and not life.closed:
        piece = min(left, longest)
        clock.sleep(piece)
        left = min(left - piece, until - clock.monotonic())
    life.check_open()


@contextmanager
def _doing(life: Life, what: Doing) -> Generator[None, None, None]:
    """Say what the main thread does, so that a signal interrupts nothing that must not be interrupted."""
    stopping = life.stopping
    if stopping is None or threading.current_thread() is not threading.main_thread():
        yield
        return
    before, stopping.doing = stopping.doing, what
    try:
        yield
    finally:
        stopping.doing = before


def _perform(life: Life, action: Action, operation: Operation) -> Any:
    match action:
        case Commit(work):
            return commit(life, work)
        case Post(work, failed):
            life.ledger.post(work, failed)
        case Invoke(dispatch):
            with invoke.at_the_edge(life, dispatch, operation), _doing(life, Doing.BODY):
                return _invoke(action, operation)
        case Consult():
            with _doing(life, Doing.PAUSE):
                return _consult(life, action)
        case Pause(seconds):
            with _doing(life, Doing.PAUSE):
                _pause(life, seconds)
        case AwaitSender(sender, seconds):
            with _doing(life, Doing.BODY):
                sender.finished.wait(seconds)
        case Park(reason, seconds):
            with _doing(life, Doing.PAUSE):
                park(life, operation, reason, seconds)
    return None


def commit(life: Life, work: Work[T]) -> T:
    """Commit; a lost lease or a fault of the store ends the life's authority."""
    try:
        return life.ledger.run(work)
    except CancelSeen:
        life.cancel()
        raise RunSuspended(f"run {life.run_id} was cancelled") from None
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


def _consult(life: Life, action: Consult) -> Probe:
    limit = life.around.tuning.probe_timeout_seconds
    asked = invoke.start_probe(action, _awaited)
    asked.finished.wait(limit)
    return invoke.checked_probe(invoke.answer_of(asked, limit))


def _awaited(answer: Any) -> Any:
    from perdure.runtime.drive_async import await_in_own_loop

    return await_in_own_loop(answer)


def park(life: Life, operation: Operation, reason: str, seconds: float | None = None) -> None:
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
                woken.wait(seconds)
                life.operations.must_look(operation)
        elif life.waits or (operation.refuses and not life.is_async):
            if not _ask_now(life, operation, reason) or life.waits:
                woken.wait(life.around.tuning.wait_poll_seconds)
        else:
            life.parked_for.append((reason, operation.row, operation.challengers))
            life.close()
        life.check_open()
    finally:
        life.operations.unpark(operation)


def _ask_now(life: Life, operation: Operation, reason: str) -> bool:
    """Put a challenge that has waited until the run is quiet, and return whether there was one."""
    row, against = operation.row, operation.challengers
    if reason == WaitReason.CHALLENGE and row is not None and against and life.operations.all_parked():
        end = challenges.refuse_challenged if operation.refuses else challenges.ask_challenge
        commit(life, lambda store: end(life, store, row, against))
        return True
    return False
