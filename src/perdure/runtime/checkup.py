"""What ``doctor`` sees inside a ledger that it may only read: its schema, its log, its runs and what lies beside it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from perdure.core.doctor import Finding, Level, clock, ok
from perdure.core.redact import Redactor
from perdure.model.errors import SchemaError, StoreError
from perdure.model.run import Owner
from perdure.ports.store import Row
from perdure.runtime.lease import Liveness, liveness
from perdure.store.migrate import applied_migrations, missing_migrations
from perdure.store.modes import KEY_NAME
from perdure.store.open import KEY_FACT
from perdure.store.runs import owner_from_text
from perdure.store.sqlite.connection import SqliteConnection
from perdure.store.sqlite.lock_holder import is_stopped
from perdure.store.statements import load_queries
from perdure.store.upkeep import file_problems
from perdure.store.vault import Vault

_COPY = re.compile(r"\.before-\d+(-wal|-shm)?$")
_SET_ASIDE = re.compile(r"(quarantin|corrupt|damaged|\.broken|-journal$)")


def ledger(connection: SqliteConnection, now: str) -> Iterator[Finding]:
    """Look at an open ledger; what one finding cannot be made of, because a table is missing, is said so."""
    journal = next(connection.rows("PRAGMA journal_mode", {}))[0]
    if journal == "wal":
        yield ok("wal", "the ledger has a write-ahead log")
    else:
        means = "readers and writers shut each other out; the next command switches it"
        yield Finding("wal", Level.WARN, f"the ledger's journal is {journal}", means, "perdure runs ls")
    problems = file_problems(connection)
    if problems:
        means = "the file does not hold what was written to it"
        yield Finding(
            "pages", Level.BAD, problems[0], means, "put the ledger back from a copy: perdure help PERDURE-405"
        )
    else:
        yield ok("pages", "each page holds what was written to it")
    yield from _schema(connection)
    try:
        newest = next(connection.rows(load_queries("sqlite")["newest_time"], {}))[0]
        yield from clock(now, newest)
        yield from _runs(connection, now)
    except StoreError as problem:
        yield Finding(
            "runs", Level.BAD, f"its runs cannot be read: {problem}", "it may be no ledger", "perdure db path"
        )


def secrets_key(connection: SqliteConnection, database: Path, key: str | None) -> Iterator[Finding]:
    """Look whether the key is there by which the ledger's secrets were hidden; nothing is told where there are none."""
    try:
        known = next(connection.rows(load_queries("sqlite")["get_meta"], {"key": KEY_FACT}), None)
        vault = Vault(Path(key) if key else database.absolute().with_name(KEY_NAME), Redactor())
        vault.expected = str(known[0]) if known else None
        gone, another = vault.is_gone(), vault.is_another()
    except StoreError as problem:
        yield Finding("secrets_key", Level.BAD, problem.message, "no secret can be stored or read", "put the key back")
        return
    fix = f"put {vault.path} back, as it was"
    if gone:
        means = "no run goes on, and what holds a secret can neither be read nor sent again"
        yield Finding("secrets_key", Level.BAD, f"there is no {vault.path}", means, fix)
    elif another:
        means = "what was hidden with the older key can neither be read nor sent again"
        yield Finding("secrets_key", Level.WARN, f"{vault.path} is not the key of the first secret", means, fix)
    elif known:
        yield ok("secrets_key", f"{vault.path} is the key of the ledger's secrets")


def _schema(connection: SqliteConnection) -> Iterator[Finding]:
    applied = applied_migrations(connection)
    if applied is None:
        yield Finding(
            "schema", Level.BAD, "the file is no ledger of perdure", "no command can use it", "perdure db path"
        )
        return
    try:
        missing = missing_migrations(applied)
    except SchemaError as problem:
        yield Finding("schema", Level.BAD, problem.message, "no command can use it", problem.next_command)
        return
    if missing:
        said = f"{len(missing)} migrations are still to be applied, from {missing[0].number:04} on"
        means = "the next command that opens the ledger applies them, after a copy"
        yield Finding("schema", Level.WARN, said, means, "perdure db migrate")
    else:
        yield ok("schema", f"schema {max(applied)}, as this version has it")


def _runs(connection: SqliteConnection, now: str) -> Iterator[Finding]:
    queries = load_queries("sqlite")
    stale = [found for row in connection.rows(queries["running_runs"], {}) for found in _lease(row, now)]
    yield from stale or [ok("leases", "each running run has a living owner")]
    late = list(connection.rows(queries["late_runs"], {"now": now}))
    for run_id, deadline in late:
        said = f"run {run_id} waits, and its deadline {deadline} has passed"
        means = "whoever touches the ledger next ends it"
        yield Finding("overdue", Level.WARN, said, means, f"perdure runs show {run_id}")
    if not late:
        yield ok("overdue", "no run waits past its deadline")


def _lease(row: Row, now: str) -> Iterator[Finding]:
    run_id, owner_text, expires_at, life_ended = row
    fix = f"perdure resume {run_id}"
    if owner_text is None:
        yield Finding("leases", Level.BAD, f"run {run_id} is running and nobody owns it", "it does not go on", fix)
        return
    owner = owner_from_text(owner_text)
    state = liveness(owner)
    if life_ended is not None:
        yield Finding("leases", Level.WARN, f"run {run_id} was interrupted at {life_ended}", "it does not go on", fix)
    elif state is Liveness.DEAD:
        said = f"run {run_id} is running, and its process {owner.pid} is gone"
        yield Finding("leases", Level.WARN, said, "it does not go on by itself", fix)
    elif state is Liveness.ALIVE and is_stopped(owner.pid):
        yield _stopped(run_id, owner)
    elif state is Liveness.UNKNOWN and expires_at is not None and expires_at < now:
        said = f"run {run_id} is owned by a process on {owner.host}, which has not said anything since {expires_at}"
        yield Finding("leases", Level.WARN, said, "nothing here can tell whether it lives", fix)


def _stopped(run_id: str, owner: Owner) -> Finding:
    said = f"run {run_id} is owned by process {owner.pid}, which is stopped"
    fix = f"kill -CONT {owner.pid}   # or: perdure resume {run_id} --kill-owner"
    return Finding("leases", Level.WARN, said, "it holds what it holds until it is woken or ended", fix)


def leftovers(database: Path) -> Iterator[Finding]:
    """Look at what lies beside the ledger and belongs to no run."""
    folder = database.absolute().parent
    names = sorted(item.name for item in folder.iterdir()) if folder.is_dir() else []
    copies = [name for name in names if name.startswith(database.name) and _COPY.search(name)]
    aside = [name for name in names if _SET_ASIDE.search(name)]
    if copies:
        found = f"copies made before a migration: {', '.join(copies)}"
        means = "they take room, and hold what the ledger held then"
        fix = f"rm {' '.join(str(folder / name) for name in copies)}   # once you trust the ledger: perdure verify"
        yield Finding("leftovers", Level.WARN, found, means, fix)
    for name in aside:
        means = "it was set aside, or is half of something; nothing reads it"
        yield Finding(
            "leftovers", Level.WARN, f"{folder / name} lies there", means, "look into it before you remove it"
        )
    if not copies and not aside:
        yield ok("leftovers", "nothing lies about")
