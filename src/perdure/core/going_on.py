"""Which runs may go on without a person, and why the others may not (R133)."""

from __future__ import annotations

from dataclasses import dataclass

from perdure.core.duration import format_duration
from perdure.model.run import RunStatus, WaitReason

DEFAULT_MAX_AGE_SECONDS = 86_400.0


@dataclass(frozen=True, slots=True)
class Candidate:
    """What is known of a run that has not succeeded and was not cancelled.

    Args:
        owner: who may be driving it, in words; empty where nobody is.
        is_due: the moment it waits for has come.
        idle_seconds: since anything of it was written.
        loadable: its program can be loaded by another process.
    """

    status: RunStatus
    reason: str | None
    owner: str
    is_due: bool
    idle_seconds: float
    loadable: bool


def why_skipped(run: Candidate, max_age_seconds: float) -> str | None:
    """Return why a run is not resumed with all the others, or ``None`` where it is."""
    if run.status.ended:
        return f"it has ended ({run.status})"
    if run.status is RunStatus.WAITING and not (run.reason == WaitReason.TIMER and run.is_due):
        return f"it waits ({run.reason})"
    if run.status is RunStatus.RUNNING and run.owner:
        return f"its lease is held by {run.owner}"
    if not run.loadable:
        return "its program cannot be loaded from outside; start it again"
    if run.idle_seconds > max_age_seconds:
        return f"nothing has happened in it for longer than {format_duration(max_age_seconds)}"
    return None
