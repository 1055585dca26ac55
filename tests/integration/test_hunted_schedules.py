"""Schedules in which an effect could be repeated, or left out, and nobody would be told: counted outside."""

from __future__ import annotations

import threading
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from perdure import CallContext, CallFailed, ToolFailed, tool
from tests.integration.engine_support import FAST, Crash, Outside, mailer, open_engine
from tests.integration.test_doubts import SetClock
from tests.integration.test_late_done import leave_reply, lost


def policy(folder: Path, said: str) -> Path:
    """Write a policy file about ``send``."""
    file = folder / f"{abs(hash(said))}.policy.yaml"
    file.write_text(f"version: 1\nrules:\n  - tool: send\n    {said}\n", "utf-8")
    return file


@pytest.mark.parametrize("keyed", [False, True])
def test_two_attempts_that_were_both_done_are_told_of_whichever_reply_comes_first(tmp_path: Path, keyed: bool) -> None:
    """A person said "no" by force; the first sender comes back while the second attempt is on its way."""

    @tool(name="send", side_effect_class="external", **({"key_ttl": "1h", "max_attempts": 1} if keyed else {}))
    def gone(to: str, *, call: CallContext) -> str:
        raise ConnectionResetError

    @tool(name="send", side_effect_class="external", **({"key_ttl": "1h"} if keyed else {}))
    def again(to: str, *, call: CallContext) -> str:
        leave_reply(engine, "r1.1", 1, ref=None)
        return "sent again"

    with open_engine(tmp_path) as engine:
        assert engine.run(lambda run: run.call(gone, "a"), run_id="r1").reason == "in_doubt"
        engine.resolve("r1.1", "did_not_happen", force=True)
        done = engine.resume("r1", main=lambda run: run.call(again, "a"))
        assert (done.status, done.duplicates_found) == ("succeeded", 0 if keyed else 1)
        assert [item.summary.split(";")[0].partition(" was ")[2] for _, item in engine.inbox()] == (
            [] if keyed else ["done twice: the receipt, and a late reply"]
        )


def test_a_reply_of_the_attempt_that_a_person_knew_of_is_no_duplicate(tmp_path: Path) -> None:
    """The person left the reference out; the sender's own word brings it, of the same attempt."""
    begun, go_on = threading.Event(), threading.Event()

    @tool(name="send", side_effect_class="external", timeout=0.02)
    def slow(to: str, *, call: CallContext) -> str:
        begun.set()
        go_on.wait(600)
        call.record("m1")
        return "sent"

    with open_engine(tmp_path) as engine:
        assert engine.run(lambda run: run.call(slow, "a"), run_id="r1").reason == "in_doubt"
        engine.resolve("r1.1", "happened", result="seen")
        senders = [thread for thread in threading.enumerate() if thread.name == "perdure-r1.1"]
        go_on.set()
        for sender in senders:
            sender.join()
        assert (engine.outcome("r1").duplicates_found, engine.inbox()) == (0, [])
        assert engine.verify().ok


def test_a_failed_call_whose_reply_came_late_is_not_sent_again_by_a_resume(tmp_path: Path) -> None:
    outside = Outside()
    send = mailer(outside)

    @tool(name="send", side_effect_class="external", max_attempts=1)
    def refused(to: str, body: str = "") -> str:
        raise ToolFailed("the provider is closed", retry=False)

    with open_engine(tmp_path) as engine:
        engine.run(lost, run_id="r1")
        engine.resolve("r1.1", "did_not_happen")
        assert engine.resume("r1", main=lambda run: run.call(refused, "a")).status == "failed"
        leave_reply(engine, "r1.1", 1)
        again = engine.resume("r1", main=lambda run: run.call(send, "a"))
        assert (again.status, again.result, outside.sent) == ("succeeded", "sent late", [])


def test_an_edited_and_approved_call_survives_a_crash_and_a_rule_that_does_not_allow_it_any_more(
    tmp_path: Path,
) -> None:
    outside = Outside()
    wire = mailer(outside, approval="always", scope=["to"])

    def main(run: Any) -> Any:
        return run.call(wire, "ann")

    with open_engine(tmp_path, tools=[wire]) as engine:
        assert engine.run(main, run_id="r1").reason == "approval"
        ((_, item),) = engine.inbox()
        engine.approve(item.id, edit={"to": "bob"})
    tighter = policy(tmp_path, "allow_args: {to: [ann]}")
    with open_engine(tmp_path, policies=[tighter]) as engine:
        refused = engine.resume("r1", main=main)
        assert (refused.status, refused.error_code, outside.sent) == ("failed", "denied", [])
    with open_engine(tmp_path) as engine:
        ended = engine.resume("r1", main=main)
        assert (ended.status, outside.sent) in ((("succeeded"), ["bob:"]), (("failed"), []))


def test_what_was_sent_edited_is_kin_of_what_a_changed_program_asks_for_next(tmp_path: Path) -> None:
    outside = Outside()
    wire = mailer(outside, approval="always", scope=["to"])

    def first(run: Any) -> Any:
        run.call(wire, "ann")
        raise Crash

    with open_engine(tmp_path, tools=[wire]) as engine:
        engine.run(first, run_id="r1")
        engine.approve(engine.inbox()[0][1].id, edit={"to": "bob"})
        assert engine.resume("r1", main=first).status == "failed"
        assert outside.sent == ["bob:"]
        plain = mailer(outside, scope=["to"])
        asked = engine.resume("r1", main=lambda run: run.call(plain, "bob"))
        assert (asked.reason, outside.sent) == ("challenge", ["bob:"])


