"""Processes that a tool starts: they are ended and waited for before a call is settled, and quarantine stands while one lives (semantics #25)."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

import perdure
from tests.crash.child import Order
from tests.crash.loop import Bench, Program
from tests.crash.support import ROOT, LedgerFile, finish
from tests.crash.test_suspension_siblings import PATIENCE_SECONDS, wait_until

MANNERS = ["plain", "in a session of its own", "without our environment", "forked", "toolbox"]
EFFECTS = {"sent": 1, "told": 1}
LEFT_BY_SIGNAL = {signal.SIGINT: 130, signal.SIGTERM: 143}


class Family:
    """A command line that leads a process group, as a shell starts it, and the child that its tool has started."""

    def __init__(self, bench: Bench, manner: str, tag: str) -> None:
        self.order = bench.order(Program("offspring:main", EFFECTS, {"manner": manner}), tag)
        agent = f"{ROOT / 'tests' / 'crash' / 'jobs' / 'offspring.py'}:main"
        words = [sys.executable, "-m", "perdure", "run", agent, "--run-id", "job", "--state-dir", self.order.state_dir]
        for name, value in self.order.inputs.items():
            words += ["-i", f"{name}={value}"]
        environ = {**os.environ, "PYTHONPATH": str(ROOT / "tests" / "crash" / "jobs")}
        self.process = subprocess.Popen(
            words, cwd=ROOT, env=environ, text=True, start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )  # fmt: skip
        bench.provider.wait_for("held", what=f"{tag}:sent", timeout_seconds=PATIENCE_SECONDS)
        self.child = int((Path(self.order.state_dir) / "workspaces" / "job" / "child.pid").read_text())

    @property
    def child_lives(self) -> bool:
        """Whether the child can still do something."""
        with suppress(FileNotFoundError):
            return Path(f"/proc/{self.child}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
        return False

    @property
    def resume(self) -> Order:
        """The order for the next life."""
        return replace(self.order, do="resume")

    def end(self) -> None:
        """Leave nothing behind."""
        for pid in (self.process.pid, self.child):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.communicate()


@pytest.fixture
def held(bench: Bench) -> Iterator["Held"]:
    """Families whose child stands at the provider's door: its request has come, and nothing has happened yet."""
    found = Held(bench)
    yield found
    for family in found.families:
        family.end()


class Held:
    """Starts such families."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.families: list[Family] = []

    def start(self, manner: str) -> Family:
        """Start one, and return when its child has sent its request."""
        tag = manner.replace(" ", "-")
        self.bench.provider.control("searchable", what=f"{tag}:sent", hold_before_effect=True)
        self.families.append(Family(self.bench, manner, tag))
        return self.families[-1]


def counts(bench: Bench, family: Family) -> dict[str, int]:
    return bench.counts(str(family.order.inputs["tag"]))


@pytest.mark.parametrize("manner", MANNERS)
def test_an_orphan_keeps_the_call_in_quarantine_until_it_is_gone(bench: Bench, held: Held, manner: str) -> None:
    family = held.start(manner)
    family.process.kill()
    family.process.wait()
    assert family.child_lives
    waits = bench.live(family.resume, {})
    assert (waits.exit_code, waits.says["reason"]) == (7, "in_doubt"), waits
    call = waits.says["waiting_for"][0]["tool_call_id"]
    with perdure.open(state_dir=family.order.state_dir) as engine, pytest.raises(perdure.VerdictRefused, match="child"):
        engine.resolve(call, "did_not_happen")
    assert counts(bench, family) == {}
    bench.provider.release()
    wait_until(lambda: not family.child_lives, "the orphan ends by itself")
    assert bench.live(family.resume, {}).exit_code == 0
    assert counts(bench, family) == EFFECTS


@pytest.mark.parametrize("manner", MANNERS)
def test_kill_owner_ends_what_a_dead_owner_has_left(bench: Bench, held: Held, manner: str) -> None:
    """The orphan is ended and waited for; then the provider's no is believed, and the call is sent again."""
    family = held.start(manner)
    family.process.kill()
    family.process.wait()
    took_over = bench.live(replace(family.order, do="take_over"), {})
    assert not family.child_lives
    assert took_over.exit_code == 0, took_over
    assert bench.provider.release() == 1
    if counts(bench, family) != EFFECTS:
        # Its request was at the provider before it was ended, and no probe_lag was declared: shown, not hidden.
        assert counts(bench, family) == {**EFFECTS, "sent": 2}


