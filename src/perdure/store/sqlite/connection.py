"""The SQLite connection: WAL, FULL, every pragma read back, and refusals where durability would be a guess."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import apsw

from perdure.model.errors import StoreError
from perdure.ports.store import Row
from perdure.store.modes import make_database
from perdure.store.sqlite import wal_check
from perdure.store.sqlite.checksums import CHECKSUM_VFS, RESERVED_BYTES, checksum_vfs, is_damage, take_over_pages
from perdure.store.sqlite.faults import damaged, fault_of, storable
from perdure.store.sqlite.mounts import refuse_network_filesystem

BUSY_TIMEOUT_MILLISECONDS = 30_000
ANOTHER_BUSY_MILLISECONDS = 1_000
SWITCH_RETRY_SECONDS = 0.005
PAGE_BYTES = 4096
WAL_STRETCH_BYTES = 4 * 1024 * 1024
_PRAGMAS: tuple[tuple[str, str, str], ...] = (
    ("journal_mode", "wal", "wal"),
    ("synchronous", "full", "2"),
    ("foreign_keys", "on", "1"),
    ("fullfsync", "on", "1"),
    ("journal_size_limit", str(WAL_STRETCH_BYTES), str(WAL_STRETCH_BYTES)),
    # Always, not only while bodies are removed: a row that grows leaves its old text behind.
    ("secure_delete", "on", "1"),
)


def wal_reset_bug(version: tuple[int, int, int]) -> bool:
    """Return whether a SQLite has the WAL-reset corruption race (sqlite.org/wal.html#walresetbug)."""
    if version in ((3, 50, 7), (3, 44, 6)):
        return False
    return (3, 7, 0) <= version <= (3, 51, 2)


def library_version() -> tuple[int, int, int]:
    """Return the version of the SQLite library that is linked in."""
    number = apsw.sqlite_lib_version().split(".")
    return int(number[0]), int(number[1]), int(number[2])


class SqliteConnection:
    """One writer connection to a ledger file.

    Args:
        path: the file, or ``:memory:``.
        read_only: open without the right to write.
        allow_network_filesystem: skip the refusal of network mounts.
        vfs: the VFS to use instead of the checksum VFS over the process's default one.
        create: make the file if there is none.
        busy_milliseconds: how long to wait for another process's transaction.

    Raises:
        LedgerDamaged: the files do not hold what was written to them.
        StoreError: the library, the filesystem or a pragma makes durability uncertain.
    """

    def __init__(
        self,
        path: str,
        *,
        read_only: bool = False,
        allow_network_filesystem: bool = False,
        vfs: str | None = None,
        create: bool = True,
        busy_milliseconds: int | None = None,
    ) -> None:
        if wal_reset_bug(library_version()):
            raise StoreError(
                f"SQLite {apsw.sqlite_lib_version()} can corrupt a WAL database (fixed in 3.51.3)",
                next_command="install a newer apsw: pip install -U apsw",
            )
        self.path = path
        self._pid = os.getpid()
        self._allow_network_filesystem = allow_network_filesystem
        self._given_vfs = vfs
        if path != ":memory:" and not allow_network_filesystem:
            refuse_network_filesystem(path)
        flags = apsw.SQLITE_OPEN_READONLY if read_only else apsw.SQLITE_OPEN_READWRITE
        flags |= apsw.SQLITE_OPEN_CREATE if create and not read_only else 0
        busy = BUSY_TIMEOUT_MILLISECONDS if busy_milliseconds is None else busy_milliseconds
        with _OPENING:
            _refuse_damaged_log(path)
            vfs = vfs if vfs is not None or path == ":memory:" else checksum_vfs()
            try:
                if vfs == CHECKSUM_VFS and not read_only and wal_check.closed_by_others(path):
                    take_over_pages(path, busy)
                self._open(flags, vfs, busy)
            except apsw.Error as problem:
                if is_damage(problem):
                    raise damaged(path, problem) from problem
                raise StoreError(f"cannot open the ledger {path}: {problem}") from problem
        self._identity = _file_identity(path)

    def _open(self, flags: int, vfs: str | None, busy_milliseconds: int) -> None:
        self._db = apsw.Connection(self.path, flags=flags, vfs=vfs, statementcachesize=200)
        # The stubs name a type of newer Pythons here, so that to the type checkers on 3.11 it is unknown.
        self._execute = cast("Callable[..., Iterator[Row]]", cast(Any, self._db).execute)
        self._db.set_busy_timeout(busy_milliseconds)
        if flags & apsw.SQLITE_OPEN_READWRITE:
            try:
                self._reserve_checksums(vfs)
                self._configure(busy_milliseconds)
            except BaseException:
                self._db.close()
                raise

    def _reserve_checksums(self, vfs: str | None) -> None:
        """Leave room for a checksum at the end of each page of a new file, and see that it is there in an old one."""
        checked = vfs == CHECKSUM_VFS
        if next(self._execute("PRAGMA page_count"))[0] == 0:
            if checked:
                self._db.reserve_bytes(reserve=RESERVED_BYTES)
            return
        page_bytes, reserved = next(self._execute("PRAGMA page_size"))[0], self._db.reserve_bytes()
        if self.path != ":memory:" and (page_bytes != PAGE_BYTES or reserved not in (0, RESERVED_BYTES)):
            raise damaged(self.path, f"its header speaks of pages of {page_bytes} bytes, {reserved} of them reserved")
        if reserved == RESERVED_BYTES and not checked:
            raise StoreError(
                f"the ledger {self.path} has a checksum on each page, which this build of apsw cannot keep",
                next_command="install the apsw of PyPI, which brings it: pip install --only-binary :all: -U apsw",
            )

    @property
    def has_checksums(self) -> bool:
        """Return whether each page of the file carries a checksum."""
        return self._db.reserve_bytes() == RESERVED_BYTES

    def keep_log(self) -> None:
        """Mark the log as one that a connection of ours keeps, so that it is seen if another program has deleted it."""
        if self.has_checksums and self.path != ":memory:":
            wal_check.mark_as_ours(self.path)

    def another(self, *, read_only: bool = False) -> SqliteConnection:
        """Return a new connection to the same file, which must exist.

        Raises:
            StoreError: it cannot be opened, or stands in memory only.
        """
        if self.path == ":memory:":
            raise StoreError("a ledger in memory cannot be opened anew")
        return SqliteConnection(
            self.path,
            read_only=read_only,
            allow_network_filesystem=self._allow_network_filesystem,
            vfs=self._given_vfs,
            create=False,
            busy_milliseconds=min(BUSY_TIMEOUT_MILLISECONDS, ANOTHER_BUSY_MILLISECONDS),
        )

    def _configure(self, busy_milliseconds: int) -> None:
        give_up = time.monotonic() + busy_milliseconds / 1000
        for name, value, expected in _PRAGMAS:
            self._set(name, value, give_up)
            got = str(next(self._execute(f"PRAGMA {name}"))[0])
            if got != expected and not (self.path == ":memory:" and name == "journal_mode"):
                raise StoreError(
                    f"the ledger {self.path} answers {name}={got}, not {expected}",
                    next_command="put the state directory on a local disk: --state-dir DIR",
                )
        if self.path != ":memory:":
            # A WAL file that has to grow makes each commit pay for metadata; it is kept at close and stretched once.
            self._db.file_control("main", apsw.SQLITE_FCNTL_PERSIST_WAL, _one())

    def _set(self, name: str, value: str, give_up: float) -> None:
        """Set a pragma; the switch of a new file to WAL does not by itself wait for a process that does the same."""
        while True:
            try:
                list(self._execute(f"PRAGMA {name}={value}"))
                return
            except apsw.BusyError:
                if time.monotonic() >= give_up:
                    raise
                time.sleep(SWITCH_RETRY_SECONDS)

    def stretch_wal(self) -> None:
        """Write zeros behind the end of the WAL file up to its kept size, while no other writer can append.

        A file that grows pays for its metadata at each sync: the first 300 calls of a new ledger run 2.5 times faster
        on a stretched one (measured). Zeros carry no valid frame checksum, so recovery ignores them.
        """
        wal = self.path + "-wal"
        if self.path == ":memory:" or not os.path.exists(wal):
            return
        self.begin()
        try:
            size = os.path.getsize(wal)
            if size < WAL_STRETCH_BYTES:
                with open(wal, "r+b") as file:
                    file.seek(size)
                    file.write(bytes(WAL_STRETCH_BYTES - size))
                    file.flush()
                    os.fsync(file.fileno())
        finally:
            self.rollback()

    def rows(self, sql: str, parameters: Mapping[str, Any]) -> Iterator[Row]:
        """Run a statement and yield its rows."""
        try:
            yield from self._execute(sql, parameters)
        except apsw.Error as problem:
            raise self._translate(problem) from problem

    def write(self, sql: str, parameters: Mapping[str, Any]) -> int:
        """Run a writing statement and return how many rows it changed."""
        try:
            try:
                self._execute(sql, parameters)
            except UnicodeEncodeError:  # nothing was run: a value could not be bound
                self._execute(sql, storable(parameters))
        except apsw.Error as problem:
            raise self._translate(problem) from problem
        return self._db.changes()

    def last_row(self) -> int:
        """Return the number of the row that was inserted last."""
        return self._db.last_insert_rowid()

    def script(self, sql: str) -> None:
        """Run several statements (migrations only)."""
        try:
            for _ in self._execute(sql):
                continue
        except apsw.Error as problem:
            raise self._translate(problem) from problem

    def _control(self, sql: str) -> None:
        try:
            self._execute(sql)
        except apsw.Error as problem:
            raise self._translate(problem) from problem

    def _translate(self, problem: apsw.Error) -> StoreError:
        return fault_of(self.path, problem)

    def begin(self) -> None:
        """Begin a writing transaction, waiting for other writers."""
        self._control("BEGIN IMMEDIATE")

    def begin_reading(self) -> None:
        """Begin a transaction that only reads: what others commit meanwhile is not seen, and nobody waits for it."""
        self._control("BEGIN")

    def commit(self) -> None:
        """Make the transaction durable."""
        self._control("COMMIT")

    def rollback(self) -> None:
        """Undo the transaction if one is open."""
        if self.in_transaction():
            self._control("ROLLBACK")

    def savepoint(self) -> None:
        """Mark the place to which one member of a group can be undone."""
        self._control("SAVEPOINT member")

    def release(self) -> None:
        """Forget the mark."""
        self._control("RELEASE member")

    def undo_to_savepoint(self) -> None:
        """Undo what came after the mark."""
        self._control("ROLLBACK TO member")
        self._control("RELEASE member")

    def in_transaction(self) -> bool:
        """Return whether a transaction is open."""
        return self._db.in_transaction

    def check(self) -> None:
        """Refuse to go on after a fork, or when another file stands where the ledger was."""
        if os.getpid() != self._pid:
            raise StoreError(
                "this process was forked from the one that opened the ledger",
                next_command="open the ledger again in the child: perdure.open(...)",
            )
        if self._identity is not None and _file_identity(self.path) != self._identity:
            raise StoreError(
                f"the ledger file {self.path} was replaced or removed while it was open",
                safe="What was recorded stands in the file that was removed; nothing more is dispatched.",
            )

    def backup_to(self, path: Path) -> None:
        """Copy the whole database, as it is at one moment, to a file that only its owner reads."""
        make_database(path)
        try:
            target = apsw.Connection(str(path), vfs=checksum_vfs() if self.has_checksums else None)
            try:
                self._copy_to(target)
            finally:
                target.close()
        except apsw.Error as problem:
            raise self._translate(problem) from problem

    def _copy_to(self, target: apsw.Connection) -> None:
        give_up = time.monotonic() + BUSY_TIMEOUT_MILLISECONDS / 1000
        with target.backup("main", self._db, "main") as backup:
            while not backup.done:
                try:
                    backup.step()
                except apsw.BusyError:  # another process is writing, and a copy does not wait by itself
                    if time.monotonic() >= give_up:
                        raise
                    time.sleep(SWITCH_RETRY_SECONDS)

    def close(self) -> None:
        """Close the connection; the WAL file is kept for the next one."""
        if os.getpid() == self._pid:
            # A checkpoint that fails at the end loses nothing: what was committed stands in the WAL.
            with suppress(apsw.Error):
                # The limit empties the kept WAL here, and with it the frames of a commit whose sync failed.
                self._db.close()


def _refuse_damaged_log(path: str) -> None:
    """Refuse before SQLite opens the file: what it does then cannot be undone."""
    if path == ":memory:":
        return
    try:
        found = wal_check.damage(path)
    except OSError as problem:
        raise StoreError(f"cannot open the ledger {path}: {problem}") from problem
    if found is not None:
        raise damaged(path, found)


def _one() -> int:
    """Return where an integer 1 stands, which SQLite only reads; one serves all connections of the process."""
    import ctypes

    if not _ONE:
        _ONE.append(ctypes.c_int(1))
    return ctypes.addressof(_ONE[0])


_ONE: list[Any] = []
_OPENING = threading.Lock()


def _file_identity(path: str) -> tuple[int, int] | None:
    if path == ":memory:":
        return None
    try:
        found = os.stat(path)
    except OSError:
        return (0, 0)
    return found.st_dev, found.st_ino