def test_a_keyed_doubt_is_not_sent_again_under_a_rule_that_forbids_it_now(tmp_path: Path) -> None:
    sent: list[str] = []

    @tool(name="send", side_effect_class="external", key_ttl="1h", max_attempts=1)
    def gone(to: str, *, call: CallContext) -> str:
        sent.append(call.idempotency_key)
        raise ConnectionResetError

    @tool(name="send", side_effect_class="external", key_ttl="1h", max_attempts=5)
    def send(to: str, *, call: CallContext) -> str:
        sent.append(call.idempotency_key)
        return "sent"

    with open_engine(tmp_path) as engine:
        assert engine.run(lambda run: run.call(gone, "eve"), run_id="r1").reason == "in_doubt"
    with open_engine(tmp_path, policies=[policy(tmp_path, "allow_args: {to: [ann]}")]) as engine:
        waits = engine.resume("r1", main=lambda run: run.call(send, "eve"))
        assert (waits.reason, len(sent)) == ("in_doubt", 1)
    with open_engine(tmp_path) as engine:
        done = engine.resume("r1", main=lambda run: run.call(send, "eve"))
        assert (done.result, len(set(sent)), len(sent)) == ("sent", 1, 2)


@pytest.mark.parametrize("step_hours", [-24, 24])
def test_a_timer_between_two_effects_and_a_clock_that_steps_change_no_count(tmp_path: Path, step_hours: int) -> None:
    clock, outside = SetClock(), Outside()
    send = mailer(outside)

    def main(run: Any) -> str:
        run.call(send, "before")
        run.sleep(3600)
        return str(run.call(send, "after"))

    with open_engine(tmp_path, clock=clock) as engine:
        assert engine.run(main, run_id="r1").reason == "timer"
        clock.moment += timedelta(hours=step_hours)
        early = engine.resume("r1", main=main)
        assert (early.status == "succeeded") is (step_hours > 0)
        clock.moment += timedelta(hours=2 - min(0, step_hours))
        assert engine.resume("r1", main=main).status == "succeeded"
    assert outside.sent == ["before:", "after:"]


def test_a_live_fork_of_a_run_that_is_cancelled_over_its_doubt_is_asked_before_it_sends(tmp_path: Path) -> None:
    outside = Outside()
    send = mailer(outside)

    def main(run: Any) -> Any:
        return run.call(send, "a")

    with open_engine(tmp_path) as engine:
        engine.run(lost, run_id="p")
        engine.cancel("p")
        fork = engine.fork("p", at="start", effects="live", main=main, new_run_id="f")
        assert (fork.reason, outside.sent) == ("challenge", [])
        leave_reply(engine, "p.1", 1)
        with pytest.raises(Exception, match=r"p\.1 happened"):
            engine.resolve("p.1", "did_not_happen", force=True)
        engine.resolve("f.1", "same")
        assert (engine.resume("f", main=main).result, outside.sent) == ("sent late", [])


@pytest.mark.parametrize("answer", ["happened", "did_not_happen"])
def test_a_dedupe_key_of_a_cancelled_runs_doubt_is_free_only_when_it_was_not_done(tmp_path: Path, answer: str) -> None:
    outside = Outside()
    send = mailer(outside)

    @tool(name="send", side_effect_class="external")
    def gone(to: str, body: str = "") -> str:
        raise ConnectionResetError

    with pytest.warns(RuntimeWarning, match="dedupe_key"), open_engine(tmp_path) as engine:
        engine.run(lambda run: run.call(gone, "a", dedupe_key="k"), run_id="r1")
        engine.cancel("r1")
        assert engine.run(lambda run: run.call(send, "a", dedupe_key="k"), run_id="r2").status == "queued"
        engine.resolve("r1.1", answer, **({"result": "seen"} if answer == "happened" else {}))
        done = engine.resume("r2", main=lambda run: run.call(send, "a", dedupe_key="k"))
        assert (done.status, len(outside.sent)) == ("succeeded", 1 if answer == "did_not_happen" else 0)


def test_a_fallback_that_was_sent_stays_when_the_first_way_turns_out_to_have_worked(tmp_path: Path) -> None:
    """The first card was taken for not charged, and was: both stand in the ledger, and somebody is told."""
    outside = Outside()

    @tool(name="other", side_effect_class="external", scope=["to"])
    def other(to: str) -> str:
        outside.sent.append(f"{to}:")
        return "sent"

    @tool(name="send", side_effect_class="external", max_attempts=1)
    def refused(to: str, body: str = "") -> str:
        raise ToolFailed("closed", retry=False)

    def main(run: Any) -> str:
        try:
            return str(run.call(refused, "a"))
        except CallFailed:
            return str(run.call(other, "b"))

    begun, go_on = threading.Event(), threading.Event()

    @tool(name="send", side_effect_class="external", timeout=0.02)
    def slow(to: str, body: str = "") -> str:
        begun.set()
        go_on.wait(600)
        return "sent after all"

    with open_engine(tmp_path, tuning=replace(FAST, sender_grace_seconds=0.02)) as engine:
        assert engine.run(lambda run: run.call(slow, "a"), run_id="r1").reason == "in_doubt"
        engine.resolve("r1.1", "did_not_happen", force=True)
        assert engine.resume("r1", main=main).status == "succeeded"
        assert outside.sent == ["b:"]
        go_on.set()
        while not engine.inbox():
            begun.wait(0.01)
        assert "a late reply says that it was done" in engine.inbox()[0][1].summary
