"""Collects what a resume packet shows, from the rows and the workspace; ``core.packet`` says it."""

from __future__ import annotations

import json
from dataclasses import replace

from perdure.core.budget import left_of
from perdure.core.packet import CheckpointLine, ResumePacket
from perdure.core.summary import CallLine, LifeLine, coded, shorten
from perdure.model.artifact import Artifact
from perdure.model.toolcall import INNER_NAMESPACES, CallRow, CallStatus
from perdure.runtime import artifacts
from perdure.runtime.lags import BEGUN
from perdure.runtime.life import Life
from perdure.runtime.naming import named
from perdure.store.runs import LifeRow
from perdure.store.sql_store import SqlStore

RECENT_ROWS = 60
DONE, OPEN, SETTLED, LIVES, FILES = 20, 50, 50, 5, 20
_UNSETTLED = (CallStatus.PREPARED, CallStatus.AWAITING_APPROVAL, CallStatus.RUNNING, CallStatus.IN_DOUBT)


def packet_of(life: Life) -> ResumePacket:
    """Return the packet of a life that is about to enter its program.

    What it reads is bounded: the newest rows by their numbers, and what is open.
    """
    packet, files = life.ledger.read(lambda store: _collect(life, store))
    return replace(packet, files=artifacts.check(life.workspace, files))


def _collect(life: Life, store: SqlStore) -> tuple[ResumePacket, list[Artifact]]:
    rows = store.calls.count(life.run_id)
    recent = [row for row in store.reports.recent(life.run_id, last=rows, how_many=RECENT_ROWS) if _is_tool(row)]
    done = [row for row in recent if row.status not in _UNSETTLED and not row.void][-DONE:]
    settled = [store.calls.get(call_no) for call_no in life.files.in_flight[-SETTLED:]]
    waiting = store.calls.open(life.run_id)[:OPEN]
    lives, _ = store.reports.lives(life.run_id, LIVES + 1)
    files, files_in_all = store.reports.artifacts(life.run_id, FILES)
    packet = ResumePacket(
        run_id=life.run_id,
        name=life.run.name,
        objective=str(life.spec.get("objective") or ""),
        attempt=life.run.attempt + 1,
        workspace=str(life.workspace),
        lives=tuple(life_line(item) for item in lives if item.fence != life.fence),
        checkpoint=_checkpoint(store, life.run_id),
        rows=rows,
        done=tuple(call_line(store, row) for row in done),
        settled=tuple(call_line(store, row, settled=True) for row in settled if _is_tool(row)),
        open=tuple(call_line(store, row) for row in waiting if _is_tool(row)),
        files_in_all=files_in_all,
        changes=changes_of(store, life.run_id, life.run.attempt + 1),
        budgets=left_of(life.account.budgets, life.account.allowed, life.account.usage),
    )
    return packet, files


def changes_of(store: SqlStore, run_id: str, attempt: int) -> tuple[str, ...]:
    """Return what was found changed when a life began, a sentence each."""
    return tuple(json.loads(dict(store.origins.changes(run_id)).get(attempt, "[]")))


def _is_tool(row: CallRow) -> bool:
    return row.tool_namespace not in INNER_NAMESPACES


def _checkpoint(store: SqlStore, run_id: str) -> CheckpointLine | None:
    found = store.reports.checkpoint(run_id)
    return CheckpointLine(*found) if found is not None else None


def life_line(life: LifeRow) -> LifeLine:
    """Return a life as its line."""
    return LifeLine(
        life.attempt,
        life.started_at,
        life.ended_at,
        life.how,
        replayed=life.replayed,
        settled=life.settled,
        challenged=life.challenged,
        unmet=life.unmet,
    )


def call_line(store: SqlStore, row: CallRow, *, settled: bool = False) -> CallLine:
    """Return a call as its line, with what decided it where something had to.

    Args:
        settled: it was in flight when a life began, so that a reader wants to know what became of it.
    """
    return CallLine(
        tool_call_id=row.tool_call_id,
        tool_name=row.tool_name,
        side_effect_class=str(row.side_effect_class),
        status=str(row.status),
        what=named(store, row),
        at=row.finished_at or row.prepared_at,
        receipt=_receipt(store, row),
        ref=row.external_correlation_id or row.handle,
        decided=decided(store, row, settled=settled),
        inherited_from=row.inherited_from,
        simulated=bool(row.simulated),
    )


def _receipt(store: SqlStore, row: CallRow) -> str | None:
    if row.status is CallStatus.SUCCEEDED:
        return shorten(store.listed.response(row.call_no) or "null")
    if row.status is CallStatus.CANCELLED and row.same_as is not None:
        return f"that of {row.same_as}"
    return shorten(coded(row.error_code, row.error_detail)) if row.error_code else None


def decided(store: SqlStore, row: CallRow, *, settled: bool = False) -> str:
    """Return who settled a call on what evidence; nothing for one that had its outcome at once."""
    said = [
        item
        for item in store.listed.evidence(row.tool_call_id)
        if item.kind != "ref" and item.says not in ("simulated", BEGUN)
    ]
    if said:
        last = said[-1]
        by = f", by {last.actor}" if last.kind == "verdict" else ""
        return f"settled by {last.kind}: {last.says}{by}" if row.status.settled else f"{last.kind} says {last.says}"
    if settled and row.status is CallStatus.PREPARED:
        return "its process is gone; it is made again when it is asked for"
    return ""
