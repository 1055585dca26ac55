"""Look at a run while another process owns it: read-only, without a lease and without a lock."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

from perdure.core.budget import Limit
from perdure.core.summary import coded
from perdure.model.errors import NotFound
from perdure.model.run import Outcome, RunRow, RunStatus, Waiting
from perdure.model.toolcall import INNER_NAMESPACES
from perdure.ports.clock import Clock, after, seconds_between
from perdure.runtime import report, ways_on
from perdure.runtime.changes import Change, changes, last_call, marked_now, owner_gone, run_facts
from perdure.runtime.cursor import seen_from
from perdure.runtime.lease import LEASE_SECONDS
from perdure.runtime.standings import Standing, standings
from perdure.runtime.waiting import waiting
from perdure.store.sql_store import SqlStore

WAITS, ENDED = "waits", "ended"
UNTIL = (WAITS, ENDED)
POLL_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class Bar:
    """How much of a budget is used; ``unit`` is what is counted."""

    unit: str
    used: float
    limit: float


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a run is, as it is shown on one screen.

    Args:
        owner_pid: the process that has it, if one has.
        gone_pid: that of an owner that is gone for certain.
        phase, step: where the newest open step is; ``None`` between steps.
        call: the newest call that is open, or the newest of all, with ``for_seconds`` since it last moved.
        active_seconds: how long its lives have worked.
        total_seconds: since it was accepted.
        calls: how many tool calls are in each state.
        waits: what it waits for, with commands.
    """

    run_id: str
    name: str
    status: str
    reason: str | None
    attempt: int
    owner_pid: int | None
    gone_pid: int | None
    phase: str | None
    step: str | None
    call: dict[str, Any] | None
    active_seconds: float
    total_seconds: float
    calls: dict[str, int]
    bars: tuple[Bar, ...]
    waits: tuple[Waiting, ...]
    resume_command: str
    error: str | None = None


@dataclass(slots=True)
class _Memory:
    """What the newest look has shown of steps and calls."""

    steps: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    open_calls: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    last: dict[str, Any] | None = None


