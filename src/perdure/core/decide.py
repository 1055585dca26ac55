"""What to do next with one call: a pure function of its row, its policy and what is known of its sender.

The gateway performs what this says, records it, loads the row again and asks again; a restart enters the same loop
(design.md §1.4). Quarantine binds everybody: "it did not happen" is believed only when the sender is gone and the probe
lag has passed since (semantics #25, #29).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from perdure.model.toolcall import CallRow, CallStatus, ReplayPolicy


class Next(Enum):
    """The kinds of next step."""

    DELIVER = "deliver"
    AWAIT_PERSON = "await_person"
    WAIT_UNTIL = "wait_until"
    START = "start"
    JOIN = "join"
    MARK_LOST = "mark_lost"
    RERUN = "rerun"
    AWAIT_SENDER = "await_sender"
    AWAIT_TWIN = "await_twin"
    PROBE = "probe"
    SEND_AGAIN = "send_again"
    NOT_DONE = "not_done"
    ASK = "ask"


@dataclass(frozen=True, slots=True)
class Step:
    """One next step; ``wait_seconds`` is how long to wait first, ``why`` goes to the explanation."""

    kind: Next
    why: str
    wait_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class CallFacts:
    """What is known beside the row.

    Args:
        started_here: a dispatch of this life holds the row now.
        sender_alive: the process, thread or child that sent may still be sending.
        sender_here: it is a thread of this process, whose late return will be the outcome.
        twin_running: another call of the same tool is being sent, and a probe could see its effect (R6).
        gone_seconds: seconds since the sender was seen gone; ``None`` while it may live.
        has_probe: somebody can be asked.
        negatives: complete "no" answers so far, after the sender was gone.
        negative_after_lag: one of them came at least ``probe_lag_seconds`` after the sender was gone.
        probe_lag_seconds: how long a "no" may be wrong.
        probe_exhausted: the probe could not tell, and asking again at once is no use.
        probe_reason: why it could not.
        key_alive_seconds: how long the provider still remembers the key; ``None`` if there is no key.
        unsendable: why the exact request cannot be made again: a secret in it is gone, or a file holds other bytes.
        first_was_keyed: the first dispatch already carried the key under this policy (#41).
        attempts_left: requests that the budget still allows.
        wait_seconds: until ``not_before``.
        tool_known: this program has the tool.
        replay_policy: what the current policy says; doubts are settled by it (#41).
        still_valid: it was not decided longer ago than the rule's ``valid_for``.
    """

    started_here: bool = False
    sender_alive: bool = False
    sender_here: bool = False
    twin_running: bool = False
    gone_seconds: float | None = None
    has_probe: bool = False
    negatives: int = 0
    negative_after_lag: bool = False
    probe_lag_seconds: float = 10.0
    probe_exhausted: bool = False
    probe_reason: str = ""
    key_alive_seconds: float | None = None
    first_was_keyed: bool = False
    unsendable: str = ""
    attempts_left: int = 0
    wait_seconds: float = 0.0
    replay_policy: ReplayPolicy = ReplayPolicy.ASK
    tool_known: bool = True
    still_valid: bool = True


def decide(row: CallRow, facts: CallFacts) -> Step:
    """Return the next step for ``row``."""
    if row.status.settled:
        return Step(Next.DELIVER, f"the call is {row.status}")
    if row.status is CallStatus.AWAITING_APPROVAL:
        return Step(Next.AWAIT_PERSON, "a person has not answered yet")
    if row.status is CallStatus.PREPARED:
        if facts.wait_seconds > 0:
            return Step(Next.WAIT_UNTIL, "the next attempt is not due yet", facts.wait_seconds)
        return Step(Next.START, "it was never started, or the last attempt provably did nothing")
    if row.status is CallStatus.RUNNING:
        return _running(row, facts)
    return _in_doubt(row, facts)


def _running(row: CallRow, facts: CallFacts) -> Step:
    if facts.started_here:
        return Step(Next.JOIN, "this life is serving it")
    if row.effectful:
        return Step(Next.MARK_LOST, "it was started and its sender is gone")
    return Step(Next.RERUN, "its class has no effect that could happen twice")


def _in_doubt(row: CallRow, facts: CallFacts) -> Step:
    if facts.sender_alive:
        # A probe's yes could name another attempt's effect while the sender lives (R6), and a no proves nothing.
        if facts.sender_here:
            return Step(Next.AWAIT_SENDER, "its own thread is still sending; its return is the outcome")
        return Step(Next.ASK, "the sender, or a child of it, may still be sending")
    if not facts.tool_known:
        return Step(Next.ASK, f"this program has no tool {row.tool_name}: import it, or list its module under tools")
    if facts.replay_policy is ReplayPolicy.REPLAY_IDEMPOTENT:
        return _keyed(facts)
    if facts.has_probe and facts.replay_policy is ReplayPolicy.RECONCILE:
        return _probed(facts)
    return Step(Next.ASK, "no probe and no key: only a person can tell")


def _keyed(facts: CallFacts) -> Step:
    if facts.attempts_left < 1:
        return Step(Next.ASK, "the attempts are used up and the last answer did not settle it")
    if _key_lives(facts) and not facts.unsendable:
        return _same_key(facts)
    if facts.has_probe and not facts.probe_exhausted:
        return _probed(facts)
    return Step(Next.ASK, facts.unsendable or "the provider may have forgotten the key")


def _key_lives(facts: CallFacts) -> bool:
    return facts.first_was_keyed and facts.key_alive_seconds is not None and facts.key_alive_seconds > 0


def _same_key(facts: CallFacts) -> Step:
    if not facts.still_valid:
        return Step(Next.ASK, "it was decided longer ago than valid_for allows, so the same key is not sent again")
    if facts.wait_seconds > 0:
        return Step(Next.WAIT_UNTIL, "the next attempt is not due yet", facts.wait_seconds)
    return Step(Next.SEND_AGAIN, "the provider still remembers the key: same key, same request")


def _probed(facts: CallFacts) -> Step:
    if facts.probe_exhausted:
        if _key_lives(facts) and facts.attempts_left > 0 and not facts.unsendable:
            return _same_key(facts)
        return Step(Next.ASK, f"the provider could not tell{facts.probe_reason and f' ({facts.probe_reason})'}")
    if facts.twin_running:
        return Step(Next.AWAIT_TWIN, "another call of this tool is being sent; a probe could mistake it for this one")
    gone = facts.gone_seconds or 0.0
    if facts.negatives >= 2 and facts.negative_after_lag:
        return Step(Next.NOT_DONE, "two complete answers say no, the sender is gone and the lag has passed")
    if facts.negatives >= 1 and gone < facts.probe_lag_seconds:
        wait = facts.probe_lag_seconds - gone
        return Step(Next.WAIT_UNTIL, "a no counts only after the probe lag", wait)
    return Step(Next.PROBE, "the provider can be asked")
