"""Who owns a run, and whether that owner is gone.

On the same host /proc tells, never a timeout (semantics #31, #35).
"""

from __future__ import annotations

import os
import time
from enum import Enum
from functools import lru_cache
from pathlib import Path

from perdure.model.run import Owner
from perdure.ports.clock import parse_time

LEASE_SECONDS = 30.0
HEARTBEAT_SECONDS = LEASE_SECONDS / 6
OTHER_HOST_MARGIN_SECONDS = 30.0
SENDER_VARIABLE = "PERDURE_SENDER"


class Liveness(Enum):
    """What is certain about an owner."""

    DEAD = "dead"
    ALIVE = "alive"
    UNKNOWN = "unknown"


@lru_cache(maxsize=1)
def _host() -> str:
    # Two containers may share a kernel and a name; their process ids mean something only inside one pid namespace.
    try:
        namespace = os.readlink("/proc/self/ns/pid")
    except OSError:
        namespace = "pid"
    return f"{os.uname().nodename}/{namespace}"


@lru_cache(maxsize=1)
def _boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return "unknown"


def this_process() -> Owner:
    """Return the identity of this process."""
    pid = os.getpid()
    found = _stat(pid)
    return Owner(host=_host(), boot_id=_boot_id(), pid=pid, start_time=found[1] if found else 0)


def liveness(owner: Owner) -> Liveness:
    """Return whether the process that ``owner`` names is gone for certain.

    A pid alone is no proof, since it is reused; a zombie cannot send any more.
    """
    if owner.host != _host():
        return Liveness.UNKNOWN
    if owner.boot_id != _boot_id():
        return Liveness.DEAD
    if not os.path.isdir("/proc/self"):
        return _without_proc(owner.pid)
    found = _stat(owner.pid)
    if found is None or found[0] in "ZX" or found[1] != owner.start_time:
        return Liveness.DEAD
    return Liveness.ALIVE


def _without_proc(pid: int) -> Liveness:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return Liveness.DEAD
    except PermissionError:
        return Liveness.ALIVE
    return Liveness.ALIVE


def _stat(pid: int) -> tuple[str, int] | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # The command name stands in brackets and may hold anything, brackets and spaces included.
    fields = text[text.rindex(")") + 2 :].split(" ")
    return fields[0], int(fields[19])


def _ticks_since_boot(moment: str) -> float:
    """Return a wall time as the kernel counts the start of a process, one tick early for its rounding."""
    ago = time.time() - parse_time(moment).timestamp()
    return (time.clock_gettime(time.CLOCK_BOOTTIME) - ago) * os.sysconf("SC_CLK_TCK") - 1


def sender_mark(owner: Owner) -> str:
    """Return what every child of ``owner`` finds in its environment."""
    return f"{owner.boot_id}:{owner.pid}:{owner.start_time}"


def mark_children(owner: Owner) -> None:
    """Let the children that tools start be recognised after this process is gone."""
    os.environ[SENDER_VARIABLE] = sender_mark(owner)


def living_children(owner: Owner, *, since: str | None = None) -> list[int]:
    """Return the pids of processes that were started by ``owner``, directly or not, and still live (semantics #25).

    Args:
        owner: the process that sent.
        since: only those that began at this wall time or later, as the start of an attempt is written in its row.
    """
    earliest = 0.0 if since is None else _ticks_since_boot(since)
    wanted = f"{SENDER_VARIABLE}={sender_mark(owner)}".encode()
    found: list[int] = []
    for entry in os.scandir("/proc") if os.path.isdir("/proc/self") else ():
        if entry.name.isdigit() and int(entry.name) not in (owner.pid, os.getpid()):
            try:
                environ = Path(entry.path, "environ").read_bytes()
            except OSError:
                continue
            state = _stat(int(entry.name))
            if wanted in environ.split(b"\0") and state is not None and state[0] not in "ZX" and state[1] >= earliest:
                found.append(int(entry.name))
    return found
