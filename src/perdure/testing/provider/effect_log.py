"""The provider's append-only log, one JSON object a line: what the crash tests count."""

import json
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

Line = dict[str, Any]
COUNTED_EVENTS = ("effect", "read")
BEGINNING = "began_again"
UNNAMED = "unnamed"


def read_lines(path: Path) -> list[Line]:
    """Read every complete line of a log, whether or not its provider still runs.

    A last line without its newline is still being written (or was cut by a kill); its reply never left.
    """
    return [json.loads(line) for line in _whole_part(path).splitlines()]


def newest_part(lines: list[Line]) -> list[Line]:
    """Return the lines since the provider last began again; all of them where it never did."""
    starts = [at for at, line in enumerate(lines) if line["event"] == BEGINNING]
    return lines[starts[-1] + 1 :] if starts else lines


def count_lines(lines: Iterable[Line]) -> dict[str, dict[str, int]]:
    """Count effects (and reads) per path and per `what`, the name a test gave to a logical effect."""
    counts: dict[str, dict[str, int]] = {}
    for line in lines:
        if line["event"] in COUNTED_EVENTS:
            by_what = counts.setdefault(line["path"], {})
            by_what[line["what"]] = by_what.get(line["what"], 0) + 1
    return counts


class EffectLog:
    """Appends lines to one file, durably before `append` returns unless `fsync` is off.

    What an earlier provider process wrote to the same file is kept and is found in `lines`.
    """

    def __init__(self, path: Path, *, fsync: bool, on_append: Callable[[], None]) -> None:
        kept = _whole_part(path)
        self.lines: list[Line] = [json.loads(line) for line in kept.splitlines()]
        self._fsync = fsync
        self._on_append = on_append
        self._fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.ftruncate(self._fd, len(kept))

    def append(self, line: Line) -> Line:
        """Write one line in one system call and give it back with its number `n`."""
        numbered = {"n": len(self.lines) + 1, **line}
        data = _encoded(numbered)
        written = os.write(self._fd, data)
        if written != len(data):
            raise OSError(f"only {written} of {len(data)} bytes of a log line were written")
        if self._fsync:
            os.fdatasync(self._fd)
        self.lines.append(numbered)
        self._on_append()
        return numbered


def _whole_part(path: Path) -> bytes:
    if not path.exists():
        return b""
    data = path.read_bytes()
    return data[: data.rfind(b"\n") + 1]


def _encoded(line: Line) -> bytes:
    return json.dumps(line, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"
