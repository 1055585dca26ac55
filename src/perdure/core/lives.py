"""Whether a run whose owner has died gets one more life that nobody asked for (design.md §6, semantics #42)."""

from __future__ import annotations

TAKEOVERS_WITHOUT_PROGRESS = 3


def next_takeover(takeovers: int, settled_before: int, settled_now: int) -> int | None:
    """Return the number of the takeover that may be made now, or ``None``: the run is to wait for a person.

    Only takeovers that nobody asked for are counted, and only those since something was settled; a person who resumes
    the run always gets one life, and that life counts for nothing.

    Args:
        takeovers: how many there were.
        settled_before: how many rows of the run were settled at the last of them.
        settled_now: how many are now.
    """
    if takeovers == 0 or settled_now > settled_before:
        return 1
    return takeovers + 1 if takeovers < TAKEOVERS_WITHOUT_PROGRESS else None
