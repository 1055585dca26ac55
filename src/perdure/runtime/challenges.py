"""What is put to a person, or told to a model, where a call looks like an effect that was done (G2, G3)."""

from __future__ import annotations

import json

from perdure.core.answers import REPEAT_OF
from perdure.core.codec import decode, encode
from perdure.core.summary import shorten
from perdure.core.transitions import CallEvent
from perdure.model.toolcall import CallKey, CallRow, CallStatus
from perdure.runtime.life import Life
from perdure.runtime.naming import named
from perdure.runtime.request import CallRequest
from perdure.store.sql_store import SqlStore

SHOWN_CHARACTERS = 300


def passed_for(store: SqlStore, row: CallRow | None) -> frozenset[str]:
    """Return the kin that a person passed for this one row (a verdict binds one pair)."""
    if row is None:
        return frozenset()
    passed: set[str] = set()
    for item in store.calls.evidence(row.tool_call_id):
        if item.kind == "verdict" and item.says == "another" and item.detail:
            passed.update(json.loads(item.detail)["kin"])
    return frozenset(passed)


def ask_person(life: Life, store: SqlStore, row: CallRow, request: CallRequest, now: str) -> None:
    """Put a question of the program itself into the inbox."""
    if request.asked is None:
        return
    store.questions.ask(
        "a" + life.around.new_token(),
        run_id=life.run_id,
        fence=life.fence,
        tool_call_id=row.tool_call_id,
        kind="question",
        summary=request.asked.question,
        detail=json.dumps({"question": request.asked.question, "options": list(request.asked.options)}),
        request_hash=request.key.args_hash,
        now=now,
    )


def ask_challenge(life: Life, store: SqlStore, row: CallRow, against: tuple[CallRow, ...]) -> CallRow:
    """Turn a challenged call into one question that lists every kin that speaks against it."""
    row = store.calls.get(row.call_no)
    if row.status is not CallStatus.PREPARED:
        return row
    now = life.now()
    store.calls.move(row, CallEvent.ASK_APPROVAL, life.authority, now)
    ids = [item.tool_call_id for item in against]
    again = not _asked_before(store, row).isdisjoint(ids)
    hint = "; your arguments change per life: use run.memo" if again else ""
    store.questions.ask(
        "a" + life.around.new_token(),
        run_id=life.run_id,
        fence=life.fence,
        tool_call_id=row.tool_call_id,
        kind="challenge",
        summary=f"{named(store, row)}: {_doer(life, against)} {_listed(store, against)}; "
        f"is this the same or another?{hint}",
        detail=json.dumps({"kin": ids}),
        request_hash=row.args_hash,
        now=now,
    )
    life.challenged += 1
    return store.calls.get(row.call_no)


def _asked_before(store: SqlStore, row: CallRow) -> set[str]:
    """Return the ids that challenges of other calls of the tool have listed in this run."""
    listed: set[str] = set()
    for other in store.calls.same_tool(row.run_id, CallKey(row.tool_namespace, row.tool_name, row.args_hash)):
        if other.call_no != row.call_no:
            for question in store.questions.of_call(other.tool_call_id):
                if question.kind == "challenge":
                    listed.update(json.loads(question.detail or "{}").get("kin", ()))
    return listed


def _doer(life: Life, against: tuple[CallRow, ...]) -> str:
    """Return who did it: an earlier life, or a run that this one was forked from."""
    elsewhere = sorted({row.run_id for row in against if row.run_id != life.run_id})
    if not elsewhere:
        return "an earlier life already did"
    runs = " and ".join(f"run {run_id}" for run_id in elsewhere)
    own = len({row.run_id for row in against}) > len(elsewhere)
    return f"{runs}, which this one was forked from, {'and an earlier life ' if own else ''}already did"


def _listed(store: SqlStore, rows: tuple[CallRow, ...]) -> str:
    return ", ".join(f"{row.tool_call_id} {named(store, row)} {_when(row)}" for row in rows)


def _when(row: CallRow) -> str:
    return f"at {row.finished_at}" if row.status.settled else f"(started at {row.started_at}, {row.status} there)"


def refuse_challenged(
    life: Life, store: SqlStore, row: CallRow, against: tuple[CallRow, ...], *, told: str | None = None
) -> CallRow:
    """End a challenged call that its caller wants to hear of: nothing happened.

    Args:
        against: every kin that speaks against it; a model that is told of them has seen them (R0).
        told: what a model is told, the same in every life.
    """
    row = store.calls.get(row.call_no)
    if row.status is CallStatus.PREPARED:
        listed = ", ".join(f"{item.tool_call_id} at {item.finished_at}" for item in against)
        detail = told or f"an effect of this kind was already done: {listed}"
        kin = [item.tool_call_id for item in against]
        store.calls.challenge(row, life.authority, life.now(), response=encode({"kin": kin}), error_detail=detail)
        life.challenged += 1
    return store.calls.get(row.call_no)


def kin_told(store: SqlStore, row: CallRow) -> list[int]:
    """Return the numbers of the rows that a challenge listed to a model."""
    listed = decode(store.calls.response(row.call_no) or '{"kin": []}')["kin"]
    rows = (store.calls.by_id(tool_call_id) for tool_call_id in listed)
    return [item.call_no for item in rows if item is not None]


def told_to_model(store: SqlStore, row: CallRow, against: tuple[CallRow, ...], problem: str) -> str:
    """Return what a model reads instead of a result: what was done, when, and how to ask for a second one."""
    lines = [f"Nothing was done by this call of {row.tool_name}."]
    if problem:
        lines.append(f"{problem}.")
    if against:
        lines.append("This was done before:")
    lines += [f"- {item.tool_call_id}: {named(store, item)}{_outcome(store, item)}" for item in against]
    if against:
        newest = against[-1].tool_call_id
        lines.append(
            f"If you meant that, go on with its result. If you want one more on purpose, call {row.tool_name} again "
            f'with "{REPEAT_OF}": "{newest}" among the arguments.'
        )
    return "\n".join(lines)


def _outcome(store: SqlStore, row: CallRow) -> str:
    if row.status is CallStatus.ABANDONED:
        return f" was started at {row.started_at}; nobody knows whether it happened, and a person decided to go on"
    result = store.calls.response(row.call_no) or "null"
    shown = shorten(result, SHOWN_CHARACTERS + 1)
    return f" was done at {row.finished_at}; its result: {shown}"
