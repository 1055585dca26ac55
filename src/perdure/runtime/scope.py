"""A run around the body of a ``with``, for programs that are not to be turned inside out.

The same life as any other, with the same beginning and end; only who enters the agent differs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from types import TracebackType
from typing import Any

from perdure.model.errors import RunSuspended
from perdure.runtime.ending import Ending
from perdure.runtime.faces import AsyncRun, Run
from perdure.runtime.frame import Branch, current_branch
from perdure.runtime.phases import review
from perdure.runtime.runner import Job, Runner


class NotEntered(Exception):
    """The run has ended, or waits for what only a person can settle: its program is not entered."""


@contextmanager
def sync_scope(runner: Runner, job: Job) -> Generator[Run, None, None]:
    """Live one life of a run around the body of a ``with``.

    Raises:
        NotEntered: the body was not run.
        RunSuspended: the life has ended, and the run waits.
    """
    suspended: RunSuspended | None = None
    error: Exception | None = None
    with runner.living(job) as stay:
        entered = stay is not None and stay.ending is None
        if stay is not None and entered:
            try:
                with stay.door.here():
                    run = Run(stay.door)
                    yield run
                    review(stay.door, run.phases.leave())
                stay.ending = Ending()
            except RunSuspended as problem:
                stay.ending, suspended = Ending(suspended=True), problem
            except Exception as problem:
                stay.ending, error = Ending(error=problem), problem
    if not entered:
        raise NotEntered
    if suspended is not None:
        raise suspended
    if error is not None:
        raise error


class AsyncScope:
    """Lives one life of a run around the body of an ``async with``.

    The runner's own task stands for the program: what it would do to main, it does to the task that entered the scope.
    """

    def __init__(self, runner: Runner, job: Job) -> None:
        self._runner = runner
        self._job = job
        self._entered: asyncio.Future[AsyncRun] | None = None
        self._life: asyncio.Task[bool] | None = None
        self._body: asyncio.Task[Any] | None = None
        self._done = asyncio.Event()
        self._error: Exception | None = None
        self._cancels = 0
        self._left = False
        self._here = ExitStack()

    async def __aenter__(self) -> AsyncRun:
        from perdure.runtime.async_runner import run_async

        loop = asyncio.get_running_loop()
        self._body = asyncio.current_task()
        self._entered = loop.create_future()
        life = run_async(self._runner, replace(self._job, main=self._main))
        self._life = asyncio.Task(life, loop=loop)
        either: list[asyncio.Future[Any]] = [self._entered, self._life]
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if not self._entered.done():
            self._life.result()  # whatever kept it from entering
            raise NotEntered
        run = self._entered.result()
        branch = current_branch.set(Branch())
        self._here.callback(current_branch.reset, branch)
        self._here.enter_context(run.door.here())
        return run

    async def _main(self, run: AsyncRun) -> None:
        """Stand for the program until its body is over, and hand on what the runner does to end it."""
        if self._entered is not None:
            self._entered.set_result(run)
        while not self._done.is_set():
            try:
                await self._done.wait()
            except asyncio.CancelledError:
                if self._left or self._body is None:
                    raise
                self._cancels += 1
                self._body.cancel()
        if self._error is not None:
            raise self._error

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        self._here.close()
        life = self._life
        if life is None or self._body is None:
            return False
        if isinstance(error, asyncio.CancelledError) and not self._cancels:
            self._left = True
            life.cancel()
            await asyncio.wait([life])
            return False
        self._error = error if isinstance(error, Exception) else None
        self._done.set()
        while not life.done():
            try:
                await asyncio.wait([life])
            except asyncio.CancelledError:
                if not self._cancels:
                    self._left = True
                    life.cancel()
                    raise
        for _ in range(self._cancels):
            self._body.uncancel()
        life.result()
        if self._cancels or isinstance(error, RunSuspended):
            raise RunSuspended(f"this life of run {self._job.run_id} has ended")
        return False
