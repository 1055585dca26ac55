"""Forward-only numbered migrations: checksummed, each in one transaction, backup first."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path

from perdure.model.errors import SchemaError
from perdure.store.audit import AuditRows
from perdure.store.sqlite.connection import SqliteConnection
from perdure.store.statements import Statements

_BOOTSTRAP = """CREATE TABLE IF NOT EXISTS schema_migrations (
  number INTEGER PRIMARY KEY, name TEXT NOT NULL, sha256 TEXT NOT NULL, applied_at TEXT NOT NULL)"""


@dataclass(frozen=True, slots=True)
class Migration:
    """One step of the schema; its number is its place, its hash guards against edits."""

    number: int
    name: str
    sql: str

    @property
    def sha256(self) -> str:
        """Hash of the statements."""
        return hashlib.sha256(self.sql.encode("utf-8")).hexdigest()


def shipped_migrations(dialect: str = "sqlite") -> list[Migration]:
    """Return the migrations of this program, first to last."""
    folder = resources.files("perdure.store").joinpath(dialect, "migrations")
    found: list[Migration] = []
    for item in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if item.name.endswith(".sql"):
            number, name = item.name.removesuffix(".sql").split("_", 1)
            found.append(Migration(int(number), name, item.read_text(encoding="utf-8")))
    return found


@cache
def fresh_schema() -> dict[str, str]:
    """Return the tables, indexes, triggers and views of a ledger that all migrations have just made, by their names."""
    memory = SqliteConnection(":memory:")
    try:
        for step in shipped_migrations():
            memory.script(step.sql)
        return AuditRows(Statements(memory, "sqlite")).schema()
    finally:
        memory.close()


def migrate(connection: SqliteConnection, now: str, *, migrations: list[Migration] | None = None) -> int:
    """Bring the schema up to this program's, and return how many steps were applied.

    Raises:
        SchemaError: the file is newer than this program, or an applied migration was changed since.
    """
    applied = _applied(connection)
    missing = missing_migrations(applied, migrations)
    if missing and applied and connection.path != ":memory:":
        connection.backup_to(Path(f"{connection.path}.before-{missing[0].number:04}"))
    for step in missing:
        _apply(connection, step, now)
    return len(missing)


def missing_migrations(applied: dict[int, str], migrations: list[Migration] | None = None) -> list[Migration]:
    """Return the steps that a ledger lacks, first to last.

    Args:
        applied: the hashes of those that it has, by number.

    Raises:
        SchemaError: the file is newer than this program, or an applied migration was changed since.
    """
    wanted = shipped_migrations() if migrations is None else migrations
    _compare(applied, wanted)
    return [step for step in wanted if step.number not in applied]


def applied_migrations(connection: SqliteConnection) -> dict[int, str] | None:
    """Return the hashes of the applied migrations by number, or ``None`` where the file is no ledger."""
    known = "SELECT 1 FROM sqlite_master WHERE name = 'schema_migrations'"
    if not list(connection.rows(known, {})):
        return None
    return {row[0]: row[1] for row in connection.rows("SELECT number, sha256 FROM schema_migrations", {})}


def _applied(connection: SqliteConnection) -> dict[int, str]:
    """Return the hashes of the applied migrations by number; a ledger that has some is only read.

    Whoever opens it to look, or to kill its owner, must not have to wait for a lock that a stopped owner holds.
    """
    found = applied_migrations(connection)
    if found is not None:
        return found
    connection.begin()
    try:
        connection.script(_BOOTSTRAP)
        connection.commit()
    except BaseException:
        connection.rollback()
        raise
    return applied_migrations(connection) or {}


def _compare(applied: dict[int, str], wanted: list[Migration]) -> None:
    known = {step.number: step for step in wanted}
    newer = [number for number in applied if number not in known]
    if newer:
        raise SchemaError(
            f"the ledger has schema {max(newer)}, this program knows up to {max(known, default=0)}",
            next_command="install the newer perdure that wrote this ledger",
        )
    for number, digest in applied.items():
        if known[number].sha256 != digest:
            raise SchemaError(f"migration {number} is not the one this ledger was made with")


def _apply(connection: SqliteConnection, step: Migration, now: str) -> None:
    connection.begin()
    try:
        already = list(
            connection.rows("SELECT 1 FROM schema_migrations WHERE number = :number", {"number": step.number})
        )
        if not already:
            connection.script(step.sql)
            connection.write(
                "INSERT INTO schema_migrations (number, name, sha256, applied_at) VALUES (:number, :name, :sha, :now)",
                {"number": step.number, "name": step.name, "sha": step.sha256, "now": now},
            )
        connection.commit()
    except BaseException:
        connection.rollback()
        raise
