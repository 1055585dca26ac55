"""How an unmet row of an earlier life becomes the row of the call that asks for it now (F2, F3)."""

from __future__ import annotations

from perdure.core.codec import decode
from perdure.model.toolcall import CallRow
from perdure.runtime import attached
from perdure.runtime.life import Life
from perdure.runtime.request import CallRequest
from perdure.store.sql_store import SqlStore


def take(life: Life, store: SqlStore, request: CallRequest, row: CallRow) -> None:
    """Let the caller have an unmet row that it has found."""
    if request.handle is not None:
        adopt_by_handle(life, store, request, row)
    elif moves(row, request):
        move_to_caller(life, store, row, request)


def adopt_by_handle(life: Life, store: SqlStore, request: CallRequest, row: CallRow) -> None:
    """Let an exact handle stand for an unmet row as well.

    What stood for the row before keeps it only where it has had its answer in this life: a handle that comes later
    would get one receipt for two effects that were asked for.
    """
    if row.call_no not in life.answered:
        store.turns.unbind(row.tool_call_id, life.authority)
        if moves(row, request):
            life.context.moved(row, request.frame.parent_call_id)
            _adopt(life, store, row, request)
    bind(life, store, request, row, adopted=True)


def bind(life: Life, store: SqlStore, request: CallRequest, row: CallRow, *, adopted: bool) -> None:
    """Let the exact handle of a request stand for a row."""
    if request.handle is not None:
        store.turns.bind(request.handle, row.tool_call_id, life.authority, adopted=adopted)
        request.adopted = adopted


def moves(row: CallRow, request: CallRequest) -> bool:
    """Return whether a row that is adopted was made somewhere else in the program."""
    return (row.parent_call_id, row.branch) != (request.frame.parent_call_id, request.frame.branch)


def move_to_caller(life: Life, store: SqlStore, row: CallRow, request: CallRequest) -> None:
    """Move an adopted row, so that a later life sees it inside the call, and on the branch, that took it."""
    life.context.moved(row, request.frame.parent_call_id)
    store.turns.unbind(row.tool_call_id, life.authority)
    _adopt(life, store, row, request)


def _adopt(life: Life, store: SqlStore, row: CallRow, request: CallRequest) -> None:
    frame = request.frame
    store.calls.adopt(row.call_no, life.authority, life.now(), parent_call_id=frame.parent_call_id, branch=frame.branch)


def note_what_is_sent(life: Life, store: SqlStore, request: CallRequest, row: CallRow) -> None:
    """Record the files of a call of a model that were not there yet when it was asked for, as it is first sent.

    Its identity stays; by what it sends it is kin of whatever sends the same, as a call that a person has edited is.
    """
    if not request.files or row.attempt > 0 or row.edited_args_hash or row.args_hash == request.key.args_hash:
        return
    stored = store.calls.request(row.call_no)
    recorded = attached.taken_out(decode(stored))[1]
    if None not in recorded.values():
        return  # other bytes than those it was asked for with are not sent
    consented = bool(store.questions.of_call(row.tool_call_id))
    store.consents.note_sent(
        row,
        life.authority,
        life.now(),
        request=stored if consented else request.stored,
        args_hash=request.key.args_hash,
        scope=request.scope,
    )
