"""Drives one life of a run: claim → settle what was started → enter the agent → end. A first life is the same code."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any

from perdure.model.errors import LeaseLost, RunSuspended, StoreError
from perdure.model.policy import Policy
from perdure.model.run import StepStatus
from perdure.model.toolcall import CallRow, CallStatus
from perdure.runtime import doubts, drive_sync, fingerprints, late_receipt, limits, starting, stop_conditions
from perdure.runtime.claim import claim
from perdure.runtime.door import Door
from perdure.runtime.ending import Ending, end_children_of_doubts, end_life, interrupt_life
from perdure.runtime.faces import Run
from perdure.runtime.fork_files import bring_files
from perdure.runtime.frame import Frame
from perdure.runtime.heartbeat import Heartbeat
from perdure.runtime.life import Life, Surroundings
from perdure.runtime.life_span import begin_spans, end_spans, keep_place
from perdure.runtime.lineage import Lineage
from perdure.runtime.phases import review
from perdure.runtime.program import finished
from perdure.runtime.registry import Registry
from perdure.runtime.steps import steps_by_name
from perdure.runtime.stopping import Doing, Stopping, listening
from perdure.store.modes import refuse_workspace_link
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
    critic: Callable[..., Any] | None = None
    accepts_change: bool = False


@dataclass(slots=True)
class Stay:
    """An agent's stay in its run: the door it calls through, and how it ended."""

    door: Door
    ending: Ending | None = None


