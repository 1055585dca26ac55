"""What rows depend on is on the disk before them: the name of the key of secrets, and the folders above a ledger."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from perdure.store.modes import make_private
from perdure.store.sqlite.connection import SqliteConnection
from tests.integration.canaries import canaries
from tests.integration.engine_support import open_engine

TOKEN = canaries()[0].text


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was synced by its path, and each commit, in order."""
    found: list[str] = []
    fsync, commit = os.fsync, SqliteConnection.commit

    def synced(handle: int) -> None:
        fsync(handle)
        found.append(os.readlink(f"/proc/self/fd/{handle}"))

    def committed(self: SqliteConnection) -> None:
        commit(self)
        found.append("commit")

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(SqliteConnection, "commit", committed)
    return found


def test_a_process_that_finds_a_key_syncs_its_name_before_a_row_depends_on_it(tmp_path: Path, told: list[str]) -> None:
    """Who made it was killed between the link and the sync of the folder; two of its kind may even run at once."""
    with open_engine(tmp_path) as engine:
        assert engine.run(lambda _: "no secret", run_id="r0").status == "succeeded"
        make_private(tmp_path / "state" / "redaction.key", bytes(range(32)))
        told.clear()
        assert engine.run(lambda run: run.memo("token", lambda: TOKEN), run_id="r1").result == TOKEN
    told_before = told[: _first_row_with_a_mark(told)]
    assert str(tmp_path / "state") in told_before


def _first_row_with_a_mark(told: list[str]) -> int:
    """Return after which commit a mark can stand in the rows: the memo is the last but one thing a life commits."""
    commits = [at for at, what in enumerate(told) if what == "commit"]
    return commits[-2]


def test_a_ledger_that_learns_of_a_key_when_it_is_opened_has_it_on_the_disk(tmp_path: Path, told: list[str]) -> None:
    """The first row that such a process writes tells the ledger which key it is."""
    with open_engine(tmp_path):
        make_private(tmp_path / "state" / "redaction.key", bytes(range(32)))
    told.clear()
    with open_engine(tmp_path):
        assert str(tmp_path / "state") in told


def test_the_folders_that_are_made_for_a_ledger_are_on_the_disk(tmp_path: Path, told: list[str]) -> None:
    deep = tmp_path / "a" / "b"
    with open_engine(deep):
        synced = set(told)
    assert {str(tmp_path), str(tmp_path / "a"), str(deep), str(deep / "state")} <= synced


def test_the_first_key_of_a_ledger_is_on_the_disk_with_its_name(tmp_path: Path, told: list[str]) -> None:
    """Its content first, then its name, then the row."""
    with open_engine(tmp_path) as engine:
        told.clear()
        engine.run(lambda run: run.memo("token", lambda: TOKEN), run_id="r1")
    content = next(at for at, what in enumerate(told) if Path(what).name.startswith("redaction.key"))
    name = next(at for at, what in enumerate(told) if what == str(tmp_path / "state") and at > content)
    assert "commit" in told[name:]
