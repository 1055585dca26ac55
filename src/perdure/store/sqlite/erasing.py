"""Make removed bodies unreadable in the files: the log is emptied, and the file may shrink."""

from __future__ import annotations

from pathlib import Path

from perdure.model.errors import StoreError
from perdure.ports.store import SqlConnection


def empty_log(connection: SqlConnection) -> bool:
    """Copy the log into the file and empty it; return whether nobody who reads was in the way."""
    row = next(connection.rows("PRAGMA wal_checkpoint(TRUNCATE)", {}), (1,))
    return bool(row[0] == 0)


def shrink(connection: SqlConnection) -> bool:
    """Write the file anew without its free pages; return whether nobody else was using it."""
    try:
        list(connection.rows("VACUUM", {}))
    except StoreError:
        return False
    return True


def older_copies(connection: SqlConnection) -> tuple[Path, ...]:
    """Return the copies beside a ledger that were made before a migration: they have what is removed from it now."""
    file = next(str(row[2]) for row in connection.rows("PRAGMA database_list", {}) if row[1] == "main")
    return tuple(sorted(Path(file).parent.glob(f"{Path(file).name}.before-*"))) if file else ()
