"""One open question as a person is shown it: what would be sent, what is new about it, until when, and the answers."""

from __future__ import annotations

import json
import shlex
from typing import Any

from perdure.core.decisions import changed
from perdure.core.identity import kin
from perdure.model.run import Waiting
from perdure.model.toolcall import CHALLENGED, CallKey, CallRow
from perdure.store.questions import Question
from perdure.store.sql_store import SqlStore


def waiting(store: SqlStore, question: Question, flags: str) -> Waiting:
    """Return one open question with its commands.

    Args:
        flags: what every printed command needs to reach this ledger.
    """
    call = store.calls.by_id(question.tool_call_id) if question.tool_call_id else None
    arguments = None if call is None else _arguments(store, call)
    earlier = _earlier(store, call) if call is not None and question.kind == "approval" else None
    superseded = f" (superseded by {question.superseded_by})" if question.superseded_by else ""
    return Waiting(
        kind=question.kind,
        id=question.approval_id,
        tool_call_id=question.tool_call_id,
        tool_name=call.tool_name if call else None,
        since=question.created_at,
        summary=question.summary + superseded,
        commands=tuple(command + spaced(flags) for command in _commands(question)),
        arguments=arguments,
        expires_at=question.expires_at,
        superseded_by=question.superseded_by,
        changed_from=earlier.tool_call_id if earlier is not None else None,
        changes=changed(_arguments(store, earlier), arguments or {}) if earlier is not None else (),
    )


def _arguments(store: SqlStore, call: CallRow) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(store.listed.request(call.call_no))
    return found


def _earlier(store: SqlStore, call: CallRow) -> CallRow | None:
    """Return the newest earlier call of the kind in the run, whatever became of it."""
    key = CallKey(call.tool_namespace, call.tool_name, call.args_hash)
    found = [
        row
        for row in store.calls.same_tool(call.run_id, key)
        if row.call_no < call.call_no and row.error_code != CHALLENGED and kin(row, key, call.effect_scope, unmet=True)
    ]
    return found[-1] if found else None


def _commands(question: Question) -> tuple[str, ...]:
    call, asked = question.tool_call_id, question.approval_id
    if question.kind == "in_doubt":
        return _of_doubt(question)
    if question.kind == "challenge":
        return (f"perdure resolve {call} --same", f"perdure resolve {call} --another")
    if question.kind == "approval":
        deny = f"perdure deny {asked} --reason TEXT"
        return (deny,) if question.superseded_by else (f"perdure approve {asked}", deny)
    if question.kind == "budget":
        grant = json.loads(question.detail or "{}").get("grant", "")
        return (f"perdure resume {shlex.quote(question.run_id)} --grant {grant}",)
    if question.escalation is not None:
        return (f"perdure answer {asked} retry", f"perdure answer {asked} 'give up'")
    if question.change is not None:
        run_id = shlex.quote(question.run_id)
        return (f"perdure answer {asked} continue", f"perdure fork {run_id}", f"perdure runs cancel {run_id}")
    if question.wants_value:
        happened = f"perdure resolve {call} --happened --result"
        return (f"{happened} JSON", f"{happened} null")
    if question.is_asked:
        options = json.loads(question.detail or "{}")["options"]
        return tuple(f"perdure answer {asked} {shlex.quote(item)}" for item in options or ("TEXT",))
    return (f"perdure answer {asked} seen",)


def _of_doubt(question: Question) -> tuple[str, ...]:
    """Return the verdicts on a call in doubt; of a tool whose value is never None, also the one with the value."""
    resolve = f"perdure resolve {question.tool_call_id}"
    with_value = (f"{resolve} --happened --result JSON",) if "returns" in json.loads(question.detail or "{}") else ()
    return (f"{resolve} --happened", *with_value, f"{resolve} --did-not-happen", f"{resolve} --abandon")


def spaced(flags: str) -> str:
    """Return flags as they are put behind a command."""
    return f" {flags}" if flags else ""


def waiting_document(item: Waiting) -> dict[str, Any]:
    """Return one open question as it stands in ``perdure.run/v1`` and ``perdure.inbox/v1``."""
    return {
        "kind": item.kind,
        "id": item.id,
        "tool_call_id": item.tool_call_id,
        "tool_name": item.tool_name,
        "since": item.since,
        "summary": item.summary,
        "commands": list(item.commands),
        "arguments": item.arguments,
        "expires_at": item.expires_at,
        "superseded_by": item.superseded_by,
        "changed_from": item.changed_from,
        "changes": [change._asdict() for change in item.changes],
    }
