"""Rows of runs and phases that end: cancels, crash loops, and what a critic sees and says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from perdure.model.run import Authority, RunRow, RunStatus, WaitReason
from perdure.store.changes import Changes
from perdure.store.runs import run_of
from perdure.store.statements import Statements


@dataclass(frozen=True, slots=True)
class CancelRow:
    """Who has asked for a run's end, when and why."""

    requested_at: str
    actor: str
    reason: str


class EndRows:
    """What the tables know of the ends of lives and phases."""

    def __init__(self, statements: Statements, changes: Changes) -> None:
        self._do = statements
        self._changes = changes

    # --- cancelling ----------------------------------------------------------------------------------------------

    def ask_cancel(self, row: RunRow, *, now: str, actor: str, reason: str) -> None:
        """Write that somebody wants the end of a running run; its owner sees it. The first one who asks is kept."""
        fence = row.lease_fence
        self._do.write("ask_cancel", run_id=row.run_id, fence=fence, now=now, actor=actor, reason=reason)

    def cancel(self, row: RunRow, *, now: str, actor: str, reason: str) -> Authority:
        """End a run that nobody drives, and return the one right to write its rows that is left."""
        self._do.write_one(
            "cancel_run",
            run_id=row.run_id,
            fence=row.lease_fence,
            status=row.status,
            now=now,
            actor=actor,
            reason=reason,
        )
        self._changes.tell(row.run_id, "run", row.run_id, "", RunStatus.CANCELLED, now)
        return Authority(row.run_id, row.lease_fence + 1)

    def cancel_asked(self, run_id: str, fence: int) -> bool:
        """Return whether somebody wants the end of the life that holds ``fence``."""
        return self._do.one("cancel_asked", run_id=run_id, fence=fence) is not None

    def cancel_of(self, run_id: str) -> CancelRow | None:
        """Return who has asked for a run's end, when and why."""
        row = self._do.one("cancel_of_run", run_id=run_id)
        return CancelRow(*row) if row and row[0] is not None else None

    def to_cancel(self) -> list[RunRow]:
        """Return the running runs whose end somebody has asked for."""
        return [run_of(row) for row in self._do.rows("runs_to_cancel")]

    def forget_cancel(self, row: RunRow) -> None:
        """Forget a cancel that came too late, because a person goes on with the failed run."""
        self._do.write_one("forget_cancel", run_id=row.run_id, fence=row.lease_fence)

    # --- crashing again and again --------------------------------------------------------------------------------

    def takeovers(self, run_id: str) -> tuple[int, int, int]:
        """Return the takeovers that nobody asked for, what was settled at the last of them, and what is now."""
        row = self._do.one("takeovers_of_run", run_id=run_id) or (0, 0, 0)
        return int(row[0]), int(row[1]), int(row[2])

    def count_takeover(self, row: RunRow, takeovers: int, settled: int) -> None:
        """Write how many takeovers there were, and what was settled at the last of them."""
        self._do.write_one(
            "count_takeover", run_id=row.run_id, fence=row.lease_fence, takeovers=takeovers, settled=settled
        )

    def park_crash_loop(self, row: RunRow, now: str) -> None:
        """Let a run wait for a person because its lives end in crashes."""
        self._do.write_one("park_crash_loop", run_id=row.run_id, fence=row.lease_fence, now=now)
        self._changes.tell(row.run_id, "run", row.run_id, "", RunStatus.WAITING, now, WaitReason.CRASH_LOOP)

    def crash_loops(self) -> list[RunRow]:
        """Return the runs that wait because they crash again and again, oldest first."""
        return [run_of(row) for row in self._do.rows("crash_loops")]

    # --- phases --------------------------------------------------------------------------------------------------

    def calls_of_steps(self, run_id: str, step_ids: list[str]) -> list[dict[str, Any]]:
        """Return the tool calls that were made in these steps."""
        names = ("tool_call_id", "tool_name", "status", "external_correlation_id")
        return [
            dict(zip(names, row, strict=True))
            for step_id in step_ids
            for row in self._do.rows("calls_of_step", run_id=run_id, step_id=step_id)
        ]

    def newest_artifacts(self, run_id: str, limit: int = 5) -> list[dict[str, Any]]:
        """Return the recorded files, newest first."""
        rows = self._do.rows("newest_artifacts", run_id=run_id, limit=limit)
        return [dict(zip(("path", "sha256", "size_bytes"), row, strict=True)) for row in rows]

    def reviews(self, run_id: str) -> list[tuple[str, str, int, str | None]]:
        """Return (phase, status, call number, error) of each time a critic was called."""
        return [(row[0], row[1], row[2], row[3]) for row in self._do.rows("reviews", run_id=run_id)]
