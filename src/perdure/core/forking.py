"""What a fork inherits of its parent: the receipts up to a checkpoint (R121, C20). Pure: rows in, rows out."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from perdure.model.toolcall import MODEL_NAMESPACE, CallRow, CallStatus


@dataclass(frozen=True, slots=True)
class ForkPoint:
    """The moment of a checkpoint: rows from ``next_number`` on were made later, and so was what ended after it."""

    next_number: int
    moment: str


BEGINNING = ForkPoint(1, "")


def point_of(cursor: str, created_at: str) -> ForkPoint:
    """Return the moment of a checkpoint.

    Args:
        cursor: its ``cursor_json``.
        created_at: when it was written.
    """
    return ForkPoint(int(json.loads(cursor)["next_call_number"]), created_at)


def fork_counts(inherited: int, simulated: int) -> str:
    """Return how many tool calls a fork has inherited and simulated; everywhere in these words, and counted so."""
    return f"{inherited} inherited" + (f", {simulated} simulated" if simulated else "")


def number_of(tool_call_id: str) -> int:
    """Return the number of a call in its run: ``<run_id>.<n>``."""
    return int(tool_call_id.rpartition(".")[2])


def inherited(
    rows: Sequence[CallRow], point: ForkPoint, *, live: bool, reopened: Collection[str] = ()
) -> list[CallRow]:
    """Return the rows of a run whose receipts a fork inherits, oldest first.

    Args:
        rows: all rows of the parent, oldest first.
        point: the moment of the checkpoint.
        live: the fork really sends: what was only simulated never happened, and neither did what rests on it.
        reopened: the calls that ended the parent, which a fork tries again, as a resume would (R4).
    """
    done = [row for row in rows if _stands(row, point) and row.tool_call_id not in reopened]
    if not live:
        return done
    unreal = _unreal(rows)
    return [row for row in done if row.tool_call_id not in unreal]


def _stands(row: CallRow, point: ForkPoint) -> bool:
    if not row.status.settled or row.finished_at is None:
        return False
    if row.status is CallStatus.CANCELLED and row.void:
        return False  # it was withdrawn, and nobody got anything for it
    return number_of(row.tool_call_id) < point.next_number and row.finished_at <= point.moment


def first_simulated(rows: Sequence[CallRow]) -> CallRow | None:
    """Return the first call of a run that was only simulated: what was made after it may rest on its value."""
    simulated = (row for row in rows if row.simulated and row.status.settled)
    return min(simulated, key=lambda row: number_of(row.tool_call_id), default=None)


def _unreal(rows: Sequence[CallRow]) -> set[str]:
    """Return the rows that were simulated, the finished calls around them, and all that was asked for after them.

    A program passes values on in ways that no argument shows: a memo computed, a file written or a model asked after a
    simulated call may hold what that call gave back.
    """
    known = {row.tool_call_id: row for row in rows}
    first = first_simulated(rows)
    if first is None:
        return set()
    number = number_of(first.tool_call_id)
    found = {row.tool_call_id for row in rows if number_of(row.tool_call_id) >= number}
    for row in rows:
        if row.simulated or row.same_as in found:
            found.add(row.tool_call_id)
            outer = known.get(row.parent_call_id or "")
            while outer is not None:
                if outer.tool_namespace != MODEL_NAMESPACE:  # the calls that a turn asks for come after its answer
                    found.add(outer.tool_call_id)
                outer = known.get(outer.parent_call_id or "")
    return found
