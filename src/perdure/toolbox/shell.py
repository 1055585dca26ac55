"""Run a command as a child process that never outlives the call that started it.

The child leads a process group of its own. Whatever ends the wait for it (a timeout, an interrupt, an error of the
caller's) ends the whole group first and waits until it is gone; only then is the outcome of the call anybody's business.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypedDict

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
    try:
        child = subprocess.Popen(
            list(command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=cwd,
            env={**os.environ, **(environ or {})},
            start_new_session=True,
        )
    except (FileNotFoundError, PermissionError, NotADirectoryError) as problem:
        raise ToolFailed(f"{command[0]} cannot be started: {problem}", retry=False) from problem
    try:
        if started is not None:
            started(child.pid)
        out, err = child.communicate(stdin.encode(), timeout=timeout_seconds)
    except BaseException:
        _end_group(child.pid)
        child.communicate()
        raise
    _end_group(child.pid)  # what it has left in the background ends with it
    return Finished(exit_code=child.returncode, stdout=_end_of(out), stderr=_end_of(err))


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
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            with suppress(OSError):
                state, _, of_group = Path(entry.path, "stat").read_text(errors="replace").rpartition(")")[2].split()[:3]
                if int(of_group) == group and state not in "ZX":
                    return True
    return False


def _end_of(data: bytes) -> str:
    return data[-_KEPT_BYTES:].decode("utf-8", errors="replace")
