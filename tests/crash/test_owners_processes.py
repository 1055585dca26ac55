"""Owners that wake up again, that race, that sleep on another machine: real processes, and the provider counts."""

import os
import signal
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

import perdure
from tests.crash import pids
from tests.crash.loop import Bench, Program
from tests.crash.programs import EFFECTS, REFERENCE, REFERENCE_ASYNC
from tests.crash.support import LedgerFile, finish, planted, start_life
from tests.crash.test_planted_owners import counts, held_life, order_of
from tests.crash.test_suspension_siblings import PATIENCE_SECONDS, wait_until

LEASE_HELD, IN_DOUBT = 5, 7
KIND_OF_TOOL = {"keyed": "keyed", "probed": "searchable", "asked": "plain"}


@pytest.mark.parametrize("program", [REFERENCE, REFERENCE_ASYNC], ids=["sync", "async"])
@pytest.mark.parametrize("tool", list(KIND_OF_TOOL))
def test_an_owner_that_was_stopped_in_a_send_goes_on_when_it_is_woken(
    bench: Bench, program: Program, tool: str
) -> None:
    """Meanwhile nobody takes its run over and nobody's "it did not happen" counts (semantics #35)."""
    order = bench.order(program, f"woken-{tool}")
    owner = held_life(bench, order, KIND_OF_TOOL[tool], tool)
    os.kill(owner.pid, signal.SIGSTOP)
    for _ in range(2):
        refused = bench.live(replace(order, do="resume"), {})
        assert (refused.exit_code, refused.says["error"]) == (LEASE_HELD, "LeaseHeld"), refused
    call = next(item for item in LedgerFile(Path(order.state_dir)).calls() if item.what.endswith(f":{tool}"))
    with perdure.open(state_dir=order.state_dir) as engine, pytest.raises(perdure.VerdictRefused):
        engine.resolve(call.tool_call_id, "did_not_happen")
    bench.provider.release()
    assert owner.poll() is None
    os.kill(owner.pid, signal.SIGCONT)
    ended = finish(owner)
    assert (ended.exit_code, ended.says["status"], ended.says["attempt"]) == (0, "succeeded", 1), ended
    assert counts(bench, order) == EFFECTS


def test_of_many_resumes_at_once_one_lives_and_the_others_are_refused(bench: Bench) -> None:
    order = bench.order(REFERENCE, "crowd")
    owner = held_life(bench, order, "keyed", "keyed")
    owner.kill()
    finish(owner)
    bench.provider.release()
    rivals = [start_life(replace(order, do="resume")) for _ in range(5)]
    with ThreadPoolExecutor(5) as pool:
        ended = list(pool.map(finish, rivals))
    lived = [end for end in ended if end.exit_code == IN_DOUBT or (end.exit_code == 0 and end.says["attempt"] > 1)]
    refused = [end for end in ended if end.exit_code == LEASE_HELD]
    assert lived and len(lived) + len(refused) == 5, ended
    assert all(end.says["error"] == "LeaseHeld" for end in refused)
    passage = bench.recover(REFERENCE, replace(order, do="resume"))
    assert passage.lives == 1, "the first of them brought the run to its end"


def test_a_stranger_with_the_number_of_the_owner_is_not_killed(bench: Bench) -> None:
    if not pids.can_choose():
        pytest.skip("this kernel does not let the test choose the number of a process")
    order = order_of(bench, "probes:one", None, tool="searched")
    owner = held_life(bench, order, "searchable", "one")
    owner.kill()
    finish(owner)
    bench.provider.release()
    stranger = pids.with_number(owner.pid)
    try:
        took_over = bench.live(replace(order, do="take_over"), {})
        assert stranger.poll() is None
    finally:
        stranger.communicate()
    assert took_over.exit_code == 0, took_over
    assert counts(bench, order) == {"one": 1}


def test_an_owner_on_another_machine_is_believed_gone_only_when_its_lease_is_over(bench: Bench) -> None:
    """It was only asleep. What it sent before is in doubt; it sends nothing after; and its late answer is taken."""
    order = order_of(bench, "probes:two", None, tool="plain")
    bench.provider.control("plain", what="honest:one", hold=True)
    owner = start_life(order, planted("leases_are_short"))
    bench.provider.wait_for("held", what="honest:one", timeout_seconds=PATIENCE_SECONDS)
    os.kill(owner.pid, signal.SIGSTOP)
    elsewhere = planted("leases_are_short,this_is_another_host")
    resume, codes = replace(order, do="resume"), list[int]()

    def took_over() -> bool:
        codes.append(bench.live(resume, elsewhere).exit_code)
        return codes[-1] != LEASE_HELD

    wait_until(took_over, "the lease is over")
    assert codes[-1] == IN_DOUBT, "of a process elsewhere nothing is certain"
    bench.provider.release()
    os.kill(owner.pid, signal.SIGCONT)
    late = finish(owner)
    assert (late.exit_code, late.says["error"]) == (LEASE_HELD, "LeaseLost"), late
    assert counts(bench, order) == {"one": 1}
    ended = bench.live(resume, elsewhere)
    assert (ended.exit_code, ended.says["status"]) == (0, "succeeded"), "the late answer settled it; nobody was asked"
    assert counts(bench, order) == {"one": 1, "two": 1}


def test_the_command_line_refuses_a_held_run_and_takes_it_with_kill_owner(bench: Bench) -> None:
    order = bench.order(REFERENCE, "cli")
    owner = held_life(bench, order, "plain", "asked")

    def type_in(*words: str) -> int:
        said = [*words, "--state-dir", order.state_dir]
        return bench.live(replace(order, do="command", inputs={**order.inputs, "words": said}), {}).exit_code

    os.kill(owner.pid, signal.SIGSTOP)
    assert type_in("resume", "job") == LEASE_HELD
    assert type_in("resume", "job", "--kill-owner") == IN_DOUBT
    assert finish(owner).exit_code == -signal.SIGKILL
    bench.provider.release()
    call = next(item for item in LedgerFile(Path(order.state_dir)).calls() if item.what.endswith(":asked"))
    assert type_in("resolve", call.tool_call_id, "--happened", "--result", '{"id": "seen"}', "--resume") == 0
    assert counts(bench, order) == EFFECTS
