"""Drives one life of an async agent, and ends it from outside when everything it does is parked (semantics §2.3)."""

from __future__ import annotations

import asyncio
import math
import weakref
from collections.abc import Callable, Coroutine
from contextvars import Context, copy_context
from functools import partial
from typing import Any

from perdure.model.errors import LeaseLost, RunSuspended, StoreError
from perdure.model.run import WaitReason
from perdure.model.toolcall import CallRow
from perdure.runtime import challenges, doubts, drive_async, late_receipt
from perdure.runtime.crew import CountingExecutor, count_threads
from perdure.runtime.door import Door
from perdure.runtime.ending import Ending
from perdure.runtime.faces import AsyncRun
from perdure.runtime.frame import Branch, Frame, current_branch
from perdure.runtime.life import Life
from perdure.runtime.phases import review_async
from perdure.runtime.program import finished
from perdure.runtime.runner import Job, Runner
from perdure.runtime.stopping import Stopping, listening
from perdure.store.sql_store import SqlStore

CANCEL_ATTEMPTS = 50
CANCEL_PATIENCE_SECONDS = 0.1
LEFTOVER_PATIENCE_SECONDS = 1.0
DRAIN_LOOK_SECONDS = 0.005


def run_in_own_loop(runner: Runner, job: Job) -> bool:
    """Run one life of an async agent in a loop made for it, and return whether there was one.

    Tasks that ignore their cancellation, and threads that do not come back, are left behind with their loop after a
    bounded time: the life is over, its rows are written, and nothing may keep the process from ending (semantics §2.3).

    Raises:
        KeyboardInterrupt: a signal stopped the life, after what was in flight was recorded.
    """
    own = asyncio.Runner()
    loop = own.get_loop()
    threads = count_threads(loop)
    living: list[asyncio.Task[Any]] = []

    async def live() -> bool:
        task = asyncio.current_task()
        living.extend([task] if task is not None else [])
        return await run_async(runner, job)

    def stop() -> None:
        loop.call_soon_threadsafe(lambda: [task.cancel() for task in living])

    stopping = Stopping(0.0, stop)
    try:
        with listening(stopping):
            try:
                lived = own.run(live())
            except asyncio.CancelledError:
                stopping.check()
                raise
            stopping.check()
            return lived
    finally:
        _leave_loop(own, threads)


def _leave_loop(own: asyncio.Runner, threads: CountingExecutor | None) -> None:
    loop = own.get_loop()
    left = asyncio.all_tasks(loop)
    for task in left:
        task.cancel()
    give_up = loop.time() + LEFTOVER_PATIENCE_SECONDS
    if left:
        _, left = loop.run_until_complete(asyncio.wait(left, timeout=LEFTOVER_PATIENCE_SECONDS))
    while threads is not None and threads.busy and loop.time() < give_up:
        loop.run_until_complete(asyncio.sleep(0.005))
    if left or (threads is not None and threads.busy):
        _ABANDONED.append(own)
    else:
        own.close()


_ABANDONED: list[asyncio.Runner] = []
"""Loops with tasks or threads that never end; kept, so that no collector complains about them."""


def left_behind() -> bool:
    """Return whether a life of this process has left something behind that could keep the process from ending."""
    return bool(_ABANDONED)


async def run_async(runner: Runner, job: Job) -> bool:
    """Run one life of an async agent in the running loop, and return whether there was one."""
    life = runner.begin(job, is_async=True)
    if life is None:
        return False
    count_threads(asyncio.get_running_loop())
    watch = _Watch(life)
    try:
        door = Door(life)
        door.enter_loop()
        barred = await _settled(life, door, runner.to_settle(life), watch) or runner.barred(life)
        ending = await _enter(runner, life, door, job.main, watch) if barred is None else barred
        if life.believed_noes and not life.cancel_asked and not ending.suspended:
            await _look_again(life)
        runner.end(life, ending)
    except asyncio.CancelledError:
        await _interrupt(runner, life)
        raise
    except (LeaseLost, StoreError) as problem:
        raise await late_receipt.last_word_of_loop(life, problem) from problem.__cause__
    finally:
        watch.stop()
        runner.forget(life)
    return True


async def _interrupt(runner: Runner, life: Life) -> None:
    """Leave a run that was stopped: nothing more is begun, and what is in flight gets a bounded time to end."""
    life.close()
    try:
        await _drain(life, note=False, seconds=life.around.tuning.interrupt_grace_seconds)
    finally:
        runner.interrupt(life)


