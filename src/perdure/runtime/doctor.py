"""``doctor``: looks at machine and ledger, and changes nothing; it works without a ledger and with a bad one.

The facts are collected here and judged in ``core/doctor.py`` and ``runtime/checkup.py``.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

from perdure.core import doctor as rules
from perdure.core.doctor import Finding, Level, Version
from perdure.model.errors import StoreError
from perdure.ports.clock import Clock
from perdure.runtime import checkup
from perdure.runtime.crashpoints import KNOBS, PREFIX
from perdure.runtime.secrets import KEY_VARIABLE
from perdure.store.modes import exposed, marked_log
from perdure.store.sqlite.checksums import checksum_vfs
from perdure.store.sqlite.connection import SqliteConnection, library_version, wal_reset_bug
from perdure.store.sqlite.mounts import filesystem_of
from perdure.store.upkeep import looking

FSYNCS = 7
_MODULES = {
    "toolbox": ("aiosmtplib", "httpx2", "obstore", "trafilatura", "typst"),
    "demo": ("aiosmtpd", "pymap"),
    "testing": ("pytest",),
}


@dataclass(frozen=True, slots=True)
class Machine:
    """What is known of the machine; read once, at the edge."""

    python: tuple[int, ...] = field(default_factory=lambda: tuple(sys.version_info[:3]))
    sqlite: Version = field(default_factory=library_version)
    python_sqlite: str = sqlite3.sqlite_version
    has_checksums: bool = field(default_factory=lambda: checksum_vfs() is not None)
    missing_extras: tuple[str, ...] = field(default_factory=lambda: tuple(_missing()))
    filesystem: Callable[[Path], str] = filesystem_of
    fsync_seconds: Callable[[Path], list[float]] = field(default_factory=lambda: measured)
    free_bytes: Callable[[Path], int] = field(default_factory=lambda: _free)


@dataclass(frozen=True, slots=True)
class Examined:
    """What a look at a machine and a ledger found."""

    database: Path
    findings: tuple[Finding, ...]
    opened: bool
    """Whether the ledger could be opened, or there is none yet."""

    @property
    def exit_code(self) -> int:
        """0, or 1 if something is bad, or 4 if the ledger cannot be opened."""
        if not self.opened:
            return 4
        return int(any(item.level is Level.BAD for item in self.findings))


def examine(
    database: Path, state_dir: Path, *, clock: Clock, environ: Mapping[str, str], machine: Machine | None = None
) -> Examined:
    """Look at everything that a ledger depends on; nothing is changed, not even by repairing.

    Args:
        database: the ledger's file, which need not be there.
        state_dir: holds workspaces.
        clock: whose time is looked at.
        environ: the variables of the process.
        machine: facts about it, for tests.
    """
    machine = machine or Machine()
    folder = _nearest(database.absolute().parent)
    findings = [
        *rules.python(machine.python, machine.missing_extras),
        *rules.sqlite(machine.sqlite, wal_reset_bug(machine.sqlite), machine.has_checksums, machine.python_sqlite),
        *_place(machine, folder),
        *rules.variables(environ, [PREFIX + name for name in KNOBS]),
        *_modes(database, state_dir, environ.get(KEY_VARIABLE)),
        *checkup.leftovers(database),
    ]
    inside, opened = _inside(database, clock, environ.get(KEY_VARIABLE))
    return Examined(database, tuple([*findings, *inside]), opened)


def _place(machine: Machine, folder: Path) -> Iterator[Finding]:
    kind = machine.filesystem(folder)
    yield rules.filesystem(kind, str(folder))
    yield rules.space(machine.free_bytes(folder), str(folder))
    yield rules.fsync(machine.fsync_seconds(folder), kind)
    try:
        SqliteConnection(":memory:").close()
    except StoreError as problem:
        yield Finding(
            "synchronous", Level.BAD, str(problem), "a commit may be lost with the power", problem.next_command
        )
    else:
        yield rules.ok("synchronous", "each connection of ours answers synchronous=FULL")


def _inside(database: Path, clock: Clock, key: str | None) -> tuple[list[Finding], bool]:
    if not database.exists():
        said = f"there is none yet at {database.absolute()}"
        return [rules.ok("ledger", said), *rules.clock(clock.now(), None)], True
    try:
        with looking(str(database)) as connection:
            return [*checkup.ledger(connection, clock.now()), *checkup.secrets_key(connection, database, key)], True
    except StoreError as problem:
        means = f"{problem.code}: no command can use this ledger"
        bad = Finding("ledger", Level.BAD, problem.message, means, problem.next_command)
        return [bad, *rules.clock(clock.now(), None)], False


def _modes(database: Path, state_dir: Path, key: str | None) -> Iterator[Finding]:
    found = exposed(state_dir.absolute(), database.absolute(), Path(key) if key else None)
    for item in found:
        yield rules.exposed(
            str(item.path), item.problem, item.command, is_folder=item.is_folder, to_others=item.to_others
        )
    log = marked_log(database.absolute())
    mark = f"; {log.name} has an x bit of ours, which no log has that another program made" if log else ""
    for about, what, more in (("folder_mode", "folder", ""), ("file_mode", "file", mark)):
        if not any(item.is_folder == (what == "folder") for item in found):
            yield rules.ok(about, f"no {what} of it is open to others{more}")


def _nearest(folder: Path) -> Path:
    """Return a folder, or the nearest one above it that exists."""
    return next((place for place in (folder, *folder.parents) if place.is_dir()), Path("/"))


def measured(folder: Path) -> list[float]:
    """Return how many seconds a few syncs of a page take, in a file that never has a name."""
    kind = getattr(os, "O_TMPFILE", None)
    if kind is None or not os.access(folder, os.W_OK):
        return []
    found: list[float] = []
    with suppress(OSError):
        handle = os.open(folder, kind | os.O_RDWR, 0o600)
        try:
            for _ in range(FSYNCS):
                os.write(handle, bytes(4096))
                began = time.perf_counter()
                os.fsync(handle)
                found.append(time.perf_counter() - began)
        finally:
            os.close(handle)
    return found


def _free(folder: Path) -> int:
    return shutil.disk_usage(folder).free


def _missing() -> Iterator[str]:
    for extra, modules in _MODULES.items():
        if any(find_spec(module) is None for module in modules):
            yield extra
