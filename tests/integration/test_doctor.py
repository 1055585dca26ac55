"""``doctor`` finds each thing that is wrong when it really is, and changes nothing whatever it is shown."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure.core.doctor import FAMILIES, VARIABLES, Finding, Level
from perdure.model.run import Owner
from perdure.runtime.crashpoints import KNOBS, PREFIX
from perdure.runtime.doctor import Examined, Machine, examine, measured
from perdure.store.migrate import Migration, migrate, shipped_migrations
from perdure.store.runs import owner_text
from perdure.store.sqlite.connection import SqliteConnection
from perdure.testing import FakeClock
from tests.docs.markdown import ROOT
from tests.integration.engine_support import live, open_engine
from tests.integration.store_support import NOW
from tests.integration.test_upkeep import ledger_of_version
from tests.integration.trust_support import LEDGER, a_lived_in_ledger, meddle

HONEST = Machine(filesystem=lambda _: "ext4", fsync_seconds=lambda _: [0.001], free_bytes=lambda _: 2**40)


def look(folder: Path, *, machine: Machine = HONEST, clock: Any = None, **environ: str) -> Examined:
    """Examine the ledger of a test."""
    at = clock or FakeClock("2030-01-01T00:00:00Z")
    return examine(folder / LEDGER, folder / "state", clock=at, environ=environ, machine=machine)


def of(found: Examined, about: str) -> list[Finding]:
    """Return what was found about one thing."""
    return [item for item in found.findings if item.about == about]


def only(found: Examined, about: str, level: Level, says: str) -> None:
    """Check that exactly this is wrong, that it says what follows, and what to do."""
    wrong = [item for item in found.findings if item.level is not Level.OK]
    assert [item.about for item in wrong] == [about], wrong
    assert wrong[0].level is level
    assert re.search(says, wrong[0].found), wrong[0]
    assert wrong[0].means
    assert wrong[0].fix


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a ledger in which one run has succeeded."""
    assert live(tmp_path, lambda run: "done").status == "succeeded"
    return tmp_path


def test_nothing_is_wrong_with_a_ledger_that_only_lived(folder: Path) -> None:
    found = look(folder)
    assert [item for item in found.findings if item.level is not Level.OK] == []
    assert found.exit_code == 0
    wanted = {"python", "extras", "sqlite", "checksums", "filesystem", "space", "fsync", "synchronous", "variables"}
    wanted |= {"folder_mode", "file_mode", "leftovers", "wal", "pages", "schema", "clock", "leases", "overdue"}
    assert {item.about for item in found.findings} == wanted


def test_it_works_before_there_is_a_ledger_and_makes_none(tmp_path: Path) -> None:
    found = look(tmp_path)
    assert (found.exit_code, of(found, "ledger")[0].level) == (0, Level.OK)
    assert list(tmp_path.iterdir()) == []


def test_the_library_looks_at_this_machine_too(folder: Path) -> None:
    found = perdure.doctor(state_dir=folder / "state")
    assert found.exit_code in (0, 1)
    assert {item.about for item in found.findings} >= {"sqlite", "fsync", "clock", "leases"}


@pytest.mark.parametrize(
    ("changed", "about", "level", "says"),
    [
        ({"sqlite": (3, 51, 2)}, "sqlite", Level.BAD, r"3\.51\.2"),
        ({"has_checksums": False}, "checksums", Level.WARN, "no checksum VFS"),
        ({"python": (3, 10, 4)}, "python", Level.BAD, r"3\.10\.4"),
        ({"filesystem": lambda _: "nfs4"}, "filesystem", Level.BAD, "nfs4"),
        ({"filesystem": lambda _: "tmpfs"}, "filesystem", Level.WARN, "tmpfs"),
        ({"filesystem": lambda _: "overlay"}, "filesystem", Level.WARN, "overlay"),
        ({"fsync_seconds": lambda _: [0.000_001] * 7}, "fsync", Level.WARN, "0.00 ms"),
        ({"fsync_seconds": lambda _: [0.2] * 7}, "fsync", Level.WARN, "200"),
        ({"free_bytes": lambda _: 10_000_000}, "space", Level.BAD, "9 MiB"),
        ({"free_bytes": lambda _: 500_000_000}, "space", Level.WARN, "476 MiB"),
    ],
)
def test_a_machine_that_is_not_right_is_said_to_be(
    folder: Path, changed: dict[str, Any], about: str, level: Level, says: str
) -> None:
    found = look(folder, machine=replace(HONEST, **changed))
    only(found, about, level, says)
    assert found.exit_code == int(level is Level.BAD)


