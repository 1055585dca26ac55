"""What a folder lies on: SQLite's locks mean nothing on a network filesystem."""

from __future__ import annotations

from pathlib import Path

from perdure.core.doctor import NETWORK_FILESYSTEMS
from perdure.model.errors import StoreError

MOUNTS = Path("/proc/self/mounts")


def filesystem_of(folder: Path) -> str:
    """Return the kind of filesystem a folder lies on, ``unknown`` where the system does not tell."""
    try:
        mounts = MOUNTS.read_text(encoding="utf-8").splitlines()
    except OSError:
        return "unknown"
    best, kind = "", "unknown"
    for line in mounts:
        fields = line.split(" ")
        point = fields[1].replace("\\040", " ")
        if (f"{folder}/".startswith(point.rstrip("/") + "/")) and len(point) >= len(best):
            best, kind = point, fields[2]
    return kind


def refuse_network_filesystem(path: str) -> None:
    """Refuse a ledger on a network filesystem.

    Raises:
        StoreError: it lies on one.
    """
    kind = filesystem_of(Path(path).resolve().parent)
    if kind in NETWORK_FILESYSTEMS:
        raise StoreError(
            f"{path} lies on a {kind} filesystem, where SQLite's locks cannot be trusted",
            next_command="put the state directory on a local disk: --state-dir DIR",
        )
