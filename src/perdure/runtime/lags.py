"""How long a "no" about a call may be wrong: known with the call, for whoever is asked may not have its tool.

The lag is the tool's and its rule's, as they were when the call was sent. Where it is another than its row tells, it
stands in the evidence of the attempt, in the transaction that starts it.
"""

from __future__ import annotations

import json

from perdure.model.policy import DEFAULT_PROBE_LAG_SECONDS, Decision
from perdure.model.toolcall import CallRow, ReplayPolicy
from perdure.runtime import recording
from perdure.runtime.life import Life
from perdure.store.sql_store import SqlStore

BEGUN = "begun"
"""What the evidence of an attempt says that was not lost and not answered: under which lag it was sent."""
_LAG = "probe_lag_seconds"


def lag_of(decision: Decision) -> float:
    """Return for how many seconds a "no" about a call of a tool may be wrong: for none, where there is no probe."""
    return decision.probe_lag_seconds if decision.probe is not None or decision.has_probe else 0.0


def usual_lag(row: CallRow) -> float:
    """Return the lag in seconds of a call of which nothing else was recorded."""
    return DEFAULT_PROBE_LAG_SECONDS if row.replay_policy is ReplayPolicy.RECONCILE else 0.0


def record(life: Life, store: SqlStore, row: CallRow, decision: Decision) -> None:
    """Record the lag of a call that starts, where it is not the usual one."""
    lag = lag_of(decision)
    if row.effectful and not row.simulated and lag != usual_lag(row):
        recording.add_evidence(life, store, row, "attempt", BEGUN, detail=json.dumps({_LAG: lag}))


def recorded(store: SqlStore, row: CallRow) -> float:
    """Return the longest lag in seconds under which a call was sent."""
    told = [
        float(json.loads(item.detail)[_LAG])
        for item in store.calls.evidence(row.tool_call_id)
        if item.kind == "attempt" and item.says == BEGUN and item.detail
    ]
    return max(told) if told else usual_lag(row)
