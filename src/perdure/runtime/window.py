"""What may be looked at while a run works, without touching it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from perdure.model.run import RunRow
from perdure.runtime import finding, forecasting, report
from perdure.runtime.ledger import Ledger
from perdure.runtime.life import Surroundings
from perdure.runtime.registry import Registry
from perdure.runtime.watching import POLL_SECONDS, UNTIL, WAITS, Watcher, follow


class Window:
    """Looks at runs; it changes nothing, not even an overdue run."""

    _ledger: Ledger
    _around: Surroundings
    _flags: str
    _registry: Registry

    def find_run(self, text: str) -> str:
        """Return the id of a run given by its id, a unique prefix, or ``@last``.

        Raises:
            NotFound: none or several match.
        """

        return self._ledger.read(lambda store: finding.find_run(store, text))

    def note_of(self, row: RunRow) -> str:
        """Return what the status of a run alone does not say: that nobody drives it; in the words of its outcome."""
        return self._ledger.read(lambda store: report.undriven_note(store, row))

    def watcher(self, run_id: str, *, since: str | None = None) -> Watcher:
        """Return somebody who looks at a run on a connection of its own, which only reads; close it.

        Args:
            run_id: the run, or a unique prefix, or ``@last``.
            since: a cursor, ``start`` for everything from the beginning, or ``None`` for what comes from now on.

        Raises:
            NotFound, StoreError, UsageError: there is no such run, no file to read, or no such cursor.
        """
        chosen = self.find_run(run_id)
        store = self._ledger.read(lambda store: store.reader())
        try:
            return Watcher(store, chosen, self._around.clock, flags=self._flags, since=since)
        except BaseException:
            store.connection.close()
            raise

    def watch(
        self, run_id: str, *, since: str | None = None, until: str = WAITS, poll_seconds: float = POLL_SECONDS
    ) -> Iterator[dict[str, Any]]:
        """Yield what changes in a run, as ``perdure.event/v1`` documents, until it ends or waits.

        Whoever owns the run is not disturbed: no lease is taken and no lock is held. If its process is killed an event
        says so, and the watch goes on: another life may follow.

        Args:
            run_id: the run, or a unique prefix, or ``@last``.
            since: the cursor of an event; what came after it follows, with nothing missed. ``start`` is the beginning.
            until: ``waits``, or ``ended`` to stay while the run waits.
            poll_seconds: how often it is looked.

        Raises:
            NotFound, StoreError, UsageError: as for ``watcher``, or ``until`` is neither of its words.
        """
        finding.checked_word(until, UNTIL, "a moment to stay for")
        with self.watcher(run_id, since=since) as watcher:
            for change in follow(watcher, self._around.clock, until=until, poll_seconds=poll_seconds):
                yield change.document(watcher.run_id)

    def forecast(self, run_id: str) -> dict[str, Any]:
        """Return what the next life would do with each open call if the run's process were killed now.

        Args:
            run_id: the run, or a unique prefix, or ``@last``.

        Raises:
            NotFound: there is no such run.
        """
        chosen, now = self.find_run(run_id), self._around.clock.now()
        policy, registry = self._around.policy, self._registry
        return self._ledger.read(lambda store: forecasting.forecast_run(store, chosen, now, policy, registry))
