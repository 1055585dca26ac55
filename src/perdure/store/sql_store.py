"""The one SQL store: a face per table group over one connection."""

from __future__ import annotations

from perdure.core.redact import Redactor
from perdure.ports.store import CrashPoint, SqlConnection, no_crash_point
from perdure.store.audit import AuditRows
from perdure.store.budgets import BudgetRows
from perdure.store.calls import CallRows
from perdure.store.changes import Changes
from perdure.store.consents import ConsentRows
from perdure.store.endings import EndRows
from perdure.store.kin import KinRows
from perdure.store.listing import ListedRows, WatchedRows
from perdure.store.origins import OriginRows
from perdure.store.pruning import PruningRows
from perdure.store.questions import QuestionRows
from perdure.store.reports import ReportRows
from perdure.store.runs import RunRows, StepRows
from perdure.store.seals import SealRows
from perdure.store.statements import Statements
from perdure.store.turns import TurnRows
from perdure.store.vault import Vault


class SqlStore:
    """Rows of one ledger; used only while the ledger's lock is held."""

    def __init__(
        self,
        connection: SqlConnection,
        dialect: str,
        crash_point: CrashPoint = no_crash_point,
        vault: Vault | None = None,
    ) -> None:
        self.connection = connection
        self.vault = vault or Vault(None, Redactor())
        self._dialect = dialect
        self._crash_point = crash_point
        self._statements = Statements(connection, dialect, crash_point, self.vault)
        self.changes = Changes()
        self.runs = RunRows(self._statements, self.changes)
        self.steps = StepRows(self._statements, self.changes)
        self.calls = CallRows(self._statements, self.changes)
        self.kin = KinRows(self._statements)
        self.endings = EndRows(self._statements, self.changes)
        self.turns = TurnRows(self._statements)
        self.pruning = PruningRows(self._statements)
        self.questions = QuestionRows(self._statements, self.changes)
        self.consents = ConsentRows(self._statements)
        self.origins = OriginRows(self._statements)
        self.seals = SealRows(self._statements)
        self.listed = ListedRows(self._statements)
        self.budgets = BudgetRows(self._statements)
        self.audit = AuditRows(self._statements)
        self.watched = WatchedRows(self._statements)
        self.reports = ReportRows(self._statements)

    def another(self) -> SqlStore:
        """Return the same ledger on a new connection, for when this one has failed.

        Raises:
            StoreError: it cannot be opened either.
        """
        return SqlStore(self.connection.another(), self._dialect, self._crash_point, self.vault)

    def reader(self) -> SqlStore:
        """Return the same ledger on a new connection that cannot write, and so never stands in a writer's way.

        Raises:
            StoreError: it cannot be opened, or stands in memory only.
        """
        return SqlStore(self.connection.another(read_only=True), self._dialect, vault=self.vault)

    def meta(self, key: str) -> str | None:
        """Return a fact about the ledger itself."""
        row = self._statements.one("get_meta", key=key)
        return row[0] if row else None

    def set_meta(self, key: str, value: str) -> None:
        """Set a fact about the ledger itself."""
        self._statements.write("set_meta", key=key, value=value)

    def newest_time(self) -> str | None:
        """Return the newest time any run was touched, for clocks that step back (#38)."""
        row = self._statements.one("newest_time")
        return row[0] if row else None
