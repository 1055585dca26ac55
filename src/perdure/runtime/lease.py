"""Who owns a run, and whether that owner is gone.

On the same host /proc tells, never a timeout (semantics #31, #35).
"""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from pathlib import Path

from perdure.model.run import Owner
from perdure.ports.clock import parse_time

LEASE_SECONDS = 30.0
HEARTBEAT_SECONDS = LEASE_SECONDS / 6
OTHER_HOST_MARGIN_SECONDS = 30.0
SENDER_VARIABLE = "PERDURE_SENDER"
LOOK_AGAIN_SECONDS = 0.02


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
    return Owner(host=_host(), boot_id=_boot_id(), pid=pid, start_time=found.start_time if found else 0)


def liveness(owner: Owner) -> Liveness:
    """Return whether the process that ``owner`` names is gone for certain.

    A pid alone is no proof, since it is reused. A zombie cannot send any more, unless only its first thread has ended.
    """
    if owner.host != _host():
        return Liveness.UNKNOWN
    if owner.boot_id != _boot_id():
        return Liveness.DEAD
    if not os.path.isdir("/proc/self"):
        return _without_proc(owner.pid)
    found = _stat(owner.pid)
    alive = found is not None and found.start_time == owner.start_time and found.alive
    return Liveness.ALIVE if alive else Liveness.DEAD


def _without_proc(pid: int) -> Liveness:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return Liveness.DEAD
    except PermissionError:
        return Liveness.ALIVE
    return Liveness.ALIVE


@dataclass(frozen=True, slots=True)
class _Stat:
    """What proc(5) says of a process; ``start_time`` in clock ticks since boot."""

    state: str
    parent: int
    group: int
    session: int
    threads: int
    start_time: int

    @property
    def alive(self) -> bool:
        """Whether it can still do something: of a zombie with threads only the first thread has ended."""
        return self.state not in "ZX" or self.threads > 1


def _stat(pid: int) -> _Stat | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # The command name stands in brackets and may hold anything, brackets and spaces included.
    fields = text[text.rindex(")") + 2 :].split(" ")
    parent, group, session, threads, start_time = (int(fields[n]) for n in (1, 2, 3, 17, 19))
    return _Stat(fields[0], parent, group, session, threads, start_time)


def _ticks_since_boot(moment: str) -> float:
    """Return a wall time as the kernel counts the start of a process, one tick early for its rounding.

    The wall clock is read last: a process that is held up between the two takes too many for children, never too few.
    """
    since_boot = time.clock_gettime(time.CLOCK_BOOTTIME)
    ago = time.time() - parse_time(moment).timestamp()
    return (since_boot - ago) * os.sysconf("SC_CLK_TCK") - 1


def sender_mark(owner: Owner) -> str:
    """Return what every child of ``owner`` finds in its environment."""
    return f"{owner.boot_id}:{owner.pid}:{owner.start_time}"


def mark_children(owner: Owner) -> None:
    """Let the children that tools start be recognised after this process is gone."""
    os.environ[SENDER_VARIABLE] = sender_mark(owner)


def living_children(owner: Owner, *, since: str | None = None) -> list[int]:
    """Return the pids of processes that were started by ``owner``, directly or not, and still live (semantics #25).

    A child is known by the mark in its environment, by its line of parents while ``owner`` lives, and, where it was
    started with another environment or only forked, by the process group that ``owner`` led.

    Args:
        owner: the process that sent.
        since: only those that began at this wall time or later, as the start of an attempt is written in its row.
    """
    if owner.host != _host() or owner.boot_id != _boot_id():
        return []
    earliest = owner.start_time if since is None else _ticks_since_boot(since)
    mark = f"{SENDER_VARIABLE}={sender_mark(owner)}".encode()
    all_of_them = _processes()
    return [
        pid
        for pid, found in all_of_them.items()
        if pid not in (owner.pid, os.getpid())
        and found.alive
        and found.start_time >= earliest
        and (_descends(pid, owner, all_of_them) or _orphaned(found, owner, all_of_them) or _marked(pid, mark))
    ]


def _processes() -> dict[int, _Stat]:
    names = [entry.name for entry in os.scandir("/proc")] if os.path.isdir("/proc/self") else []
    found = ((int(name), _stat(int(name))) for name in names if name.isdigit())
    return {pid: stat for pid, stat in found if stat is not None}


def _descends(pid: int, owner: Owner, among: dict[int, _Stat]) -> bool:
    seen: set[int] = set()
    while pid in among and pid not in seen:
        if pid == owner.pid:
            return among[pid].start_time == owner.start_time
        seen.add(pid)
        pid = among[pid].parent
    return False


def _orphaned(found: _Stat, owner: Owner, among: dict[int, _Stat]) -> bool:
    """Return whether a process of the group or session that ``owner`` led has lost its parent.

    The kernel reuses no number that still names a group. A neighbour in a pipeline has a parent in the same session,
    the shell; what lost its parent has one that collects orphans.
    """
    if owner.pid not in (found.group, found.session):
        return False
    parent = among.get(found.parent)
    return parent is None or parent.session != found.session


def _marked(pid: int, mark: bytes) -> bool:
    try:
        return mark in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return False


def end_children(owner: Owner, *, since: str | None = None, patience_seconds: float = 2.0) -> list[int]:
    """End what ``owner`` has started, and wait until it is gone: SIGTERM first, SIGKILL after a while (design.md §6).

    Args:
        owner: the process that sent; this one, or one that is dead.
        since: as for ``living_children``.
        patience_seconds: how long each of the two signals is given.

    Returns:
        The pids that still live, because they cannot be signalled or do not die.
    """
    left = living_children(owner, since=since)
    for number in (signal.SIGTERM, signal.SIGKILL):
        told: set[int] = set()
        give_up = time.monotonic() + patience_seconds
        while left and time.monotonic() < give_up:
            for pid in set(left) - told:
                told.add(pid)
                send_signal(pid, number)
            time.sleep(LOOK_AGAIN_SECONDS)
            left = living_children(owner, since=since)
    return left


def send_signal(pid: int, number: int, *, start_time: int | None = None) -> None:
    """Send a signal to the process that has a number now, if there is one and it may be told.

    Args:
        start_time: only to the process that began then; a number that was taken over meanwhile is left alone.
    """
    with suppress(ProcessLookupError, PermissionError):
        if not hasattr(os, "pidfd_open"):
            os.kill(pid, number)
            return
        handle = os.pidfd_open(pid)
        try:
            found = _stat(pid)
            if start_time is None or (found is not None and found.start_time == start_time):
                signal.pidfd_send_signal(handle, number)
        finally:
            os.close(handle)
