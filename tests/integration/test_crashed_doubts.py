"""A call that a dead process has left started, and that no life has looked at since: it is a doubt like any other."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import perdure
from perdure import Engine, VerdictRefused
from perdure.testing.crash import Launcher, Order
from tests.integration.engine_support import FAST
from tests.integration.test_doubts import SetClock

AGENT = """
import os

from perdure import Probe, tool


@tool(side_effect_class="external")
def send(to: str) -> str:
    os._exit(9)


@send.probe
def find(call):
    return Probe.not_happened(complete=True)


def main(run):
    return send("a")
"""
JOB = "name: j\nagent: {python: 'crashed_agent:main'}\non_change: ask\ndeadline: 2099-01-01T00:00:00Z\n"


@pytest.fixture(scope="module")
def launcher() -> Iterator[Launcher]:
    with Launcher() as found:
        yield found


class Bench:
    """A ledger whose run died in the middle of a call."""

    def __init__(self, folder: Path, launcher: Launcher) -> None:
        self.folder, self.clock = folder, SetClock()
        self.clock.moment = datetime.now(UTC) + timedelta(minutes=1)
        (folder / "crashed_agent.py").write_text(AGENT, "utf-8")
        (folder / "j.job.yaml").write_text(JOB, "utf-8")
        order = Order(job=str(folder / "j.job.yaml"), state_dir=str(folder / "s"), run_id="r1")
        assert launcher.live(order).exit_code == 9

    def engine(self) -> Engine:
        """Open its ledger."""
        return perdure.open(state_dir=self.folder / "s", clock=self.clock, tuning=FAST)


@pytest.fixture
def bench(tmp_path: Path, launcher: Launcher) -> Bench:
    return Bench(tmp_path, launcher)


def test_a_no_waits_for_the_probe_lag_also_where_nobody_was_asked_yet(bench: Bench) -> None:
    with bench.engine() as engine:
        assert ([call["status"] for call in engine.calls("r1")], engine.inbox()) == (["running"], [])
        for _ in range(2):
            with pytest.raises(VerdictRefused, match="may still be about to show it"):
                engine.resolve("r1.1", "did_not_happen")
            assert [item.tool_call_id for _, item in engine.inbox()] == ["r1.1"]
        bench.clock.moment += timedelta(seconds=11)
        assert engine.resolve("r1.1", "did_not_happen").status == "prepared"


def test_a_yes_and_a_forced_no_are_taken_at_once(bench: Bench) -> None:
    with bench.engine() as engine:
        assert engine.resolve("r1.1", "did_not_happen", force=True).status == "prepared"
        assert engine.resolve("r1.1", "happened", result="seen").status == "succeeded"


def test_the_lag_of_a_second_attempt_is_not_counted_from_the_loss_of_the_first(
    bench: Bench, launcher: Launcher
) -> None:
    with bench.engine() as engine:
        engine.resolve("r1.1", "did_not_happen", force=True)
    order = Order(job=str(bench.folder / "j.job.yaml"), state_dir=str(bench.folder / "s"), run_id="r1", reopens=True)
    assert launcher.live(order).exit_code == 9
    bench.clock.moment += timedelta(minutes=5)
    with bench.engine() as engine:
        for said in ("nobody was asked since", "may still be about to show it"):
            with pytest.raises(VerdictRefused, match=said):
                engine.resolve("r1.1", "did_not_happen")


def test_it_stays_in_the_inbox_when_the_deadline_ends_a_run_that_waits_for_something_else(bench: Bench) -> None:
    (bench.folder / "crashed_agent.py").write_text(AGENT + "\nMORE = 1\n", "utf-8")
    with bench.engine() as engine:
        assert engine.resume("r1").reason == "question"
        assert ([call["status"] for call in engine.calls("r1")], len(engine.inbox())) == (["running"], 1)
        bench.clock.moment = datetime(2099, 1, 2, tzinfo=UTC)
        assert engine.outcome("r1").error_code == "deadline"
        assert [(item.kind, item.tool_call_id) for _, item in engine.inbox()] == [("in_doubt", "r1.1")]
        engine.resolve("r1.1", "happened", result="seen")
        assert (engine.inbox(), engine.verify().ok) == ([], True)
