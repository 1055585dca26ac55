"""From a URL to an open, migrated ledger store."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from pathlib import Path

from perdure.core.redact import Redactor
from perdure.model.errors import LedgerDamaged, StoreError
from perdure.ports.clock import Clock
from perdure.ports.store import CrashPoint, no_crash_point
from perdure.store.migrate import migrate
from perdure.store.modes import KEY_NAME, make_database, make_folder, sync_folder
from perdure.store.sql_store import SqlStore
from perdure.store.sqlite.connection import SqliteConnection
from perdure.store.vault import Vault

_CHECKSUMS = "page_checksums"
KEY_FACT = "secrets_key"
"""The name, in the ledger, of the key by which its secrets are hidden."""


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
    redactor: Redactor | None = None,
    key_path: Path | None = None,
) -> SqlStore:
    """Open, check and migrate the ledger at ``url``; a new one gets its own random ledger id (F4).

    Args:
        redactor: what is not stored in clear; every form that is known when left out.
        key_path: where the key of hidden secrets is; beside the database when left out.

    Raises:
        StoreError: the ledger cannot be used safely.
    """
    path = sqlite_path(url)
    new = path == ":memory:" or not os.path.exists(path)
    made: list[Path] = []
    if path != ":memory:":
        made = make_folder(Path(path).absolute().parent)
        make_database(Path(path).absolute())
        key_path = key_path or Path(path).absolute().with_name(KEY_NAME)
    vault = Vault(key_path, redactor or Redactor())
    connection = SqliteConnection(path)
    try:
        if migrate(connection, clock.now()) and new:
            connection.stretch_wal()
        store = SqlStore(connection, "sqlite", crash_point, vault)
        if store.meta("ledger_id") is None:
            _name(store, connection, new_ledger_id())
        if store.meta(_CHECKSUMS) == "on" and not connection.has_checksums:
            raise LedgerDamaged(f"the ledger {path} was made with a checksum on each page, and its header denies it")
        vault.look_for_witness(store.meta(KEY_FACT))
        connection.keep_log()
    except StoreError:
        connection.close()
        raise
    except Exception as problem:
        connection.close()
        raise StoreError(f"the ledger {path} cannot be used: {problem}") from problem
    if new and path != ":memory:":
        for folder in (*(item.parent for item in made), Path(path).absolute().parent):
            sync_folder(folder)
    return store


def _name(store: SqlStore, connection: SqliteConnection, ledger_id: str) -> None:
    connection.begin()
    if store.meta("ledger_id") is None:  # another process may have been first
        store.set_meta("ledger_id", ledger_id)
        store.set_meta(_CHECKSUMS, "on" if connection.has_checksums else "off")
    connection.commit()
