"""Files of the run's workspace: read, write and list, with no way out of it.

Paths are walked one component at a time, each opened relative to the directory before it and never through a
symbolic link (``openat`` with ``O_NOFOLLOW``), so that no exchange of a directory between check and use can
lead outside.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import stat
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import TypedDict

from perdure.ports.tool import CallContext, ToolFailed, tool
from perdure.toolbox._provider import INJECTED

MAX_READ_BYTES = 16 * 1024 * 1024
_TEMPORARY_PREFIX = ".perdure-tmp-"
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class StoredFile(TypedDict):
    """A file in the workspace, by its path there and what it held when it was stored."""

    path: str
    sha256: str
    size_bytes: int


class FileText(StoredFile):
    """A stored file together with its text."""

    content: str


class Entry(TypedDict):
    """One name in a directory; ``kind`` is ``file directory link other``."""

    name: str
    kind: str
    size_bytes: int


def _components(path: str) -> tuple[str, ...]:
    if not path or "\0" in path:
        raise ToolFailed(f"{path!r} is no file name", retry=False)
    parts = PurePosixPath(path).parts
    if path.startswith("/") or ".." in parts:
        raise ToolFailed(f"{path!r} leads out of the workspace", retry=False)
    return parts


def _descend(directory: int, name: str, shown: str, *, create: bool) -> int:
    if create:
        with suppress(FileExistsError):
            os.mkdir(name, 0o755, dir_fd=directory)
            os.fsync(directory)
    try:
        return os.open(name, _DIRECTORY, dir_fd=directory)
    except FileNotFoundError:
        raise ToolFailed(f"{shown!r}: there is no directory {name!r}", retry=False) from None
    except OSError as problem:
        # ENOTDIR or ELOOP, as the kernel likes: a file or a symbolic link where a directory should be.
        raise ToolFailed(f"{shown!r}: {name!r} is not a directory of the workspace", retry=False) from problem


@contextmanager
def _opened(workspace: Path, parts: tuple[str, ...], shown: str, *, create: bool = False) -> Generator[int, None, None]:
    if create:
        workspace.mkdir(parents=True, exist_ok=True)
    # The workspace itself is named by the engine and may well be reached through a link.
    directory = os.open(workspace, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for name in parts:
            inner = _descend(directory, name, shown, create=create)
            os.close(directory)
            directory = inner
        yield directory
    finally:
        os.close(directory)


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _replace_atomically(directory: int, name: str, data: bytes) -> None:
    # A random name with O_EXCL: two writers of one path never share a half-written file.
    temporary = _TEMPORARY_PREFIX + secrets.token_hex(8)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644, dir_fd=directory)
    try:
        try:
            _write_all(descriptor, data)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.rename(temporary, name, src_dir_fd=directory, dst_dir_fd=directory)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=directory)
        raise
    os.fsync(directory)


def store(workspace: Path, path: str, data: bytes) -> StoredFile:
    """Put ``data`` at ``path``, whole or not at all, on stable storage before this returns.

    Args:
        workspace: the run's own directory; made if missing.
        path: relative to it; missing directories are made.
        data: what the file shall hold; an older file of that name is replaced.

    Raises:
        ToolFailed: the path leads out of the workspace or names a directory.
    """
    parts = _components(path)
    if not parts:
        raise ToolFailed(f"{path!r} is a directory", retry=False)
    with _opened(workspace, parts[:-1], path, create=True) as directory:
        try:
            _replace_atomically(directory, parts[-1], data)
        except IsADirectoryError:
            raise ToolFailed(f"{path!r} is a directory", retry=False) from None
    return {"path": "/".join(parts), "sha256": hashlib.sha256(data).hexdigest(), "size_bytes": len(data)}


def _read_all(descriptor: int, shown: str, max_bytes: int) -> bytes:
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        raise ToolFailed(f"{shown!r} is not a regular file", retry=False)
    chunks: list[bytes] = []
    size = 0
    while chunk := os.read(descriptor, 1 << 20):
        size += len(chunk)
        if size > max_bytes:
            raise ToolFailed(f"{shown!r} is larger than {max_bytes} bytes", retry=False)
        chunks.append(chunk)
    return b"".join(chunks)


def load(workspace: Path, path: str, *, max_bytes: int) -> bytes:
    """Return the bytes of a file in the workspace.

    Args:
        workspace: the run's own directory.
        path: relative to it.
        max_bytes: a larger file is refused.

    Raises:
        ToolFailed: no such file, not a regular one, too large, or outside the workspace.
    """
    parts = _components(path)
    if not parts:
        raise ToolFailed(f"{path!r} is a directory", retry=False)
    with _opened(workspace, parts[:-1], path) as directory:
        # O_NONBLOCK: opening a named pipe must not wait for a writer.
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            descriptor = os.open(parts[-1], flags, dir_fd=directory)
        except FileNotFoundError:
            raise ToolFailed(f"there is no file {path!r} in the workspace", retry=False) from None
        except OSError as problem:
            raise ToolFailed(f"{path!r} cannot be opened: {problem.strerror}", retry=False) from problem
        try:
            return _read_all(descriptor, path, max_bytes)
        finally:
            os.close(descriptor)


@tool(side_effect_class="local")
def write_file(path: str, content: str | bytes, *, call: CallContext = INJECTED) -> StoredFile:
    """Write a file of the workspace atomically and return its path, SHA-256 and size.

    Args:
        path: relative to the workspace; missing directories are made, an existing file is replaced.
        content: text, written as UTF-8, or bytes.

    Raises:
        ToolFailed: the path leads out of the workspace (``..``, absolute, symbolic link) or names a
            directory.
    """
    return store(call.workspace, path, content.encode("utf-8") if isinstance(content, str) else content)


@tool(side_effect_class="read_only")
def read_file(path: str, max_bytes: int = MAX_READ_BYTES, *, call: CallContext = INJECTED) -> FileText:
    """Read a UTF-8 text file of the workspace and return its text with path, SHA-256 and size.

    Args:
        path: relative to the workspace.
        max_bytes: a larger file is refused.

    Raises:
        ToolFailed: no such file, not UTF-8, too large, or outside the workspace.
    """
    data = load(call.workspace, path, max_bytes=max_bytes)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        raise ToolFailed(f"{path!r} is not UTF-8 text", retry=False) from None
    return {
        "path": "/".join(_components(path)),
        "sha256": hashlib.sha256(data).hexdigest(),
        "size_bytes": len(data),
        "content": text,
    }


def _entry(found: os.DirEntry[str]) -> Entry:
    status = found.stat(follow_symlinks=False)
    kinds = {stat.S_IFREG: "file", stat.S_IFDIR: "directory", stat.S_IFLNK: "link"}
    kind = kinds.get(stat.S_IFMT(status.st_mode), "other")
    return {"name": found.name, "kind": kind, "size_bytes": status.st_size if kind == "file" else 0}


@tool(side_effect_class="read_only")
def list_dir(path: str = ".", *, call: CallContext = INJECTED) -> list[Entry]:
    """List a directory of the workspace by name; what a killed writer left half-written is not shown.

    Args:
        path: relative to the workspace.

    Raises:
        ToolFailed: no such directory, or outside the workspace.
    """
    with _opened(call.workspace, _components(path), path) as directory, os.scandir(directory) as found:
        entries = [_entry(item) for item in found if not item.name.startswith(_TEMPORARY_PREFIX)]
    return sorted(entries, key=lambda entry: entry["name"])
