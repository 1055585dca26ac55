"""What is known of a call whose outcome may be lost, and how more is learned: its sender, its late return, its probe.

Nothing here decides: ``core.decide`` does, from the facts that are collected here (semantics #25, #29, #41).
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from perdure.core.codec import decode
from perdure.core.conditions import refusal
from perdure.core.decide import CallFacts
from perdure.model.errors import SecretUnavailable, StoreError
from perdure.model.policy import Decision
from perdure.model.toolcall import CallRow, CallStatus, ReplayPolicy
from perdure.ports.clock import FOREVER, seconds_between
from perdure.ports.tool import CallContext, Probe, ProbeFunction
from perdure.runtime import answers_of_probes, approvals, attached, late_receipt, limits, recording
from perdure.runtime.actions import LIVING_SENDERS, AwaitSender, Commit, Consult, Ended, Loop, Pause, Sender
from perdure.runtime.freeing import let_the_run_go_on
from perdure.runtime.invoke import context_of
from perdure.runtime.lease import Liveness, liveness, living_children
from perdure.runtime.life import Life
from perdure.runtime.registry import AnyTool
from perdure.store.runs import LifeRow
from perdure.store.sql_store import SqlStore

DEFAULT_MAX_ATTEMPTS = 5
KIN_LIMIT = 50
CHILD_POLL_SECONDS = 0.05
CLOCK_SLACK_SECONDS = 60.0


@dataclass(slots=True)
class Doubt:
    """What this life has learned about one row, and by which policy and tool it may learn more.

    ``decision`` and ``tool`` are ``None`` where this program does not have the tool any more.
    """

    decision: Decision | None
    tool: AnyTool | None
    negatives: int = 0
    negative_after_lag: bool = False
    exhausted: bool = False
    reason: str = ""
    gone_at: float | None = None
    sender: Sender | None = None
    sender_overdue: bool = False
    attempt: int = 0

    def turn_to(self, attempt: int) -> None:
        """Begin anew where another attempt is in doubt: what was learned of an earlier one says nothing about it."""
        if attempt != self.attempt:
            self.attempt, self.gone_at, self.sender, self.sender_overdue = attempt, None, None, False
            self.negatives, self.negative_after_lag, self.exhausted = 0, False, False


def facts(life: Life, row: CallRow, doubt: Doubt) -> CallFacts:
    """Return what is known beside the row; the current policy's words count, not those of the first dispatch (#41)."""
    if row.status.settled:
        return CallFacts()
    now = life.now()
    waiting = 0.0 if row.not_before is None else max(0.0, seconds_between(now, row.not_before))
    if row.status in (CallStatus.PREPARED, CallStatus.AWAITING_APPROVAL):
        return CallFacts(wait_seconds=waiting)
    doubt.turn_to(row.attempt)
    if row.status is CallStatus.RUNNING:
        return CallFacts(started_here=life.operations.serving(row.call_no) is not None)
    # What is gone once stays gone; looking for children means reading about every process there is.
    alive, here = _sender_alive(life, row) if doubt.gone_at is None else (False, False)
    if not alive and doubt.gone_at is None:
        doubt.gone_at = life.around.clock.monotonic() if life.began(row) else life.began_at
    decision = doubt.decision if doubt.tool is not None else None
    return CallFacts(
        sender_alive=alive,
        sender_here=here and not doubt.sender_overdue,
        twin_running=life.operations.in_flight(row.tool_namespace, row.tool_name, beside=row.call_no),
        gone_seconds=None if doubt.gone_at is None else life.around.clock.monotonic() - doubt.gone_at,
        has_probe=decision is not None and (decision.probe is not None or decision.has_probe),
        negatives=doubt.negatives,
        negative_after_lag=doubt.negative_after_lag,
        probe_lag_seconds=decision.probe_lag_seconds if decision is not None else 0.0,
        probe_exhausted=doubt.exhausted,
        probe_reason=doubt.reason,
        key_alive_seconds=life.ledger.read(lambda store: key_alive_seconds(store, row, now)) if decision else None,
        first_was_keyed=row.key_expires_at is not None,
        unsendable=_unsendable(life, row, decision) if row.key_expires_at is not None and decision is not None else "",
        attempts_left=attempts_left(life, row, decision),
        wait_seconds=waiting,
        tool_known=doubt.tool is not None,
        still_valid=row.valid_until is None or not life.ledger.read(lambda store: approvals.is_stale(store, row, now)),
        replay_policy=decision.replay_policy if decision is not None else ReplayPolicy.ASK,
    )


