"""Processes with a number of one's choice, where the kernel lets a test choose it."""

import subprocess
import sys
import time
from pathlib import Path

LAST_PID = Path("/proc/sys/kernel/ns_last_pid")
WAITS = "import sys; sys.stdin.read()"


def can_choose() -> bool:
    """Whether this test may say which number the next process gets."""
    try:
        LAST_PID.write_text(LAST_PID.read_text())
    except OSError:
        return False
    return True


def with_number(pid: int, patience_seconds: float = 20.0) -> "subprocess.Popen[bytes]":
    """Start a process that has the number of a dead one, and waits for its stdin to be closed."""
    give_up = time.monotonic() + patience_seconds
    while time.monotonic() < give_up:
        LAST_PID.write_text(str(pid - 1))
        found = subprocess.Popen([sys.executable, "-S", "-c", WAITS], stdin=subprocess.PIPE)
        if found.pid == pid:
            return found
        found.kill()
        found.communicate()
    raise AssertionError(f"the number {pid} is not to be had")
