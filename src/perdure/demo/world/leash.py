"""Ends a process with its parent; also run as a file: ``python leash.py PARENT_PID PROGRAM ARGUMENT…``.

The kernel's parent-death signal survives ``execv``, so a program that knows nothing of it can be put on the
leash. Standard library only, and nothing of this package: it runs where ``perdure`` may not be importable.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def die_with(parent: int) -> None:
    """Ask the kernel to kill this process when its parent dies; Linux only, elsewhere nothing happens.

    Args:
        parent: the parent's process id; 0 for none.
    """
    if not sys.platform.startswith("linux") or parent == 0:
        return
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it died before the request was made
        os._exit(1)


if __name__ == "__main__":
    die_with(int(sys.argv[1]))
    os.execv(sys.argv[2], sys.argv[2:])
