"""How a ledger is opened: what its file, its library and its schema must be, and what is refused."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from perdure import Engine
from perdure.model.errors import SchemaError, StoreError, UsageError
from perdure.ports.clock import SystemClock
from perdure.runtime.ledger import Ledger
from perdure.store import migrate as migrating
from perdure.store.migrate import Migration, migrate, shipped_migrations
from perdure.store.open import open_store, sqlite_path
from perdure.store.sql_store import SqlStore
from perdure.store.sqlite import mounts as mount_table
from perdure.store.sqlite.connection import SqliteConnection, wal_reset_bug
from tests.integration.store_support import NOW, everything, open_ledger, rows_of, seed


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the ledger of a test is."""
    return tmp_path / "state" / "ledger.db"


@pytest.fixture
def ledger(path: Path) -> Iterator[Ledger]:
    """A ledger with run ``r1``, claimed under fence 1."""
    opened = open_ledger(path)
    assert opened.run(seed) == 1
    yield opened
    opened.close()


# --- opening ---------------------------------------------------------------------------------------------------------


def test_the_pragmas_are_those_that_durability_needs(ledger: Ledger) -> None:
    def read(store: SqlStore) -> dict[str, Any]:
        names = ("journal_mode", "synchronous", "foreign_keys", "fullfsync")
        return {name: next(store.connection.rows(f"PRAGMA {name}", {}))[0] for name in names}

    assert ledger.read(read) == {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1, "fullfsync": 1}


def test_a_ledger_whose_pragmas_do_not_hold_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"answers journal_mode=\w+, not wal"):
        SqliteConnection(str(tmp_path / "ledger.db"), vfs="unix-dotfile")


@pytest.mark.parametrize(
    ("version", "affected"),
    [
        ((3, 6, 23), False),
        ((3, 7, 0), True),
        ((3, 40, 1), True),
        ((3, 44, 5), True),
        ((3, 44, 6), False),
        ((3, 45, 0), True),
        ((3, 50, 6), True),
        ((3, 50, 7), False),
        ((3, 51, 2), True),
        ((3, 51, 3), False),
        ((3, 52, 0), False),
        ((4, 0, 0), False),
    ],
)
def test_the_libraries_with_the_wal_reset_bug(version: tuple[int, int, int], affected: bool) -> None:
    assert wal_reset_bug(version) is affected


def test_an_affected_library_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apsw, "sqlite_lib_version", lambda: "3.51.2")
    with pytest.raises(StoreError, match=r"3\.51\.2 can corrupt a WAL database"):
        SqliteConnection(str(tmp_path / "ledger.db"))
    assert not (tmp_path / "ledger.db").exists()


def mounts(folder: Path, monkeypatch: pytest.MonkeyPatch, *lines: str) -> None:
    """Let the ledger read a table of mounts that names the test's folder."""
    table = folder / "mounts"
    table.write_text("\n".join(["/dev/vda1 / ext4 rw 0 0", *lines, ""]), encoding="utf-8")
    monkeypatch.setattr(mount_table, "MOUNTS", table)


@pytest.mark.parametrize("kind", ["nfs", "nfs4", "cifs", "smb3", "9p", "fuse.sshfs"])
def test_a_network_filesystem_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    (tmp_path / "far away").mkdir()
    escaped = str(tmp_path / "far away").replace(" ", "\\040")
    mounts(tmp_path, monkeypatch, f"server:/export {escaped} {kind} rw 0 0")
    with pytest.raises(StoreError, match=f"lies on a {kind} filesystem"):
        SqliteConnection(str(tmp_path / "far away" / "ledger.db"))
    (tmp_path / "link").symlink_to(tmp_path / "far away")
    with pytest.raises(StoreError, match=f"lies on a {kind} filesystem"):
        SqliteConnection(str(tmp_path / "link" / "ledger.db"))
    SqliteConnection(str(tmp_path / "far away" / "ledger.db"), allow_network_filesystem=True).close()
    SqliteConnection(str(tmp_path / "near.db")).close()


