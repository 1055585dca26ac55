"""Rows for people who look: lists of calls, and what has changed in a run since somebody looked last."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from perdure.model.run import RunRow
from perdure.model.toolcall import Evidence
from perdure.ports.store import Row
from perdure.store.payloads import Payloads
from perdure.store.runs import run_of
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

    def done_runs(self) -> dict[str, int]:
        """Return how many runs have succeeded or were cancelled."""
        return {row[0]: row[1] for row in self._do.rows("count_done_runs")}

    def run(self, run_id: str) -> RunRow | None:
        """Return one run for those who look: nothing is sent of it, and where the key is gone its texts have marks."""
        row = next(self._do.seen("get_run", run_id=run_id), None)
        return run_of(row) if row else None

    def result(self, run_id: str) -> str | None:
        """Return the result of a run as it was.

        Raises:
            SecretUnavailable: a secret is in it, and the key is gone.
        """
        row = self._do.one("stored_result", run_id=run_id)
        return None if row is None or row[0] is None else str(row[0])

    def told_result(self, run_id: str) -> str | None:
        """Return the result of a run for people: marks stand where secrets were."""
        row = next(self._do.told("stored_result", run_id=run_id), (None,))
        return None if row[0] is None else str(row[0])

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

    def tools_of_calls(self, run_id: str | None) -> Iterator[tuple[int, str, str, str]]:
        """Yield number, id, namespace and tool of each call, oldest first.

        Args:
            run_id: only of this run.
        """
        for row in self._do.rows("tools_of_calls", run_id=run_id):
            yield row[0], row[1], row[2], row[3]

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


class WatchedRows:
    """What has changed in a run since somebody looked; the cost of a look does not grow with the run's history."""

    def __init__(self, statements: Statements) -> None:
        self._do = statements

    def version(self) -> int:
        """Return a number that another connection's commit changes."""
        return int(self._do.value("data_version"))

    def _first(self, name: str, **parameters: object) -> Row | None:
        """Return the first row of a query for people: marks stand where secrets were."""
        return next(iter(self._do.told(name, **parameters)), None)

    def run(self, run_id: str) -> Row | None:
        """Return where a run stands."""
        return self._first("watch_run", run_id=run_id)

    def marks(self, run_id: str) -> Row:
        """Return the newest numbers: of calls, evidence and questions of all runs, and of checkpoints and steps."""
        found = self._do.one("watch_marks", run_id=run_id)
        return found or (0, 0, 0, 0, -1)

    def first_call(self, run_id: str) -> int:
        """Return the number of the first call of a run, or 0."""
        return int(self._do.value("watch_first_call", run_id=run_id))

    def last_call(self, run_id: str) -> Row | None:
        """Return the newest call of a run."""
        return self._first("watch_last_call", run_id=run_id)

    def steps(self, run_id: str, *, after: int, known: Iterable[str], since: str) -> list[Row]:
        """Return the steps that are new, open, known to have been open, or moved after ``since``."""
        chosen = json.dumps(list(known))
        return list(self._do.told("watch_steps", run_id=run_id, after=after, known=chosen, since=since))

    def new_calls(self, run_id: str, *, after: int, limit: int) -> list[Row]:
        """Return calls with a higher number than ``after``, lowest first."""
        return list(self._do.told("watch_new_calls", run_id=run_id, after=after, limit=limit))

    def open_calls(self, run_id: str) -> list[Row]:
        """Return the calls that may still move."""
        return list(self._do.told("watch_open_calls", run_id=run_id))

    def call(self, call_no: int) -> Row | None:
        """Return one call."""
        return self._first("watch_call", call_no=call_no)

    def calls_of_life(self, run_id: str, *, fence: int, last: int) -> list[Row]:
        """Return the calls, up to number ``last``, that were started under ``fence`` or a newer one."""
        return list(self._do.told("watch_calls_of_life", run_id=run_id, fence=fence, last=last))

    def evidence(self, run_id: str, *, after: int) -> list[Row]:
        """Return newer evidence."""
        return list(self._do.told("watch_evidence", run_id=run_id, after=after))

    def questions(self, run_id: str, *, after: int) -> list[Row]:
        """Return newer questions."""
        return list(self._do.told("watch_questions", run_id=run_id, after=after))

    def question(self, number: int) -> Row | None:
        """Return one question by its number."""
        return self._first("watch_question", approval_no=number)

    def checkpoints(self, run_id: str, *, after: int) -> list[Row]:
        """Return newer checkpoints."""
        return list(self._do.told("watch_checkpoints", run_id=run_id, after=after))
