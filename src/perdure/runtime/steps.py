"""Steps: bounded, named units of a run; each end is a checkpoint (R018, R059)."""

from __future__ import annotations

from contextvars import Token
from functools import partial
from types import TracebackType
from typing import Any

from perdure.model.errors import RunSuspended, UsageError
from perdure.model.run import StepStatus
from perdure.runtime import drive_sync, limits
from perdure.runtime.checkpointing import PHASE_BOUNDARY, STEP_BOUNDARY, write_checkpoint
from perdure.runtime.door import Door
from perdure.runtime.frame import StepScope, current_step, frame_here
from perdure.runtime.life import Life
from perdure.runtime.phases import Period, Phases, review, review_async
from perdure.runtime.spans import OpenSpan
from perdure.store.runs import StepRow
from perdure.store.sql_store import SqlStore


class Step:
    """A context manager, sync and async, around the body of a step."""

    def __init__(self, door: Door, phases: Phases, name: str, phase: str) -> None:
        self._door = door
        self._phases = phases
        self._life = door.life
        self._outermost = False
        self._name = name
        self._phase = phase
        self._scope: StepScope | None = None
        self._known: StepRow | None = None
        self._token: Token[StepScope | None] | None = None
        self._span: OpenSpan | None = None

    def __enter__(self) -> StepScope:
        self._look_up()
        review(self._door, self._end_phase())
        if self._is_new() and not limits.step_may_start(self._life):
            self._wait_here()
        return self._open()

    def _look_up(self) -> None:
        life = self._life
        life.check_open()
        count = life.step_counts.get(self._name, 0) + 1
        self._known = life.steps.get((self._name, count))

    def _is_new(self) -> bool:
        return self._known is None or self._known.status is StepStatus.READY

    def _end_phase(self) -> Period | None:
        """End the phase that this step is not of, with a checkpoint if this life has worked in it, and return it."""
        life = self._life
        phase = self._known.phase if self._known is not None else self._phase
        if current_step.get() is not None or self._phases.ended_by(phase) is None:
            return None
        ended = self._phases.leave()
        if ended is not None and any(scope.physical or scope.fresh for scope in ended.steps):
            last = ended.steps[-1]
            life.ledger.run(lambda store: _mark_phase(life, store, last))
        return ended

    def _wait_here(self) -> None:
        """Wait for a grant: the steps, or another budget of the run, are used up."""
        life = self._life
        operation = life.operations.begin(frame_here(life.root))
        try:
            drive_sync.drive(life, limits.admit_step(life), operation)
        finally:
            life.operations.end(operation)

    async def _wait_in_loop(self) -> None:
        from perdure.runtime import drive_async

        life = self._life
        operation = life.operations.begin(frame_here(life.root))
        try:
            await drive_async.drive(life, limits.admit_step(life), operation)
        finally:
            life.operations.end(operation)

    def _open(self) -> StepScope:
        life = self._life
        count = life.step_counts.get(self._name, 0) + 1
        life.step_counts[self._name] = count
        self._known = life.steps.get((self._name, count))
        if self._known is None:
            self._scope = StepScope(
                f"{life.run_id}.s{life.next_step_index}", self._name, self._phase, life.next_step_index
            )
            life.next_step_index += 1
        else:
            self._scope = StepScope(self._known.step_id, self._name, self._known.phase, self._known.step_index)
            life.ready.pop(self._known.step_id, None)
        scope, known = self._scope, self._known
        scope.fresh = known is None or known.status is not StepStatus.SUCCEEDED
        life.ledger.post(lambda store: _enter(life, store, scope, known, count), life.fail)
        life.open_steps.append(scope)
        self._outermost = current_step.get() is None
        if self._outermost:
            self._phases.enter(scope)
        self._token = current_step.set(scope)
        if life.spans is not None:
            self._span = life.spans.step(scope)
        return scope

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        life, scope = self._life, self._scope
        if scope is None or self._token is None:
            return
        try:
            self._end(life, scope, self._token, error)
        finally:
            if life.spans is not None and self._span is not None:
                life.spans.step_over(scope, self._span, error)

    def _end(self, life: Life, scope: StepScope, token: Token[StepScope | None], error: BaseException | None) -> None:
        current_step.reset(token)
        if self._outermost:
            self._phases.exit()
        if isinstance(error, KeyboardInterrupt | SystemExit):
            return  # it was stopped, and has neither succeeded nor failed
        if scope in life.open_steps and not life.closed:
            life.open_steps.remove(scope)
        if life.closed or isinstance(error, RunSuspended) or _is_cancel(error):
            return
        known = self._known
        life.ledger.run(lambda store: _leave(life, store, scope, known, error))
        if error is None and scope.physical:
            life.around.knobs.step_ended(life.place_of_step(scope))

    async def __aenter__(self) -> StepScope:
        self._look_up()
        await review_async(self._door, self._end_phase())
        if self._is_new() and not limits.step_may_start(self._life):
            await self._wait_in_loop()
        return self._open()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.__exit__(kind, error, trace)


