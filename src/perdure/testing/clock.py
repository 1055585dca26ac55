"""A clock that stands still until a test moves it."""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, timedelta
from itertools import count

from perdure.ports.clock import format_time, parse_time

START = "2026-01-01T12:00:00.000000Z"
PATIENCE_SECONDS = 20.0


class ClockStands(RuntimeError):
    """Somebody sleeps by a clock that nobody moves."""


@dataclass(frozen=True, slots=True)
class _Sleeper:
    number: int
    until: float
    wake: Callable[[], None]


class FakeClock:
    """A ``Clock`` for ``perdure.open(clock=…)`` or ``Engine(clock=…)`` that the test advances.

    Time never passes by itself. Who sleeps by it, in whatever thread or task, wakes when it has been advanced far
    enough. It may be used from several threads.

    Args:
        start: where it begins, ISO-8601 with a zone.
        skips_sleeps: do not let anybody sleep: move on to the end of each sleep at once. Then a test with one thread
            goes through retries and lags without waiting.
        patience_seconds: how long, in real time, a sleeper waits for the clock to be moved before it gives up.
    """

    def __init__(
        self, start: str = START, *, skips_sleeps: bool = False, patience_seconds: float = PATIENCE_SECONDS
    ) -> None:
        self.skips_sleeps = skips_sleeps
        self._patience_seconds = patience_seconds
        self._wall = parse_time(start).astimezone(UTC)
        self._elapsed = 0.0
        self._changed = threading.Condition()
        self._sleepers: dict[int, _Sleeper] = {}
        self._numbers = count()

    def now(self) -> str:
        """Return the present as ISO-8601 UTC with microseconds."""
        with self._changed:
            return format_time(self._wall)

    def monotonic(self) -> float:
        """Return the seconds that it was advanced by; stepping it does not change them."""
        with self._changed:
            return self._elapsed

    @property
    def sleeping(self) -> int:
        """How many sleep by it now."""
        with self._changed:
            return len(self._sleepers)

    def advance(self, seconds: float = 0.0, *, minutes: float = 0.0, hours: float = 0.0, days: float = 0.0) -> None:
        """Let time pass: wall time and monotonic time move on together, and sleepers whose time has come wake.

        Raises:
            ValueError: it would go backwards; use ``step`` for a wall clock that is set back.
        """
        passed = timedelta(seconds=seconds, minutes=minutes, hours=hours, days=days)
        if passed < timedelta(0):
            raise ValueError("time does not pass backwards; a wall clock that is set back is step(seconds=…)")
        with self._changed:
            self._move(passed)

    def step(self, seconds: float = 0.0, *, minutes: float = 0.0, hours: float = 0.0, days: float = 0.0) -> None:
        """Set the wall clock forward or back, as an administrator or NTP does; monotonic time stands still."""
        with self._changed:
            self._wall += timedelta(seconds=seconds, minutes=minutes, hours=hours, days=days)

    def set_to(self, moment: str) -> None:
        """Set the wall clock to a moment, ISO-8601 with a zone; monotonic time stands still."""
        with self._changed:
            self._wall = parse_time(moment).astimezone(UTC)

    def advance_to(self, moment: str) -> None:
        """Let time pass until a moment, ISO-8601 with a zone; nothing happens if that is not later."""
        with self._changed:
            self._move(max(timedelta(0), parse_time(moment) - self._wall))

    def advance_to_next(self) -> float:
        """Advance to the moment at which the next sleeper wakes, and return how many seconds that was.

        Raises:
            ClockStands: nobody sleeps.
        """
        with self._changed:
            if not self._sleepers:
                raise ClockStands("nobody sleeps by this clock")
            seconds = max(0.0, min(sleeper.until for sleeper in self._sleepers.values()) - self._elapsed)
            self._move(timedelta(seconds=seconds))
            return seconds

    def wait_for_sleepers(self, number: int = 1, *, timeout_seconds: float = 5.0) -> None:
        """Return once so many sleep by it.

        Raises:
            TimeoutError: they did not, within ``timeout_seconds`` of real time.
        """
        with self._changed:
            if not self._changed.wait_for(lambda: len(self._sleepers) >= number, timeout_seconds):
                raise TimeoutError(f"{len(self._sleepers)} of {number} sleep after {timeout_seconds:g} s")

    def sleep(self, seconds: float) -> None:
        """Block the calling thread until the clock was advanced by ``seconds``.

        Raises:
            ClockStands: nobody advanced it.
        """
        woken = threading.Event()
        number = self._fall_asleep(seconds, woken.set)
        try:
            if not woken.wait(self._patience_seconds):
                raise self._stands(seconds)
        finally:
            self._wake_up(number)

    async def pause(self, seconds: float) -> None:
        """Suspend the calling task until the clock was advanced by ``seconds``.

        Raises:
            ClockStands: nobody advanced it.
        """
        loop, woken = asyncio.get_running_loop(), asyncio.Event()

        def wake() -> None:
            with suppress(RuntimeError):  # the loop was closed meanwhile: nobody waits there any more
                loop.call_soon_threadsafe(woken.set)

        number = self._fall_asleep(seconds, wake)
        try:
            async with asyncio.timeout(self._patience_seconds):
                await woken.wait()
        except TimeoutError:
            raise self._stands(seconds) from None
        finally:
            self._wake_up(number)

    def _move(self, passed: timedelta) -> None:
        self._wall += passed
        self._elapsed += passed.total_seconds()
        for sleeper in sorted(self._sleepers.values(), key=lambda one: one.until):
            if sleeper.until <= self._elapsed or math.isclose(sleeper.until, self._elapsed, abs_tol=1e-6):
                self._sleepers.pop(sleeper.number)
                sleeper.wake()
        self._changed.notify_all()

    def _fall_asleep(self, seconds: float, wake: Callable[[], None]) -> int:
        with self._changed:
            number = next(self._numbers)
            self._sleepers[number] = _Sleeper(number, self._elapsed + max(0.0, seconds), wake)
            self._changed.notify_all()
            if self.skips_sleeps or seconds <= 0:
                self._move(timedelta(seconds=max(0.0, seconds)))
            return number

    def _wake_up(self, number: int) -> None:
        with self._changed:
            self._sleepers.pop(number, None)
            self._changed.notify_all()

    def _stands(self, seconds: float) -> ClockStands:
        return ClockStands(
            f"something sleeps for {seconds:g} s by a fake clock that nobody advanced for {self._patience_seconds:g} s "
            "of real time: advance it from another thread, or let it skip sleeps (skips_sleeps=True)"
        )
