"""Rows for people who look: lists of calls, and what has changed in a run since somebody looked last."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from perdure.ports.store import Row
from perdure.store.statements import Statements


@dataclass(frozen=True, slots=True)
class CallFilter:
    """Which calls are listed.

    Args:
        status, side_effect_class: only these.
        tool: only tools of this name, which may hold ``*`` and ``?``.
        since: only calls that moved at this time or later.
        inner: memos and model turns as well.
        limit: at most so many.
    """

    status: str | None = None
    side_effect_class: str | None = None
    tool: str | None = None
    since: str | None = None
    inner: bool = False
    limit: int = 1000


class ListedRows:
    """What lists and watchers read; it writes nothing."""

    def __init__(self, statements: Statements) -> None:
        self._do = statements

    def call(self, tool_call_id: str) -> Row | None:
        """Return a call for people, with request and response."""
        return self._do.one("public_call", tool_call_id=tool_call_id)

    def calls(self, run_id: str | None, wanted: CallFilter) -> Iterator[Row]:
        """Yield calls for people, oldest first, of one run or of all."""
        chosen: dict[str, object] = {
            "inner": wanted.inner,
            "status": wanted.status,
            "side_effect_class": wanted.side_effect_class,
            "tool": wanted.tool,
            "since": wanted.since,
            "limit": wanted.limit,
        }
        if run_id is None:
            return self._do.rows("public_calls", **chosen)
        return self._do.rows("public_calls_of_run", run_id=run_id, **chosen)
