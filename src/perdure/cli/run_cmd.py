"""``perdure run`` and ``perdure resume``: one life of a run in this process."""

from __future__ import annotations

import argparse
import os
import shlex
import signal
import threading
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from perdure.cli.look_cmd import print_outcome, summary
from perdure.cli.opening import engine_of, settings_of
from perdure.cli.output import Output, note
from perdure.cli.watch_cmd import shown
from perdure.model.errors import NotFound, PerdureError, UsageError

if TYPE_CHECKING:
    from perdure.config.job import JobFile
    from perdure.engine import Engine
    from perdure.model.run import Outcome

EXIT_CODES = {signal.SIGINT: 130, signal.SIGTERM: 143}
WATCH_SECONDS = 0.25
STDERR = 2


def run(options: argparse.Namespace, output: Output) -> int:
    """Run ``perdure run``."""
    from perdure.config.inputs import parse_inputs
    from perdure.config.job_file import open_job

    job = open_job(options.job)
    inputs = parse_inputs(options.input, job.inputs)
    _warn(job, settings_of(options).policy_paths(job.policies))
    with engine_of(options, create=True) as engine:
        run_id: str = options.run_id if options.run_id is not None else engine.new_run_id()
        with telling(engine, run_id, options.wait):
            show = shown(engine, run_id, output, quiet=options.quiet)
            go = partial(engine.run, job, inputs, run_id=run_id, wait=options.wait)
            return live_life(output, engine, run_id, go, show)


def resume(options: argparse.Namespace, output: Output) -> int:
    """Run ``perdure resume``."""
    granted = _granted(options.grant)
    if options.all or options.run is None:
        from perdure.cli.resume_all_cmd import resume_all

        return resume_all(options, output)
    if options.max_age is not None:
        raise UsageError("--max-age goes with --all", next_command="perdure resume --help")
    with engine_of(options) as engine:
        return go_on(
            output,
            engine,
            options.run,
            wait=options.wait,
            kill=options.kill_owner,
            grant=granted,
            quiet=options.quiet,
            accept_change=options.accept_change,
        )


def _granted(given: Sequence[str]) -> Mapping[str, object] | None:
    from perdure.core.budget import BadGrant, parse_grant

    try:
        return parse_grant(given) if given else None
    except BadGrant as problem:
        raise UsageError(f"--grant: {problem}", next_command="perdure resume --help") from None


def go_on(
    output: Output,
    engine: Engine,
    run: str,
    *,
    wait: bool = False,
    kill: bool = False,
    grant: Mapping[str, object] | None = None,
    quiet: bool = False,
    accept_change: bool = False,
) -> int:
    """Resume a run, print where it stands, and return its exit code."""
    run_id = engine.find_run(run)
    with telling(engine, run_id, wait):
        show = shown(engine, run_id, output, quiet=quiet)
        go = partial(engine.resume, run_id, wait=wait, kill=kill, grant=grant, accept_change=accept_change)
        return live_life(output, engine, run_id, go, show)


def _warn(job: JobFile, policies: Sequence[Path]) -> None:
    """Say what is doubtful about a job and its policies; a mistake in them is told before a ledger is made."""
    from perdure.config.policy_file import load_policy

    note(*(f"warning: {text}" for text in load_policy(policies).warnings))


def live_life(
    output: Output,
    engine: Engine,
    run_id: str,
    go: Callable[[], Outcome],
    show: AbstractContextManager[None] | None = None,
) -> int:
    """Live one life of a run, print where it stands, and return its exit code.

    Args:
        show: what shows meanwhile how the run gets on.
    """
    stopped: list[int] = []
    try:
        with output.to_itself(), _terminating(stopped, _left_line(run_id, output.flags)), show or nullcontext():
            found = go()
    except KeyboardInterrupt:
        _hear_no_more(stopped)
        return _interrupted(output, engine, run_id, EXIT_CODES[signal.SIGTERM if stopped else signal.SIGINT])
    except SystemExit as left:
        if stopped:
            return _interrupted(output, engine, run_id, EXIT_CODES[signal.SIGTERM])
        raise _left(engine, run_id, f"left with sys.exit({left.code!r})") from left
    except BaseException as raised:  # no ordinary error: one that is not meant to be caught
        if isinstance(raised, Exception):
            raise
        raise _left(engine, run_id, f"raised {type(raised).__name__}, which is no Exception: {raised}") from raised
    return print_outcome(output, found)


