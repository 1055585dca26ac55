"""Make a fork: a run of its own that begins with its parent's receipts up to a checkpoint (R121, C20).

All its rows are one transaction, and the parent's rows are only read.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from perdure.core.codec import decode, encode, from_tagged
from perdure.core.forking import BEGINNING, ForkPoint, first_simulated, inherited, point_of
from perdure.core.identity import idempotency_key
from perdure.model.errors import NotFound, SpecError, SpecMismatch
from perdure.model.fork import Checkpoint, ForkEffects, Origin, RunMode
from perdure.model.run import Authority, RunRow, StepStatus
from perdure.model.toolcall import CHALLENGED, CallKey, CallRow, CallStatus
from perdure.runtime.accept import checked_id, stored_spec
from perdure.runtime.claim import refuse_pruned
from perdure.runtime.life import Surroundings
from perdure.store.sql_store import SqlStore

AT_START = "start"


@dataclass(frozen=True, slots=True)
class ForkPlan:
    """What a fork would begin with, and what its parent did beyond that point.

    Args:
        parent: the run that is forked.
        checkpoint: from where; ``None`` is the very beginning.
        effects: what becomes of calls with an effect.
        receipts: the rows that are inherited.
        later: effects of the parent, and of its own parents, that are not inherited: done, or maybe done.
        real_until: when the parent began to simulate, where this fork is live: nothing from then on is inherited.
    """

    parent: RunRow
    checkpoint: Checkpoint | None
    effects: ForkEffects
    receipts: tuple[CallRow, ...]
    later: tuple[CallRow, ...]
    real_until: str | None = None

    @property
    def point(self) -> ForkPoint:
        """The moment of the checkpoint."""
        found = self.checkpoint
        return BEGINNING if found is None else point_of(found.cursor, found.created_at)


def plan(store: SqlStore, parent: RunRow, at: str | None, effects: ForkEffects) -> ForkPlan:
    """Return what a fork of a run would be.

    Args:
        at: a checkpoint's id, or its last part (``c3``), or ``start``; the newest one when left out.

    Raises:
        NotFound: the run has no such checkpoint.
    """
    refuse_pruned(store, parent.run_id)
    drawn = ForkPlan(parent, _checkpoint(store, parent, at), effects, (), ())
    live = effects is ForkEffects.LIVE
    rows = store.origins.calls(parent.run_id)
    receipts = inherited(rows, drawn.point, live=live, reopened=_ended_by(store, parent))
    have = {row.inherited_from or row.tool_call_id for row in receipts}
    later = [
        row
        for run_id in (parent.run_id, *store.origins.ancestors(parent.run_id))
        for row in store.origins.later_effects("", run_id)
        if row.tool_call_id not in have
    ]
    simulated = first_simulated(rows) if live else None
    return replace(
        drawn,
        receipts=tuple(receipts),
        later=tuple(sorted(later, key=lambda row: row.call_no)),
        real_until=None if simulated is None else simulated.prepared_at,
    )


def _checkpoint(store: SqlStore, parent: RunRow, at: str | None) -> Checkpoint | None:
    if at == AT_START:
        return None
    if at is None:
        return store.origins.last_checkpoint(parent.run_id)
    for name in (at, f"{parent.run_id}.{at}"):
        found = store.origins.checkpoint(name)
        if found is not None and found.run_id == parent.run_id:
            return found
    raise NotFound(
        f"run {parent.run_id} has no checkpoint {at!r}",
        next_command=f"perdure runs show {parent.run_id}   # lists them; or --at {AT_START}",
    )


def _ended_by(store: SqlStore, parent: RunRow) -> set[str]:
    """Return the call whose failure ended the parent, down to its first cause: a fork tries it again (R4)."""
    found: set[str] = set()
    call_id = parent.ended_by_call_id
    while call_id is not None and call_id not in found:
        found.add(call_id)
        call_id = store.calls.cause(call_id)
    return found


def fork_of(
    around: Surroundings,
    drawn: ForkPlan,
    run_id: str | None,
    inputs: Mapping[str, Any],
    workspaces: Path,
    entrypoint: str,
) -> RunRow:
    """Write a fork, queued, in one transaction, and return its row; the same fork again under its id is found again.

    Args:
        run_id: the caller's, or ``None`` for a fresh one.
        inputs: those that are to be different from the parent's.
        workspaces: the folder in which the run's own one is.
        entrypoint: who asks: ``cli`` or ``library``.

    Raises:
        SpecError: the id or an input is of the wrong form.
        SpecMismatch: the id is taken by something else.
    """
    parent, chosen = drawn.parent, checked_id(around, run_id)
    document = spec_of_fork(parent, inputs, chosen)
    around.ledger.vault.refuse_in_name("run id", run_id or "")
    text, digest = stored_spec(document, around.ledger.vault.digest)
    new_row = {
        "run_id": chosen,
        "name": document["name"],
        "now": around.clock.now(),
        "entrypoint": entrypoint,
        "spec": text,
        "spec_hash": digest,
        "job_path": parent.job_path,
        "policies": json.dumps(list(parent.policies)),
        "workspace": str(workspaces / chosen),
        "deadline_at": parent.deadline_at,
    }

    def write(store: SqlStore) -> RunRow:
        create(store, drawn, new_row, around.ledger_id)
        found = store.runs.get(chosen)
        if found is None:
            raise NotFound(f"there is no run {chosen!r}")
        return found

    return around.ledger.run(write)


def create(store: SqlStore, drawn: ForkPlan, new_row: Mapping[str, Any], ledger_id: str) -> None:
    """Write a fork in the transaction that is open; the same fork again under the same id changes nothing.

    Args:
        new_row: the columns of its run.

    Raises:
        SpecMismatch: the id is taken by something else.
    """
    run_id = new_row["run_id"]
    known = store.runs.get(run_id)
    if known is not None:
        _must_be_the_same(store, known, drawn, new_row)
        return
    store.runs.insert(**new_row)
    origin = store.origins.get(drawn.parent.run_id)
    session = drawn.checkpoint.provider_session_id if drawn.checkpoint is not None else None
    if drawn.real_until is not None and drawn.real_until <= drawn.point.moment:
        session = None  # a conversation that has read simulated results
    store.origins.set(
        run_id,
        Origin(
            run_mode=RunMode.FORK,
            parent_run_id=drawn.parent.run_id,
            forked_from=drawn.checkpoint.checkpoint_id if drawn.checkpoint is not None else None,
            fork_effects=drawn.effects,
            last_job_prompt=origin.last_job_prompt,
            provider_session_forked_from=session,
        ),
    )
    steps = _inherit_steps(store, drawn, run_id, new_row["now"])
    _inherit_calls(store, drawn, run_id, new_row["now"], steps, ledger_id)
    _inherit_artifacts(store, drawn, run_id, new_row["now"])


def _must_be_the_same(store: SqlStore, known: RunRow, drawn: ForkPlan, new_row: Mapping[str, Any]) -> None:
    origin = store.origins.get(known.run_id)
    checkpoint = drawn.checkpoint.checkpoint_id if drawn.checkpoint is not None else None
    stored = (origin.parent_run_id, origin.forked_from, origin.fork_effects, known.spec_hash)
    if stored != (drawn.parent.run_id, checkpoint, drawn.effects, new_row["spec_hash"]):
        raise SpecMismatch(
            f"run {known.run_id} exists already, and is not this fork",
            next_command=f"perdure runs show {known.run_id}   # or give the fork another --run-id",
        )


def _inherit_steps(store: SqlStore, drawn: ForkPlan, run_id: str, now: str) -> dict[str, str]:
    """Copy the steps that had begun by then, and return the new ids by the old ones."""
    used = {row.step_id for row in drawn.receipts}
    moment = drawn.point.moment
    known = store.origins.steps(drawn.parent.run_id)
    last = max((step.index for step in known if step.created_at <= moment or step.step_id in used), default=-1)
    found: dict[str, str] = {}
    for step in known[: last + 1]:
        done = step.status is StepStatus.SUCCEEDED and step.updated_at <= moment and step.index > 0
        status = StepStatus.SUCCEEDED if done else StepStatus.RUNNING if step.index == 0 else StepStatus.READY
        found[step.step_id] = f"{run_id}.s{step.index}"
        store.origins.inherit_step(step.step_id, step_id=found[step.step_id], run_id=run_id, status=status, now=now)
    return found


def _inherit_calls(
    store: SqlStore, drawn: ForkPlan, run_id: str, now: str, steps: Mapping[str, str], ledger_id: str
) -> None:
    ids = {row.tool_call_id: f"{run_id}.{number}" for number, row in enumerate(drawn.receipts, start=1)}
    written: set[str] = set()
    moved: list[CallRow] = []
    for row in drawn.receipts:
        outer = ids.get(row.parent_call_id or "")
        if outer is not None and outer not in written:
            moved.append(row)  # it was adopted by a later call than itself
        written.add(ids[row.tool_call_id])
        key = CallKey(row.tool_namespace, row.tool_name, row.args_hash)
        store.origins.inherit_call(
            row,
            tool_call_id=ids[row.tool_call_id],
            run_id=run_id,
            step_id=steps[row.step_id],
            idempotency_key=idempotency_key(
                ledger_id, run_id, key, store.vault.hashed_scope(row.effect_scope), row.occurrence
            ),
            parent_call_id=outer if outer in written else None,
            repeat_of=ids.get(row.repeat_of or ""),
            same_as=None if row.same_as is None else ids.get(row.same_as, row.same_as),
            response=_response(store, row, ids),
            now=now,
        )
    for row in moved:
        own = store.calls.by_id(ids[row.tool_call_id])
        if own is not None:
            outer = ids[row.parent_call_id or ""]
            store.calls.adopt(own.call_no, Authority(run_id, 0), now, parent_call_id=outer, branch=row.branch)
    for parent_call_id, call_index, tool_call_id, adopted in store.origins.handles(drawn.parent.run_id):
        if parent_call_id in ids and tool_call_id in ids:
            store.origins.inherit_handle(ids[parent_call_id], call_index, ids[tool_call_id], adopted)


def _response(store: SqlStore, row: CallRow, ids: Mapping[str, str]) -> str | None:
    """Return what a challenge has listed, by the fork's own ids: its reader knows of these rows."""
    if row.status is not CallStatus.FAILED or row.error_code != CHALLENGED:
        return None
    listed = decode(store.calls.response(row.call_no) or '{"kin": []}')["kin"]
    return encode({"kin": [ids.get(item, item) for item in listed]})


