"""Collects what people decided about a run, from the rows that their answers have left; ``core.decisions`` says it."""

from __future__ import annotations

import json

from perdure.core.decisions import CANCEL, GRANT, Decision, Decisions, Told, newest
from perdure.core.summary import shorten
from perdure.runtime.naming import named
from perdure.store.questions import Question
from perdure.store.sql_store import SqlStore

SHOWN = 50


def decisions_of(store: SqlStore, run_id: str) -> Decisions:
    """Return what people decided: verdicts on calls, answers to questions about no call, grants, and a cancel."""
    questions = [item for item in store.reports.questions(run_id) if item.status == "answered"]
    verdicts = _verdicts(store, run_id, questions)
    grants = [
        Decision(grant.at, grant.actor, GRANT, "granted", answer=f"{grant.kind}={grant.amount}")
        for grant in store.budgets.grants(run_id)
    ]
    told = {(item.tool_call_id, item.at) for item in verdicts} | {(None, item.at) for item in grants}
    rest = [_of_question(item) for item in questions if (item.tool_call_id, item.decided_at) not in told]
    return newest([*verdicts, *grants, *rest, *_cancel(store, run_id)], SHOWN)


def _verdicts(store: SqlStore, run_id: str, questions: list[Question]) -> list[Decision]:
    kinds = {(item.tool_call_id, item.decided_at): item for item in questions}
    found: list[Decision] = []
    for tool_call_id, said in store.reports.verdicts(run_id):
        question = kinds.get((tool_call_id, said.at))
        told = Told(json.loads(said.detail or "{}"))
        row = store.calls.by_id(tool_call_id)
        found.append(
            Decision(
                said.at,
                said.actor,
                question.kind if question is not None else "verdict",
                said.says,
                tool_call_id,
                about="" if row is None else named(store, row),
                answer=told.answer,
                reason=told.reason,
                changes=told.changes,
            )
        )
    return found


def _of_question(question: Question) -> Decision:
    return Decision(
        question.decided_at or question.created_at,
        question.actor or "",
        question.kind,
        "answered",
        question.tool_call_id,
        about=shorten(question.summary),
        answer=question.answer,
    )


def _cancel(store: SqlStore, run_id: str) -> list[Decision]:
    asked = store.endings.cancel_of(run_id)
    if asked is None:
        return []
    return [Decision(asked.requested_at, asked.actor, CANCEL, "cancelled the run", reason=asked.reason)]
