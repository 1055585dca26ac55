"""Whether an owner is gone, told about real processes: alive, stopped, dead, a zombie, a reused number, orphaned children."""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest

from perdure.model.run import Owner
from perdure.ports.clock import format_time
from perdure.runtime import lease
from perdure.runtime.lease import (
    SENDER_VARIABLE,
    Liveness,
    end_children,
    liveness,
    living_children,
    mark_children,
    send_signal,
    sender_mark,
    this_process,
)
from perdure.store.runs import owner_from_text, owner_text

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
PATIENCE_SECONDS = 60.0

# Takes a name, says who it is, starts children of the kinds that its arguments say, says their numbers, and waits.
PROCESS = """
import os, signal, subprocess, sys
from perdure.runtime.lease import mark_children, this_process
from perdure.store.runs import owner_text

if "NAME" in os.environ:
    with open("/proc/self/comm", "w") as comm:
        comm.write(os.environ["NAME"])
mark_children(this_process())
print(owner_text(this_process()), flush=True)
wait = "import signal; print('up', flush=True); signal.pause()"
children = [[sys.executable, "-c", wait], ["sh", "-c", f'{sys.executable} -c "{wait}"; true']]
for kind in sys.argv[1:]:
    started = subprocess.Popen(children[int(kind)], stdout=subprocess.PIPE, start_new_session=True)
    started.stdout.readline()
    print(started.pid, flush=True)
signal.pause()
"""


class Process:
    """A real process with its owner's identity and the pids of its children."""

    def __init__(self, *children: int, **environ: str) -> None:
        self.running = subprocess.Popen(
            [sys.executable, "-c", PROCESS, *map(str, children)],
            stdout=subprocess.PIPE,
            env={**os.environ, **environ},
            text=True,
        )
        self.owner = owner_from_text(self._line())
        self.children = [int(self._line()) for _ in children]

    def _line(self) -> str:
        assert self.running.stdout is not None
        return self.running.stdout.readline()

    def end(self) -> None:
        """Kill the process, collect it, and kill what it left."""
        left = living_children(self.owner)
        self.running.kill()
        self.running.communicate()
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


@pytest.fixture
def start() -> Iterator[Callable[..., Process]]:
    """Start processes that are gone after the test."""
    started: list[Process] = []

    def begin(*children: int, **environ: str) -> Process:
        started.append(Process(*children, **environ))
        return started[-1]

    yield begin
    for process in started:
        process.end()


def wait_until(holds: Callable[[], bool]) -> None:
    """Return as soon as a condition holds."""
    give_up = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        assert time.monotonic() < give_up, "waited in vain"
        time.sleep(0.005)


def test_this_process_is_alive() -> None:
    assert liveness(this_process()) is Liveness.ALIVE
    assert this_process().pid == os.getpid()
    assert owner_from_text(owner_text(this_process())) == this_process()


def test_another_process_is_alive_until_it_is_gone(start: Callable[..., Process]) -> None:
    process = start()
    assert liveness(process.owner) is Liveness.ALIVE
    process.running.kill()
    process.running.wait()
    assert liveness(process.owner) is Liveness.DEAD


def test_a_zombie_is_gone_although_its_number_is_taken(start: Callable[..., Process]) -> None:
    process = start()
    process.running.kill()
    os.waitid(os.P_PID, process.owner.pid, os.WEXITED | os.WNOWAIT)
    os.kill(process.owner.pid, 0)
    assert Path(f"/proc/{process.owner.pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    assert liveness(process.owner) is Liveness.DEAD


def test_a_stopped_process_is_alive(start: Callable[..., Process]) -> None:
    process = start()
    os.kill(process.owner.pid, signal.SIGSTOP)
    os.waitid(os.P_PID, process.owner.pid, os.WSTOPPED | os.WNOWAIT)
    assert liveness(process.owner) is Liveness.ALIVE
    os.kill(process.owner.pid, signal.SIGCONT)


@pytest.mark.parametrize("shift", [-1, 1, 100])
def test_a_number_that_another_process_took_over_is_not_the_owner(start: Callable[..., Process], shift: int) -> None:
    owner = start().owner
    assert liveness(replace(owner, start_time=owner.start_time + shift)) is Liveness.DEAD


def test_nothing_of_an_earlier_boot_is_alive() -> None:
    assert liveness(replace(this_process(), boot_id="an earlier boot")) is Liveness.DEAD


def test_nothing_is_certain_about_another_host() -> None:
    assert liveness(replace(this_process(), host="elsewhere/pid:[1]")) is Liveness.UNKNOWN
    assert liveness(replace(this_process(), host="elsewhere", boot_id="x", pid=1)) is Liveness.UNKNOWN


def test_a_number_that_was_never_given_is_dead() -> None:
    assert liveness(replace(this_process(), pid=2**22 + 1)) is Liveness.DEAD


@pytest.mark.parametrize("name", [") Z (", "a b c", "))) 0 0", "(x"])
def test_the_name_of_a_process_cannot_mislead(start: Callable[..., Process], name: str) -> None:
    process = start(NAME=name)
    assert Path(f"/proc/{process.owner.pid}/comm").read_text() == f"{name}\n"
    assert liveness(process.owner) is Liveness.ALIVE
    assert liveness(replace(process.owner, start_time=0)) is Liveness.DEAD


# --- children --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [0, 1])
def test_a_child_that_outlives_its_parent_is_found(start: Callable[..., Process], kind: int) -> None:
    process = start(kind)
    assert process.children[0] in living_children(process.owner)
    process.running.kill()
    process.running.wait()
    assert liveness(process.owner) is Liveness.DEAD
    # A shell's own child is found as well, so that killing the shell alone is not enough.
    left = living_children(process.owner)
    assert process.children[0] in left
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    wait_until(lambda: living_children(process.owner) == [])


def test_every_orphan_is_found(start: Callable[..., Process]) -> None:
    process = start(0, 0)
    process.running.kill()
    process.running.wait()
    assert sorted(living_children(process.owner)) == sorted(process.children)


def test_a_stopped_orphan_still_lives(start: Callable[..., Process]) -> None:
    process = start(0)
    os.kill(process.children[0], signal.SIGSTOP)
    process.running.kill()
    process.running.wait()
    assert living_children(process.owner) == process.children


def test_an_owner_without_children_has_none(start: Callable[..., Process]) -> None:
    process = start()
    assert living_children(process.owner) == []
    process.running.kill()
    process.running.wait()
    assert living_children(process.owner) == []


def test_children_are_told_apart_by_their_owner(start: Callable[..., Process]) -> None:
    one, other = start(0), start(0)
    assert living_children(one.owner) == one.children
    assert living_children(other.owner) == other.children
    later = replace(one.owner, start_time=one.owner.start_time + 1)
    assert living_children(later) == []


def test_a_process_is_not_its_own_child(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SENDER_VARIABLE, "before")
    owner = this_process()
    mark_children(owner)
    assert os.environ[SENDER_VARIABLE] == sender_mark(owner)
    with subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE) as child:
        wait_until(lambda: child.pid in living_children(owner))
        assert os.getpid() not in living_children(owner)
        assert child.stdin is not None
        child.stdin.close()
    assert child.pid not in living_children(owner)


