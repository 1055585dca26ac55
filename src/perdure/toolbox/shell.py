"""Run a command as a child process that never outlives the call that started it.

The child leads a process group of its own. Whatever ends the wait for it (a timeout, an interrupt, an error of the
caller) ends the whole group first and waits until it is gone; only then does the call have an outcome.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, TypedDict

from perdure.ports.tool import CallContext, ToolFailed, tool
from perdure.toolbox._provider import INJECTED

TERMINATION_SECONDS = 2.0
_LOOK_AGAIN_SECONDS = 0.02
_KEPT_BYTES = 64 * 1024


class Finished(TypedDict):
    """What a command left: its exit code (negative: the signal that ended it), and the ends of its two outputs."""

    exit_code: int
    stdout: str
    stderr: str


@tool(side_effect_class="external")
def run_command(
    command: list[str], stdin: str = "", timeout_seconds: float | None = None, *, call: CallContext = INJECTED
) -> Finished:
    """Run a command in the run's workspace and return what it left; an exit code that is not 0 is a result too.

    Nothing is known of what a command does, so a lost outcome asks a person.

    Args:
        command: the program and its arguments; no shell reads them.
        stdin: what the command reads.
        timeout_seconds: after which it is ended; what it has done by then is unknown.

    Raises:
        ToolFailed: there is no such program; nothing was started.
        subprocess.TimeoutExpired: it was ended, and so was what it had started.
    """
    return run_child(command, stdin=stdin, timeout_seconds=timeout_seconds, cwd=call.workspace)


def run_child(
    command: Sequence[str],
    *,
    stdin: str = "",
    timeout_seconds: float | None = None,
    cwd: Path | None = None,
    environ: Mapping[str, str] | None = None,
    started: Callable[[int], object] | None = None,
) -> Finished:
    """Run a command for a tool of your own, in a process group that is gone when this returns or raises.

    Args:
        command: the program and its arguments; no shell reads them.
        stdin: what the command reads.
        timeout_seconds: after which it is ended.
        cwd: its folder; this process's own when left out.
        environ: added to the environment of this process.
        started: told the number of the child, which is also that of its group.

    Raises:
        ToolFailed: there is no such program; nothing was started.
        subprocess.TimeoutExpired: it was ended, and so was what it had started.
    """
    # Files, not pipes: what the command leaves in the background would keep a pipe open, and the wait with it.
    with TemporaryFile() as given, TemporaryFile() as out, TemporaryFile() as err:
        given.write(stdin.encode())
        given.seek(0)
        try:
            child = subprocess.Popen(
                list(command),
                stdin=given,
                stdout=out,
                stderr=err,
                cwd=cwd,
                env={**os.environ, **(environ or {})},
                start_new_session=True,
            )
        except (FileNotFoundError, PermissionError, NotADirectoryError) as problem:
            raise ToolFailed(f"{command[0]} cannot be started: {problem}", retry=False) from problem
        try:
            if started is not None:
                started(child.pid)
            exit_code = child.wait(timeout_seconds)
        finally:
            _end_group(child.pid)
            child.wait()
        return Finished(exit_code=exit_code, stdout=_end_of(out), stderr=_end_of(err))


def _end_group(group: int) -> None:
    """End every process of a group, and return when none of them lives: SIGTERM first, SIGKILL after a while."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        give_up = time.monotonic() + TERMINATION_SECONDS
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(group, number)
        while _lives(group) and time.monotonic() < give_up:
            time.sleep(_LOOK_AGAIN_SECONDS)


def _lives(group: int) -> bool:
    """Return whether a process of a group can still do something; its zombies cannot."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    if not os.path.isdir("/proc/self"):
        return True
    for name in os.listdir("/proc"):
        if name.isdigit():
            with suppress(OSError):
                stat = Path("/proc", name, "stat").read_text(errors="replace")
                state, _, of_group = stat.rpartition(")")[2].split()[:3]
                if int(of_group) == group and state not in "ZX":
                    return True
    return False


def _end_of(output: IO[bytes]) -> str:
    size = output.seek(0, os.SEEK_END)
    output.seek(max(0, size - _KEPT_BYTES))
    return output.read().decode("utf-8", errors="replace")
