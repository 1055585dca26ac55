"""``trace.json``: lives, steps and calls as spans, made from the rows, for ui.perfetto.dev and chrome://tracing.

It is an export and nothing reads it back: it may be deleted, cut off or made unwritable without any effect on a run
(R010). Arguments, results and errors are not in it, ids and times are.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perdure.model.toolcall import INNER_NAMESPACES
from perdure.ports.clock import parse_time
from perdure.runtime.changes import calls_of, checkpoints_of, evidence_of, steps_of
from perdure.runtime.workspace import write_whole

if TYPE_CHECKING:
    from perdure.runtime.ledger import Ledger
    from perdure.store.sql_store import SqlStore

TRACE = "trace.json"
TRACE_VARIABLE = "PERDURE_TRACE"
LIVES, STEPS, MARKS, FIRST_LANE = 1, 2, 3, 10
_LANES = {LIVES: "lives", STEPS: "steps", MARKS: "checkpoints and evidence"}


def write_trace(ledger: Ledger, run_id: str, workspace: Path, now: str) -> None:
    """Write the trace of a run, whole.

    Args:
        now: the end of what has not ended yet.
    """
    events = ledger.read(lambda store: list(trace_events(store, run_id, now)))
    text = json.dumps({"traceEvents": events, "otherData": {"perdure.run_id": run_id}}, separators=(",", ":"))
    write_whole(workspace / TRACE, text + "\n")


def trace_events(store: SqlStore, run_id: str, now: str) -> Iterator[dict[str, Any]]:
    """Yield the events of a run in the Trace Event Format, with times in microseconds."""
    lanes: list[float] = []
    for life in store.runs.lives(run_id):
        ids = {"perdure.run_id": run_id, "perdure.life": life.attempt, "process.pid": life.owner.pid, "how": life.how}
        yield _span(f"life {life.attempt}", "life", LIVES, life.started_at, life.ended_at or now, ids)
    for step in steps_of(store, run_id):
        over = step["updated_at"] if step["status"] in ("succeeded", "failed", "skipped") else now
        ids = {"perdure.run_id": run_id, "perdure.step_id": step["step_id"], "phase": step["phase"]}
        ids["status"] = step["status"]
        yield _span(step["name"], "step", STEPS, step["created_at"], over, ids)
    for call in calls_of(store, run_id):
        if call["started_at"] is not None:
            yield _call(call, run_id, now, lanes)
    yield from _marks(store, run_id)
    names = {**_LANES, **{FIRST_LANE + at: f"calls {at + 1}" for at in range(len(lanes))}}
    for lane, name in names.items():
        yield {"name": "thread_name", "ph": "M", "pid": 1, "tid": lane, "args": {"name": name}}


def _call(call: dict[str, Any], run_id: str, now: str, lanes: list[float]) -> dict[str, Any]:
    over = call["finished_at"] or (now if call["status"] == "running" else call["updated_at"])
    inner = call["tool_namespace"] in INNER_NAMESPACES
    ids = {
        "gen_ai.operation.name": "chat" if call["tool_namespace"] == "model" else "execute_tool",
        "gen_ai.tool.name": call["tool_name"],
        "gen_ai.tool.call.id": call["tool_call_id"],
        "gen_ai.conversation.id": run_id,
        "perdure.run_id": run_id,
        "perdure.step_id": call["step_id"],
        "perdure.tool_call_id": call["tool_call_id"],
        "perdure.attempt": call["attempt"],
        "perdure.idempotency_key_hash": hashlib.sha256(call["idempotency_key"].encode()).hexdigest(),
        "status": call["status"],
        "guarantee": call["guarantee"],
    }
    begin, end = _microseconds(call["started_at"]), _microseconds(over)
    name = f"{call['tool_namespace']} {call['tool_name']}" if inner else call["tool_name"]
    return _span(name, "call", FIRST_LANE + _free_lane(lanes, begin, end), call["started_at"], over, ids)


def _free_lane(lanes: list[float], begin: float, end: float) -> int:
    """Return a lane on which nothing else runs then: calls that run side by side stand below each other."""
    for number, busy_until in enumerate(lanes):
        if busy_until <= begin:
            lanes[number] = end
            return number
    lanes.append(end)
    return len(lanes) - 1


def _marks(store: SqlStore, run_id: str) -> Iterable[dict[str, Any]]:
    for mark in checkpoints_of(store, run_id):
        ids = {
            "perdure.run_id": run_id,
            "perdure.step_id": mark["step_id"],
            "perdure.checkpoint_id": mark["checkpoint_id"],
        }
        yield _moment(f"checkpoint {mark['checkpoint_type']}", "checkpoint", mark["created_at"], ids)
    for item in evidence_of(store, run_id):
        ids = {
            "perdure.run_id": run_id,
            "perdure.tool_call_id": item["tool_call_id"],
            "perdure.attempt": item["attempt"],
        }
        yield _moment(f"{item['evidence']}: {item['says']}", "settle", item["at"], ids)


def _span(name: str, kind: str, lane: int, begin: str, end: str, ids: dict[str, Any]) -> dict[str, Any]:
    since = _microseconds(begin)
    spent = max(0.0, _microseconds(end) - since)
    return {"name": name, "cat": kind, "ph": "X", "ts": since, "dur": spent, "pid": 1, "tid": lane, "args": ids}


def _moment(name: str, kind: str, at: str, ids: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": name,
        "cat": kind,
        "ph": "i",
        "s": "t",
        "ts": _microseconds(at),
        "pid": 1,
        "tid": MARKS,
        "args": ids,
    }


def _microseconds(moment: str) -> float:
    return round(parse_time(moment).timestamp() * 1_000_000)
