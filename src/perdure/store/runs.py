"""Rows of runs, their lives, their steps, checkpoints and artifacts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from perdure.model.run import Authority, Owner, RunRow, RunStatus, StepStatus
from perdure.ports.store import Row
from perdure.store.changes import Changes
from perdure.store.statements import Statements


@dataclass(frozen=True, slots=True)
class LifeRow:
    """One row of ``run_attempts``."""

    attempt: int
    fence: int
    owner: Owner
    started_at: str
    ended_at: str | None
    how: str | None
    replayed: int
    settled: int
    challenged: int
    unmet: int


@dataclass(frozen=True, slots=True)
class StepRow:
    """One row of ``run_steps``."""

    step_id: str
    step_index: int
    status: StepStatus
    phase: str
    name: str
    occurrence: int
    attempt: int
    error_code: str | None
    error_detail: str | None
    created_at: str = ""
    updated_at: str = ""


@dataclass(frozen=True, slots=True)
class LifeCounts:
    """What one life did, for its row and the outcome."""

    replayed: int = 0
    settled: int = 0
    challenged: int = 0
    unmet: int = 0
    unmet_calls: tuple[str, ...] = ()


def owner_text(owner: Owner) -> str:
    """Return an owner as the JSON that stands in ``lease_owner``."""
    return json.dumps(asdict(owner), sort_keys=True)


def owner_from_text(text: str) -> Owner:
    """Return the owner that ``owner_text`` wrote."""
    return Owner(**json.loads(text))


class RunRows:
    """The ``runs`` and ``run_attempts`` tables."""

    def __init__(self, statements: Statements, changes: Changes) -> None:
        self._do = statements
        self._changes = changes

    def insert(self, **fields: Any) -> None:
        """Insert a queued run; ``policies`` is a JSON list, empty when left out."""
        left_out = {"policies": "[]", "run_mode": "function", "last_job_prompt": None}
        self._do.write("insert_run", **{**left_out, **fields})

    def get(self, run_id: str) -> RunRow | None:
        """Return one run."""
        row = self._do.one("get_run", run_id=run_id)
        return run_of(row) if row else None

    def newest(
        self, *, status: str | None, limit: int, name: str | None = None, since: str | None = None
    ) -> list[RunRow]:
        """Return the newest runs first; ``name`` may hold ``*`` and ``?``, ``since`` is when they moved last."""
        rows = self._do.seen("list_runs", status=status, limit=limit, name=name, since=since)
        return [run_of(row) for row in rows]

    def ids_like(self, prefix: str) -> list[str]:
        """Return up to six ids that begin with ``prefix``, the newest first."""
        return [row[0] for row in self._do.rows("run_ids_like", prefix=prefix)]

    def last_id(self) -> str | None:
        """Return the id of the newest run."""
        return None if (row := self._do.one("last_run_id")) is None else row[0]

    def claim(self, row: RunRow, owner: Owner, *, now: str, expires: str) -> int:
        """Make ``owner`` the run's owner under the next fence and begin a life; return the fence."""
        text = owner_text(owner)
        self._do.write_one("claim_run", run_id=row.run_id, fence=row.lease_fence, owner=text, expires=expires, now=now)
        fence = row.lease_fence + 1
        self._do.write("insert_attempt", run_id=row.run_id, attempt=row.attempt + 1, fence=fence, owner=text, now=now)
        self._changes.tell(row.run_id, "life", str(row.attempt + 1), "", "began", now, f"process {owner.pid}")
        return fence

    def overdue(self, now: str) -> list[RunRow]:
        """Return the waiting runs whose deadline has passed."""
        return [run_of(row) for row in self._do.rows("overdue_runs", now=now)]

    def expire(self, run_id: str, fence: int, *, now: str, error_detail: str) -> None:
        """End a waiting run because its deadline has passed."""
        self._do.write_one("expire_run", run_id=run_id, fence=fence, now=now, error_detail=error_detail)
        self._changes.tell(run_id, "run", run_id, "", RunStatus.FAILED, now, "deadline")

    def queue(self, authority: Authority, status: RunStatus, now: str) -> None:
        """Make a waiting or failed run claimable again."""
        self._do.write_one("queue_run", **authority._asdict(), status=status, now=now)

    def set_reason(self, authority: Authority, reason: str, now: str) -> None:
        """Say what a waiting run still waits for."""
        self._do.write_one("set_wait_reason", **authority._asdict(), reason=reason, now=now)

    def renew(self, run_id: str, fence: int, *, now: str, expires: str, active_seconds: float) -> None:
        """Prolong the lease and charge the active time."""
        self._do.write_one(
            "renew_lease", run_id=run_id, fence=fence, now=now, expires=expires, active_seconds=active_seconds
        )

    def end(
        self,
        run_id: str,
        fence: int,
        *,
        status: RunStatus,
        reason: str | None,
        now: str,
        result: str | None = None,
        error_code: str | None = None,
        error_detail: str | None = None,
        ended_by: str | None = None,
        active_seconds: float = 0.0,
    ) -> None:
        """Write how the life left the run, charge its last stretch of time, and give up the lease."""
        self._do.write_one(
            "end_run",
            run_id=run_id,
            fence=fence,
            status=status,
            reason=reason,
            now=now,
            result=result,
            error_code=error_code,
            error_detail=error_detail,
            ended_by=ended_by,
            active_seconds=active_seconds,
        )
        self._changes.tell(run_id, "run", run_id, "", status, now, reason or error_code or "")

    def end_life(self, run_id: str, fence: int, *, how: str, now: str, counts: LifeCounts) -> None:
        """Write how a life ended; a life that already ended keeps its first word."""
        written = self._do.write(
            "end_attempt",
            run_id=run_id,
            fence=fence,
            how=how,
            now=now,
            replayed=counts.replayed,
            settled=counts.settled,
            challenged=counts.challenged,
            unmet=counts.unmet,
            unmet_json=json.dumps(counts.unmet_calls) if counts.unmet_calls else None,
        )
        if written:
            self._changes.tell(run_id, "life", "", "", how, now)

    def life(self, run_id: str, fence: int) -> LifeRow | None:
        """Return the life that held ``fence``."""
        row = self._do.one("get_attempt", run_id=run_id, fence=fence)
        return life_row(row) if row else None

    def has_left(self, row: RunRow, owner: Owner) -> bool:
        """Return whether a living process has given up the life that stands in ``row``: it said so itself."""
        life = self.life(row.run_id, row.lease_fence)
        return life is not None and life.ended_at is not None and life.owner == owner

    def lives(self, run_id: str) -> list[LifeRow]:
        """Return all lives, first to last."""
        return [life_row(row) for row in self._do.rows("list_attempts", run_id=run_id)]

    def point(self, run_id: str, fence: int, *, step_id: str, checkpoint_id: str | None, now: str) -> None:
        """Set the run's pointers to its current step and last checkpoint (R017)."""
        self._do.write_one(
            "run_pointers", run_id=run_id, fence=fence, step_id=step_id, checkpoint_id=checkpoint_id, now=now
        )

    def last_life(self, run_id: str) -> LifeRow | None:
        """Return the newest life."""
        row = self._do.one("last_attempt", run_id=run_id)
        return life_row(row) if row else None


