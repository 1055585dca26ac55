"""Upkeep of a ledger's file: a checked copy, an explicit migration, and a quick check; runs may be going on."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from perdure.model.errors import LedgerDamaged, SchemaError, StoreError, UsageError
from perdure.ports.clock import Clock
from perdure.store.migrate import Migration, applied_migrations, missing_migrations
from perdure.store.modes import FILE_MODE, sync_folder
from perdure.store.open import open_store
from perdure.store.sql_store import SqlStore
from perdure.store.sqlite.connection import SqliteConnection


@dataclass(frozen=True, slots=True)
class Copy:
    """A copy of a ledger that was checked after it was written."""

    path: Path
    bytes: int
    runs: int
    calls: int


@dataclass(frozen=True, slots=True)
class Migrated:
    """What a migration did.

    Args:
        copy: what the ledger was before, where there was something.
    """

    applied: tuple[Migration, ...]
    copy: Path | None


@contextmanager
def looking(path: str) -> Generator[SqliteConnection]:
    """Open a ledger to look at it: nothing is repaired, brought up or written.

    Raises:
        LedgerDamaged: its files do not hold what was written to them.
        StoreError: it cannot be opened.
    """
    connection = SqliteConnection(path, read_only=True, create=False)
    try:
        yield connection
    finally:
        connection.close()


def backup(store: SqlStore, target: Path) -> Copy:
    """Copy a ledger to a new file and check the copy.

    Raises:
        UsageError: there is something at ``target`` already.
        StoreError: it cannot be written, or the copy is not whole; nothing is left of it.
    """
    connection = store.connection
    if not isinstance(connection, SqliteConnection):
        raise StoreError("only a ledger in SQLite can be copied")
    _make_private(target)
    try:
        connection.backup_to(target)
        found = _checked(target, _facts(connection))
        sync_folder(target.absolute().parent)
    except BaseException:
        for suffix in ("", "-wal", "-shm", "-journal"):
            with suppress(OSError):
                os.unlink(f"{target}{suffix}")
        raise
    return found


def _make_private(target: Path) -> None:
    try:
        os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY, FILE_MODE))
    except FileExistsError:
        raise UsageError(
            f"there is something at {target} already; a copy overwrites nothing",
            next_command="perdure db backup FILE   # with a name that is free",
        ) from None
    except OSError as problem:
        raise StoreError(
            f"the copy {target} cannot be made: {problem}", next_command="perdure db backup FILE   # somewhere else"
        ) from problem


def _facts(connection: SqliteConnection) -> tuple[str, int, int]:
    ledger_id = "SELECT value FROM meta WHERE key = 'ledger_id'"
    asked = (ledger_id, "SELECT count(*) FROM runs", "SELECT count(*) FROM tool_calls")
    name, runs, calls = (next(connection.rows(sql, {}))[0] for sql in asked)
    return name, runs, calls


def _checked(target: Path, expected: tuple[str, int, int]) -> Copy:
    with looking(str(target)) as copy:
        for problem in file_problems(copy):
            raise StoreError(f"the copy {target} is not whole: {problem}")
        if _facts(copy) != expected:
            raise StoreError(f"the copy {target} does not hold what the ledger holds")
    for suffix in ("-wal", "-shm"):
        with suppress(FileNotFoundError):
            os.unlink(f"{target}{suffix}")  # made by looking at it; the copy is one file
    return Copy(target, target.stat().st_size, expected[1], expected[2])


def file_problems(connection: SqliteConnection) -> list[str]:
    """Return what SQLite finds wrong with the pages and the references; each page is read, and its checksum checked."""
    problems = [row[0] for row in connection.rows("PRAGMA quick_check", {}) if row[0] != "ok"]
    for table, row_no, parent, _ in connection.rows("PRAGMA foreign_key_check", {}):
        problems.append(f"row {row_no} of {table} leads to a row of {parent} that is not there")
    return problems


def check(path: str) -> int:
    """Read every page of a ledger with its checksum, and compare its log with its witness; return the number of pages.

    Raises:
        LedgerDamaged: something does not hold.
        StoreError: it cannot be opened.
    """
    with looking(path) as connection:
        problems = file_problems(connection)
        if problems:
            more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
            raise LedgerDamaged(f"the ledger {path} does not hold what was written to it: {problems[0]}{more}")
        return int(next(connection.rows("PRAGMA page_count", {}))[0])


def pending(path: str) -> list[Migration]:
    """Return the migrations that a ledger lacks, without applying them.

    Raises:
        SchemaError: it is of a newer perdure, of a changed one, or no ledger.
    """
    with looking(path) as connection:
        applied = applied_migrations(connection)
        if applied is None:
            raise SchemaError(f"{path} is no ledger of perdure", next_command="perdure db path")
        return missing_migrations(applied)


def bring_up(path: str, clock: Clock) -> Migrated:
    """Apply the migrations that a ledger lacks; it is copied first.

    Raises:
        SchemaError: it is of a newer perdure, of a changed one, or no ledger.
        StoreError: it cannot be used.
    """
    steps = pending(path)
    if not steps:
        return Migrated((), None)
    open_store(path, clock).connection.close()
    return Migrated(tuple(steps), Path(f"{path}.before-{steps[0].number:04}"))
