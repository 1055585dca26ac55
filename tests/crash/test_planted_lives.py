"""Cancels, crash loops and timers: each scene is seen with its rule, and with the rule broken."""

import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest

import perdure
from tests.crash.child import Order
from tests.crash.loop import Bench
from tests.crash.planting import load
from tests.crash.support import AFTER_TOOL, AT_POINT, LedgerFile, finish, planted, start_life
from tests.crash.test_planted_owners import Seen, Shown, counts, held_life, order_of
from tests.crash.test_suspension_siblings import PATIENCE_SECONDS, wait_until

CANCELLED, LEASE_HELD, CRASHED, TIMER = 11, 5, 9, 10


def typed(bench: Bench, order: Order, plants: dict[str, str], *words: str) -> int:
    said = [*words, "--state-dir", order.state_dir]
    return bench.live(replace(order, do="command", inputs={**order.inputs, "words": said}), plants).exit_code


def a_run_is_cancelled_while_it_sends(bench: Bench, bug: str | None) -> Seen:
    """The send comes to its end and is recorded, and nothing is sent after it; the provider counts."""
    order = order_of(bench, "probes:two", bug, tool="plain")
    owner = held_life(bench, order, "plain", "one")
    code = typed(bench, order, planted(bug), "runs", "cancel", "job", "--reason", "enough")
    bench.provider.release()
    ended = finish(owner)
    states = [call.status for call in LedgerFile(Path(order.state_dir)).calls()]
    return code, ended.exit_code, states, counts(bench, order)


def a_person_resumes_again_and_again(bench: Bench, bug: str | None) -> Seen:
    order = order_of(bench, "lives:crashes", bug)
    resume = replace(order, do="resume")
    return tuple(bench.live(life, planted(bug)).exit_code for life in (order, *[resume] * 5))


def a_long_sleep_is_resumed_twice(bench: Bench, bug: str | None) -> Seen:
    order = order_of(bench, "lives:sleeps", bug)
    lives = (order, replace(order, clock_ahead_seconds=1800.0), replace(order, clock_ahead_seconds=3660.0))
    return tuple(bench.live(life, planted(bug)).exit_code for life in lives)


SHOWN = [
    Shown(
        "a_cancel_ignores_the_sender_in_flight",
        a_run_is_cancelled_while_it_sends,
        (0, CANCELLED, ["succeeded"], {"one": 1}),
    ),
    Shown("a_crash_loop_counts_explicit_resumes", a_person_resumes_again_and_again, (CRASHED,) * 6),
    Shown("a_timer_begins_anew_in_each_life", a_long_sleep_is_resumed_twice, (TIMER, TIMER, 0)),
]


@pytest.mark.parametrize("shown", SHOWN, ids=[shown.bug for shown in SHOWN])
def test_each_broken_rule_is_seen(bench: Bench, shown: Shown) -> None:
    assert shown.scene(bench, None) == shown.with_it
    assert shown.scene(bench, shown.bug) != shown.with_it


def test_every_broken_rule_of_this_page_is_shown() -> None:
    listed = {name for name, plant in load().items() if plant.caught_by.startswith("test_planted_lives.py")}
    assert listed == {shown.bug for shown in SHOWN}


def test_an_owner_that_wakes_up_after_its_run_was_cancelled_elsewhere_sends_nothing(bench: Bench) -> None:
    """It was only asleep, and its lease is over: the reply to what it had sent counts, and it may not go on."""
    order = order_of(bench, "probes:two", "honest-cancel", tool="plain")
    bench.provider.control("plain", what=f"{order.inputs['tag']}:one", hold=True)
    owner = start_life(order, planted("leases_are_short"))
    bench.provider.wait_for("held", what=f"{order.inputs['tag']}:one", timeout_seconds=PATIENCE_SECONDS)
    os.kill(owner.pid, signal.SIGSTOP)
    elsewhere = planted("leases_are_short,this_is_another_host")

    def ended() -> bool:
        typed(bench, order, elsewhere, "runs", "cancel", "job")
        return bench.live(order, elsewhere).exit_code == CANCELLED

    wait_until(ended, "the lease is over, and then the cancel needs nobody")
    bench.provider.release()
    os.kill(owner.pid, signal.SIGCONT)
    late = finish(owner)
    assert (late.exit_code, late.says["error"]) == (LEASE_HELD, "LeaseLost"), late
    assert counts(bench, order) == {"one": 1}
    assert [call.status for call in LedgerFile(Path(order.state_dir)).calls()] == ["succeeded"]


def test_a_timer_keeps_its_moment_wherever_its_life_is_killed(bench: Bench) -> None:
    """Killed at every ninth point: a restart waits for the moment that stands there, and goes on when it has come."""
    point, killed = 1, 0
    while True:
        order = order_of(bench, "lives:sleeps", f"timer-{point}")
        first = bench.live(order, {AT_POINT: str(point)})
        if first.crashed_at is None:
            break
        moments = _moments(order)
        again = bench.live(replace(order, do="resume", clock_ahead_seconds=600.0), {})
        assert (again.exit_code, again.says["reason"]) == (TIMER, "timer")
        assert not moments or moments == _moments(order)
        done = bench.live(replace(order, do="resume", clock_ahead_seconds=4300.0), {AFTER_TOOL: "timer:sleep"})
        assert done.crashed_at, "killed once more between its time and its receipt"
        assert bench.live(replace(order, do="resume", clock_ahead_seconds=4300.0), {}).exit_code == 0
        point, killed = point + 9, killed + bool(moments)
    assert killed, "some were killed after the moment was stored"


def _moments(order: Order) -> list[str]:
    with perdure.open(state_dir=order.state_dir) as engine:
        calls = [call for row in engine.runs() for call in engine.calls(row.run_id, inner=True)]
        return [engine.call(call["tool_call_id"])["request"] for call in calls]
