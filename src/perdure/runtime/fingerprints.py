"""Take the fingerprint of a life at its claim, compare it with the last one, and obey ``on_change``."""

from __future__ import annotations

import hashlib
import inspect
import json
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import CodeType
from typing import Any

from perdure.core.fingerprint import differences
from perdure.core.policy import evaluate
from perdure.core.transitions import RunEvent, next_run_status
from perdure.model.errors import ChangeRefused
from perdure.model.policy import Policy
from perdure.model.run import Authority, RunRow, RunStatus, WaitReason
from perdure.runtime.life import Life, Surroundings
from perdure.runtime.registry import AnyTool, Registry
from perdure.store.runs import LifeCounts
from perdure.store.sql_store import SqlStore

CONTINUE, ASK, STOP = "continue", "ask", "stop"
_OWN_FOLDER = str(Path(__file__).parents[1])


@dataclass(frozen=True, slots=True)
class Mark:
    """What a life would be made of, and what a change since the last one means.

    Args:
        fingerprint: the document that is stored.
        on_change: ``continue``, ``ask`` or ``stop``.
        accepted: whoever resumes has seen the changes and goes on.
    """

    fingerprint: Mapping[str, Any]
    on_change: str = CONTINUE
    accepted: bool = False


def take(
    spec: Mapping[str, Any], main: Callable[..., Any], registry: Registry, policy: Policy, *, accepted: bool
) -> Mark:
    """Return the mark of a life that is about to begin.

    Args:
        spec: the run's specification.
        main: the agent's function.
        registry: the tools that are known before the agent is entered.
        policy: the rules in force.
    """
    tools = sorted(registry, key=lambda item: (item.declaration.namespace, item.name))
    inner = inspect.unwrap(main)
    document = {
        "tools": {f"{item.declaration.namespace}.{item.name}": _tool(item, policy) for item in tools},
        "policies": _files(policy.files),
        "code": _files(_sources([inner, *(item.plain for item in tools)])),
        "agent": _code(inner),
        "perdure": getattr(sys.modules.get("perdure"), "__version__", "unknown"),
        "python": ".".join(map(str, sys.version_info[:3])),
    }
    return Mark(document, spec.get("on_change", CONTINUE), accepted)


def _tool(item: AnyTool, policy: Policy) -> dict[str, Any]:
    decision = evaluate(policy, item.declaration)
    return {
        "side_effect_class": str(decision.side_effect_class),
        "replay_policy": str(decision.replay_policy),
        "scope": None if decision.scope is None else list(decision.scope),
        "guarantee": decision.guarantee,
        "approval": str(decision.approval.kind),
        "arguments": str(item.signature),
        "code": _code(item.plain),
        **({"files": list(item.declaration.files)} if item.declaration.files else {}),
    }


def _code(function: Any) -> str:
    code = getattr(inspect.unwrap(function), "__code__", None)
    return _digest(repr(_shape(code)).encode("utf-8")) if isinstance(code, CodeType) else type(function).__qualname__


def _shape(code: CodeType) -> tuple[Any, ...]:
    """Return what a function does, without the lines on which it stands."""
    constants = tuple(_shape(item) if isinstance(item, CodeType) else repr(item) for item in code.co_consts)
    return code.co_code.hex(), constants, code.co_names, code.co_varnames, code.co_freevars


def _sources(functions: Iterable[Any]) -> list[str]:
    found = {getattr(getattr(item, "__code__", None), "co_filename", "") for item in functions}
    return sorted(name for name in found if name and not name.startswith(_OWN_FOLDER))


def _files(paths: Iterable[str]) -> dict[str, str]:
    """Return the hashes of files by their names; a second one of the same name has its folder's before it."""
    found: dict[str, str] = {}
    for text in paths:
        path = Path(text)
        if path.is_file():
            name = path.name if path.name not in found else f"{path.parent.name}/{path.name}"
            found[name] = _digest(path.read_bytes())
    return found


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


