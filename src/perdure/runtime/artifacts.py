"""Files that a run has made: recorded with their hash, looked at when it goes on, made again where lost (R061).

A receipt of an effect stands, whatever became of a file. A file that a local tool has made is work that can be done
again, and nothing else is (C17).
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from typing import Any

from perdure.model.artifact import Artifact, CheckedArtifact, FileState
from perdure.model.toolcall import INNER_NAMESPACES, CallRow, CallStatus, SideEffectClass
from perdure.runtime.life import Life
from perdure.runtime.workspace import inside, measure
from perdure.store.sql_store import SqlStore

READ_BYTES = 64 * 1024 * 1024
"""How much is read at most for one look at the artifacts of a run; of the rest only existence and size are told."""


def is_lost(life: Life, store: SqlStore, row: CallRow) -> bool:
    """Return whether a receipt of an earlier life names a file of the workspace that is not there any more.

    Only a local call is made again for it, and only its receipt is read: an object with ``path`` and ``sha256`` names a
    file. One that has other bytes now was written by a later call.
    """
    if not _makes_files(row) or row.status is not CallStatus.SUCCEEDED:
        return False
    named = _named(store.calls.response(row.call_no))
    if named is None:
        return False
    file = inside(life.workspace, named.path)
    return file is not None and not file.exists()


def _makes_files(row: CallRow) -> bool:
    return row.side_effect_class is SideEffectClass.LOCAL and row.tool_namespace not in INNER_NAMESPACES


def _named(receipt: str | None) -> Artifact | None:
    """Return the file that a receipt names."""
    if receipt is None or '"sha256"' not in receipt:
        return None
    said: Any = json.loads(receipt)
    if not hasattr(said, "get"):
        return None
    path, digest, size = said.get("path"), said.get("sha256"), said.get("size_bytes")
    if not isinstance(path, str) or not isinstance(digest, str):
        return None
    return Artifact(path, digest, size if isinstance(size, int) else -1)


def record_of_receipt(life: Life, store: SqlStore, row: CallRow, receipt: str) -> None:
    """Record the file that a local tool's receipt names, in the transaction of the receipt."""
    named = _named(receipt) if _makes_files(row) else None
    if named is None or not _is_plain(named.path):
        return
    if named.size_bytes < 0:
        measured = measure(life.workspace, named.path)
        named = Artifact(named.path, named.sha256, measured.size_bytes if measured else 0)
    _record(life, store, named, row.tool_call_id)


def _is_plain(path: str) -> bool:
    return bool(path) and not path.startswith("/") and ".." not in PurePosixPath(path).parts


def record(life: Life, store: SqlStore, found: Artifact) -> None:
    """Record a file that the program, or the job, names itself."""
    _record(life, store, found, None)


def _record(life: Life, store: SqlStore, found: Artifact, tool_call_id: str | None) -> None:
    store.steps.add_artifact(
        life.run_id,
        life.fence,
        path=found.path,
        sha256=found.sha256,
        size_bytes=found.size_bytes,
        tool_call_id=tool_call_id,
        now=life.now(),
    )


def check(workspace: Path, artifacts: Iterable[Artifact]) -> tuple[CheckedArtifact, ...]:
    """Look at recorded files and say of each whether it is there with the bytes that were recorded."""
    left, checked = READ_BYTES, list[CheckedArtifact]()
    for artifact in artifacts:
        state = _state(workspace, artifact, left)
        if state in (FileState.PRESENT, FileState.CHANGED):
            left -= artifact.size_bytes
        checked.append(CheckedArtifact(artifact, state))
    return tuple(checked)


def _state(workspace: Path, artifact: Artifact, left_bytes: int) -> FileState:
    try:
        file = inside(workspace, artifact.path)
        if file is None or not file.is_file():
            return FileState.MISSING
        if file.stat().st_size != artifact.size_bytes:
            return FileState.CHANGED
        if artifact.size_bytes > left_bytes:
            return FileState.UNREAD
        found = measure(workspace, artifact.path)
    except OSError:
        return FileState.MISSING
    if found is None:
        return FileState.MISSING
    return FileState.PRESENT if found.sha256 == artifact.sha256 else FileState.CHANGED
