"""One call waits for a person, its sibling is in the middle of a send, and then the life ends: the provider counts (semantics §2.3)."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.crash.child import Order
from tests.crash.loop import Bench, Program
from tests.crash.support import ROOT, Ended, LedgerFile, finish, start_life

FORMS = [
    "gathered",
    "gathered_with_exceptions",
    "task_group",
    "waited",
    "bounded_by_wait_for",
    "bounded_by_timeout",
    "in_a_thread",
    "past_its_timeout",
    "swallows_the_cancel_once",
    "swallows_every_cancel",
    "swallows_all_and_asks_again_at_once",
]
PATIENCE_SECONDS = 60.0
INTERRUPTED = (130, -signal.SIGINT)
TUNING = {"sender_grace_seconds": 0.2, "interrupt_grace_seconds": 2.0}


def wait_until(holds: Callable[[], bool], what: str) -> None:
    """Return as soon as a condition holds."""
    give_up = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        assert time.monotonic() < give_up, f"waited in vain: {what}"
        time.sleep(0.01)


def statuses(order: Order) -> dict[str, str]:
    """The state of each call by the end of its effect's name."""
    calls = LedgerFile(Path(order.state_dir)).calls()
    return {call.what.partition(":")[2]: call.status for call in calls}


def mid_send(bench: Bench, form: str) -> tuple[Order, "subprocess.Popen[str]"]:
    """Start a life and return when its sibling is in the middle of a send and its other call waits for a person."""
    order = replace(bench.order(Program(f"siblings:{form}", {}), form), tuning=TUNING)
    bench.provider.control("keyed", what=f"{form}:sends", hold=True)
    bench.provider.control("plain", what=f"{form}:waits", hold=True)  # only for what is sent without being asked about
    life = start_life(order)
    bench.provider.wait_for("held", what=f"{form}:sends", timeout_seconds=PATIENCE_SECONDS)
    parked = "in_doubt" if form == "past_its_timeout" else "awaiting_approval"
    wait_until(lambda: statuses(order).get("waits") == parked, "the other call waits")
    bench.provider.clear_faults()
    return order, life


def carry_on(bench: Bench, order: Order) -> Ended:
    """Live and let a person answer until the run has ended."""
    for _ in range(4):
        ended = bench.live(replace(order, do="resume"), {})
        if ended.exit_code == 0:
            return ended
        bench.person(order).answer(ended.says["waiting_for"])
    raise AssertionError(f"the run does not end: {ended}")


@pytest.mark.parametrize("form", FORMS)
def test_a_life_that_ends_beside_a_send_has_recorded_it(bench: Bench, form: str) -> None:
    order, life = mid_send(bench, form)
    assert life.poll() is None, "nothing is quiet while a call is being sent"
    bench.provider.release("keyed")
    ended = finish(life)
    late = form == "past_its_timeout"
    assert (ended.exit_code, ended.says["reason"]) == ((7, "in_doubt") if late else (6, "approval")), ended
    assert statuses(order) == {"waits": "in_doubt" if late else "awaiting_approval", "sends": "succeeded"}
    assert bench.counts(form) == ({"waits": 1, "sends": 1} if late else {"sends": 1})
    assert carry_on(bench, order).says["result"] == "done"
    assert bench.counts(form) == {"waits": 1, "sends": 1, "after": 1}


@pytest.mark.parametrize("form", FORMS)
def test_a_send_beside_a_wait_is_recorded_when_a_person_presses_ctrl_c(bench: Bench, form: str) -> None:
    order, life = mid_send(bench, form)
    life.send_signal(signal.SIGINT)
    bench.provider.release("keyed")
    ended = finish(life)
    assert ended.exit_code in INTERRUPTED, ended
    assert statuses(order)["sends"] == "succeeded", ended
    assert bench.counts(form)["sends"] == 1
    assert carry_on(bench, order).says["result"] == "done"
    assert bench.counts(form) == {"waits": 1, "sends": 1, "after": 1}


@pytest.mark.parametrize("form", ["raises_meanwhile", "returns_meanwhile"])
def test_main_that_ends_by_itself_beside_a_send_and_a_wait_is_not_believed(bench: Bench, form: str) -> None:
    order, life = mid_send(bench, form)
    (Path(order.state_dir) / "workspaces" / order.run_id / "go").touch()
    bench.provider.release("keyed")
    ended = finish(life)
    assert (ended.exit_code, ended.says["reason"]) == (6, "approval"), ended
    assert statuses(order) == {"waits": "awaiting_approval", "sends": "succeeded"}
    assert carry_on(bench, order).says["result"] == "done"
    assert bench.counts(form) == {"waits": 1, "sends": 1, "after": 1}


@pytest.mark.parametrize("program", ["a_thread_goes_on", "a_thread_goes_on_in_sync_code"])
def test_a_thread_that_outlives_the_timeout_of_an_async_tool_is_waited_for(bench: Bench, program: str) -> None:
    """The probe would say no while the thread has not landed yet, and the call would be sent a second time."""
    order = bench.order(Program(f"siblings:{program}", {}), program)
    bench.provider.control("searchable", what=f"{program}:one", delay_before_effect_seconds=0.8)
    ended = bench.live(order, {})
    assert bench.counts(program) == {"one": 1}, ended
    assert ended.exit_code == 0, ended


@pytest.mark.parametrize("form", ["swallows_all_and_asks_again_at_once", "a_thread_of_the_program_never_ends"])
def test_the_command_line_exits_whatever_the_agent_leaves_behind(bench: Bench, form: str) -> None:
    order = bench.order(Program(f"siblings:{form}", {}), form)
    agent = f"{ROOT / 'tests' / 'crash' / 'jobs' / 'siblings.py'}:{form}"
    words = ["-m", "perdure", "run", agent, "--run-id", "job", "--state-dir", order.state_dir]
    inputs = [f"{name}={value}" for name, value in order.inputs.items()]
    command = [sys.executable, *words, *(word for pair in inputs for word in ("-i", pair))]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 6, done
    assert "perdure approve" in done.stderr
    assert bench.counts(form) == {"sends": 1}
