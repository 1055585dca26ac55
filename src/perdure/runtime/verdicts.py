"""What people decide: recorded with their name, single use, and bound by the same quarantine as the engine.

The transaction that takes an answer also makes the run claimable when nothing else is open (semantics #28).
"""

from __future__ import annotations

import getpass
import json
import os
from dataclasses import dataclass
from typing import Any

from perdure.core.codec import encode
from perdure.core.transitions import CallEvent
from perdure.model.errors import NotFound, UsageError, VerdictRefused
from perdure.model.run import Authority, RunStatus
from perdure.model.toolcall import CallRow, CallStatus, Evidence
from perdure.ports.clock import seconds_between
from perdure.runtime import answering, escalations, lags, late_reply, recording
from perdure.runtime.finding import no_call, no_question
from perdure.runtime.freeing import let_the_run_go_on
from perdure.runtime.lease import Liveness, liveness, living_children
from perdure.runtime.left_out import LEFT_OUT, is_open, said_of
from perdure.store.questions import Question
from perdure.store.sql_store import SqlStore

VERDICTS = ("happened", "did_not_happen", "abandon", "same", "another")


@dataclass(frozen=True, slots=True)
class Verdict:
    """One answer of a person about a call in doubt or challenged.

    Args:
        says: one of ``VERDICTS``.
        actor: who says it.
        result: what the caller will get for ``happened``; ``None`` and a note that it may be added, when left out.
        ref: the provider's own id of the effect.
        same_as: which of the listed kin it is, for ``same``; the newest when left out.
        force: accept "did not happen" while the sender may be alive; recorded.
    """

    says: str
    actor: str
    result: Any = LEFT_OUT
    ref: str | None = None
    same_as: str | None = None
    reason: str = ""
    force: bool = False


def asked_about_now(
    store: SqlStore, tool_call_id: str, verdict: Verdict, new_id: str, now: str, lag_seconds: float | None = None
) -> str | None:
    """Return why a "no" about a call that was found started is not taken yet, and ask about it.

    A verdict binds one attempt: who says "did not happen" has looked for the one before. And of a first attempt nobody
    has seen that its sender is gone, so that the provider's lag begins now (promise 5). The question that is put here
    must be committed, so this is no error yet.

    Args:
        lag_seconds: the probe lag of its tool, where this process knows it.
    """
    row = store.calls.by_id(tool_call_id)
    of_one_attempt = verdict.says in ("did_not_happen", "abandon")
    if row is None or row.status is not CallStatus.RUNNING or not of_one_attempt:
        return None
    lag = max(lags.recorded(store, row), lag_seconds or 0.0)
    if row.attempt < 2 and (lag <= 0 or verdict.says == "abandon" or verdict.force):
        return None
    _owner_must_be_gone(store, row)
    authority = authority_of(store, row.run_id)
    _lose(store, row, authority, now)
    since = "its sender is gone" if row.attempt < 2 else f"It began at {row.started_at}, after your answer"
    store.questions.ask(
        new_id,
        run_id=row.run_id,
        fence=authority.fence,
        tool_call_id=row.tool_call_id,
        kind="in_doubt",
        summary=f"{row.tool_name}: did attempt {row.attempt} happen? {since}",
        now=now,
        detail=json.dumps({"attempt": row.attempt, "probe_lag_seconds": lag}),
        request_hash=row.args_hash,
    )
    if row.attempt < 2:
        return f"{row.tool_call_id}: the provider may still be about to show it; wait {lag:.0f} s"
    return f"{row.tool_call_id} was sent again at {row.started_at} (attempt {row.attempt}), and nobody was asked since"


