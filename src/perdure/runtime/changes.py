"""What has changed in a run since somebody looked, told one change at a time, each with the cursor behind it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from perdure.model.run import RunStatus
from perdure.model.toolcall import INNER_NAMESPACES, CallStatus
from perdure.ports.store import Row
from perdure.runtime.cursor import Seen
from perdure.runtime.lease import Liveness, liveness
from perdure.store.runs import owner_from_text
from perdure.store.sql_store import SqlStore

MOST_CALLS = 1000
_OPEN_STEPS = ("ready", "running", "blocked")
_RUN = (
    *("run_id", "name", "status", "reason", "attempt", "created_at", "updated_at", "lease_owner", "lease_expires_at"),
    *("active_seconds", "error_code", "error_detail", "lease_fence", "run_spec_json"),
)
_STEP = ("step_index", "step_id", "name", "phase", "status", "attempt", "created_at", "updated_at", "error_code")
_CALL = (
    *("call_no", "tool_call_id", "tool_namespace", "tool_name", "step_id", "side_effect_class", "guarantee", "status"),
    *("attempt", "prepared_at", "started_at", "finished_at", "updated_at", "error_code", "external_correlation_id"),
)
_EVIDENCE = ("evidence_no", "tool_call_id", "evidence", "at", "actor", "attempt", "says", "ref")
_QUESTION = (
    *("approval_no", "id", "tool_call_id", "question", "status", "summary", "created_at", "decided_at", "actor"),
    "answer",
)
_CHECKPOINT = ("checkpoint_no", "checkpoint_id", "step_id", "created_at", "checkpoint_type")


@dataclass(frozen=True, slots=True)
class Change:
    """One thing that has changed.

    Args:
        kind: ``run life owner step call evidence question checkpoint``.
        at: when, as it was written down.
        facts: the fields of its row that people ask for.
        cursor: what goes on behind this change.
    """

    kind: str
    at: str
    facts: dict[str, Any]
    cursor: str

    def document(self, run_id: str) -> dict[str, Any]:
        """Return the ``perdure.event/v1`` document."""
        head = {"schema": "perdure.event/v1", "cursor": self.cursor, "at": self.at, "kind": self.kind}
        return {**head, "run_id": run_id, **self.facts}


def named(columns: tuple[str, ...], row: Row) -> dict[str, Any]:
    """Return a row by the names of its columns."""
    return dict(zip(columns, row, strict=True))


def run_facts(store: SqlStore, run_id: str) -> dict[str, Any] | None:
    """Return where a run stands."""
    row = store.watched.run(run_id)
    return None if row is None else named(_RUN, row)


def last_call(store: SqlStore, run_id: str) -> dict[str, Any] | None:
    """Return the newest call of a run."""
    row = store.watched.last_call(run_id)
    return None if row is None else named(_CALL, row)


def owner_gone(run: dict[str, Any]) -> int | None:
    """Return the pid of a running run's process that is gone for certain, or ``None``."""
    if run["status"] != RunStatus.RUNNING or run["lease_owner"] is None:
        return None
    owner = owner_from_text(run["lease_owner"])
    return owner.pid if liveness(owner) is Liveness.DEAD else None


def marked_now(store: SqlStore, run: dict[str, Any]) -> Seen:
    """Return the cursor of somebody who wants to hear only of what comes."""
    run_id = run["run_id"]
    calls, evidence, questions, checkpoints, steps = store.watched.marks(run_id)
    seen = Seen(run_id, _state(run), run["attempt"], calls=calls, evidence=evidence, questions=questions)
    seen.checkpoints, seen.steps, seen.moved = checkpoints, steps, run["updated_at"]
    seen.fence = run["lease_fence"]
    seen.life_over = run["status"] != RunStatus.RUNNING
    for row in store.watched.open_calls(run_id):
        call = named(_CALL, row)
        seen.open_calls[call["call_no"]] = _moving(call)
    for row in store.watched.steps(run_id, after=steps, known=(), since=seen.moved):
        step = named(_STEP, row)
        seen.open_steps[step["step_index"]] = _moving(step)
        seen.moved = max(seen.moved, step["updated_at"])
    seen.open_questions = [row[0] for row in store.watched.questions(run_id, after=0) if row[4] == "open"]
    return seen