def test_the_innermost_mount_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inner = tmp_path / "net" / "local"
    inner.mkdir(parents=True)
    mounts(tmp_path, monkeypatch, f"server:/x {tmp_path}/net nfs rw 0 0", f"/dev/vdb1 {inner} ext4 rw 0 0")
    SqliteConnection(str(inner / "ledger.db")).close()
    (tmp_path / "network").mkdir()
    SqliteConnection(str(tmp_path / "network" / "ledger.db")).close()
    with pytest.raises(StoreError, match="nfs"):
        SqliteConnection(str(tmp_path / "net" / "ledger.db"))


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("sqlite:///a/b.db", "a/b.db"),
        ("sqlite:////var/b.db", "/var/b.db"),
        ("sqlite://", ":memory:"),
        ("sqlite:///:memory:", ":memory:"),
        (":memory:", ":memory:"),
        ("plain.db", "plain.db"),
    ],
)
def test_the_path_of_a_url(url: str, path: str) -> None:
    assert sqlite_path(url) == path


def test_another_database_is_refused() -> None:
    with pytest.raises(StoreError, match="not in postgresql"):
        sqlite_path("postgresql://db.example.org/x")


def test_what_is_no_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    path.write_bytes(b"this is a letter, not a ledger\n" * 200)
    before = path.read_bytes()
    with pytest.raises(StoreError):
        open_store(str(path), SystemClock())
    assert path.read_bytes() == before


def test_a_ledger_keeps_its_id_and_two_ledgers_differ(tmp_path: Path) -> None:
    ids: list[str | None] = []
    for name in ("one.db", "two.db", "one.db"):
        ledger = open_ledger(tmp_path / name)
        ids.append(ledger.read(lambda store: store.meta("ledger_id")))
        ledger.close()
    assert ids[0] is not None
    assert ids[0] == ids[2] != ids[1]


def test_a_ledger_is_in_a_folder_that_only_its_owner_reads(path: Path, ledger: Ledger) -> None:
    assert path.parent.stat().st_mode & 0o777 == 0o700


def test_anybody_may_read_the_file_while_the_ledger_is_open(path: Path, ledger: Ledger) -> None:
    assert rows_of(path, "SELECT run_id, status FROM v_runs") == [("r1", "running")]


# --- migrations ------------------------------------------------------------------------------------------------------

FIRST = Migration(1, "first", "CREATE TABLE one (x INTEGER); INSERT INTO one VALUES (1);")
SECOND = Migration(2, "second", "CREATE TABLE two (x INTEGER); INSERT INTO two SELECT x + 1 FROM one;")


def migrated(path: Path, *steps: Migration) -> int:
    """Open a file, bring it to the given steps and return how many were applied."""
    connection = SqliteConnection(str(path))
    try:
        return migrate(connection, NOW, migrations=list(steps))
    finally:
        connection.close()


