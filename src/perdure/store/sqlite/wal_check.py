"""Whether the write-ahead log that a dead process left still holds everything that was committed.

SQLite takes a damaged frame for the end of the log and forgets what was committed after it, without a word: for a
ledger that is an effect without a record. So the log is compared with two witnesses before SQLite opens it. The index
beside it (``-shm``) says how many frames were committed; it is written after the log was synced, so it never says too
much. And a commit is synced before the next one is written, so that a whole later commit proves an earlier one.

Formats: sqlite.org/walformat.html. Nothing is changed here.
"""

from __future__ import annotations

import fcntl
import os
import stat
import struct
import sys
from contextlib import suppress
from dataclasses import dataclass, field

HEADER_BYTES, FRAME_HEADER_BYTES = 32, 24
_LITTLE_ENDIAN_WORDS, _BIG_ENDIAN_WORDS = 0x377F0682, 0x377F0683
_INDEX_BYTES, _INDEX_SUMMED_BYTES, _BACKFILL_AT = 48, 40, 96
_IN_USE_LOCK_BYTE = 128
_OURS = stat.S_IXUSR
_PAGE_BYTES = 4096
_MASK = 0xFFFFFFFF
Sums = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Index:
    """What the index beside the log says of it."""

    frames: int
    salts: bytes
    backfilled: int

    @property
    def relies_on_log(self) -> bool:
        """Whether something was committed that stands in the log only."""
        return self.frames > self.backfilled


@dataclass(slots=True)
class Log:
    """What stands in the log itself: how far its chain of checksums goes."""

    salts: bytes | None = None
    committed: int = 0
    pages: int = 0
    in_log: set[int] = field(default_factory=set)
    """The pages that the committed frames hold."""
    later_commit: bool = False
    """Whether a frame stands behind a damaged commit that can only have been written after it."""


def damage(database: str) -> str | None:
    """Return what is missing in the log of a database that nobody has open, in words, or ``None``.

    Args:
        database: its path; where a process has it open, or the system cannot tell, ``None`` is returned.
    """
    if _in_use(database):
        return None
    index = read_index(_content(database + "-shm", _BACKFILL_AT + 4))
    size = _size(database + "-wal")
    if os.path.exists(database) and _size(database) < _PAGE_BYTES and _is_ours(database):
        return f"{database} is empty, and a log was made for it"  # a first page is there before any log
    if size <= HEADER_BYTES and (index is None or not index.relies_on_log):
        return None
    log = read_log(_content(database + "-wal", size))
    found = _compare(index, log, database, size)
    return None if found is None or _in_use(database) else found


def closed_by_others(database: str) -> bool:
    """Return whether another program's SQLite may have copied the log into the database when it closed it last.

    It then deletes the log, which a connection of ours never does; one that was made since has no mark of ours.
    """
    if _size(database) == 0 or _in_use(database):
        return False
    return not _is_ours(database)


def _is_ours(database: str) -> bool:
    try:
        return bool(os.stat(database + "-wal").st_mode & _OURS)
    except FileNotFoundError:
        return False


def mark_as_ours(database: str) -> None:
    """Mark the log of an open database: a new one would have the mode of the database, without this bit."""
    with suppress(OSError):  # without the mark the pages are looked at once more when it is opened next
        mode = stat.S_IMODE(os.stat(database + "-wal").st_mode)
        if not mode & _OURS:
            os.chmod(database + "-wal", mode | _OURS)


