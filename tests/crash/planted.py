"""Safety rules broken on purpose, in a child process only, so that the loops can be seen to catch it.

Nothing of the product knows of this: a life that finds its name in `CRASH_LOOP_PLANTED_BUG` replaces one function.
More of them stand in the other `planted_*.py`.
"""

import asyncio
import re
import secrets
from dataclasses import replace
from functools import lru_cache
from typing import Any

from perdure.core import decide as deciding
from perdure.core import identity
from perdure.model.toolcall import CallStatus
from perdure.runtime import claim, context, doubts, drive_async, gateway, guarding, invoke, recording, runner, starting
from perdure.runtime.actions import Commit
from perdure.runtime.lease import Liveness
from perdure.store import statements
from tests.crash.planting import HELP, plant, planting

_FENCE = re.compile(r"\(SELECT lease_fence (FROM runs WHERE (?:[^()]|\([^()]*\))+)\) = :fence|\blease_fence = :fence")


BY_COUNT = "test_planted_bugs.py::test_the_provider_counts_what_a_broken_rule_lets_through"
BY_WAITING = "test_planted_bugs.py::test_a_run_that_stops_for_no_good_reason_is_seen"


@planting("settle", BY_COUNT)
def doubts_are_sent_again() -> None:
    """The guard is off: whatever is in doubt is simply done again."""
    honest = gateway.decide

    def careless(row: Any, facts: Any) -> Any:
        if row.status is CallStatus.IN_DOUBT:
            return deciding.Step(deciding.Next.SEND_AGAIN, "planted")
        return honest(row, facts)

    gateway.decide = careless


@planting("gateway", BY_COUNT)
def the_tool_acts_before_the_record() -> None:
    """The tool is called inside the transaction that mints its row, so before the commit of its intent."""
    honest_start, honest_dispatch = starting.find_or_mint, gateway.Gateway._dispatch
    done: dict[str, Any] = {}

    def act_first(life: Any, store: Any, request: Any, operation: Any) -> Any:
        begun = honest_start(life, store, request, operation)
        if begun.started and begun.row.effectful:
            act = honest_dispatch(gateway.Gateway(life), request.tool, request.decision, begun.row, request.arguments)
            done[begun.row.tool_call_id] = act.body(*act.args, **act.kwargs)
        return begun

    def dispatch(self: Any, tool: Any, decision: Any, row: Any, arguments: Any) -> Any:
        act = honest_dispatch(self, tool, decision, row, arguments)
        found = row.tool_call_id in done
        return replace(act, body=lambda *_, **__: done[row.tool_call_id]) if found else act

    starting.find_or_mint, gateway.Gateway._dispatch = act_first, dispatch  # type: ignore[method-assign]


@planting("gateway", BY_WAITING)
def receipts_are_not_stored() -> None:
    """What a tool gave back is handed to the program and forgotten."""
    recording.keep_receipt = lambda life, store, row, receipt: row


@planting("gateway", BY_COUNT)
def each_attempt_has_a_new_key() -> None:
    """The idempotency key is made when it is sent."""
    honest = invoke.context_of

    def with_new_key(life: Any, row: Any, arguments: Any) -> Any:
        return replace(honest(life, row, arguments), idempotency_key=secrets.token_hex(16))

    gateway.context_of = with_new_key


@planting("gateway", BY_COUNT)
def a_receipt_is_given_to_everybody() -> None:
    """A row that a call has met is not held: the next equal call of that life meets it too."""
    context.Context._forget = lambda self, call_no: None  # type: ignore[method-assign]


@planting("gateway", BY_WAITING)
def equal_calls_share_a_key() -> None:
    """The occurrence is left out of the idempotency key."""
    starting.idempotency_key = lambda ledger_id, run_id, key, scope, _: identity.idempotency_key(
        ledger_id, run_id, key, scope, 1
    )


@planting("settle", BY_COUNT)
def settling_sends_what_was_only_prepared() -> None:
    """Resume takes every open row for work to be done, asked for or not."""
    honest = gateway.Gateway.settle

    def settle(self: Any, row: Any, operation: Any) -> Any:
        if row.status is not CallStatus.PREPARED:
            return (yield from honest(self, row, operation))
        life = self._life
        tool = life.registry.find(row.tool_namespace, row.tool_name)

        def start(store: Any) -> Any:
            store.calls.start(row, life.authority, life.now())
            return store.calls.get(row.call_no)

        operation.row = yield Commit(start)
        operation.started = True
        done, _ = yield from self._attempt(operation, tool, life.decision(tool), operation.row, None)
        return done

    def open_rows(store: Any, life: Any) -> Any:
        return [row for row in store.calls.open(life.run_id) if row.status is not CallStatus.AWAITING_APPROVAL]

    gateway.Gateway.settle, runner.started_rows = settle, open_rows  # type: ignore[method-assign]


@planting("gateway", BY_COUNT)
def changed_arguments_are_not_challenged() -> None:
    """G2 is switched off: an unmet effect of an earlier life speaks against nothing."""
    honest = guarding.guard

    def lenient(facts: Any) -> Any:
        gate, against = honest(facts)
        return (identity.Gate.PASS, ()) if gate is identity.Gate.CHALLENGE_UNMET else (gate, against)

    guarding.guard = lenient


@planting("gateway", BY_COUNT)
def failures_are_tried_again() -> None:
    """Re-entry takes a failed call for one that may be done now."""
    honest = context.Context.find_equal

    def find(self: Any, *what: Any, **more: Any) -> Any:
        row = honest(self, *what, **more)
        return None if row is not None and row.status is CallStatus.FAILED else row

    context.Context.find_equal = find  # type: ignore[method-assign]


@planting("gateway", BY_WAITING)
def a_memo_does_not_enclose_its_calls() -> None:
    """The calls inside a finished memo count as effects that nobody has asked for."""
    context.Context._enclose = lambda self, tool_call_id, reader: None  # type: ignore[method-assign]


@planting("settle", "test_planted_bugs.py::test_a_child_that_still_sends_makes_a_second_effect")
def the_living_child_is_forgotten() -> None:
    """No quarantine: with its owner dead, a call is taken to have no sender."""
    doubts.living_children = lambda owner: []


@planting(HELP)
def the_living_are_taken_for_dead() -> None:
    """An owner that is alive is taken over (not a rule of ours: what the fence is there to survive)."""
    claim.liveness = doubts.liveness = lambda owner: Liveness.DEAD


@planting(HELP)
def the_guard_is_heard_late() -> None:
    """What the guard says reaches the waiting call late (no rule of ours either: a busy loop does the same)."""
    honest = drive_async._answer

    def late(future: Any, member: Any) -> None:
        held = getattr(member.value, "gate", identity.Gate.PASS) is not identity.Gate.PASS
        asyncio.get_running_loop().call_later(0.06 if held else 0, honest, future, member)

    drive_async._answer = late


@planting("lease", "test_planted_bugs.py::test_without_the_fence_a_stale_owner_goes_on_sending")
def the_fence_is_not_checked() -> None:
    """A stale owner's writes are taken."""
    honest = statements.load_queries.__wrapped__

    @lru_cache(maxsize=4)
    def without_fences(dialect: str) -> dict[str, str]:
        return {name: _FENCE.sub(_unfenced, sql) for name, sql in honest(dialect).items()}

    statements.load_queries = without_fences


def _unfenced(condition: re.Match[str]) -> str:
    """What else a condition asks of the run, such as that nobody has cancelled it, is kept."""
    return f"EXISTS (SELECT 1 {condition[1]})" if condition[1] else "1"


__all__ = ["plant"]