class StepRows:
    """The ``run_steps``, ``checkpoints`` and ``artifacts`` tables."""

    def __init__(self, statements: Statements, changes: Changes) -> None:
        self._do = statements
        self._changes = changes

    def insert(
        self,
        run_id: str,
        fence: int,
        *,
        step_id: str,
        name: str,
        phase: str,
        occurrence: int,
        now: str,
        status: StepStatus = StepStatus.RUNNING,
        error_detail: str | None = None,
    ) -> None:
        """Insert a step with the next index."""
        self._do.write_one(
            "insert_step",
            run_id=run_id,
            fence=fence,
            step_id=step_id,
            name=name,
            phase=phase,
            occurrence=occurrence,
            now=now,
            status=status,
            error_detail=error_detail,
        )
        self._changes.tell(run_id, "step", step_id, name, status, now)

    def get(self, run_id: str, name: str, occurrence: int) -> StepRow | None:
        """Return a step by its name and count."""
        row = self._do.one("get_step", run_id=run_id, name=name, occurrence=occurrence)
        return _step(row) if row else None

    def list(self, run_id: str) -> list[StepRow]:
        """Return all steps by index."""
        return [_step(row) for row in self._do.rows("list_steps", run_id=run_id)]

    def move(
        self,
        step_id: str,
        authority: Authority,
        status: StepStatus,
        *,
        now: str,
        again: bool = False,
        error_code: str | None = None,
        error_detail: str | None = None,
    ) -> None:
        """Set a step's status."""
        self._do.write_one(
            "move_step",
            step_id=step_id,
            **authority._asdict(),
            status=status,
            now=now,
            again=int(again),
            error_code=error_code,
            error_detail=error_detail,
        )
        self._changes.tell(authority.run_id, "step", step_id, "", status, now, error_code or "")

    def close(
        self,
        run_id: str,
        fence: int,
        *,
        now: str,
        left_open: StepStatus,
        error_code: str | None,
        error_detail: str | None,
    ) -> None:
        """End every step that has not ended: what was never begun is skipped, the others are as ``left_open`` says."""
        ended = {StepStatus.READY: StepStatus.SKIPPED, StepStatus.RUNNING: left_open, StepStatus.BLOCKED: left_open}
        for step in (row for row in self.list(run_id) if row.status in ended):
            self._changes.tell(run_id, "step", step.step_id, "", ended[step.status], now, error_code or "")
        self._do.write(
            "close_steps",
            run_id=run_id,
            fence=fence,
            now=now,
            left_open=left_open,
            error_code=error_code,
            error_detail=error_detail,
        )

    def checkpoint(
        self,
        run_id: str,
        fence: int,
        *,
        checkpoint_id: str,
        step_id: str,
        kind: str,
        snapshot: str,
        cursor: str,
        now: str,
        provider_session_id: str | None = None,
    ) -> None:
        """Insert a checkpoint."""
        self._do.write_one(
            "insert_checkpoint",
            run_id=run_id,
            fence=fence,
            checkpoint_id=checkpoint_id,
            step_id=step_id,
            type=kind,
            snapshot=snapshot,
            cursor=cursor,
            now=now,
            provider_session_id=provider_session_id,
        )

    def count_checkpoints(self, run_id: str) -> int:
        """Return how many checkpoints a run has."""
        return int(self._do.value("count_checkpoints", run_id=run_id))

    def add_artifact(
        self,
        run_id: str,
        fence: int,
        *,
        path: str,
        sha256: str,
        size_bytes: int,
        now: str,
        tool_call_id: str | None = None,
    ) -> None:
        """Record a file with its hash, and point the run at it (R017); what is known already is no new row."""
        added = self._do.write(
            "add_artifact",
            run_id=run_id,
            fence=fence,
            path=path,
            sha256=sha256,
            size_bytes=size_bytes,
            now=now,
            tool_call_id=tool_call_id,
        )
        if added:
            self._do.write_one("point_at_artifact", run_id=run_id, fence=fence, path=path, now=now)

    def artifacts(self, run_id: str) -> Iterator[Row]:
        """Yield (path, sha256, size_bytes, created_at)."""
        return self._do.rows("list_artifacts", run_id=run_id)


def run_of(row: Row) -> RunRow:
    """Return a row of the columns ``run``."""
    return RunRow(
        run_no=row[0],
        run_id=row[1],
        name=row[2],
        status=RunStatus(row[3]),
        reason=row[4],
        entrypoint=row[5],
        spec_json=row[6],
        spec_hash=row[7],
        created_at=row[8],
        updated_at=row[9],
        attempt=row[10],
        lease_fence=row[11],
        lease_owner=row[12],
        lease_expires_at=row[13],
        deadline_at=row[14],
        ended_by_call_id=row[15],
        result=row[16],
        error_code=row[17],
        error_detail=row[18],
        workspace=row[19],
        job_path=row[20],
        cancel_requested_at=row[21],
        policies=tuple(json.loads(row[22])),
    )


def life_row(row: Row) -> LifeRow:
    """Return a row of the columns ``life``."""
    return LifeRow(row[0], row[1], owner_from_text(row[2]), *row[3:])


def _step(row: Row) -> StepRow:
    return StepRow(row[0], row[1], StepStatus(row[2]), *row[3:])
