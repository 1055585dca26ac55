"""Drives one life of a run: claim → settle what was started → enter the agent → end. A first life is the same code."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from perdure.model.errors import LeaseLost, RunSuspended, StoreError
from perdure.model.policy import Policy
from perdure.model.toolcall import CallRow, CallStatus
from perdure.runtime import drive_sync, recording, starting
from perdure.runtime.claim import claim
from perdure.runtime.door import Door
from perdure.runtime.ending import Ending, end_life
from perdure.runtime.faces import Run
from perdure.runtime.frame import Frame
from perdure.runtime.heartbeat import Heartbeat
from perdure.runtime.life import Life, Surroundings
from perdure.runtime.registry import Registry
from perdure.runtime.steps import steps_by_name
from perdure.store.sql_store import SqlStore


@dataclass(frozen=True, slots=True)
class Job:
    """What a runner needs to know of a run beside its row."""

    run_id: str
    spec: dict[str, Any]
    main: Callable[..., Any]
    registry: Registry
    waits: bool
    reopen: bool
    policy: Policy


class Runner:
    """Runs lives for one engine."""

    def __init__(self, around: Surroundings, heartbeat: Heartbeat) -> None:
        self._around = around
        self._heartbeat = heartbeat

    def begin(self, job: Job, *, is_async: bool) -> Life | None:
        """Claim a run and build its life, or return ``None`` where the run has ended.

        Raises:
            LeaseHeld, NotFound, StoreError: it cannot be claimed.
        """
        around = self._around
        claimed = around.ledger.run(lambda store: claim(around, store, job.run_id, reopen=job.reopen))
        if not isinstance(claimed, tuple):
            return None
        row, fence = claimed
        around = replace(around, policy=job.policy)
        life = Life(around, row, job.spec, job.registry, fence=fence, waits=job.waits, is_async=is_async)
        around.ledger.run(lambda store: _load(life, store))
        life.workspace.mkdir(parents=True, exist_ok=True)
        self._heartbeat.add(life)
        return life

    def run(self, job: Job) -> bool:
        """Run one life of a sync agent, and return whether there was one: a run that has ended has no more."""
        life = self.begin(job, is_async=False)
        if life is None:
            return False
        try:
            door = Door(life)
            open_rows = life.ledger.read(lambda store: started_rows(store, life))
            for row in open_rows:
                self._settle(door, row)
            barred = self.barred(life)
            self.end(life, self._enter(door, job.main) if barred is None else barred)
        finally:
            self.forget(life)
        return True

    def _settle(self, door: Door, row: CallRow) -> None:
        life = door.life
        operation = life.operations.begin(Frame(life.root, None, row.branch))
        try:
            drive_sync.drive(life, door.gateway.settle(row, operation), operation)
        finally:
            life.operations.end(operation)

    def _enter(self, door: Door, main: Callable[..., Any]) -> Ending:
        try:
            with door.here():
                return Ending(result=main(Run(door)))
        except RunSuspended:
            return Ending(suspended=True)
        except (KeyboardInterrupt, SystemExit):
            self.interrupt(door.life)
            raise
        except Exception as problem:
            return Ending(error=problem)

    def barred(self, life: Life) -> Ending | None:
        """Take the rows of earlier lives as unmet; return why the agent may not be entered, or ``None`` (R3, R202)."""

        def doubtful(store: SqlStore) -> bool:
            life.context.load(store.calls.index(life.run_id))
            return any(
                row.effectful and row.status in (CallStatus.IN_DOUBT, CallStatus.RUNNING)
                for row in store.calls.open(life.run_id)
            )

        if life.ledger.read(doubtful):
            return Ending(suspended=True)
        problem = starting.deadline_problem(life)
        return Ending(error=problem) if problem is not None else None

    def forget(self, life: Life) -> None:
        """Stop renewing the lease of a life that has ended."""
        self._heartbeat.remove(life)

    def interrupt(self, life: Life) -> None:
        """Leave a run that a signal stopped: what was started is in doubt, and anybody may resume."""
        life.close()
        now = life.now()

        def leave(store: SqlStore) -> None:
            for row in store.calls.open(life.run_id):
                recording.store_left_behind(life, store, row)
            store.runs.end_life(life.run_id, life.fence, how="interrupted", now=now, counts=life.counts(0))

        life.ledger.run(leave)

    def end(self, life: Life, ending: Ending) -> None:
        """Write how the life ended.

        Raises:
            LeaseLost, StoreError: the process lost its authority; nothing is written.
        """
        life.closed = True
        if isinstance(life.failure, LeaseLost | StoreError):
            raise life.failure
        if isinstance(ending.error, LeaseLost | StoreError):
            raise ending.error
        try:
            life.ledger.run(lambda store: end_life(life, store, ending))
        except StoreError as problem:
            # A receipt that shared this commit has said more: which call succeeded, and the line to type.
            raise life.failure or problem from problem


def started_rows(store: SqlStore, life: Life) -> list[CallRow]:
    """Return the rows that an earlier life started and did not settle."""
    return [row for row in store.calls.open(life.run_id) if row.status in (CallStatus.RUNNING, CallStatus.IN_DOUBT)]


def _load(life: Life, store: SqlStore) -> None:
    known = store.steps.list(life.run_id)
    life.steps = steps_by_name(known)
    life.next_step_index = len(known)
    life.next_call_number = store.calls.count(life.run_id) + 1
    life.next_checkpoint_number = store.steps.count_checkpoints(life.run_id) + 1
    if not known:
        store.steps.insert(
            life.run_id,
            life.fence,
            step_id=life.root.step_id,
            name=life.root.name,
            phase=life.root.phase,
            occurrence=1,
            now=life.now(),
        )
        life.next_step_index = 1
    life.step_counts[life.root.name] = 1
