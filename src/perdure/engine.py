"""The composition root and the public library: opens a ledger, runs jobs, answers questions."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any

from perdure.config.job_file import JobFile, checked_budgets, load_job, open_job
from perdure.config.policy_file import load_policy
from perdure.config.settings import database_of
from perdure.model.errors import SpecError, UsageError
from perdure.model.policy import Policy
from perdure.model.run import SCOPE_AGENT, Outcome, RunRow, RunSpec
from perdure.model.toolcall import CallRow
from perdure.ports.clock import Clock, SystemClock
from perdure.ports.tool import Tool
from perdure.runtime.accept import accept, spec_of
from perdure.runtime.agent import LoadedFar, describe, load_agent, loading, name_of
from perdure.runtime.budget_desk import BudgetDesk
from perdure.runtime.claim import kill_owner, refuse_pruned
from perdure.runtime.consent import Known
from perdure.runtime.crashpoints import Knobs
from perdure.runtime.exports import Exports, reach_of
from perdure.runtime.faces import Run
from perdure.runtime.fork_desk import ForkDesk
from perdure.runtime.going_on import GoingOn
from perdure.runtime.granting import said_as_recorded
from perdure.runtime.heartbeat import Heartbeat
from perdure.runtime.lease import mark_children, this_process
from perdure.runtime.ledger import Ledger
from perdure.runtime.life import Surroundings, Tuning
from perdure.runtime.phases import Critic, critic_for
from perdure.runtime.program import load_program, refuse_uncallable, untouched
from perdure.runtime.registry import Registry
from perdure.runtime.retention import Retention
from perdure.runtime.runner import Job, Runner
from perdure.runtime.scope import AsyncScope, sync_scope
from perdure.runtime.secrets import Sources, key_path, ledger_redactor, tell_of_lost_key
from perdure.runtime.telemetry import chooser
from perdure.runtime.trust import Trust
from perdure.store.open import open_store

NOT_ENTERED = "its stored outcome; main was not entered"
AnyTool = Tool[Any, Any]
Main = Callable[..., Any]


class Engine(ForkDesk, BudgetDesk, GoingOn, Trust, Retention):
    """One open ledger with its tools and policies; use it with ``with``.

    Args:
        url: ``sqlite:///PATH``.
        tools: registered for every run, beside those that the agent's module shows.
        policies: overlay files, in the order of loading.
        state_dir: where workspaces are; the ledger's folder when left out.
        tuning, clock: for tests and special needs.
        environ: where the crash knobs, secrets and their settings are read from.
        command_flags: what printed commands need to reach this ledger.
        entrypoint: recorded with every run that is started here (R015).
        redaction: ``strict`` or ``off``; from ``PERDURE_REDACTION`` when left out, else strict.
        secrets: where each declared secret comes from: ``env:NAME``, ``file:PATH`` or ``cmd:COMMAND``.

    Raises:
        StoreError: the ledger cannot be used safely.
        PolicyError: a policy file has errors; all of them are in it.
    """

    def __init__(
        self,
        url: str,
        *,
        tools: Iterable[AnyTool] = (),
        policies: Iterable[str | Path] = (),
        state_dir: str | Path | None = None,
        tuning: Tuning | None = None,
        clock: Clock | None = None,
        environ: Mapping[str, str] | None = None,
        command_flags: str = "",
        entrypoint: str = "library",
        redaction: str | None = None,
        secrets: Mapping[str, str] | None = None,
    ) -> None:
        environ, database = os.environ if environ is None else environ, database_of(url)
        knobs = Knobs(environ)
        self._policy_paths = [Path(path) for path in policies]
        policy = load_policy(self._policy_paths)
        clock = clock or SystemClock()
        owner = this_process()
        mark_children(owner)
        redactor = ledger_redactor(environ, redaction)
        key = key_path(environ)
        store = open_store(url, clock, crash_point=knobs.crash_point, redactor=redactor, key_path=key)
        tell_of_lost_key(store.vault)
        ledger = Ledger(store, crash_point=knobs.crash_point)
        self.state_dir = Path(state_dir) if state_dir is not None else Path(database).parent
        self._registry = Registry(tools)
        self._flags = command_flags
        self._entrypoint = entrypoint
        self._ledger = ledger
        self._exports = Exports(ledger, reach_of(self.state_dir, database))
        ledger_id = ledger.read(lambda s: s.meta("ledger_id"))
        self._around = Surroundings(
            ledger=ledger,
            ledger_id=ledger_id or "",
            clock=clock,
            policy=policy,
            knobs=knobs,
            owner=owner,
            observer=self._exports,
            tuning=tuning or Tuning(),
            sources=Sources(secrets or {}, environ, redactor),
            spans=chooser(environ, tuning.telemetry if tuning is not None else None),
        )
        self._heartbeat = Heartbeat()

    def __enter__(self) -> Engine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Commit what waits and close the ledger."""
        self._heartbeat.stop()
        self._exports.stop()
        self._ledger.close()

    @property
    def policy(self) -> Policy:
        """The rules in force."""
        return self._around.policy

    def new_run_id(self) -> str:
        """Return a fresh id, for those who must know it before the run begins."""
        return "r" + self._around.new_token()

    # --- running -------------------------------------------------------------------------------------------------

    def run(
        self,
        job: JobFile | Main | str | Path,
        inputs: Mapping[str, Any] | None = None,
        *,
        run_id: str | None = None,
        wait: bool = False,
    ) -> Outcome:
        """Start a job, or go on with the run that has this id.

        Args:
            job: a job file or its path, ``report.py:main``, or a function ``main(run)``, sync or async.
            inputs: what ``run.inputs`` returns; laid over those that a job file declares.
            run_id: the same id again attaches or resumes; a fresh one is made when left out.
            wait: stay and wait for people's answers.

        Raises:
            SpecMismatch: the id is taken by another specification.
            LeaseHeld: another living process owns the run.
        """
        prepared = self._prepare(job, inputs, run_id, wait)
        return self._drive(prepared)

    async def arun(
        self,
        job: JobFile | Main | str | Path,
        inputs: Mapping[str, Any] | None = None,
        *,
        run_id: str | None = None,
        wait: bool = False,
    ) -> Outcome:
        """Do what ``run`` does inside a running event loop; arguments and errors are the same."""
        return await self._adrive(self._prepare(job, inputs, run_id, wait))

    def resume(
        self,
        run_id: str,
        *,
        main: Main | None = None,
        wait: bool = False,
        kill: bool = False,
        grant: Mapping[str, object] | None = None,
        accept_change: bool = False,
    ) -> Outcome:
        """Settle what was started and go on with a run; a failed one reopens the call that ended it.

        Args:
            run_id: the run, or a unique prefix, or ``@last``.
            main: the agent's function; loaded from where the run was started when left out.
            wait: stay and wait for people's answers.
            kill: kill the process that owns the run first.
            grant: what the run may use more, as in ``grant``; recorded first, even if the run cannot be entered here.
            accept_change: go on even if the job's ``on_change`` says to ask or to stop.

        Raises:
            ChangeRefused: the job says ``on_change: stop``, and something has changed.
            NotFound, LeaseHeld, RunCancelled, SpecError: it cannot be resumed.
            UsageError, VerdictRefused: that cannot be granted.
        """
        self._refuse_cancelled(self._row(run_id))
        if grant is not None:
            self.grant(run_id, grant)
        row = self._row(run_id)
        with said_as_recorded(grant):
            if kill:
                self._ledger.read(lambda store: kill_owner(store, row.run_id))
            return self._drive(replace(self._job_of(row, main, wait, reopen=True), accepts_change=accept_change))

    async def aresume(
        self,
        run_id: str,
        *,
        main: Main | None = None,
        wait: bool = False,
        grant: Mapping[str, object] | None = None,
        accept_change: bool = False,
    ) -> Outcome:
        """Do what ``resume`` does, but for ``kill``, inside a running event loop."""
        self._refuse_cancelled(self._row(run_id))
        if grant is not None:
            self.grant(run_id, grant)
        with said_as_recorded(grant):
            job = self._job_of(self._row(run_id), main, wait, reopen=True)
            return await self._adrive(replace(job, accepts_change=accept_change))

    def scope(
        self,
        run_id: str,
        inputs: Mapping[str, Any] | None = None,
        *,
        wait: bool = False,
        budgets: Mapping[str, Any] | None = None,
        critic: Critic | None = None,
    ) -> AbstractContextManager[Run]:
        """Return a ``with`` whose body is one life of a run; the same ``run_id`` again goes on with it.

        Args:
            run_id: names the run.
            inputs: what ``run.inputs`` returns.
            wait: stay and wait for people's answers.
            budgets: what the run may use, with the keys of a job file.
            critic: is shown each phase that has ended, as with ``perdure.on_phase_end``.

        Raises:
            SpecError: a budget is of the wrong form.
            NotEntered: at the beginning; the run has ended, or waits for a person.
            RunSuspended: in the body or at its end; the run waits.
        """
        job = self._scope_job(run_id, inputs, budgets)
        return sync_scope(Runner(self._around, self._heartbeat), replace(job, waits=wait, critic=critic))

    def ascope(
        self,
        run_id: str,
        inputs: Mapping[str, Any] | None = None,
        *,
        wait: bool = False,
        budgets: Mapping[str, Any] | None = None,
        critic: Critic | None = None,
    ) -> AsyncScope:
        """Return an ``async with`` whose body is one life of a run. Arguments and errors as in ``scope``."""
        job = self._scope_job(run_id, inputs, budgets)
        return AsyncScope(Runner(self._around, self._heartbeat), replace(job, waits=wait, critic=critic))

    def _scope_job(self, run_id: str, inputs: Mapping[str, Any] | None, budgets: Mapping[str, Any] | None) -> Job:
        allowed = checked_budgets(budgets) if budgets else {}
        spec = RunSpec(name=run_id, agent=SCOPE_AGENT, inputs=dict(inputs or {}), budgets=allowed)
        row = self._row(self._accept(spec, run_id, None))
        policy = self._policy_of(row, ())
        return Job(run_id, spec_of(row), _no_agent, self._registry.copy(), waits=False, reopen=True, policy=policy)

    def _prepare(
        self,
        job: JobFile | Main | str | Path,
        inputs: Mapping[str, Any] | None,
        run_id: str | None,
        wait: bool,
    ) -> Job:
        if loading.get():
            raise LoadedFar
        if isinstance(job, str | Path):
            job = open_job(str(job))
        registry = self._registry.copy()
        if isinstance(job, JobFile):
            job = job.with_inputs(inputs or {})
            own_policies = job.policies
            load_policy([*own_policies, *self._policy_paths])  # a broken one is refused before there is a run
            main, spec, path = self._open_job(job, registry), job.run_spec(), str(job.path.resolve())
            if not (run_id and self._ledger.read(lambda store: store.runs.get(run_id or ""))):
                job.refuse_late(self._around.clock.now())
        else:
            main, own_policies = job, ()
            agent, found = describe(main)
            path = found or ""
            spec = RunSpec(name=name_of(agent), agent=agent, inputs=dict(inputs or {}))
        refuse_uncallable(main)
        registry.add_reachable(main)
        run_id = self._accept(spec, run_id, path or None)
        row = self._row(run_id)
        policy = self._policy_of(row, own_policies)
        critic = critic_for(row, spec_of(row), main)
        return Job(run_id, spec_of(row), main, registry, waits=wait, reopen=False, policy=policy, critic=critic)

    def _accept(self, spec: RunSpec, run_id: str | None, path: str | None) -> str:
        return accept(
            self._around,
            spec,
            run_id,
            path=path,
            policies=[str(item.absolute()) for item in self._policy_paths],
            entrypoint=self._entrypoint,
            workspaces=(self.state_dir / "workspaces").absolute(),
        )

    def _open_job(self, job: JobFile, registry: Registry) -> Main:
        if job.resume != "reentry":
            raise SpecError([job.problem("agent.resume", f"agent.resume {job.resume!r} is not in this version")])
        folder, place = job.folder.resolve(), job.problem
        return load_program(job.agent_target, folder, registry, critic=job.critic, tools=job.tools, place=place)

    def _policy_of(self, row: RunRow, own: Sequence[Path]) -> Policy:
        """Return the rules of a run: its job file's, those it was started under, and those given now.

        Raises:
            PolicyError: an overlay that the run was started under is gone; without it nothing is sent.
        """
        given = [path.absolute() for path in self._policy_paths]
        stored = [Path(path) for path in row.policies if Path(path) not in given]
        return load_policy([*own, *stored, *given]) if own or stored else self._around.policy

    def _job_of(self, row: RunRow, main: Main | None, wait: bool, *, reopen: bool) -> Job:
        registry = self._registry.copy()
        if not row.status.ended or row.status == "failed":
            self._ledger.read(lambda store: refuse_pruned(store, row.run_id))
        spec = spec_of(row)
        own_policies: Sequence[Path] = ()
        with untouched():
            if main is None:
                main, own_policies = self._load_main(row, spec, registry)
            refuse_uncallable(main)
        registry.add_reachable(main)
        policy = self._policy_of(row, own_policies)
        critic = critic_for(row, spec_of(row), main)
        return Job(row.run_id, spec, main, registry, waits=wait, reopen=reopen, policy=policy, critic=critic)

    def _load_main(self, row: RunRow, spec: Mapping[str, Any], registry: Registry) -> tuple[Main, Sequence[Path]]:
        if row.status.ended and row.status != "failed":
            return _no_agent, ()
        if row.is_scope:
            raise SpecError(
                [f"run {row.run_id} is the body of a run_scope, which only its own script can enter"],
                next_command=f"start the script again that has run_scope({row.run_id!r})",
            )
        if row.job_path is None:
            raise SpecError([f"run {row.run_id} was started from a function; resume it with engine.resume(main=...)"])
        path = Path(row.job_path)
        if path.suffix == ".py":
            return load_agent(str(spec["agent"]), path.parent), ()
        if not path.exists():
            raise SpecError([f"{path}: the job file of run {row.run_id} is gone; put it back"])
        job = load_job(path)
        return self._open_job(job, registry), job.policies

    def _known(self, row: CallRow) -> Known:
        run = self._row(row.run_id)
        registry, spec = self._registry.copy(), spec_of(run)
        own: Sequence[Path] = ()
        if run.job_path is not None and not run.is_scope:
            main, own = self._load_main(run, spec, registry)
            registry.add_reachable(main)
        return Known(registry.find(row.tool_namespace, row.tool_name), self._policy_of(run, own), spec, run.workspace)

    def _drive(self, job: Job) -> Outcome:
        runner = Runner(self._around, self._heartbeat)
        if inspect.iscoroutinefunction(job.main):
            from perdure.runtime.async_runner import run_in_own_loop

            return self._told(job, run_in_own_loop(runner, job))
        return self._told(job, runner.run(job))

    def _told(self, job: Job, lived: bool) -> Outcome:
        found = self.outcome(job.run_id)
        return found if lived or found.status == "waiting" else replace(found, note=NOT_ENTERED)

    async def _adrive(self, job: Job) -> Outcome:
        from perdure.runtime.async_runner import run_async

        if not inspect.iscoroutinefunction(job.main):
            raise UsageError("arun needs an async main; use run for a sync one")
        return self._told(job, await run_async(Runner(self._around, self._heartbeat), job))


def _no_agent(_run: Any) -> Any:
    return None
