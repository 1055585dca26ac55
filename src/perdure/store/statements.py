"""Named statements over a connection: the only place where SQL text meets parameters."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from importlib import resources
from typing import Any

from perdure.model.errors import LeaseLost, StoreError
from perdure.ports.store import CrashPoint, Row, SqlConnection, no_crash_point


@lru_cache(maxsize=4)
def load_queries(dialect: str) -> dict[str, str]:
    """Return the statements of ``store/<dialect>/queries.sql`` by name, with their shared lists of columns."""
    text = resources.files("perdure.store").joinpath(dialect, "queries.sql").read_text(encoding="utf-8")
    parts = re.split(r"^-- (name|columns): (\w+)\n", text, flags=re.MULTILINE)[1:]
    blocks = [(kind, name, sql.strip()) for kind, name, sql in zip(parts[::3], parts[1::3], parts[2::3], strict=True)]
    columns = {"{" + name + "}": sql for kind, name, sql in blocks if kind == "columns"}
    return {name: _fill(sql, columns) for kind, name, sql in blocks if kind == "name"}


def _fill(sql: str, columns: dict[str, str]) -> str:
    for mark, listed in columns.items():
        sql = sql.replace(mark, listed)
    return sql


class Statements:
    """Runs named statements; a write that must hit one row says so here."""

    def __init__(self, connection: SqlConnection, dialect: str, crash_point: CrashPoint = no_crash_point) -> None:
        self.connection = connection
        self._sql = load_queries(dialect)
        self._crash_point = crash_point
        self._watched = crash_point is not no_crash_point

    def rows(self, name: str, /, **parameters: Any) -> Iterator[Row]:
        """Yield the rows of a named query."""
        return self.connection.rows(self._sql[name], parameters)

    def one(self, name: str, /, **parameters: Any) -> Row | None:
        """Return the first row of a named query, or ``None``."""
        for row in self.connection.rows(self._sql[name], parameters):
            return row
        return None

    def value(self, name: str, /, **parameters: Any) -> Any:
        """Return the one value of a query that always has a row."""
        row = self.one(name, **parameters)
        if row is None:
            raise StoreError(f"the query {name} found no row")
        return row[0]

    def write(self, name: str, /, **parameters: Any) -> int:
        """Run a named write and return how many rows it changed."""
        if self._watched:
            self._crash_point(f"before {name}")
        return self.connection.write(self._sql[name], parameters)

    def last_row(self) -> int:
        """Return the number of the row that was inserted last."""
        return self.connection.last_row()

    def write_one(self, name: str, /, **parameters: Any) -> None:
        """Run a named write that must change exactly one row.

        Raises:
            LeaseLost: it changed none, because another owner has the run or the row has moved on.
        """
        changed = self.write(name, **parameters)
        if changed != 1:
            subject = parameters.get("tool_call_id") or parameters.get("run_id") or parameters.get("call_no")
            raise LeaseLost(f"the write {name} of {subject} was refused: this process no longer owns the run")
