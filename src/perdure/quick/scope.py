"""``perdure.run_scope``: a script, or a loop of your own, under a run; run the script again to go on."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from types import TracebackType
from typing import Any

from perdure.engine import Engine
from perdure.model.errors import PerdureError, RunSuspended, ScopeLeft
from perdure.model.run import RunStatus
from perdure.quick import lines_of, open, say, speak
from perdure.runtime.faces import AsyncRun, Run
from perdure.runtime.phases import Critic
from perdure.runtime.scope import AsyncScope, NotEntered

NOT_ENTERED = "its stored outcome; the body was not entered"


class run_scope:
    """Put the body of a ``with`` or ``async with`` under a run; the same ``run_id`` again goes on with it.

    Where the run has ended or waits for a person the body is not entered: what is to be known is printed on stderr, and
    the script ends with the run's exit code (``ScopeLeft`` is a ``SystemExit``).

    Args:
        run_id: names the run.
        inputs: what ``run.inputs`` returns.
        wait: stay and wait for people's answers.
        budgets: what the run may use, with the keys of a job file; a grant lets it use more.
        critic: is shown each phase that has ended, as with ``perdure.on_phase_end``.
        options: those of ``perdure.open``.

    Raises:
        ScopeLeft: the body is not entered, or the run waits.
        SpecMismatch, LeaseHeld, StoreError: the run cannot be driven here and now.
    """

    def __init__(
        self,
        run_id: str,
        inputs: Mapping[str, Any] | None = None,
        *,
        wait: bool = False,
        budgets: Mapping[str, Any] | None = None,
        critic: Critic | None = None,
        **options: Any,
    ) -> None:
        self._run_id = run_id
        self._inputs = inputs
        self._how: dict[str, Any] = {"wait": wait, "budgets": budgets, "critic": critic}
        self._options = options
        self._stack = ExitStack()
        self._engine: Engine | None = None
        self._scope: AbstractContextManager[Run] | None = None
        self._async_scope: AsyncScope | None = None

    def __enter__(self) -> Run:
        engine = self._open()
        try:
            self._scope = engine.scope(self._run_id, self._inputs, **self._how)
            return self._scope.__enter__()
        except BaseException as problem:
            raise self._close(problem) from None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._scope is not None:
            try:
                self._scope.__exit__(kind, error, trace)
            except BaseException as problem:
                raise self._close(problem) from None
            self._leave(error)

    async def __aenter__(self) -> AsyncRun:
        engine = self._open()
        try:
            self._async_scope = engine.ascope(self._run_id, self._inputs, **self._how)
            return await self._async_scope.__aenter__()
        except BaseException as problem:
            raise self._close(problem) from None

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._async_scope is not None:
            try:
                await self._async_scope.__aexit__(kind, error, trace)
            except BaseException as problem:
                raise self._close(problem) from None
            self._leave(error)

    def _open(self) -> Engine:
        try:
            self._engine = self._stack.enter_context(open(**self._options))
        except PerdureError as problem:
            speak(problem)
            raise
        return self._engine

    def _leave(self, error: BaseException | None) -> None:
        """Say where the run stands; a body that ran to its end may still leave something in doubt."""
        if error is not None:
            problem = self._close(error)
            if problem is not error:
                raise problem from None
            return
        outcome = self._engine.outcome(self._run_id) if self._engine is not None else None
        self._stack.close()
        if outcome is not None:
            say(outcome)
            if outcome.status is not RunStatus.SUCCEEDED:
                raise ScopeLeft(lines_of(outcome)[0], outcome.exit_code)

    def _close(self, problem: BaseException) -> BaseException:
        """Close the ledger, and return what the script is to be left with."""
        engine, self._engine = self._engine, None
        outcome = None
        if engine is not None and isinstance(problem, NotEntered | RunSuspended | Exception | KeyboardInterrupt):
            try:
                outcome = engine.outcome(self._run_id)
            except Exception:
                # The run was refused, or its ledger is gone; the problem itself says so.
                outcome = None
        self._stack.close()
        speak(problem)
        if outcome is not None:
            if isinstance(problem, NotEntered) and outcome.status is RunStatus.SUCCEEDED:
                outcome = replace(outcome, note="; ".join(text for text in (outcome.note, NOT_ENTERED) if text))
            say(outcome)
            if isinstance(problem, NotEntered | RunSuspended):
                return ScopeLeft(lines_of(outcome)[0], outcome.exit_code)
        return problem
