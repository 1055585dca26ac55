"""Who may read the state directory: its owner. Modes are set outright, whatever the umask says."""

from __future__ import annotations

import os
import stat
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from perdure.model.errors import StoreError

FOLDER_MODE = 0o700
FILE_MODE = 0o600
KEY_NAME = "redaction.key"
"""The file beside a ledger with the key of its secrets."""
LOG = "-wal"
_OTHERS = 0o077
_PROGRAM = 0o7111
_WRITE_BY_OTHERS = 0o022


@dataclass(frozen=True, slots=True)
class Exposed:
    """A path that others than its owner may look into, or that is not what it should be."""

    path: Path
    problem: str
    command: str
    is_folder: bool
    to_others: bool = True
    """Whether others may look into it; else something has changed its mode, and that is all."""


_ANOTHER = "let this user write there, or name a folder that takes files: --state-dir DIR"


def make_folder(folder: Path) -> list[Path]:
    """Make a folder, and those above it that are missing, for its owner only; one that is there is left as it is.

    Returns:
        The folders that were made, the outermost first; their names are not on the disk yet.

    Raises:
        StoreError: it cannot be made, or a link to somebody else's folder stands there.
    """
    try:
        missing = [item for item in (folder, *folder.parents) if not item.exists()]
        for item in reversed(missing):
            item.mkdir(mode=FOLDER_MODE, exist_ok=True)
            item.chmod(FOLDER_MODE)
        if not folder.is_dir():
            raise NotADirectoryError(f"{folder} is no folder")
    except OSError as problem:
        raise StoreError(f"the state directory {folder} cannot be made: {problem}", next_command=_ANOTHER) from problem
    refuse_foreign_link(folder)
    return missing[::-1]


def make_workspace(folder: Path) -> None:
    """Make the folder of a run, inside one that is the owner's only.

    Raises:
        StoreError: it cannot be made, or something else stands there.
    """
    refuse_workspace_link(folder)
    make_folder(folder.parent)
    make_folder(folder)


def refuse_workspace_link(folder: Path) -> None:
    """Refuse a link where a run's folder is to be.

    Raises:
        StoreError: one stands there: it could lead a run's files anywhere.
    """
    if folder.is_symlink():
        raise StoreError(
            f"{folder} is a link, and a run writes its files there",
            next_command=f"look where it leads, and remove it: rm {folder}",
        )


def make_database(path: Path) -> None:
    """Make an empty file for a database before SQLite does; its log and index get the mode of it.

    Raises:
        StoreError: what stands there is no plain file of this user.
    """
    for name in (path, Path(f"{path}-wal"), Path(f"{path}-shm")):
        refuse_foreign_link(name)
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, FILE_MODE)
    except FileExistsError:
        return
    except OSError as problem:
        raise StoreError(f"cannot open the ledger {path}: {problem}") from problem
    try:
        os.fchmod(handle, FILE_MODE)
    finally:
        os.close(handle)


def refuse_foreign_link(path: Path) -> None:
    """Refuse a symbolic link that another user has put there: whoever made it chooses what is written to.

    Raises:
        StoreError: it is one.
    """
    try:
        found = path.lstat()
    except OSError:
        return
    if stat.S_ISLNK(found.st_mode) and found.st_uid not in (os.getuid(), 0):
        raise StoreError(
            f"{path} is a link that user {found.st_uid} has made",
            next_command="use a state directory of your own: --state-dir DIR",
        )


@contextmanager
def open_private(path: Path, flags: int) -> Generator[IO[bytes]]:
    """Open a file that must not be a link."""
    handle = os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, FILE_MODE)
    with os.fdopen(handle, "rb" if flags & os.O_ACCMODE == os.O_RDONLY else "wb") as file:
        yield file


def make_private(path: Path, content: bytes) -> None:
    """Make a new file that only its owner can read, with its content on the disk."""
    with open_private(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL) as file:
        os.fchmod(file.fileno(), FILE_MODE)
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def exposed(state_dir: Path, database: Path, key: Path | None = None) -> list[Exposed]:
    """Return what others than the owner may read or write of a state directory, and files of a mode that is not ours.

    Folders come first. In a folder that is closed to others the rights of others on a file lead nowhere.

    Args:
        state_dir: holds workspaces.
        database: the ledger's file; the folder it lies in is looked at if it is there.
        key: the file of the key of secrets; beside the database when left out.
    """
    beside = [database.with_name(database.name + end) for end in ("", LOG, "-shm")]
    backups = sorted(database.parent.glob(f"{database.name}.before-*")) if database.parent.is_dir() else []
    files = [*beside, *backups, key or database.with_name(KEY_NAME)]
    folders = {state_dir, state_dir / "workspaces", *([database.parent] if database.exists() else [])}
    looked = [_look(item, FOLDER_MODE) for item in sorted(folders)]
    looked += [_look(item, FILE_MODE, closed=_is_closed(item.parent)) for item in files]
    return [item for item in looked if item is not None]


def _is_closed(folder: Path) -> bool:
    try:
        return stat.S_IMODE(folder.stat().st_mode) & _OTHERS == 0
    except OSError:
        return True


def marked_log(database: Path) -> Path | None:
    """Return the log of a database if it carries the mark of ours: its owner's execute bit, which gives nobody more."""
    log = database.with_name(database.name + LOG)
    try:
        return log if log.stat().st_mode & stat.S_IXUSR else None
    except OSError:
        return None


def _look(path: Path, wanted: int, *, closed: bool = False) -> Exposed | None:
    try:
        found = path.stat()
    except OSError:
        return None
    mode, is_folder = stat.S_IMODE(found.st_mode), stat.S_ISDIR(found.st_mode)
    if found.st_uid != os.getuid():
        return Exposed(path, f"belongs to user {found.st_uid}", f"chown {os.getuid()} {path}", is_folder)
    if not mode & (_OTHERS if is_folder else 0o066) or closed:
        ours = wanted | stat.S_IXUSR if path.name.endswith(LOG) else wanted
        if is_folder or not mode & _PROGRAM & ~ours:
            return None
        return Exposed(path, f"is executable (mode {mode:04o})", f"chmod {wanted:o} {path}", is_folder, to_others=False)
    may = "write to" if mode & _WRITE_BY_OTHERS else "look into"
    return Exposed(path, f"others may {may} it (mode {mode:04o})", f"chmod {wanted:o} {path}", is_folder)


def sync_folder(folder: Path) -> None:
    """Sync a folder: the entry of a new file in it is durable only then."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
