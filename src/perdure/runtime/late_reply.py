"""Replies that came when their sender had no right to the run any more: "done" counts from anyone, at any time.

They are kept as evidence. Whoever would take a call for not done looks here first: a life before it sends, a person's
"no" before it is believed, and the end of a run before it withdraws what was never done.
"""

from __future__ import annotations

from perdure.core.codec import encode
from perdure.model.errors import ConstraintViolated
from perdure.model.run import Authority
from perdure.model.toolcall import CallRow, CallStatus, Evidence
from perdure.store.sql_store import SqlStore


def reply_about(store: SqlStore, row: CallRow) -> Evidence | None:
    """Return the late reply that settles a call, if there is one.

    A call that was taken for not done is settled by the reply to any of its attempts. While its last attempt is in
    doubt only the reply to that one tells what became of it.
    """
    taken_for_not_done = row.status is CallStatus.PREPARED
    found = [
        item
        for item in store.calls.evidence(row.tool_call_id)
        if item.kind == "reply"
        and item.says == "happened"
        and (item.attempt == row.attempt or (taken_for_not_done and item.attempt < row.attempt))
    ]
    return found[-1] if found else None


def reply_before(store: SqlStore, row: CallRow) -> Evidence | None:
    """Return the late reply to an earlier attempt of a call, if there is one."""
    return next(
        (
            item
            for item in store.calls.evidence(row.tool_call_id)
            if item.kind == "reply" and item.says == "happened" and item.attempt < row.attempt
        ),
        None,
    )


def settle(store: SqlStore, row: CallRow, authority: Authority, now: str) -> CallRow:
    """Settle a call that is in doubt, or was taken for not done, by a late reply to it, and return its row."""
    if row.status not in (CallStatus.IN_DOUBT, CallStatus.PREPARED) or row.attempt < 1:
        return row
    item = reply_about(store, row)
    if item is None:
        return row
    said = item.detail or encode(None)
    try:
        store.calls.succeed(row, authority, now, response=said, ref=item.ref, delivered_seq=None)
    except ConstraintViolated:  # its reference belongs to another call; that it happened is known all the same
        store.calls.succeed(row, authority, now, response=said, ref=None, delivered_seq=None)
    store.questions.close_of_call(row.tool_call_id, authority, answer="a late reply", actor="perdure", now=now)
    return store.calls.get(row.call_no)
