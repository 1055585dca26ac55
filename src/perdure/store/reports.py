"""What packets, reports and logs read: the newest rows of a run, each query bounded by a limit."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from perdure.model.artifact import Artifact
from perdure.model.toolcall import CallRow, Evidence
from perdure.ports.store import Row
from perdure.store.calls import call_of_row
from perdure.store.payloads import Payloads
from perdure.store.questions import Question
from perdure.store.runs import LifeRow, life_row
from perdure.store.statements import Statements


@dataclass(frozen=True, slots=True)
class Newest:
    """The newest calls of one kind, oldest first, and how many there are."""

    rows: tuple[CallRow, ...]
    in_all: int


class ReportRows:
    """Readings for people and their files; nothing is decided by them, and marks stand where secrets were."""

    def __init__(self, statements: Statements) -> None:
        self._do = statements
        self._payloads = Payloads(statements)

    def recent(self, run_id: str, *, last: int, how_many: int) -> list[CallRow]:
        """Return the rows with the highest numbers of a run, oldest first, whatever they are.

        Args:
            last: how many rows the run has.
            how_many: at most so many.
        """
        if last < 1:
            return []
        rows = self._do.told("recent_calls", run_id=run_id, last=last, first=max(1, last - how_many + 1))
        return [call_of_row(row) for row in rows]

    def checkpoint(self, run_id: str) -> Row | None:
        """Return the newest checkpoint: its id, type and time, and the id, name, phase and index of its step."""
        return next(self._do.told("newest_checkpoint", run_id=run_id), None)

    def artifacts(self, run_id: str, limit: int) -> tuple[list[Artifact], int]:
        """Return the newest version of the newest files, oldest first, and how many files there are."""
        rows = list(self._do.told("newest_files", run_id=run_id, limit=limit))
        return [Artifact(*row[:5]) for row in reversed(rows)], (rows[0][5] if rows else 0)

    def final_artifact(self, run_id: str) -> str | None:
        """Return the path of the file recorded last (R017)."""
        path: str | None = self._do.value("final_artifact", run_id=run_id)
        return path

    def counts(self, run_id: str) -> dict[str, dict[str, int]]:
        """Return how many tool calls of each side-effect class are in each state."""
        found: dict[str, dict[str, int]] = {}
        for kind, status, count in self._do.told("class_counts", run_id=run_id):
            found.setdefault(kind, {})[status] = count
        return found

    def effects(self, run_id: str, limit: int) -> Newest:
        """Return effects that happened."""
        return self._newest("newest_effects", run_id=run_id, limit=limit)

    def replayed(self, run_id: str, *, fence: int, unmet: list[str], limit: int) -> Newest:
        """Return effects that a life met and did not make again.

        Args:
            fence: of that life; what it made itself has this fence.
            unmet: the ids of those that it has not asked for.
        """
        return self._newest("replayed_effects", run_id=run_id, fence=fence, unmet=json.dumps(unmet), limit=limit)

    def settled(self, run_id: str, limit: int) -> Newest:
        """Return calls whose outcome was lost once, and is known."""
        return self._newest("settled_calls", run_id=run_id, limit=limit)

    def challenged(self, run_id: str, limit: int) -> Newest:
        """Return calls that were held against an effect done before."""
        return self._newest("challenged_calls", run_id=run_id, limit=limit)

    def unmet(self, run_id: str) -> list[str]:
        """Return the ids of the effects that the last life has not asked for."""
        row = self._do.one("last_unmet", run_id=run_id)
        found: list[str] = json.loads(row[0]) if row is not None and row[0] else []
        return found

    def lives(self, run_id: str, limit: int) -> tuple[list[LifeRow], int]:
        """Return the newest lives, oldest first, and how many there were."""
        rows = list(self._do.told("newest_lives", run_id=run_id, limit=limit))
        return [life_row(row[:-1]) for row in reversed(rows)], (rows[0][-1] if rows else 0)

    def page(self, run_id: str, *, after: int, limit: int) -> list[CallRow]:
        """Return the next rows of a run by their numbers."""
        return [call_of_row(row) for row in self._do.told("page_of_calls", run_id=run_id, after=after, limit=limit)]

    def whole_page(self, run_id: str, *, after: int, limit: int) -> list[tuple[CallRow, str, str | None]]:
        """Return the next rows of a run with their requests and receipts."""
        load = self._payloads.load
        rows = self._do.told("whole_page_of_calls", run_id=run_id, after=after, limit=limit)
        return [
            (call_of_row(row[:-2]), load(row[-2], told=True) or "{}", load(row[-1], told=True)) for row in list(rows)
        ]

    def questions(self, run_id: str) -> list[Question]:
        """Return everything that people were asked in a run."""
        return [Question(*row) for row in self._do.told("page_of_questions", run_id=run_id)]

    def verdicts(self, run_id: str) -> list[tuple[str, Evidence]]:
        """Return what people have said of the calls of a run, oldest first, each with the call's id."""
        return [(row[0], Evidence(*row[1:])) for row in list(self._do.told("verdicts_of_run", run_id=run_id))]

    def _newest(self, name: str, **parameters: Any) -> Newest:
        rows = list(self._do.told(name, **parameters))
        return Newest(tuple(call_of_row(row[:-1]) for row in reversed(rows)), rows[0][-1] if rows else 0)
