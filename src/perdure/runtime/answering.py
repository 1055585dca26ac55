"""What a person answers to ``run.ask``: the receipt that every life meets."""

from __future__ import annotations

import json

from perdure.core.codec import encode
from perdure.core.transitions import CallEvent
from perdure.model.errors import CancelSeen, VerdictRefused
from perdure.model.toolcall import CallRow, CallStatus, Evidence
from perdure.store.questions import Question
from perdure.store.sql_store import SqlStore


def answer(store: SqlStore, question: Question, *, text: str, actor: str, now: str) -> CallRow:
    """Store a person's answer as the receipt of the question's row.

    Raises:
        VerdictRefused: it is none of the options, or nobody waits for it any more.
    """
    row = store.calls.by_id(question.tool_call_id or "")
    run = store.runs.get(question.run_id)
    if row is None or run is None or question.status != "open" or row.status is not CallStatus.AWAITING_APPROVAL:
        raise VerdictRefused(f"{question.approval_id} is {question.status}: nobody waits for an answer any more")
    options: list[str] = json.loads(question.detail or "{}")["options"]
    if options and text not in options:
        raise VerdictRefused(
            f"{question.approval_id} takes one of: {', '.join(options)}",
            next_command=f"perdure answer {question.approval_id} {options[0]}",
        )
    store.calls.move(row, CallEvent.APPROVED, run.authority, now)
    try:
        store.calls.start(store.calls.get(row.call_no), run.authority, now)
    except CancelSeen:
        raise VerdictRefused(f"run {row.run_id} is being cancelled: nobody waits for an answer any more") from None
    started = store.calls.get(row.call_no)
    store.calls.succeed(started, run.authority, now, response=encode(text), ref=None, delivered_seq=None)
    said = Evidence("verdict", now, actor, started.attempt, "answered", json.dumps({"answer": text}))
    store.calls.add_evidence(row.tool_call_id, said)
    store.questions.answer(question.approval_id, run.authority, answer=text, actor=actor, now=now)
    return store.calls.get(row.call_no)
