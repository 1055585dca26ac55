"""A checksum at the end of each page, checked when a page is read: SQLite's checksum VFS (sqlite.org/cksumvfs.html).

The extension comes with apsw. It sits on top of the process's default VFS, and only the ledger's connections use it. It
writes a checksum when a page is copied from the log into the database; a page in the log is covered by the log's own.
"""

from __future__ import annotations

import os
import threading
from typing import Any, cast

import apsw

CHECKSUM_VFS = "cksmvfs"
RESERVED_BYTES = 8
_SUFFIXES = (".so", ".dylib", ".dll")
_LOADING = threading.Lock()
_BELOW: list[str] = []


def library() -> str | None:
    """Return the path of the extension, or ``None`` where this build of apsw came without it."""
    folder = os.path.join(os.path.dirname(apsw.__file__), "sqlite_extra_binaries")
    for suffix in _SUFFIXES:
        path = os.path.join(folder, "cksumvfs" + suffix)
        if os.path.exists(path):
            return path
    return None


def checksum_vfs() -> str | None:
    """Return the name of the checksum VFS, loaded and ready, or ``None`` where there is none."""
    with _LOADING:
        default = apsw.vfs_names()[0]
        if [default] == _BELOW:
            return CHECKSUM_VFS
        path = library()
        if path is None:
            return None
        if CHECKSUM_VFS in apsw.vfs_names():
            apsw.unregister_vfs(CHECKSUM_VFS)  # it lies over a default VFS that is no longer the default
        loader = apsw.Connection(":memory:")
        loader.config(apsw.SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 1)
        loader.load_extension(path)
        loader.close()
        # Loading makes it the default of the whole process; other users of SQLite in it keep theirs.
        apsw.set_default_vfs(default)
        _BELOW[:] = [default]
        return CHECKSUM_VFS


def is_damage(problem: apsw.Error) -> bool:
    """Return whether an error says that the file does not hold what was written to it."""
    if isinstance(problem, apsw.CorruptError | apsw.NotADBError):
        return True
    return getattr(problem, "extendedresult", 0) == apsw.SQLITE_IOERR_DATA


def take_over_pages(path: str, busy_milliseconds: int) -> None:
    """Give checksums to pages that another program's SQLite has copied out of the log without any.

    Whoever closes the file last does that, a reader after a crash too. What it copied can only be checked for its
    structure; from then on each page is checked again.

    Raises:
        apsw.Error: the structure is broken, or the file cannot be written.
    """
    if _all_hold(path, busy_milliseconds):
        return
    db = apsw.Connection(path, vfs=CHECKSUM_VFS)
    try:
        db.set_busy_timeout(busy_milliseconds)
        _ask(db, "PRAGMA checksum_verification=OFF")
        found = _ask(db, "PRAGMA integrity_check")
        if found != "ok":
            raise apsw.CorruptError(found)
        _ask(db, "VACUUM")
    finally:
        db.close()


def _all_hold(path: str, busy_milliseconds: int) -> bool:
    db = apsw.Connection(path, vfs=CHECKSUM_VFS)
    try:
        db.set_busy_timeout(busy_milliseconds)
        return _ask(db, "PRAGMA quick_check") == "ok"
    except apsw.IOError as problem:
        if is_damage(problem):
            return False
        raise
    finally:
        db.close()


def _ask(db: apsw.Connection, sql: str) -> str:
    # The stubs name a type of newer Pythons here, so that to the type checkers on 3.11 it is unknown.
    rows: list[Any] = list(cast(Any, db).execute(sql))
    return str(rows[0][0]) if rows else ""
