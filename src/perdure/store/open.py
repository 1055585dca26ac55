"""From a URL to an open, migrated ledger store."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from pathlib import Path

from perdure.model.errors import LedgerDamaged, StoreError
from perdure.ports.clock import Clock
from perdure.ports.store import CrashPoint, no_crash_point
from perdure.store.migrate import migrate
from perdure.store.sql_store import SqlStore
from perdure.store.sqlite.connection import SqliteConnection

_CHECKSUMS = "page_checksums"


def sqlite_path(url: str) -> str:
    """Return the file of a ``sqlite:///path`` URL, ``:memory:`` for ``sqlite://``; a bare path is a path.

    Raises:
        StoreError: the URL names a database that this version does not have.
    """
    if url in ("sqlite://", "sqlite:///:memory:", ":memory:"):
        return ":memory:"
    if url.startswith("sqlite:///"):
        return url[len("sqlite:///") :]
    if "://" in url:
        raise StoreError(
            f"this version keeps its ledger in SQLite only, not in {url.split('://', 1)[0]}",
            next_command="leave --store out, or give sqlite:///PATH",
        )
    return url


def open_store(
    url: str,
    clock: Clock,
    *,
    crash_point: CrashPoint = no_crash_point,
    new_ledger_id: Callable[[], str] = lambda: secrets.token_hex(16),
) -> SqlStore:
    """Open, check and migrate the ledger at ``url``; a new one gets its own random ledger id (F4).

    Raises:
        StoreError: the ledger cannot be used safely.
    """
    path = sqlite_path(url)
    new = path == ":memory:" or not os.path.exists(path)
    if path != ":memory:":
        _make_folder(Path(path).absolute().parent)
    connection = SqliteConnection(path)
    try:
        if migrate(connection, clock.now()) and new:
            connection.stretch_wal()
        store = SqlStore(connection, "sqlite", crash_point)
        if store.meta("ledger_id") is None:
            _name(store, connection, new_ledger_id())
        if store.meta(_CHECKSUMS) == "on" and not connection.has_checksums:
            raise LedgerDamaged(f"the ledger {path} was made with a checksum on each page, and its header denies it")
        connection.keep_log()
    except StoreError:
        connection.close()
        raise
    except Exception as problem:
        connection.close()
        raise StoreError(f"the ledger {path} cannot be used: {problem}") from problem
    if new and path != ":memory:":
        sync_folder(Path(path).absolute().parent)
    return store


def _name(store: SqlStore, connection: SqliteConnection, ledger_id: str) -> None:
    connection.begin()
    if store.meta("ledger_id") is None:  # another process may have been first
        store.set_meta("ledger_id", ledger_id)
        store.set_meta(_CHECKSUMS, "on" if connection.has_checksums else "off")
    connection.commit()


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as problem:
        raise StoreError(f"the state directory {folder} cannot be made: {problem}") from problem


def sync_folder(folder: Path) -> None:
    """Sync a folder: the entry of a new file in it is durable only then."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