def key_alive_seconds(store: SqlStore, row: CallRow, now: str) -> float | None:
    """Return how long the provider still remembers the key; a clock that stepped back revives nothing (#38)."""
    if row.key_expires_at is None:
        return None
    newest = max(store.newest_time() or now, row.started_at or now)
    if row.key_expires_at != FOREVER and seconds_between(now, newest) > CLOCK_SLACK_SECONDS:
        return 0.0  # how much time has passed since the clock was set back is not known: the key may be forgotten
    return seconds_between(max(now, newest), row.key_expires_at)


def _sender_alive(life: Life, row: CallRow) -> tuple[bool, bool]:
    """Return whether the sender may still be sending, and whether it is a thread or a child of this process."""
    if row.idempotency_key in LIVING_SENDERS:
        return True, True
    own = life.began(row)
    sent_by = None if own else life.ledger.read(lambda store: store.runs.life(row.run_id, row.fence))
    if own or (sent_by is not None and sent_by.owner == life.around.owner):
        # The body is over; a child that it started may not be.
        children = living_children(life.around.owner, since=row.started_at)
        return bool(children), bool(children)
    return sent_by is not None and another_still_sends(sent_by, row), False


def another_still_sends(sent_by: LifeRow, row: CallRow) -> bool:
    """Return whether another process, or a child of it, may still be sending what a life of it has sent."""
    state = liveness(sent_by.owner)
    if state is Liveness.ALIVE:
        over = sent_by.ended_at is not None and not (sent_by.how or "").endswith("+sender")
        return not over or bool(living_children(sent_by.owner, since=row.started_at))
    # Of a process on another host nothing is certain, however old its lease is: only evidence or a person can tell.
    return state is Liveness.UNKNOWN or bool(living_children(sent_by.owner))


def attempts_allowed(life: Life, row: CallRow, decision: Decision | None) -> int:
    """Return how many requests a call may cost in all; before it may cost no more the ledger is asked for grants."""
    budgets = life.section("budgets")
    allowed = attempts_in_all(budgets, decision, life.account.retries)
    if row.attempt < allowed:
        return allowed
    life.account.retries = life.ledger.read(lambda store: limits.granted_retries(store, life.run_id))
    return attempts_in_all(budgets, decision, life.account.retries)


def attempts_in_all(budgets: Mapping[str, Any], decision: Decision | None, granted: int) -> int:
    """Return how many requests a call may cost by the tool's own words, else by the job's budget and what was granted.

    Args:
        budgets: of the run's specification.
        decision: what the policy says of the tool; ``None`` where it is not known here.
        granted: retries that were granted to the run since.
    """
    if decision is not None and decision.max_attempts is not None:
        return decision.max_attempts
    budget = budgets.get("max_retries_per_tool_call")
    return (max(1, int(budget)) if budget is not None else DEFAULT_MAX_ATTEMPTS) + granted


def attempts_left(life: Life, row: CallRow, decision: Decision | None) -> int:
    """Return how many requests the budget still allows."""
    return attempts_allowed(life, row, decision) - row.attempt


