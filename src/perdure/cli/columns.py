"""Tables of which a person may choose the columns."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from perdure.cli.output import Output
from perdure.model.errors import UsageError

Cell = Callable[[Mapping[str, Any]], Any]


class Columns:
    """The columns of one list, by name.

    Args:
        cells: what stands in each of them; the name in capitals is its header.
        usual: those that are shown when nobody chooses.
    """

    def __init__(self, cells: Mapping[str, Cell], usual: Iterable[str]) -> None:
        self._cells = cells
        self._usual = tuple(usual)

    def chosen(self, text: str | None, output: Output) -> tuple[str, ...]:
        """Return the names that ``--columns`` lists.

        Raises:
            UsageError: there is no such column, or no table is printed.
        """
        if text is None:
            return self._usual
        if not output.is_table:
            raise UsageError(f"--columns belongs to tables; -o {output.form} prints every field")
        names = tuple(name.strip().lower() for name in text.split(","))
        for name in names:
            if name not in self._cells:
                near = difflib.get_close_matches(name, self._cells, n=1, cutoff=0.5)
                hint = f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(self._cells)}"
                raise UsageError(f"--columns: there is no column {name!r}; {hint}")
        return names

    def table(self, output: Output, names: Iterable[str], rows: Iterable[Mapping[str, Any]]) -> str:
        """Return the table of these columns."""
        listed = tuple(names)
        cells = ([self._cells[name](row) for name in listed] for row in rows)
        return output.table([name.upper() for name in listed], cells)


def of(name: str) -> Cell:
    """Return the cell that shows one field as it stands."""
    return lambda row: row[name]


def time_of(output: Output, name: str) -> Cell:
    """Return the cell that shows a time."""
    return lambda row: output.when(row[name])
