"""Threads that an async tool has handed work to: they go on sending when the tool's own task was cancelled."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import ContextVar, Token
from types import TracebackType
from typing import Any, ParamSpec, TypeVar

from perdure.runtime.actions import LIVING_SENDERS, Dispatch, Ended, Outcome, Sender

P = ParamSpec("P")
T = TypeVar("T")


class Crew:
    """One attempt of an async tool with its threads, registered as a sender until the last of them has come back."""

    def __init__(self, dispatch: Dispatch) -> None:
        self.sender = Sender(dispatch.row.idempotency_key, dispatch.row.run_id)
        self._at_work = 1  # the body itself
        self._lock = threading.Lock()
        self._token: Token[Crew | None] | None = None

    def __enter__(self) -> Crew:
        LIVING_SENDERS[self.sender.key] = self.sender
        self._token = _current.set(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._token is not None:
            _current.reset(self._token)
        self._leave()

    def join(self, work: Future[Any]) -> None:
        """Count a thread's piece of work until it is done."""
        with self._lock:
            self._at_work += 1
        work.add_done_callback(lambda _: self._leave())

    def _leave(self) -> None:
        with self._lock:
            self._at_work -= 1
            over = self._at_work == 0
        if over:
            # What a thread gave back is not what the tool would have made of it: the outcome stays unknown.
            self.sender.finish(Outcome(Ended.RAISED, error=TimeoutError("its threads have come back")))


_current: ContextVar[Crew | None] = ContextVar("perdure_crew", default=None)


class CountingExecutor(ThreadPoolExecutor):
    """The threads of ``asyncio.to_thread``, which know for which attempt of a tool they work."""

    def __init__(self) -> None:
        super().__init__(thread_name_prefix="perdure-to-thread")
        self._busy = 0
        self._lock = threading.Lock()

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Hand work to a thread."""
        crew = _current.get()
        with self._lock:
            self._busy += 1
        work = super().submit(fn, *args, **kwargs)
        work.add_done_callback(self._done)
        if crew is not None:
            crew.join(work)
        return work

    def _done(self, _: Future[Any]) -> None:
        with self._lock:
            self._busy -= 1

    @property
    def busy(self) -> bool:
        """Whether a thread is at work, or work waits for one."""
        return self._busy > 0


def count_threads(loop: asyncio.AbstractEventLoop) -> CountingExecutor | None:
    """Let a loop's ``to_thread`` work be counted; a loop that has chosen its executor already keeps it."""
    chosen = getattr(loop, "_default_executor", None)
    if isinstance(chosen, CountingExecutor):
        return chosen
    if chosen is not None:
        return None
    counting = CountingExecutor()
    loop.set_default_executor(counting)
    return counting
