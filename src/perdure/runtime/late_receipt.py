"""A receipt that arrives while the store is down: kept in memory, left as evidence, or given to a person (#40).

After a fault nothing more is dispatched and nothing is tried again on the connection that failed. When the life is
over, the ledger is opened anew, and what is known is left there as evidence: that needs no authority over the run, and
the next life takes it. Only if that does not succeed while the lease lasts, a person is given the exact line to type.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shlex
import threading
from contextlib import suppress
from dataclasses import dataclass

from perdure.model.errors import StorageFault, StoreError
from perdure.model.toolcall import CallRow, CallStatus
from perdure.runtime.actions import LIVING_SENDERS
from perdure.runtime.life import Life
from perdure.runtime.recording import Receipt, add_evidence, use_late_reply
from perdure.store.sql_store import SqlStore

FIRST_PAUSE_SECONDS = 0.05
LONGEST_PAUSE_SECONDS = 1.0
_LOG = logging.getLogger("perdure")


@dataclass(frozen=True, slots=True)
class Unsaved:
    """The receipt of an effect that was done, and why it could not be stored."""

    row: CallRow
    receipt: Receipt
    problem: StoreError


def lose(life: Life, row: CallRow, receipt: Receipt, problem: BaseException) -> None:
    """Keep a receipt that could not be stored in memory, and end the life's authority: nothing more is dispatched."""
    if isinstance(problem, StoreError):
        life.unsaved.append(Unsaved(row, receipt, problem))
    life.fail(problem)


def last_word(life: Life, problem: BaseException, hurry: threading.Event | None = None) -> BaseException:
    """Return what a life that failed ends with; what is known, but could not be stored, is tried to be kept first.

    Args:
        problem: what would be raised otherwise.
        hurry: set by another thread when somebody does not want to wait any more; here an interrupt does the same.
    """
    if os.getpid() != life.around.owner.pid:
        return problem  # a forked child knows nothing that its parent does not know
    with suppress(StoreError):
        life.ledger.flush()  # a receipt that was handed in last may not have been refused yet
    problem = life.failure or problem
    lost: list[Unsaved] = [item for item in life.unsaved if item.row.effectful]  # what has no effect is done again
    if life.ledger.fault is not None and _keep(life, lost, hurry or threading.Event()):
        return _kept(life, lost) if lost else problem
    return _given_to_a_person(lost) if lost else problem


async def last_word_of_loop(life: Life, problem: BaseException) -> BaseException:
    """Do what ``last_word`` does without holding up the event loop; a cancellation makes it hurry."""
    hurry = threading.Event()
    trying = asyncio.ensure_future(asyncio.to_thread(last_word, life, problem, hurry))
    while not trying.done():
        try:
            await asyncio.wait([trying])
        except asyncio.CancelledError:
            hurry.set()
    return trying.result()


def _keep(life: Life, lost: list[Unsaved], hurry: threading.Event) -> bool:
    """Open the ledger anew until it takes what is known, and return whether it did; with nothing to keep, once."""
    clock, pause = life.around.clock, FIRST_PAUSE_SECONDS
    give_up = life.leased_at + life.around.tuning.late_receipt_seconds
    with suppress(KeyboardInterrupt):
        while True:
            try:
                life.ledger.run_anew(lambda store: _leave(life, store, lost))
                return True
            except StoreError as problem:
                if not lost or clock.monotonic() + pause >= give_up:
                    return False
                if pause == FIRST_PAUSE_SECONDS:
                    _LOG.warning("%s; what is known is kept in memory, and the ledger is opened anew", problem)
            if hurry.wait(pause):
                return False
            pause = min(2 * pause, LONGEST_PAUSE_SECONDS)
    return False


def _leave(life: Life, store: SqlStore, lost: list[Unsaved]) -> None:
    """Leave every outcome as evidence, whoever owns the run by now, and say that this life is over."""
    if store.meta("ledger_id") != life.around.ledger_id:
        raise StorageFault("another ledger stands where this one was")
    for item in lost:
        _leave_one(life, store, item)
    sending = any(sender.run_id == life.run_id for sender in tuple(LIVING_SENDERS.values()))
    if not sending and not len(life.operations):
        _take_back_unsent(life, store)
        # The owner lives on, perhaps for long; it says itself that it has left the run.
        store.runs.end_life(life.run_id, life.fence, how="store failed", now=life.now(), counts=life.counts())


def _leave_one(life: Life, store: SqlStore, item: Unsaved) -> None:
    """Leave one outcome, unless the row or its evidence says it already: an earlier attempt may have got through."""
    row = store.calls.by_id(item.row.tool_call_id)
    if row is None or row.idempotency_key != item.row.idempotency_key:
        raise StorageFault(f"the ledger that was opened anew has no {item.row.tool_call_id}")
    known = row.status is CallStatus.SUCCEEDED or any(
        found.kind == "reply" and found.attempt == item.row.attempt and found.says == "happened"
        for found in store.calls.evidence(row.tool_call_id)
    )
    if not known:
        ref = item.receipt.ref or row.handle
        add_evidence(life, store, item.row, "reply", "happened", detail=item.receipt.text, ref=ref)
        use_late_reply(life, store, row, ref)


def _take_back_unsent(life: Life, store: SqlStore) -> None:
    """Take back a first start that was committed although its commit failed: its body was never entered.

    A later start stays as it is: what became of the attempts before it is not known here.
    """
    run = store.runs.get(life.run_id)
    if run is None or run.lease_fence != life.fence:
        return
    sent = life.in_body | life.posted_receipts | {item.row.call_no for item in life.unsaved}
    for row in store.calls.open(life.run_id):
        ours = row.status is CallStatus.RUNNING and life.began(row)
        if ours and row.attempt == 1 and row.call_no not in sent:
            store.calls.take_back(row, life.authority, life.now())


def _names(lost: list[Unsaved]) -> str:
    return ", ".join(f"{item.row.tool_call_id} ({item.row.tool_name})" for item in lost)


def _kept(life: Life, lost: list[Unsaved]) -> StoreError:
    first = lost[0].problem
    return type(first)(
        f"{first.message}; the ledger was opened anew and keeps what is known: {_names(lost)} succeeded",
        safe="Nothing more was dispatched, and nobody has to be asked about what was kept.",
        next_command=f"perdure resume {life.run_id}",
    )


def _given_to_a_person(lost: list[Unsaved]) -> StoreError:
    """Return one error that names every lost receipt, with the lines to type."""
    first = lost[0].problem
    told = [f"{_names([item])} succeeded, and its receipt could not be stored: {item.problem.message}" for item in lost]
    lines = [
        f"perdure resolve {item.row.tool_call_id} --happened --result {shlex.quote(item.receipt.text)}" for item in lost
    ]
    return type(first)(
        "\n".join(told),
        safe="Nothing more is dispatched; after a restart what is named here is in doubt.",
        next_command=" && ".join(lines),
    )