def changes(store: SqlStore, run: dict[str, Any], seen: Seen) -> Iterator[Change]:
    """Yield what has changed since ``seen``, which is moved along.

    Args:
        run: where the run stands; read first, so that of a run that has ended nothing is missing behind it.
    """
    yield from _lives(store, run, seen, over=False)
    yield from _steps(store, seen)
    yield from _calls(store, run, seen)
    yield from _evidence(store, seen)
    yield from _questions(store, seen)
    yield from _checkpoints(store, seen)
    yield from _lives(store, run, seen, over=True)
    yield from _owner(run, seen)
    if _state(run) != seen.run:
        seen.run = _state(run)
        facts = {name: run[name] for name in ("status", "reason", "attempt", "error_code", "error_detail")}
        yield Change("run", run["updated_at"], facts, seen.text())


def _state(run: dict[str, Any]) -> str:
    return f"{run['status']}:{run['reason'] or ''}:{run['attempt']}"


def _moving(row: dict[str, Any]) -> str:
    return f"{row['status']}:{row['attempt']}"


def _lives(store: SqlStore, run: dict[str, Any], seen: Seen, *, over: bool) -> Iterator[Change]:
    """Yield what is new of lives; the end of the newest one comes behind what it did, with ``over``."""
    if run["attempt"] == seen.life and seen.life_over:
        return
    for life in store.runs.lives(seen.run_id):
        if life.attempt > seen.life:
            seen.life, seen.life_over = life.attempt, False
            facts = {"attempt": life.attempt, "pid": life.owner.pid, "host": life.owner.host, "state": "began"}
            yield Change("life", life.started_at, facts, seen.text())
        shown = over or life.attempt < run["attempt"]
        if shown and life.attempt == seen.life and not seen.life_over and life.ended_at is not None:
            seen.life_over = True
            counts = {"replayed": life.replayed, "settled": life.settled, "challenged": life.challenged}
            facts = {"attempt": life.attempt, "pid": life.owner.pid, "state": "ended", "how": life.how, **counts}
            yield Change("life", life.ended_at, facts, seen.text())


def _steps(store: SqlStore, seen: Seen) -> Iterator[Change]:
    known = [f"{seen.run_id}.s{index}" for index in seen.open_steps]
    for row in store.watched.steps(seen.run_id, after=seen.steps, known=known, since=seen.moved):
        step = named(_STEP, row)
        index, state = step.pop("step_index"), _moving(step)
        told = seen.open_steps.get(index)
        if told == state or (told is None and index <= seen.steps and step["updated_at"] <= seen.moved):
            continue
        seen.steps, seen.moved = max(seen.steps, index), max(seen.moved, step["updated_at"])
        _remember(seen.open_steps, index, state, step["status"] in _OPEN_STEPS)
        yield Change("step", step["updated_at"], step, seen.text())


def _remember(held: dict[int, str], number: int, state: str, moves: bool) -> None:
    if moves:
        held[number] = state
    else:
        held.pop(number, None)


def _calls(store: SqlStore, run: dict[str, Any], seen: Seen) -> Iterator[Change]:
    rows = {row[0]: row for row in store.watched.open_calls(seen.run_id) if row[0] <= seen.calls}
    fresh = run["lease_fence"] > seen.fence
    if fresh:  # a newer life may have started again, and settled, what could not move any more when it was told
        again = store.watched.calls_of_life(seen.run_id, fence=seen.fence + 1, last=seen.calls)
        rows.update((row[0], row) for row in again if row[0] > seen.again)
    for number in tuple(seen.open_calls):
        row = rows.get(number) or store.watched.call(number)
        if row is not None:
            rows[number] = row
    for number in sorted(rows):
        seen.again = number if fresh else 0
        yield from _call(named(_CALL, rows[number]), seen)
    seen.fence, seen.again = run["lease_fence"], 0
    after = seen.calls or store.watched.first_call(seen.run_id) - 1
    for row in store.watched.new_calls(seen.run_id, after=after, limit=MOST_CALLS):
        yield from _call(named(_CALL, row), seen)