def settled_by_reply(store: SqlStore, tool_call_id: str, verdict: Verdict, now: str) -> str | None:
    """Settle a call by a late reply of its sender where a person is about to say "no"; return what was found then.

    "Done" counts from anyone at any time, so that no "no" stands against it, not even by force (promise 5). What is
    settled here must be committed, so this is no error yet.
    """
    row = store.calls.by_id(tool_call_id)
    if row is None or verdict.says not in ("did_not_happen", "abandon") or late_reply.reply_about(store, row) is None:
        return None
    authority = authority_of(store, row.run_id)
    if row.status is CallStatus.RUNNING:
        _owner_must_be_gone(store, row)
        _lose(store, row, authority, now)
    if late_reply.settle(store, store.calls.get(row.call_no), authority, now).status is not CallStatus.SUCCEEDED:
        return None
    store.seals.seal(row.run_id, now)
    let_the_run_go_on(store, row.run_id, now)
    return f"{tool_call_id} happened: its sender has said so since, and the call has succeeded with that reply"


def _lose(store: SqlStore, row: CallRow, authority: Authority, now: str) -> None:
    """Record that a started call's sender is gone: the lag of "it did not happen" is counted from here."""
    store.calls.add_evidence(
        row.tool_call_id, Evidence("attempt", now, "perdure", row.attempt, "lost", recording.SENDER_GONE)
    )
    store.calls.move(row, CallEvent.LOST, authority, now)


def resolve(store: SqlStore, tool_call_id: str, verdict: Verdict, now: str) -> CallRow:
    """Take a verdict and return the row as it is then.

    Raises:
        NotFound: there is no such call.
        VerdictRefused: it does not fit the call's state, or the sender may be alive.
    """
    row = store.calls.by_id(tool_call_id)
    if row is None:
        raise no_call(store, tool_call_id)
    if verdict.says in ("same", "another"):
        _challenge(store, row, verdict, now)
    elif verdict.says in VERDICTS:
        _doubt(store, row, verdict, now)
    else:
        raise UsageError(f"a verdict is one of {', '.join(VERDICTS)}")
    store.seals.seal(row.run_id, now)
    let_the_run_go_on(store, row.run_id, now)
    return store.calls.get(row.call_no)


def _doubt(store: SqlStore, row: CallRow, verdict: Verdict, now: str) -> None:
    authority = authority_of(store, row.run_id)
    if row.status is CallStatus.RUNNING:
        _owner_must_be_gone(store, row)
        _lose(store, row, authority, now)
        row = store.calls.get(row.call_no)
    owner = store.calls.ref_owner(row.tool_name, verdict.ref) if verdict.ref else None
    if verdict.says == "happened" and owner not in (None, row.tool_call_id):
        raise VerdictRefused(f"the reference {verdict.ref} belongs to {owner}")
    taken_for_not_done = row.status is CallStatus.PREPARED and row.attempt > 0
    if row.status is CallStatus.SUCCEEDED and verdict.says == "happened" and is_open(store, row):
        _add_value(store, row, verdict, authority, now)
        return
    if row.status is not CallStatus.IN_DOUBT and not (taken_for_not_done and verdict.says == "happened"):
        raise VerdictRefused(
            f"{row.tool_call_id} is {row.status}, not in doubt",
            next_command=f"perdure calls explain {row.tool_call_id}",
        )
    detail = None
    if verdict.says != "happened" and late_reply.reply_about(store, row) is not None:
        raise VerdictRefused(
            f"{row.tool_call_id}: its sender has just said that it happened",
            next_command=f"perdure calls explain {row.tool_call_id}",
        )
    if verdict.says == "happened":
        response = encode(None if verdict.result is LEFT_OUT else verdict.result)
        store.calls.succeed(row, authority, now, response=response, ref=verdict.ref, delivered_seq=None)
        detail = json.dumps(said_of(verdict.result)) if verdict.result is None else None
    elif verdict.says == "did_not_happen":
        problem = quarantine_problem(store, row, now)
        if problem is not None and not verdict.force:
            raise VerdictRefused(
                f"{row.tool_call_id}: {problem}",
                safe="Nothing was changed; a sender that is still alive could act after your answer.",
                next_command=f"perdure resolve {row.tool_call_id} --did-not-happen   # later, or with --force",
            )
        detail = json.dumps({"forced_over": problem}) if problem is not None else None
        store.calls.move(row, CallEvent.NOT_DONE, authority, now)
        late_reply.settle(store, store.calls.get(row.call_no), authority, now)  # an earlier attempt may have been done
        _nobody_asks_again(store, row, authority, now)
    else:
        store.calls.move(row, CallEvent.GIVE_UP, authority, now)
    _write(store, row, verdict, now, detail)


