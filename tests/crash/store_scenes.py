"""What a ledger does in hard moments, measured in a process of its own: `python -m tests.crash.store_scenes SCENE FOLDER [PLANT]`.

Each scene prints one JSON value. With a rule broken (`planted_store.py`) it must be another one.
"""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from perdure.model.errors import StoreError
from perdure.ports.clock import SystemClock
from perdure.runtime.ledger import Ledger, Member
from perdure.store.migrate import Migration, migrate, shipped_migrations
from perdure.store.open import open_store
from perdure.store.sql_store import SqlStore
from perdure.store.sqlite.connection import SqliteConnection

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_SECONDS = 60.0
NOW = "2026-11-22T00:00:00.000000Z"


def note(key: str, value: str = "done") -> Callable[[SqlStore], str]:
    def work(store: SqlStore) -> str:
        store.set_meta(key, value)
        return key

    return work


def half(store: SqlStore) -> None:
    """Write something, and then fail for a reason of one's own."""
    store.set_meta("half", "written")
    raise ValueError("no")


def as_one_group(ledger: Ledger, works: list[Any]) -> list[str]:
    """Hand in work while the ledger is busy; what each was told."""
    busy, go = threading.Event(), threading.Event()
    answered: list[Member[Any]] = []
    all_answered = threading.Event()

    def occupy(_store: SqlStore) -> None:
        busy.set()
        assert go.wait(PATIENCE_SECONDS)

    def notify(member: Member[Any]) -> None:
        answered.append(member)
        if len(answered) == len(works):
            all_answered.set()

    ledger.submit(occupy, lambda _: None)
    assert busy.wait(PATIENCE_SECONDS)
    for work in works:
        ledger.submit(work, notify)
    go.set()
    assert all_answered.wait(PATIENCE_SECONDS)
    return ["ok" if member.error is None else "error" for member in answered]


def on_disk(path: Path, *keys: str) -> list[str]:
    """Which of these facts another process finds in the file."""
    program = "import json, sqlite3, sys; db = sqlite3.connect(f'file:{sys.argv[1]}?mode=ro', uri=True); "
    program += "print(json.dumps([row[0] for row in db.execute('SELECT key FROM meta')]))"
    found = subprocess.run([sys.executable, "-c", program, str(path)], check=True, capture_output=True, text=True)
    return [key for key in keys if key in json.loads(found.stdout)]


def opened(folder: Path) -> tuple[Path, Ledger]:
    path = folder / "runtime_state.db"
    return path, Ledger(open_store(str(path), SystemClock()))


def a_member_fails(folder: Path) -> Any:
    """One of a group fails after it has written something."""
    path, ledger = opened(folder)
    told = as_one_group(ledger, [note("early"), half, note("late")])
    return [told, on_disk(path, "early", "half", "late")]


def no_room(folder: Path) -> Any:
    """The disk is full in the middle of a group; who was told that it is safe must be there."""
    path, ledger = opened(folder)
    ledger.read(lambda store: list(store.connection.rows(f"PRAGMA max_page_count={_pages(store) + 3}", {})))
    told = as_one_group(ledger, [note("early"), note("large", "x" * 500_000), note("late")])
    safe = [key for key, answer in zip(("early", "large", "late"), told, strict=True) if answer == "ok"]
    return [safe, on_disk(path, *safe)]


def _pages(store: SqlStore) -> int:
    return int(next(store.connection.rows("PRAGMA page_count", {}))[0])


def a_child(folder: Path) -> Any:
    """A child that was forked from the owner writes on its parent's connection."""
    path, ledger = opened(folder)
    ledger.run(note("parent"))
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        try:
            ledger.run(note("child"))
        except StoreError:
            os._exit(3)
        os._exit(0)
    ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return [ended, on_disk(path, "parent", "child")]


def another_file(folder: Path) -> Any:
    """The file is moved away while it is open; what is written then is in nobody's ledger."""
    path, ledger = opened(folder)
    ledger.run(note("before"))
    os.rename(path, folder / "moved.db")
    try:
        ledger.run(note("after"))
    except StoreError:
        return "refused"
    return "written"


