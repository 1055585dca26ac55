"""Take a run for one life: the lease, the fence, and what a failed run reopens (R4)."""

from __future__ import annotations

import os
import signal
import time

from perdure.core.lives import next_takeover
from perdure.core.transitions import CallEvent, RunEvent, next_run_status
from perdure.model.errors import BodyPruned, LeaseHeld, NotFound
from perdure.model.run import Authority, Owner, RunRow, RunStatus, StepStatus, WaitReason
from perdure.model.toolcall import DENIED, CallStatus
from perdure.ports.clock import after, parse_time
from perdure.runtime import cancelling, fingerprints
from perdure.runtime.approvals import expire_all, is_final
from perdure.runtime.fingerprints import Mark
from perdure.runtime.lease import (
    LEASE_SECONDS,
    LOOK_AGAIN_SECONDS,
    OTHER_HOST_MARGIN_SECONDS,
    Liveness,
    end_children,
    liveness,
    send_signal,
)
from perdure.runtime.life import Surroundings
from perdure.store.runs import LifeCounts, owner_from_text
from perdure.store.sql_store import SqlStore


def claim(
    around: Surroundings, store: SqlStore, run_id: str, *, reopen: bool, mark: Mark | None = None
) -> tuple[RunRow, int] | RunRow:
    """Begin a life of a run in one transaction.

    Args:
        reopen: an explicit resume, which moves failed runs too.
        mark: what the life will be made of; a change since the last one may be asked about first.

    Returns:
        The run's row and the new fence; or the row alone where there is no life: the run has ended, or waits.

    Raises:
        NotFound: there is no such run.
        LeaseHeld: its owner may still be alive.
        ChangeRefused: something has changed, and the job says that it stops then.
    """
    row = store.runs.get(run_id)
    if row is None:
        raise NotFound(f"there is no run {run_id!r}")
    if row.status in (RunStatus.SUCCEEDED, RunStatus.CANCELLED) or (row.status is RunStatus.FAILED and not reopen):
        return row
    refuse_pruned(store, run_id)
    now = around.clock.now()
    if expire_all(store, now):
        row = store.runs.get(run_id) or row
    if row.status is RunStatus.RUNNING:
        crashed = _take_over(around, store, row, now)
        if cancelling.finish(around, store, row) or (crashed and not reopen and _crashes_on(store, row, now)):
            return store.runs.get(run_id) or row
    elif row.reason == WaitReason.CRASH_LOOP and not reopen:
        return row
    elif row.status is not RunStatus.QUEUED:
        store.runs.queue(row.authority, row.status, now)
        store.endings.forget_cancel(row)
    fence = store.runs.claim(row, around.owner, now=now, expires=after(now, LEASE_SECONDS))
    if row.status is RunStatus.FAILED:
        _reopen(store, row, fence, now)
    if mark is not None and not fingerprints.may_begin(around, store, row, fence, mark):
        return store.runs.get(run_id) or row
    return row, fence


def _crashes_on(store: SqlStore, row: RunRow, now: str) -> bool:
    """Count a takeover that nobody asked for, or let the run wait where there were too many without progress."""
    takeovers, before, settled = store.endings.takeovers(row.run_id)
    number = next_takeover(takeovers, before, settled)
    if number is None:
        next_run_status(row.status, RunEvent.PARK)
        store.endings.park_crash_loop(row, now)
        return True
    store.endings.count_takeover(row, number, settled)
    return False


def refuse_pruned(store: SqlStore, run_id: str) -> None:
    """Refuse to go on with a run whose bodies were removed: what it has done could not be told from what it has not.

    Raises:
        BodyPruned: they were.
    """
    pruned_at = store.pruning.pruned_at(run_id)
    if pruned_at is not None:
        raise BodyPruned(f"the bodies of run {run_id} were removed at {pruned_at}; it cannot go on")


