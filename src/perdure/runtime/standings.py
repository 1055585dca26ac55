"""How the budgets of a run stand: what is used, and what the job and people's grants allow."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from perdure.core.budget import KEYS, Allowance, Limit, allowance, as_given
from perdure.runtime import limits
from perdure.store.sql_store import SqlStore


@dataclass(frozen=True, slots=True)
class Standing:
    """How one budget of a run stands; amounts are in minutes, US dollars or counts.

    ``allowed`` is what the job says and what was granted since.
    """

    limit: str
    key: str
    used: float | int
    allowed: float | int


def standings(store: SqlStore, run_id: str) -> list[Standing]:
    """Return how the budgets of a run stand."""
    run = store.listed.run(run_id)
    spec: dict[str, Any] = json.loads(run.spec_json) if run is not None else {}
    budgets: Mapping[str, object] = spec.get("budgets") or {}
    allowed: Allowance = allowance(budgets).plus(store.budgets.granted(run_id))
    usage = limits.usage_of(store, run_id)
    return [
        Standing(str(limit), KEYS[limit], as_given(limit, usage.of(limit)), as_given(limit, allowed.amounts[limit]))
        for limit in Limit
        if limit in allowed.amounts
    ]


def standings_document(found: list[Standing]) -> list[dict[str, Any]]:
    """Return how budgets stand as it is printed."""
    return [{"limit": it.limit, "key": it.key, "used": it.used, "allowed": it.allowed} for it in found]
