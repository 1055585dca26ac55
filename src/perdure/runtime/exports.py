"""The files of a run, written after the commits they tell of (design.md §6, document 002 §10).

One observer: the runner, and whoever ends a run, says what has happened; what is written here is read back from the
rows. Nothing that goes wrong here may stop a run: it is said once, and the files can be written anew at any time.
"""

from __future__ import annotations

import json
import logging
import os
import shlex
import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Concatenate, ParamSpec

from perdure.core.completion import Completion
from perdure.model.errors import NotFound, PerdureError, UsageError
from perdure.model.run import RunRow
from perdure.runtime import artifacts
from perdure.runtime.completions import Reach, completion_of
from perdure.runtime.packets import packet_of
from perdure.runtime.restart import folder_of, restart_text
from perdure.runtime.run_log import TAIL_BYTES, RunLogs, whole_log
from perdure.runtime.trace_file import TRACE_VARIABLE, write_trace
from perdure.runtime.transcript import write_transcript
from perdure.runtime.ways_on import way_on
from perdure.runtime.workspace import (
    PRIVATE_PROGRAM,
    RESTART,
    RUN_LOG,
    TRANSCRIPT,
    WORK_PRODUCTS,
    completion_names,
    packet_name,
    tail,
    write_whole,
)
from perdure.store.modes import make_folder, make_workspace

if TYPE_CHECKING:
    from perdure.runtime.ledger import Ledger
    from perdure.runtime.life import Life

_LOG = logging.getLogger("perdure")
DATABASE_NAME = "runtime_state.db"
P = ParamSpec("P")


def _never_fatal(
    method: Callable[Concatenate[Exports, str, P], None],
) -> Callable[Concatenate[Exports, str, P], None]:
    """Return a method that tells of its own failure and lets the run go on."""

    def guarded(self: Exports, run_id: str, /, *args: P.args, **kwargs: P.kwargs) -> None:
        try:
            method(self, run_id, *args, **kwargs)
        except Exception as problem:
            self.failed(run_id, problem)

    return guarded


def reach_of(state_dir: Path, database: Path) -> Reach:
    """Return what a command needs to reach a ledger from any folder."""
    flags = f"--state-dir {shlex.quote(str(state_dir.absolute()))}"
    if database.absolute() != (state_dir / DATABASE_NAME).absolute():
        flags += f" --store {shlex.quote(f'sqlite:///{database.absolute()}')}"
    return Reach(flags, sys.executable)