def test_syncs_are_measured_in_a_file_that_never_has_a_name(tmp_path: Path) -> None:
    seconds = measured(tmp_path)
    assert list(tmp_path.iterdir()) == []
    assert all(0 < each < 10 for each in seconds)
    assert measured(tmp_path / "nowhere") == []


def test_a_full_disk_is_found(tmp_path: Path) -> None:
    tmp_path.joinpath("small").mkdir()
    small = tmp_path / "small"
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(small)], check=False, capture_output=True
    )
    if mounted.returncode != 0:
        pytest.skip("nobody here may mount a filesystem")
    try:
        (small / "filling").write_bytes(bytes(2_000_000))
        found = look(small, machine=Machine())
        assert of(found, "space")[0].level is Level.BAD
        assert (of(found, "filesystem")[0].level, of(found, "filesystem")[0].found[-5:]) == (Level.WARN, "tmpfs")
    finally:
        subprocess.run(["umount", str(small)], check=True)


# --- the process and its files ---------------------------------------------------------------------------------------


def test_a_misspelled_variable_and_a_test_knob_are_told(folder: Path) -> None:
    only(look(folder, PERDURE_HOEM="/x"), "variables", Level.WARN, "PERDURE_HOEM")
    assert "did you mean PERDURE_HOME?" in of(look(folder, PERDURE_HOEM="/x"), "variables")[0].means
    only(look(folder, PERDURE_TEST_CRASH_AFTER_TOOL="send"), "knobs", Level.WARN, "AFTER_TOOL=send")
    assert look(folder, PERDURE_HOME="/x", PERDURE_SMTP_HOST="127.0.0.1").exit_code == 0


def test_every_variable_that_the_program_reads_is_known() -> None:
    known = {*VARIABLES, *(PREFIX + name for name in KNOBS)}
    for path in (ROOT / "src").rglob("*.py"):
        for name in re.findall(r'"(PERDURE_[A-Z0-9_]*[A-Z0-9])"', path.read_text("utf-8")):
            assert name in known or name.startswith(FAMILIES), f"{path.name}: {name}"


def test_modes_that_let_others_in_are_found(folder: Path) -> None:
    (folder / "state").chmod(0o755)
    (folder / LEDGER).chmod(0o640)
    for suffix in ("-wal", "-shm"):
        Path(f"{folder / LEDGER}{suffix}").chmod(0o600)
    found = look(folder)
    assert [(item.about, item.fix) for item in found.findings if item.level is Level.WARN] == [
        ("folder_mode", f"chmod 700 {folder}/state"),
        ("file_mode", f"chmod 600 {folder / LEDGER}"),
    ]


def test_a_file_that_has_become_executable_is_found_and_the_mark_on_the_log_is_told(folder: Path) -> None:
    (told,) = of(look(folder), "file_mode")
    assert (told.level, "-wal has an x bit of ours" in told.found) == (Level.OK, True)
    (folder / LEDGER).chmod(0o700)
    only(look(folder), "file_mode", Level.WARN, r"runtime_state\.db: is executable \(mode 0700\)")
    (folder / LEDGER).chmod(0o600)
    Path(f"{folder / LEDGER}-wal").chmod(0o600)
    (told,) = of(look(folder), "file_mode")
    assert (told.level, told.found) == (Level.OK, "no file of it is open to others")


def test_a_key_that_others_may_read_is_found_where_it_lies(folder: Path) -> None:
    (folder / "keys").mkdir(mode=0o755)
    (folder / "keys" / "k").write_bytes(bytes(32))
    (folder / "keys" / "k").chmod(0o644)
    only(look(folder, PERDURE_KEY_FILE=str(folder / "keys" / "k")), "file_mode", Level.WARN, "keys/k: others may look")


def test_what_lies_about_is_found(folder: Path) -> None:
    (folder / "state" / "runtime_state.db.before-0003").write_text("x")
    only(look(folder), "leftovers", Level.WARN, "runtime_state.db.before-0003")
    (folder / "state" / "runtime_state.db.before-0003").rename(folder / "state" / "session.json.corrupt")
    only(look(folder), "leftovers", Level.WARN, "session.json.corrupt")


# --- the ledger ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("clock", "level", "says"),
    [
        ("2026-01-01T00:00:00Z", Level.WARN, "the ledger holds 20"),
        ("1999-12-31T00:00:00Z", Level.BAD, "1999"),
        ("2100-06-01T00:00:00Z", Level.BAD, "2100"),
    ],
)
def test_a_clock_that_cannot_be_right_is_found(folder: Path, clock: str, level: Level, says: str) -> None:
    only(look(folder, clock=FakeClock(clock)), "clock", level, says)


