"""Renews the leases of this process's lives; a renewal that is refused ends the life's authority."""

from __future__ import annotations

import threading

from perdure.model.errors import LeaseLost, StoreError
from perdure.ports.clock import after
from perdure.runtime import limits
from perdure.runtime.lease import HEARTBEAT_SECONDS, LEASE_SECONDS
from perdure.runtime.life import Life
from perdure.store.sql_store import SqlStore


class Heartbeat:
    """One thread that renews all leases; started with the first life."""

    def __init__(self) -> None:
        self._lives: set[Life] = set()
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def add(self, life: Life) -> None:
        """Begin to renew a life's lease."""
        with self._lock:
            self._lives.add(life)
            if self._thread is None:
                self._thread = threading.Thread(target=self._beat, name="perdure-heartbeat", daemon=True)
                self._thread.start()

    def remove(self, life: Life) -> None:
        """Stop renewing a life's lease."""
        with self._lock:
            self._lives.discard(life)

    def tell_of_cancel(self, run_id: str) -> None:
        """Let a life of this process see at once that somebody wants its end."""
        with self._lock:
            lives = [life for life in self._lives if life.run_id == run_id]
        for life in lives:
            life.cancel()

    def alone(self, life: Life) -> bool:
        """Return whether this process lives no other life of this engine."""
        with self._lock:
            return all(other is life for other in self._lives)

    def stop(self) -> None:
        """End the thread."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def _beat(self) -> None:
        while not self._stop.wait(HEARTBEAT_SECONDS):
            with self._lock:
                lives = list(self._lives)
            for life in lives:
                self._renew(life)

    def _renew(self, life: Life) -> None:
        asked_at = life.around.clock.monotonic()
        now = life.now()
        expires = after(now, LEASE_SECONDS)

        def renew(store: SqlStore) -> bool:
            charged = limits.charge_time(life)
            store.runs.renew(life.run_id, life.fence, now=now, expires=expires, active_seconds=charged)
            return store.endings.cancel_asked(life.run_id, life.fence)

        try:
            cancelled = life.ledger.run(renew)
        except (LeaseLost, StoreError) as problem:
            with self._lock:
                still = life in self._lives
            if still:
                life.fail(problem)
            return
        life.leased_at = asked_at
        if cancelled:
            life.cancel()
