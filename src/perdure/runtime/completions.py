"""Collects what a completion report shows, from the rows of a run that has ended; ``core.completion`` says it."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from typing import Any

from perdure.core.completion import Completion, Lines
from perdure.core.summary import CallLine
from perdure.model.artifact import CheckedArtifact, FileState
from perdure.model.run import RunRow, WayOn
from perdure.model.toolcall import INNER_NAMESPACES, CallRow, CallStatus
from perdure.runtime.decisions import decisions_of
from perdure.runtime.fork_outputs import not_made
from perdure.runtime.packets import call_line, life_line
from perdure.runtime.ways_on import way_on
from perdure.store.reports import Newest
from perdure.store.sql_store import SqlStore

EFFECTS, OTHERS, LIVES, FILES = 50, 50, 50, 200


@dataclass(frozen=True, slots=True)
class Reach:
    """What a command needs to reach this ledger from any folder.

    Args:
        flags: global flags with absolute paths.
        python: the interpreter that the run was driven with; its packages are those of the tools.
    """

    flags: str
    python: str

    def command(self, words: str) -> str:
        """Return a command to type anywhere."""
        return f"perdure {words} {self.flags}".rstrip()

    def program(self, words: str) -> str:
        """Return the same for a shell that does not know where ``perdure`` is."""
        return f"{shlex.quote(self.python)} -m perdure {words} {self.flags}".rstrip()


def completion_of(store: SqlStore, row: RunRow, reach: Reach) -> Completion:
    """Return the report of a run that has ended; nobody has looked at its files yet."""
    run_id = row.run_id
    reports = store.reports
    unmet_ids = reports.unmet(run_id)
    unmet = [found for item in unmet_ids[-OTHERS:] if (found := store.calls.by_id(item)) is not None]
    doubts = [call for call in store.calls.open(run_id) if call.status is CallStatus.IN_DOUBT]
    lives, lives_in_all = reports.lives(run_id, LIVES)
    files, files_in_all = reports.artifacts(run_id, FILES)
    ended = [life.ended_at for life in lives if life.ended_at]
    met = lives[-1].replayed > 0 if lives else False
    replayed = reports.replayed(run_id, fence=row.lease_fence, unmet=unmet_ids, limit=OTHERS) if met else Newest((), 0)
    return Completion(
        run_id=run_id,
        name=row.name,
        objective=str(json.loads(row.spec_json).get("objective") or ""),
        status=str(row.status),
        reason=row.reason,
        error_code=row.error_code,
        error_detail=row.error_detail,
        result=json.loads(row.result) if row.result is not None else None,
        created_at=row.created_at,
        ended_at=max([row.updated_at, *ended]),
        workspace=row.workspace,
        lives=tuple(map(life_line, lives)),
        lives_in_all=lives_in_all,
        calls=reports.counts(run_id),
        effects=_lines(store, reports.effects(run_id, EFFECTS)),
        replayed=_lines(store, replayed),
        settled=_lines(store, reports.settled(run_id, OTHERS)),
        challenged=_lines(store, reports.challenged(run_id, OTHERS)),
        unmet=Lines(_shown(store, unmet), len(unmet_ids)),
        in_doubt=Lines(_shown(store, doubts[-OTHERS:]), len(doubts)),
        decisions=decisions_of(store, run_id),
        fork=_fork(store, row),
        files=tuple(CheckedArtifact(item, FileState.UNREAD) for item in files),
        files_in_all=files_in_all,
        final_artifact=reports.final_artifact(run_id),
        commands=_commands(row, way_on(store, row, reach.flags), doubts, reach),
    )


def _fork(store: SqlStore, row: RunRow) -> dict[str, Any] | None:
    """Return where a fork comes from, with the counts that ``perdure.run/v1`` has: of tool calls."""
    origin = store.origins.get(row.run_id)
    if origin.parent_run_id is None:
        return None
    inherited, simulated = store.origins.counts(row.run_id)
    return {
        "parent_run_id": origin.parent_run_id,
        "forked_from": origin.forked_from,
        "effects": origin.fork_effects,
        "inherited": inherited,
        "simulated": simulated,
        "not_made": not_made(store, row),
    }


def _lines(store: SqlStore, found: Newest) -> Lines:
    return Lines(_shown(store, found.rows), found.in_all)


def _shown(store: SqlStore, rows: list[CallRow] | tuple[CallRow, ...]) -> tuple[CallLine, ...]:
    return tuple(call_line(store, row) for row in rows if row.tool_namespace not in INNER_NAMESPACES)


def _commands(row: RunRow, way: WayOn, doubts: list[CallRow], reach: Reach) -> dict[str, str]:
    quoted = shlex.quote(row.run_id)
    found = {"show it": reach.command(f"runs show {quoted}"), "list its calls": reach.command(f"calls ls {quoted}")}
    if row.job_path is not None and way.line:
        late = row.error_code == "deadline"
        again = "give it more time and go on" if late else "try again the call that ended it"
        found[again if way.resume else "ask anew in another run, which really sends"] = way.line
    if row.job_path is not None and not row.is_scope:
        found["begin another run from it"] = reach.command(f"fork {quoted}")
    for call in doubts[-OTHERS:]:
        found[f"look at {call.tool_call_id}"] = reach.command(f"calls explain {shlex.quote(call.tool_call_id)}")
    return found
