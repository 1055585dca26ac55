"""Ledgers to be trusted or not: one with calls of every kind, and the ways in which another program can change it."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import perdure
from perdure import ToolFailed, tool
from perdure.model.errors import LedgerDamaged
from tests.integration.engine_support import FAST, open_engine
from tests.integration.store_support import NOW

LEDGER = Path("state") / "runtime_state.db"
WRITE = """
import sqlite3, sys
from contextlib import closing
with closing(sqlite3.connect(sys.argv[1], isolation_level=None)) as database:
    for statement in sys.argv[2:]:
        database.execute(statement)
"""


def meddle(folder: Path, *statements: str) -> None:
    """Change the ledger with another program's SQLite, in another process."""
    argv = [sys.executable, "-I", "-S", "-c", WRITE, str(folder / LEDGER), *statements]
    subprocess.run(argv, check=True, timeout=60)


@tool(name="send", side_effect_class="external", scope=["to"])
def send(to: str) -> str:
    """Send one."""
    if to == "nobody":
        raise ToolFailed("no such person", retry=False)
    if to == "lost":
        raise ConnectionResetError("the line went dead")
    return f"sent to {to}" if to != "long" else "x" * 20_000


def everything_happens(run: Any) -> str:
    """Succeed, fail for certain, store a long receipt, remember something, and lose one outcome."""
    send("ann")
    run.memo("draft", str.upper, "text")
    try:
        send("nobody")
    except perdure.CallFailed:
        send("long")
    (run.workspace / "report.txt").write_text("a report")
    send("lost")
    return "done"


def a_lived_in_ledger(folder: Path) -> None:
    """Make a ledger with run ``r1`` that waits in doubt and run ``r2`` that has succeeded."""
    with open_engine(folder, tools=[send]) as engine:
        assert engine.run(everything_happens, run_id="r1").reason == "in_doubt"
        assert engine.run(_two, run_id="r2").status == "succeeded"


def _two(run: Any) -> str:
    return send("bob") + send("eve")


def open_it(folder: Path) -> perdure.Engine:
    """Open the ledger as the library does."""
    return perdure.open(state_dir=folder / "state", tuning=FAST)


def kinds(folder: Path, **asked: Any) -> set[str]:
    """Return the kinds of problems that an audit finds, warnings left out; ``damaged`` where it cannot be opened."""
    try:
        with open_it(folder) as engine:
            return {item.kind for item in engine.verify(**asked).problems if not item.is_warning}
    except LedgerDamaged:
        return {"damaged"}


OLD_ROWS = {
    1: f"""
INSERT INTO meta VALUES ('ledger_id', 'abc'), ('page_checksums', 'on');
INSERT INTO runs (run_id, name, created_at, updated_at, status, reason, entrypoint, run_spec_json, run_spec_hash,
  workspace, attempt, lease_fence, result_ref)
VALUES ('old', 'an old run', '{NOW}', '{NOW}', 'succeeded', NULL, 'cli', '{{"agent": "x:y"}}', 'h', '/w', 1, 1, '1'),
  ('doubt', 'one that waits', '{NOW}', '{NOW}', 'waiting', 'in_doubt', 'cli', '{{}}', 'h', '/w', 1, 1, NULL);
INSERT INTO run_attempts (run_id, attempt, fence, owner, started_at, ended_at, how) VALUES
  ('old', 1, 1, '{{"host": "h", "boot_id": "b", "pid": 1, "start_time": 1}}', '{NOW}', '{NOW}', 'succeeded'),
  ('doubt', 1, 1, '{{"host": "h", "boot_id": "b", "pid": 1, "start_time": 1}}', '{NOW}', '{NOW}', 'waiting (in_doubt)');
INSERT INTO run_steps (step_id, run_id, step_index, created_at, updated_at, status, phase, name, occurrence)
VALUES ('old.s0', 'old', 0, '{NOW}', '{NOW}', 'succeeded', 'run', 'main', 1),
  ('doubt.s0', 'doubt', 0, '{NOW}', '{NOW}', 'blocked', 'run', 'main', 1);
INSERT INTO payloads VALUES ('aa', x'00ff');
INSERT INTO checkpoints (checkpoint_id, run_id, step_id, created_at, checkpoint_type, state_snapshot_json, cursor_json)
VALUES ('old.c1', 'old', 'old.s0', '{NOW}', 'interrupt', '{{}}', '{{}}');
INSERT INTO artifacts (run_id, path, sha256, size_bytes, created_at) VALUES ('old', 'a.txt', 'bb', 7, '{NOW}');
""",
    2: "INSERT INTO turn_calls VALUES ('old.1', 0, 'old.2', 0), ('old.1', 1, 'old.3', 1);",
}
"""What was written into a ledger of each released version, in SQL of that version; calls come from ``old_calls``."""

_STATUSES = ("succeeded", "failed", "cancelled", "abandoned", "in_doubt")


def old_calls() -> str:
    """Return statements that insert a call of each state, with its evidence and the question about the doubt."""
    made = []
    for run, first in (("old", _STATUSES[:4]), ("doubt", _STATUSES[4:])):
        for number, status in enumerate(first, start=1):
            settled = "NULL" if status == "in_doubt" else f"'{NOW}'"
            made.append(
                "INSERT INTO tool_calls (tool_call_id, run_id, step_id, created_at, updated_at, tool_name, raw_tool_name,"
                " tool_namespace, side_effect_class, replay_policy, guarantee, normalized_args_hash, occurrence,"
                " idempotency_key, status, attempt, fence, request_ref, response_ref, prepared_at, started_at, finished_at,"
                f" error_code) VALUES ('{run}.{number}', '{run}', '{run}.s0', '{NOW}', '{NOW}', 'send', 'send', 'local',"
                f" 'external', 'ASK', 'ask', 'hash', {number}, 'key-{run}-{number}', '{status}', 1, 1, '{{}}', '\"r\"',"
                f" '{NOW}', '{NOW}', {settled}, {repr('boom') if status == 'failed' else 'NULL'});"
            )
    made.append(
        "INSERT INTO evidence (tool_call_id, kind, at, actor, attempt, says)"
        f" VALUES ('doubt.1', 'attempt', '{NOW}', 'life 1', 1, 'lost');"
        "INSERT INTO approvals (approval_id, run_id, tool_call_id, kind, status, summary, created_at)"
        f" VALUES ('a1', 'doubt', 'doubt.1', 'in_doubt', 'open', 'did it happen?', '{NOW}');"
    )
    return "".join(made)


def rows_with_columns(path: Path) -> dict[str, list[dict[str, Any]]]:
    """Return all rows of all tables as dictionaries, read by another program."""
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
        database.row_factory = sqlite3.Row
        query = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
        names = [row[0] for row in database.execute(query)]
        return {name: [dict(row) for row in database.execute(f"SELECT * FROM {name}")] for name in names}
