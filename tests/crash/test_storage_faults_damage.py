"""Bytes that changed while no process ran: each flip and each cut is harmless, or is found and refused with an error.

Never a wrong answer, a second effect or a lost one. A page of the database has a checksum of its own; the log has a chain of
them, and an index beside it that knows how long it must be; a payload is named by its hash. The bytes are flipped in copies
of two ledgers: one whose process was killed in the middle of a letter, and one that was closed afterwards.
"""

import os
import random
import shutil
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import apsw
import pytest

from perdure.model.errors import LedgerDamaged, StoreError
from perdure.ports.clock import SystemClock
from perdure.store.open import open_store
from perdure.store.sqlite import checksums
from perdure.store.sqlite.connection import SqliteConnection
from tests.crash.child import Order
from tests.crash.jobs.letters import LIST
from tests.crash.place import STORE_UNUSABLE, Place
from tests.crash.support import Ended, Launcher

DATABASE, LOG, INDEX = "runtime_state.db", "runtime_state.db-wal", "runtime_state.db-shm"
FRAME_BYTES = 24 + 4096
RANDOM_FLIPS, LIVES = 150, 30
Change = Callable[[bytearray], None]


@dataclass
class Ledger:
    """One state directory as it was left, and what stands in it."""

    state: Path
    rows: dict[str, list[Any]]

    def size(self, file: str) -> int:
        """How long one of its files is."""
        return (self.state / file).stat().st_size

    def copy(self, folder: Path) -> Path:
        """A copy of it for one test."""
        copied = folder / "copy"
        shutil.rmtree(copied, ignore_errors=True)
        shutil.copytree(self.state, copied)
        return copied


@pytest.fixture(scope="module")
def launcher() -> Iterator[Launcher]:
    """Forks lives quickly."""
    started = Launcher()
    yield started
    started.stop()


def live(launcher: Launcher, state: Path, **environ: str) -> Ended:
    """One life; where its letters are written is no input, so that every copy is of the same run."""
    (state / "letters").mkdir(exist_ok=True)
    return launcher.live(Order(str(state), "letters:three"), {"LETTERS_IN": str(state / "letters"), **environ})


@pytest.fixture(scope="module", params=["killed", "closed"])
def left(request: pytest.FixtureRequest, launcher: Launcher, tmp_path_factory: pytest.TempPathFactory) -> Ledger:
    """A ledger with two receipts and a letter of which nobody knows, in its log or in its database."""
    state = tmp_path_factory.mktemp("left") / "state"
    state.mkdir()
    assert live(launcher, state, DIES_IN="third").exit_code == 137
    if request.param == "closed":
        open_store(str(state / DATABASE), SystemClock()).connection.close()
        assert (state / LOG).stat().st_size == 0
    read = state.parent / "read"
    shutil.copytree(state, read)
    return Ledger(state, rows_of(read))


def rows_of(state: Path) -> dict[str, list[Any]]:
    """Every row of every table, as the next process would read it; each page is read on the way."""
    store = open_store(str(state / DATABASE), SystemClock())
    try:
        connection = store.connection
        found = [row[0] for row in connection.rows("PRAGMA integrity_check", {})]
        if any("to get page" in line or "error code=8202" in line for line in found):
            raise LedgerDamaged("a page that no row stands on")
        assert found == ["ok"], "damaged, and nobody noticed"
        names = [row[0] for row in connection.rows("SELECT name FROM sqlite_schema WHERE type = 'table'", {})]
        return {name: list(connection.rows(f"SELECT * FROM {name}", {})) for name in names}
    finally:
        store.connection.close()


def changed(state: Path, file: str, change: Change) -> None:
    content = bytearray((state / file).read_bytes())
    change(content)
    (state / file).write_bytes(content)


def flip(at: int, bit: int) -> Change:
    def change(content: bytearray) -> None:
        content[at] ^= 1 << bit

    return change


def inside_calls(state: Path) -> int:
    """A place in the page that each life reads first of the calls; what a life never reads, it cannot refuse."""
    with closing(sqlite3.connect(f"file:{state / DATABASE}?immutable=1", uri=True)) as db:
        (page,) = db.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'tool_calls'").fetchone()
    return int(page) * 4096 - 2048


def outcome(state: Path, rows: dict[str, list[Any]]) -> str:
    """What the next process makes of a changed ledger: the same rows, or an error that says what is wrong."""
    try:
        found = rows_of(state)
    except LedgerDamaged:
        return "found"
    except StoreError as refused:
        return f"refused: {refused}"
    assert found == rows, "other rows than were written"
    return "harmless"


