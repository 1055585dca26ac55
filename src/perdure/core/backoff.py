"""How long to wait before the next attempt (R058)."""

from __future__ import annotations

FIRST_SECONDS = 0.5
LONGEST_SECONDS = 60.0


def delay_seconds(attempt: int, unit: float, *, first_seconds: float = FIRST_SECONDS) -> float:
    """Return the wait after failed attempt number ``attempt``: doubled each time, spread by a quarter, bounded.

    Args:
        attempt: 1 for the first.
        unit: a random number in [0, 1), injected.
        first_seconds: the wait after the first failure.
    """
    doubled = first_seconds * float(2 ** min(attempt - 1, 20))
    return min(doubled, LONGEST_SECONDS) * (0.75 + 0.5 * unit)
