"""Files that belong to what a call is: the same name with other bytes is another effect (R054).

A tool names the arguments that are paths (``@tool(files=["attachments"])``). The SHA-256 of what they lead to, when the
call is asked for, is part of its identity and of its stored request, so that an earlier receipt never stands for bytes
that were not sent, and a consent holds for the bytes that it was given for.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, cast

from perdure.core.identity import FILES
from perdure.ports.tool import ToolFailed
from perdure.runtime.registry import AnyTool

Digests = Mapping[str, str | None]
"""SHA-256 by path as the call names it; ``None`` where there was no file."""
NOTHING: Digests = {}
_BLOCK_BYTES = 1 << 20


def digests(tool: AnyTool, arguments: Mapping[str, Any], workspace: Path, volatile: Iterable[str] = ()) -> Digests:
    """Return what the files hold now that a call names in the arguments declared for it.

    Args:
        arguments: of the call; a path, or a list of them, relative to the workspace or absolute.
        volatile: names that do not belong to a call's identity, and whose files do not either.
    """
    names = [name for name in tool.declaration.files if name not in volatile]
    if not names:
        return NOTHING
    return {path: _digest(workspace / path) for name in names for path in _paths(arguments.get(name))}


def _paths(value: Any) -> Iterable[str]:
    if isinstance(value, str):
        return (value,)
    if isinstance(value, list | tuple | set | frozenset):
        return sorted(item for item in cast("Iterable[Any]", value) if isinstance(item, str))
    return ()


def _digest(file: Path) -> str | None:
    found = hashlib.sha256()
    try:
        # O_NONBLOCK: opening a named pipe must not wait for a writer.
        with open(os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb", buffering=0) as stream:
            if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
                return None
            while block := stream.read(_BLOCK_BYTES):
                found.update(block)
    except (OSError, ValueError):  # the latter: a name that no file can have
        return None
    return found.hexdigest()


def changed(workspace: Path, recorded: Digests) -> str:
    """Return which file holds other bytes than were recorded, in a sentence, or nothing.

    One that was not there when the call was asked for may hold anything: a model asks at once for a file to be written
    and to be sent.
    """
    for path, known in recorded.items():
        if known is not None and (now := _digest(workspace / path)) != known:
            held = f"holds sha256 {now}" if now else "is gone"
            return f"the file {path} {held}, and the call was asked for with sha256 {known}"
    return ""


def taken_out(stored: Any) -> tuple[dict[str, Any], Digests]:
    """Return the arguments of a stored request, and the digests of its files."""
    arguments: dict[str, Any] = dict(stored)
    return arguments, arguments.pop(FILES, NOTHING)


def as_recorded(workspace: Path, stored: Any) -> dict[str, Any]:
    """Return the arguments of a stored request that is about to be sent.

    Raises:
        ToolFailed: a file of it holds other bytes: a request goes out as it was recorded or not at all.
    """
    arguments, recorded = taken_out(stored)
    problem = changed(workspace, recorded)
    if problem:
        raise ToolFailed(f"not sent: {problem}", retry=False)
    return arguments