class Runner:
    """Runs lives for one engine."""

    def __init__(self, around: Surroundings, heartbeat: Heartbeat) -> None:
        self._around = around
        self._heartbeat = heartbeat

    def begin(self, job: Job, *, is_async: bool) -> Life | None:
        """Claim a run and build its life, or return ``None`` where the run has ended.

        Raises:
            LeaseHeld, NotFound, StoreError: it cannot be claimed, or the key of the ledger's secrets is gone.
        """
        around = self._around
        around.ledger.vault.ready()
        mark = fingerprints.take(job.spec, job.main, job.registry, job.policy, accepted=job.accepts_change)
        claimed = around.ledger.run(lambda store: claim(around, store, job.run_id, reopen=job.reopen, mark=mark))
        if not isinstance(claimed, tuple):
            return None
        row, fence = claimed
        around = replace(around, policy=job.policy)
        life = Life(around, row, job.spec, job.registry, fence=fence, waits=job.waits, is_async=is_async)
        life.critic = job.critic
        try:
            life.spans = begin_spans(life)
            around.ledger.run(lambda store: _load(life, store))
            refuse_workspace_link(life.workspace)
            if life.lineage.ancestors:
                bring_files(life)
            stop_conditions.warn_of_unknown_tools(life)
        except BaseException as problem:
            _not_begun(life, problem)
            raise
        around.observer.began(life.run_id, life)
        self._heartbeat.add(life)
        return life

    def run(self, job: Job) -> bool:
        """Run one life of a sync agent, and return whether there was one: a run that has ended has no more."""
        with self.living(job) as stay:
            if stay is not None and stay.ending is None:
                stay.ending = self._enter(stay.door, job.main)
            return stay is not None

    @contextmanager
    def living(self, job: Job) -> Generator[Stay | None, None, None]:
        """Live one life of a sync agent around the body of a ``with``; ``None`` where the run has ended.

        The body enters the agent, unless there is an ending already, and says how it ended.
        """
        life = self.begin(job, is_async=False)
        if life is None:
            yield None
            return
        life.stopping = Stopping(life.around.tuning.interrupt_grace_seconds)
        try:
            with listening(life.stopping), self._lived(life, life.stopping) as stay:
                yield stay
        except (LeaseLost, StoreError) as problem:
            raise late_receipt.last_word(life, problem) from problem.__cause__
        finally:
            self.forget(life)

    @contextmanager
    def _lived(self, life: Life, stopping: Stopping) -> Generator[Stay, None, None]:
        try:
            stay = Stay(Door(life))
            stay.ending = self._settle_all(stay.door) or self.barred(life)
            yield stay
            stopping.check()  # a program that swallowed its interrupt was stopped all the same
            if life.believed_noes and not life.cancel_asked and not (stay.ending and stay.ending.suspended):
                self._look_again(stay.door)
        except (KeyboardInterrupt, SystemExit):
            stopping.doing = Doing.ENGINE
            self.interrupt(life)
            raise
        stopping.doing = Doing.ENGINE
        self.end(life, stay.ending or Ending())
        stopping.check()

    def _settle_all(self, door: Door) -> Ending | None:
        try:
            for row in self.to_settle(door.life):
                self._settle(door, row)
        except RunSuspended:
            if not door.life.cancel_asked:
                raise
            return Ending(suspended=True)
        return None

    def _settle(self, door: Door, row: CallRow) -> None:
        life = door.life
        operation = life.operations.begin(Frame(life.root, None, row.branch))
        try:
            drive_sync.drive(life, door.gateway.settle(row, operation), operation)
        finally:
            life.operations.end(operation)

    def _look_again(self, door: Door) -> None:
        life = door.life
        operation = life.operations.begin(Frame(life.root, None, ""))
        try:
            drive_sync.drive(life, doubts.look_again(life), operation)
        finally:
            life.operations.end(operation)

    def _enter(self, door: Door, main: Callable[..., Any]) -> Ending:
        try:
            with door.here():
                run = Run(door)
                result = finished(main(run))
                review(door, run.phases.leave())
                return Ending(result=result)
        except RunSuspended:
            return Ending(suspended=True)
        except Exception as problem:
            return Ending(error=problem)

    def to_settle(self, life: Life) -> list[CallRow]:
        """Return the rows that must be settled before the agent is entered: none where the deadline has passed."""
        if life.ledger.read(lambda store: starting.overdue(life, store)) is not None:
            return []
        found = life.ledger.read(lambda store: started_rows(store, life))
        life.files.in_flight = tuple(row.call_no for row in found)
        return found

    def barred(self, life: Life) -> Ending | None:
        """Take the rows of earlier lives as unmet; return why the agent may not be entered, or ``None`` (R3, R202)."""

        def doubtful(store: SqlStore) -> bool:
            life.context.load(store.calls.index(life.run_id))
            return any(
                row.effectful and row.status in (CallStatus.IN_DOUBT, CallStatus.RUNNING)
                for row in store.calls.open(life.run_id)
            )

        waits = life.ledger.read(doubtful)
        life.around.observer.entering(life.run_id, life)
        problem = life.ledger.read(lambda store: starting.overdue(life, store))
        if problem is not None:
            return Ending(error=problem)
        if waits:
            return Ending(suspended=True)
        may_be = not life.waits and limits.may_bar(life)  # a life that nothing bars begins without a transaction for it
        asked = life.ledger.run(lambda store: limits.barred(life, store)) if may_be else None
        if asked is None:
            life.entered = True
            return None
        life.parked_for.append((asked, None, ()))
        return Ending(suspended=True)

    def forget(self, life: Life) -> None:
        """Stop renewing the lease of a life that has ended, and end its span."""
        self._heartbeat.remove(life)
        end_spans(life)

    def interrupt(self, life: Life) -> None:
        """Leave a run that a signal stopped: what was sent and not answered is in doubt, and anybody may resume."""
        life.close()
        self._end_children(life)
        if not isinstance(life.failure, LeaseLost | StoreError):
            life.ledger.run(lambda store: interrupt_life(life, store))
            life.around.observer.left(life.run_id)

    def _end_children(self, life: Life) -> None:
        if life.failure is None and self._heartbeat.alone(life):
            end_children_of_doubts(life)

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
        self._end_children(life)
        observer = life.around.observer
        observer.closing(life.run_id, life)
        try:
            life.ledger.run(lambda store: end_life(life, store, ending))
        except StoreError as problem:
            # A receipt that shared this commit has said more: which call succeeded, and the line to type.
            raise life.failure or problem from problem
        observer.left(life.run_id)


def started_rows(store: SqlStore, life: Life) -> list[CallRow]:
    """Return the rows that an earlier life started and did not settle."""
    return [row for row in store.calls.open(life.run_id) if row.status in (CallStatus.RUNNING, CallStatus.IN_DOUBT)]


def _not_begun(life: Life, problem: BaseException) -> None:
    """Leave a run that was claimed and could not be entered here: anybody may resume it, this process too."""
    with suppress(StoreError):  # then this process has no say over the run any more
        life.ledger.run(
            lambda store: store.runs.end_life(
                life.run_id, life.fence, how="interrupted", now=life.now(), counts=life.counts()
            )
        )
    life.fail(problem)
    end_spans(life)


def _load(life: Life, store: SqlStore) -> None:
    keep_place(life, store)
    life.origin = store.origins.get(life.run_id)
    if life.origin.parent_run_id is not None:
        life.lineage = Lineage(life.run_id, tuple(store.origins.ancestors(life.run_id)))
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
    life.ready = {row.step_id: row.phase for row in known if row.status is StepStatus.READY}
    limits.load(life, store)