def test_the_mark_names_the_process_and_not_only_its_number() -> None:
    owner = Owner(host="h", boot_id="b", pid=7, start_time=9)
    marks = {sender_mark(owner), *(sender_mark(replace(owner, **{name: 8})) for name in ("pid", "start_time"))}
    assert len(marks) == 3
    assert sender_mark(replace(owner, boot_id="c")) not in marks


def test_a_neighbour_in_a_pipeline_is_no_child() -> None:
    """`perdure … | tee` makes one group of both, led by the first; the second would be waited for in vain."""
    command = [sys.executable, "-c", PIPED]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, process_group=0) as first:
        assert first.stdin is not None and first.stdout is not None
        owner = owner_from_text(first.stdout.readline())
        wait = [sys.executable, "-S", "-c", "import sys; sys.stdin.read()"]
        with subprocess.Popen(wait, stdin=subprocess.PIPE, process_group=first.pid) as second:
            assert os.getpgid(second.pid) == first.pid
            first.stdin.write("look\n")
            first.stdin.flush()
            assert first.stdout.readline() == "[]\n"
            assert living_children(owner) == []
            assert second.stdin is not None
            second.stdin.close()
        first.stdin.close()


PIPED = """
import sys
from perdure.runtime.lease import living_children, mark_children, this_process
from perdure.store.runs import owner_text
mark_children(this_process())
print(owner_text(this_process()), flush=True)
sys.stdin.readline()
print(living_children(this_process()), flush=True)
sys.stdin.read()
"""


def test_a_signal_is_not_sent_to_a_process_that_only_has_the_number(start: Callable[..., Process]) -> None:
    process = start()
    send_signal(process.owner.pid, signal.SIGKILL, start_time=process.owner.start_time - 1)
    assert process.running.poll() is None
    send_signal(process.owner.pid, signal.SIGKILL, start_time=process.owner.start_time)
    assert process.running.wait() == -signal.SIGKILL
    send_signal(process.owner.pid, signal.SIGKILL, start_time=process.owner.start_time)


@pytest.mark.parametrize("kinds", [(0,), (1,), (0, 1, 0)])
def test_children_are_ended_and_waited_for(start: Callable[..., Process], kinds: tuple[int, ...]) -> None:
    process = start(*kinds)
    process.running.kill()
    process.running.wait()
    assert set(process.children) <= set(living_children(process.owner))
    assert end_children(process.owner) == []
    assert living_children(process.owner) == []


def test_only_children_that_began_since_are_ended(start: Callable[..., Process]) -> None:
    process = start(0)
    later = format_time(datetime.now(UTC) + timedelta(seconds=1))
    assert end_children(process.owner, since=later) == []
    assert living_children(process.owner) == process.children


def test_of_another_host_or_boot_there_are_no_children_here(start: Callable[..., Process]) -> None:
    owner = start(0).owner
    assert living_children(replace(owner, host="elsewhere")) == []
    assert living_children(replace(owner, boot_id="an earlier boot")) == []


def test_a_process_that_is_held_up_between_two_clocks_forgets_no_child(monkeypatch: pytest.MonkeyPatch) -> None:
    """What began with the attempt counts as begun with it, however late the second clock is read."""
    passed = itertools.count()  # a second goes by with each look at a clock
    slow = SimpleNamespace(
        CLOCK_BOOTTIME=0, time=lambda: 1_000_000.0 + next(passed), clock_gettime=lambda _clock: 500.0 + next(passed)
    )
    monkeypatch.setattr(lease, "time", slow)
    begun = datetime.fromtimestamp(1_000_000.0, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    assert lease._ticks_since_boot(begun) <= 500.0 * os.sysconf("SC_CLK_TCK")
