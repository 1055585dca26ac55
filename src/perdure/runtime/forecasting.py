"""The forecast of a run: what the next life would do with each open call if the owner were killed now."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from perdure.core.budget import Limit
from perdure.core.codec import decode
from perdure.core.decide import CallFacts
from perdure.core.forecast import forecast
from perdure.core.policy import evaluate
from perdure.model.errors import NotFound, SecretUnavailable
from perdure.model.policy import Decision, Policy
from perdure.model.run import RunRow, RunStatus
from perdure.model.toolcall import CallRow, CallStatus, ReplayPolicy
from perdure.ports.clock import seconds_between
from perdure.runtime import attached
from perdure.runtime.approvals import is_stale
from perdure.runtime.doubts import another_still_sends, attempts_in_all, key_alive_seconds
from perdure.runtime.lease import living_children
from perdure.runtime.registry import Registry
from perdure.store.runs import owner_from_text
from perdure.store.sql_store import SqlStore


def forecast_run(store: SqlStore, run_id: str, now: str, policy: Policy, registry: Registry) -> dict[str, Any]:
    """Return the ``perdure.forecast/v1`` document of a run.

    The program is not loaded for it: of a tool that is not registered here the row tells how it was started.

    Raises:
        NotFound: there is no such run.
    """
    run = store.runs.get(run_id)
    if run is None:
        raise NotFound(f"there is no run {run_id!r}", next_command="perdure runs ls")
    calls: list[dict[str, Any]] = []
    for row in store.calls.open(run_id):
        found = forecast(row, _facts(store, run, row, now, _decision(row, policy, registry)))
        calls.append(
            {
                "tool_call_id": row.tool_call_id,
                "tool_namespace": row.tool_namespace,
                "tool_name": row.tool_name,
                "side_effect_class": str(row.side_effect_class),
                "status": str(row.status),
                "attempt": row.attempt,
                "then": found.then,
                "why": found.why,
                "wait_seconds": round(found.wait_seconds, 3),
            }
        )
    counts = store.calls.counts(run_id)
    return {
        "schema": "perdure.forecast/v1",
        "run_id": run_id,
        "status": str(run.status),
        "ended": RunStatus(run.status).ended,
        "calls": calls,
        "receipts": counts.get("succeeded", 0),
    }


def _decision(row: CallRow, policy: Policy, registry: Registry) -> Decision | None:
    tool = registry.find(row.tool_namespace, row.tool_name)
    return None if tool is None else evaluate(policy, tool.declaration)


def _facts(store: SqlStore, run: RunRow, row: CallRow, now: str, decision: Decision | None) -> CallFacts:
    """Return what the next life would know of a row; it asks by the same rules as that life does."""
    if decision is not None:
        replay_policy, probes = decision.replay_policy, decision.probe is not None or decision.has_probe
    else:
        replay_policy, probes = row.replay_policy, row.replay_policy is ReplayPolicy.RECONCILE
    budgets: dict[str, Any] = json.loads(run.spec_json).get("budgets") or {}
    granted = int(store.budgets.granted(run.run_id).get(Limit.RETRIES, 0))
    return CallFacts(
        sender_alive=row.effectful
        and row.status in (CallStatus.RUNNING, CallStatus.IN_DOUBT)
        and _still_sent(store, run, row),
        gone_seconds=0.0,
        has_probe=probes,
        probe_lag_seconds=decision.probe_lag_seconds if decision is not None else 0.0,
        key_alive_seconds=key_alive_seconds(store, row, now),
        first_was_keyed=row.key_expires_at is not None,
        unsendable="" if row.key_expires_at is None else _other_bytes(store, run, row),
        attempts_left=attempts_in_all(budgets, decision, granted) - row.attempt,
        wait_seconds=0.0 if row.not_before is None else max(0.0, seconds_between(now, row.not_before)),
        replay_policy=replay_policy,
        still_valid=not is_stale(store, row, now),
    )


def _other_bytes(store: SqlStore, run: RunRow, row: CallRow) -> str:
    """Return why the exact request cannot be sent again, as far as it can be told without its secrets."""
    try:
        recorded = attached.taken_out(decode(store.calls.request(row.call_no)))[1]
    except SecretUnavailable as problem:
        return str(problem)
    return attached.changed(Path(run.workspace), recorded)


def _still_sent(store: SqlStore, run: RunRow, row: CallRow) -> bool:
    """Return whether somebody else than the owner, or a child that the owner leaves behind, may still be sending."""
    sent_by = store.runs.life(row.run_id, row.fence)
    if sent_by is None:
        return False
    if run.lease_owner is not None and sent_by.owner == owner_from_text(run.lease_owner):
        return bool(living_children(sent_by.owner, since=row.started_at))
    return another_still_sends(sent_by, row)