class Exports:
    """Writes the files of an engine's runs.

    Args:
        reach: what a command needs to reach the ledger from any folder.
    """

    def __init__(self, ledger: Ledger, reach: Reach) -> None:
        self._ledger = ledger
        self._reach = reach
        self._told: set[str] = set()
        self._living: set[str] = set()
        self._traces = os.environ.get(TRACE_VARIABLE, "").lower() in ("1", "on", "true", "yes")
        self._logs = RunLogs(ledger, self.failed, self.write_heard)

    def failed(self, run_id: str, problem: Exception) -> None:
        """Say once a run that its files cannot be written; the rows have everything."""
        if run_id not in self._told:
            self._told.add(run_id)
            again = self._reach.command(f"runs export {run_id}")
            text = "the files of run %s cannot be written: %s; the run goes on, and this writes them: %s"
            _LOG.warning(
                text, run_id, problem, again, exc_info=None if isinstance(problem, OSError | PerdureError) else problem
            )

    # --- what the runner says ------------------------------------------------------------------------------------

    @_never_fatal
    def began(self, run_id: str, life: Life) -> None:
        """A life has claimed its run: its folder stands, and says how to go on if this life is killed."""
        self._living.add(run_id)
        make_workspace(life.workspace)
        make_folder(life.workspace / WORK_PRODUCTS)
        for name in completion_names(run_id):
            (life.workspace / name).unlink(missing_ok=True)  # of a failed run that is resumed: it has not ended
        if life.run.attempt:
            self._logs.catch_up(life)
        self._logs.watch(run_id, life.workspace)
        self.write_heard()
        self._write_restart(life.run, os.getcwd())

    @_never_fatal
    def entering(self, run_id: str, life: Life) -> None:
        """What was started is settled, and the program is entered next: it may ask what an earlier life has left."""
        if life.run.attempt:
            life.files.packet = packet_of(life)
            write_whole(
                life.workspace / packet_name(run_id), self._ledger.vault.shown(str(life.files.packet), page=True)
            )

    @_never_fatal
    def closing(self, run_id: str, life: Life) -> None:
        """The program is over and its end is written next; what the job expects among these files is there by then."""
        self.write_heard()
        write_transcript(self._ledger, run_id, life.workspace)

    @_never_fatal
    def left(self, run_id: str) -> None:
        """A life's end is committed."""
        self.write_heard()
        self._living.discard(run_id)
        self._write_end(self._row(run_id))
        if self._traces:
            self._write_trace(run_id)

    @_never_fatal
    def _write_trace(self, run_id: str) -> None:
        row = self._row(run_id)
        write_trace(self._ledger, run_id, Path(row.workspace), row.updated_at)

    def ended(self, run_ids: Iterable[str]) -> None:
        """Runs were ended without a life: by their deadline, or by a person."""
        told = self.write_heard()
        for run_id in set(run_ids) - told - self._living:
            self._report(run_id)

    def write_heard(self) -> set[str]:
        """Write what commits have told: lines of logs, reports of runs that nobody here drives; return those."""
        ended = self._logs.write() - self._living
        for run_id in ended:
            self._report(run_id)
        return ended

    def stop(self) -> None:
        """Write what is left to write."""
        self._logs.stop()
        self.write_heard()

    @_never_fatal
    def _report(self, run_id: str) -> None:
        row = self._row(run_id)
        if row.status.ended:
            write_transcript(self._ledger, run_id, Path(row.workspace))
            self._write_end(row)

    # --- what a person asks for ----------------------------------------------------------------------------------

    def write_anew(self, run_id: str) -> list[Path]:
        """Write every file of a run again from its rows, and return where they are.

        Raises:
            OSError: the workspace cannot be written.
        """
        row = self._row(run_id)
        workspace = Path(row.workspace)
        make_workspace(workspace)
        make_folder(workspace / WORK_PRODUCTS)
        write_whole(workspace / RUN_LOG, whole_log(self._ledger, run_id))
        (workspace / TRANSCRIPT).unlink(missing_ok=True)
        write_transcript(self._ledger, run_id, workspace)
        written = [RUN_LOG, TRANSCRIPT, RESTART]
        if row.status.ended:
            written += completion_names(run_id)
        self._write_end(row)
        return [workspace / name for name in written]

    def completion(self, run_id: str) -> Completion:
        """Return the report of a run that has ended, with a look at its files as they are now.

        Raises:
            UsageError: it has not ended.
        """
        row = self._row(run_id)
        if not row.status.ended:
            raise UsageError(f"run {run_id} has not ended: it is {row.status}")
        return self._completion(row)

    # --- files ---------------------------------------------------------------------------------------------------

    def _row(self, run_id: str) -> RunRow:
        row = self._ledger.read(lambda store: store.listed.run(run_id))
        if row is None:
            raise NotFound(f"there is no run {run_id!r}")
        return row

    def _completion(self, row: RunRow) -> Completion:
        found = self._ledger.read(lambda store: completion_of(store, row, self._reach))
        checked = artifacts.check(Path(row.workspace), [item.artifact for item in found.files])
        return replace(found, files=checked)

    def _write_end(self, row: RunRow) -> None:
        if row.status.ended:
            report = self._completion(row)
            page, document = completion_names(row.run_id)
            text = json.dumps(report.as_document(), indent=2, ensure_ascii=False) + "\n"
            shown = self._ledger.vault.shown
            write_whole(Path(row.workspace) / document, shown(text))
            write_whole(Path(row.workspace) / page, shown(report.as_markdown(), page=True))
        self._write_restart(row, None)

    def _write_restart(self, row: RunRow, folder: str | None) -> None:
        """Write the command that goes on, unless it stands there already.

        Args:
            folder: where the run is driven; what an earlier file says when left out.
        """
        path = Path(row.workspace) / RESTART
        before = tail(path, TAIL_BYTES)
        known = shlex.quote(folder) if folder is not None else folder_of(before)
        way = self._ledger.read(lambda store: way_on(store, row, self._reach.flags))
        text = restart_text(row, way, self._reach, known)
        if text != before:
            write_whole(path, text, PRIVATE_PROGRAM)
