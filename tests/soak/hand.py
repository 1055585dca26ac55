"""The hand that ends a life from outside, at the moment its plan names, and lets go what the provider keeps."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from perdure.testing.provider.effect_log import Line
from tests.soak.schedule import Kill
from tests.soak.stand import LOOK_SECONDS, World

LATE_SECONDS = 0.03
TRAPS = ("held", "held_before", "stop")
FROM_OUTSIDE = (*TRAPS, "line", "soon")


class Hand:
    """Watches one life: `watch` begins when its pid is known, `over` ends it.

    Args:
        kept: requests of earlier lives that the provider still has in its hands.
        beside: called while the life stands still (`Kill.how` is `stop`).
    """

    def __init__(self, world: World, tag: str, kill: Kill | None, kept: list[Line], beside: Callable[[], None]) -> None:
        self._world, self._tag, self._kill, self._beside = world, tag, kill, beside
        self._earlier = kept
        self._begun_at = len(world.lines(tag))
        self._over = threading.Event()
        self._thread: threading.Thread | None = None
        self._problem: BaseException | None = None
        self._let_gone: set[int] = set()
        self.acted = False
        self.kept: list[Line] = []

    def watch(self, pid: int) -> None:
        """Begin to watch the process."""
        self._start(os.pidfd_open(pid))

    def attend(self) -> None:
        """Begin to let go what the provider keeps, and watch nobody."""
        self._start(None)

    def _start(self, process: int | None) -> None:
        self._thread = threading.Thread(target=self._safely, args=[process], daemon=True)
        self._thread.start()

    def over(self) -> list[Line]:
        """The life has ended: return what the provider still keeps of it, and raise what went wrong here."""
        self._over.set()
        if self._thread is not None:
            self._thread.join()
        if self._problem is not None:
            raise self._problem
        self._let_go_of_earlier()
        for line in self._held():
            if line not in self.kept:
                self._let_go(line)
        return self.kept

    def _safely(self, process: int | None) -> None:
        try:
            self._look(process)
        except BaseException as problem:
            self._problem = problem
            self._send(process, signal.SIGKILL)  # nobody would let it go any more
        finally:
            if process is not None:
                os.close(process)

    def _look(self, process: int | None) -> None:
        began = time.monotonic()
        while not self._over.wait(LOOK_SECONDS):
            passed = time.monotonic() - began
            lines = self._lines()
            if lines or passed > LATE_SECONDS:
                self._let_go_of_earlier()
            for line in self._held():
                if self._is_trap(line):
                    self._spring(process, line)
                elif line not in self.kept:
                    self._let_go(line)
            if self._is_due(len(lines), passed):
                self._send(process, signal.SIGKILL)

    def _lines(self) -> list[Line]:
        return self._world.lines(self._tag)[self._begun_at :]

    def _held(self) -> list[Line]:
        """What the provider keeps since this life began."""
        return [line for line in self._lines() if line["event"] == "held" and line["n"] not in self._let_gone]

    def _is_trap(self, line: Line) -> bool:
        kill = self._kill
        if kill is None or self.acted or kill.how not in TRAPS:
            return False
        return bool(line["what"] == f"{self._tag}:{kill.name}")

    def _is_due(self, lines: int, passed: float) -> bool:
        kill = self._kill
        if kill is None or self.acted:
            return False
        return (kill.how == "line" and lines >= kill.number) or (kill.how == "soon" and passed * 1000 >= kill.number)

    def _spring(self, process: int | None, line: Line) -> None:
        """The request that was waited for stands at the provider."""
        kill = self._kill
        assert kill is not None
        if kill.how != "stop":
            self._send(process, signal.SIGKILL)
            if kill.late:
                self.kept = [line]
            return
        self._send(process, signal.SIGSTOP)
        try:
            self._beside()
            self._let_go(line)
        finally:
            if kill.wakes:
                self._send(process, signal.SIGCONT)
            else:
                self._send(process, signal.SIGKILL)

    def _send(self, process: int | None, what: signal.Signals) -> None:
        self.acted = True
        if process is not None:
            with suppress(ProcessLookupError):  # it was quicker
                signal.pidfd_send_signal(process, what)

    def _let_go_of_earlier(self) -> None:
        while self._earlier:
            self._let_go(self._earlier.pop())

    def _let_go(self, line: Line) -> None:
        """Let a kept request go; when this returns it has had its effect, since the provider took it up first."""
        self._let_gone.add(line["n"])
        self._world.provider.release(line["path"], line["what"])
        self._world.provider.state()
