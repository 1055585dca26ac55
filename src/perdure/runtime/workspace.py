"""The folder of a run: where its files are, and how they are written so that a crash leaves the old one or the new one.

Everything here is an export. The rows are the truth; a file may be deleted or damaged, and the run goes on.
"""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from perdure.model.artifact import Artifact
from perdure.runtime.secrets import said

RUN_LOG = "run.log"
TRANSCRIPT = "transcript.md"
RESTART = "restart.sh"
WORK_PRODUCTS = "work_products"
TEMPORARY_PREFIX = ".perdure-tmp-"
"""Of files that are being written; the toolbox does not list them."""
PRIVATE, PRIVATE_PROGRAM = 0o600, 0o700


def packet_name(run_id: str) -> str:
    """Return the name of a run's resume packet."""
    return f"resume_packet_{run_id}.md"


def completion_names(run_id: str) -> tuple[str, str]:
    """Return the names of a run's completion report, the page and the JSON document."""
    return f"job_completion_{run_id}.md", f"job_completion_{run_id}.json"


def write_whole(path: Path, text: str, mode: int = PRIVATE) -> None:
    """Put a text at ``path``, whole or not at all; what stood there, a link too, is replaced.

    The folder itself is not synced: a lost rename leaves the older file, which is written anew from the rows.

    Raises:
        OSError: it cannot be written, or its folder is a link, which could lead anywhere.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = f"{TEMPORARY_PREFIX}{secrets.token_hex(8)}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with _inside(path.parent) as folder:
        descriptor = os.open(temporary, flags, mode, dir_fd=folder)
        try:
            try:
                told = text if mode != PRIVATE else said(text)
                _write_all(descriptor, told.encode("utf-8", "backslashreplace"))
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            os.replace(temporary, path.name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary, dir_fd=folder)
            raise


def append(path: Path, text: str) -> None:
    """Add a text to the end of a file; a tool that has put a link there, or for its folder, leads it nowhere else.

    Raises:
        OSError: it cannot be written, or it or its folder is a link.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
    with _inside(path.parent) as folder:
        descriptor = os.open(path.name, flags, PRIVATE, dir_fd=folder)
    try:
        _write_all(descriptor, said(text).encode("utf-8", "backslashreplace"))
    finally:
        os.close(descriptor)


@contextmanager
def _inside(folder: Path) -> Generator[int]:
    """Open a folder that is no link: what is done by this handle stays in it, whatever is put in its place."""
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        if folder.is_symlink():
            raise OSError(errno.ELOOP, "is a link, and a run writes its files there", str(folder)) from None
        raise
    try:
        yield handle
    finally:
        os.close(handle)


def tail(path: Path, most_bytes: int) -> str:
    """Return the end of a file, or nothing where there is none that can be read."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - most_bytes))
            return file.read().decode("utf-8", "replace")
    except OSError:
        return ""


def inside(workspace: Path, path: str) -> Path | None:
    """Return a path of the workspace, or ``None`` where it leads out of it."""
    file = workspace / path
    return file if file.resolve().is_relative_to(workspace.resolve()) else None


def measure(workspace: Path, path: str) -> Artifact | None:
    """Return what a file of the workspace holds now, or ``None`` where there is none."""
    file = inside(workspace, path)
    if file is None or not file.is_file():
        return None
    digest, size = hashlib.sha256(), 0
    with file.open("rb") as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
            size += len(block)
    return Artifact(path, digest.hexdigest(), size)


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