def await_sender(life: Life, row: CallRow, doubt: Doubt) -> Loop:
    """Wait a bounded time for a sender of this process that outlived its timeout."""
    sender = LIVING_SENDERS.get(row.idempotency_key)
    if sender is not None:
        if sender is not doubt.sender:
            doubt.sender = sender
            sender.on_finished.append(lambda: keep_late_return(life, row, sender))
            sender.on_finished.append(life.operations.wake_parked)
        yield AwaitSender(sender, life.around.tuning.sender_grace_seconds)
        doubt.sender_overdue = not sender.finished.is_set()
    else:
        yield from _await_children(life, row, doubt)
    return (yield from late_return(life, row, doubt))


def _await_children(life: Life, row: CallRow, doubt: Doubt) -> Loop:
    give_up = life.around.clock.monotonic() + life.around.tuning.sender_grace_seconds
    while living_children(life.around.owner, since=row.started_at):
        if life.around.clock.monotonic() >= give_up:
            doubt.sender_overdue = True
            return
        yield Pause(CHILD_POLL_SECONDS)


def late_return(life: Life, row: CallRow, doubt: Doubt) -> Loop:
    """Take the outcome of a sender that came back after its timeout: it is the outcome (semantics #25)."""
    outcome = doubt.sender.outcome if doubt.sender is not None else None
    if outcome is not None and outcome.ended is Ended.VALUE:
        receipt = recording.receipt_of(life, row, outcome)
        try:
            yield Commit(lambda store: recording.keep_receipt(life, store, row, receipt))
        except StoreError as problem:
            late_receipt.lose(life, row, receipt, problem)
            raise
    elif outcome is not None and outcome.ended is Ended.NOT_DONE:
        allowed = attempts_allowed(life, row, doubt.decision)
        yield Commit(lambda store: recording.store_setback(life, store, row, outcome, allowed))
    return (yield Commit(lambda store: store.calls.get(row.call_no)))


def keep_late_return(life: Life, row: CallRow, sender: Sender) -> None:
    """Keep what a sender brings back after its life has ended: success counts from anyone, at any time."""
    outcome = sender.outcome
    if not life.closed or outcome is None or outcome.ended is not Ended.VALUE:
        return
    receipt = recording.receipt_of(life, row, outcome)

    def keep(store: SqlStore) -> None:
        current = store.calls.get(row.call_no)
        unsettled = current.status is CallStatus.IN_DOUBT and current.attempt == row.attempt
        recording.keep_receipt(life, store, current if unsettled else row, receipt)
        let_the_run_go_on(store, row.run_id, life.now())

    with suppress(StoreError):  # the ledger may be closed; then the process ends, and the call is in doubt
        life.ledger.run(keep)


def ask_probe(life: Life, row: CallRow, doubt: Doubt) -> Loop:
    """Ask the provider once, and remember what its answer is worth."""
    function, lag_seconds = _probe_of(life, doubt)
    asked_at = life.around.clock.monotonic()
    answer: Probe = yield from _consult(life, row, function)
    if answer.verdict == "happened" and answer.ref is not None:
        answer = yield from _whose_is_it(life, row, function, answer)
    row, verdict = yield Commit(lambda store: answers_of_probes.store_probe(life, store, row, answer))
    if verdict == "not_happened":
        doubt.negatives += 1
        gone = 0.0 if doubt.gone_at is None else asked_at - doubt.gone_at
        doubt.negative_after_lag = doubt.negative_after_lag or gone >= lag_seconds
    elif verdict == "unknown":
        doubt.exhausted, doubt.reason = True, answer.reason
    return row


def look_again(life: Life) -> Loop:
    """Ask once more about calls that were sent again because a probe said no: the first request may have landed since.

    A second effect cannot be undone here; it is evidence, and stands in the inbox (semantics #30).
    """
    for call_no in sorted(life.believed_noes):
        row = yield Commit(_row_of(call_no))
        tool = life.registry.find(row.tool_namespace, row.tool_name)
        known = row.external_correlation_id
        if row.status is not CallStatus.SUCCEEDED or known is None or tool is None:
            continue
        function, _ = _probe_of(life, Doubt(life.decision(tool), tool))
        answer: Probe = yield from _consult(life, row, function)
        if answer.verdict == "happened" and answer.ref not in (None, known):
            yield Commit(partial(_store_second, life, row, answer))


