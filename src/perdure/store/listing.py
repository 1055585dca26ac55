"""Rows for people who look: lists of calls, and what has changed in a run since somebody looked last."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from perdure.model.toolcall import Evidence
from perdure.ports.store import Row
from perdure.store.payloads import Payloads
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
        self._payloads = Payloads(statements)

    def request(self, call_no: int) -> str:
        """Return a request for people: marks stand where secrets were."""
        return self._text("stored_request", call_no) or "{}"

    def response(self, call_no: int) -> str | None:
        """Return a receipt's value for people: marks stand where secrets were."""
        return self._text("stored_response", call_no)

    def _text(self, name: str, call_no: int) -> str | None:
        for row in self._do.told(name, call_no=call_no):
            return self._payloads.load(row[0], told=True)
        return None

    def evidence(self, tool_call_id: str) -> list[Evidence]:
        """Return all evidence about a call for people: marks stand where secrets were."""
        return [Evidence(*row) for row in self._do.told("list_evidence", tool_call_id=tool_call_id)]

    def call(self, tool_call_id: str) -> Row | None:
        """Return a call for people, with request and response."""
        return next(iter(self._do.told("public_call", tool_call_id=tool_call_id)), None)

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
            return self._do.told("public_calls", **chosen)
        return self._do.told("public_calls_of_run", run_id=run_id, **chosen)