@pytest.mark.parametrize("manner", MANNERS)
def test_kill_owner_ends_a_living_owner_with_its_child(bench: Bench, held: Held, manner: str) -> None:
    family = held.start(manner)
    os.kill(family.process.pid, signal.SIGSTOP)
    refused = bench.live(family.resume, {})
    assert (refused.exit_code, refused.says["error"]) == (5, "LeaseHeld"), refused
    took_over = bench.live(replace(family.order, do="take_over"), {})
    assert not family.child_lives
    assert finish(family.process).exit_code == -signal.SIGKILL
    assert took_over.exit_code == 0, took_over


@pytest.mark.parametrize("number", list(LEFT_BY_SIGNAL))
@pytest.mark.parametrize("manner", MANNERS)
def test_a_signal_ends_the_child_before_the_process_leaves(
    bench: Bench, held: Held, manner: str, number: signal.Signals
) -> None:
    family = held.start(manner)
    family.process.send_signal(number)
    ended = finish(family.process)
    assert ended.exit_code == LEFT_BY_SIGNAL[number], ended
    assert not family.child_lives
    assert "go on with: perdure resume job" in ended.stderr
    assert [call.status for call in LedgerFile(Path(family.order.state_dir)).calls()] == ["in_doubt"]
    kinds = LedgerFile(Path(family.order.state_dir)).everything()["checkpoints"]
    assert sum("interrupt" in row for row in kinds) == 1
    bench.provider.release()
    bench.provider.wait_for("effect", what=f"{family.order.inputs['tag']}:sent", timeout_seconds=60)
    assert bench.live(family.resume, {}).exit_code == 0
    assert counts(bench, family) == EFFECTS


def test_what_comes_back_within_the_grace_is_recorded_and_nothing_more_is_sent(bench: Bench, held: Held) -> None:
    family = held.start("in a session of its own")
    family.process.send_signal(signal.SIGINT)
    bench.provider.release()
    ended = finish(family.process)
    assert ended.exit_code == 130, ended
    assert [call.status for call in LedgerFile(Path(family.order.state_dir)).calls()] == ["succeeded"]
    assert counts(bench, family) == {"sent": 1}
    assert bench.live(family.resume, {}).exit_code == 0
    assert counts(bench, family) == EFFECTS


@pytest.mark.parametrize("number", list(LEFT_BY_SIGNAL))
def test_a_second_signal_leaves_at_once_and_a_child_that_lives_on_is_quarantined(
    bench: Bench, held: Held, number: signal.Signals
) -> None:
    family = held.start("in a session of its own")
    family.process.send_signal(number)
    assert family.process.stderr is not None
    assert "stopping" in family.process.stderr.readline()

    def left() -> bool:
        family.process.send_signal(number)  # what comes within half a second of the first is the same wish
        return family.process.poll() is not None

    wait_until(left, "a later signal is obeyed at once")
    assert family.process.returncode == LEFT_BY_SIGNAL[number]
    assert any("left at once" in line and "perdure resume job" in line for line in family.process.stderr)
    assert family.child_lives, "it did not wait for what is in flight"
    waits = bench.live(family.resume, {})
    assert (waits.exit_code, waits.says["reason"]) == (7, "in_doubt"), waits
    bench.provider.release()
    wait_until(lambda: not family.child_lives, "the orphan ends by itself")
    assert bench.live(family.resume, {}).exit_code == 0
    assert counts(bench, family) == EFFECTS


def test_five_fast_signals_leave_one_record(bench: Bench, held: Held) -> None:
    """R112: the second to fifth are the same wish as the first: one checkpoint, one line that says how to go on."""
    family = held.start("plain")
    for _ in range(5):
        family.process.send_signal(signal.SIGINT)
    assert family.process.wait(PATIENCE_SECONDS) == 130
    kinds = LedgerFile(Path(family.order.state_dir)).everything()["checkpoints"]
    assert sum("interrupt" in row for row in kinds) == 1
    bench.provider.release()
    bench.provider.wait_for("effect", what=f"{family.order.inputs['tag']}:sent", timeout_seconds=60)
    wait_until(lambda: not family.child_lives, "the orphan is gone")
    assert bench.live(family.resume, {}).exit_code == 0
    assert counts(bench, family) == EFFECTS
