"""Rules that meet: forks with what waits, retention, limits, changes and approvals, each with another one of them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from perdure import Annotate, LeaseHeld, SpecMismatch, VerdictRefused
from perdure.model.errors import BodyPruned
from perdure.model.run import RunStatus
from perdure.testing import FakeClock
from tests.integration.canaries import canaries
from tests.integration.engine_support import Crash, Outside, mailer, open_engine
from tests.integration.job_support import Job
from tests.integration.test_phases import agent, reviewed


@pytest.fixture
def outside() -> Outside:
    return Outside()


# --- forks of what is not a plain call ------------------------------------------------------------------------------


def test_a_fork_meets_the_answer_and_the_timer_of_its_parent_and_asks_nobody_again(tmp_path: Path) -> None:
    clock = FakeClock()

    def main(run: Any) -> str:
        found = run.ask("which one?", options=["red", "blue"])
        run.sleep(3600)
        run.checkpoint()
        return f"{found} at {run.inputs['speed']}"

    with open_engine(tmp_path, clock=clock) as engine:
        (asked,) = engine.run(main, {"speed": 1}, run_id="p").waiting_for
        engine.answer(asked.id, "blue")
        assert engine.resume("p", main=main).reason == "timer"
        clock.advance(hours=1)
        assert engine.resume("p", main=main).result == "blue at 1"
        fork = engine.fork("p", inputs={"speed": 2}, main=main)
        assert (fork.status, fork.result, engine.inbox()) == (RunStatus.SUCCEEDED, "blue at 2", [])


def test_a_fork_of_a_run_that_still_waits_has_a_question_and_a_timer_of_its_own(tmp_path: Path) -> None:
    clock = FakeClock()

    def asks(run: Any) -> str:
        run.checkpoint()
        return str(run.ask("which one?"))

    def sleeps(run: Any) -> str:
        run.checkpoint()
        run.sleep(3600)
        return "rested"

    with open_engine(tmp_path, clock=clock) as engine:
        (of_parent,) = engine.run(asks, run_id="p").waiting_for
        (of_fork,) = engine.fork("p", main=asks, new_run_id="f").waiting_for
        assert of_fork.id != of_parent.id
        engine.answer(of_fork.id, "blue")
        assert engine.resume("f", main=asks).result == "blue"
        assert engine.outcome("p").waiting_for == (of_parent,), "the parent still asks"
        engine.run(sleeps, run_id="s")
        clock.advance(minutes=30)
        fork = engine.fork("s", main=sleeps, new_run_id="t")
        assert (fork.status, fork.reason) == ("waiting", "timer")
        clock.advance(minutes=61)
        assert [engine.resume(run_id, main=sleeps).result for run_id in ("s", "t")] == ["rested", "rested"]


def test_a_fork_inherits_what_a_critic_has_said_of_a_phase(tmp_path: Path) -> None:
    seen: list[str] = []

    def critic(view: Any) -> Any:
        seen.append(f"{view.run_id} {view.phase}")
        return Annotate("fine")

    main = reviewed(agent("sync"), critic)
    with open_engine(tmp_path) as engine:
        assert engine.run(main, run_id="p").status is RunStatus.SUCCEEDED
        assert engine.fork("p", main=main, new_run_id="f").status is RunStatus.SUCCEEDED
    assert seen == ["p plan", "p send", "f send"], "what was said before the checkpoint is not asked again"


def test_the_bodies_of_a_parent_stay_as_long_as_a_fork_of_it_has_its_own(tmp_path: Path, outside: Outside) -> None:
    clock, stops = FakeClock(), [True]
    send = mailer(outside, scope=["to"])

    def main(run: Any) -> str:
        got = send("ann", "a body that two runs share")
        run.checkpoint()
        if run.run_id == "f" and stops:
            raise Crash
        return str(got)

    with open_engine(tmp_path, clock=clock) as engine:
        engine.run(main, run_id="p")
        clock.advance(days=40)
        assert engine.fork("p", main=main, new_run_id="f").error_code == "Crash"
        assert engine.prune(older_than="30d").kept == (("p", "run f was forked from it"),)
        assert engine.verify().ok
        stops.clear()
        assert engine.resume("f", main=main).result == "sent 1"
        assert engine.prune(older_than=0).runs == ("f",)
        assert engine.prune(older_than=0).runs == ("p",)
        assert engine.verify().ok
        with pytest.raises(BodyPruned):
            engine.fork("p", main=main)
        assert engine.run(main, run_id="p").status is RunStatus.SUCCEEDED, "its outcome stays"
    assert outside.sent == ["ann:a body that two runs share"]


def test_a_simulated_fork_asks_for_no_approval_and_gets_the_receipt_of_what_a_person_made_of_the_call(
    tmp_path: Path, outside: Outside
) -> None:
    send = mailer(outside, scope=["to"], approval="always")
    pretended: list[str] = []

    @send.simulate
    def pretend(to: str, body: str = "") -> str:
        pretended.append(body)
        return f"as if {body} were sent"

    def main(run: Any) -> str:
        run.checkpoint()
        return str(send("ann", "hello"))

    with open_engine(tmp_path, tools=[send]) as engine:
        (asked,) = engine.run(main, run_id="p").waiting_for
        early = engine.fork("p", main=main, new_run_id="early")
        assert (early.status, early.result, early.simulated) == (RunStatus.SUCCEEDED, "as if hello were sent", 1)
        assert engine.outcome("p").waiting_for == (asked,), "the parent still waits for its own"
        engine.approve(asked.id, edit={"body": "good day"})
        assert engine.resume("p", main=main).result == "sent 1"
        late = engine.fork("p", at="c1", main=main, new_run_id="late")
        assert (late.result, late.simulated, pretended) == ("sent 1", 1, ["hello"])
    assert outside.sent == ["ann:good day"]


# --- limits, deadlines, questions -----------------------------------------------------------------------------------


def over_budget(outside: Outside) -> Callable[[Any], list[str]]:
    send = mailer(outside)
    return lambda run: [send(f"to{number}") for number in range(3)]


def test_a_cancel_closes_the_question_about_a_budget(tmp_path: Path, outside: Outside) -> None:
    job = Job(tmp_path, "budgets: {max_tool_calls: 1}")
    with job.engine() as engine:
        (asked,) = job.live_in(engine, over_budget(outside)).waiting_for
        assert engine.cancel("r1", actor="ann").waiting_for == ()
        assert engine.inbox() == []
        with pytest.raises(VerdictRefused):
            engine.grant("r1", {"calls": 5})
        assert engine._ledger.read(lambda store: store.questions.get(asked.id)).status == "closed"  # type: ignore[union-attr]
    assert outside.sent == ["to0:"]


def test_a_deadline_that_passes_closes_the_question_about_a_budget_which_is_asked_again_after_a_grant(
    tmp_path: Path, outside: Outside
) -> None:
    job = Job(tmp_path, "budgets: {max_tool_calls: 1}\ndeadline: 2026-01-01T13:00:00Z")
    with job.engine() as engine:
        (first,) = job.live_in(engine, over_budget(outside)).waiting_for
        job.clock.advance(hours=2)
        late = engine.outcome("r1")
        assert (late.status, late.exit_code, late.waiting_for) == (RunStatus.FAILED, 8, ())
        assert late.way_on.startswith("go on with: perdure resume r1 "), late.way_on
        assert late.way_on.endswith("--grant deadline=+2h"), late.way_on
        assert engine.inbox() == []
        again = job.live_in(engine, over_budget(outside), grant={"deadline": "+2h"})
        (second,) = again.waiting_for
        assert (again.reason, second.id != first.id) == ("budget", True)
        assert job.live_in(engine, over_budget(outside), grant={"calls": 5}).status is RunStatus.SUCCEEDED
    assert outside.sent == ["to0:", "to1:", "to2:"]


def test_a_run_that_waits_for_a_budget_is_told_to_go_on_with_a_grant(tmp_path: Path, outside: Outside) -> None:
    from perdure.quick import lines_of

    job = Job(tmp_path, "budgets: {max_tool_calls: 1}")
    found = job.life(over_budget(outside))
    assert lines_of(found)[-1].startswith("  go on with: perdure resume r1 --grant calls=1"), lines_of(found)
    assert "--grant" not in found.resume_command
    restart = (Path(found.workspace) / "restart.sh").read_text("utf-8")
    assert "put --grant behind the last line" in restart
    last = restart.splitlines()[-1]
    assert " -m perdure resume r1 " in last and "--grant" not in last


def test_the_next_life_is_told_what_is_left_of_the_budgets_and_what_has_changed(
    tmp_path: Path, outside: Outside
) -> None:
    job, packets = Job(tmp_path, "budgets: {max_tool_calls: 1, max_steps: 9}"), list[str]()

    def of(send: Any) -> Callable[[Any], None]:
        def main(run: Any) -> None:
            packets.append(str(run.resume_packet))
            for number in range(3):
                send(f"to{number}")

        return main

    job.life(of(mailer(outside, scope=["to"])))
    job.life(of(mailer(outside, key_ttl="24h")), grant={"calls": 1})
    said = packets[-1]
    assert "- tool calls: 1 used of 2, 1 of them granted; 1 left" in said
    assert "- steps: 0 used of 9; 9 left" in said
    assert "Changed since the run was last driven" in said
    assert "tool local.send: its effect scope: to → none" in said


def test_a_grant_stands_even_where_the_run_cannot_be_entered_now_and_says_so(tmp_path: Path, outside: Outside) -> None:
    job = Job(tmp_path, "budgets: {max_tool_calls: 1}")
    with job.engine() as other, job.engine() as engine:

        def main(run: Any) -> list[str]:
            with pytest.raises(LeaseHeld) as refused:
                other.resume("r1", main=main, grant={"calls": 5})
            assert refused.value.safe.startswith("What was granted is recorded; do not grant it again. The owner goes")
            return over_budget(outside)(run)

        assert job.live_in(engine, main).status is RunStatus.SUCCEEDED
    assert len(outside.sent) == 3


def test_an_id_that_is_taken_names_both_ways_on(tmp_path: Path) -> None:
    job = tmp_path / "a.job.yaml"
    job.write_text("name: a\nagent: {python: 'taken:main'}\ninputs: {x: 1}\n")
    (tmp_path / "taken.py").write_text("def main(run):\n    return 1\n")
    with open_engine(tmp_path) as engine:
        engine.run(job, run_id="r1")
        with pytest.raises(SpecMismatch) as refused:
            engine.run(job, {"x": 2}, run_id="r1")
        assert refused.value.next_command.startswith("perdure resume r1 ")
        assert "perdure fork r1" in refused.value.next_command
        text = (Path(engine.outcome("r1").workspace) / "job_completion_r1.md").read_text("utf-8")
        assert "begin another run from it: `perdure fork r1" in text


def test_a_deadline_ends_a_run_that_sleeps_and_a_later_one_lets_it_rest_again(tmp_path: Path) -> None:
    job = Job(tmp_path, "deadline: 2026-01-01T13:00:00Z")

    def main(run: Any) -> str:
        run.sleep(10_000)
        return "rested"

    job.clock = FakeClock()  # one by which nobody is moved on
    with job.engine() as engine:
        assert job.live_in(engine, main).reason == "timer"
        job.clock.advance(hours=2)
        late = engine.resume("r1", main=main)
        assert (late.status, late.exit_code, late.waiting_for) == (RunStatus.FAILED, 8, ())
        assert [call["status"] for call in engine.calls("r1", inner=True)] == ["cancelled"]
        assert job.live_in(engine, main, grant={"deadline": "+5h"}).reason == "timer"
        job.clock.advance(hours=4)
        assert job.live_in(engine, main).result == "rested"


def test_a_question_of_the_program_waits_beside_one_about_a_change(tmp_path: Path) -> None:
    def main(answer: str) -> Callable[[Any], str]:
        def run_it(run: Any) -> str:
            return f"{run.ask('which one?')} {answer}"

        return run_it

    job = Job(tmp_path, "on_change: ask")
    first = main("before")

    def changed(run: Any) -> str:
        return f"{run.ask('which one?')} after"

    with job.engine() as engine:
        (asked,) = job.live_in(engine, first).waiting_for
        waiting = job.live_in(engine, changed).waiting_for
        kinds = {item.id: item.summary for item in waiting}
        assert len(kinds) == 2 and asked.id in kinds
        (change,) = set(kinds) - {asked.id}
        engine.answer(asked.id, "blue")
        assert engine.outcome("r1").status is RunStatus.WAITING, "the change is not agreed to yet"
        engine.answer(change, "continue")
        assert job.live_in(engine, changed).result == "blue after"


# --- a cancel while the program sleeps ------------------------------------------------------------------------------


def test_a_short_sleep_of_a_sync_program_ends_when_its_run_is_cancelled(tmp_path: Path) -> None:
    begun = threading.Event()

    def main(run: Any) -> None:
        begun.set()
        run.sleep(50)

    with open_engine(tmp_path) as engine:

        def act() -> None:
            begun.wait(60)
            engine.cancel("r1", actor="ann")

        person = threading.Thread(target=act)
        person.start()
        found = engine.run(main, run_id="r1")
        person.join()
    assert (found.status, found.exit_code) == (RunStatus.CANCELLED, 11)


# --- a ledger whose key is gone -------------------------------------------------------------------------------------


def test_everything_for_people_is_told_without_the_key_of_the_secrets(tmp_path: Path, outside: Outside) -> None:
    token = canaries()[0]
    send = mailer(outside, approval="always")

    def main(_run: Any) -> str:
        return str(send("ann", token.text))

    with open_engine(tmp_path, redaction="strict") as engine:
        engine.run(main, run_id="r1")
    (tmp_path / "state" / "redaction.key").unlink()
    with open_engine(tmp_path, tools=[send], redaction="strict") as engine:
        (item,) = engine.outcome("r1").waiting_for
        assert item.arguments is not None and item.arguments["to"] == "ann"
        assert [found.id for _, found in engine.inbox()] == [item.id]
        told = [str(engine.call("r1.1")), str(engine.details("r1")), str(engine.forecast("r1")), str(item)]
        engine.export("r1")
        engine.cancel("r1", actor="ann")
        told.append(str(engine.completion("r1")))
    assert [text for text in told if token.value in text] == []
    assert outside.sent == []
