"""Ends a process with its parent; also run as a file: ``python leash.py PARENT_PID PROGRAM ARGUMENT…``.

The kernel's parent-death signal survives ``execv``, so a program that knows nothing of it can be put on the
leash. Standard library only, and nothing of this package: it runs where ``perdure`` may not be importable.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def die_with(parent: int, by: signal.Signals = signal.SIGTERM) -> None:
    """Ask the kernel to end this process when its parent dies; Linux only, elsewhere nothing happens.

    Args:
        parent: the parent's process id; 0 for none.
        by: the signal to end it with.
    """
    if not sys.platform.startswith("linux") or parent == 0:
        return
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, by, 0, 0, 0)
    if os.getppid() != parent:  # it died before the request was made
        os._exit(1)


if __name__ == "__main__":
    die_with(int(sys.argv[1]), signal.SIGKILL)
    os.execv(sys.argv[2], sys.argv[2:])