def may_begin(around: Surroundings, store: SqlStore, row: RunRow, fence: int, mark: Mark) -> bool:
    """Store what this life is made of, or let it end before it began because a person is asked about the changes.

    Returns:
        Whether the life goes on.

    Raises:
        ChangeRefused: the job stops where anything has changed; nothing of this claim is kept.
    """
    stored = store.origins.fingerprint(row.run_id)
    before: dict[str, Any] = json.loads(stored) if stored is not None else {}
    reported: dict[str, Any] = {key: before[key] for key in ("model", "prompt") if key in before}
    now_made = {**reported, **mark.fingerprint}
    text = json.dumps(now_made, sort_keys=True)
    changes = differences(before, now_made) if before else []
    if changes:
        forked = row.attempt == 0  # a fork begins with its parent's fingerprint: it was made to go on with other code
        if not (mark.accepted or forked or mark.on_change == CONTINUE):
            if mark.on_change == STOP:
                raise _refusal(row, changes)
            if not _is_agreed(around, store, row, fence, text, changes):
                return False
        store.origins.set_changes(row.run_id, fence, json.dumps(changes))
        _close(store, Authority(row.run_id, fence), "it was accepted by whoever resumed", around.clock.now())
    if text != stored:
        store.origins.set_fingerprint(row.run_id, fence, text)
    return True


def _refusal(row: RunRow, changes: list[str]) -> ChangeRefused:
    listed = "\n".join(f"  {line}" for line in changes)
    return ChangeRefused(
        f"run {row.run_id} says on_change: stop, and since its last life this has changed:\n{listed}",
        next_command=f"perdure resume {row.run_id} --accept-change   # or: perdure fork {row.run_id}",
    )


def _is_agreed(around: Surroundings, store: SqlStore, row: RunRow, fence: int, text: str, changes: list[str]) -> bool:
    """Return whether a person has agreed to exactly these changes; if nobody has, ask, and let the run wait."""
    digest = _digest(text.encode("utf-8"))
    asked = [item for item in store.origins.questions(row.run_id) if item.change is not None]
    if any(item.answer == CONTINUE and item.change == digest for item in asked):
        return True
    now = around.clock.now()
    if not any(item.status == "open" and item.change == digest for item in asked):
        _close(store, Authority(row.run_id, fence), "it changed again", now)
        store.questions.ask(
            "a" + around.new_token(),
            run_id=row.run_id,
            fence=fence,
            tool_call_id=None,
            kind=WaitReason.QUESTION,
            summary=f"run {row.run_id}: go on? Since its last life: {'; '.join(changes)}",
            detail=json.dumps({"fingerprint": digest, "changes": changes}),
            now=now,
        )
    status = next_run_status(RunStatus.RUNNING, RunEvent.PARK)
    store.runs.end(row.run_id, fence, status=status, reason=WaitReason.QUESTION, now=now)
    store.runs.end_life(row.run_id, fence, how=f"waiting ({WaitReason.QUESTION})", now=now, counts=LifeCounts())
    return False


def _close(store: SqlStore, authority: Authority, why: str, now: str) -> None:
    """Close a question about changes that needs no answer any more."""
    for item in store.origins.questions(authority.run_id):
        if item.change is not None and item.status == "open":
            store.questions.answer(item.approval_id, authority, answer=why, actor="perdure", now=now)


def report(life: Life, store: SqlStore, *, model: str | None, prompt: str) -> None:
    """Store the first model and prompt that an agent reports in a life, and note what is another one than before.

    What it is told later in the same life follows from what it did, and is no change of the program.
    """
    if life.reported:
        return
    life.reported = True
    before: dict[str, Any] = json.loads(store.origins.fingerprint(life.run_id) or "{}")
    now_made = {**before, "prompt": _digest(prompt.encode("utf-8"))}
    if model is not None:
        now_made["model"] = model
    changes = differences(before, now_made)
    if changes:
        known = dict(store.origins.changes(life.run_id)).get(life.run.attempt + 1)
        noted: list[str] = json.loads(known) if known is not None else []
        noted += [line for line in changes if line not in noted]
        store.origins.set_changes(life.run_id, life.fence, json.dumps(noted))
    if now_made != before:
        store.origins.set_fingerprint(life.run_id, life.fence, json.dumps(now_made, sort_keys=True))
