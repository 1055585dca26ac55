"""Safety rules of the ledger and the store broken on purpose; each has a scene that shows it in `test_planted_store.py`."""

import hashlib
import os
from pathlib import Path
from typing import Any

from perdure.model.errors import StoreError
from perdure.runtime import late_receipt
from perdure.runtime.ledger import Ledger
from perdure.store import migrate, modes, open, payloads, vault
from perdure.store.sqlite import connection, wal_check
from perdure.store.sqlite.connection import SqliteConnection
from tests.crash.planting import planting

POWER = "test_power_loss.py::test_a_planted_bug_is_caught"
SCENE = "test_planted_store.py::test_a_broken_rule_of_the_store_is_seen"


@planting("store", POWER)
def commits_are_not_synced() -> None:
    """The ledger runs with synchronous=NORMAL, so that a commit is not on the disk when it returns."""
    normal = {"synchronous": ("synchronous", "normal", "1")}
    connection._PRAGMAS = tuple(normal.get(pragma[0], pragma) for pragma in connection._PRAGMAS)


@planting("store", POWER)
def the_key_of_secrets_is_not_synced() -> None:
    """The file with the key of stored secrets, and its name, are left to the operating system to write some day."""

    def make(path: Path, content: bytes) -> None:
        path.touch(mode=modes.FILE_MODE, exist_ok=False)
        path.write_bytes(content)

    vault.make_private, vault.sync_folder = make, lambda folder: None


@planting("store", POWER)
def waiters_are_answered_before_the_commit() -> None:
    """A waiter is answered when its work is done; the commit comes with the next group."""

    def transact(self: Any, batch: list[Any]) -> None:
        connection = self._store.connection
        if connection.in_transaction():
            connection.commit()
        connection.begin()
        for member in batch:
            member.value = member.work(self._store)

    Ledger._transact = transact  # type: ignore[method-assign]


@planting("store", SCENE)
def a_savepoint_error_is_ignored() -> None:
    """What a failing member of a group has written before its error stays, and is committed with the others."""

    def perform(self: Any, member: Any) -> None:
        try:
            member.value = member.work(self._store)
        except Exception as problem:
            member.error = problem

    Ledger._perform = perform  # type: ignore[method-assign]


@planting("store", SCENE)
def a_group_goes_on_without_its_transaction() -> None:
    """A full disk has rolled the whole group back, and the members before the fault are told that they are safe."""
    honest = Ledger._perform

    def perform(self: Any, member: Any) -> None:
        try:
            honest(self, member)
        except StoreError as problem:
            member.error = problem
            if not self._store.connection.in_transaction():
                self._store.connection.begin()

    Ledger._perform = perform  # type: ignore[method-assign]


@planting("store", SCENE)
def a_failed_commit_is_ignored() -> None:
    """COMMIT fails, and everybody is answered as if it had returned."""
    honest = SqliteConnection.commit

    def commit(self: Any) -> None:
        try:
            honest(self)
        except StoreError:
            self.rollback()

    SqliteConnection.commit = commit  # type: ignore[method-assign]


@planting("store", SCENE)
def a_failed_commit_is_tried_again_in_place() -> None:
    """A commit whose sync failed is done once more on the same connection, where a second sync proves nothing."""
    honest = Ledger._transact

    def transact(self: Any, batch: list[Any]) -> None:
        try:
            honest(self, batch)
        except StoreError:
            honest(self, batch)

    Ledger._transact = transact  # type: ignore[method-assign]


@planting("store", SCENE)
def a_forked_child_uses_the_connection_of_its_parent() -> None:
    """Nobody looks whether the process is the one that opened the ledger."""
    honest = SqliteConnection.check

    def check(self: Any) -> None:
        self._pid = os.getpid()
        honest(self)

    SqliteConnection.check = check  # type: ignore[method-assign]


@planting("store", SCENE)
def a_file_that_was_replaced_is_written_on() -> None:
    """Nobody looks whether the file under the ledger's name is the one that is open."""

    def check(self: Any) -> None:
        self._identity = connection._file_identity(self.path)

    SqliteConnection.check = check  # type: ignore[method-assign]


@planting("store", SCENE)
def a_schema_from_the_future_is_taken() -> None:
    """A ledger that a newer program has changed is opened by an older one."""
    migrate._compare = lambda applied, wanted: None


@planting("store", SCENE)
def a_migration_is_not_one_transaction() -> None:
    """Each statement of a migration is committed by itself."""

    def apply(store: Any, step: Any, now: str) -> None:
        store.script(step.sql)
        store.write(
            "INSERT INTO schema_migrations (number, name, sha256, applied_at) VALUES (:number, :name, :sha, :now)",
            {"number": step.number, "name": step.name, "sha": step.sha256, "now": now},
        )

    migrate._apply = apply


@planting("store", SCENE)
def the_hash_of_a_payload_is_not_checked() -> None:
    """A large receipt is handed out as it is found."""

    class Blind:
        """Every content has the hash that is asked for."""

        def __init__(self, digest: str) -> None:
            self._digest = digest

        def hexdigest(self) -> str:
            return self._digest

    honest = payloads.Payloads.load

    def load(self: Any, kept: str | None) -> str | None:
        payloads.hashlib.sha256 = lambda data: Blind((kept or "").removeprefix("sha256:"))  # type: ignore[assignment]
        try:
            return honest(self, kept)
        finally:
            payloads.hashlib.sha256 = _SHA256  # type: ignore[assignment]

    payloads.Payloads.load = load  # type: ignore[method-assign]


_SHA256 = hashlib.sha256


@planting("store", SCENE)
def pages_have_no_checksum() -> None:
    """What a disk gives back is believed."""
    connection.checksum_vfs = lambda: None
    SqliteConnection._reserve_checksums = lambda self, vfs: None  # type: ignore[method-assign]
    open._CHECKSUMS = "not asked about"


@planting("store", SCENE)
def the_log_is_taken_as_far_as_it_can_be_read() -> None:
    """What SQLite makes of a damaged log is believed: it ends there, and what was committed after it never was."""
    wal_check.damage = lambda database: None


@planting("store", SCENE)
def a_late_receipt_is_thrown_away() -> None:
    """A receipt that comes while the disk is full is given up at once."""
    late_receipt._keep = lambda life, lost, hurry: False