async def _settled(life: Life, door: Door, rows: list[CallRow], watch: _Watch) -> Ending | None:
    if not rows:
        return None
    settling = asyncio.ensure_future(_settle_all(life, door, rows))
    over = asyncio.ensure_future(watch.over.wait())
    try:
        await asyncio.wait([settling, over], return_when=asyncio.FIRST_COMPLETED)
        while not settling.done() and life.cancel_asked:
            life.operations.wake_parked()
            await asyncio.wait([settling], timeout=DRAIN_LOOK_SECONDS)
        await settling
    except asyncio.CancelledError:
        settling.cancel()
        raise
    except RunSuspended:
        if not life.cancel_asked:
            raise
        return Ending(suspended=True)
    finally:
        over.cancel()
    return None


async def _settle_all(life: Life, door: Door, rows: list[CallRow]) -> None:
    async def settle(row: CallRow) -> None:
        operation = life.operations.begin(Frame(life.root, None, row.branch))
        try:
            await drive_async.drive(life, door.gateway.settle(row, operation), operation)
        finally:
            life.operations.end(operation)

    await asyncio.gather(*(settle(row) for row in rows))


async def _look_again(life: Life) -> None:
    operation = life.operations.begin(Frame(life.root, None, ""))
    try:
        await drive_async.drive(life, doubts.look_again(life), operation)
    finally:
        life.operations.end(operation)


