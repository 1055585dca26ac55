"""The seam between the one SQL store and a database."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

Row = tuple[Any, ...]
CrashPoint = Callable[[str], None]
"""Called with the name of a numbered point; the operator's knob may end the process there."""


def no_crash_point(_name: str) -> None:
    """Do nothing: the knobs are unset."""


class SqlConnection(Protocol):
    """One writer connection; every method runs on the thread that holds the ledger's lock."""

    def rows(self, sql: str, parameters: Mapping[str, Any]) -> Iterator[Row]:
        """Run a statement and yield its rows."""
        ...

    def write(self, sql: str, parameters: Mapping[str, Any]) -> int:
        """Run a writing statement and return how many rows it changed."""
        ...

    def last_row(self) -> int:
        """Return the number of the row that was inserted last."""
        ...

    def begin(self) -> None:
        """Begin a writing transaction, waiting for other writers."""
        ...

    def begin_reading(self) -> None:
        """Begin a transaction that only reads: what others commit meanwhile is not seen, and nobody waits for it."""
        ...

    def commit(self) -> None:
        """Make the transaction durable."""
        ...

    def rollback(self) -> None:
        """Undo the transaction if one is open."""
        ...

    def savepoint(self) -> None:
        """Mark the place to which one member of a group can be undone."""
        ...

    def release(self) -> None:
        """Forget the mark."""
        ...

    def undo_to_savepoint(self) -> None:
        """Undo what came after the mark."""
        ...

    def in_transaction(self) -> bool:
        """Return whether a transaction is open."""
        ...

    def check(self) -> None:
        """Raise ``StoreError`` where this process may not use the connection any more."""
        ...

    def close(self) -> None:
        """Close the connection."""
        ...

    def another(self, *, read_only: bool = False) -> SqlConnection:
        """Return a new connection to the same database, which must exist; raise ``StoreError`` where there is none."""
        ...
