"""A reply that comes after somebody has said "it did not happen": nothing is sent again that is known to be done."""

import os
import signal
from dataclasses import replace

import pytest

import perdure
from tests.crash.loop import Bench
from tests.crash.programs import EFFECTS, REFERENCE
from tests.crash.support import AFTER_TOOL, CRASHED, finish, planted, start_life


def test_a_person_may_take_a_wrong_no_back_before_the_call_is_sent_again(bench: Bench) -> None:
    order = bench.order(REFERENCE, "late")
    ended = bench.live(order, {AFTER_TOOL: "asked"})
    assert ended.exit_code == CRASHED
    waits = bench.live(replace(order, do="resume"), {})
    call = waits.says["waiting_for"][0]["tool_call_id"]
    with perdure.open(state_dir=order.state_dir) as engine:
        assert engine.resolve(call, "did_not_happen").status == "prepared"
        sent = next(line["id"] for line in bench.log.lines() if line.get("what") == "late:asked")
        assert engine.resolve(call, "happened", result={"id": sent}).status == "succeeded"
    done = bench.live(replace(order, do="resume"), {})
    assert done.says["status"] == "succeeded", done
    assert bench.counts("late") == EFFECTS


def test_a_reply_that_contradicts_a_verdict_is_believed_before_the_call_is_sent_again(bench: Bench) -> None:
    """The owner sleeps, a person is wrong by force, the owner wakes with the answer: the next life must not send."""
    order = bench.order(REFERENCE, "late")
    bench.provider.control("plain", what="late:asked", hold=True)
    owner = start_life(order)
    bench.provider.wait_for("held", what="late:asked", timeout_seconds=60)
    os.kill(owner.pid, signal.SIGSTOP)
    bench.provider.release()
    usurper = bench.live(replace(order, do="resume"), planted("the_living_are_taken_for_dead"))
    call = usurper.says["waiting_for"][0]["tool_call_id"]
    with perdure.open(state_dir=order.state_dir) as engine:
        assert engine.resolve(call, "did_not_happen", force=True).status == "prepared"
    os.kill(owner.pid, signal.SIGCONT)
    assert finish(owner).says["error"] == "LeaseLost"
    done = bench.live(replace(order, do="resume"), {})
    assert done.says["status"] == "succeeded", done
    assert bench.counts("late") == EFFECTS


def test_a_no_is_not_taken_for_an_attempt_that_nobody_was_asked_about(bench: Bench) -> None:
    """The command that says no and resumes dies after it has sent again; typed once more, it means the first attempt."""
    order = bench.order(REFERENCE, "again")
    bench.provider.control("plain", what="again:asked", reject_before_effect=500)
    waits = bench.live(order, {})
    call = waits.says["waiting_for"][0]["tool_call_id"]
    with perdure.open(state_dir=order.state_dir) as engine:
        engine.resolve(call, "did_not_happen")
    assert bench.live(replace(order, do="resume"), {AFTER_TOOL: "asked"}).exit_code == CRASHED
    with perdure.open(state_dir=order.state_dir) as engine:
        with pytest.raises(perdure.VerdictRefused, match="attempt 2"):
            engine.resolve(call, "did_not_happen")
        ((_, item),) = engine.inbox()
        assert (item.kind, item.tool_call_id) == ("in_doubt", call)
        engine.resolve(call, "happened", result={"id": "found"})
    assert bench.live(replace(order, do="resume"), {}).says["status"] == "succeeded"
    assert bench.counts("again") == EFFECTS
