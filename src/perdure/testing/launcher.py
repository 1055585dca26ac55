"""Starts lives quickly: a process that has imported the library forks one real child for each order.

A fresh interpreter needs a quarter of a second before the first line of a job; a fork needs a few milliseconds. The
child opens its own ledger after the fork, has its own pid and start time, and ends like any process: by itself, by its
crash knob, or by a signal. It is this process that forks, never that of the tests, which may hold threads and open
ledgers.

``python -m perdure.testing.launcher MODULE:FUNCTION [MODULE…]``: the function lives one life and returns its exit
code; the modules are imported once, before the first life. One JSON object a line on stdin and stdout; it ends when
stdin does.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import select
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, BinaryIO, TextIO

Entry = Callable[[Mapping[str, Any]], int]


@dataclass(frozen=True, slots=True)
class Start:
    """What one life begins with.

    Args:
        order: handed to the function as it is.
        environ: its whole environment.
        folder: its working directory.
        seconds: how long it may last; after that its process group is killed.
    """

    order: Mapping[str, Any]
    environ: Mapping[str, str]
    folder: str
    seconds: float


@dataclass(slots=True)
class Children:
    """Wakes this process when a child has ended."""

    wakes: int = field(default=-1, init=False)

    def __post_init__(self) -> None:
        self.wakes, told = os.pipe()
        os.set_blocking(self.wakes, False)
        os.set_blocking(told, False)
        signal.signal(signal.SIGCHLD, _nothing)  # without a handler of Python's the descriptor is not written to
        signal.set_wakeup_fd(told, warn_on_full_buffer=False)

    def wait_for(self, pid: int, seconds: float) -> tuple[int, bool]:
        """Wait for a child, kill its group if it lasts too long, and return its exit code and whether it did."""
        give_up = time.monotonic() + seconds
        while True:
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                return os.waitstatus_to_exitcode(status), False
            left = give_up - time.monotonic()
            ready, _, _ = select.select([self.wakes, sys.stdin], [], [], max(0.0, left))
            if sys.stdin in ready or left <= 0:  # orders come one at a time: now it can only be the end of the parent
                with suppress(ProcessLookupError):
                    os.killpg(pid, signal.SIGKILL)
                return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), True
            if ready:
                os.read(self.wakes, 512)


def _nothing(_number: int, _frame: object) -> None:
    return None


def serve(entry: Entry) -> None:
    """Answer orders until the parent closes the pipe."""
    children = Children()
    for line in iter(sys.stdin.readline, ""):
        start = Start(**json.loads(line))
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            ready, set_up = os.pipe()
            pid = os.fork()
            if pid == 0:
                _become(entry, start, set_up, out, err)
            os.close(set_up)
            os.read(ready, 1)  # until the child leads a group of its own, nobody could kill that group
            os.close(ready)
            exit_code, too_long = children.wait_for(pid, start.seconds)
            answer = {"pid": pid, "exit_code": exit_code, "too_long": too_long, "stdout": _text(out),
                      "stderr": _text(err)}  # fmt: skip
        print(json.dumps(answer), flush=True)


def _text(file: BinaryIO) -> str:
    file.seek(0)
    return file.read().decode(errors="replace")


def _become(entry: Entry, start: Start, set_up: int, out: BinaryIO, err: BinaryIO) -> None:
    """Live the life in the forked child, and do what an interpreter does at its end, but for freeing its memory."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.setsid()
    os.close(set_up)
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(out.fileno(), 1)
    os.dup2(err.fileno(), 2)
    exit_code = 1
    try:
        os.environ.clear()
        os.environ.update(start.environ)
        os.chdir(start.folder)
        exit_code = entry(start.order)
    except SystemExit as left:
        exit_code = left.code if isinstance(left.code, int) else 1
    except BaseException:
        traceback.print_exc()
    # The crash knob's last word is said there.
    atexit._run_exitfuncs()  # pyright: ignore[reportPrivateUsage]
    _flush(sys.stdout)
    _flush(sys.stderr)
    os._exit(exit_code)


def _flush(stream: TextIO) -> None:
    if not stream.closed:
        stream.flush()


def main(arguments: list[str]) -> None:
    """Import what every life needs, then serve."""
    target, *more = arguments
    module, _, function = target.partition(":")
    for name in more:
        importlib.import_module(name)
    home = importlib.import_module(module)
    warm_up: Callable[[], None] | None = getattr(home, "warm_up", None)
    if warm_up is not None:
        warm_up()
    gc.collect()
    gc.freeze()  # the children share these pages instead of copying them at their first collection
    serve(getattr(home, function))


if __name__ == "__main__":
    main(sys.argv[1:])
