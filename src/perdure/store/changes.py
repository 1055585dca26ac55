"""What a transaction has changed, handed on only after it was committed: for files and eyes, never for decisions."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple


class Change(NamedTuple):
    """One row that moved.

    Args:
        kind: ``life``, ``run``, ``step``, ``call`` or ``question``.
        subject: the row's public id; of a life its number.
        name: of the tool, the step or the question's kind.
        status: what it is now, in the ledger's words; of a life how it ended.
        at: the time in the row.
        note: what else a reader wants in half a line, never an argument or an outcome.
    """

    run_id: str
    kind: str
    subject: str
    name: str
    status: str
    at: str
    note: str = ""


Listener = Callable[[list[Change]], None]


class Changes:
    """Collects what the members of a group change; used only while the ledger's lock is held."""

    def __init__(self) -> None:
        self.listener: Listener | None = None
        self._told: list[Change] = []

    def tell(self, run_id: str, kind: str, subject: str, name: str, status: str, at: str, note: str = "") -> None:
        """Say that a row has moved, if anybody listens."""
        if self.listener is not None:
            self._told.append(Change(run_id, kind, subject, name, status, at, note))

    def mark(self) -> int:
        """Return the place to which ``undo`` goes back."""
        return len(self._told)

    def undo(self, mark: int) -> None:
        """Forget what was said after ``mark``: it was undone."""
        del self._told[mark:]

    def committed(self) -> None:
        """Hand everything on: it is durable now."""
        if self._told:
            told, self._told = self._told, []
            if self.listener is not None:
                self.listener(told)
