"""What a live fork knows of the runs it was forked from: effects that it has not inherited are kin (semantics #32).

They are challenged like the unmet effects of an earlier life, and never adopted. The parent may still be running, so
its rows are looked at again before each effect; this costs one query, and only in a fork.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from perdure.model.toolcall import CallKey, CallRow
from perdure.store.sql_store import SqlStore

ToolKey = tuple[str, str]


@dataclass(slots=True)
class Lineage:
    """The runs behind a fork, the nearest first; without any, nothing is ever looked up."""

    run_id: str = ""
    ancestors: tuple[str, ...] = ()
    _looked: dict[tuple[str, ToolKey], int] = field(default_factory=dict[tuple[str, ToolKey], int])
    _rows: dict[ToolKey, list[int]] = field(default_factory=dict[ToolKey, list[int]])

    def of_tool(self, key: CallKey) -> list[int]:
        """Return the numbers of the effects of one tool that stand in other runs, as far as they were looked at."""
        return self._rows.get((key.namespace, key.tool_name), [])

    def look(self, store: SqlStore, key: CallKey) -> list[CallRow]:
        """Return the effects of one tool that were added to the runs behind this one since it was last asked."""
        tool = (key.namespace, key.tool_name)
        found: list[CallRow] = []
        for ancestor in self.ancestors:
            place = (ancestor, tool)
            rows = store.origins.effects_elsewhere(self.run_id, ancestor, key, self._looked.get(place, 0))
            if rows:
                self._looked[place] = rows[-1].call_no
                found += rows
        if found:
            self._rows.setdefault(tool, []).extend(row.call_no for row in found)
        return found

    def is_elsewhere(self, row: CallRow) -> bool:
        """Return whether a row belongs to a run behind this one."""
        return row.run_id in self.ancestors