# --- flips -----------------------------------------------------------------------------------------------------------


def test_every_bit_of_the_databases_header_is_harmless_or_found(left: Ledger, quick_folder: Path) -> None:
    ends: Counter[str] = Counter()
    for at in range(100):
        state = left.copy(quick_folder)
        changed(state, DATABASE, flip(at, at % 8))
        ends[outcome(state, left.rows)] += 1
    if left.size(LOG) == 0:
        assert ends["found"] > 60, ends


def test_the_number_of_reserved_bytes_cannot_be_taken_away_in_silence(left: Ledger, quick_folder: Path) -> None:
    for bit in range(8):
        state = left.copy(quick_folder)
        changed(state, DATABASE, flip(20, bit))
        assert outcome(state, left.rows) != "harmless" or left.size(LOG) > 0, bit


def test_a_flipped_bit_anywhere_is_harmless_or_found(left: Ledger, quick_folder: Path) -> None:
    chance = random.Random(20261122)
    ends: Counter[str] = Counter()
    files = [file for file in (DATABASE, LOG, INDEX) if left.size(file)]
    used = {file: len((left.state / file).read_bytes().rstrip(b"\0")) for file in files}
    for _ in range(RANDOM_FLIPS):
        state = left.copy(quick_folder)
        file = chance.choice(files)
        at = chance.randrange(used[file])
        changed(state, file, flip(at, chance.randrange(8)))
        ends[f"{file} {outcome(state, left.rows)}"] += 1
    assert not any("refused" in end for end in ends), ends
    log_found = ends[f"{LOG} found"] / max(1, sum(count for end, count in ends.items() if end.startswith(f"{LOG} ")))
    database_found = ends[f"{DATABASE} found"]
    assert database_found > 50 if left.size(LOG) == 0 else log_found > 0.9, ends


def test_a_life_on_flipped_bits_ends_as_it_would_have_or_sends_nothing(
    left: Ledger, launcher: Launcher, quick_folder: Path
) -> None:
    """Every letter is written once; a life that finds the damage leaves with exit code 4 and says what is wrong."""
    chance = random.Random(7)
    file = LOG if left.size(LOG) else DATABASE
    used = len((left.state / file).read_bytes().rstrip(b"\0"))
    ends: Counter[int] = Counter()
    for _ in range(LIVES):
        state = left.copy(quick_folder)
        at = chance.randrange(used)
        changed(state, file, flip(at, chance.randrange(8)))
        ended = live(launcher, state)
        written = sorted(path.name.split(".")[0] for path in (state / "letters").iterdir())
        assert written == sorted(LIST), (at, written)
        assert ended.exit_code in (0, STORE_UNUSABLE), (at, ended)
        if ended.exit_code == 0:
            assert ended.says["result"] == LIST, (at, ended)
        else:
            assert ended.says["error"] == "LedgerDamaged", (at, ended)
        ends[ended.exit_code] += 1
    assert ends[STORE_UNUSABLE] > 0
    assert ends[0] > 0 or file == LOG


