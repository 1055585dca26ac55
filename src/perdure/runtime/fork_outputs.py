"""Expected outputs in a fork: what a run behind it had made, and this one has no way of making again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from perdure.model.fork import ForkEffects
from perdure.model.run import RunRow, RunStatus
from perdure.runtime.life import Life
from perdure.store.sql_store import SqlStore


def stands_in(life: Life, store: SqlStore, path: str) -> bool:
    """Return whether a file may be missing: this fork has simulated calls, and a run behind it had that file.

    What a simulated call gives back is what the real one gave; the file that the real one wrote beside it is not there.
    """
    if life.origin.fork_effects is not ForkEffects.SIMULATE or store.origins.counts(life.run_id)[1] == 0:
        return False
    return any(path in _recorded(store, ancestor) for ancestor in life.lineage.ancestors)


def _recorded(store: SqlStore, run_id: str) -> set[str]:
    return {row[0] for row in store.steps.artifacts(run_id)}


def to_mend(life: Life, store: SqlStore, path: str) -> str:
    """Return what is to be done about a missing file, where this is a fork of a run that had it; else nothing."""
    parent = life.origin.parent_run_id
    if parent is None or path not in _recorded(store, parent):
        return ""
    return (
        f": run {parent} had it, but the file is gone or was written after {life.origin.forked_from or 'its beginning'}"
        f": make the program write it, or begin earlier: perdure fork {parent} --at start"
    )


def not_made(store: SqlStore, row: RunRow) -> list[str]:
    """Return the files that a job expects and that a simulated fork, which succeeded without them, has not made."""
    simulated = store.origins.get(row.run_id).fork_effects is ForkEffects.SIMULATE
    if not simulated or row.status is not RunStatus.SUCCEEDED:
        return []
    made = _recorded(store, row.run_id)
    return [path for path in _expected(json.loads(row.spec_json)) if path not in made]


def _expected(spec: Mapping[str, Any]) -> list[str]:
    conditions: list[Any] = spec.get("stop_conditions") or []
    outputs: Mapping[str, Any] = spec.get("artifacts") or {}
    files = [str(item["artifact"]) for item in conditions if not isinstance(item, str) and "artifact" in item]
    return list(dict.fromkeys([*files, *(outputs.get("expected_outputs") or ())]))
