"""The short way in: ``perdure.run(main)`` and ``perdure.open(...)`` with the settings of the environment."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

from perdure.config.settings import resolve
from perdure.engine import AnyTool, Engine
from perdure.model.errors import PerdureError
from perdure.model.run import Outcome
from perdure.ports.clock import Clock
from perdure.runtime.agent import LoadedFar, loading
from perdure.runtime.life import Tuning
from perdure.runtime.secrets import said


def open(
    url: str | None = None,
    *,
    tools: Iterable[AnyTool] = (),
    policies: Iterable[str | Path] = (),
    state_dir: str | Path | None = None,
    tuning: Tuning | None = None,
    clock: Clock | None = None,
    redaction: str | None = None,
    secrets: Mapping[str, str] | None = None,
) -> Engine:
    """Open a ledger.

    Args:
        url: ``sqlite:///PATH``; from ``PERDURE_STORE``, ``PERDURE_HOME`` or ``./.perdure`` when left out.
        tools: registered for every run.
        policies: overlay files, after those of ``PERDURE_POLICIES_PATH``.
        state_dir: where the ledger and the workspaces are.
        tuning, clock: for tests and special needs; ``perdure.testing.FakeClock`` is a clock.
        redaction: ``strict`` (from ``PERDURE_REDACTION`` when left out) or ``off``.
        secrets: where declared secrets come from: ``env:NAME``, ``file:PATH``, ``cmd:COMMAND``.

    Raises:
        StoreError, PolicyError: it cannot be used safely.
    """
    settings = resolve(
        state_dir=None if state_dir is None else str(state_dir),
        store=url,
        policies=[str(path) for path in policies],
    )
    flags = "" if state_dir is None else f"--state-dir {shlex.quote(str(state_dir))}"
    home = settings.state_dir if url is None or state_dir is not None else None
    return Engine(
        settings.store_url,
        tools=tools,
        policies=settings.policy_paths(),
        state_dir=home,
        tuning=tuning,
        clock=clock,
        command_flags=flags,
        redaction=redaction,
        secrets=secrets,
    )


def run(
    main: Callable[..., Any],
    inputs: Mapping[str, Any] | None = None,
    *,
    run_id: str | None = None,
    wait: bool = False,
    **options: Any,
) -> Outcome:
    """Run a function durably; the same ``run_id`` again resumes it. What waits is printed on stderr.

    Args:
        main: ``def main(run)`` or ``async def main(run)``.
        inputs: what ``run.inputs`` returns.
        run_id: names the run; a fresh one is made when left out.
        wait: stay and wait for people's answers.
        options: those of ``perdure.open``.

    Raises:
        SpecMismatch, LeaseHeld, StoreError: the run cannot be driven here and now.
    """
    if loading.get():
        raise LoadedFar
    with _spoken(), open(**options) as engine:
        chosen = run_id or engine.new_run_id()
        try:
            outcome = engine.run(main, inputs, run_id=chosen, wait=wait)
        except KeyboardInterrupt:
            say(engine.outcome(chosen))
            raise
    say(outcome)
    return outcome


async def arun(
    main: Callable[..., Any],
    inputs: Mapping[str, Any] | None = None,
    *,
    run_id: str | None = None,
    wait: bool = False,
    **options: Any,
) -> Outcome:
    """Do what ``run`` does inside a running event loop."""
    if loading.get():
        raise LoadedFar
    with _spoken(), open(**options) as engine:
        outcome = await engine.arun(main, inputs, run_id=run_id, wait=wait)
    say(outcome)
    return outcome


@contextmanager
def _spoken() -> Generator[None, None, None]:
    """Let an error of ours say what is safe and what to do next, below its traceback."""
    try:
        yield
    except PerdureError as problem:
        speak(problem)
        raise


def speak(problem: BaseException) -> None:
    """Let an error of ours say what is safe and what to do next; a script that does not catch it ends plainly.

    Its process is left with the error's exit code and without a traceback, which ``python -X dev`` shows.
    """
    if isinstance(problem, PerdureError):
        problem.add_note(f"  safe: {problem.safe}\n  next: {problem.next_command}")
        if not isinstance(sys.excepthook, _Plainly) and not sys.flags.dev_mode:
            sys.excepthook = _Plainly(sys.excepthook)


class _Plainly:
    """What the interpreter calls with an error that nobody caught; the one before it gets all but ours."""

    def __init__(self, otherwise: Callable[..., Any]) -> None:
        self._otherwise = otherwise

    def __call__(self, kind: type[BaseException], problem: BaseException, trace: TracebackType | None) -> None:
        if not isinstance(problem, PerdureError):
            self._otherwise(kind, problem, trace)
            return
        print(said("\n".join(error_lines(problem))), file=sys.stderr)
        raise SystemExit(problem.exit_code)


def error_lines(problem: PerdureError) -> list[str]:
    """Return how an error is told: what happened, what is safe now, the next command, and where there is more."""
    first, *more = problem.message.split("\n")
    lines = [f"error[{problem.code}]: {first}", *(f"  {line}" for line in more)]
    return [
        *lines,
        f"  safe: {problem.safe}",
        f"  next: {problem.next_command}",
        f"  more: perdure help {problem.code}",
    ]


def say(outcome: Outcome) -> None:
    """Print where the run stands and what waits, with the commands that answer it, on stderr."""
    print(said("\n".join(lines_of(outcome))), file=sys.stderr)


def lines_of(outcome: Outcome) -> list[str]:
    """Return what ``say`` prints."""
    reason = f" ({outcome.reason})" if outcome.reason else ""
    lines = [f"run {outcome.run_id}: {outcome.status}{reason}" + (f"; {outcome.note}" if outcome.note else "")]
    lines += [f"  changed since the life before: {change}" for change in outcome.changes]
    if outcome.error_code:
        lines.append(f"  {outcome.error_said}")
    for item in outcome.waiting_for:
        lines.append(f"  {'' if item.kind == 'timer' else 'waits for you: '}{item.summary}")
        lines.extend(f"    {command}" for command in item.commands)
    if outcome.unmet and outcome.status.ended:  # a life that waits may still ask for them in the next one
        lines.append(f"  {outcome.unmet} effect(s) of an earlier life were not asked for by this one")
    if outcome.way_on:
        lines.append(f"  {outcome.way_on}")
    return lines