def test_each_migration_is_applied_once_and_recorded(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    assert [migrated(path, FIRST), migrated(path, FIRST), migrated(path, FIRST, SECOND)] == [1, 0, 1]
    assert rows_of(path, "SELECT x FROM two") == [(2,)]
    recorded = rows_of(path, "SELECT number, name, sha256, applied_at FROM schema_migrations")
    assert recorded == [(1, "first", FIRST.sha256, NOW), (2, "second", SECOND.sha256, NOW)]


def test_a_copy_is_made_before_an_old_ledger_is_changed(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    migrated(path, FIRST)
    assert not list(tmp_path.glob("*.before-*"))
    migrated(path, FIRST, SECOND)
    copy = tmp_path / "ledger.db.before-0002"
    assert rows_of(copy, "SELECT x FROM one") == [(1,)]
    assert rows_of(copy, "SELECT count(*) FROM sqlite_master WHERE name = 'two'") == [(0,)]


def test_a_failing_migration_leaves_nothing_of_itself(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    broken = Migration(2, "broken", "CREATE TABLE two (x INTEGER); INSERT INTO nowhere VALUES (1);")
    with pytest.raises(StoreError):
        migrated(path, FIRST, broken)
    assert rows_of(path, "SELECT number FROM schema_migrations") == [(1,)]
    assert migrated(path, FIRST, SECOND) == 1


def test_a_schema_from_the_future_is_refused_and_left_alone(path: Path) -> None:
    open_ledger(path).close()
    future = Migration(99, "future", "CREATE TABLE later (x INTEGER)")
    migrated(path, *shipped_migrations(), future)
    before = everything(path)
    with pytest.raises(SchemaError, match="schema 99, this program knows up to"):
        open_store(str(path), SystemClock())
    assert everything(path) == before


def test_a_migration_that_was_edited_since_is_refused(path: Path) -> None:
    edited = [Migration(step.number, step.name, step.sql + "\n-- edited") for step in shipped_migrations()]
    path.parent.mkdir()
    migrated(path, *edited)
    with pytest.raises(SchemaError, match="migration 1 is not the one"):
        open_store(str(path), SystemClock())


def test_each_number_of_the_shipped_migrations_stands_once_in_their_order() -> None:
    numbers = [step.number for step in shipped_migrations()]
    assert numbers == sorted(set(numbers))
    assert numbers[:2] == [1, 2]


KILLED = """
import os, signal, sys
import apsw
from perdure.store.migrate import Migration, migrate
from perdure.store.sqlite.connection import SqliteConnection

def die():
    os.kill(os.getpid(), signal.SIGKILL)

apsw.connection_hooks.append(lambda made: made.create_scalar_function("die", die, 0))
first = Migration(1, "first", sys.argv[2])
dying = Migration(2, "second", sys.argv[3].replace("INSERT", "SELECT die(); INSERT"))
migrate(SqliteConnection(sys.argv[1]), sys.argv[4], migrations=[first, dying])
"""


def test_a_migration_that_was_killed_halfway_is_done_again(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    argv = [sys.executable, "-c", KILLED, str(path), FIRST.sql, SECOND.sql, NOW]
    assert subprocess.run(argv, check=False).returncode == -signal.SIGKILL
    assert rows_of(path, "SELECT number FROM schema_migrations") == [(1,)]
    assert rows_of(path, "SELECT count(*) FROM sqlite_master WHERE name = 'two'") == [(0,)]
    assert migrated(path, FIRST, SECOND) == 1
    assert rows_of(path, "SELECT x FROM two") == [(2,)]


def open_until(path: Path, statement: int, steps: int) -> bool:
    """Open a ledger in a child that is killed before its n-th statement, and return whether it was."""
    child = os.fork()
    if child == 0:
        left = statement

        def count(_cursor: Any, _sql: str, _bindings: Any) -> bool:
            nonlocal left
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return True

        known = shipped_migrations()[:steps]
        migrating.shipped_migrations = lambda dialect="sqlite": known
        apsw.connection_hooks.append(lambda made: setattr(made, "exec_trace", count))
        try:
            open_store(str(path), SystemClock())
        finally:
            os._exit(0)
    ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert ended in (0, -signal.SIGKILL)
    return ended != 0


@pytest.mark.parametrize("url", ["{}/ledger.db", "ledger.db", "sqlite:///:memory:"])
def test_what_is_no_url_of_a_ledger_is_refused_before_anything_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="sqlite:///FILE"):
        Engine(url.format(tmp_path))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("already", range(len(shipped_migrations())))
def test_a_process_killed_at_any_statement_of_opening_leaves_a_ledger_that_opens(tmp_path: Path, already: int) -> None:
    """A sample of the statements of making a new ledger, and of the way up from each older schema, is a kill each."""
    old, steps = tmp_path / "old", [step.number for step in shipped_migrations()]
    old.mkdir()
    if already:
        assert not open_until(old / "ledger.db", 0, already)
        assert len(rows_of(old / "ledger.db", "SELECT number FROM schema_migrations")) == already
    statement, killed, stride = 0, True, 7 if already else 4
    while killed:
        statement += stride
        path = tmp_path / "state" / "ledger.db"
        shutil.rmtree(path.parent, ignore_errors=True)
        shutil.copytree(old, path.parent)
        killed = open_until(path, statement, len(steps))
        opened = open_store(str(path), SystemClock())
        assert list(opened.connection.rows("PRAGMA integrity_check", {})) == [("ok",)]
        found = [row[0] for row in opened.connection.rows("SELECT number FROM schema_migrations", {})]
        assert found == steps, statement
        opened.connection.close()
    assert statement > 20