# --- cuts ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("file", [DATABASE, LOG])
def test_a_file_that_was_cut_short_is_found(left: Ledger, quick_folder: Path, file: str) -> None:
    used = len((left.state / file).read_bytes().rstrip(b"\0"))
    if used == 0:
        assert file == LOG and outcome(left.copy(quick_folder), left.rows) == "harmless"
        return
    step = FRAME_BYTES if file == LOG else 4096
    sizes = [*range(32 if file == LOG else step, used, step), used // 2 + 1, 1, 0]
    for size in sizes:
        state = left.copy(quick_folder)
        os.truncate(state / file, size)
        end = outcome(state, left.rows)
        assert end != "harmless" or (file == DATABASE and left.size(LOG) > 0), size


def test_a_log_that_was_removed_is_found_as_long_as_its_index_is_there(left: Ledger, quick_folder: Path) -> None:
    state = left.copy(quick_folder)
    (state / LOG).unlink()
    assert outcome(state, left.rows) == ("found" if left.size(LOG) else "harmless")


def test_what_is_refused_is_left_as_it_is_and_goes_on_once_it_was_put_back(
    left: Ledger, launcher: Launcher, quick_folder: Path
) -> None:
    state = left.copy(quick_folder)
    file = LOG if left.size(LOG) else DATABASE
    whole = (state / file).read_bytes()
    changed(state, file, flip(len(whole.rstrip(b"\0")) // 2 if file == LOG else inside_calls(state), 0))
    damaged = (state / file).read_bytes()
    for _ in range(2):
        ended = live(launcher, state)
        assert (ended.exit_code, ended.says["error"]) == (STORE_UNUSABLE, "LedgerDamaged"), ended
    if file == LOG:
        assert (state / file).read_bytes() == damaged
        (state / file).write_bytes(whole)
        ended = live(launcher, state)
        assert (ended.exit_code, ended.says["result"]) == (0, LIST), ended


# --- other programs --------------------------------------------------------------------------------------------------

READER = """
import sqlite3, sys
with sqlite3.connect(sys.argv[1]) as db:
    print(db.execute("SELECT count(*) FROM tool_calls").fetchone()[0])
db.close()
"""


def test_a_reader_that_closes_the_file_after_a_crash_does_no_harm(
    left: Ledger, launcher: Launcher, quick_folder: Path
) -> None:
    """Another SQLite copies the log into the database without checksums; the next connection of ours adds them."""
    state = left.copy(quick_folder)
    subprocess.run([sys.executable, "-c", READER, str(state / DATABASE)], check=True, capture_output=True)
    assert not (state / LOG).exists()
    assert outcome(state, left.rows) == "harmless"
    changed(state, DATABASE, flip(4096 * 5 + 4000, 3))
    assert outcome(state, left.rows) == "found"
    changed(state, DATABASE, flip(4096 * 5 + 4000, 3))
    assert live(launcher, state).says["result"] == LIST


def test_a_ledger_is_not_written_by_a_build_that_cannot_keep_its_checksums(
    left: Ledger, quick_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = left.copy(quick_folder)
    monkeypatch.setattr(checksums, "_BELOW", [])
    monkeypatch.setattr(checksums, "library", lambda: None)
    with pytest.raises(StoreError, match="this build of apsw cannot keep") as refused:
        open_store(str(state / DATABASE), SystemClock())
    assert "pip install" in refused.value.next_command
    new = open_store(str(quick_folder / "new.db"), SystemClock())
    assert new.meta("page_checksums") == "off"
    new.connection.close()


def test_the_rest_of_the_process_keeps_the_sqlite_it_had(quick_folder: Path) -> None:
    before = apsw.vfs_names()[0]
    SqliteConnection(str(quick_folder / "ledger.db")).close()
    assert apsw.vfs_names()[0] == before != checksums.CHECKSUM_VFS
    with closing(apsw.Connection(str(quick_folder / "other.db"))) as other:
        assert other.reserve_bytes() == 0


# --- damaged payloads ------------------------------------------------------------------------------------------------

LONG = "a long letter " * 3000
LETTERS = """
import os, sys
from perdure import tool

@tool(side_effect_class="external", scope=["what"], key_ttl="24h")
def letter(outside: str, what: str, text: str) -> dict:
    with open(outside, "a") as letterbox:
        letterbox.write(what + "\\n")
    if os.environ.get("DIES_IN") == what:
        os._exit(137)
    return {"copy": text[::-1]}

def main(run):
    done = [letter(run.inputs["outside"], what, "a long letter " * 3000)["copy"][:5] for what in ("first", "second")]
    return done
"""
DAMAGE = [
    "UPDATE payloads SET bytes = substr(bytes, 1, 999)",
    "UPDATE payloads SET bytes = x'00'",
    "DELETE FROM payloads",
]


@pytest.mark.parametrize(("dies_in", "damage"), [*(("first", damage) for damage in DAMAGE), ("second", DAMAGE[0])])
def test_a_damaged_payload_stops_the_run_and_is_never_made_up_by_doing_it_again(
    place: Place, dies_in: str, damage: str
) -> None:
    """The first mail's request cannot be sent again with its key, or its receipt cannot be met; the key would allow both."""
    job = place.state / "letters.py"
    job.write_text(LETTERS)
    run = [sys.executable, "-m", "perdure", "run", f"{job}:main", "--run-id", "job", "-i", f"outside={place.letterbox}",
           "--state-dir", str(place.state)]  # fmt: skip
    assert subprocess.run(run, env={**os.environ, "DIES_IN": dies_in}, check=False).returncode == 137
    before = place.posted()
    with closing(sqlite3.connect(place.ledger)) as db:
        assert db.execute(damage).rowcount > 0
        db.commit()
    again = subprocess.run(run, capture_output=True, text=True, check=False)
    assert again.returncode == STORE_UNUSABLE, again
    assert "missing or damaged" in again.stderr
    assert place.posted() == before
