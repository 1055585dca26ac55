"""The span of a life: begun behind its claim, ended with where it leaves the run."""

from __future__ import annotations

from perdure.model.errors import StoreError
from perdure.runtime.life import Life
from perdure.runtime.spans import LifeSpans, Told, kind_of
from perdure.store.sql_store import SqlStore


def begin_spans(life: Life) -> LifeSpans | None:
    """Return the spans of a life that begins, or ``None`` where nobody wants them."""
    sink = life.around.spans()
    if sink is None:
        return None
    before = life.ledger.read(lambda store: store.origins.traceparent_before(life.run_id, life.fence))
    return LifeSpans(sink, life.run_id, life.run.name, life.run.attempt + 1, before)


def keep_place(life: Life, store: SqlStore) -> None:
    """Record where a life stands in its trace, in the transaction that begins it."""
    if life.spans is not None and life.spans.traceparent is not None:
        store.origins.set_traceparent(life.run_id, life.fence, life.spans.traceparent)


def end_spans(life: Life) -> None:
    """End the span of a life, if it has one."""
    if life.spans is None:
        return
    facts, error = _standing(life)
    facts["perdure.replayed_calls"] = life.replayed
    facts["perdure.settled_calls"] = life.settled
    facts["perdure.challenged_calls"] = life.challenged
    life.spans.over(facts, error)


def _standing(life: Life) -> tuple[Told, str | None]:
    """Return how the life ended and where its run stands."""
    if life.failure is not None:
        return {}, kind_of(life.failure)
    try:
        run = life.ledger.read(lambda store: store.runs.get(life.run_id))
        row = life.ledger.read(lambda store: store.runs.life(life.run_id, life.fence))
    except StoreError as problem:
        return {}, kind_of(problem)
    if run is None or row is None:
        return {}, None
    facts: Told = {"perdure.status": str(run.status), "perdure.how": row.how or ""}
    if run.reason:
        facts["perdure.reason"] = run.reason
    return facts, run.error_code
