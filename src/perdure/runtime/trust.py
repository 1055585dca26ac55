"""What lets a person trust a ledger: its audit, and a copy of it while runs are going on."""

from __future__ import annotations

from pathlib import Path

from perdure.runtime.desk import Desk
from perdure.runtime.verify import Verified, verify
from perdure.store import upkeep
from perdure.store.sql_store import SqlStore


class Trust(Desk):
    """The audit and the copies of an engine's ledger."""

    def verify(self, run_id: str | None = None, *, expect_head: str | None = None) -> Verified:
        """Check every invariant of the ledger, or those of one run; nothing is changed, and runs may be going on.

        Args:
            run_id: only what belongs to this run, and the chain.
            expect_head: a hash that an earlier audit gave as ``head``; it must still be in the chain.

        Raises:
            NotFound: there is no such run.
            LedgerDamaged: a page does not hold what was written to it.
        """
        chosen = None if run_id is None else self.find_run(run_id)

        def work(store: SqlStore) -> Verified:
            return verify(store, chosen, expect_head)

        return self._ledger.survey(work)

    def backup(self, path: str | Path) -> upkeep.Copy:
        """Copy the ledger's rows to a new file while runs are going on; the copy is checked before this returns.

        Args:
            path: the new file; only its owner may read it.

        Raises:
            UsageError: there is something at ``path``.
            StoreError: the copy cannot be made, or is not whole; nothing is left of it.
        """
        return self._ledger.survey(lambda store: upkeep.backup(store, Path(path)))