def _nobody_asks_again(store: SqlStore, row: CallRow, authority: Authority, now: str) -> None:
    """Withdraw a call that was not done in a cancelled run: it keeps neither a dedupe key nor bodies for ever."""
    run, current = store.runs.get(row.run_id), store.calls.get(row.call_no)
    if run is not None and run.status is RunStatus.CANCELLED and current.status is CallStatus.PREPARED:
        store.calls.move(current, CallEvent.WITHDRAWN, authority, now)


def _add_value(store: SqlStore, row: CallRow, verdict: Verdict, authority: Authority, now: str) -> None:
    """Add what a call returned to the word that it happened; without a value only the reference is added."""
    question = store.questions.open_of_call(row.tool_call_id)
    if verdict.result is LEFT_OUT and question is not None and question.wants_value:
        raise VerdictRefused(
            f"{row.tool_call_id} is known to have happened: what it returned is asked for",
            next_command=f"perdure resolve {row.tool_call_id} --happened --result JSON   # null: nothing",
        )
    left_out = verdict.result is LEFT_OUT
    store.calls.amend(row, authority, now, response=encode(None if left_out else verdict.result), ref=verdict.ref)
    _write(store, row, verdict, now, None if left_out else json.dumps({"result": "added"}))


def _challenge(store: SqlStore, row: CallRow, verdict: Verdict, now: str) -> None:
    question = store.questions.open_of_call(row.tool_call_id)
    if row.status is not CallStatus.AWAITING_APPROVAL or question is None or question.kind != "challenge":
        raise VerdictRefused(f"{row.tool_call_id} is {row.status} and has no open challenge")
    kin: list[str] = json.loads(question.detail or "{}").get("kin", [])
    authority = authority_of(store, row.run_id)
    if verdict.says == "another":
        store.calls.move(row, CallEvent.APPROVED, authority, now)
        _write(store, row, verdict, now, json.dumps({"kin": kin}))
        return
    same_as = verdict.same_as or kin[-1]
    if same_as not in kin:
        raise VerdictRefused(f"{same_as} is not one of the effects in question: {', '.join(kin)}")
    other = store.calls.by_id(same_as)
    if other is not None and not other.status.settled:  # it stands in a run that this one was forked from
        raise VerdictRefused(
            f"{same_as} is {other.status} itself, so that there is nothing its caller could get",
            next_command=f"perdure calls explain {same_as}   # settle it there first",
        )
    store.calls.move(row, CallEvent.SAME_AS, authority, now, same_as=same_as)
    _write(store, row, verdict, now, json.dumps({"same_as": same_as}))


def answer_question(store: SqlStore, approval_id: str, *, text: str, actor: str, now: str) -> None:
    """Answer a question of the program, or close a notice with a person's words.

    Raises:
        NotFound: there is no such question.
        VerdictRefused: it was answered already, wants a verdict, or has options and this is none of them.
    """
    question = store.questions.get(approval_id)
    if question is None:
        raise no_question(store, approval_id)
    if question.escalation is not None:
        retry = escalations.wants_retry(text, question)
        settle_escalation(store, question, retry=retry, actor=actor, reason="", now=now)
        return
    if question.change is not None and question.status == "open":
        if text != "continue":
            raise VerdictRefused(
                f"{approval_id} asks whether the run goes on with what has changed: continue is the answer to it",
                next_command=f"perdure answer {approval_id} continue   # or: perdure runs cancel {question.run_id}",
            )
        authority = authority_of(store, question.run_id)
        store.questions.answer(approval_id, authority, answer=text, actor=actor, now=now)
        let_the_run_go_on(store, question.run_id, now)
        return
    if question.is_asked:
        row = answering.answer(store, question, text=text, actor=actor, now=now)
        let_the_run_go_on(store, row.run_id, now)
        store.seals.seal(row.run_id, now)
        return
    if question.status != "open" or not question.is_notice:
        wanted = f"perdure resolve {question.tool_call_id} --happened --result JSON" if question.wants_value else ""
        raise VerdictRefused(
            f"{approval_id} is {question.status} ({question.kind}), and takes no answer in words", next_command=wanted
        )
    authority = authority_of(store, question.run_id)
    store.questions.answer(approval_id, authority, answer=text, actor=actor, now=now)


