"""Retention: bodies of ended runs are removed when somebody asks for it, and never by themselves (C14)."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from perdure.core.duration import parse_duration
from perdure.model.errors import UsageError
from perdure.model.run import RunRow, RunStatus
from perdure.ports.clock import after
from perdure.runtime.ledger import Ledger
from perdure.runtime.life import Surroundings
from perdure.store.pruning import Batch
from perdure.store.sql_store import SqlStore
from perdure.store.sqlite.erasing import empty_log, older_copies, shrink

DEFAULT_OLDER_THAN = "30d"


@dataclass(frozen=True, slots=True)
class Pruned:
    """What was removed, or would be.

    Args:
        runs: whose bodies are gone.
        failed: those of them that could have been resumed with their bodies.
        kept: ended runs that are old enough, each with what still needs its bodies.
        calls: how many calls were looked at.
        bytes: how much text was removed.
        workspaces: folders that were removed.
        log_emptied: nobody was reading, so that no old copy is left in the log; ``None`` where nothing was done.
        shrunk: the file was written anew; ``None`` where nobody asked for it.
        copies: older copies of the ledger beside it, which still have what was removed.
    """

    runs: tuple[str, ...] = ()
    kept: tuple[tuple[str, str], ...] = ()
    calls: int = 0
    bytes: int = 0
    workspaces: tuple[Path, ...] = ()
    log_emptied: bool | None = None
    shrunk: bool | None = None
    copies: tuple[Path, ...] = ()
    failed: tuple[str, ...] = ()


class Retention:
    """What an engine can do about what is old."""

    _ledger: Ledger
    _around: Surroundings
    state_dir: Path

    def prune(
        self,
        *,
        older_than: str | float = DEFAULT_OLDER_THAN,
        dry_run: bool = False,
        workspaces: bool = False,
        vacuum: bool = False,
    ) -> Pruned:
        """Remove the bodies of runs that ended long ago: requests, receipts, evidence, snapshots, inputs.

        Keys, hashes, outcomes, references and times stay, and with them everything that keeps an effect from being done
        twice. It may be broken off at any moment; the next one goes on.

        Args:
            older_than: seconds, or a duration such as ``30d``: how long ago a run must have ended.
            dry_run: only say what would be done.
            workspaces: remove the folders of these runs too, but for a ``workspace_dir`` that a job names.
            vacuum: write the file anew without the room that became free.

        Raises:
            UsageError: the duration has no meaning.
            StoreError: the ledger cannot be written.
        """
        try:
            seconds = parse_duration(older_than)
        except ValueError as problem:
            raise UsageError(f"older_than: {problem}") from None
        if seconds == float("inf"):
            raise UsageError("older_than: no run ended for ever ago; write something like 30d")
        before = after(self._around.clock.now(), -seconds)
        found = self._ledger.read(lambda store: store.pruning.candidates(before))
        needs = {run_id: self._needed_by(run_id) for run_id, _ in found}
        kept = tuple((run_id, why) for run_id, why in needs.items() if why is not None)
        chosen = tuple(run_id for run_id, why in needs.items() if why is None)
        failed = self._failed(chosen)
        if dry_run:
            weighed = [self._ledger.read(_weighing(run_id)) for run_id in chosen]
            calls, size = sum(item.calls for item in weighed), sum(item.bytes for item in weighed)
            return Pruned(runs=chosen, kept=kept, failed=failed, calls=calls, bytes=size, copies=self._copies())
        done = self._prune(chosen, kept, workspaces=workspaces, vacuum=vacuum)
        return replace(done, failed=tuple(run_id for run_id in failed if run_id in done.runs))

    def _failed(self, chosen: tuple[str, ...]) -> tuple[str, ...]:
        rows = [self._ledger.read(_getting(run_id)) for run_id in chosen]
        return tuple(row.run_id for row in rows if row is not None and row.status is RunStatus.FAILED)

    def _needed_by(self, run_id: str) -> str | None:
        return self._ledger.read(lambda store: store.pruning.needed_by(run_id))

    def _prune(
        self, chosen: tuple[str, ...], kept: tuple[tuple[str, str], ...], *, workspaces: bool, vacuum: bool
    ) -> Pruned:
        done: list[Batch] = []
        folders: list[Path] = []
        runs: list[str] = []
        for run_id in chosen:
            batches = self._prune_run(run_id)
            if batches is None:
                continue
            runs.append(run_id)
            done += batches
            if workspaces:
                folders += self._remove_workspace(run_id)
        emptied = self._ledger.read(lambda store: empty_log(store.connection))
        shrunk = self._ledger.read(lambda store: shrink(store.connection)) if vacuum else None
        if shrunk:
            emptied = self._ledger.read(lambda store: empty_log(store.connection))
        return Pruned(
            runs=tuple(runs),
            kept=kept,
            calls=sum(batch.calls for batch in done),
            bytes=sum(batch.bytes for batch in done),
            workspaces=tuple(folders),
            log_emptied=emptied,
            shrunk=shrunk,
            copies=self._copies(),
        )

    def _prune_run(self, run_id: str) -> list[Batch] | None:
        now = self._around.clock.now()

        def begin(store: SqlStore) -> bool:
            if store.pruning.needed_by(run_id) is not None:
                return False
            return store.pruning.begin(run_id, now) or store.pruning.pruned_at(run_id) is not None

        if not self._ledger.run(begin):
            return None  # somebody has begun to need it since
        done: list[Batch] = []
        last: int | None = 0
        while last is not None:
            done.append(self._ledger.run(_stripping(run_id, last)))
            last = done[-1].last
        self._ledger.run(lambda store: store.pruning.finish(run_id))
        return done

    def _remove_workspace(self, run_id: str) -> list[Path]:
        folder = self.state_dir / "workspaces" / run_id
        if folder.is_symlink() or not folder.is_dir():
            return []
        shutil.rmtree(folder)
        return [folder]

    def _copies(self) -> tuple[Path, ...]:
        return self._ledger.read(lambda store: older_copies(store.connection))


def _stripping(run_id: str, last: int) -> Callable[[SqlStore], Batch]:
    return lambda store: store.pruning.strip(run_id, last)


def _weighing(run_id: str) -> Callable[[SqlStore], Batch]:
    return lambda store: store.pruning.weigh(run_id)


def _getting(run_id: str) -> Callable[[SqlStore], RunRow | None]:
    return lambda store: store.runs.get(run_id)
