"""One block of lines at the bottom of a terminal, drawn again in its place, below whatever else is printed."""

from __future__ import annotations

import shutil
import sys
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import IO, Any

from perdure.cli.widths import display_width, fitted

_UP = "\x1b[{}A"
_CLEAR_BELOW = "\r\x1b[J"


def size_of_terminal(stream: IO[str]) -> tuple[int, int]:
    """Return columns and lines of a terminal."""
    found = shutil.get_terminal_size()
    return max(20, found.columns), max(4, found.lines)


def can_redraw(stream: IO[str] | None, environ: Mapping[str, str]) -> bool:
    """Return whether a stream is a terminal that understands how to move the cursor."""
    return stream is not None and stream.isatty() and environ.get("TERM", "") not in ("", "dumb")


def speaks_unicode(stream: IO[str]) -> bool:
    """Return whether a stream can write the characters of a drawn bar."""
    try:
        "█░…·".encode(getattr(stream, "encoding", None) or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


class Block:
    """Lines that replace what they were before.

    Args:
        stream: a terminal.
        size: tells its columns and lines now; a person may change them.
    """

    def __init__(self, stream: IO[str], size: Callable[[IO[str]], tuple[int, int]] = size_of_terminal) -> None:
        self._stream = stream
        self._size = size
        self._drawn: list[str] = []
        self._lock = threading.RLock()
        self._held_back = False
        self._cut = "…" if speaks_unicode(stream) else "~"

    def draw(self, lines: Sequence[str]) -> None:
        """Show these lines in place of those before; what does not fit is cut, in width and in height."""
        columns, rows = self._size(self._stream)
        with self._lock:
            if self._held_back:
                return
            shown = [fitted(line, columns - 1, self._cut) for line in lines[: rows - 1]]
            text = self._erasing(columns) + "".join(f"{line}\n" for line in shown)
            self._drawn = shown
            self._write(text)

    def erase(self) -> None:
        """Take the lines away, as if they had never been there."""
        with self._lock:
            text = self._erasing(self._size(self._stream)[0])
            self._drawn = []
            self._write(text)

    def _erasing(self, columns: int) -> str:
        if not self._drawn:
            return ""
        # A terminal that became narrower has wrapped what was drawn.
        rows = sum(max(1, -(-display_width(line) // columns)) for line in self._drawn)
        return _UP.format(rows) + _CLEAR_BELOW

    def above(self, stream: IO[str], text: str) -> int:
        """Write what others print above the block; it comes back behind the end of their line."""
        with self._lock:
            self.erase()
            written = stream.write(text)
            if text:
                self._held_back = not text.endswith("\n")
            return written

    def _write(self, text: str) -> None:
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError):
            self._held_back = True  # the terminal is gone; nothing depends on it


class Above:
    """Stands for a stream on the same terminal: what is written to it appears above the block."""

    def __init__(self, stream: IO[str], block: Block) -> None:
        self._stream = stream
        self._block = block

    def write(self, text: str) -> int:
        """Write above the block."""
        return self._block.above(self._stream, text)

    def writelines(self, lines: Any) -> None:
        """Write lines above the block."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def printed_above(block: Block) -> Generator[None]:
    """Let what this process prints on a terminal appear above a block."""
    before = sys.stdout, sys.stderr
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is not None and stream.isatty():
            setattr(sys, name, Above(stream, block))
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before
