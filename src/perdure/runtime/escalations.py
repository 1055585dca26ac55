"""Failures about which a person is asked before the run goes on (R042), and equal errors in a row (R040).

What is asked about is what a tool says of itself, ``ToolFailed(kind="auth")`` or ``kind="ambiguous_recipient"``, and
what the ledger counts: the same error of the same tool, so many times in a row. The call parks, no other effect starts,
and the person says ``retry`` or ``give up``.
"""

from __future__ import annotations

import json

from perdure.core.transitions import CallEvent
from perdure.model.errors import CallError, VerdictRefused
from perdure.model.run import Authority
from perdure.model.toolcall import CallRow, CallStatus, Evidence
from perdure.ports.tool import AMBIGUOUS_RECIPIENT, AUTH, ToolFailed
from perdure.runtime.life import Life
from perdure.store.questions import Question
from perdure.store.sql_store import SqlStore

REPEATED = "repeated"
RETRY, GIVE_UP = "retry", "give up"
_KEYS = {
    AUTH: "ask_human_on_auth_failure",
    AMBIGUOUS_RECIPIENT: "ask_human_on_ambiguous_recipient",
    REPEATED: "ask_human_on_repeated_failures",
}
_HINTS = {
    AUTH: "renew the credentials, then answer retry",
    AMBIGUOUS_RECIPIENT: "say who is meant where the tool looks it up, then answer retry",
    REPEATED: "mend what is behind it, then answer retry",
}
_LONGEST_ERROR = 500


def note_error(life: Life, store: SqlStore, row: CallRow, error: BaseException | None) -> str | None:
    """Count a definite error, and return why a person is asked about it, or ``None``.

    Args:
        error: what the attempt ended with; one that only hands on the failure of a call inside it is counted there.
    """
    if error is None or isinstance(error, CallError):
        return None
    count = _count(life, store, row, f"{type(error).__name__}: {error}"[:_LONGEST_ERROR])
    asked = life.section("escalation")
    kind = error.kind if isinstance(error, ToolFailed) else None
    if kind in (AUTH, AMBIGUOUS_RECIPIENT) and asked.get(_KEYS[kind]) is True:
        return kind
    repeats = life.account.repeats
    if repeats is not None and count >= repeats and asked.get(_KEYS[REPEATED]) is True:
        return REPEATED
    return None


def _count(life: Life, store: SqlStore, row: CallRow, error: str) -> int:
    account = life.account
    if account.repeats is None:
        return 0
    again = (account.last_error, account.last_error_tool) == (error, row.tool_name)
    count = account.usage.errors + 1 if again else 1
    _note(life, store, error, row.tool_name, count)
    return count


def note_success(life: Life, store: SqlStore, row: CallRow) -> None:
    """End the row of equal errors of a tool that has succeeded."""
    if life.account.repeats is not None and life.account.last_error_tool == row.tool_name:
        _note(life, store, None, None, 0)


def _note(life: Life, store: SqlStore, error: str | None, tool_name: str | None, count: int) -> None:
    store.budgets.note_error(life.run_id, life.fence, error=error, tool_name=tool_name, count=count)
    life.account.erred(error, tool_name, count)


def ask(life: Life, store: SqlStore, row: CallRow, error: BaseException, kind: str, named: str) -> CallRow:
    """Park a call that did nothing until a person has said how to go on.

    Args:
        kind: why a person is asked.
        named: the call as a person would say it.
    """
    now = life.now()
    store.calls.move(row, CallEvent.NOT_DONE, life.authority, now)
    store.calls.move(store.calls.get(row.call_no), CallEvent.ASK_APPROVAL, life.authority, now)
    life.account.escalated.add(row.call_no)
    if kind == REPEATED:
        _note(life, store, None, None, 0)
    code = type(error).__name__
    store.questions.ask(
        "a" + life.around.new_token(),
        run_id=life.run_id,
        fence=life.fence,
        tool_call_id=row.tool_call_id,
        kind="question",
        summary=f"{named}: {error}; {_HINTS[kind]}",
        detail=json.dumps({"escalation": kind, "error_code": code, "error_detail": str(error)}),
        request_hash=row.args_hash,
        now=now,
    )
    return store.calls.get(row.call_no)


def wants_retry(text: str, question: Question) -> bool:
    """Return which of the two answers a person gave.

    Raises:
        VerdictRefused: it is neither.
    """
    word = " ".join(text.casefold().split())
    if word not in (RETRY, GIVE_UP):
        raise VerdictRefused(
            f"{question.approval_id} is answered by {RETRY!r} or {GIVE_UP!r}, not by {text!r}",
            next_command=f"perdure answer {question.approval_id} {RETRY}",
        )
    return word == RETRY


def settle(
    store: SqlStore, question: Question, authority: Authority, *, retry: bool, actor: str, reason: str, now: str
) -> CallRow:
    """Take a person's answer: the call is due again, or fails with the error that it had.

    Raises:
        VerdictRefused: it was answered already.
    """
    row = store.calls.by_id(question.tool_call_id or "")
    if row is None or question.status != "open" or row.status is not CallStatus.AWAITING_APPROVAL:
        raise VerdictRefused(f"{question.approval_id} is {question.status}, and takes no answer any more")
    if retry:
        store.calls.move(row, CallEvent.APPROVED, authority, now)
    else:
        told = json.loads(question.detail or "{}")
        said = f"{told['error_detail']} ({actor} gave up{': ' + reason if reason else ''})"
        store.calls.move(row, CallEvent.REFUSED, authority, now, error_code=told["error_code"], error_detail=said)
    word = RETRY if retry else GIVE_UP
    detail = json.dumps({"reason": reason}) if reason else None
    store.calls.add_evidence(row.tool_call_id, Evidence("verdict", now, actor, row.attempt, word, detail, None))
    store.questions.answer(question.approval_id, authority, answer=word, actor=actor, now=now)
    return store.calls.get(row.call_no)
