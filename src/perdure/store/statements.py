"""Named statements over a connection: the only place where SQL text meets parameters."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from importlib import resources
from typing import Any

from perdure.core.marks import MARK_BEGIN
from perdure.core.redact import Redactor
from perdure.model.errors import LeaseLost, SecretUnavailable, StoreError
from perdure.ports.store import CrashPoint, Row, SqlConnection, no_crash_point
from perdure.store.vault import Vault

# Parameters in which no free text can stand: ids, words of ours, hashes, times, and names that are looked up.
_IDS = """approval_id artifact_id call_no caused_by checkpoint_id ended_by fence idempotency_key key parent_call_id
parent_run_id repeat_of run_id same_as step_id tool_call_id trigger_id"""
_WORDS = """calls entries entrypoint guarantee how kind namespace reason replay_policy says side_effect_class status
to_status type"""
_HASHES = """args_hash before changes fingerprint request_hash request_mark response_mark sha256 spec_hash bytes"""
_TIMES = """deadline_at expires expires_at finished_at key_expires_at not_before now started_at valid_until"""
_NAMES = """actor branch dedupe_key job_path name owner path phase policies policy_rule prefix raw_tool_name since
tool tool_name value workspace"""
_PLAIN = frozenset(" ".join((_IDS, _WORDS, _HASHES, _TIMES, _NAMES)).split())
# Nobody needs these exactly: a mark that carries nothing stands in them.
_TOLD = frozenset({"error_detail", "summary"})
# Read as they are stored: hashes are made of it, or no text is in it and it is read in bulk.
_AS_STORED = frozenset({"index_calls", "unsealed_calls", "calls_not_looked_at", "stored_bodies"})
_AUDIT = "audit_"
_PARAMETER = re.compile(r"(?<![:\w]):(\w+)")


@lru_cache(maxsize=4)
def load_queries(dialect: str) -> dict[str, str]:
    """Return the statements of ``store/<dialect>/queries.sql`` by name, with their shared lists of columns."""
    text = resources.files("perdure.store").joinpath(dialect, "queries.sql").read_text(encoding="utf-8")
    parts = re.split(r"^-- (name|columns): (\w+)\n", text, flags=re.MULTILINE)[1:]
    blocks = [(kind, name, sql.strip()) for kind, name, sql in zip(parts[::3], parts[1::3], parts[2::3], strict=True)]
    columns = {"{" + name + "}": sql for kind, name, sql in blocks if kind == "columns"}
    return {name: _fill(sql, columns) for kind, name, sql in blocks if kind == "name"}


@lru_cache(maxsize=4)
def _texts(dialect: str) -> dict[str, tuple[str, ...]]:
    """Return which parameters of each statement hold text: all that are not known to hold none."""
    return {name: tuple(sorted(set(_PARAMETER.findall(sql)) - _PLAIN)) for name, sql in load_queries(dialect).items()}


def _fill(sql: str, columns: dict[str, str]) -> str:
    for mark, listed in columns.items():
        sql = sql.replace(mark, listed)
    return sql


class Statements:
    """Runs named statements; a write that must hit one row says so here.

    Secrets leave a text here on its way to the rows, and come back on the way from them: no text goes by another way.
    """

    def __init__(
        self,
        connection: SqlConnection,
        dialect: str,
        crash_point: CrashPoint = no_crash_point,
        vault: Vault | None = None,
    ) -> None:
        self.connection = connection
        self.vault = vault or Vault(None, Redactor())
        self._sql = load_queries(dialect)
        self._texts = _texts(dialect)
        self._crash_point = crash_point
        self._watched = crash_point is not no_crash_point

    def rows(self, name: str, /, **parameters: Any) -> Iterator[Row]:
        """Yield the rows of a named query, their texts as they were before they were stored."""
        found = self.connection.rows(self._sql[name], self._hidden(name, parameters))
        as_stored = name in _AS_STORED or name.startswith(_AUDIT)
        return found if as_stored else map(self._exact, found)

    def seen(self, name: str, /, **parameters: Any) -> Iterator[Row]:
        """Yield the rows of a named query for those who look: marks stand in a row whose key is gone."""
        for row in self.connection.rows(self._sql[name], self._hidden(name, parameters)):
            try:
                yield self._exact(row)
            except SecretUnavailable:
                yield self._for_people(row)

    def told(self, name: str, /, **parameters: Any) -> Iterator[Row]:
        """Yield the rows of a named query for people: marks stand where secrets were."""
        found = self.connection.rows(self._sql[name], self._hidden(name, parameters))
        return map(self._for_people, found)

    def _for_people(self, row: Row) -> Row:
        return tuple(self.vault.told(value) if isinstance(value, str) else value for value in row)

    def _exact(self, row: Row) -> Row:
        for value in row:
            if type(value) is str and MARK_BEGIN in value:
                return tuple(self.vault.reveal(value) if isinstance(value, str) else value for value in row)
        return row

    def _hidden(self, name: str, parameters: dict[str, Any]) -> dict[str, Any]:
        for text in self._texts[name]:
            given = parameters.get(text)
            if type(given) is str:
                parameters[text] = self.vault.shown(given) if text in _TOLD else self.vault.hide(given)
        return parameters

    def one(self, name: str, /, **parameters: Any) -> Row | None:
        """Return the first row of a named query, or ``None``."""
        for row in self.rows(name, **parameters):
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
        hidden = self._hidden(name, parameters)
        if self.vault.unwitnessed is not None:  # with the first secret the ledger learns by which key it is hidden
            self.connection.write(self._sql["witness_key"], {"value": self.vault.unwitnessed})
            self.vault.witness()
        return self.connection.write(self._sql[name], hidden)

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
