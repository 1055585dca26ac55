"""What may be asked and granted about the budgets of runs: a part of the public library."""

from __future__ import annotations

from collections.abc import Mapping

from perdure.runtime import granting
from perdure.runtime.desk import Desk
from perdure.runtime.standings import Standing, standings
from perdure.runtime.verdicts import person
from perdure.store.budgets import Grant


class BudgetDesk(Desk):
    """Looks at budgets and takes grants."""

    def grant(self, run_id: str, granted: Mapping[str, object], *, actor: str | None = None) -> None:
        """Record that a run may use more; a run that waits for it can then be resumed.

        Args:
            run_id: the run, or a unique prefix, or ``@last``.
            granted: ``minutes calls steps tokens usd retries errors`` to the amount to add, and ``deadline`` to a later
                moment (ISO-8601 with a zone) or ``+2h`` from now.
            actor: who grants it; the user of this process when left out.

        Raises:
            NotFound, UsageError, VerdictRefused: it cannot be granted; nothing is recorded then.
        """
        chosen, now = self.find_run(run_id), self._around.clock.now()
        self._ledger.run(lambda store: granting.record(store, chosen, granted, actor=actor or person(), now=now))

    def budgets(self, run_id: str) -> list[Standing]:
        """Return how the budgets of a run stand; a limit that its job does not name is not listed."""
        chosen = self.find_run(run_id)
        return self._ledger.read(lambda store: standings(store, chosen))

    def grants(self, run_id: str) -> list[Grant]:
        """Return what was granted to a run, oldest first."""
        chosen = self.find_run(run_id)
        return self._ledger.read(lambda store: store.budgets.grants(chosen))
