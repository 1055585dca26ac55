"""What signals do to the life that the main thread lives (R111, R112).

The first SIGINT stops dispatching and gives what is in flight a bounded time to come to its end, so that its outcome
is recorded. It never interrupts the engine's own work, only the program and, when the time is over, a tool's body. What
comes within half a second of it is the same wish (R112: a key that is held down, a terminal and a supervisor that both
signal). A later one leaves at once, and the next life finds what a crash would have left.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from types import FrameType


class Doing(Enum):
    """What the main thread of a sync agent does."""

    PROGRAM = "the program's own lines"
    ENGINE = "work of the engine, which is not interrupted"
    BODY = "a tool's body, or the wait for one"
    PAUSE = "a wait in which nothing is in flight"


DEBOUNCE_SECONDS = 0.5


def _nothing() -> None:
    return None


@dataclass(slots=True)
class Listeners:
    """What a command line does beside: ``first`` may say something, ``second`` may leave the process.

    With ``stays`` the handler stays where a signal came: the command line is on its way to the end of the process.
    """

    first: Callable[[], None] = _nothing
    second: Callable[[], None] = _nothing
    stays: bool = False

    def reset(self) -> None:
        """Listen no more."""
        self.first = self.second = _nothing
        self.stays = False


listeners = Listeners()


class Stopping:
    """Takes the signals of one life.

    Args:
        grace_seconds: how long what is in flight may take after the first signal.
        stop: how an async agent is stopped; a sync one is interrupted.
    """

    def __init__(self, grace_seconds: float, stop: Callable[[], None] | None = None) -> None:
        self.asked = False
        self.doing = Doing.PROGRAM
        self._grace_seconds = grace_seconds
        self._stop = stop
        self._expired = False
        self._asked_at = 0.0
        self._timer: threading.Timer | None = None

    def check(self) -> None:
        """Stop here, where nothing is in flight, if a signal has asked for it.

        Raises:
            KeyboardInterrupt: it has.
        """
        if self.asked and threading.current_thread() is threading.main_thread():
            raise KeyboardInterrupt

    def handle(self, _number: int, _frame: FrameType | None) -> None:
        """Serve one signal."""
        if self._expired:
            self._expired = False
            if self.doing is not Doing.ENGINE:
                raise KeyboardInterrupt
            return
        if self.asked:
            if time.monotonic() - self._asked_at < DEBOUNCE_SECONDS:
                return
            listeners.second()
            raise KeyboardInterrupt
        self.asked, self._asked_at = True, time.monotonic()
        listeners.first()
        if self._stop is not None:
            self._stop()
        elif self.doing in (Doing.PROGRAM, Doing.PAUSE):
            raise KeyboardInterrupt
        else:
            self._timer = threading.Timer(self._grace_seconds, self._expire)
            self._timer.daemon = True
            self._timer.start()

    def _expire(self) -> None:
        self._expired = True
        main = threading.main_thread().ident
        if main is not None:
            signal.pthread_kill(main, signal.SIGINT)  # a real signal: a body that waits in the kernel must hear it

    def over(self) -> None:
        """Stop listening."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer.join()


@contextmanager
def listening(stopping: Stopping) -> Generator[None, None, None]:
    """Let SIGINT go to a life while it is lived in the main thread, unless the program takes the signal itself."""
    mine = threading.current_thread() is threading.main_thread()
    if not mine or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, stopping.handle)
    try:
        yield
    finally:
        stopping.over()
        if not (stopping.asked and listeners.stays):
            signal.signal(signal.SIGINT, signal.default_int_handler)
