"""Commands that tools run: in a group of their own, which is gone when the call has an outcome."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from perdure import ToolFailed
from perdure.toolbox.shell import run_child, run_command
from tests.integration.engine_support import FAST, live, open_engine, statuses

PATIENCE_SECONDS = 60.0
# Starts a grandchild that ignores SIGTERM and writes its number; then waits, or leaves it behind.
FAMILY = """
import subprocess, sys, time
wait = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(60)"
child = subprocess.Popen([sys.executable, "-S", "-c", wait], stdout=subprocess.PIPE)
child.stdout.readline()
open(sys.argv[1], "w").write(str(child.pid))
time.sleep(float(sys.argv[2]))
"""


def family(tmp_path: Path, seconds: float) -> list[str]:
    return [sys.executable, "-S", "-c", FAMILY, str(tmp_path / "pid"), str(seconds)]


def lives(pid: int) -> bool:
    with suppress(FileNotFoundError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    return False


def grandchild(tmp_path: Path) -> int:
    return int((tmp_path / "pid").read_text())


def test_a_command_runs_in_the_workspace_and_its_exit_code_is_a_result(tmp_path: Path) -> None:
    script = "import sys; open('made', 'w').write(sys.stdin.read()); print('out'); sys.exit('no')"
    done = live(tmp_path, lambda run: dict(run_command([sys.executable, "-S", "-c", script], stdin="words")))
    assert done.result == {"exit_code": 1, "stdout": "out\n", "stderr": "no\n"}
    assert (Path(done.workspace) / "made").read_text() == "words"
    assert statuses(tmp_path) == {"r1.1": "succeeded"}


def test_a_command_that_does_not_exist_was_not_started(tmp_path: Path) -> None:
    failed = live(tmp_path, lambda run: run_command([str(tmp_path / "nothing")]))
    assert (failed.status, failed.calls) == ("failed", {"failed": 1})
    with pytest.raises(ToolFailed, match="cannot be started"):
        run_child([str(tmp_path / "nothing")])


def test_a_command_past_its_timeout_is_gone_with_all_it_started_and_its_outcome_is_asked_for(tmp_path: Path) -> None:
    waiting = live(tmp_path, lambda run: run_command(family(tmp_path, 60), timeout_seconds=1))
    assert waiting.reason == "in_doubt"
    assert not lives(grandchild(tmp_path))
    with open_engine(tmp_path, tuning=FAST) as engine:
        assert engine.resolve("r1.1", "did_not_happen").status == "prepared", "nothing can still happen"


def test_what_a_command_leaves_in_the_background_ends_with_it(tmp_path: Path) -> None:
    run_child(family(tmp_path, 0), timeout_seconds=30)
    assert not lives(grandchild(tmp_path))


def test_an_interrupt_of_the_wait_ends_the_group_first(tmp_path: Path) -> None:
    script = (
        "import sys\nfrom perdure.toolbox.shell import run_child\n"
        f"try:\n    run_child({family(tmp_path, 60)!r})\nexcept KeyboardInterrupt:\n    print('left', flush=True)\n"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as waiting:
        give_up = time.monotonic() + PATIENCE_SECONDS
        while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
            assert time.monotonic() < give_up, "it was not started"
            time.sleep(0.01)
        os.kill(waiting.pid, signal.SIGINT)
        assert waiting.stdout is not None
        assert waiting.stdout.read() == "left\n"
    assert not lives(grandchild(tmp_path))


def test_the_ends_of_long_outputs_are_kept() -> None:
    done = run_child([sys.executable, "-S", "-c", "print('x' * 100_000 + 'end')"])
    assert (len(done["stdout"]), done["stdout"][-4:]) == (64 * 1024, "end\n")
