"""Where a run stands, read from its rows: the outcome, and what waits with the commands that answer it."""

from __future__ import annotations

import json
import shlex
from typing import Any

from perdure.core.codec import decode
from perdure.model.errors import NotFound, SecretUnavailable
from perdure.model.fork import ForkEffects, Origin
from perdure.model.run import Outcome, RunRow, RunStatus, Waiting, WaitReason
from perdure.model.toolcall import TIMER_NAMESPACE
from perdure.ports.store import Row
from perdure.runtime import fork_outputs
from perdure.runtime.finding import no_call
from perdure.runtime.lease import Liveness, liveness
from perdure.runtime.standings import standings, standings_document
from perdure.runtime.waiting import spaced, waiting, waiting_document
from perdure.runtime.ways_on import resume_command, way_on
from perdure.store.listing import CallFilter
from perdure.store.runs import owner_from_text
from perdure.store.sql_store import SqlStore


def outcome(store: SqlStore, run_id: str, *, flags: str = "", shown: bool = False) -> Outcome:
    """Return the outcome of a run as it stands.

    Args:
        flags: what every printed command needs to reach this ledger, such as ``--state-dir DIR``.
        shown: it is for people: a result that cannot be read is left out, and ``told_result`` has its marks.

    Raises:
        NotFound: there is no such run.
        SecretUnavailable: a secret is in the result and its key is gone.
    """
    row = store.listed.run(run_id)
    if row is None:
        raise NotFound(f"there is no run {run_id!r}")
    life = store.runs.last_life(run_id)
    waits = [waiting(store, question, flags) for question in store.questions.awaited(run_id)]
    if row.reason == WaitReason.CRASH_LOOP:
        waits.append(crash_loop(store, row, flags))
    waits.extend(timers(store, row, flags))
    origin, pruned = store.origins.get(run_id), _pruned_note(store, run_id)
    inherited, simulated = store.origins.counts(run_id) if origin.parent_run_id is not None else (0, 0)
    return Outcome(
        run_id=run_id,
        name=row.name,
        status=row.status,
        reason=row.reason,
        result=_result(store, run_id, shown),
        calls=store.calls.counts(run_id),
        replayed=life.replayed if life else 0,
        settled=life.settled if life else 0,
        challenged=life.challenged if life else 0,
        unmet=life.unmet if life else 0,
        duplicates_found=store.calls.duplicates_found(run_id),
        attempt=row.attempt,
        waiting_for=tuple(waits),
        workspace=row.workspace,
        resume_command="" if pruned and row.status is RunStatus.FAILED else resume_command(row, flags),
        way=way_on(store, row, flags, waits),
        error_code=row.error_code,
        error_detail=row.error_detail,
        told_result=store.listed.told_result(run_id),
        note=pruned
        or undriven_note(store, row)
        or cancel_note(store, row)
        or _fork_note(store, row, origin, simulated),
        origin=origin,
        inherited=inherited,
        simulated=simulated,
        changes=tuple(_changes(store, row)),
    )


def _result(store: SqlStore, run_id: str, shown: bool) -> Any:
    try:
        stored = store.listed.result(run_id)
    except SecretUnavailable:
        if not shown:
            raise  # a program must not take a mark for the value
        return None
    return decode(stored) if stored is not None else None


def _changes(store: SqlStore, row: RunRow) -> list[str]:
    """Return what had changed when the last life began."""
    found: list[str] = json.loads(dict(store.origins.changes(row.run_id)).get(row.attempt, "[]"))
    return found


def _fork_note(store: SqlStore, row: RunRow, origin: Origin, simulated: int) -> str:
    if origin.fork_effects is not ForkEffects.SIMULATE:
        return ""
    missing = fork_outputs.not_made(store, row)
    without = f"; not made here, where calls are simulated: {', '.join(missing)}" if missing else ""
    return f"{simulated} call(s) simulated, nothing sent by this fork of {origin.parent_run_id}{without}"


def _pruned_note(store: SqlStore, run_id: str) -> str:
    pruned_at = store.pruning.pruned_at(run_id)
    return f"its bodies were removed at {pruned_at}" if pruned_at is not None else ""


INTERRUPTED, GONE = "interrupted; nobody drives it", "is gone"


def undriven_note(store: SqlStore, row: RunRow) -> str:
    """Return that nobody drives a running run: its last life was interrupted, or its owner is gone; or nothing."""
    if row.status is not RunStatus.RUNNING:
        return ""
    life = store.runs.last_life(row.run_id)
    return INTERRUPTED if life is not None and life.ended_at is not None else owner_note(row)


def owner_note(row: RunRow) -> str:
    """Return that the owner of a running run is gone, or nothing."""
    if row.status is not RunStatus.RUNNING or row.lease_owner is None:
        return ""
    owner = owner_from_text(row.lease_owner)
    return f"its process {owner.pid} {GONE}" if liveness(owner) is Liveness.DEAD else ""


