"""What an audit reads: rows one after the other, so that memory stays flat however long the ledger is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields

from perdure.core.audit import AuditedCall, AuditedRun
from perdure.core.json_places import is_json
from perdure.core.seals import Settled
from perdure.ports.store import Row
from perdure.store.statements import Statements

_SETTLED_COLUMNS = len(fields(Settled))


class AuditRows:
    """Everything that can be checked without knowing more than the file; nothing is written here."""

    def __init__(self, statements: Statements) -> None:
        self._do = statements

    def calls(self, run_id: str | None) -> Iterator[AuditedCall]:
        """Yield all calls, oldest first."""
        for row in self._do.rows("audit_calls", run_id=run_id):
            at = 1 + _SETTLED_COLUMNS
            occurrence, scope, prepared_at, sealed_calls, due, attempt, named, asked, status = row[at : at + 9]
            yield AuditedCall(
                call_no=row[0],
                row=Settled(*row[1:at]),
                occurrence=occurrence,
                effect_scope=self._hashed(scope),
                prepared_at=prepared_at,
                sealed_calls=sealed_calls,
                due=bool(due),
                evidence_attempt=attempt,
                named_exist=bool(named),
                has_question=bool(asked),
                run_status=status,
                seal=None if row[at + 9] is None else (row[at + 9], row[at + 10], row[at + 11]),
            )

    def _hashed(self, scope: str | None) -> str | None:
        """Return what of a scope went into the idempotency key; without the key of the secrets nobody can tell."""
        vault = self._do.vault
        return vault.hashed_scope(vault.reveal(scope)) if scope is not None else None

    def runs(self, run_id: str | None) -> Iterator[AuditedRun]:
        """Yield all runs, oldest first."""
        return (AuditedRun(*row) for row in self._do.rows("audit_runs", run_id=run_id))

    def seals(self) -> Iterator[Row]:
        """Yield the chain: number, call, time, status, row hash, chain hash; status and receipt hash of the entry of
        the same call before it.
        """
        return self._do.rows("audit_seals")

    def payloads(self) -> Iterator[Row]:
        """Yield (hash, bytes)."""
        return self._do.rows("audit_payloads")

    def broken_texts(self, run_id: str | None) -> Iterator[tuple[str, str, str]]:
        """Yield (kind of row, its id, what of it) of each text that its marks have made no JSON any more."""
        for kind, subject, what, text in self._do.rows("audit_marked_texts", run_id=run_id):
            if not is_json(text):
                yield kind, subject, what

    def missing_payloads(self, run_id: str | None) -> Iterator[Row]:
        """Yield (call, mark) of each body that a row names and nothing holds."""
        return self._do.rows("audit_missing_payloads", run_id=run_id)

    def shared_refs(self) -> Iterator[Row]:
        """Yield (tool, reference, one call, another call) of references that two receipts have."""
        return self._do.rows("audit_refs")

    def evidence_out_of_order(self, run_id: str | None) -> Iterator[Row]:
        """Yield (number, call, its time, the time before) of evidence that is older than what stands before it."""
        return self._do.rows("audit_evidence", run_id=run_id)

    def duplicates(self, run_id: str | None) -> Iterator[Row]:
        """Yield (call, tool, its reference, its receipt, when the second was found, its reference, its receipt)."""
        return self._do.rows("audit_duplicates", run_id=run_id)

    def in_doubt(self, run_id: str | None) -> Iterator[Row]:
        """Yield (call, tool, started, state of its run)."""
        return self._do.rows("audit_in_doubt", run_id=run_id)

    def artifacts(self, run_id: str | None) -> Iterator[Row]:
        """Yield (run, workspace, path, hash, size) of the newest record of each file."""
        return self._do.rows("audit_artifacts", run_id=run_id)

    def file_problems(self) -> Iterator[str]:
        """Yield what SQLite itself finds: broken pages, rows that break a CHECK or UNIQUE, rows that lead nowhere."""
        for row in self._do.rows("audit_file"):
            if row[0] != "ok":
                yield str(row[0])
        for table, row_no, parent, _ in self._do.rows("audit_foreign_keys"):
            yield f"row {row_no} of {table} leads to a row of {parent} that is not there"

    def schema(self) -> dict[str, str]:
        """Return the tables, indexes, triggers and views by their names, in words that do not depend on spaces."""
        return {f"{kind} {name}": " ".join((sql or "").split()) for kind, name, sql in self._do.rows("audit_schema")}
