"""Time, as the engine sees it; everything that asks for the time asks one of these."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Protocol


class Clock(Protocol):
    """Wall time for records, monotonic time for waiting."""

    def now(self) -> str:
        """Return the present as ISO-8601 UTC with microseconds."""
        ...

    def monotonic(self) -> float:
        """Return seconds that never go backwards."""
        ...

    def sleep(self, seconds: float) -> None:
        """Block the calling thread for ``seconds``."""
        ...

    async def pause(self, seconds: float) -> None:
        """Suspend the calling task for ``seconds``."""
        ...


class SystemClock:
    """The machine's own clock."""

    def __init__(self) -> None:
        self._second = (-1, "")

    def now(self) -> str:
        """Return the machine's wall time; its date is written once a second, since each call asks several times."""
        second, nanoseconds = divmod(time.time_ns(), 1_000_000_000)
        known, text = self._second
        if known != second:
            text = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second))
            self._second = (second, text)
        return f"{text}.{nanoseconds // 1000:06}Z"

    def monotonic(self) -> float:
        """Return the machine's monotonic time in seconds."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Block the calling thread for ``seconds``."""
        time.sleep(seconds)

    async def pause(self, seconds: float) -> None:
        """Suspend the calling task for ``seconds``."""
        import asyncio

        await asyncio.sleep(seconds)


def format_time(moment: datetime) -> str:
    """Return ``moment`` (aware) as ISO-8601 UTC with microseconds, the one spelling the ledger uses."""
    return moment.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


FOREVER = "9999-12-31T23:59:59.999999Z"
"""The expiry of a key that a provider never forgets."""


def parse_time(text: str) -> datetime:
    """Return the aware moment that ``format_time`` or any ISO-8601 writer with a zone wrote."""
    return datetime.fromisoformat(text)


def after(text: str, seconds: float) -> str:
    """Return the moment ``seconds`` after ``text``."""
    return format_time(parse_time(text) + timedelta(seconds=seconds))


def seconds_between(earlier: str, later: str) -> float:
    """Return the seconds from ``earlier`` to ``later``."""
    return (parse_time(later) - parse_time(earlier)).total_seconds()
