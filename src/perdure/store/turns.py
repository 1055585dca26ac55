"""Rows of exact handles: which call of which turn of a model stands for which row (F2)."""

from __future__ import annotations

from perdure.model.run import Authority
from perdure.store.statements import Statements


class TurnRows:
    """The ``turn_calls`` table."""

    def __init__(self, statements: Statements) -> None:
        self._do = statements

    def bind(self, handle: tuple[str, int], tool_call_id: str, authority: Authority, *, adopted: bool) -> None:
        """Let a handle stand for a row, in place of what it stood for."""
        parent_call_id, call_index = handle
        self._do.write_one(
            "bind_turn_call",
            parent_call_id=parent_call_id,
            call_index=call_index,
            tool_call_id=tool_call_id,
            adopted=int(adopted),
            run_id=authority.run_id,
            fence=authority.fence,
        )

    def unbind(self, tool_call_id: str, authority: Authority) -> int:
        """Take a row away from the handles that stand for it, because another call has adopted it."""
        run_id, fence = authority
        return self._do.write("unbind_turn_calls", tool_call_id=tool_call_id, run_id=run_id, fence=fence)

    def find(self, handle: tuple[str, int]) -> tuple[int, bool] | None:
        """Return the number of the row that a handle stands for, and whether it was adopted."""
        row = self._do.one("get_turn_call", parent_call_id=handle[0], call_index=handle[1])
        return (row[0], bool(row[1])) if row else None