def _row_of(call_no: int) -> Callable[[SqlStore], CallRow]:
    return lambda store: store.calls.get(call_no)


def _store_second(life: Life, row: CallRow, answer: Probe, store: SqlStore) -> None:
    if answer.ref is not None and store.calls.ref_owner(row.tool_name, answer.ref) is None:
        recording.add_evidence(life, store, row, "probe", "duplicate_found", ref=answer.ref)
        recording.tell_of_duplicate(life, store, row, answer.ref)


def _whose_is_it(life: Life, row: CallRow, function: ProbeFunction, answer: Probe) -> Loop:
    """Make sure that a found effect is not the one of a kin whose own reference nobody knows (R6, semantics #8).

    A probe that searches by arguments finds the effect of an equal call that succeeded before. The engine asks the same
    question about each such kin: the same reference means that the answer does not tell them apart.
    """
    others = yield Commit(lambda store: store.kin.without_ref(row, KIN_LIMIT + 1))
    if len(others) > KIN_LIMIT:
        return Probe.unknown(f"{answer.ref} may belong to one of over {KIN_LIMIT} calls without a reference")
    for other in others:
        theirs: Probe = yield from _consult(life, other, function)
        if theirs.verdict != "happened" or theirs.ref in (None, answer.ref):
            return Probe.unknown(f"{answer.ref} may belong to {other.tool_call_id}, which has no reference of its own")
    return answer


def _probe_of(life: Life, doubt: Doubt) -> tuple[ProbeFunction, float]:
    decision, tool, stand_ins = doubt.decision, doubt.tool, life.around.tuning.stand_ins
    if decision is not None and tool is not None and stand_ins is not None:
        stand_in = stand_ins.probe(tool, decision)
        if stand_in is not None:
            return stand_in, decision.probe_lag_seconds
    if decision is not None and decision.probe is not None:
        return _named_probe(decision.probe), decision.probe_lag_seconds
    if decision is None or tool is None or tool.probe_function is None:
        raise StoreError(f"{tool.name if tool is not None else 'the tool'} has no probe")
    return tool.probe_function, decision.probe_lag_seconds


def _consult(life: Life, row: CallRow, function: ProbeFunction) -> Loop:
    """Ask a probe about the exact request; where that cannot be had any more, nobody can tell."""
    try:
        stored = decode((yield Commit(lambda store: store.calls.request(row.call_no))))
        arguments = life.sources.fill(attached.taken_out(stored)[0])
    except SecretUnavailable as problem:
        return Probe.unknown(str(problem))
    question = Consult(function, context_of(life, row, arguments))
    if life.spans is None:
        return (yield question)
    with life.spans.probing(row) as span:
        answer = yield question
        life.spans.answered(span, answer)
    return answer


def _unsendable(life: Life, row: CallRow, decision: Decision) -> str:
    """Return why the exact request cannot, or may not under the rules in force now, be sent again, or nothing."""
    try:
        stored = decode(life.ledger.read(lambda store: store.calls.request(row.call_no)))
        life.sources.fill(stored)
    except SecretUnavailable as problem:
        return str(problem)
    arguments, attachments = attached.taken_out(stored)
    refused = refusal(life.spec, decision, row.tool_namespace, row.tool_name, arguments)
    return refused or attached.changed(life.workspace, attachments)


def _named_probe(name: str) -> ProbeFunction:
    """Return the probe that a policy names; one that cannot be loaded answers ``unknown``, as one that raises does."""

    def ask(call: CallContext) -> object:
        module, _, attribute = name.partition(":")
        function: ProbeFunction = getattr(importlib.import_module(module), attribute)
        return function(call)

    return ask
