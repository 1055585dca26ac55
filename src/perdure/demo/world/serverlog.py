"""The append-only log of each server: one JSON object a line, durable before the reply leaves."""

from __future__ import annotations

import json
import os
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Self, cast

LogLine = dict[str, object]


class ServerLog:
    """One server's log; a line is on stable storage when ``append`` returns.

    Args:
        path: the file; its folder is made. An existing log is continued; ``before`` holds its lines.
    """

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.before = read_log(path)
        is_torn = path.exists() and path.read_bytes()[-1:] not in {b"", b"\n"}
        self._lock = threading.Lock()
        self._file = path.open("ab")
        if is_torn:
            # The line of a server killed while writing was never answered for; it must not swallow the next
            # one.
            self._file.write(b"\n")

    def append(self, event: str, **fields: object) -> None:
        """Write one line and wait until it is on stable storage.

        Args:
            event: what happened, in one word.
            fields: what is known about it; JSON values only.
        """
        with self._lock:
            told = {"at": datetime.now(UTC).isoformat(timespec="microseconds"), "event": event, **fields}
            self._file.write(json.dumps(told, ensure_ascii=False).encode() + b"\n")
            self._file.flush()
            os.fsync(self._file.fileno())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


def read_log(path: Path) -> list[LogLine]:
    """Return the lines of a log, oldest first; one torn by a kill was never answered for and is left out."""
    lines: list[LogLine] = []
    if not path.exists():
        return lines
    for raw in path.read_bytes().splitlines():
        try:
            line: object = json.loads(raw)
        except ValueError:
            continue
        if isinstance(line, dict):
            lines.append(cast("LogLine", line))
    return lines