def _left_line(run_id: str, flags: str) -> bytes:
    """Return the line of somebody who leaves at once."""
    command = f"perdure resume {shlex.quote(run_id)} {flags}".rstrip()
    text = f"left at once: a call that was in flight is settled by the next life; go on with: {command}"
    return f"{text}\n".encode(errors="backslashreplace")


@contextmanager
def _terminating(stopped: list[int], left: bytes) -> Generator[None]:
    """Let SIGTERM stop the run as SIGINT does, and remember that it was SIGTERM; a later signal leaves at once."""
    from perdure.runtime.stopping import listeners

    heard: list[int] = []

    def stop(number: int, frame: FrameType | None) -> None:
        stopped.append(number)
        handler = signal.getsignal(signal.SIGINT)
        if not callable(handler):
            raise SystemExit(EXIT_CODES[signal.SIGTERM])
        handler(signal.SIGINT, frame)

    def say() -> None:
        heard.append(1)
        note("stopping: what is in flight is waited for, for a short time; a second signal leaves at once")

    def leave() -> None:
        with suppress(OSError):
            os.write(STDERR, left)  # plain bytes, made before: this is a signal handler, and whatever it broke into
        os._exit(EXIT_CODES[signal.SIGTERM if stopped else signal.SIGINT])

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, stop)
    listeners.first, listeners.second, listeners.stays = say, leave, True
    try:
        yield
    finally:
        if heard:
            _hear_no_more(stopped)
        else:
            signal.signal(signal.SIGTERM, before)
        listeners.reset()


def _hear_no_more(stopped: list[int]) -> None:
    """Say undisturbed where the run stands: more signals at once are the same wish, a late one leaves."""
    from perdure.runtime.stopping import DEBOUNCE_SECONDS

    if threading.current_thread() is not threading.main_thread():
        return
    code = EXIT_CODES[signal.SIGTERM if stopped else signal.SIGINT]
    deaf_until = time.monotonic() + DEBOUNCE_SECONDS

    def late(_number: int, _frame: FrameType | None) -> None:
        if time.monotonic() >= deaf_until:
            os._exit(code)

    for number in EXIT_CODES:
        signal.signal(number, late)


def _interrupted(output: Output, engine: Engine, run_id: str, code: int) -> int:
    from perdure.runtime.report import run_document

    signal_name = next(number.name for number, exit_code in EXIT_CODES.items() if exit_code == code)
    try:
        found = engine.outcome(run_id)
    except NotFound:
        note(f"stopped by {signal_name} before anything was started")
        return code
    document = run_document(found)
    output.answer(document, lambda: summary(found, document))
    note(f"run {run_id}: stopped by {signal_name}", *([f"  {found.way_on}"] if found.way_on else []))
    return code


def _left(engine: Engine, run_id: str, how: str) -> PerdureError:
    message = f"the agent's code {how}"
    try:
        found = engine.outcome(run_id)
    except NotFound:
        return PerdureError(message, safe="Nothing was started.", next_command="let it return or raise instead")
    return PerdureError(message, safe="The run is interrupted, not ended.", next_command=found.resume_command)


@contextmanager
def telling(engine: Engine, run_id: str, wait: bool) -> Generator[None]:
    """Under ``--wait``, say on stderr what waits for a person as soon as it does."""
    if not wait:
        yield
        return
    over = threading.Event()
    watcher = threading.Thread(target=_watch, args=(engine, run_id, over), name="perdure-waits", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()


def _watch(engine: Engine, run_id: str, over: threading.Event) -> None:
    told: set[str] = set()
    while not over.wait(WATCH_SECONDS):
        for of_run, item in engine.inbox():
            if of_run == run_id and item.id not in told:
                told.add(item.id)
                note(f"waits for you: {item.summary}", *(f"  {command}" for command in item.commands))
