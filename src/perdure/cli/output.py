"""What goes to stdout (one document, or tables for people) and what goes to stderr (everything else)."""

from __future__ import annotations

import io
import json
import os
import shutil
import sys
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from typing import IO, Any

from perdure.cli.widths import display_width, fitted, narrowed
from perdure.model.errors import PerdureError

_COLOURS = {
    "succeeded": "32",
    "failed": "31",
    "in_doubt": "33;1",
    "awaiting_approval": "33",
    "waiting": "33",
    "running": "36",
    "abandoned": "31",
    "cancelled": "2",
}
_GAP = "  "
_UNITS = ((86_400, "d"), (3_600, "h"), (60, "m"))


class Output:
    """The answer of one command.

    Args:
        form: ``table``, ``json`` or ``jsonl``.
        stdout: where the answer goes; the process's own when left out.
        environ: ``NO_COLOR`` and ``TERM`` are looked up in it.
        width: columns of the terminal; asked of it when left out. What is no terminal has no width.
    """

    def __init__(
        self,
        form: str,
        *,
        stdout: IO[str] | None = None,
        environ: Mapping[str, str] | None = None,
        width: int | None = None,
    ) -> None:
        env = os.environ if environ is None else environ
        self.form = form
        self.flags = ""  # what a printed command needs to reach the same ledger
        self._stdout = sys.stdout if stdout is None else stdout
        self._tty = bool(self._stdout) and self._stdout.isatty()
        self._colour = self._tty and not env.get("NO_COLOR") and env.get("TERM") != "dumb"
        self._width = width
        self.relative_times = self._tty
        for stream in (self._stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors="backslashreplace")

    @property
    def is_table(self) -> bool:
        """Whether a person reads the answer."""
        return self.form == "table"

    def answer(self, document: Mapping[str, Any], text: Callable[[], str], *, rows: str | None = None) -> None:
        """Print the one answer of the command.

        Args:
            document: printed for ``json``.
            text: makes what is printed for ``table``.
            rows: the key of a list in the document; ``jsonl`` prints its items, one a line.

        Raises:
            PerdureError: stdout cannot be written to.
        """
        if self.form == "json":
            self._write(json.dumps(document, indent=2) + "\n")
        elif self.form == "jsonl":
            items: Iterable[Any] = [document] if rows is None else document[rows]
            self._write("".join(json.dumps(item) + "\n" for item in items))
        else:
            self._write(text())

    @property
    def stdout(self) -> IO[str]:
        """Where the answer goes."""
        return self._stdout

    def lines(self, lines: Iterable[str]) -> None:
        """Print lines of an answer that comes bit by bit.

        Raises:
            PerdureError: stdout cannot be written to.
        """
        self._write("".join(f"{line}\n" for line in lines))

    def _write(self, text: str) -> None:
        from perdure.runtime.secrets import said

        if not self._stdout:
            return
        text = said(text)
        try:
            self._stdout.write(text)
            self._stdout.flush()
        except BrokenPipeError:
            # Whoever read it has seen enough; the interpreter must not complain when it flushes at exit.
            os.dup2(_nowhere(), self._stdout.fileno())
        except OSError as problem:
            raise PerdureError(f"the answer cannot be written to stdout: {problem}") from problem

    def table(self, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
        """Return aligned columns; nothing where there is no row.

        On a terminal the widest columns give way until a line fits; elsewhere nothing is ever cut.
        """
        cells = [[visible("" if cell is None else str(cell)) for cell in row] for row in rows]
        if not cells:
            return ""
        widths = [max(map(display_width, column)) for column in zip(header, *cells, strict=True)]
        if self._tty:
            least = [widths[0], *(len(name) for name in header[1:])]  # an id that is cut cannot be typed
            widths = narrowed(widths, least, self._columns() - len(_GAP) * (len(header) - 1))
        lines = [_GAP.join(name.ljust(width) for name, width in zip(header, widths, strict=True))]
        for row in cells:
            padded = (self._painted(fitted(cell, width), width) for cell, width in zip(row, widths, strict=True))
            lines.append(_GAP.join(padded))
        return "".join(line.rstrip() + "\n" for line in lines)

    def _columns(self) -> int:
        return self._width or shutil.get_terminal_size().columns

    def _painted(self, cell: str, width: int) -> str:
        return self.paint(cell) + " " * (width - display_width(cell))

    def paint(self, text: str) -> str:
        """Return a state in its colour, on a terminal that wants colours."""
        code = _COLOURS.get(text.partition(" ")[0])
        return f"\x1b[{code}m{text}\x1b[0m" if code and self._colour else text

    def when(self, moment: str | None) -> str:
        """Return a time: how long ago on a terminal, ISO-8601 elsewhere, unless ``relative_times`` says otherwise."""
        if moment is None or not self.relative_times:
            return moment or ""
        from perdure.ports.clock import SystemClock, seconds_between

        return ago(seconds_between(moment, SystemClock().now()))

    @contextmanager
    def to_itself(self) -> Generator[None]:
        """Send what other code prints on stdout to stderr, where the answer must be the only thing there."""
        if self.is_table or _descriptor(self._stdout) != 1:
            yield
            return
        sys.stdout.flush()
        kept = os.dup(1)
        os.dup2(2 if sys.stderr else _nowhere(), 1)
        try:
            yield
        finally:
            sys.stdout.flush()
            os.dup2(kept, 1)
            os.close(kept)


def note(*lines: str) -> None:
    """Print lines on stderr, where anybody listens."""
    from perdure.runtime.secrets import said

    try:
        for line in said("\n".join(lines)).split("\n") if lines else ():
            if sys.stderr:
                print(visible(line), file=sys.stderr)
    except BrokenPipeError:
        os.dup2(_nowhere(), sys.stderr.fileno())


def _nowhere() -> int:
    return os.open(os.devnull, os.O_WRONLY)


def _descriptor(stream: IO[str] | None) -> int | None:
    try:
        return stream.fileno() if stream else None
    except (OSError, ValueError):
        return None


def visible(text: str) -> str:
    """Return text without characters that could move the cursor or hide what stands there."""
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


def ago(seconds: float) -> str:
    """Return a span of the past as one short word."""
    for size, unit in _UNITS:
        if seconds >= size:
            return f"{int(seconds // size)}{unit} ago"
    return f"{max(0, int(seconds))}s ago"


def fields(pairs: Iterable[tuple[str, str | None]], *, indent: str = "") -> str:
    """Return ``name  value`` lines, without those that have no value."""
    said = [(name, value) for name, value in pairs if value]
    width = max((len(name) for name, _ in said), default=0)
    return "".join(f"{indent}{name.ljust(width)}  {visible(value)}\n" for name, value in said)


def shown(tagged: Any) -> str:
    """Return a JSON value on one line, as a person reads it."""
    return json.dumps(tagged, ensure_ascii=False)
