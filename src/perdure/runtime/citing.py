"""How a fork's calls name calls: what it inherited has an id of its own, and dedupe keys belong where it happened."""

from __future__ import annotations

from dataclasses import replace

from perdure.model.errors import DedupeConflict
from perdure.model.toolcall import CallRow, CallStatus
from perdure.runtime.life import Life
from perdure.runtime.request import CallRequest
from perdure.store.sql_store import SqlStore


def as_own(life: Life, store: SqlStore, request: CallRequest) -> None:
    """Let a citation of a parent's receipt, which stands so in a model's history, mean the fork's own row of it."""
    cited = request.options.repeat_of
    own = store.origins.own(life.run_id, cited) if cited is not None else None
    if own is not None:
        request.options = replace(request.options, repeat_of=own.tool_call_id)


def own_citation(life: Life, request: CallRequest) -> str | None:
    """Return what is stored as ``repeat_of``.

    A receipt of another run may be cited in each of its forks, and the column is unique: it stands only for the run's
    own receipts. Of a second citation in this fork the guard says that a newer receipt is there.
    """
    cited = request.options.repeat_of
    if cited is None or not life.lineage.ancestors:
        return cited
    return cited if cited.rpartition(".")[0] == life.run_id else None


def by_dedupe_key(life: Life, store: SqlStore, dedupe_key: str) -> CallRow | None:
    """Return the row that a dedupe key stands for (F1): in a fork, the copy of it that was inherited.

    A fork that sends nothing takes only a settled one: it can neither join nor start a call of another run.
    """
    row = store.calls.by_dedupe_key(dedupe_key)
    if row is not None and is_elsewhere(life, row) and row.status is CallStatus.PREPARED:
        _must_not_be_over(store, dedupe_key, row)
    if row is None or not life.lineage.ancestors:
        return row
    own = store.origins.own(life.run_id, row.tool_call_id)
    if own is not None:
        return own
    return None if life.origin.fork_effects == "simulate" and not row.status.settled else row


def is_elsewhere(life: Life, row: CallRow) -> bool:
    """Return whether a dedupe key has found a call of another run that is not settled: only that run may move it.

    Fences count per run, so that the number of this life's says nothing about a row of another one.
    """
    return row.run_id != life.run_id and not row.status.settled


def tell(life: Life, row: CallRow) -> None:
    """Say which run this one waits for; nothing in its own inbox does."""
    life.warn_once(
        f"dedupe_key {row.dedupe_key!r} belongs to {row.tool_call_id}, which is {row.status}: run {life.run_id} goes "
        f"on when run {row.run_id} has settled it"
    )


def _must_not_be_over(store: SqlStore, dedupe_key: str, row: CallRow) -> None:
    """Refuse a key whose call was not done in a run that has ended: nobody would ever make that call."""
    run = store.runs.get(row.run_id)
    if run is not None and run.status.ended:
        raise DedupeConflict(
            f"dedupe_key {dedupe_key!r} belongs to {row.tool_call_id}, which was not done, and its run has ended",
            tool_call_id=row.tool_call_id,
            next_command=f"perdure resume {row.run_id}",
        )
