"""What may be asked and granted about the budgets of runs: a part of the public library."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from perdure.core.budget import KEYS, Allowance, Limit, allowance, as_given
from perdure.runtime import granting, limits
from perdure.runtime.accept import spec_of
from perdure.runtime.desk import Desk
from perdure.runtime.verdicts import person
from perdure.store.budgets import Grant
from perdure.store.sql_store import SqlStore


@dataclass(frozen=True, slots=True)
class Standing:
    """How one budget of a run stands; amounts are in minutes, US dollars or counts.

    ``allowed`` is what the job says and what was granted since.
    """

    limit: str
    key: str
    used: float | int
    allowed: float | int


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


def standings(store: SqlStore, run_id: str) -> list[Standing]:
    """Return how the budgets of a run stand."""
    run = store.runs.get(run_id)
    budgets: Mapping[str, object] = (spec_of(run).get("budgets") or {}) if run is not None else {}
    allowed: Allowance = allowance(budgets).plus(store.budgets.granted(run_id))
    usage = limits.usage_of(store, run_id)
    return [
        Standing(str(limit), KEYS[limit], as_given(limit, usage.of(limit)), as_given(limit, allowed.amounts[limit]))
        for limit in Limit
        if limit in allowed.amounts
    ]