def cancel_note(store: SqlStore, row: RunRow) -> str:
    """Return that, and by whom, a run was cancelled or is to be, or nothing."""
    asked = store.endings.cancel_of(row.run_id)
    if asked is None or row.status not in (RunStatus.RUNNING, RunStatus.CANCELLED):
        return ""
    why = f": {asked.reason}" if asked.reason else ""
    said = "by" if row.status is RunStatus.CANCELLED else "its process has not seen yet that it is cancelled, by"
    return f"{said} {asked.actor} at {asked.requested_at}{why}"


def crash_loop(store: SqlStore, row: RunRow, flags: str) -> Waiting:
    """Return what a person is told of a run that crashes again and again."""
    takeovers, _, settled = store.endings.takeovers(row.run_id)
    last = store.runs.last_life(row.run_id)
    again = resume_command(row, flags)
    return Waiting(
        kind=str(WaitReason.CRASH_LOOP),
        id=row.run_id,
        tool_call_id=None,
        tool_name=None,
        since=row.updated_at,
        summary=f"run {row.run_id} crashed {takeovers + 1} times and got no further (the last time in life "
        f"{row.attempt}, which began at {last.started_at if last else row.updated_at}; {settled} calls are settled)",
        commands=(again, f"perdure runs cancel {shlex.quote(row.run_id)}{spaced(flags)}"),
    )


def timers(store: SqlStore, row: RunRow, flags: str) -> list[Waiting]:
    """Return the moments that a waiting run sleeps until, the next one first."""
    if row.status is not RunStatus.WAITING:
        return []
    rows = [call for call in store.calls.open(row.run_id) if call.tool_namespace == TIMER_NAMESPACE]
    return [
        Waiting(
            kind=str(WaitReason.TIMER),
            id=call.tool_call_id,
            tool_call_id=call.tool_call_id,
            tool_name=call.tool_name,
            since=call.prepared_at or row.updated_at,
            summary=f"sleeps until {call.not_before}",
            commands=(resume_command(row, flags) + f"   # from {call.not_before} on",),
        )
        for call in sorted(rows, key=lambda call: call.not_before or "")
    ]


def _resume_or_nothing(found: Outcome) -> str | None:
    """Return the line that goes on with the run; of one that succeeded, the line that tells its outcome again."""
    return found.resume_command if found.status is RunStatus.SUCCEEDED else found.way.resume or None


def run_document(found: Outcome) -> dict[str, Any]:
    """Return the ``perdure.run/v1`` document of an outcome."""
    from perdure.core.codec import to_tagged

    return {
        "schema": "perdure.run/v1",
        "run_id": found.run_id,
        "name": found.name,
        "status": str(found.status),
        "reason": found.reason,
        "result": json.loads(found.told_result) if found.told_result is not None else to_tagged(found.result),
        "calls": dict(found.calls),
        "replayed": found.replayed,
        "settled": found.settled,
        "challenged": found.challenged,
        "unmet": found.unmet,
        "duplicates_found": found.duplicates_found,
        "attempt": found.attempt,
        "waiting_for": [waiting_document(item) for item in found.waiting_for],
        "changes": list(found.changes),
        "run_mode": str(found.origin.run_mode),
        "parent_run_id": found.origin.parent_run_id,
        "forked_from": found.origin.forked_from,
        "fork_effects": found.origin.fork_effects,
        "inherited": found.inherited,
        "simulated": found.simulated,
        "error": {"code": found.error_code, "detail": found.error_detail} if found.error_code else None,
        "workspace": found.workspace,
        "resume_command": _resume_or_nothing(found),
    }


# The columns that the queries of public calls share, in their order.
_PUBLIC = (
    *("call_no", "tool_call_id", "run_id", "step_id", "tool_namespace", "tool_name", "raw_tool_name"),
    *("side_effect_class", "replay_policy", "guarantee", "status", "attempt", "occurrence", "idempotency_key"),
    *("effect_scope", "external_correlation_id", "prepared_at", "started_at", "finished_at"),
    *("error_code", "error_detail", "request", "response", "policy_rule", "same_as", "parent_call_id"),
    *("handle", "fence", "simulated", "inherited_from"),
)
CALL_FIELDS = (
    *("tool_call_id", "run_id", "step_id", "tool_name", "raw_tool_name", "side_effect_class", "replay_policy"),
    *("guarantee", "status", "attempt", "occurrence", "idempotency_key", "prepared_at", "started_at"),
    *("finished_at", "error_code", "simulated", "inherited_from"),
)


def _public(row: Row) -> dict[str, Any]:
    found = dict(zip(_PUBLIC, row, strict=True))
    found["simulated"] = bool(found["simulated"])
    return found


