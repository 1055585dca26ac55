"""Who may read the state directory: its owner, whatever the umask says; and no link leads a run elsewhere."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

import perdure
from perdure import StoreError
from perdure.runtime.workspace import append, write_whole
from perdure.store import modes
from tests.integration.canaries import canaries
from tests.integration.engine_support import Outside as World
from tests.integration.engine_support import live, mailer, open_engine


@pytest.mark.parametrize("umask", [0o000, 0o027, 0o077])
def test_all_that_is_made_is_for_its_owner_only(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        send = mailer(World())
        assert live(tmp_path, lambda _run: send("a", canaries()[0].value)).status == "succeeded"
    finally:
        os.umask(before)
    state = tmp_path / "state"
    made = {path: stat.S_IMODE(path.stat().st_mode) for path in (state, *state.rglob("*"))}
    assert {path.name for path in made} >= {"runtime_state.db", "runtime_state.db-wal", "redaction.key", "workspaces"}
    assert [str(path) for path, mode in made.items() if mode & 0o077] == []
    assert modes.exposed(state, state / "runtime_state.db") == []


def test_a_folder_that_others_may_read_is_told_of(tmp_path: Path) -> None:
    with open_engine(tmp_path):
        (tmp_path / "state").chmod(0o755)
    found = modes.exposed(tmp_path / "state", tmp_path / "state" / "runtime_state.db")
    assert [(item.path.name, item.command.split()[1]) for item in found] == [("state", "700")]


def test_a_link_in_the_place_of_a_workspace_is_refused(tmp_path: Path) -> None:
    with open_engine(tmp_path):
        (tmp_path / "elsewhere").mkdir()
    (tmp_path / "state" / "workspaces").mkdir(exist_ok=True)
    (tmp_path / "state" / "workspaces" / "r1").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(perdure.StoreError, match="is a link"):
        live(tmp_path, lambda _run: None)
    assert list((tmp_path / "elsewhere").iterdir()) == []


@pytest.mark.parametrize("write", [write_whole, append])
def test_no_file_of_a_run_is_written_through_a_linked_folder(tmp_path: Path, write: Callable[..., None]) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "r1").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="is a link"):
        write(tmp_path / "r1" / "run.log", "a line\n")
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_run_that_could_not_be_entered_here_can_be_resumed_by_this_very_process(tmp_path: Path) -> None:
    place = tmp_path / "state" / "workspaces" / "r1"
    place.parent.mkdir(parents=True)
    place.symlink_to(tmp_path)
    with open_engine(tmp_path) as engine:
        with pytest.raises(StoreError, match="is a link"):
            engine.run(lambda _run: "done", run_id="r1")
        assert engine.details("r1")["lives"][0]["how"] == "interrupted"
        place.unlink()
        assert engine.run(lambda _run: "done", run_id="r1").result == "done"
