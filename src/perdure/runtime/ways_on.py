"""What works next for a run, from its rows; ``core.ways_on`` decides it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from perdure.core.ways_on import Program, Refusal, Standing, plain_resume
from perdure.core.ways_on import way_on as decided
from perdure.model.run import RunRow, RunStatus, Waiting, WaitReason, WayOn
from perdure.model.toolcall import DENIED, CallRow, CallStatus
from perdure.runtime.approvals import is_final
from perdure.runtime.fingerprints import STOP
from perdure.store.sql_store import SqlStore


def way_on(store: SqlStore, row: RunRow, flags: str, waits: Sequence[Waiting] = ()) -> WayOn:
    """Return what lets a run go on.

    Args:
        flags: what every printed command needs to reach this ledger, such as ``--state-dir DIR``.
        waits: what the run waits for.
    """
    granting = [item.commands[0] for item in waits if item.kind == WaitReason.BUDGET and item.commands]
    failed = row.status is RunStatus.FAILED
    refusal, given_up = _behind(store, row) if failed else (None, "")
    return decided(
        _standing(
            row,
            flags,
            granting=granting[0] if granting else "",
            refusal=refusal,
            given_up=given_up,
            is_pruned=failed and store.pruning.pruned_at(row.run_id) is not None,
        )
    )


def resume_command(row: RunRow, flags: str) -> str:
    """Return the command that goes on with a run which nothing keeps from it."""
    return plain_resume(_standing(row, flags))


def _standing(
    row: RunRow,
    flags: str,
    *,
    granting: str = "",
    refusal: Refusal | None = None,
    given_up: str = "",
    is_pruned: bool = False,
) -> Standing:
    program = Program.SCOPE if row.is_scope else Program.FUNCTION if row.job_path is None else Program.FILE
    return Standing(
        run_id=row.run_id,
        flags=flags,
        status=row.status,
        reason=row.reason,
        error_code=row.error_code,
        program=program,
        granting=granting,
        refusal=refusal,
        given_up=given_up,
        is_pruned=is_pruned,
        stops_on_change=json.loads(row.spec_json).get("on_change") == STOP,
    )


def _behind(store: SqlStore, row: RunRow) -> tuple[Refusal | None, str]:
    """Return who refused the call behind a run's end, and which call was given up there: what no resume reopens."""
    ruled = False
    for call in _causes(store, row):
        if call.status is CallStatus.ABANDONED:
            return None, call.tool_call_id
        if call.status is CallStatus.FAILED and call.error_code == DENIED:
            if is_final(store, call.tool_call_id):
                return Refusal.PERSON, ""
            ruled = ruled or not store.questions.of_call(call.tool_call_id)
    return (Refusal.RULE if ruled else None), ""


def _causes(store: SqlStore, row: RunRow) -> Iterator[CallRow]:
    """Yield the call whose error ended a run, and those inside it whose failures it passed on."""
    seen, call_id = set[str](), row.ended_by_call_id
    while call_id is not None and call_id not in seen:
        seen.add(call_id)
        call = store.calls.by_id(call_id)
        if call is None:
            return
        yield call
        call_id = store.calls.cause(call_id)
