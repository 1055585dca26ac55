"""What the smoke test knows afterwards, and from whom: the processes, the ledger's rows, the provider's own log."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Life:
    """One process of the run, and how it ended.

    Args:
        command: what was typed, without ``--state-dir``.
        expected: the exit code that it must have: 137 and -9 are the ways in which it is killed.
        why: what happened at that moment.
    """

    command: str
    pid: int
    exit_code: int
    expected: int
    why: str
    words: str = ""

    @property
    def killed(self) -> bool:
        """Whether this process did not end by itself."""
        return self.expected in (137, -9)

    @property
    def as_expected(self) -> bool:
        """Whether it ended as it must."""
        return self.exit_code == self.expected


@dataclass(frozen=True, slots=True)
class Row:
    """One tool call as the ledger has it."""

    tool_call_id: str
    tool_name: str
    side_effect_class: str
    status: str
    idempotency_key: str


@dataclass(frozen=True, slots=True)
class LedgerFacts:
    """What plain SQL finds in the ledger's file; nothing of the engine reads it.

    Args:
        questions: what waits for a person: the kind of question, and the call it is about.
        unmet: effects that the last life did not ask for.
        file_sha256: of the report, as the receipt of the tool that wrote it says.
        integrity: what SQLite's own check says.
    """

    rows: tuple[Row, ...]
    questions: tuple[tuple[str, str], ...]
    run_status: str
    duplicates_found: int
    unmet: int
    file_sha256: str | None
    integrity: str


@dataclass(frozen=True, slots=True)
class Facts:
    """Everything that is judged.

    Args:
        lives: in order; the last one resumed a run that had ended already.
        asked_about: the tools whose calls waited for a person.
        unchanged: whether that last resume left ledger and provider as they were.
        file_sha256: of the report in the workspace; None where there is none.
        effects: the provider's log: one member for each effect.
    """

    lives: tuple[Life, ...]
    asked_about: tuple[str, ...]
    unchanged: bool
    file_sha256: str | None
    ledger: LedgerFacts
    effects: tuple[Mapping[str, Any], ...]


def read_ledger(path: Path, run_id: str) -> LedgerFacts:
    """Read the ledger's file with the interpreter's own SQLite.

    Raises:
        sqlite3.Error: it cannot be read.
    """
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as database:

        def rows(query: str) -> list[tuple[Any, ...]]:
            return database.execute(query, {"run": run_id}).fetchall()

        calls = rows(
            "SELECT tool_call_id, tool_name, side_effect_class, status, idempotency_key FROM tool_calls "
            "WHERE run_id = :run AND tool_namespace = 'local' ORDER BY call_no"
        )
        questions = rows("SELECT kind, tool_call_id FROM approvals WHERE run_id = :run AND status = 'open'")
        found = rows(
            "SELECT count(*) FROM evidence JOIN tool_calls USING (tool_call_id) "
            "WHERE run_id = :run AND says = 'duplicate_found'"
        )
        written = rows(
            "SELECT response_ref FROM tool_calls WHERE run_id = :run AND tool_name = 'write_report' "
            "AND status = 'succeeded'"
        )
        unmet = rows("SELECT coalesce(max(unmet), 0) FROM run_attempts WHERE run_id = :run AND how = 'succeeded'")
        return LedgerFacts(
            rows=tuple(Row(*call) for call in calls),
            questions=tuple((str(kind), str(call)) for kind, call in questions),
            run_status=next((str(row[0]) for row in rows("SELECT status FROM runs WHERE run_id = :run")), "missing"),
            duplicates_found=int(found[0][0]),
            unmet=int(unmet[0][0]),
            file_sha256=next((json.loads(row[0]) for row in written), None),
            integrity=str(rows("PRAGMA integrity_check")[0][0]),
        )


def sha256_of(path: Path) -> str | None:
    """Return the SHA-256 of a file, or ``None`` where there is none."""
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else None
