"""Checkpoints: small snapshots at boundaries, holding references, never copies (R031, R032, R062, design.md §10)."""

from __future__ import annotations

import json

from perdure.runtime.frame import StepScope
from perdure.runtime.life import Life
from perdure.store.sql_store import SqlStore

STEP_BOUNDARY = "step_boundary"
PRE_SIDE_EFFECT = "pre_side_effect"
PHASE_BOUNDARY = "phase_boundary"
INTERRUPT = "interrupt"


def write_checkpoint(life: Life, store: SqlStore, step: StepScope, kind: str) -> str:
    """Write a checkpoint of the run at ``step`` in the transaction that is open, and return its id."""
    now = life.now()
    files = store.endings.newest_artifacts(life.run_id)
    checkpoint_id = f"{life.run_id}.c{life.next_checkpoint_number}"
    snapshot = {
        "phase": step.phase,
        "step_index": step.step_index,
        "step_name": step.name,
        "open_steps": [scope.step_id for scope in life.open_steps],
        "attempt": life.run.attempt + 1,
        "remaining_phases": list(dict.fromkeys(life.ready.values())),
        "artifact_refs": [f"{file['path']}@{file['sha256']}" for file in files],
        "last_call_id": life.last_tool_call_id,
    }
    cursor = {
        "last_tool_call_id": life.last_tool_call_id,
        "last_artifact": files[0]["path"] if files else None,
        "next_call_number": life.next_call_number,
    }
    store.steps.checkpoint(
        life.run_id,
        life.fence,
        checkpoint_id=checkpoint_id,
        step_id=step.step_id,
        kind=kind,
        snapshot=json.dumps(snapshot, sort_keys=True),
        cursor=json.dumps(cursor, sort_keys=True),
        now=now,
        provider_session_id=life.origin.provider_session_id,
    )
    store.runs.point(life.run_id, life.fence, step_id=step.step_id, checkpoint_id=checkpoint_id, now=now)
    life.next_checkpoint_number += 1
    if life.spans is not None:
        life.spans.checkpoint(step, checkpoint_id, kind)
    return checkpoint_id


def pre_side_effect(life: Life, store: SqlStore, step: StepScope) -> None:
    """Write the checkpoint that precedes the first effect of a step in this life (C15)."""
    if not step.guarded:
        write_checkpoint(life, store, step, PRE_SIDE_EFFECT)
        step.guarded = True