def _compare(index: Index | None, log: Log, database: str, size: int) -> str | None:
    if index is not None and index.relies_on_log and log.salts in (None, index.salts) and log.committed < index.frames:
        return f"{index.frames} frames were committed to {database}-wal, and {log.committed} are left that can be read"
    if log.later_commit:
        return (
            f"frame {log.committed + 1} of {database}-wal or one soon after it is damaged, and commits stand behind it"
        )
    behind = range(_size(database) // _PAGE_BYTES + 1, log.pages + 1)
    if log.committed and not log.in_log.issuperset(behind):
        return f"{database} is shorter than what was committed to it"
    return None


def read_index(content: bytes) -> Index | None:
    """Return what a wal-index says; either of its two copies will do if its own checksum is right."""
    if len(content) < _BACKFILL_AT + 4:
        return None
    (backfilled,) = struct.unpack_from("=I", content, _BACKFILL_AT)
    for start in (0, _INDEX_BYTES):
        copy = content[start : start + _INDEX_BYTES]
        version, frames = struct.unpack_from("=I", copy, 0)[0], struct.unpack_from("=I", copy, 16)[0]
        sums = struct.unpack_from("=2I", copy, _INDEX_SUMMED_BYTES)
        if version and _sums(copy[:_INDEX_SUMMED_BYTES], (0, 0), "=") == sums:
            return Index(frames, copy[32:40], backfilled)
    return None


def read_log(content: bytes) -> Log:
    """Follow the chain of checksums through a log."""
    log = Log()
    if len(content) < HEADER_BYTES:
        return log
    magic, _, page_bytes, _ = struct.unpack_from(">4I", content)
    order = {_LITTLE_ENDIAN_WORDS: "<", _BIG_ENDIAN_WORDS: ">"}.get(magic)
    if order is None or _sums(content[:24], (0, 0), order) != struct.unpack_from(">2I", content, 24):
        return log
    log.salts = content[16:24]
    frame_bytes = FRAME_HEADER_BYTES + page_bytes
    sums: Sums = struct.unpack_from(">2I", content, 24)
    pending: list[int] = []
    frame = 0
    while HEADER_BYTES + (frame + 1) * frame_bytes <= len(content):
        at = HEADER_BYTES + frame * frame_bytes
        page, pages, salts, told = _frame(content, at)
        computed = _frame_sums(content, at, frame_bytes, sums, order)
        if salts != log.salts or told != computed or page == 0:
            log.later_commit = _commit_behind(content, frame, frame_bytes, log.salts, (told, computed), order)
            return log
        sums = told
        frame += 1
        pending.append(page)
        if pages:
            log.committed, log.pages = frame, pages
            log.in_log.update(pending)
            pending.clear()
    return log


def _commit_behind(
    content: bytes, damaged: int, frame_bytes: int, salts: bytes, seeds: tuple[Sums, Sums], order: str
) -> bool:
    """Return whether the chain goes on behind a damaged frame, and beyond a commit.

    One changed byte leaves either the frame's stored checksum or what it is computed from as it was, so that the next
    frame follows from one of the two. Frames of one transaction that a loss of power left in part end with its commit.
    """
    at = HEADER_BYTES + damaged * frame_bytes
    commits = bool(_frame(content, at)[1])
    frame = damaged + 1
    possible: tuple[Sums, ...] = seeds
    while HEADER_BYTES + (frame + 1) * frame_bytes <= len(content):
        at = HEADER_BYTES + frame * frame_bytes
        _, pages, found_salts, told = _frame(content, at)
        if found_salts != salts or not any(
            _frame_sums(content, at, frame_bytes, seed, order) == told for seed in possible
        ):
            return False
        if commits:
            return True
        commits = bool(pages)
        possible = (told,)
        frame += 1
    return False


def _frame(content: bytes, at: int) -> tuple[int, int, bytes, Sums]:
    page, pages = struct.unpack_from(">2I", content, at)
    return page, pages, content[at + 8 : at + 16], struct.unpack_from(">2I", content, at + 16)


def _frame_sums(content: bytes, at: int, frame_bytes: int, sums: Sums, order: str) -> Sums:
    sums = _sums(content[at : at + 8], sums, order)
    return _sums(content[at + FRAME_HEADER_BYTES : at + frame_bytes], sums, order)


def _sums(content: bytes, sums: Sums, order: str) -> Sums:
    first, second = sums
    words = iter(struct.unpack(f"{order}{len(content) // 4}I", content))
    for one, two in zip(words, words, strict=True):
        first = (first + one + second) & _MASK
        second = (second + two + first) & _MASK
    return first, second


def _content(path: str, size: int) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(size)
    except FileNotFoundError:
        return b""


def _size(path: str) -> int:
    try:
        return os.path.getsize(path)
    except FileNotFoundError:
        return 0


def _in_use(database: str) -> bool:
    """Return whether a process has the database open, or may have: then the index is alive and no witness.

    SQLite holds a lock on one byte of the index as long as it has it open. A file that this process itself has open
    must not even be looked at: closing it here would drop the locks that SQLite holds on it.
    """
    if sys.platform != "linux" or _open_here({database, database + "-shm"}):
        return True
    try:
        with open(database + "-shm", "rb") as index:
            asked = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, _IN_USE_LOCK_BYTE, 1, 0)
            held: int = struct.unpack_from("h", fcntl.fcntl(index, fcntl.F_GETLK, asked))[0]
            return held != fcntl.F_UNLCK
    except FileNotFoundError:
        return False
    except OSError:
        return True


def _open_here(paths: set[str]) -> bool:
    wanted = set[tuple[int, int]]()
    for path in paths:
        if os.path.exists(path):
            found = os.stat(path)
            wanted.add((found.st_dev, found.st_ino))
    for entry in os.listdir("/dev/fd"):
        try:
            found = os.fstat(int(entry))
        except OSError:
            continue  # the listing's own handle, or one that another thread has closed since
        if (found.st_dev, found.st_ino) in wanted:
            return True
    return False
