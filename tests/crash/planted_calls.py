"""More safety rules of the gateway and of settling broken on purpose; each has a scene that shows it in `test_planted_bugs_calls.py`."""

import json
from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from typing import Any

from perdure import ToolFailed
from perdure.core.identity import Gate
from perdure.model.errors import StoreError
from perdure.model.policy import Decision
from perdure.model.toolcall import ReplayPolicy, SideEffectClass
from perdure.ports.tool import Probe
from perdure.runtime import (
    answers_of_probes,
    doubts,
    gateway,
    guarding,
    invoke,
    life,
    recording,
    request,
    runner,
    starting,
)
from perdure.runtime import claim as claiming
from perdure.runtime.actions import LIVING_SENDERS, Ended, Outcome
from perdure.runtime.request import positional_and_keywords
from perdure.store.calls import CallRows
from tests.crash.planting import HELP, planting

COUNTED = "test_planted_bugs_calls.py::test_the_provider_counts_one_too_many_or_one_too_few"
WAITED = "test_planted_bugs_calls.py::test_a_person_is_asked_for_nothing"


def _facts(**wrong: Any) -> None:
    honest = doubts.facts
    doubts.facts = lambda life, row, doubt: replace(honest(life, row, doubt), **wrong)


@planting("gateway", COUNTED)
def a_timeout_means_that_nothing_happened() -> None:
    """A tool that gives no answer in time is taken for one that did nothing, and is called again."""

    def nothing_happened(sender: Any) -> Outcome:
        LIVING_SENDERS.pop(sender.key, None)
        return Outcome(Ended.NOT_DONE, error=ToolFailed("no answer within the timeout"))

    invoke.timed_out = nothing_happened


@planting("settle", COUNTED)
def the_probe_lag_is_not_waited_for() -> None:
    """Two answers "not there" are believed at once, although the provider's search is behind."""
    _facts(probe_lag_seconds=0.0, negative_after_lag=True)


@planting("settle", COUNTED)
def a_probe_is_asked_beside_a_twin() -> None:
    """The probe is asked while an equal call is being sent, and finds the effect of that one."""
    _facts(twin_running=False)


@planting("settle", COUNTED)
def a_key_lives_for_ever() -> None:
    """The same key is sent again after the provider has forgotten it."""
    doubts.key_alive_seconds = lambda store, row, now: 3600.0


@planting("settle", COUNTED)
def a_probe_needs_no_reference() -> None:
    """Whatever effect the probe finds is taken for the one whose outcome was lost."""
    honest = answers_of_probes.store_probe

    def its_own(life: Any, row: Any, function: Any, answer: Probe) -> Any:
        yield from ()
        return answer

    doubts._whose_is_it = its_own
    answers_of_probes._weigh = lambda store, row, answer: (answer.verdict, "")
    answers_of_probes.store_probe = lambda life, store, row, answer: honest(life, store, row, replace(answer, ref=None))


@planting("gateway", COUNTED)
def a_file_is_known_by_its_name() -> None:
    """What a file holds is no part of a call: other bytes under the same name meet the receipt of the first."""
    request.digests = lambda *_: {}


@planting("settle", COUNTED)
def references_are_shared() -> None:
    """One effect at the provider may be the receipt of two calls."""
    honest = claiming.claim

    def without_the_index(around: Any, store: Any, run_id: str, **how: Any) -> Any:
        store.connection.write("DROP INDEX IF EXISTS idx_tool_calls_ref", {})
        return honest(around, store, run_id, **how)

    runner.claim = without_the_index
    CallRows.ref_owner = lambda self, tool_name, ref: None  # type: ignore[method-assign]


@planting("gateway", COUNTED)
def a_verdict_outlives_its_pair() -> None:
    """What a person said of one pair of calls releases that effect for every later call."""
    honest_gate, honest_guard = guarding.gate_of, guarding.guard
    released: set[str] = set()

    def gate(life: Any, store: Any, request: Any, row: Any) -> Any:
        for other in store.calls.same_tool(life.run_id, request.key):
            for item in store.calls.evidence(other.tool_call_id):
                if item.kind == "verdict" and item.says in ("same", "another"):
                    said = json.loads(item.detail or "{}")
                    released.update(said.get("kin") or [said["same_as"]])
        return honest_gate(life, store, request, row)

    guarding.gate_of = gate
    guarding.guard = lambda facts: honest_guard(replace(facts, passed=facts.passed | released))


@planting("gateway", COUNTED)
def a_doubt_holds_nobody_back() -> None:
    """New effects are started while another effect of the run is in doubt."""
    guarding.doubts = lambda life, store, row: ()


@planting("gateway", COUNTED)
def what_nobody_classified_is_taken_for_a_read() -> None:
    """A tool without a class runs again after a crash, as if it had only looked."""
    honest = life.Life.decision

    @wraps(honest)
    def decision(self: Any, tool: Any) -> Decision:
        found = honest(self, tool)
        if tool.declaration.side_effect_class is not None:
            return found
        return replace(found, side_effect_class=SideEffectClass.READ_ONLY, replay_policy=ReplayPolicy.REPLAY_EXACT)

    life.Life.decision = decision  # type: ignore[method-assign]


@planting(HELP)
def the_guard_breaks() -> None:
    """The guard raises instead of answering (not a rule of ours: what failing closed is there to survive)."""

    def broken(facts: Any) -> Any:
        raise RuntimeError(f"the guard is broken: {facts.repeat}")

    guarding.guard = broken


@planting("gateway", COUNTED)
def a_guard_that_breaks_lets_everything_pass() -> None:
    """An error of the guard counts as its consent."""
    honest = guarding.guard

    def lenient(facts: Any) -> Any:
        try:
            return honest(facts)
        except Exception:
            return Gate.PASS, ()

    guarding.guard = lenient


@planting("gateway", COUNTED)
def a_failed_intent_is_sent_all_the_same() -> None:
    """A call whose record cannot be written is made without one."""
    honest = gateway.Gateway.serve

    def serve(self: Any, request: Any, operation: Any) -> Any:
        try:
            return (yield from honest(self, request, operation))
        except StoreError:
            args, kwargs = positional_and_keywords(request.tool.signature, request.complete)
            return request.tool.plain(*args, **kwargs)

    gateway.Gateway.serve = serve  # type: ignore[method-assign]


@planting("gateway", COUNTED)
def the_dedupe_key_is_ignored() -> None:
    """Two calls under one dedupe key are two effects."""

    def without_key(work: Callable[..., Any]) -> Callable[..., Any]:
        def find(life: Any, store: Any, request: Any, *more: Any) -> Any:
            request.options = replace(request.options, dedupe_key=None)
            return work(life, store, request, *more)

        return find

    starting.find_or_mint = without_key(starting.find_or_mint)


@planting("gateway", WAITED)
def a_cancelled_caller_throws_the_receipt_away() -> None:
    """The answer to a call whose caller has lost patience is not recorded."""
    honest = gateway.Gateway._record

    def record(self: Any, operation: Any, row: Any, outcome: Outcome, decision: Any) -> Any:
        if operation.is_withdrawn() and outcome.ended is Ended.VALUE:
            outcome = Outcome(Ended.RAISED, error=TimeoutError("nobody waits for it any more"))
        return (yield from honest(self, operation, row, outcome, decision))

    gateway.Gateway._record = record  # type: ignore[method-assign]


@planting("settle", WAITED)
def a_late_reply_is_dropped() -> None:
    """What a stale owner learns of its last request is thrown away, because it may not write."""
    recording._refused = lambda life, store, row, receipt: False
