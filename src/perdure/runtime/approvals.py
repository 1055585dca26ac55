"""A person's consent before a call is sent: when it is asked for, for how long it counts, and what it is bound to.

A question is bound to the exact request that stands in the ledger, and is answered once. What was agreed to covers that
one call until it has had its effect, attempts that provably did nothing included.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from perdure.core.codec import decode
from perdure.core.conditions import approval_needed, refusal
from perdure.core.identity import kin, request_hash
from perdure.core.transitions import CallEvent
from perdure.model.policy import ApprovalKind
from perdure.model.toolcall import DENIED, CallRow, CallStatus
from perdure.ports.clock import FOREVER, after
from perdure.runtime import attached
from perdure.runtime.freeing import let_the_run_go_on
from perdure.runtime.life import Life
from perdure.runtime.naming import named
from perdure.runtime.request import CallRequest
from perdure.store.questions import Question
from perdure.store.sql_store import SqlStore

APPROVED = "approved"
EXPIRED = "expired"
DENIED_BY_PERSON = "denied"
APPROVAL = "approval"


def settled_now(store: SqlStore, wall: str) -> str:
    """Return the time by which expiries are judged: a clock that was set back revives nothing (semantics #38)."""
    return max(wall, store.newest_time() or wall)


def valid_until(request: CallRequest, now: str) -> str | None:
    """Return until when a call that is decided now may be sent without asking again."""
    seconds = request.decision.valid_for_seconds
    if seconds is None or not request.decision.side_effect_class.effectful:
        return None
    return after(now, seconds)


def ask(life: Life, store: SqlStore, row: CallRow, request: CallRequest, now: str, *, why: str = "") -> None:
    """Put a call that needs a person's consent into the inbox, and mark what it has taken the place of.

    Args:
        why: what is new, where it is asked about once more.
    """
    stored = store.calls.request(row.call_no)
    lasts = request.decision.approval_expires_seconds
    store.questions.ask(
        "a" + life.around.new_token(),
        run_id=life.run_id,
        fence=life.fence,
        tool_call_id=row.tool_call_id,
        kind=APPROVAL,
        summary=f"{named(store, row)}: may it be sent?{f' {why}' if why else ''}",
        detail=json.dumps({"arguments": json.loads(stored), "valid_for_seconds": request.decision.valid_for_seconds}),
        request_hash=request_hash(stored, store.vault.digest),
        expires_at=None if lasts is None else after(now, lasts),
        now=now,
    )
    _supersede_earlier(life, store, row, request)


def _supersede_earlier(life: Life, store: SqlStore, row: CallRow, request: CallRequest) -> None:
    """Mark the open questions about kin that nobody in this life has asked for: the program has changed (#27)."""
    for question in store.questions.open(life.run_id):
        if question.kind != APPROVAL or question.tool_call_id in (None, row.tool_call_id):
            continue
        other = store.calls.by_id(question.tool_call_id or "")
        if other is None or other.args_hash == row.args_hash or life.context.holds(other.call_no):
            continue
        if kin(other, request.key, request.scope, unmet=True):
            store.questions.supersede(other.tool_call_id, life.authority, row.tool_call_id)


def asked_for_again(life: Life, store: SqlStore, row: CallRow) -> None:
    """Take the mark off a question whose call the program asks for after all."""
    if row.status is CallStatus.AWAITING_APPROVAL:
        store.questions.supersede(row.tool_call_id, life.authority, None)


def hold_back(life: Life, store: SqlStore, request: CallRequest, row: CallRow) -> CallRow | None:
    """Return the row as it is then, if a prepared call may not be sent under the rules in force now.

    A call that was decided longer ago than ``valid_for`` says, or for which the rules have come to want consent, is
    asked about; one that they do not allow any more is refused.
    """
    decision = request.decision
    asks = decision.approval.kind is not ApprovalKind.NEVER
    if not (row.valid_until or decision.allow_args or asks or life.section("constraints")):
        return None
    arguments, _ = attached.taken_out(decode(store.calls.request(row.call_no)))
    refused = refusal(life.spec, decision, row.tool_namespace, row.tool_name, arguments)
    now = life.now()
    if refused is not None:
        store.calls.move(row, CallEvent.REFUSED, life.authority, now, error_code=DENIED, error_detail=refused)
        return store.calls.get(row.call_no)
    why = _why_again(store, request, row, arguments, now)
    if why is None:
        return None
    store.calls.move(row, CallEvent.ASK_APPROVAL, life.authority, now)
    ask(life, store, row, request, now, why=why)
    return store.calls.get(row.call_no)


def _why_again(
    store: SqlStore, request: CallRequest, row: CallRow, arguments: Mapping[str, Any], now: str
) -> str | None:
    if is_stale(store, row, now):
        return f"(It was decided more than {_said(row, request)} ago.)"
    if approval_needed(request.decision, arguments) and not _is_agreed(store, row):
        return "(The rules have come to ask for consent.)"
    return None


def _said(row: CallRow, request: CallRequest) -> str:
    seconds = request.decision.valid_for_seconds
    return f"{seconds:g} s" if seconds is not None else f"its time, which was over at {row.valid_until},"


def is_stale(store: SqlStore, row: CallRow, wall: str) -> bool:
    """Return whether an effect was decided longer ago than its rule's ``valid_for``."""
    return row.valid_until is not None and row.effectful and settled_now(store, wall) > row.valid_until


def _is_agreed(store: SqlStore, row: CallRow) -> bool:
    """Return whether a person has agreed to this very request."""
    wanted = (
        request_hash(store.calls.request(row.call_no), store.vault.digest),
        row.args_hash,
    )  # the latter from ledgers of 0.1
    return any(
        item.kind == APPROVAL and item.answer == APPROVED and item.request_hash in wanted
        for item in store.questions.of_call(row.tool_call_id)
    )


def is_final(store: SqlStore, tool_call_id: str) -> bool:
    """Return whether a person has denied a refused call, which stands in every life of its run.

    What a rule refused, or nobody answered in time, is looked at anew: the rules in force then are asked.
    """
    questions = store.questions.of_call(tool_call_id)
    return bool(questions) and questions[-1].answer == DENIED_BY_PERSON


def awaited(life: Life, store: SqlStore, row: CallRow) -> str | None:
    """Return what kind of answer a call waits for, or ``None`` where its time is over and it was refused now."""
    question = store.questions.open_of_call(row.tool_call_id)
    if question is None:
        return APPROVAL
    now = settled_now(store, life.now()) if question.expires_at is not None else ""
    if question.expires_at is None or now < question.expires_at:
        return question.kind
    expire(store, question, now)
    return None


def expire_all(store: SqlStore, wall: str) -> int:
    """Refuse every call that nobody has agreed to in time, and return how many."""
    found = late(store, wall)
    for question in found:
        expire(store, question, settled_now(store, wall))
    return len(found)


def late(store: SqlStore, wall: str) -> list[Question]:
    """Return the open questions whose time is over."""
    if not store.questions.expired(FOREVER):
        return []  # none of them has a time, and the newest time of a ledger costs a look at all runs
    return store.questions.expired(settled_now(store, wall))


def expire(store: SqlStore, question: Question, now: str) -> None:
    """Refuse one call that nobody has agreed to in time."""
    row = store.calls.by_id(question.tool_call_id or "")
    run = store.runs.get(question.run_id)
    if row is None or run is None:
        return
    if row.status is CallStatus.AWAITING_APPROVAL:
        said = f"nobody agreed to it by {question.expires_at}"
        store.calls.move(row, CallEvent.REFUSED, run.authority, now, error_code=DENIED, error_detail=said)
    store.questions.close_of_call(row.tool_call_id, run.authority, answer=EXPIRED, actor="perdure", now=now)
    store.seals.seal(row.run_id, now)
    let_the_run_go_on(store, row.run_id, now)
