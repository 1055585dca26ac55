"""A file that a run has made: its path in the workspace, and what it held when it was recorded (R061, C17)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class FileState(StrEnum):
    """What a look at the file says, beside its recorded hash."""

    PRESENT = "present"
    CHANGED = "changed"
    MISSING = "missing"
    UNREAD = "not read"
    """It is there and has its size; it was too large to be read for a look."""


@dataclass(frozen=True, slots=True)
class Artifact:
    """A recorded file.

    Args:
        path: relative to the workspace.
        sha256: of its bytes, in hexadecimal.
        size_bytes: its length.
        created_at: when it was recorded; empty for one that is about to be.
        tool_call_id: the call whose receipt names it, or ``None`` where the program recorded it itself.
    """

    path: str
    sha256: str
    size_bytes: int
    created_at: str = ""
    tool_call_id: str | None = None


@dataclass(frozen=True, slots=True)
class CheckedArtifact:
    """A recorded file with what a look at it said."""

    artifact: Artifact
    state: FileState
