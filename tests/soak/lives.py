"""Three ways to live a life: forked by a launcher, as the command `perdure` itself, and under strace to its last syscall."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from tests.crash.child import JOBS, Order
from tests.crash.support import ROOT, Ended
from tests.soak.schedule import Kill

PERDURE = str(Path(sys.executable).parent / "perdure")
LIFE_SECONDS = 60
Started = Callable[[int], None]


def command_of(order: Order) -> list[str]:
    """The command line that does what an order says; a run is begun by the same command again and again."""
    where = ["--state-dir", order.state_dir, "-o", "json"]
    if order.do != "run":
        return ["resume", order.run_id, *where, *(["--kill-owner"] if order.do == "take_over" else [])]
    module, _, function = order.job.partition(":")
    inputs = [f"{key}={value if isinstance(value, str) else json.dumps(value)}" for key, value in order.inputs.items()]
    job = f"{JOBS / module}.py:{function}"
    return ["run", job, "--run-id", order.run_id, *(text for item in inputs for text in ("-i", item)), *where]


def as_process(command: list[str], environ: dict[str, str], started: Started | None = None) -> Ended:
    """Let a command run to its end in a process of its own."""
    process = subprocess.Popen(
        command, cwd=ROOT, env={**os.environ, **environ}, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    if started is not None:
        started(process.pid)
    try:
        out, err = process.communicate(timeout=LIFE_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        return Ended(-14, out, err)  # as a forked life that hangs is ended by its alarm
    return Ended(process.returncode, out, err)


def in_command(order: Order, environ: dict[str, str], started: Started | None) -> Ended:
    """Live by the command line; a run that does not exist yet is begun."""
    ended = as_process([PERDURE, *command_of(order)], environ, started)
    not_found = 3
    if order.do == "resume" and ended.exit_code == not_found:
        begin = Order(order.state_dir, order.job, order.run_id, "run", order.inputs)
        return as_process([PERDURE, *command_of(begin)], environ, None)
    return ended


def strace() -> str | None:
    """Where strace is, if it is installed."""
    return shutil.which("strace")


def to_a_syscall(kill: Kill, order: Order, environ: dict[str, str]) -> Ended:
    """Live in an interpreter of its own that is killed as it enters the `number`-th call of this name of some thread."""
    inject = f"inject={kill.name}:signal=KILL:when={kill.number}"
    tracer = ["strace", "-f", "-qq", "-o", os.devnull, "-e", f"trace={kill.name}", "-e", inject]
    return as_process([*tracer, sys.executable, "-m", "tests.crash.child", order.text], environ)
