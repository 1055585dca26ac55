"""The ledger: the one writer of this process. It group-commits, in order, what all runs hand it.

Three rules. A waiter is answered only after COMMIT returned. A member that fails alone is undone alone, by its
savepoint. A fault of the store, or a transaction that is gone after an error, fails every member of the group and ends
this process's authority: nothing is retried in place (design.md §4).
"""

from __future__ import annotations

import os
import threading
import weakref
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Generic, TypeVar, cast

from perdure.model.errors import StorageFault, StoreError
from perdure.ports.store import CrashPoint, no_crash_point
from perdure.store.changes import Listener
from perdure.store.sql_store import SqlStore
from perdure.store.vault import Vault

T = TypeVar("T")
Work = Callable[[SqlStore], T]
LINGER_SECONDS = 0.002


class Member(Generic[T]):
    """One piece of work in a group, with its answer."""

    __slots__ = ("done", "error", "notify", "value", "work")

    def __init__(self, work: Work[T], notify: Callable[[Member[T]], None] | None) -> None:
        self.work = work
        self.notify = notify
        self.done = False
        self.value: T | None = None
        self.error: BaseException | None = None

    def result(self) -> T:
        """Return the answer or raise the member's error."""
        if self.error is not None:
            raise self.error
        return cast(T, self.value)


