"""Rows of the chain over settled calls: one batch where a life ends, or where a person settles a call.

It costs what the rows cost that were settled since, never the length of the history: a run remembers how many of its
calls a seal has looked at, and the few that were open then stand in ``unsealed``.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from perdure.core.seals import Settled, first_link, link
from perdure.model.toolcall import CallStatus
from perdure.store.statements import Statements

BATCH = 500


@dataclass(slots=True)
class _Batch:
    entries: list[tuple[str, str, str | None, str, str]] = field(default_factory=list)
    still_open: list[str] = field(default_factory=list)
    chain: str = ""


class SealRows:
    """The ``seals`` table."""

    def __init__(self, statements: Statements) -> None:
        self._do = statements

    def head(self) -> tuple[int, str]:
        """Return the number and the hash of the newest entry; of none, 0 and the first link."""
        row = self._do.one("last_seal")
        if row is not None:
            return row[0], row[1]
        ledger_id = self._do.one("get_meta", key="ledger_id")
        return 0, first_link(ledger_id[0] if ledger_id is not None else "")

    def seal(self, run_id: str, now: str) -> None:
        """Append an entry for each call of a run that was settled since it was looked at last."""
        batch = _Batch()
        left = {row[0]: row for row in self._do.rows("unsealed_calls", run_id=run_id)}
        for row in left.values():
            batch = self._take(run_id, batch, Settled(*row), now)
        last = 0
        for row in self._do.rows("calls_not_looked_at", run_id=run_id):
            last = _number(row[0])
            if row[0] not in left:
                batch = self._take(run_id, batch, Settled(*row), now)
        self._write(run_id, batch, now)
        if last:
            self._do.write("mark_sealed", run_id=run_id, number=last)

    def _take(self, run_id: str, batch: _Batch, found: Settled, now: str) -> _Batch:
        if not CallStatus(found.status).settled:
            batch.still_open.append(found.tool_call_id)
            return batch
        digest = found.sha256()
        batch.chain = link(batch.chain or self.head()[1], found.tool_call_id, now, digest)
        batch.entries.append((found.tool_call_id, found.status, found.receipt_sha256, digest, batch.chain))
        if len(batch.entries) < BATCH:
            return batch
        self._write(run_id, batch, now)
        return _Batch(chain=batch.chain)

    def _write(self, run_id: str, batch: _Batch, now: str) -> None:
        if batch.entries:
            self._do.write("insert_seals", entries=json.dumps(batch.entries), now=now)
            self._do.write("was_sealed", run_id=run_id, calls=json.dumps([entry[0] for entry in batch.entries]))
        if batch.still_open:
            self._do.write("leave_unsealed", run_id=run_id, calls=json.dumps(batch.still_open))


def _number(tool_call_id: str) -> int:
    tail = tool_call_id.rpartition(".")[2]
    return int(tail) if tail.isdecimal() else 0
