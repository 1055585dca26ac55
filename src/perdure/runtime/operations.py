"""Which engine operations of a life are in flight, which are parked, and whether the life is quiet (semantics §2.3)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from perdure.model.toolcall import CallRow
from perdure.runtime.frame import Frame


@dataclass(eq=False, slots=True)
class Operation:
    """One engine call in flight.

    Args:
        minted: this call made its row, so that its arguments are the recorded ones.
        started: a dispatch of this life began.
        in_flight: a tool's body runs.
        withdraw_asked: its caller was cancelled.
        parked: what it waits for.
        response: the receipt that this life has just stored.
        challengers: the kin that G2 holds against it until the run is quiet.
        refuses: its caller wants to hear of them then, instead of asking a person.
        simulation: what is called in place of the tool, in a fork that sends nothing.
        looked_at: which move of the run it had seen when it last looked at its row.
    """

    frame: Frame
    enclosing: Operation | None
    row: CallRow | None = None
    minted: bool = False
    started: bool = False
    in_flight: bool = False
    withdraw_asked: bool = False
    parked: str | None = None
    response: str | None = None
    inner: int = 0
    challengers: tuple[CallRow, ...] = ()
    refuses: bool = False
    wake: Callable[[], None] | None = None
    simulation: Callable[..., Any] | None = None
    looked_at: int = 0

    def is_withdrawn(self) -> bool:
        """Return whether the caller was cancelled; asked anew after each wait, because it can change in any of them."""
        return self.withdraw_asked


current_operation: ContextVar[Operation | None] = ContextVar("perdure_operation", default=None)


class Operations:
    """The operations of one life; safe to use from several threads.

    Args:
        changed: called, without the lock, whenever the picture changed.
        monotonic: gives seconds, for the time in which nothing moved.
    """

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._lock = threading.RLock()
        self._live: set[Operation] = set()
        self._parked = 0
        self._moves = 0
        self.began = 0
        self.draining = False
        """While what is in flight comes to its end, the parked ones stay parked: what they wait for is noted first."""
        self.changed: Callable[[], None] = _nothing
        self._monotonic = monotonic
        self._idle_since: float | None = None
        self._idle_seconds = 0.0

    def idle_seconds(self) -> float:
        """Return for how long nothing moved and something was parked: time that is not charged (C19)."""
        with self._lock:
            since = self._idle_since
            return self._idle_seconds + (self._monotonic() - since if since is not None else 0.0)

    def _rest(self) -> None:
        if self._parked and self._idle_since is None and self.all_parked():
            self._idle_since = self._monotonic()

    def _work(self) -> None:
        if self._idle_since is not None:
            self._idle_seconds += self._monotonic() - self._idle_since
            self._idle_since = None

    def __len__(self) -> int:
        return len(self._live)

    def begin(self, frame: Frame) -> Operation:
        """Register an operation inside the one that is being served here, if any."""
        operation = Operation(frame, current_operation.get())
        with self._lock:
            self._live.add(operation)
            self._work()
            self.began += 1
            operation.looked_at = self._moves
            if operation.enclosing is not None:
                operation.enclosing.inner += 1
        self.changed()
        return operation

    def end(self, operation: Operation) -> None:
        """Forget an operation and let the parked ones look again."""
        with self._lock:
            self._live.discard(operation)
            if operation.enclosing is not None:
                operation.enclosing.inner -= 1
            self._rest()
        self.wake_parked()
        self.changed()

    def met(self) -> None:
        """A call met its receipt without becoming an operation: the run was not quiet, and parked calls may go on."""
        with self._lock:
            self.began += 1
            self._moves += 1
        if self._parked:
            self.wake_parked()
            self.changed()

    def park(self, operation: Operation, reason: str, wake: Callable[[], None]) -> None:
        """Mark an operation as one that only something else can move."""
        with self._lock:
            operation.parked = reason
            operation.wake = wake
            self._parked += 1
            self._rest()
        self.changed()

    def must_look(self, operation: Operation) -> bool:
        """Return whether something moved since the operation last looked, maybe while it was on its way to park."""
        with self._lock:
            moved = operation.looked_at != self._moves
            operation.looked_at = self._moves
        return moved

    def withdraw(self, operation: Operation) -> None:
        """Ask an operation to give its row back if it is not started; one that is started goes on."""
        with self._lock:
            operation.withdraw_asked = True
            self._moves += 1
            wake = operation.wake
        if wake is not None:
            wake()

    def unpark(self, operation: Operation) -> None:
        """Mark an operation as moving again."""
        with self._lock:
            operation.parked = None
            operation.wake = None
            self._parked -= 1
            self._work()
        self.changed()

    def wake_parked(self) -> None:
        """Let every parked operation look at its row again."""
        with self._lock:
            self._moves += 1
            stay = self.draining
            wakes = [item.wake for item in self._live if item.wake is not None and not (stay and item.parked)]
        for wake in wakes:
            wake()

    @property
    def parked_count(self) -> int:
        """How many operations are parked."""
        return self._parked

    def parked(self) -> list[Operation]:
        """Return the parked operations."""
        with self._lock:
            return [operation for operation in self._live if operation.parked is not None]

    def all_parked(self) -> bool:
        """Return whether something is parked and nothing moves; what only waits for an inner one moves with it."""
        with self._lock:
            leaves = [operation for operation in self._live if operation.inner == 0]
            return bool(leaves) and all(operation.parked is not None for operation in leaves)

    def serving(self, call_no: int) -> Operation | None:
        """Return the operation of this life that has dispatched a row, if it still runs."""
        with self._lock:
            for operation in self._live:
                if operation.row is not None and operation.row.call_no == call_no and operation.started:
                    return operation
        return None

    def in_flight(self, namespace: str, tool_name: str, *, beside: int) -> bool:
        """Return whether a body of a tool runs for another row than number ``beside``."""
        with self._lock:
            rows = [operation.row for operation in self._live if operation.in_flight]
        return any(
            row is not None and row.call_no != beside and (row.tool_namespace, row.tool_name) == (namespace, tool_name)
            for row in rows
        )

    def __iter__(self) -> Iterator[Operation]:
        with self._lock:
            return iter(tuple(self._live))


def _nothing() -> None:
    return None
