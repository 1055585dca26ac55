"""What a person decides about a call that awaits consent: approve it, approve it with changed arguments, or deny it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from perdure.core.codec import Unstorable, decode, encode, from_tagged
from perdure.core.conditions import refusal
from perdure.core.identity import FILES, args_hash, effect_scope, request_hash
from perdure.core.policy import evaluate
from perdure.core.transitions import CallEvent
from perdure.model.errors import VerdictRefused
from perdure.model.policy import Policy
from perdure.model.toolcall import DENIED, CallRow, CallStatus, Evidence
from perdure.ports.clock import after
from perdure.runtime.approvals import APPROVAL, APPROVED, DENIED_BY_PERSON, settled_now
from perdure.runtime.attached import digests, taken_out
from perdure.runtime.finding import no_question
from perdure.runtime.freeing import let_the_run_go_on
from perdure.runtime.registry import AnyTool
from perdure.runtime.request import Digest, bound_again
from perdure.runtime.tool_schema import checked_arguments
from perdure.runtime.verdicts import authority_of, settle_escalation
from perdure.store.questions import Question
from perdure.store.sql_store import SqlStore


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer to a question about consent.

    Args:
        edit: arguments to be sent instead of those that were asked about; those left out stay.
    """

    approved: bool
    actor: str
    reason: str = ""
    edit: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of the call that is to be edited: its tool, and the rules, specification and folder of its run."""

    tool: AnyTool | None
    policy: Policy
    spec: Mapping[str, Any]
    workspace: str


@dataclass(frozen=True, slots=True)
class _Edited:
    """A request as a person has changed it."""

    stored: str
    args_hash: str
    scope: str | None


def decide(store: SqlStore, approval_id: str, answer: Answer, wall: str, known: Known | None = None) -> CallRow:
    """Approve or deny a call; the answer is used once, and the first one counts.

    Args:
        known: what an edit is checked against.

    Raises:
        NotFound: there is no such question.
        VerdictRefused: it was answered already, its time is over, it is superseded, or the edit does not fit.
    """
    question = store.questions.get(approval_id)
    if question is None:
        raise no_question(store, approval_id)
    now = settled_now(store, wall)
    if question.escalation is not None and answer.edit is None:
        return settle_escalation(
            store, question, retry=answer.approved, actor=answer.actor, reason=answer.reason, now=now
        )
    row = _awaiting(store, question)
    _check_open(store, question, row, answer, now)
    if answer.approved:
        _approve(store, question, row, answer, now, known)
    else:
        detail = f"{answer.actor} denied it" + (f": {answer.reason}" if answer.reason else "")
        store.calls.move(
            row, CallEvent.REFUSED, authority_of(store, row.run_id), now, error_code=DENIED, error_detail=detail
        )
        _record(store, question, row, answer, DENIED_BY_PERSON, now)
    store.seals.seal(row.run_id, now)
    let_the_run_go_on(store, row.run_id, now)
    return store.calls.get(row.call_no)


def _awaiting(store: SqlStore, question: Question) -> CallRow:
    row = store.calls.by_id(question.tool_call_id or "")
    if row is None or question.kind != APPROVAL:
        raise VerdictRefused(
            f"{question.approval_id} asks for another kind of answer ({question.kind})",
            next_command=f"perdure inbox {question.run_id}",
        )
    if question.status != "open" or row.status is not CallStatus.AWAITING_APPROVAL:
        by = f" by {question.actor}" if question.actor else ""
        raise VerdictRefused(
            f"{question.approval_id} is no open question: {question.answer or question.status} at "
            f"{question.decided_at}{by}",
            next_command=f"perdure calls explain {row.tool_call_id}",
        )
    return row


def _check_open(store: SqlStore, question: Question, row: CallRow, answer: Answer, now: str) -> None:
    if question.expires_at is not None and now >= question.expires_at:
        raise VerdictRefused(
            f"{question.approval_id} expired at {question.expires_at}; nothing was sent",
            next_command=f"perdure resume {row.run_id}   # a run that this ended asks again",
        )
    if not answer.approved:
        return
    if question.superseded_by is not None:
        newer = store.questions.open_of_call(question.superseded_by)
        raise VerdictRefused(
            f"{question.approval_id} is superseded by {question.superseded_by}: the program asks for that call now, "
            "and nobody asks for this one",
            next_command=f"perdure approve {newer.approval_id}" if newer else f"perdure resume {row.run_id}",
        )
    shown = (request_hash(store.calls.request(row.call_no), store.vault.digest), row.args_hash)
    if question.request_hash not in shown:
        raise VerdictRefused(
            f"{question.approval_id} was asked about another request than the one that stands in the ledger",
            next_command=f"perdure calls show {row.tool_call_id}",
        )


def _approve(store: SqlStore, question: Question, row: CallRow, answer: Answer, now: str, known: Known | None) -> None:
    authority = authority_of(store, row.run_id)
    detail: dict[str, Any] = {}
    edited = None
    if answer.edit:
        before = store.calls.request(row.call_no)
        edited = edit(row, before, answer.edit, known, digest=store.vault.digest)
        if edited.stored != before:
            store.consents.edit(
                row, authority, now, request=edited.stored, args_hash=edited.args_hash, scope=edited.scope
            )
            detail = {"edited": json.loads(edited.stored), "asked_for": json.loads(before)}
    lasts = json.loads(question.detail or "{}").get("valid_for_seconds")
    if lasts is not None:
        store.consents.extend_validity(row.call_no, authority, now, valid_until=after(now, lasts))
    store.calls.move(row, CallEvent.APPROVED, authority, now)
    _record(store, question, row, answer, APPROVED, now, detail, edited)


def edit(row: CallRow, stored: str, changes: Mapping[str, Any], known: Known | None, *, digest: Digest) -> _Edited:
    """Return a stored request with some arguments changed, checked as the call itself would be.

    Raises:
        VerdictRefused: the call was sent before, its tool is not known here, or signature or rules do not allow it.
    """

    def no(problem: str, next_command: str = "") -> VerdictRefused:
        return VerdictRefused(
            f"{row.tool_call_id} cannot be edited: {problem}",
            safe="Nothing was changed, and the question is still open.",
            next_command=next_command or f"perdure calls show {row.tool_call_id}",
        )

    if row.attempt > 0:
        raise no("its key was sent before, with the arguments as they are")
    tool = known.tool if known is not None else None
    if known is None or tool is None:
        raise no(f"this process does not know the tool {row.tool_name}", "perdure approve ID --edit … --tools MODULE")
    before, _ = taken_out(decode(stored))
    try:
        given = {name: from_tagged(value) for name, value in changes.items()}
        checked, problem = checked_arguments(tool, {**before, **given})
        if problem is not None:
            raise no(problem)
        complete = {**before, **{name: checked.get(name, value) for name, value in given.items()}}
        decision = evaluate(known.policy, tool.declaration)
        arguments, complete = bound_again(tool, complete)
        files = digests(tool, arguments, Path(known.workspace), decision.volatile)
        text = encode({**complete, FILES: files} if files else complete, at="arguments")
        hashed = args_hash(arguments, volatile=decision.volatile, files=files, digest=digest)
    except (Unstorable, TypeError) as wrong:
        raise no(str(wrong)) from None
    refused = refusal(known.spec, decision, row.tool_namespace, row.tool_name, complete)
    if refused is not None:
        raise no(refused, f"perdure policy explain {row.tool_name}")
    # The scope was declared when the row was minted, or was not: what its kin are compared by stays of one kind.
    scope = effect_scope(complete, decision.scope) if row.effect_scope is not None else None
    return _Edited(text, hashed, scope)


def _record(
    store: SqlStore,
    question: Question,
    row: CallRow,
    answer: Answer,
    says: str,
    now: str,
    detail: Mapping[str, Any] | None = None,
    edited: _Edited | None = None,
) -> None:
    told = {**(detail or {}), **({"reason": answer.reason} if answer.reason else {})}
    text = json.dumps(told) if told else None
    store.calls.add_evidence(row.tool_call_id, Evidence("verdict", now, answer.actor, row.attempt, says, text))
    store.questions.answer(
        question.approval_id,
        authority_of(store, row.run_id),
        answer=says,
        actor=answer.actor,
        now=now,
        request_hash=None if edited is None else request_hash(edited.stored, store.vault.digest),
    )
