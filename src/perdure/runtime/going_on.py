"""Resume every run that can go on without a person, and tell of all the others why not (R133)."""

from __future__ import annotations

import shlex
from abc import abstractmethod
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from perdure.core.going_on import DEFAULT_MAX_AGE_SECONDS, Candidate, why_skipped
from perdure.core.ways_on import STOPS_ON_CHANGE, with_flags
from perdure.model.errors import PerdureError, StoreError
from perdure.model.run import Outcome, RunRow, RunStatus, WaitReason, WayOn
from perdure.ports.clock import seconds_between
from perdure.runtime import cancelling
from perdure.runtime.desk import Desk
from perdure.runtime.lease import Liveness, liveness
from perdure.runtime.report import owner_note, run_document
from perdure.runtime.waiting import spaced
from perdure.runtime.ways_on import way_on
from perdure.store.runs import owner_from_text
from perdure.store.sql_store import SqlStore

_SEVERITY = (1, 9, 8, 7, 6, 4, 5, 10, 11)
ENDLESS = 2**62


@dataclass(frozen=True, slots=True)
class Skipped:
    """A run that was not resumed.

    Args:
        why: in words.
        command: what would resume it, or shows it.
    """

    run_id: str
    name: str
    status: str
    why: str
    command: str


@dataclass(frozen=True, slots=True)
class Interrupted:
    """A running run whose process is gone.

    Args:
        command: what goes on with it by itself; empty where all such runs go on together.
    """

    run_id: str
    command: str


@dataclass(frozen=True, slots=True)
class WentOn:
    """What became of all runs.

    Args:
        resumed: where each stands now, in the order in which they went on, oldest first.
        skipped: those that have not ended, or have failed, and did not go on.
        ended: how many have succeeded or were cancelled.
    """

    resumed: tuple[Outcome, ...]
    skipped: tuple[Skipped, ...]
    ended: Mapping[str, int]

    @property
    def exit_code(self) -> int:
        """0 where each resumed run has succeeded; else the gravest code of one: 1 9 8 7 6 4 5 10 11, in this order."""
        codes = {outcome.exit_code for outcome in self.resumed}
        return next((code for code in _SEVERITY if code in codes), 0)

    def summary(self) -> str:
        """Return the one notice for a person."""
        stood = Counter(_state(outcome) for outcome in self.resumed)
        why = Counter(item.why for item in self.skipped)
        parts = [f"resumed {len(self.resumed)}{_counted(stood)}", f"skipped {len(self.skipped)}{_counted(why)}"]
        parts += [f"{count} {status} before" for status, count in sorted(self.ended.items())]
        return "; ".join(parts)


def _state(outcome: Outcome) -> str:
    return f"{outcome.status} ({outcome.reason})" if outcome.reason else str(outcome.status)


def _counted(found: Counter[str]) -> str:
    said = ", ".join(f"{count} × {what}" for what, count in sorted(found.items()))
    return f" ({said})" if said else ""