def settle_escalation(
    store: SqlStore, question: Question, *, retry: bool, actor: str, reason: str, now: str
) -> CallRow:
    """Take an answer to an escalation: try the call again, or let it stay failed."""
    authority = authority_of(store, _row_of(store, question).run_id)
    row = escalations.settle(store, question, authority, retry=retry, actor=actor, reason=reason, now=now)
    store.seals.seal(row.run_id, now)
    let_the_run_go_on(store, row.run_id, now)
    return row


def _row_of(store: SqlStore, question: Question) -> CallRow:
    row = store.calls.by_id(question.tool_call_id or "")
    if row is None:
        raise VerdictRefused(f"{question.approval_id} is about no call")
    return row


def _write(store: SqlStore, row: CallRow, verdict: Verdict, now: str, detail: str | None) -> None:
    if detail is None and verdict.reason:
        detail = json.dumps({"reason": verdict.reason})
    elif detail is not None and verdict.reason:
        detail = json.dumps({**json.loads(detail), "reason": verdict.reason})
    says = Evidence("verdict", now, verdict.actor, row.attempt, verdict.says, detail, verdict.ref)
    store.calls.add_evidence(row.tool_call_id, says)
    question = store.questions.open_of_call(row.tool_call_id)
    if question is not None:
        authority = authority_of(store, row.run_id)
        store.questions.answer(question.approval_id, authority, answer=verdict.says, actor=verdict.actor, now=now)


def quarantine_problem(store: SqlStore, row: CallRow, now: str) -> str | None:
    """Return why "it did not happen" cannot be believed yet, or ``None`` (it binds people too)."""
    life = store.runs.life(row.run_id, row.fence)
    if life is not None:
        state = liveness(life.owner)
        ended = life.ended_at is not None and not (life.how or "").endswith("+sender")
        if state is Liveness.ALIVE and not ended:
            return f"the process that sent it (pid {life.owner.pid}) is alive"
        if state is Liveness.UNKNOWN and not ended:
            return f"the process that sent it ran on {life.owner.host}, and nothing here can tell whether it lives"
        # What a dead process has left may be older than the call; of a living one only what began with it counts.
        children = living_children(life.owner, since=None if state is Liveness.DEAD else row.started_at)
        if children:
            return f"a child of the process that sent it is alive (pid {children[0]})"
    lost = [item.at for item in store.calls.evidence(row.tool_call_id) if item.says == "lost"]
    if lost:
        # A clock that stepped back makes no time pass, and no lag longer.
        left = _lag_seconds(store, row) - max(0.0, seconds_between(lost[-1], now))
        if left > 0:
            return f"the provider may still be about to show it; wait {left:.0f} s"
    return None


def _lag_seconds(store: SqlStore, row: CallRow) -> float:
    """Return the lag that the call was sent under, or the one the question tells, whichever is longer."""
    question = store.questions.open_of_call(row.tool_call_id)
    said = json.loads(question.detail or "{}").get("probe_lag_seconds") if question is not None else None
    return lags.recorded(store, row) if said is None else max(lags.recorded(store, row), float(said))


def _owner_must_be_gone(store: SqlStore, row: CallRow) -> None:
    life = store.runs.life(row.run_id, row.fence)
    if life is not None and life.ended_at is None and liveness(life.owner) is not Liveness.DEAD:
        raise VerdictRefused(
            f"{row.tool_call_id} is being served by a living process (pid {life.owner.pid})",
            next_command=f"perdure calls explain {row.tool_call_id}",
        )


def authority_of(store: SqlStore, run_id: str) -> Authority:
    """Return the right to write a run's rows, by which a person's answer is written in this transaction."""
    run = store.runs.get(run_id)
    if run is None:
        raise NotFound(f"there is no run {run_id!r}")
    return run.authority


def person() -> str:
    """Return who is at the keyboard, for the record of a verdict."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"uid {os.getuid()}"