def _take_over(around: Surroundings, store: SqlStore, row: RunRow, now: str) -> bool:
    """End the life of an owner that is gone, and return whether it crashed: a stopped one has said that it leaves.

    Raises:
        LeaseHeld: it may still be alive.
    """
    if row.lease_owner is None:
        return False
    owner = owner_from_text(row.lease_owner)
    state = liveness(owner)
    if state is Liveness.ALIVE and not store.runs.has_left(row, owner):
        raise LeaseHeld(
            f"run {row.run_id} is owned by process {owner.pid} on this host, which is alive{_where(store, row)}",
            next_command=f"wait for it, or: perdure resume {row.run_id} --kill-owner",
        )
    if state is Liveness.UNKNOWN and row.lease_expires_at is not None:
        free_at = after(row.lease_expires_at, OTHER_HOST_MARGIN_SECONDS)
        if parse_time(now) < parse_time(free_at):
            raise LeaseHeld(
                f"run {row.run_id} is owned by a process on {owner.host} until {free_at}",
                next_command=f"perdure resume {row.run_id}   # after that time, or on that host",
            )
    life = store.runs.life(row.run_id, row.lease_fence)
    store.runs.end_life(row.run_id, row.lease_fence, how="crashed", now=now, counts=LifeCounts())
    return life is not None and life.ended_at is None


def _reopen(store: SqlStore, row: RunRow, fence: int, now: str) -> None:
    """Reopen the call whose error ended the run, and down to the first cause those inside it.

    A dedupe key may have found that call in another run: it is that run's own, and only its resume reopens it.
    """
    call_id = row.ended_by_call_id
    while call_id is not None:
        call = store.calls.by_id(call_id)
        if call is None or call.run_id != row.run_id or call.status is not CallStatus.FAILED:
            return
        if call.error_code == DENIED and is_final(store, call.tool_call_id):
            return
        cause = store.calls.cause(call_id)
        store.calls.move(call, CallEvent.REOPEN, Authority(row.run_id, fence), now)
        call_id = cause


def _where(store: SqlStore, row: RunRow) -> str:
    steps = [step for step in store.steps.list(row.run_id) if step.status is StepStatus.RUNNING]
    life = store.runs.life(row.run_id, row.lease_fence)
    since = f" since {life.started_at}" if life is not None else ""
    return since + (f", in step {steps[-1].name!r} (phase {steps[-1].phase})" if len(steps) > 1 else "")


def kill_owner(store: SqlStore, run_id: str, *, patience_seconds: float = 10.0) -> None:
    """Kill the process that owns a run, and what it started, and return when all of it is gone.

    An owner that died by itself may have left children that still send; they are ended too.

    Raises:
        LeaseHeld: it is on another host, or it does not die.
    """
    row = store.runs.get(run_id)
    life = store.runs.life(run_id, row.lease_fence) if row is not None else None
    if row is None or life is None or row.status in (RunStatus.SUCCEEDED, RunStatus.CANCELLED):
        return
    owner = owner_from_text(row.lease_owner) if row.lease_owner is not None else life.owner
    if row.lease_owner is not None:
        _kill(run_id, owner, patience_seconds)
    if liveness(owner) is Liveness.DEAD:
        left = end_children(owner)
        if left:
            raise LeaseHeld(f"process {left[0]}, which the owner of run {run_id} had started, does not die")


def _kill(run_id: str, owner: Owner, patience_seconds: float) -> None:
    if liveness(owner) is Liveness.UNKNOWN:
        raise LeaseHeld(f"run {run_id} is owned on {owner.host}; kill it there")
    give_up = time.monotonic() + patience_seconds
    while liveness(owner) is Liveness.ALIVE:
        if owner.pid == os.getpid():
            raise LeaseHeld(f"run {run_id} is owned by this very process")
        if time.monotonic() > give_up:
            raise LeaseHeld(f"process {owner.pid} does not die")
        send_signal(owner.pid, signal.SIGKILL, start_time=owner.start_time)
        time.sleep(LOOK_AGAIN_SECONDS)
