"""The caller's side of an async call: it waits for the engine's task, and its cancellation never reaches a dispatch.

A cancel is held back until the outcome is recorded (semantics §2.3). Before a start, or after a definite failure, it is
raised at once; after success the call returns its receipt, and the cancel is raised at that task's next engine call if
the task is then still being cancelled.
"""

from __future__ import annotations

import asyncio
import weakref
from contextvars import copy_context
from typing import Any

from perdure.model.errors import CallError
from perdure.model.toolcall import INNER_NAMESPACES
from perdure.runtime import drive_async
from perdure.runtime.actions import Withdrawn
from perdure.runtime.gateway import Gateway
from perdure.runtime.life import Life
from perdure.runtime.operations import Operation
from perdure.runtime.request import CallRequest

_HELD: weakref.WeakKeyDictionary[asyncio.Task[Any], bool] = weakref.WeakKeyDictionary()


def raise_held_cancel() -> None:
    """Raise the cancel that was held back from this task, if it is still being cancelled."""
    task = asyncio.current_task()
    if task is not None and _HELD.pop(task, False) and task.cancelling() > 0:
        raise asyncio.CancelledError


async def serve(life: Life, gateway: Gateway, request: CallRequest) -> Any:
    """Serve a request in an engine task and wait for it."""
    operation = life.operations.begin(request.frame)
    task = _spawn(life, gateway, request, operation)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as cancel:
            if life.closed:
                task.add_done_callback(_look_away)
                raise
            cancelled = cancel
            if request.key.namespace in INNER_NAMESPACES and operation.in_flight:
                task.cancel()
            else:
                life.operations.withdraw(operation)
    return _answer(task, cancelled)


def _look_away(task: asyncio.Task[Any]) -> None:
    """Take the outcome of a task whose caller is gone, so that the loop does not report it as never retrieved."""
    if not task.cancelled():
        task.exception()


def _spawn(life: Life, gateway: Gateway, request: CallRequest, operation: Operation) -> asyncio.Task[Any]:
    # Counted before the task runs, so that calls made in one turn of the loop see each other and share a commit.
    life.ledger.crowd += 1

    def ended(_: asyncio.Task[Any]) -> None:
        # A task that is cancelled before its first step never runs its own clean-up.
        life.ledger.crowd -= 1
        life.operations.end(operation)

    # Made directly, so that the engine's own tasks are not counted as branches of the program.
    task: asyncio.Task[Any] = asyncio.Task(
        drive_async.drive(life, gateway.serve(request, operation), operation),
        loop=asyncio.get_running_loop(),
        context=copy_context(),
    )
    task.add_done_callback(ended)
    return task


def _answer(task: asyncio.Task[Any], cancelled: asyncio.CancelledError | None) -> Any:
    if task.cancelled():
        raise cancelled or asyncio.CancelledError
    error = task.exception()
    if cancelled is not None:
        if isinstance(error, CallError | Withdrawn):
            raise cancelled
        current = asyncio.current_task()
        if current is not None and error is None:
            _HELD[current] = True
    if error is not None:
        raise error
    return task.result()
