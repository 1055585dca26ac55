"""A call that waits for a person ends the life from outside; what its siblings send is never lost or repeated (semantics §2.3)."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import perdure
from tests.crash.child import Order
from tests.crash.loop import SOME, Bench, Program
from tests.crash.programs import THREADS
from tests.crash.support import Ended, LedgerFile, finish, planted, start_life

FORMS = ["gathered", "gathered_with_exceptions", "task_group", "waited"]
SEND_SECONDS = 0.5


def slow_send(bench: Bench, tag: str, name: str) -> None:
    """Let the provider answer one keyed request late, after its effect."""
    bench.provider.control("keyed", what=f"{tag}:{name}", delay_after_effect_seconds=SEND_SECONDS)


def statuses(order: Order) -> dict[str, str]:
    """The state of each call by the end of its effect's name."""
    calls = LedgerFile(Path(order.state_dir)).calls()
    return {call.what.partition(":")[2]: call.status for call in calls}


def resumed(bench: Bench, order: Order) -> Ended:
    """A second life of the same run."""
    return bench.live(replace(order, do="resume"), {})


def as_program(function: str, **inputs: Any) -> Program:
    return Program(f"waiting:{function}", {}, inputs)


@pytest.mark.parametrize("form", FORMS)
def test_a_doubt_beside_a_send_ends_the_life_and_keeps_the_receipt(bench: Bench, form: str) -> None:
    order = bench.order(as_program(form, tool="doubtful"), form)
    bench.provider.control("plain", what=f"{form}:waits", drop_reply_after_effect=True)
    slow_send(bench, form, "sends")
    first = bench.live(order, {})
    assert (first.exit_code, first.says["reason"]) == (7, "in_doubt"), first
    assert statuses(order) == {"waits": "in_doubt", "sends": "succeeded"}
    assert bench.counts(form) == {"waits": 1, "sends": 1}, "no line after the wait may run in that life"
    assert bench.person(order).answer(first.says["waiting_for"]) == ["happened"]
    check_second_life(bench, order, form)


@pytest.mark.parametrize("form", FORMS)
def test_an_approval_beside_a_send_ends_the_life_and_keeps_the_receipt(bench: Bench, form: str) -> None:
    order = bench.order(as_program(form, tool="approved"), form)
    slow_send(bench, form, "sends")
    first = bench.live(order, {})
    assert (first.exit_code, first.says["reason"]) == (6, "approval"), first
    assert statuses(order) == {"waits": "awaiting_approval", "sends": "succeeded"}
    assert bench.counts(form) == {"sends": 1}
    with perdure.open(state_dir=order.state_dir) as engine:
        engine.approve(first.says["waiting_for"][0]["id"])
    check_second_life(bench, order, form)


def check_second_life(bench: Bench, order: Order, form: str) -> None:
    second = resumed(bench, order)
    assert (second.exit_code, second.stderr) == (0, ""), second
    assert bench.counts(form) == {"waits": 1, "sends": 1, "after": 1}
    if form == "gathered_with_exceptions":
        assert second.says["result"] == "dict,dict"


def test_a_send_in_flight_is_recorded_before_an_error_of_main_ends_the_run(bench: Bench) -> None:
    order = bench.order(as_program("raises_beside_a_send", tool="doubtful"), "raises")
    bench.provider.control("keyed", what="raises:sends", hold=True)
    life = start_life(order)
    bench.provider.wait_for("held", what="raises:sends", timeout_seconds=60)
    (Path(order.state_dir) / "workspaces" / order.run_id / "go").touch()
    bench.provider.control("keyed", what="raises:sends", delay_after_effect_seconds=0.1)
    assert bench.provider.release("keyed") == 1
    ended = finish(life)
    assert (ended.exit_code, ended.says["status"]) == (1, "failed"), ended
    assert statuses(order) == {"sends": "succeeded"}
    assert bench.counts("raises") == {"sends": 1}


def test_an_agent_that_swallows_every_cancel_sends_nothing_more(bench: Bench) -> None:
    order = bench.order(as_program("swallows_every_cancel", tool="doubtful"), "swallow")
    bench.provider.control("plain", what="swallow:waits", drop_reply_after_effect=True)
    first = bench.live(order, {})
    assert (first.exit_code, first.says["reason"]) == (7, "in_doubt"), first
    assert bench.counts("swallow") == {"waits": 1}
    assert bench.person(order).answer(first.says["waiting_for"]) == ["happened"]
    second = resumed(bench, order)
    assert second.says["status"] == "succeeded", second
    assert bench.counts("swallow") == {"waits": 1}


def test_a_doubt_in_a_thread_of_the_program_ends_the_life(bench: Bench) -> None:
    order = bench.order(as_program("doubt_in_a_thread"), "thread")
    bench.provider.control("plain", what="thread:thread0", drop_reply_after_effect=True)
    first = bench.live(order, {})
    assert (first.exit_code, first.says["reason"]) == (7, "in_doubt"), first
    assert bench.counts("thread") == {"thread0": 1}
    assert bench.person(order).answer(first.says["waiting_for"]) == ["happened"]
    assert resumed(bench, order).says["status"] == "succeeded"
    assert bench.counts("thread") == {"thread0": 1, "thread1": 1}


def test_what_moves_while_a_call_is_about_to_park_is_not_missed(bench: Bench) -> None:
    order = bench.order(as_program("met_in_a_thread"), "met")
    assert bench.live(order, {}).says["status"] == "failed"
    second = bench.live(replace(order, do="resume"), planted("the_guard_is_heard_late"))
    assert (second.exit_code, second.says["status"]) == (0, "succeeded"), second
    assert bench.counts("met") == {"old": 1, "new": 1}


def test_wait_for_around_a_send_in_flight_returns_the_receipt(bench: Bench) -> None:
    order = bench.order(as_program("bounded_send"), "bounded")
    slow_send(bench, "bounded", "slow")
    first = bench.live(order, {})
    assert (first.exit_code, first.stderr) == (0, ""), first
    assert set(first.says["result"]) == {"slow", "next"}
    assert bench.counts("bounded") == {"slow": 1, "next": 1}


def test_a_timeout_is_raised_at_the_next_call_after_the_receipt(bench: Bench) -> None:
    order = bench.order(as_program("bounded_by_timeout"), "timeout")
    slow_send(bench, "timeout", "slow")
    first = bench.live(order, {})
    assert (first.exit_code, first.stderr) == (0, ""), first
    assert set(first.says["result"]) == {"slow", "next"}
    assert bench.counts("timeout") == {"slow": 1, "next": 1}


@pytest.mark.parametrize(("function", "names"), [("late", {"late", "sends"}), ("late_sync", {"late", "next"})])
def test_the_late_return_of_a_sync_tool_is_its_outcome(bench: Bench, function: str, names: set[str]) -> None:
    order = bench.order(as_program(function), function)
    bench.provider.control("plain", what=f"{function}:late", delay_after_effect_seconds=SEND_SECONDS)
    ended = bench.live(order, {})
    assert (ended.exit_code, ended.stderr) == (0, ""), ended
    assert bench.counts(function) == dict.fromkeys(names, 1)
    assert statuses(order) == dict.fromkeys(names, "succeeded")


def test_calls_from_threads_happen_once_wherever_the_run_is_killed(bench: Bench) -> None:
    passages = bench.loop(THREADS, every=SOME)
    assert sum(1 for passage in passages if passage.crashed_at) >= 30 // SOME
    words = {word for passage in passages for word in passage.answers}
    assert words == {"happened", "did_not_happen"} if SOME == 1 else words <= {"happened", "did_not_happen"}
