"""Scenarios of owners and late answers, with real processes and the provider as the judge (docs/durability_test_matrix.md)."""

import os
import signal
from dataclasses import replace
from pathlib import Path

import perdure
from tests.crash.child import Order
from tests.crash.loop import Bench, Program
from tests.crash.programs import REFERENCE
from tests.crash.support import CRASHED, Ended, LedgerFile, finish, planted, start_life

IN_DOUBT = 7
AFTER_STEP = "PERDURE_TEST_CRASH_AFTER_STEP"


def sent_twice_by_a_wrong_answer(bench: Bench, order: Order, held: str) -> Ended:
    """Stop an owner before it reads an answer, let a person say that nothing happened, send again; how the owner ended."""
    bench.provider.control("searchable", what=held, hold=True)
    owner = start_life(order)
    bench.provider.wait_for("held", what=held, timeout_seconds=60)
    os.kill(owner.pid, signal.SIGSTOP)
    bench.provider.release()
    usurper = bench.live(replace(order, do="resume"), planted("the_living_are_taken_for_dead"))
    assert (usurper.exit_code, usurper.says["reason"]) == (IN_DOUBT, "in_doubt"), usurper
    call = usurper.says["waiting_for"][0]["tool_call_id"]
    with perdure.open(state_dir=order.state_dir) as engine:
        engine.resolve(call, "did_not_happen", force=True, reason="I am sure")
    again = bench.live(replace(order, do="resume"), planted("the_living_are_taken_for_dead"))
    assert again.exit_code == 0, again
    os.kill(owner.pid, signal.SIGCONT)
    return finish(owner)


def test_a_second_success_is_shown_and_never_hidden(bench: Bench) -> None:
    """A person was wrong, the call was sent again, and then the first sender wakes and knows of its own effect."""
    order = bench.order(Program("rules:unsearched", {}), "second")
    late = sent_twice_by_a_wrong_answer(bench, order, "second:one")
    assert late.says["error"] == "LeaseLost"
    assert bench.counts("second") == {"one": 2}
    with perdure.open(state_dir=order.state_dir) as engine:
        assert engine.outcome(order.run_id).duplicates_found == 1
        says = [item["says"] for item in engine.call(f"{order.run_id}.1")["evidence"]]
        assert ["was done twice" in item.summary for _, item in engine.inbox()] == [True]
        assert [found["tool_call_id"] for found in engine.verify(order.run_id).duplicates] == [f"{order.run_id}.1"]
    assert "duplicate_found" in says and "did_not_happen" in says


def test_a_late_no_of_an_old_owner_decides_nothing(bench: Bench) -> None:
    """Its tool says "nothing happened" after the run was taken over; the call stays in doubt, and a person is asked."""
    order = bench.order(Program("rules:declined_late", {}), "no")
    bench.provider.control("plain", what="no:one", hold=True)
    owner = start_life(order)
    bench.provider.wait_for("held", what="no:one", timeout_seconds=60)
    os.kill(owner.pid, signal.SIGSTOP)
    bench.provider.release()
    resume = replace(order, do="resume")
    usurper = bench.live(resume, planted("the_living_are_taken_for_dead"))
    assert usurper.exit_code == IN_DOUBT, usurper
    os.kill(owner.pid, signal.SIGCONT)
    assert finish(owner).says["error"] == "LeaseLost"
    ended = bench.live(resume, {})
    assert (ended.exit_code, ended.says["reason"]) == (IN_DOUBT, "in_doubt"), ended
    assert [call.status for call in LedgerFile(Path(order.state_dir)).calls()] == ["in_doubt"]
    assert bench.counts("no") == {"one": 1}


def test_a_step_that_is_only_entered_again_moves_nothing_and_fires_no_knob(bench: Bench) -> None:
    order = bench.order(REFERENCE, "step")
    knob = {AFTER_STEP: "collect"}
    assert bench.live(order, knob).exit_code == CRASHED
    ended = bench.live(replace(order, do="resume"), knob)
    assert ended.exit_code == 0 and "crash knob did not fire" in ended.stderr, ended
    ledger = LedgerFile(Path(order.state_dir))
    assert ledger.column("attempt") == [1] * len(ledger.column("attempt"))
    assert bench.counts("step") == REFERENCE.effects