def _is_cancel(error: BaseException | None) -> bool:
    return type(error).__name__ == "CancelledError"


def _enter(life: Life, store: SqlStore, scope: StepScope, known: StepRow | None, count: int) -> None:
    now = life.now()
    if known is None:
        store.steps.insert(
            life.run_id,
            life.fence,
            step_id=scope.step_id,
            name=scope.name,
            phase=scope.phase,
            occurrence=count,
            now=now,
        )
    elif known.status is not StepStatus.SUCCEEDED:
        again = known.status is not StepStatus.READY
        store.steps.move(scope.step_id, life.authority, StepStatus.RUNNING, now=now, again=again)


def _mark_phase(life: Life, store: SqlStore, last: StepScope) -> None:
    write_checkpoint(life, store, last, PHASE_BOUNDARY)


def outline(life: Life, steps: list[tuple[str, str]]) -> None:
    """List steps that are to come as ready; one that stands there from an earlier life keeps its row."""
    life.check_open()
    for name, phase in steps:
        if not name or not phase:
            raise UsageError("run.outline needs names of steps and phases")
        count = life.outlined[name] = life.outlined.get(name, 0) + 1
        if (name, count) in life.steps:
            continue
        row = _new_row(life, name, phase, count, StepStatus.READY)
        life.ready[row.step_id] = phase
        life.ledger.post(partial(_insert, life, row), life.fail)


def skip_step(life: Life, name: str, phase: str, reason: str) -> None:
    """List a step as skipped, or move the row that an outline or an earlier life has made."""
    life.check_open()
    if not name:
        raise UsageError("run.skip_step needs a name")
    count = life.step_counts[name] = life.step_counts.get(name, 0) + 1
    known = life.steps.get((name, count))
    if known is None:
        row = _new_row(life, name, phase, count, StepStatus.SKIPPED, reason)
        life.ledger.post(partial(_insert, life, row), life.fail)
    elif known.status not in (StepStatus.SKIPPED, StepStatus.SUCCEEDED):
        life.ready.pop(known.step_id, None)
        life.ledger.post(partial(_skip, life, known.step_id, reason), life.fail)


def _new_row(life: Life, name: str, phase: str, count: int, status: StepStatus, said: str = "") -> StepRow:
    index, life.next_step_index = life.next_step_index, life.next_step_index + 1
    row = StepRow(f"{life.run_id}.s{index}", index, status, phase, name, count, 1, None, said or None)
    life.steps[name, count] = row
    return row


def _insert(life: Life, row: StepRow, store: SqlStore) -> None:
    store.steps.insert(
        life.run_id,
        life.fence,
        step_id=row.step_id,
        name=row.name,
        phase=row.phase,
        occurrence=row.occurrence,
        now=life.now(),
        status=row.status,
        error_detail=row.error_detail,
    )


def _skip(life: Life, step_id: str, reason: str, store: SqlStore) -> None:
    store.steps.move(step_id, life.authority, StepStatus.SKIPPED, now=life.now(), error_detail=reason or None)


def _leave(life: Life, store: SqlStore, scope: StepScope, known: StepRow | None, error: BaseException | None) -> None:
    if known is not None and known.status is StepStatus.SUCCEEDED and not scope.physical:
        return
    now = life.now()
    if error is None:
        store.steps.move(scope.step_id, life.authority, StepStatus.SUCCEEDED, now=now)
        write_checkpoint(life, store, scope, STEP_BOUNDARY)
    else:
        store.steps.move(
            scope.step_id,
            life.authority,
            StepStatus.FAILED,
            now=now,
            error_code=type(error).__name__,
            error_detail=str(error),
        )


def block_open_steps(life: Life, store: SqlStore) -> None:
    """Mark the steps that a parked call left open."""
    now = life.now()
    for scope in life.open_steps:
        store.steps.move(scope.step_id, life.authority, StepStatus.BLOCKED, now=now)


def steps_by_name(rows: list[StepRow]) -> dict[tuple[str, int], Any]:
    """Return the known steps of a run by (name, occurrence)."""
    return {(row.name, row.occurrence): row for row in rows}