def _call(call: dict[str, Any], seen: Seen) -> Iterator[Change]:
    number, state = call.pop("call_no"), _moving(call)
    if seen.open_calls.get(number) == state:
        return
    seen.calls = max(seen.calls, number)
    _remember(seen.open_calls, number, state, not CallStatus(call["status"]).settled)
    call["inner"] = call["tool_namespace"] in INNER_NAMESPACES
    yield Change("call", call.pop("updated_at"), call, seen.text())


def _evidence(store: SqlStore, seen: Seen) -> Iterator[Change]:
    for row in store.watched.evidence(seen.run_id, after=seen.evidence):
        item = named(_EVIDENCE, row)
        seen.evidence = item.pop("evidence_no")
        yield Change("evidence", item.pop("at"), item, seen.text())


def _questions(store: SqlStore, seen: Seen) -> Iterator[Change]:
    for number in tuple(seen.open_questions):
        row = store.watched.question(number)
        if row is not None and row[4] != "open":
            seen.open_questions.remove(number)
            yield _question(row, seen)
    for row in store.watched.questions(seen.run_id, after=seen.questions):
        seen.questions = row[0]
        if row[4] == "open":
            seen.open_questions.append(row[0])
        yield _question(row, seen)


def _question(row: Row, seen: Seen) -> Change:
    item = named(_QUESTION, row)
    del item["approval_no"]
    return Change("question", item["decided_at"] or item["created_at"], item, seen.text())


def _checkpoints(store: SqlStore, seen: Seen) -> Iterator[Change]:
    for row in store.watched.checkpoints(seen.run_id, after=seen.checkpoints):
        item = named(_CHECKPOINT, row)
        seen.checkpoints = item.pop("checkpoint_no")
        yield Change("checkpoint", item.pop("created_at"), item, seen.text())


def _owner(run: dict[str, Any], seen: Seen) -> Iterator[Change]:
    pid = owner_gone(run)
    if pid is not None and seen.gone != run["attempt"]:
        seen.gone = run["attempt"]
        yield Change("owner", run["updated_at"], {"state": "gone", "pid": pid, "attempt": run["attempt"]}, seen.text())


def steps_of(store: SqlStore, run_id: str) -> Iterator[dict[str, Any]]:
    """Yield all steps of a run, by index."""
    for row in store.watched.steps(run_id, after=-1, known=(), since=""):
        yield named(_STEP, row)


def calls_of(store: SqlStore, run_id: str) -> Iterator[dict[str, Any]]:
    """Yield all calls of a run, oldest first, with the keys that they carry."""
    after = store.watched.first_call(run_id) - 1
    while page := store.watched.new_calls(run_id, after=after, limit=MOST_CALLS):
        for row in page:
            yield {**named(_CALL, row), "idempotency_key": store.calls.get(row[0]).idempotency_key}
        after = page[-1][0]


def evidence_of(store: SqlStore, run_id: str) -> Iterator[dict[str, Any]]:
    """Yield all evidence about the calls of a run, oldest first."""
    for row in store.watched.evidence(run_id, after=0):
        yield named(_EVIDENCE, row)


def checkpoints_of(store: SqlStore, run_id: str) -> Iterator[dict[str, Any]]:
    """Yield all checkpoints of a run, oldest first."""
    for row in store.watched.checkpoints(run_id, after=0):
        yield named(_CHECKPOINT, row)