def the_future(folder: Path) -> Any:
    """A newer program has added a step to the schema."""
    path, ledger = opened(folder)
    ledger.close()
    newer = SqliteConnection(str(path))
    newer.begin()
    newer.write("INSERT INTO schema_migrations VALUES (99, 'later', 'hash', :now)", {"now": NOW})
    newer.commit()
    newer.close()
    try:
        open_store(str(path), SystemClock())
    except StoreError as refused:
        return type(refused).__name__
    return "opened"


def killed_in_a_migration(folder: Path) -> Any:
    """A process is killed between two statements of a migration; the next one brings it to its end."""
    path = folder / "runtime_state.db"
    child = os.fork()
    if child == 0:
        connection = SqliteConnection(str(path))
        connection._db.create_scalar_function("die", lambda: os.kill(os.getpid(), signal.SIGKILL), 0)
        migrate(connection, NOW, migrations=[Migration(1, "first", "CREATE TABLE one (x); SELECT die();")])
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    connection = SqliteConnection(str(path))
    try:
        return migrate(connection, NOW, migrations=[Migration(1, "first", "CREATE TABLE one (x);")])
    except StoreError as stuck:
        return str(stuck)


def a_payload_is_cut(folder: Path) -> Any:
    """Somebody shortens a large value; it is asked for again."""
    path, ledger = opened(folder)
    kept = ledger.run(lambda store: store.calls._payloads.keep("words " * 9000))
    ledger.close()
    with sqlite3.connect(path) as db:
        db.execute("UPDATE payloads SET bytes = substr(bytes, 1, 999)")
    db.close()
    _, ledger = opened(folder)
    try:
        return len(ledger.read(lambda store: store.calls._payloads.load(kept)) or "")
    except StoreError as refused:
        return type(refused).__name__


def a_bit_flips(folder: Path) -> Any:
    """One bit of a stored word changes while the ledger is closed."""
    path, ledger = opened(folder)
    ledger.run(note("recipient", "boss@example.org"))
    ledger.close()
    content = bytearray(path.read_bytes())
    content[content.rindex(b"boss@")] ^= 1
    path.write_bytes(content)
    try:
        _, ledger = opened(folder)
        return ledger.read(lambda store: store.meta("recipient"))
    except StoreError as refused:
        return type(refused).__name__


def a_bit_of_the_log_flips(folder: Path) -> Any:
    """A process is killed after a commit, and one bit of that commit changes in the log."""
    path = folder / "runtime_state.db"
    child = os.fork()
    if child == 0:
        _, ledger = opened(folder)
        ledger.run(note("recipient", "boss@example.org"))
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    log = path.with_name(path.name + "-wal")
    content = bytearray(log.read_bytes())
    content[content.rindex(b"boss@")] ^= 1
    log.write_bytes(content)
    try:
        _, ledger = opened(folder)
        return ledger.read(lambda store: store.meta("recipient"))
    except StoreError as refused:
        return type(refused).__name__


SCENES: dict[str, Callable[[Path], Any]] = {
    scene.__name__: scene
    for scene in (
        a_member_fails, no_room, a_child, another_file, the_future, killed_in_a_migration, a_payload_is_cut, a_bit_flips,
        a_bit_of_the_log_flips,
    )
}  # fmt: skip


def play(scene: str, folder: Path, bug: str | None) -> Any:
    """Play a scene in a process of its own and return what it measured."""
    words = [
        sys.executable,
        "-W",
        "ignore",
        "-m",
        "tests.crash.store_scenes",
        scene,
        str(folder),
        *([bug] if bug else []),
    ]
    ran = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


if __name__ == "__main__":
    assert len(shipped_migrations()) > 0
    if len(sys.argv) > 3:
        from tests.crash.planting import plant

        plant(sys.argv[3])
    print(json.dumps(SCENES[sys.argv[1]](Path(sys.argv[2]))))
    sys.stdout.flush()
    os._exit(0)