def _inherit_artifacts(store: SqlStore, drawn: ForkPlan, run_id: str, now: str) -> None:
    real_until = drawn.real_until
    for path, sha256, size_bytes, created_at in list(store.steps.artifacts(drawn.parent.run_id)):
        if created_at <= drawn.point.moment and (real_until is None or created_at < real_until):
            store.steps.add_artifact(run_id, 0, path=path, sha256=sha256, size_bytes=size_bytes, now=now)


def spec_of_fork(parent: RunRow, inputs: Mapping[str, Any], run_id: str) -> dict[str, Any]:
    """Return the specification of a fork: its parent's, with some inputs changed.

    Args:
        inputs: those that are to be different.
        run_id: of the fork; a script's ``run_scope`` is named by it.

    Raises:
        SpecError: an input is named that the parent does not have.
    """
    document: dict[str, Any] = from_tagged(json.loads(parent.spec_json))
    if parent.is_scope:
        document["name"] = run_id
    unknown = sorted(set(inputs) - set(document["inputs"]))
    if unknown:
        names = ", ".join(sorted(document["inputs"])) or "none"
        raise SpecError([f"run {parent.run_id} has no input {name!r}; it has: {names}" for name in unknown])
    document["inputs"] = {**document["inputs"], **inputs}
    return document
