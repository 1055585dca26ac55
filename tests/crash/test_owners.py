"""Who owns a run, and who may still be sending: two real processes, SIGKILL and SIGSTOP, a child that outlives its parent."""

import os
import signal
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from dataclasses import replace
from pathlib import Path

import pytest

import perdure
from tests.crash.loop import Bench, Program
from tests.crash.programs import BY_A_CHILD, EFFECTS, REFERENCE, REFERENCE_ASYNC
from tests.crash.support import LedgerFile, finish, start_life

KIND_OF_TOOL = {"read": "read", "create": "create", "keyed": "keyed", "probed": "searchable", "asked": "plain"}
LEASE_HELD = 5
KILLED = -signal.SIGKILL


@pytest.mark.parametrize("tool", list(KIND_OF_TOOL))
def test_a_life_killed_from_outside_while_the_reply_is_on_its_way(bench: Bench, tool: str) -> None:
    order = bench.order(REFERENCE, tool)
    bench.provider.control(KIND_OF_TOOL[tool], what=f"{tool}:{tool}", hold=True)
    life = start_life(order)
    bench.provider.wait_for("held", what=f"{tool}:{tool}", timeout_seconds=60)
    life.kill()
    assert finish(life).exit_code == KILLED
    assert bench.provider.release() == 1
    passage = bench.recover(REFERENCE, replace(order, do="resume"))
    assert passage.answers == (("happened",) if tool == "asked" else ())


@pytest.mark.parametrize("program", [REFERENCE, REFERENCE_ASYNC], ids=["sync", "async"])
@pytest.mark.parametrize("tool", ["keyed", "probed", "asked"])
def test_an_interrupt_while_the_reply_is_on_its_way(bench: Bench, program: Program, tool: str) -> None:
    order = replace(
        bench.order(program, tool), tuning={"interrupt_grace_seconds": 0.3 if program is REFERENCE else 5.0}
    )
    bench.provider.control(KIND_OF_TOOL[tool], what=f"{tool}:{tool}", hold=True)
    life = start_life(order)
    bench.provider.wait_for("held", what=f"{tool}:{tool}", timeout_seconds=60)
    life.send_signal(signal.SIGINT)
    if program is REFERENCE_ASYNC:
        bench.provider.release()  # its send is in a thread, and what is in flight is drained
    ended = finish(life)
    assert ended.exit_code not in (0, KILLED), ended
    bench.provider.release()
    passage = bench.recover(program, replace(order, do="resume"))
    assert passage.answers in ((), ("happened",) if tool == "asked" else ())


@pytest.mark.parametrize("tool", ["keyed", "create"])
def test_a_request_of_the_dead_that_lands_after_the_resume_began(bench: Bench, tool: str) -> None:
    """The provider still has the first request in its hands while the resume sends the same key."""
    order = bench.order(REFERENCE, tool)
    kind = KIND_OF_TOOL[tool]
    bench.provider.control(kind, what=f"{tool}:{tool}", hold_before_effect=True)
    life = start_life(order)
    bench.provider.wait_for("held", what=f"{tool}:{tool}", timeout_seconds=60)
    life.kill()
    assert finish(life).exit_code == KILLED
    if tool == "create":
        bench.provider.control(kind, what=f"{tool}:{tool}", hold=True)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(bench.recover, REFERENCE, replace(order, do="resume"))
        bench.provider.wait_for("in_flight" if tool == "keyed" else "effect", what=f"{tool}:{tool}", timeout_seconds=60)
        bench.provider.release()
        assert waiting.result().answers == ()


def test_of_two_resumes_at_once_one_wins(bench: Bench) -> None:
    order = bench.order(REFERENCE, "race")
    bench.provider.control("read", what="race:read", hold=True)
    life = start_life(order)
    bench.provider.wait_for("held", what="race:read", timeout_seconds=60)
    life.kill()
    finish(life)
    bench.provider.release()
    bench.provider.control("read", what="race:read", hold=True)
    resume = replace(order, do="resume")
    rivals = [start_life(resume), start_life(resume)]
    with ThreadPoolExecutor(2) as pool:
        ends = [pool.submit(finish, rival) for rival in rivals]
        wait(ends, return_when=FIRST_COMPLETED)  # the winner stands at the provider, so this is the loser
        bench.provider.wait_for("held", count=2, what="race:read", timeout_seconds=60)
        bench.provider.release()
        loser, winner = sorted((end.result() for end in ends), key=lambda end: -end.exit_code)
    assert (loser.exit_code, loser.says["error"]) == (LEASE_HELD, "LeaseHeld"), loser
    assert (winner.exit_code, winner.says["status"]) == (0, "succeeded"), winner
    assert bench.counts("race") == EFFECTS


@pytest.mark.parametrize("tool", ["keyed", "probed", "asked"])
def test_a_stopped_owner_keeps_its_run_until_it_is_killed(bench: Bench, tool: str) -> None:
    """It is not dead: it could wake and send; so nobody resumes, and nobody's "did not happen" counts (semantics #35)."""
    order = bench.order(REFERENCE, tool)
    bench.provider.control(KIND_OF_TOOL[tool], what=f"{tool}:{tool}", hold=True)
    life = start_life(order)
    bench.provider.wait_for("held", what=f"{tool}:{tool}", timeout_seconds=60)
    os.kill(life.pid, signal.SIGSTOP)
    resume = replace(order, do="resume")
    refused = bench.live(resume, {})
    assert (refused.exit_code, refused.says["error"]) == (LEASE_HELD, "LeaseHeld"), refused
    call = next(call for call in LedgerFile(Path(order.state_dir)).calls() if call.what == f"{tool}:{tool}")
    with perdure.open(state_dir=order.state_dir) as engine, pytest.raises(perdure.VerdictRefused):
        engine.resolve(call.tool_call_id, "did_not_happen")
    before = bench.counts(tool)
    took_over = bench.live(replace(order, do="take_over"), {})
    assert finish(life).exit_code == KILLED
    bench.provider.release()
    assert before[tool] == 1
    if tool == "asked":
        assert (took_over.exit_code, took_over.says["reason"]) == (7, "in_doubt"), took_over
        assert bench.person(order).answer(took_over.says["waiting_for"]) == ["happened"]
    else:
        assert took_over.exit_code == 0, took_over
    bench.recover(REFERENCE, resume)


def test_a_child_that_outlives_its_parent_may_still_send(bench: Bench) -> None:
    """The probe says no, and it means nothing while the child lives; nor does a person's no (semantics #25, #29)."""
    order = bench.order(BY_A_CHILD, "child")
    bench.provider.control("searchable", what="child:sent", hold_before_effect=True)
    life = start_life(order)
    bench.provider.wait_for("held", what="child:sent", timeout_seconds=60)
    life.kill()
    life.wait()
    resume = replace(order, do="resume")
    waits = bench.live(resume, {})
    assert (waits.exit_code, waits.says["reason"]) == (7, "in_doubt"), waits
    with perdure.open(state_dir=order.state_dir) as engine, pytest.raises(perdure.VerdictRefused):
        engine.resolve(waits.says["waiting_for"][0]["tool_call_id"], "did_not_happen")
    assert bench.counts("child") == {}
    bench.provider.release()
    bench.provider.wait_for("effect", what="child:sent", timeout_seconds=60)
    finish(life)
    passage = bench.recover(BY_A_CHILD, resume)
    assert passage.answers == ()