def in_a_child(folder: Path, number: int) -> int:
    """Let another process begin run ``r1`` and get a signal in the middle of it; return its id."""
    child = os.fork()
    if child == 0:
        try:
            with open_engine(folder) as engine:
                engine.run(lambda run: os.kill(os.getpid(), number), run_id="r1")
        finally:
            os._exit(1)
    os.waitpid(child, os.WUNTRACED)
    return child


def test_a_run_whose_process_was_killed_is_found(tmp_path: Path) -> None:
    pid = in_a_child(tmp_path, signal.SIGKILL)
    found = look(tmp_path)
    only(found, "leases", Level.WARN, f"its process {pid} is gone")
    assert of(found, "leases")[0].fix == "perdure resume r1"


def test_a_run_whose_process_is_stopped_is_found(tmp_path: Path) -> None:
    pid = in_a_child(tmp_path, signal.SIGSTOP)
    try:
        only(look(tmp_path), "leases", Level.WARN, f"process {pid}, which is stopped")
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def test_a_run_on_a_host_that_has_long_said_nothing_is_found(folder: Path) -> None:
    owner = owner_text(Owner("elsewhere/pid:[1]", "b", 7, 7)).replace("'", "''")
    lease = f"lease_owner = '{owner}', lease_expires_at = '{NOW}'"
    meddle(folder, f"UPDATE runs SET status = 'running', {lease}", "UPDATE run_attempts SET ended_at = NULL")
    with open_engine(folder):
        pass
    only(look(folder), "leases", Level.WARN, "elsewhere")


def test_a_running_run_that_nobody_owns_is_bad(folder: Path) -> None:
    meddle(folder, "UPDATE runs SET status = 'running', lease_owner = NULL")
    with open_engine(folder):
        pass
    only(look(folder), "leases", Level.BAD, "nobody owns it")


def test_a_run_that_waits_past_its_deadline_is_found(tmp_path: Path) -> None:
    a_lived_in_ledger(tmp_path)
    meddle(tmp_path, f"UPDATE runs SET deadline_at = '{NOW}' WHERE run_id = 'r1'")
    with open_engine(tmp_path):
        pass
    only(look(tmp_path), "overdue", Level.WARN, "run r1 waits, and its deadline")


def test_an_older_ledger_is_only_said_to_be_older(tmp_path: Path) -> None:
    path = ledger_of_version(tmp_path, 1)
    before = path.read_bytes()
    found = look(tmp_path)
    assert of(found, "schema")[0].fix == "perdure db migrate"
    assert (found.exit_code, path.read_bytes()) == (0, before)


def test_a_ledger_from_the_future_is_bad_and_left_alone(tmp_path: Path) -> None:
    path = ledger_of_version(tmp_path, shipped_migrations()[-1].number)
    connection = SqliteConnection(str(path))
    migrate(connection, NOW, migrations=[*shipped_migrations(), Migration(99, "future", "CREATE TABLE later (x)")])
    connection.close()
    before = path.read_bytes()
    found = look(tmp_path)
    assert (of(found, "schema")[0].level, found.exit_code) == (Level.BAD, 1)
    assert "schema 99" in of(found, "schema")[0].found
    assert path.read_bytes() == before


def test_a_damaged_ledger_is_bad_and_is_not_repaired(folder: Path) -> None:
    path = folder / LEDGER
    content = bytearray(path.read_bytes())
    content[content.rindex(b"succeeded")] ^= 1
    path.write_bytes(content)
    found = look(folder)
    assert found.exit_code == 4
    assert of(found, "ledger")[0].means.startswith("PERDURE-405")
    assert path.read_bytes() == bytes(content)


@pytest.mark.parametrize("content", [b"a letter, not a ledger\n" * 300, b""])
def test_what_is_no_ledger_is_said_so(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "state").mkdir(mode=0o700)
    (tmp_path / LEDGER).write_bytes(content)
    found = look(tmp_path)
    assert found.exit_code in (1, 4)
    assert (tmp_path / LEDGER).read_bytes() == content


def test_a_ledger_that_cannot_be_opened_is_exit_4(tmp_path: Path) -> None:
    (tmp_path / LEDGER).mkdir(parents=True)
    assert look(tmp_path).exit_code == 4


def test_looking_changes_no_file_of_a_ledger_that_is_in_use(folder: Path) -> None:
    def files() -> dict[str, bytes]:
        return {
            item.name: item.read_bytes() for item in (folder / "state").iterdir() if item.name.endswith((".db", "-wal"))
        }

    before = files()
    with_others = look(folder)
    assert files() == before
    assert with_others.exit_code == 0
