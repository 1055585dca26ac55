"""Performs the gateway's actions in an event loop, in tasks that belong to the engine and not to the caller."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Coroutine
from contextlib import suppress
from contextvars import copy_context
from dataclasses import replace
from typing import Any, TypeVar

from perdure.model.errors import CancelSeen, LeaseLost, StorageFault
from perdure.ports.tool import Probe
from perdure.runtime import invoke
from perdure.runtime.actions import (
    Action,
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
from perdure.runtime.crew import Crew
from perdure.runtime.ledger import Member, Work
from perdure.runtime.life import Life
from perdure.runtime.operations import Operation

T = TypeVar("T")
CANCELLING = "the end of the run"


async def drive(life: Life, loop: Loop, operation: Operation) -> Any:
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
            answer = await _perform(life, action, operation)
        except BaseException as error:
            problem = error


async def _perform(life: Life, action: Action, operation: Operation) -> Any:
    match action:
        case Commit(work):
            try:
                return await commit(life, work)
            except CancelSeen:
                # As where everything is parked: main is cancelled from outside, and no exception of ours reaches it.
                life.cancel()
                await _park(life, operation, CANCELLING)
        case Post(work, failed):
            life.ledger.post(work, failed)
        case Invoke(dispatch):
            with invoke.at_the_edge(life, dispatch, operation):
                return await _invoke(dispatch, operation)
        case Consult():
            return await _consult(life, action)
        case Pause(seconds):
            await _pause(life, seconds, operation)
            life.check_open()
        case AwaitSender(sender, seconds):
            await _finished(sender, seconds)
        case Park(reason, seconds):
            await _park(life, operation, reason, seconds)
    return None


async def commit(life: Life, work: Work[T]) -> T:
    """Commit: alone in the process, in place; in company, through the ledger thread with one wake-up per batch."""
    try:
        if life.ledger.crowd <= 1:
            return life.ledger.run(work)
        loop = asyncio.get_running_loop()
        answered: asyncio.Future[T] = loop.create_future()

        def notify(member: Member[T]) -> None:
            loop.call_soon_threadsafe(_answer, answered, member)

        life.ledger.submit(work, notify)
        return await answered
    except (LeaseLost, StorageFault) as problem:
        life.fail(problem)
        raise


def _answer(future: asyncio.Future[T], member: Member[T]) -> None:
    if future.done():
        return
    if member.error is not None:
        future.set_exception(member.error)
    else:
        future.set_result(member.result())


async def _invoke(dispatch: Dispatch, operation: Operation) -> Outcome:
    if dispatch.is_async:
        return await call_async(dispatch, operation)
    sender = invoke.start_thread(dispatch, operation, lambda: invoke.call_here(dispatch, operation))
    if await _finished(sender, dispatch.timeout_seconds) and sender.outcome is not None:
        if invoke.is_awaitable(sender.outcome.value):
            # A lambda around an async function looks sync until it is called.
            return await call_async(dispatch, operation, begun=sender.outcome.value)
        return sender.outcome
    return invoke.timed_out(sender)


async def call_async(dispatch: Dispatch, operation: Operation, *, begun: Awaitable[Any] | None = None) -> Outcome:
    """Await an async body; past its timeout it is cancelled, and what it did is unknown.

    A thread that the body has handed work to (``asyncio.to_thread``) is not cancelled with it: it goes on sending, and
    until it is done the call has a living sender (semantics #25).
    """
    crew = Crew(dispatch)
    with invoke.serving(dispatch, operation), crew:
        try:
            work = dispatch.body(*dispatch.args, **dispatch.kwargs) if begun is None else begun
            async with asyncio.timeout(dispatch.timeout_seconds):
                outcome = Outcome(Ended.VALUE, value=await work)
        except BaseException as error:
            outcome = invoke.outcome_of(error)
    if outcome.ended is Ended.NOT_DONE and not crew.sender.finished.is_set():
        # The tool says that nothing happened, and a thread that it has left is still at it: nobody can know yet.
        outcome = replace(outcome, ended=Ended.RAISED)
    return outcome


async def _consult(life: Life, action: Consult) -> Probe:
    limit = life.around.tuning.probe_timeout_seconds
    asked = invoke.start_probe(action, lambda awaitable: awaitable)
    await _finished(asked, limit)
    answer = invoke.answer_of(asked, limit)
    if invoke.is_awaitable(answer):
        answering: asyncio.Task[Any] = asyncio.Task(_probe_answer(answer), loop=asyncio.get_running_loop())
        await asyncio.wait([answering], timeout=limit)
        # Not waited for if it ignores its cancellation: a question that is never answered changes nothing.
        answer = answering.result() if answering.done() else invoke.late_probe(limit)
        answering.cancel()
    return invoke.checked_probe(answer)


async def _probe_answer(answer: Awaitable[Any]) -> Any:
    try:
        return await answer
    except (Exception, SystemExit, asyncio.CancelledError) as problem:
        return invoke.failed_probe(problem)


def _wake(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


async def _finished(sender: Sender, seconds: float | None) -> bool:
    loop = asyncio.get_running_loop()
    finished: asyncio.Future[None] = loop.create_future()

    def wake() -> None:
        with suppress(RuntimeError):  # the loop may be closed by the time a sender comes back
            loop.call_soon_threadsafe(_wake, finished)

    sender.on_finished.append(wake)
    if sender.finished.is_set():
        return True
    await asyncio.wait([finished], timeout=seconds)
    return sender.finished.is_set()


async def _pause(life: Life, seconds: float, operation: Operation) -> None:
    """Wait, but not longer than until the caller gives up."""
    loop = asyncio.get_running_loop()
    woken: asyncio.Future[None] = loop.create_future()

    def wake() -> None:
        loop.call_soon_threadsafe(_wake, woken)

    operation.wake = wake
    passed: asyncio.Task[None] = asyncio.Task(life.around.clock.pause(seconds), loop=loop)
    try:
        await asyncio.wait([woken, passed], return_when=asyncio.FIRST_COMPLETED)
        if passed.done():
            passed.result()
    finally:
        passed.cancel()
        operation.wake = None


async def _park(life: Life, operation: Operation, reason: str, seconds: float | None = None) -> None:
    loop = asyncio.get_running_loop()
    woken: asyncio.Future[None] = loop.create_future()

    def wake() -> None:
        loop.call_soon_threadsafe(_wake, woken)

    due = None if seconds is None else loop.call_later(seconds, _wake, woken)
    life.operations.park(operation, reason, wake)
    try:
        ending = reason == CANCELLING
        if not ending:
            life.check_open()
        if ending or not life.operations.must_look(operation):
            await woken
            life.operations.must_look(operation)
        life.check_open()
    finally:
        if due is not None:
            due.cancel()
        life.operations.unpark(operation)


def call_in_own_loop(dispatch: Dispatch, operation: Operation, *, begun: Awaitable[Any] | None = None) -> Outcome:
    """Run an async body for a sync agent."""
    with invoke.serving(dispatch, operation):
        outcome: Outcome = _in_own_loop(call_async(dispatch, operation, begun=begun))
    return outcome


def await_in_own_loop(answer: Awaitable[Any]) -> Any:
    """Await an async probe's answer for a sync agent."""
    return _in_own_loop(_probe_answer(answer))


def _in_own_loop(work: Coroutine[Any, Any, Any]) -> Any:
    # asyncio.run waits for the threads that its loop has handed work to, so no sender outlives it unseen.
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    # A sync agent that was itself started inside a loop: this thread's loop is busy, so another thread runs one.
    box: list[Any] = []
    context = copy_context()
    thread = threading.Thread(target=lambda: box.append(context.run(asyncio.run, work)))
    thread.start()
    thread.join()
    return box[0]
