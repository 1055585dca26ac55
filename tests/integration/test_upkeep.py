"""Copies of a ledger, older ledgers brought up with all their data, and a quick check of the file."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import apsw
import pytest

import perdure
from perdure import StoreError, UsageError, tool
from perdure.model.errors import LedgerDamaged, SchemaError
from perdure.ports.clock import SystemClock
from perdure.store import upkeep
from perdure.store.migrate import Migration, migrate, shipped_migrations
from perdure.store.open import open_store
from perdure.store.sqlite.connection import SqliteConnection
from tests.integration.engine_support import live, open_engine
from tests.integration.store_support import NOW, everything
from tests.integration.trust_support import LEDGER, OLD_ROWS, a_lived_in_ledger, old_calls, open_it, rows_with_columns

VERSIONS = [step.number for step in shipped_migrations()]


def ledger_of_version(folder: Path, version: int) -> Path:
    """Make a ledger as the program of that version left it, with rows in all of its tables."""
    path = folder / LEDGER
    path.parent.mkdir(parents=True)
    connection = SqliteConnection(str(path))
    migrate(connection, NOW, migrations=[step for step in shipped_migrations() if step.number <= version])
    connection.script(OLD_ROWS[1])
    connection.script(old_calls())
    if version >= 2:
        connection.script(OLD_ROWS[2])
    connection.close()
    return path


# --- an older ledger (R128) ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS[:-1])
def test_a_ledger_of_each_version_opens_in_this_one_with_all_its_data(tmp_path: Path, version: int) -> None:
    path = ledger_of_version(tmp_path, version)
    before = rows_with_columns(path)
    assert sum(map(len, before.values())) >= 19
    open_store(str(path), SystemClock()).connection.close()
    after = rows_with_columns(path)
    for table, rows in before.items():
        if table in ("schema_migrations", "meta"):
            assert [row for row in after[table] if row in rows] == rows
        else:
            assert [{name: row[name] for name in rows[0]} for row in after[table]] == rows, table
    assert [row["number"] for row in after["schema_migrations"]] == VERSIONS


def test_an_older_ledger_is_worked_with_and_its_chain_begins_where_it_was_brought_up(tmp_path: Path) -> None:
    ledger_of_version(tmp_path, 1)
    with open_it(tmp_path) as engine:
        assert [row.run_id for row in engine.runs()] == ["doubt", "old"]
        assert engine.resolve("doubt.1", "happened", force=True).status == "succeeded"
        assert engine.outcome("doubt").status == "queued"
        found = engine.verify()
    assert (found.older_than_the_chain, found.sealed, found.seals) == (4, 1, 1)
    assert {item.kind for item in found.problems if not item.is_warning} <= {"key", "payload"}  # made up by this test


def test_a_migration_is_told_before_it_is_done_and_done_after_a_copy(tmp_path: Path) -> None:
    path = ledger_of_version(tmp_path, 1)
    before = path.read_bytes()
    steps = upkeep.pending(str(path))
    assert ([step.number for step in steps], path.read_bytes()) == (VERSIONS[1:], before)
    done = upkeep.bring_up(str(path), SystemClock())
    assert [step.number for step in done.applied] == VERSIONS[1:]
    assert done.copy is not None
    assert stat.S_IMODE(done.copy.stat().st_mode) == 0o600
    assert {row["number"] for row in rows_with_columns(done.copy)["schema_migrations"]} == {1}
    assert upkeep.bring_up(str(path), SystemClock()) == upkeep.Migrated((), None)


def test_a_ledger_from_the_future_is_refused_by_an_explicit_migration_too(tmp_path: Path) -> None:
    path = ledger_of_version(tmp_path, VERSIONS[-1])
    connection = SqliteConnection(str(path))
    future = Migration(99, "future", "CREATE TABLE later (x INTEGER)")
    migrate(connection, NOW, migrations=[*shipped_migrations(), future])
    connection.close()
    before = everything(path)
    for act in (upkeep.pending, lambda found: upkeep.bring_up(found, SystemClock())):
        with pytest.raises(SchemaError, match="schema 99"):
            act(str(path))
    assert everything(path) == before


def test_a_database_that_is_no_ledger_is_not_brought_up(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    with apsw.Connection(str(path)) as other:
        other.execute("CREATE TABLE mine (x)")
    other.close()
    with pytest.raises(SchemaError, match="no ledger of perdure"):
        upkeep.bring_up(str(path), SystemClock())
    assert not list(tmp_path.glob("*.before-*"))


# --- copies ----------------------------------------------------------------------------------------------------------


def test_a_copy_made_in_the_middle_of_a_run_is_whole_and_goes_on_from_there(tmp_path: Path) -> None:
    copies: list[upkeep.Copy] = []
    sent: list[str] = []

    @tool(name="send", side_effect_class="external")
    def send(to: str) -> str:
        sent.append(to)
        return to

    def main(run: Any) -> str:
        send("ann")
        if not copies:
            copies.append(other.backup(tmp_path / "copy.db"))
        send("bob")
        return "done"

    with open_engine(tmp_path) as other:
        assert live(tmp_path, main).status == "succeeded"
    (copy,) = copies
    assert (copy.runs, copy.calls, copy.bytes) == (1, 1, (tmp_path / "copy.db").stat().st_size)
    assert stat.S_IMODE(copy.path.stat().st_mode) == 0o600
    assert sorted(item.name for item in tmp_path.glob("copy.db*")) == ["copy.db"]
    rows = rows_with_columns(copy.path)
    (call,) = rows["tool_calls"]
    assert call["tool_call_id"] == "r1.1"
    assert call["status"] in ("running", "succeeded")  # its receipt may share a commit with the next request
    restored = tmp_path / "restored"
    (restored / "state").mkdir(parents=True)
    copy.path.rename(restored / LEDGER)
    with open_it(restored) as engine:
        assert engine.verify().ok
        assert engine.outcome("r1").status == "running"  # as it was then


def test_a_copy_overwrites_nothing(tmp_path: Path) -> None:
    a_lived_in_ledger(tmp_path)
    (tmp_path / "there").write_text("mine")
    with open_it(tmp_path) as engine:
        with pytest.raises(UsageError, match="overwrites nothing"):
            engine.backup(tmp_path / "there")
        with pytest.raises(StoreError, match="cannot be made"):
            engine.backup(tmp_path / "nowhere" / "copy.db")
    assert (tmp_path / "there").read_text() == "mine"


def test_a_copy_that_is_not_whole_is_not_left_lying_about(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    a_lived_in_ledger(tmp_path)
    copy = SqliteConnection.backup_to

    def cut_short(connection: SqliteConnection, target: Path) -> None:
        copy(connection, target)
        content = target.read_bytes()
        target.write_bytes(content[: len(content) // 2])

    monkeypatch.setattr(SqliteConnection, "backup_to", cut_short)
    with open_it(tmp_path) as engine, pytest.raises(StoreError):
        engine.backup(tmp_path / "copy.db")
    assert not list(tmp_path.glob("copy.db*"))


# --- the quick check -------------------------------------------------------------------------------------------------


def test_a_whole_ledger_is_said_to_be_whole(tmp_path: Path) -> None:
    a_lived_in_ledger(tmp_path)
    assert upkeep.check(str(tmp_path / LEDGER)) > 10


def test_a_byte_that_changed_is_found_by_the_checksum_of_its_page(tmp_path: Path) -> None:
    a_lived_in_ledger(tmp_path)
    path = tmp_path / LEDGER
    content = bytearray(path.read_bytes())
    content[content.rindex(b"sent to bob")] ^= 1
    path.write_bytes(content)
    with pytest.raises(LedgerDamaged):
        upkeep.check(str(path))


def test_a_row_that_leads_nowhere_is_found(tmp_path: Path) -> None:
    from tests.integration.trust_support import meddle

    a_lived_in_ledger(tmp_path)
    meddle(tmp_path, "DELETE FROM runs WHERE run_id = 'r2'")
    with perdure.open(state_dir=tmp_path / "state"):
        pass  # another program has copied the log: its pages get their checksums when a command opens the ledger
    with pytest.raises(LedgerDamaged, match="leads to a row of runs that is not there"):
        upkeep.check(str(tmp_path / LEDGER))


def test_looking_at_a_ledger_changes_no_byte_of_it(tmp_path: Path) -> None:
    path = ledger_of_version(tmp_path, 1)
    before = path.read_bytes()
    upkeep.check(str(path))
    upkeep.pending(str(path))
    assert path.read_bytes() == before