class _Watch:
    """Looks whether the life is quiet, wakes parked calls under ``--wait``, and says when the life must end."""

    def __init__(self, life: Life) -> None:
        self._life = life
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._poller = self._loop.create_task(self._poll()) if life.waits else None
        self.over = asyncio.Event()
        life.operations.changed = self._changed
        life.on_close = self._closed

    def stop(self) -> None:
        """Stop watching."""
        self._life.operations.changed = lambda: None
        self._life.on_close = lambda: None
        if self._timer is not None:
            self._timer.cancel()
        if self._poller is not None:
            self._poller.cancel()

    def _closed(self) -> None:
        self._loop.call_soon_threadsafe(self.over.set)

    def _changed(self) -> None:
        if self._life.operations.parked_count or self._timer is not None:
            self._loop.call_soon_threadsafe(self._look)

    def _look(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        operations = self._life.operations
        if operations.all_parked():
            seconds = self._life.around.tuning.quiet_seconds
            self._timer = self._loop.call_later(seconds, self._quiet, operations.began)

    def _quiet(self, began: int) -> None:
        self._timer = None
        life = self._life
        if life.operations.began != began or not life.operations.all_parked() or life.closed:
            return
        if self._refuse():
            return
        if life.waits:
            self._ask()
        else:
            note_parked(life)
            life.close()

    def _refuse(self) -> bool:
        """End the challenged calls whose callers want to hear of it; nobody else will meet what speaks against them."""
        life = self._life
        refused = False
        for operation in life.operations.parked():
            row, against = operation.row, operation.challengers
            if operation.parked == WaitReason.CHALLENGE and operation.refuses and row is not None and against:
                life.ledger.run(partial(_refuse_challenged, life, row, against))
                refused = True
        if refused:
            life.operations.wake_parked()
        return refused

    def _ask(self) -> None:
        life = self._life
        for operation in life.operations.parked():
            row, against = operation.row, operation.challengers
            if operation.parked == WaitReason.CHALLENGE and row is not None and against:
                life.ledger.run(partial(_ask_challenge, life, row, against))
        life.operations.wake_parked()

    async def _poll(self) -> None:
        while True:
            await asyncio.sleep(self._life.around.tuning.wait_poll_seconds)
            self._life.operations.wake_parked()


def _ask_challenge(life: Life, row: CallRow, against: tuple[CallRow, ...], store: SqlStore) -> None:
    challenges.ask_challenge(life, store, row, against)


def _refuse_challenged(life: Life, row: CallRow, against: tuple[CallRow, ...], store: SqlStore) -> None:
    challenges.refuse_challenged(life, store, row, against)


def note_parked(life: Life) -> None:
    """Remember what is parked, for the end of the life."""
    for operation in life.operations.parked():
        life.parked_for.append((operation.parked or "", operation.row, operation.challengers))


async def _enter(runner: Runner, life: Life, door: Door, main: Callable[..., Any], watch: _Watch) -> Ending:
    loop = asyncio.get_running_loop()
    _grow_branches(loop)
    context = copy_context()
    with door.here():
        context = copy_context()
    context.run(current_branch.set, Branch())
    task: asyncio.Task[Any] = asyncio.Task(_as_coroutine(main, AsyncRun(door)), loop=loop, context=context)
    over = asyncio.Task(watch.over.wait(), loop=loop)
    try:
        await asyncio.wait([task, over], return_when=asyncio.FIRST_COMPLETED)
        ended_by_itself = task.done()
        if not ended_by_itself:
            await _cancel(task)
        ending = _ending(task) if ended_by_itself else Ending(suspended=True)
        await _drain(life, note=ended_by_itself)
        return ending
    except asyncio.CancelledError:
        task.cancel()
        task.add_done_callback(_look_away)
        raise
    finally:
        over.cancel()
        _stop_branches(loop)


async def _as_coroutine(main: Callable[..., Any], run: AsyncRun) -> Any:
    result = finished(await main(run))
    await review_async(run.door, run.phases.leave())
    return result


def _ending(task: asyncio.Task[Any]) -> Ending:
    if task.cancelled():
        return Ending(error=asyncio.CancelledError("main was cancelled"))
    error = task.exception()
    if error is None:
        return Ending(result=task.result())
    if isinstance(error, RunSuspended):
        return Ending(suspended=True)
    if not isinstance(error, Exception):
        raise error
    return Ending(error=error)


async def _cancel(task: asyncio.Task[Any]) -> None:
    """Cancel main from outside; whatever it then does, returns or raises is ignored."""
    for _ in range(CANCEL_ATTEMPTS):
        task.cancel()
        await asyncio.wait([task], timeout=CANCEL_PATIENCE_SECONDS)
        if task.done():
            break
    if task.done() and not task.cancelled():
        task.exception()


def _look_away(task: asyncio.Task[Any]) -> None:
    """Take what a stopped main ended with, so that the loop does not report it as never retrieved."""
    if not task.cancelled():
        task.exception()


async def _drain(life: Life, *, note: bool, seconds: float = math.inf) -> None:
    """Wait until every dispatch in flight has its outcome recorded; then tell the parked ones that it is over."""
    life.closed = True
    give_up = life.around.clock.monotonic() + seconds

    async def until(done: Callable[[], bool]) -> None:
        while not done() and life.around.clock.monotonic() < give_up:
            await asyncio.sleep(DRAIN_LOOK_SECONDS)

    def gone() -> bool:
        life.operations.wake_parked()
        return not len(life.operations)

    life.operations.draining = True
    await until(lambda: not len(life.operations) or life.operations.all_parked())
    if note:
        note_parked(life)
    life.operations.draining = False
    await until(gone)


_USERS: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, int] = weakref.WeakKeyDictionary()


def _grow_branches(loop: asyncio.AbstractEventLoop) -> None:
    """Give tasks of this loop their spawn path; all runs of a loop share one factory."""
    users = _USERS.get(loop, 0)
    if users == 0:
        loop.set_task_factory(_branching(loop.get_task_factory()))
    _USERS[loop] = users + 1


def _stop_branches(loop: asyncio.AbstractEventLoop) -> None:
    """Give the loop its own factory back when the last run has left, unless somebody else has set one since."""
    _USERS[loop] -= 1
    factory: Any = loop.get_task_factory()
    if _USERS[loop] == 0 and hasattr(factory, "before_perdure"):
        loop.set_task_factory(factory.before_perdure)


def _branching(inner: Any) -> Callable[..., asyncio.Task[Any]]:
    """Return a task factory that gives every task of the program its spawn path (F3)."""

    def factory(
        loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, Any], **options: Any
    ) -> asyncio.Task[Any]:
        parent = current_branch.get()
        context: Context | None = options.get("context")
        if parent is not None and context is None:
            context = copy_context()
            context.run(current_branch.set, parent.child())
            options["context"] = context
        if inner is not None:
            made: asyncio.Task[Any] = inner(loop, coroutine, **options)
            return made
        return asyncio.Task(coroutine, loop=loop, **options)

    factory.before_perdure = inner  # type: ignore[attr-defined]
    return factory
