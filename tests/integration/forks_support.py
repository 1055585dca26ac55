"""What tests of forks share: an agent of three steps, and the rows of a run as they stand in the file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw

from perdure import Engine, Outcome, tool
from tests.integration.engine_support import Outside, mailer

TABLES = ("runs", "run_attempts", "run_steps", "tool_calls", "checkpoints", "evidence", "approvals", "artifacts")


def letters(outside: Outside, **declared: Any) -> Callable[..., Any]:
    """Return an agent that reads, and sends, once in each of three steps."""
    send = mailer(outside, scope=["to"], **declared)

    @tool(side_effect_class="read_only")
    def look(number: int) -> int:
        outside.sent.append(f"look {number}")
        return number * 10

    def main(run: Any) -> list[Any]:
        found: list[Any] = []
        for number in range(3):
            with run.step(f"letter {number}"):
                found += [look(number), send(f"p{number}")]
        for to in run.inputs.get("more", ()):
            found.append(send(to))
        return found

    return main


def rows_of(folder: Path, run_id: str) -> dict[str, list[Any]]:
    """Return every row of a run as it stands in the file."""
    connection = apsw.Connection(str(folder / "state" / "runtime_state.db"))
    found: dict[str, list[Any]] = {}
    for table in TABLES:
        column = "run_id" if table != "evidence" else "tool_call_id"
        values = (run_id,) if table != "evidence" else (f"{run_id}.%",)
        found[table] = list(connection.execute(f"SELECT * FROM {table} WHERE {column} LIKE ?", values))
    connection.close()
    return found


def keys(engine: Engine, run_id: str) -> set[str]:
    return {call["idempotency_key"] for call in engine.calls(run_id, inner=True)}


def at_step(engine: Engine, run_id: str, number: int) -> str:
    """Return the checkpoint at the end of the k-th step, from 0."""
    ends = [item for item in engine.details(run_id)["checkpoints"] if item["kind"] == "step_boundary"]
    return str(ends[number]["checkpoint_id"])


def asked(found: Outcome) -> str:
    """Return the call that the one open question is about."""
    (waiting,) = found.waiting_for
    assert waiting.tool_call_id is not None
    return waiting.tool_call_id
