"""What the person who watches the demo sees: one line for each thing that happened, on stderr."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable
from typing import TextIO

_SIGNS = {"kill": ("✗", "X"), "go on": ("→", "->"), "done": ("✓", "ok"), "ask": ("?", "?"), "": (" ", " ")}
_COLOURS = {"kill": "1;31", "go on": "1;34", "done": "32", "ask": "1;33"}


class Screen:
    """Writes lines with the seconds since the beginning.

    Args:
        stream: where to; stderr when left out. ASCII stands in for signs its encoding has not, and colour is used
            only on a terminal and without ``NO_COLOR``.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._began = time.monotonic()
        self._ascii = not _can_write(self._stream, "".join(sign for sign, _ in _SIGNS.values()))
        self._coloured = self._stream.isatty() and not os.environ.get("NO_COLOR")

    @property
    def seconds(self) -> float:
        """The seconds since the beginning."""
        return time.monotonic() - self._began

    def line(self, text: str, sign: str = "") -> None:
        """Write one line.

        Args:
            sign: ``kill``, ``go on``, ``done``, ``ask`` or nothing.
        """
        shown = f"{self.seconds:6.1f} s  {_SIGNS[sign][self._ascii]} {self.plain(text)}"
        if self._coloured and sign in _COLOURS:
            shown = f"\033[{_COLOURS[sign]}m{shown}\033[0m"
        self._write(shown)

    def block(self, text: str) -> None:
        """Write lines that another program said, set in."""
        for one in text.rstrip().splitlines():
            self._write(" " * 13 + self.plain(one))

    def lines(self, texts: Iterable[str]) -> None:
        """Write lines as they are, without a time."""
        for text in texts:
            self._write(self.plain(text))

    def plain(self, text: str) -> str:
        """Return ``text`` as this stream can write it."""
        if not self._ascii:
            return text
        for sign, instead in (*_SIGNS.values(), ("…", "...")):
            text = text.replace(sign, instead)
        return text.encode("ascii", "replace").decode("ascii")

    def _write(self, text: str) -> None:
        self._stream.write(text + "\n")
        self._stream.flush()


def _can_write(stream: TextIO, text: str) -> bool:
    try:
        text.encode(getattr(stream, "encoding", None) or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