class GoingOn(Desk):
    """Part of an engine."""

    @abstractmethod
    def resume(self, run_id: str) -> Outcome:
        """Settle what was started and go on with a run."""

    def resume_all(self, *, max_age_seconds: float = DEFAULT_MAX_AGE_SECONDS) -> WentOn:
        """Resume, one after another and oldest first, every interrupted or queued run that needs no person (R133).

        Args:
            max_age_seconds: runs in which nothing has happened for longer are left, and told of.
        """
        self._touch()
        rows, done = self._ledger.read(_not_done)
        resumed: list[Outcome] = []
        skipped: list[Skipped] = []
        for row in rows:
            why = why_skipped(self._candidate(row), max_age_seconds)
            found = self._try(row) if why is None else self._skipped(row, why)
            if isinstance(found, Outcome):
                resumed.append(found)
            else:
                skipped.append(found)
        return WentOn(tuple(resumed), tuple(skipped), done)

    def _candidate(self, row: RunRow) -> Candidate:
        now = self._around.clock.now()
        return Candidate(
            status=row.status,
            reason=row.reason,
            owner=self._driver(row, now),
            is_due=self._ledger.read(lambda store: _is_due(store, row, now)),
            idle_seconds=seconds_between(row.updated_at, now),
            loadable=row.job_path is not None and not row.is_scope,
        )

    def _driver(self, row: RunRow, now: str) -> str:
        """Return who may be driving a run, in words, or nothing."""
        if row.lease_owner is None or not self._ledger.read(lambda store: cancelling.is_driven(store, row, now)):
            return ""
        owner = owner_from_text(row.lease_owner)
        return f"process {owner.pid}" + ("" if liveness(owner) is Liveness.ALIVE else f" on {owner.host}")

    def interrupted(self, *, max_age_seconds: float = DEFAULT_MAX_AGE_SECONDS) -> list[Interrupted]:
        """Return the running runs whose process is gone, and which of them ``resume_all`` would leave, with why.

        Args:
            max_age_seconds: as for ``resume_all``.
        """
        found: list[Interrupted] = []
        for row in self.runs(status=RunStatus.RUNNING, limit=ENDLESS):
            if owner_note(row):
                why = why_skipped(self._candidate(row), max_age_seconds) or ""
                way = self._way_on(row)
                found.append(Interrupted(row.run_id, way.line if why or way.resume.endswith(STOPS_ON_CHANGE) else ""))
        return found

    def _way_on(self, row: RunRow) -> WayOn:
        return self._ledger.read(lambda store: way_on(store, row, self._flags))

    def _try(self, row: RunRow) -> Outcome | Skipped:
        """Resume a run; one that cannot be resumed here must not keep the others from it."""
        try:
            return self.resume(row.run_id)
        except StoreError:
            raise
        except PerdureError as problem:
            return self._skipped(row, "; ".join(problem.message.split("\n")), problem.next_command)
        except SystemExit as left:
            return self._skipped(row, f"its code left with sys.exit({left.code!r})")

    def _skipped(self, row: RunRow, why: str, mends: str = "") -> Skipped:
        """Tell of a run that did not go on.

        Args:
            mends: what is to be typed next, where that is known better than from where it stands.
        """
        run_id, flags = shlex.quote(row.run_id), spaced(self._flags)
        if mends.startswith("perdure "):
            command = with_flags(mends, self._flags)
        elif row.status is RunStatus.WAITING and row.reason != WaitReason.TIMER:
            command = f"perdure inbox{flags}"
        elif row.status is RunStatus.RUNNING and self._driver(row, self._around.clock.now()):
            command = f"perdure runs watch {run_id}{flags}"
        else:
            command = self._way_on(row).resume or f"perdure runs show {run_id}{flags}"
        told = " ".join(why.replace(":;", ":").split())
        return Skipped(row.run_id, row.name, str(row.status), told, command)


def _not_done(store: SqlStore) -> tuple[list[RunRow], dict[str, int]]:
    """Return the runs that have not succeeded and were not cancelled, oldest first, and how many have or were."""
    open_ones = (status for status in RunStatus if status not in (RunStatus.SUCCEEDED, RunStatus.CANCELLED))
    rows = [row for status in open_ones for row in store.runs.newest(status=status, limit=ENDLESS)]
    return sorted(rows, key=lambda row: row.run_no), store.listed.done_runs()


def _is_due(store: SqlStore, row: RunRow, now: str) -> bool:
    """Return whether the moment has come that a run waits for."""
    if row.reason != WaitReason.TIMER:
        return False
    timers = [call.not_before for call in store.calls.open(row.run_id) if call.not_before is not None]
    return bool(timers) and min(timers) <= now


def went_on_document(found: WentOn) -> dict[str, Any]:
    """Return the ``perdure.resume_all/v1`` document."""
    return {
        "schema": "perdure.resume_all/v1",
        "resumed": [run_document(outcome) for outcome in found.resumed],
        "skipped": [asdict(item) for item in found.skipped],
        "ended": dict(found.ended),
        "exit_code": found.exit_code,
    }