def calls(store: SqlStore, run_id: str | None, wanted: CallFilter) -> list[dict[str, Any]]:
    """Return calls with the fields of ``perdure.calls/v1``, oldest first."""
    found = (_public(row) for row in store.listed.calls(run_id, wanted))
    return [{name: item[name] for name in CALL_FIELDS} for item in found]


def call(store: SqlStore, tool_call_id: str, *, flags: str) -> dict[str, Any]:
    """Return one call with everything that is known of it.

    Raises:
        NotFound: there is no such call.
    """
    row = store.listed.call(tool_call_id)
    if row is None:
        raise no_call(store, tool_call_id)
    found = _public(row)
    call_no = found.pop("call_no")
    found["request"] = store.listed.request(call_no)
    found["response"] = store.listed.response(call_no)
    found["evidence"] = [
        {
            "kind": item.kind,
            "at": item.at,
            "actor": item.actor,
            "attempt": item.attempt,
            "says": item.says,
            "detail": item.detail,
            "ref": item.ref,
        }
        for item in store.listed.evidence(tool_call_id)
    ]
    found["questions"] = [
        {
            "id": q.approval_id,
            "kind": q.kind,
            "status": q.status,
            "summary": q.summary,
            "created_at": q.created_at,
            "decided_at": q.decided_at,
            "actor": q.actor,
            "answer": q.answer,
        }
        for q in store.questions.of_call(tool_call_id)
    ]
    still = store.questions.open_of_call(tool_call_id)
    found["commands"] = list(waiting(store, still, flags).commands) if still else []
    found["edited"] = _edited(found["evidence"])
    return found


def _edited(evidence: list[dict[str, Any]]) -> dict[str, Any] | None:
    """Return who has changed the request that was asked for, when, and what it was."""
    for item in evidence:
        verdict = item["kind"] == "verdict" and item["detail"]
        detail: dict[str, Any] = json.loads(item["detail"]) if verdict else {}
        if "asked_for" in detail:
            return {"by": item["actor"], "at": item["at"], "asked_for": detail["asked_for"]}
    return None


def details(store: SqlStore, run_id: str) -> dict[str, Any]:
    """Return the lives, steps, checkpoints, artifacts, budgets and forks of a run, and its provider's session."""
    origin = store.origins.get(run_id)
    return {
        "provider_session_id": origin.provider_session_id,
        "provider_session_forked_from": origin.provider_session_forked_from,
        "objective": _objective(store, run_id),
        "last_job_prompt": origin.last_job_prompt,
        "forks": store.origins.forks(run_id),
        "budgets": standings_document(standings(store, run_id)),
        "checkpoints": [
            {
                "checkpoint_id": item.checkpoint_id,
                "kind": item.kind,
                "step_id": item.step_id,
                "created_at": item.created_at,
                "provider_session_id": item.provider_session_id,
            }
            for item in store.origins.checkpoints(run_id)
        ],
        "lives": _lives(store, run_id),
        "steps": [
            {
                "step_id": s.step_id,
                "name": s.name,
                "phase": s.phase,
                "status": str(s.status),
                "attempt": s.attempt,
                "error_code": s.error_code,
                "error": s.error_detail,
            }
            for s in store.steps.list(run_id)
        ],
        "reviews": [_review(store, *found) for found in store.endings.reviews(run_id)],
        "artifacts": [
            {"path": row[0], "sha256": row[1], "size_bytes": row[2], "created_at": row[3]}
            for row in store.steps.artifacts(run_id)
        ],
    }


def _objective(store: SqlStore, run_id: str) -> str | None:
    row = store.listed.run(run_id)
    return json.loads(row.spec_json).get("objective") or None if row is not None else None


def _lives(store: SqlStore, run_id: str) -> list[dict[str, Any]]:
    """Return the lives of a run, each with what it found changed and what it met."""
    changes = dict(store.origins.changes(run_id))
    return [
        {
            "attempt": life.attempt,
            "changes": json.loads(changes.get(life.attempt, "[]")),
            "pid": life.owner.pid,
            "started_at": life.started_at,
            "ended_at": life.ended_at,
            "how": life.how,
            "replayed": life.replayed,
            "settled": life.settled,
            "challenged": life.challenged,
            "unmet": life.unmet,
        }
        for life in store.runs.lives(run_id)
    ]


def _review(store: SqlStore, phase: str, status: str, call_no: int, error: str | None) -> dict[str, str]:
    """Return what a critic has said of a phase; one that raised has blocked the run."""
    stored = store.listed.response(call_no)
    if status != "succeeded" or stored is None:
        return {"phase": phase, "verdict": status, "text": error or ""}
    said: dict[str, str] = decode(stored)
    return {"phase": phase, **said}
