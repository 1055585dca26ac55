"""Values that a person left out when they said that a call had happened.

Its caller gets ``None``, which is enough for many a program, and the value may be added later. A program that cannot do
without it ends with an error of its own: its run then waits for the value, and does not fail.
"""

from __future__ import annotations

import json
from enum import Enum
from typing import Any

from perdure.model.errors import PerdureError
from perdure.model.toolcall import CallRow, CallStatus
from perdure.runtime.life import Life
from perdure.runtime.naming import named
from perdure.runtime.raised import said_by
from perdure.runtime.returned import returned_type, returns_nothing
from perdure.store.questions import LEFT_OUT_KEY, NOTICE_KIND
from perdure.store.sql_store import SqlStore


class LeftOut(Enum):
    """What stands where a person gave no value; ``None`` is one."""

    VALUE = "left out"


LEFT_OUT = LeftOut.VALUE
_RESULT = "result"


def said_of(result: Any) -> dict[str, str]:
    """Return what a verdict's evidence tells of the value: that nothing was returned, where the receipt looks alike."""
    return {_RESULT: "none"} if result is None else {}


def is_open(store: SqlStore, row: CallRow) -> bool:
    """Return whether a person has said that a call happened and not what its caller gets: that may be said later."""
    if row.status is not CallStatus.SUCCEEDED or store.calls.response(row.call_no) != "null":
        return False
    said = [item for item in store.calls.evidence(row.tool_call_id) if item.kind == "verdict"]
    return bool(said) and said[-1].says == "happened" and _RESULT not in json.loads(said[-1].detail or "{}")


def ask(life: Life, store: SqlStore, problem: BaseException) -> bool:
    """Ask for the values that the program of this life lacked, before it ended with an error.

    Args:
        problem: the error; one of ours is about something else.

    Returns:
        Whether any value is asked for.
    """
    lacked = [] if isinstance(problem, PerdureError) else _lacked(life, store)
    return any([_asked_for(life, store, row, problem) for row in lacked])  # all of them, not only up to the first


def hint(life: Life, store: SqlStore) -> str:
    """Return what is said beside the error of a run that failed all the same: which values its program lacked."""
    return "".join(
        f"; nobody has said what {row.tool_name} returned: perdure resolve {row.tool_call_id} --happened --result JSON"
        for row in _lacked(life, store)
    )


def _lacked(life: Life, store: SqlStore) -> list[CallRow]:
    """Return the calls of which this life's program got ``None`` because a person left the value out."""
    found = [row for row in store.calls.told_happened(life.run_id) if life.context.seen_by_any(row.call_no)]
    return [row for row in found if is_open(store, row) and not returns_nothing(_tool(life, row))]


def _tool(life: Life, row: CallRow) -> Any:
    return life.registry.find(row.tool_namespace, row.tool_name)


def _asked_for(life: Life, store: SqlStore, row: CallRow, problem: BaseException) -> bool:
    asked = store.questions.open_of_call(row.tool_call_id)
    if asked is not None:
        return asked.wants_value  # by an earlier life; a notice about the call stands by itself
    kind = returned_type(_tool(life, row))
    error = said_by(problem)
    store.questions.ask(
        "a" + life.around.new_token(),
        run_id=life.run_id,
        fence=life.fence,
        tool_call_id=row.tool_call_id,
        kind=NOTICE_KIND,
        summary=f"{named(store, row)} happened; what did it return{f' ({kind})' if kind else ''}? Nobody has "
        f"said, so that the program got None, and ended with {error}",
        detail=json.dumps({LEFT_OUT_KEY: kind}),
        request_hash=row.args_hash,
        now=life.now(),
    )
    return True