class Watcher:
    """Somebody who looks at one run; use it with ``with``.

    Args:
        store: a connection of its own, which only reads.
        run_id: the run.
        clock: tells how long ago things were.
        flags: what printed commands need to reach this ledger.
        since: a cursor, ``start`` for everything from the beginning, or ``None`` for what comes from now on.

    Raises:
        NotFound: there is no such run.
        UsageError: ``since`` is no cursor of this run.
    """

    def __init__(
        self, store: SqlStore, run_id: str, clock: Clock, *, flags: str = "", since: str | None = None
    ) -> None:
        self._store = store
        self._clock = clock
        self._flags = flags
        self.run_id = run_id
        self._run = self._read_run()
        self._seen = marked_now(store, self._run) if since is None else seen_from(since, run_id)
        self._version = -1
        self._memory = _Memory(last=last_call(store, run_id))
        self._counts: dict[str, int] = {}
        self._remember_what_is_open()

    def __enter__(self) -> Watcher:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._store.connection.close()

    def _read_run(self) -> dict[str, Any]:
        self._store.connection.check()
        found = run_facts(self._store, self.run_id)
        if found is None:
            raise NotFound(f"there is no run {self.run_id!r}", next_command="perdure runs ls")
        return found

    def _remember_what_is_open(self) -> None:
        for row in self._store.steps.list(self.run_id):
            if row.status in ("running", "blocked"):
                self._memory.steps[row.step_id] = {"name": row.name, "phase": row.phase}

    def look(self) -> list[Change]:
        """Return what has changed since the last look; a look that finds nothing new costs one small question.

        Raises:
            StoreError: the ledger cannot be read.
        """
        version = self._store.watched.version()
        if version == self._version and owner_gone(self._run) is None:
            return []
        self._version = version
        self._run = self._read_run()
        found = list(changes(self._store, self._run, self._seen))
        for change in found:
            self._note(change)
        if found or not self._counts:
            self._counts = self._store.calls.counts(self.run_id)
        return found

    def _note(self, change: Change) -> None:
        memory, facts = self._memory, change.facts
        if change.kind == "step":
            if facts["status"] in ("running", "blocked"):
                memory.steps[facts["step_id"]] = facts
            else:
                memory.steps.pop(facts["step_id"], None)
        elif change.kind == "call" and facts["tool_namespace"] not in INNER_NAMESPACES:
            call = {**facts, "updated_at": change.at}
            if facts["status"] in ("running", "in_doubt", "awaiting_approval"):
                memory.open_calls[facts["tool_call_id"]] = call
            else:
                memory.open_calls.pop(facts["tool_call_id"], None)
            memory.last = call

    @property
    def cursor(self) -> str:
        """How far this watcher has read."""
        return self._seen.text()

    def is_over(self, until: str) -> bool:
        """Return whether there is nothing more to stay for.

        Args:
            until: ``waits`` (the run has ended, or waits, or nobody drives it) or ``ended``.
        """
        status = RunStatus(self._run["status"])
        return status.ended or (until == WAITS and (status is RunStatus.WAITING or self.is_undriven()))

    def is_undriven(self) -> bool:
        """Return whether nobody works on the run until somebody goes on with it: it is queued, or its owner is gone."""
        return self._run["status"] == RunStatus.QUEUED or owner_gone(self._run) is not None

    def outcome(self) -> Outcome:
        """Return where the run stands."""
        return report.outcome(self._store, self.run_id, flags=self._flags, shown=True)

    def progress(self) -> Progress:
        """Return where the run is, for one screen."""
        run, now = self._run, self._clock.now()
        gone = owner_gone(run)
        ended = RunStatus(run["status"]).ended
        row: RunRow | None = self._store.listed.run(self.run_id)
        waits = [waiting(self._store, item, self._flags) for item in self._store.questions.awaited(self.run_id)]
        active = _active_seconds(run, now, alive=gone is None)
        step = next(reversed(self._memory.steps.values()), None)
        owner = json.loads(run["lease_owner"]) if run["lease_owner"] else None
        return Progress(
            run_id=self.run_id,
            name=run["name"],
            status=run["status"],
            reason=run["reason"],
            attempt=run["attempt"],
            owner_pid=owner["pid"] if owner and gone is None else None,
            gone_pid=gone,
            phase=step["phase"] if step else None,
            step=step["name"] if step else None,
            call=self._call(now),
            active_seconds=active,
            total_seconds=max(0.0, seconds_between(run["created_at"], run["updated_at"] if ended else now)),
            calls=self._counts,
            bars=_bars(standings(self._store, self.run_id), active - float(run["active_seconds"])),
            waits=tuple(waits),
            resume_command=ways_on.way_on(self._store, row, self._flags, waits).resume if row is not None else "",
            error=coded(run["error_code"], run["error_detail"]) if run["error_code"] else None,
        )

    def _call(self, now: str) -> dict[str, Any] | None:
        found = next(reversed(self._memory.open_calls.values()), None) or self._memory.last
        if found is None:
            return None
        return {**found, "for_seconds": max(0.0, seconds_between(found["updated_at"], now))}


def _active_seconds(run: dict[str, Any], now: str, *, alive: bool) -> float:
    """Return how long lives have worked: what was charged, and what has passed since the owner charged it last."""
    charged = float(run["active_seconds"])
    if run["status"] != RunStatus.RUNNING or run["lease_expires_at"] is None or not alive:
        return charged
    return charged + min(LEASE_SECONDS, max(0.0, seconds_between(after(run["lease_expires_at"], -LEASE_SECONDS), now)))


def _bars(found: list[Standing], uncharged_seconds: float) -> tuple[Bar, ...]:
    """Return a bar for each budget of a run, with the time that its life has worked since it was charged last."""
    spent = {Limit.MINUTES: uncharged_seconds / 60}
    return tuple(Bar(it.limit, it.used + spent.get(Limit(it.limit), 0.0), float(it.allowed)) for it in found)


def follow(watcher: Watcher, clock: Clock, *, until: str, poll_seconds: float) -> Iterator[Change]:
    """Yield changes until there is nothing more to stay for."""
    while True:
        found = watcher.look()
        yield from found
        if not found and watcher.is_over(until):
            return
        if not found:
            clock.sleep(poll_seconds)
