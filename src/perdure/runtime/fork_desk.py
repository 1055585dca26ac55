"""The forking part of the library: plans, and forks with their first life."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from perdure.model.errors import UsageError
from perdure.model.fork import ForkEffects
from perdure.model.run import Outcome, RunStatus
from perdure.runtime import forks
from perdure.runtime.accept import spec_of
from perdure.runtime.desk import Desk
from perdure.runtime.forks import ForkPlan
from perdure.runtime.runner import Job

Main = Callable[..., Any]


class ForkDesk(Desk):
    """Makes new runs from old ones; the old ones are only read. An engine fills in how a run is driven."""

    state_dir: Path
    _entrypoint: str
    _job_of: Callable[..., Job]
    _drive: Callable[[Job], Outcome]
    _adrive: Callable[[Job], Coroutine[Any, Any, Outcome]]

    def fork_plan(self, run_id: str, *, at: str | None = None, effects: str = "simulate") -> ForkPlan:
        """Return what a fork of a run would inherit, and which effects of the run it would not know of.

        Args:
            at, effects: as in ``fork``.

        Raises:
            NotFound: there is no such run or checkpoint.
            UsageError: ``effects`` is neither ``simulate`` nor ``live``.
        """
        if effects not in tuple(ForkEffects):
            raise UsageError(f"effects={effects!r} is none of {', '.join(ForkEffects)}")
        row = self._row(run_id)
        return self._ledger.read(lambda store: forks.plan(store, row, at, ForkEffects(effects)))

    def fork(
        self,
        run_id: str,
        *,
        at: str | None = None,
        effects: str = "simulate",
        inputs: Mapping[str, Any] | None = None,
        new_run_id: str | None = None,
        main: Main | None = None,
        wait: bool = False,
    ) -> Outcome:
        """Make a new run from an old one and live its first life; the old one is only read (R121).

        The fork inherits the receipts up to a checkpoint. What follows is done again: reads and local work for real,
        in a workspace of its own; calls with an effect as ``effects`` says.

        Args:
            run_id: the run, or a unique prefix, or ``@last``; in whatever state.
            at: a checkpoint's id, its last part (``c3``), or ``start``; the newest checkpoint when left out.
            effects: ``simulate`` sends nothing; ``live`` sends, with keys of its own.
            inputs: those that are to be different; the fork then has another specification.
            new_run_id: names the fork; the same fork again under the same id goes on with it.
            main: the agent's function; loaded from where the run was started when left out.
            wait: stay and wait for people's answers.

        Raises:
            NotFound, SpecError, UsageError: there is no such run or checkpoint, or it cannot be forked so.
            SpecMismatch: the id is taken by something else.
        """
        return self._drive(self._fork(run_id, at, effects, inputs, new_run_id, main, wait))

    async def afork(
        self,
        run_id: str,
        *,
        at: str | None = None,
        effects: str = "simulate",
        inputs: Mapping[str, Any] | None = None,
        new_run_id: str | None = None,
        main: Main | None = None,
        wait: bool = False,
    ) -> Outcome:
        """Do what ``fork`` does inside a running event loop; arguments and errors are the same."""
        return await self._adrive(self._fork(run_id, at, effects, inputs, new_run_id, main, wait))

    def _fork(
        self,
        run_id: str,
        at: str | None,
        effects: str,
        inputs: Mapping[str, Any] | None,
        new_run_id: str | None,
        main: Main | None,
        wait: bool,
    ) -> Job:
        row = self._row(run_id)
        wanted = replace(row, status=RunStatus.QUEUED)  # the agent of a run that has ended is needed too
        drawn = self.fork_plan(run_id, at=at, effects=effects)
        job = self._job_of(wanted, main, wait, reopen=False)
        workspaces = (self.state_dir / "workspaces").absolute()
        found = forks.fork_of(self._around, drawn, new_run_id, inputs or {}, workspaces, self._entrypoint)
        return replace(job, run_id=found.run_id, spec=spec_of(found))