class Ledger:
    """Serialises and group-commits work on one store.

    Args:
        store: used only while the ledger's lock is held.
        crash_point: the numbered points of the operator's knobs.
        linger_seconds: how long work that nobody waits for may wait for company.
    """

    def __init__(
        self,
        store: SqlStore,
        *,
        crash_point: CrashPoint = no_crash_point,
        linger_seconds: float = LINGER_SECONDS,
    ) -> None:
        self._store = store
        self._crash_point = crash_point
        self._linger_seconds = linger_seconds
        self._lock = threading.Lock()
        self._queue: deque[Member[Any]] = deque()
        self._work_waits = threading.Condition(threading.Lock())
        self._urgent = False
        self._closing = False
        self._thread: threading.Thread | None = None
        self.fault: StoreError | None = None
        _LEDGERS.add(self)
        self.crowd = 0
        """How many operations of this process are in flight; a lone one commits itself, without a hop."""

    @property
    def vault(self) -> Vault:
        """What keeps secrets out of the rows."""
        return self._store.vault

    def run(self, work: Work[T]) -> T:
        """Commit ``work`` together with everything that was handed in before it, and return its value."""
        member: Member[T] = Member(work, None)
        self._queue.append(member)
        with self._lock:
            if not member.done:
                self._commit(self._drain())
        return member.result()

    def post(self, work: Work[Any], failed: Callable[[BaseException], None]) -> None:
        """Hand in work that nobody waits for; it is durable with the next group, in order."""

        def notify(member: Member[Any]) -> None:
            if member.error is not None:
                failed(member.error)

        self._queue.append(Member(work, notify))
        self._wake(urgent=False)

    def submit(self, work: Work[T], notify: Callable[[Member[T]], None]) -> None:
        """Hand in work whose answer goes to ``notify``, called on the ledger thread after COMMIT returned."""
        self._queue.append(Member(work, notify))
        self._wake(urgent=True)

    def read(self, work: Work[T]) -> T:
        """Return what ``work`` reads, after everything handed in before it was committed."""
        with self._lock:
            if self._queue:
                self._commit(self._drain())
            self._store.connection.check()
            return work(self._store)

    def listen(self, listener: Listener) -> None:
        """Let ``listener`` be told what each commit has changed, after it returned; it must be quick and not raise."""
        self._store.changes.listener = listener

    def flush(self) -> None:
        """Return when everything handed in before is durable.

        Raises:
            StoreError: it is not, and never will be by this process.
        """
        with self._lock:
            if self._queue:
                self._commit(self._drain())
        if self.fault is not None:
            raise self.fault

    def run_anew(self, work: Work[T]) -> T:
        """Commit ``work`` on a new connection to the same ledger, once; the one that failed is left alone.

        Raises:
            StoreError: the store is still down; a later attempt may succeed.
        """
        store = self._store.another()
        try:
            store.connection.begin()
            try:
                value = work(store)
                store.connection.commit()
            except BaseException:
                _roll_back(store.connection)
                raise
            return value
        finally:
            store.connection.close()

    def survey(self, work: Work[T]) -> T:
        """Return what ``work`` reads from one moment of the ledger, while everybody else goes on writing.

        Raises:
            StoreError: the ledger cannot be read.
        """
        self.flush()
        store = self._store.another()
        try:
            store.connection.begin_reading()
            try:
                return work(store)
            finally:
                store.connection.rollback()
        finally:
            store.connection.close()

    def close(self) -> None:
        """Commit what waits, stop the thread and close the store."""
        with self._lock:
            if self._queue:
                self._commit(self._drain())
        with self._work_waits:
            self._closing = True
            self._work_waits.notify_all()
        if self._thread is not None:
            self._thread.join()
        self._store.connection.close()

    def leave_to_parent(self) -> None:
        """Free a forked child of locks that a thread of its parent held; what it does here is refused by the store."""
        self._lock = threading.Lock()
        self._work_waits = threading.Condition(threading.Lock())

    def _wake(self, *, urgent: bool) -> None:
        with self._work_waits:
            if self._thread is None:
                self._thread = threading.Thread(target=self._serve, name="perdure-ledger", daemon=True)
                self._thread.start()
            self._urgent = self._urgent or urgent
            self._work_waits.notify()

    def _serve(self) -> None:
        while True:
            with self._work_waits:
                while not self._queue and not self._closing:
                    self._work_waits.wait()
                if self._closing and not self._queue:
                    return
                if not self._urgent:
                    self._work_waits.wait_for(lambda: self._urgent or self._closing, self._linger_seconds)
                self._urgent = False
            with self._lock:
                batch = self._drain()
                if batch:
                    self._commit(batch)

    def _drain(self) -> list[Member[Any]]:
        batch: list[Member[Any]] = []
        while self._queue:
            batch.append(self._queue.popleft())
        return batch

    def _commit(self, batch: list[Member[Any]]) -> None:
        try:
            if self.fault is not None:
                raise self.fault
            self._store.connection.check()
            self._transact(batch)
        except StoreError as problem:
            self.fault = self.fault or problem
            _answer(batch, problem)
        except BaseException:
            # A signal came in between. The caller that it hit goes on with it; the others must not take it for success.
            _answer(batch, StorageFault("a signal interrupted the commit"))
            raise
        else:
            _answer(batch, None)

    def _transact(self, batch: list[Member[Any]]) -> None:
        connection = self._store.connection
        connection.begin()
        try:
            self._perform_first(batch[0])
            for member in batch[1:]:
                self._perform(member)
            self._crash_point("before commit")
            connection.commit()
        except BaseException:
            _roll_back(connection)
            self._store.changes.undo(0)
            raise
        self._crash_point("after commit")
        self._store.changes.committed()

    def _perform_first(self, member: Member[Any]) -> None:
        """Perform the first member of a group: nothing stands before it, so that the transaction is its savepoint."""
        try:
            member.value = member.work(self._store)
        except StorageFault:
            raise
        except Exception as problem:
            self._store.connection.rollback()
            self._store.changes.undo(0)
            member.error = problem
            self._store.connection.begin()

    def _perform(self, member: Member[Any]) -> None:
        connection = self._store.connection
        connection.savepoint()
        mark = self._store.changes.mark()
        try:
            member.value = member.work(self._store)
        except StorageFault:
            raise
        except Exception as problem:
            if not connection.in_transaction():
                raise StorageFault(f"the transaction was gone after an error: {problem}") from problem
            connection.undo_to_savepoint()
            self._store.changes.undo(mark)
            member.error = problem
        else:
            connection.release()


def _after_fork() -> None:
    for ledger in tuple(_LEDGERS):
        ledger.leave_to_parent()


_LEDGERS: weakref.WeakSet[Ledger] = weakref.WeakSet()
os.register_at_fork(after_in_child=_after_fork)


def _answer(batch: list[Member[Any]], problem: StoreError | None) -> None:
    for member in batch:
        member.error = problem or member.error
        member.done = True
    for member in batch:
        if member.notify is not None:
            # An event loop that is closed cannot be told any more, and then nobody waits in it.
            with suppress(RuntimeError):
                member.notify(member)


def _roll_back(connection: Any) -> None:
    try:
        connection.rollback()
    except StoreError:
        # The transaction is lost either way; the first fault is the one that is reported.
        return
