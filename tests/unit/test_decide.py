"""What follows from what is known: the next step of a call, as a table over states and facts."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pytest

from perdure.core.decide import CallFacts, Next, decide
from perdure.model.toolcall import CallRow, CallStatus, ReplayPolicy, SideEffectClass

KEYED = ReplayPolicy.REPLAY_IDEMPOTENT
PROBED = ReplayPolicy.RECONCILE
OPEN = (CallStatus.PREPARED, CallStatus.AWAITING_APPROVAL, CallStatus.RUNNING, CallStatus.IN_DOUBT)


def row(status: CallStatus, **changes: Any) -> CallRow:
    """Return a row of an external call."""
    made = CallRow(
        call_no=1,
        tool_call_id="r1.1",
        run_id="r1",
        step_id="r1.s0",
        tool_namespace="local",
        tool_name="send",
        side_effect_class=SideEffectClass.EXTERNAL,
        replay_policy=ReplayPolicy.ASK,
        status=status,
        attempt=1,
        occurrence=1,
        args_hash="h",
        effect_scope=None,
        idempotency_key="k",
        fence=1,
        branch="0",
    )
    return replace(made, **changes)


def in_doubt(**facts: Any) -> Next:
    """Return the next step of a row in doubt."""
    return decide(row(CallStatus.IN_DOUBT), CallFacts(**facts)).kind


# Facts that allow a resend with the same key, and those that allow "not done".
RESENDABLE = {"replay_policy": KEYED, "first_was_keyed": True, "key_alive_seconds": 1.0, "attempts_left": 1}
NOT_DONE = {
    "replay_policy": PROBED,
    "has_probe": True,
    "negatives": 2,
    "negative_after_lag": True,
    "gone_seconds": 11.0,
    "probe_lag_seconds": 10.0,
}


@pytest.mark.parametrize("status", [status for status in CallStatus if status.settled])
def test_a_settled_call_is_delivered_whatever_is_known(status: CallStatus) -> None:
    for facts in (CallFacts(), CallFacts(sender_alive=True), CallFacts(**RESENDABLE), CallFacts(wait_seconds=5)):
        assert decide(row(status), facts).kind is Next.DELIVER


def test_a_call_that_awaits_an_answer_waits_for_a_person() -> None:
    assert decide(row(CallStatus.AWAITING_APPROVAL), CallFacts()).kind is Next.AWAIT_PERSON


def test_a_prepared_call_starts_when_it_is_due() -> None:
    assert decide(row(CallStatus.PREPARED), CallFacts()).kind is Next.START
    later = decide(row(CallStatus.PREPARED), CallFacts(wait_seconds=2.5))
    assert (later.kind, later.wait_seconds) == (Next.WAIT_UNTIL, 2.5)


@pytest.mark.parametrize("kind", SideEffectClass)
def test_a_running_call_of_this_life_is_joined(kind: SideEffectClass) -> None:
    running = row(CallStatus.RUNNING, side_effect_class=kind)
    assert decide(running, CallFacts(started_here=True)).kind is Next.JOIN


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (SideEffectClass.EXTERNAL, Next.MARK_LOST),
        (SideEffectClass.MEMORY, Next.MARK_LOST),
        (SideEffectClass.LOCAL, Next.RERUN),
        (SideEffectClass.READ_ONLY, Next.RERUN),
    ],
)
def test_a_running_call_of_a_life_that_is_gone(kind: SideEffectClass, expected: Next) -> None:
    assert decide(row(CallStatus.RUNNING, side_effect_class=kind), CallFacts()).kind is expected


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        # While a sender lives, nothing is believed and nothing is sent.
        ({"sender_alive": True, "sender_here": True}, Next.AWAIT_SENDER),
        ({"sender_alive": True}, Next.ASK),
        ({"sender_alive": True, **RESENDABLE}, Next.ASK),
        ({"sender_alive": True, **NOT_DONE}, Next.ASK),
        ({"sender_alive": True, "has_probe": True, "replay_policy": PROBED}, Next.ASK),
        # No probe and no key.
        ({}, Next.ASK),
        ({"has_probe": True}, Next.ASK),
        ({"replay_policy": PROBED}, Next.ASK),
        ({"replay_policy": ReplayPolicy.REPLAY_EXACT}, Next.ASK),
        ({"replay_policy": ReplayPolicy.RELAUNCH}, Next.ASK),
        # A key.
        (RESENDABLE, Next.SEND_AGAIN),
        ({**RESENDABLE, "key_alive_seconds": float("inf")}, Next.SEND_AGAIN),
        ({**RESENDABLE, "wait_seconds": 0.5}, Next.WAIT_UNTIL),
        ({**RESENDABLE, "key_alive_seconds": 0.0}, Next.ASK),
        ({**RESENDABLE, "key_alive_seconds": -1.0}, Next.ASK),
        ({**RESENDABLE, "key_alive_seconds": None}, Next.ASK),
        ({**RESENDABLE, "first_was_keyed": False}, Next.ASK),
        ({**RESENDABLE, "attempts_left": 0}, Next.ASK),
        ({**RESENDABLE, "attempts_left": -1}, Next.ASK),
        # A key that the provider forgot, and a probe beside it.
        ({**RESENDABLE, "key_alive_seconds": 0.0, "has_probe": True}, Next.PROBE),
        ({**RESENDABLE, "first_was_keyed": False, "has_probe": True}, Next.PROBE),
        ({**RESENDABLE, "has_probe": True}, Next.SEND_AGAIN),
        # A probe: first question, the wait for the lag, the second question, the verdict.
        ({"replay_policy": PROBED, "has_probe": True}, Next.PROBE),
        ({"replay_policy": PROBED, "has_probe": True, "gone_seconds": 100.0}, Next.PROBE),
        ({**NOT_DONE, "negatives": 1, "negative_after_lag": False, "gone_seconds": 4.0}, Next.WAIT_UNTIL),
        ({**NOT_DONE, "negatives": 2, "negative_after_lag": False, "gone_seconds": 9.9}, Next.WAIT_UNTIL),
        ({**NOT_DONE, "negatives": 1, "negative_after_lag": False}, Next.PROBE),
        ({**NOT_DONE, "negatives": 1}, Next.PROBE),
        ({**NOT_DONE, "negatives": 2, "negative_after_lag": False}, Next.PROBE),
        (NOT_DONE, Next.NOT_DONE),
        ({**NOT_DONE, "probe_lag_seconds": 0.0, "gone_seconds": 0.0}, Next.NOT_DONE),
        ({**NOT_DONE, "probe_exhausted": True}, Next.ASK),
        ({"replay_policy": PROBED, "has_probe": True, "probe_exhausted": True}, Next.ASK),
        # A probe that cannot tell and a key that lives: the next rung of the ladder before a person is asked.
        ({**RESENDABLE, "replay_policy": PROBED, "has_probe": True, "probe_exhausted": True}, Next.SEND_AGAIN),
        # A twin in flight: a probe could mistake its effect for this one, and even two noes wait.
        ({"replay_policy": PROBED, "has_probe": True, "twin_running": True}, Next.AWAIT_TWIN),
        ({**NOT_DONE, "twin_running": True}, Next.AWAIT_TWIN),
        ({**RESENDABLE, "twin_running": True}, Next.SEND_AGAIN),
        ({**RESENDABLE, "key_alive_seconds": 0.0, "has_probe": True, "twin_running": True}, Next.AWAIT_TWIN),
        # Unknown for how long the sender is gone: as if only just.
        ({**NOT_DONE, "negatives": 1, "negative_after_lag": False, "gone_seconds": None}, Next.WAIT_UNTIL),
    ],
)
def test_a_call_in_doubt(facts: dict[str, Any], expected: Next) -> None:
    assert in_doubt(**facts) is expected


def test_the_wait_for_the_lag_is_what_is_left_of_it() -> None:
    facts = CallFacts(**{**NOT_DONE, "negatives": 1, "negative_after_lag": False, "gone_seconds": 4.0})
    assert decide(row(CallStatus.IN_DOUBT), facts).wait_seconds == pytest.approx(6.0)


def test_a_doubt_is_settled_by_the_policy_of_today() -> None:
    asked_then = row(CallStatus.IN_DOUBT, replay_policy=ReplayPolicy.ASK)
    assert decide(asked_then, CallFacts(replay_policy=PROBED, has_probe=True)).kind is Next.PROBE
    probed_then = row(CallStatus.IN_DOUBT, replay_policy=PROBED)
    assert decide(probed_then, CallFacts(replay_policy=ReplayPolicy.ASK, has_probe=True)).kind is Next.ASK


def test_a_key_declared_today_does_not_help_a_request_that_went_without_it() -> None:
    facts = CallFacts(**{**RESENDABLE, "first_was_keyed": False, "key_alive_seconds": 3600.0})
    assert decide(row(CallStatus.IN_DOUBT), facts).kind is Next.ASK


def all_facts() -> list[CallFacts]:
    """Return every combination of what matters to a doubt."""
    choices: dict[str, tuple[Any, ...]] = {
        "sender_alive": (False, True),
        "sender_here": (False, True),
        "twin_running": (False, True),
        "gone_seconds": (None, 0.0, 9.9, 10.0, 60.0),
        "has_probe": (False, True),
        "negatives": (0, 1, 2),
        "negative_after_lag": (False, True),
        "probe_exhausted": (False, True),
        "key_alive_seconds": (None, -1.0, 5.0),
        "first_was_keyed": (False, True),
        "attempts_left": (0, 1),
        "replay_policy": tuple(ReplayPolicy),
    }
    return [CallFacts(**dict(zip(choices, values, strict=True))) for values in itertools.product(*choices.values())]


def test_no_combination_of_facts_breaks_the_quarantine() -> None:
    doubt = row(CallStatus.IN_DOUBT)
    seen: set[Next] = set()
    for facts in all_facts():
        kind = decide(doubt, facts).kind
        seen.add(kind)
        if facts.sender_alive:
            assert kind in (Next.AWAIT_SENDER, Next.ASK), facts
        if kind is Next.NOT_DONE:
            assert facts.negatives >= 2 and facts.negative_after_lag and facts.has_probe, facts
        if kind is Next.SEND_AGAIN:
            last_rung = facts.replay_policy is PROBED and facts.has_probe and facts.probe_exhausted
            assert (facts.replay_policy is KEYED or last_rung) and facts.first_was_keyed, facts
            assert facts.attempts_left > 0, facts
            assert facts.key_alive_seconds is not None and facts.key_alive_seconds > 0, facts
        if kind is Next.PROBE:
            assert facts.has_probe and not facts.probe_exhausted and not facts.twin_running, facts
        assert kind not in (Next.DELIVER, Next.START, Next.JOIN, Next.RERUN, Next.MARK_LOST, Next.AWAIT_PERSON), facts
    assert seen == {
        Next.AWAIT_SENDER,
        Next.AWAIT_TWIN,
        Next.ASK,
        Next.NOT_DONE,
        Next.SEND_AGAIN,
        Next.PROBE,
        Next.WAIT_UNTIL,
    }


@pytest.mark.parametrize("status", OPEN)
def test_every_step_says_why(status: CallStatus) -> None:
    for facts in (CallFacts(), CallFacts(sender_alive=True), CallFacts(**RESENDABLE), CallFacts(**NOT_DONE)):
        assert decide(row(status), facts).why
