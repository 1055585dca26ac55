"""Who holds the ledger's write lock: what a locked-out process can tell the person who looks at it.

SQLite takes a POSIX lock on byte 120 of the file ``-shm`` for writing to a WAL database
(https://www.sqlite.org/walformat.html#wal_locks); Linux lists such locks with their process in ``/proc/locks``.
Opening that file ourselves would drop our own locks on it, so it is only read about.
"""

from __future__ import annotations

import os
from pathlib import Path

WAL_WRITE_LOCK_BYTE = "120"


def lock_holder(path: str, locks: Path = Path("/proc/locks")) -> int | None:
    """Return the process that holds the write lock of the database at ``path``; ``None`` where nobody can tell."""
    try:
        inode = os.stat(f"{path}-shm").st_ino
        listed = locks.read_text("ascii").splitlines()
    except (OSError, UnicodeDecodeError):
        return None
    for line in listed:
        words = line.split()
        # "1: POSIX  ADVISORY  WRITE 4711 00:2a:1234 120 120"
        if len(words) == 8 and words[3] == "WRITE" and words[6] == WAL_WRITE_LOCK_BYTE:
            found, pid = words[5].rpartition(":")[2], words[4]
        else:
            continue
        if found == str(inode) and pid.isdecimal():
            return int(pid)
    return None


def is_stopped(pid: int) -> bool:
    """Return whether a process was stopped by a signal, and will hold what it holds until it is woken or ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()[0] in "Tt"
    except (OSError, UnicodeDecodeError, IndexError):
        return False
