"""How a fork's calls name calls: what it inherited has an id of its own, and dedupe keys belong where it happened."""

from __future__ import annotations

from dataclasses import replace

from perdure.model.toolcall import CallRow
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
    if row is None or not life.lineage.ancestors:
        return row
    own = store.origins.own(life.run_id, row.tool_call_id)
    if own is not None:
        return own
    return None if life.origin.fork_effects == "simulate" and not row.status.settled else row
