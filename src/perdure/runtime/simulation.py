"""Where a simulated call gets its result: nothing of it leaves the process (semantics #31).

In this order: the receipt of the equal call of the run that was forked, the tool's ``@t.simulate`` function, a definite
failure of the equal call; else the run stops.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from perdure.core.codec import decode
from perdure.model.errors import SimulationMissing
from perdure.model.toolcall import CHALLENGED, DENIED, CallRow, CallStatus
from perdure.ports.tool import ToolFailed, current_context
from perdure.runtime import recording
from perdure.runtime.actions import Dispatch
from perdure.runtime.life import Life
from perdure.runtime.operations import Operation
from perdure.runtime.registry import AnyTool
from perdure.runtime.request import CallRequest
from perdure.store.sql_store import SqlStore

Body = Callable[..., Any]
Found = tuple[Body, str]
"""What is called in place of a tool, with its arguments, and where its result comes from."""


def find(life: Life, store: SqlStore, request: CallRequest, occurrence: int) -> Found:
    """Return what stands in for a call of a tool.

    Args:
        occurrence: the how-manieth equal call of its run this is; the parent's of the same number answers for it.

    Raises:
        SimulationMissing: nothing says what the call would give back; the run stops.
    """
    known = [row for ancestor in life.lineage.ancestors for row in store.origins.equal_elsewhere(ancestor, request.key)]
    done = _done(store, known)
    if done:
        found = next((row for row in done if row.occurrence == occurrence), done[-1])
        response = store.calls.response(found.call_no) or "null"
        return (lambda *_, **__: decode(response)), f"the receipt of {found.tool_call_id}"
    if request.tool.simulate_function is not None:
        return _calling(request.tool, request.tool.simulate_function), "the tool's simulate function"
    failed = [row for row in known if row.status is CallStatus.FAILED and row.error_code not in (DENIED, CHALLENGED)]
    if failed:
        return _failing(failed[-1]), f"the failure of {failed[-1].tool_call_id}"
    life.refused = life.refused or missing(life, request)
    raise life.refused


def _done(store: SqlStore, rows: Sequence[CallRow]) -> list[CallRow]:
    """Return the rows whose receipts stand for the calls: a call that a person took for another one has that one's."""
    found = (store.calls.by_id(row.same_as) if row.same_as is not None else row for row in rows)
    return [row for row in found if row is not None and row.status is CallStatus.SUCCEEDED]


def missing(life: Life, request: CallRequest) -> SimulationMissing:
    """Return the error of a call that nothing can stand in for, with the three ways out."""
    name, parent = request.key.tool_name, life.origin.parent_run_id
    return SimulationMissing(
        f"{name}: this fork sends nothing, and run {parent}, of which it is one, has no receipt of an equal call. "
        f"Ways out: (1) a stand-in for the tool: @{name}.simulate, a function with the same arguments; (2) a fork at a "
        f"later checkpoint of {parent}, or with the inputs under which it made this call; (3) a fork with "
        f"--effects live, which really calls {name}",
        safe="Nothing was sent; the parent is untouched.",
        next_command=f"perdure fork {parent} --effects live   # or one of the other two",
    )


def _calling(tool: AnyTool, function: Callable[..., Any]) -> Body:
    takes_context = "call" in inspect.signature(function).parameters and tool.takes_context

    def simulate(*args: Any, **kwargs: Any) -> Any:
        kwargs.pop("call", None)
        if takes_context:
            kwargs["call"] = current_context.get()
        return function(*args, **kwargs)

    return simulate


def _failing(row: CallRow) -> Body:
    def fail(*_: Any, **__: Any) -> Any:
        raise ToolFailed(row.error_detail or "it failed", retry=False)

    return fail


def begin(life: Life, store: SqlStore, row: CallRow, body: Found) -> Body:
    """Note where a simulated call's result comes from, in the transaction that starts it."""
    recording.add_evidence(life, store, row, "attempt", "simulated", detail=body[1])
    return body[0]


def stand_in(dispatch: Dispatch, operation: Operation) -> Dispatch:
    """Return a dispatch that enters no tool: whatever was not found to stand in for it, the tool itself never does."""
    body = operation.simulation
    if body is None:
        raise SimulationMissing(f"{dispatch.row.tool_call_id}: nothing stands in for {dispatch.tool.name}")
    return replace(dispatch, body=body, is_async=inspect.iscoroutinefunction(body))
