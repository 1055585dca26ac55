"""A person's consent before a call is sent: bound to one request, used once, denied, superseded."""

from __future__ import annotations

import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from perdure import CallDenied, ToolFailed, VerdictRefused, tool
from tests.integration.approval_support import ALWAYS, Desk
from tests.integration.engine_support import Crash, Outside, live, mailer, open_engine
from tests.integration.test_turns import by_turns, loop, mail, says

# --- bound to one request, used once ---------------------------------------------------------------------------------


def test_an_answer_is_used_once_and_the_next_equal_call_is_asked_about_again(tmp_path: Path) -> None:
    outside = Outside()
    send = mailer(outside)
    desk = Desk(tmp_path)

    def main(run: Any) -> list[str]:
        return [send("a"), send("a")]

    assert desk.live(main).reason == "approval"
    first = desk.answer(lambda engine, item: (engine.approve(item.id), item)[1])
    assert desk.live(main, resume=True).reason == "approval"
    assert outside.sent == ["a:"]
    with desk.engine() as engine, pytest.raises(VerdictRefused, match=r"no open question: approved at .* by"):
        engine.approve(first.id)
    desk.answer(lambda engine, item: engine.approve(item.id))
    assert desk.live(main, resume=True).status == "succeeded"
    assert outside.sent == ["a:", "a:"]


def test_of_several_who_answer_at_once_one_wins(tmp_path: Path) -> None:
    outside = Outside()
    send = mailer(outside, approval="always")
    item = live(tmp_path, lambda run: send("a")).waiting_for[0]
    gate, taken, refused = threading.Barrier(4), [], []

    def answer(number: int) -> None:
        with open_engine(tmp_path) as engine:
            gate.wait()
            try:
                act = engine.approve if number % 2 else engine.deny
                act(item.id, reason=f"said {number}", actor=f"p{number}")
                taken.append(number)
            except VerdictRefused as problem:
                refused.append(str(problem))

    people = [threading.Thread(target=answer, args=(number,)) for number in range(4)]
    for one in people:
        one.start()
    for one in people:
        one.join()
    assert (len(taken), len(refused)) == (1, 3)
    assert all(f"by p{taken[0]}" in text for text in refused)
    with open_engine(tmp_path) as engine:
        said = [fact["says"] for fact in engine.call("r1.1")["evidence"] if fact["kind"] == "verdict"]
    assert said == ["approved" if taken[0] % 2 else "denied"]
    with suppress(CallDenied):
        live(tmp_path, lambda run: send("a"), resume=True)
    assert outside.sent == (["a:"] if taken[0] % 2 else [])


def test_several_questions_are_answered_together_or_not_at_all(tmp_path: Path) -> None:
    outside = Outside()
    send = mailer(outside, approval="always")

    async def main(run: Any) -> Any:
        import asyncio

        return await asyncio.gather(run.call(send, "a"), run.call(send, "b"))

    waiting = live(tmp_path, main)
    ids = [item.id for item in waiting.waiting_for]
    with open_engine(tmp_path) as engine:
        with pytest.raises(Exception, match="no question"):
            engine.approve_all([*ids, "a00nobody"])
        assert [item.id for _, item in engine.inbox("r1")] == ids
        assert [row.status for row in engine.approve_all(ids)] == ["prepared", "prepared"]
        assert engine.inbox("r1") == []
    assert live(tmp_path, main, resume=True).status == "succeeded"
    assert sorted(outside.sent) == ["a:", "b:"]


def test_an_approved_call_that_did_nothing_is_tried_again_without_another_question(tmp_path: Path) -> None:
    tries: list[int] = []

    @tool(name="send", side_effect_class="external")
    def send(to: str) -> str:
        tries.append(1)
        if len(tries) == 1:
            raise ToolFailed("the line was busy")
        return "sent"

    desk = Desk(tmp_path)
    desk.live(lambda run: send("a"))
    desk.answer(lambda engine, item: engine.approve(item.id))
    assert desk.live(lambda run: send("a"), resume=True).result == "sent"
    assert len(tries) == 2


def test_rules_that_come_to_ask_for_consent_are_obeyed_by_what_was_not_sent_yet(tmp_path: Path) -> None:
    """The call was turned back before it did anything; until the next try the rules have changed."""
    tries: list[str] = []

    @tool(name="send", side_effect_class="external")
    def send(to: str) -> str:
        tries.append(to)
        if len(tries) == 1:
            raise ToolFailed("try again later")
        return "sent"

    def main(run: Any) -> str:
        if run.attempt == 1:
            with suppress(ToolFailed):
                return run.call(send, "a")
        return send("a")

    desk = Desk(tmp_path, text="version: 1\nrules:\n  - {tool: send, max_attempts: 1}\n")
    assert desk.live(main).status == "failed"
    desk.policy.write_text(ALWAYS % "", "utf-8")
    assert desk.live(main, resume=True).reason == "approval"
    assert tries == ["a"]
    item = desk.answer(lambda engine, item: (engine.approve(item.id), item)[1])
    assert "The rules have come to ask for consent" in item.summary
    assert desk.live(main, resume=True).result == "sent"
    assert tries == ["a", "a"]


def test_a_call_that_a_rule_refused_is_looked_at_anew_when_the_run_is_resumed(tmp_path: Path) -> None:
    outside = Outside()
    send = mailer(outside)
    text = "version: 1\nrules:\n  - {tool: send, allow_args: {to: ['*@example.org']}}\n"
    desk = Desk(tmp_path, text=text)

    def main(run: Any) -> str:
        return send("boss@example.com")

    assert desk.live(main).error_code == "denied"
    assert desk.live(main, resume=True).error_code == "denied"
    assert outside.sent == []
    desk.policy.write_text(text.replace("example.org", "example.com"), "utf-8")
    assert desk.live(main, resume=True).result == "sent 1"
    assert outside.sent == ["boss@example.com:"]


# --- denied ----------------------------------------------------------------------------------------------------------


def test_a_denial_tells_the_program_why_in_every_life(tmp_path: Path) -> None:
    outside = Outside()
    send = mailer(outside, approval="always")

    def main(run: Any) -> str:
        try:
            send("a")
        except CallDenied as problem:
            if run.attempt == 2:
                raise Crash from None
            return str(problem)
        raise AssertionError("it was sent")

    live(tmp_path, main)
    with open_engine(tmp_path) as engine:
        ((_, item),) = engine.inbox()
        engine.deny(item.id, reason="not before Friday", actor="ann")
    assert live(tmp_path, main, resume=True).error_code == "Crash"
    assert live(tmp_path, main, resume=True).result == "send: ann denied it: not before Friday"
    assert outside.sent == []


def test_a_denial_that_ended_the_run_stays_one(tmp_path: Path) -> None:
    send = mailer(Outside(), approval="always")
    live(tmp_path, lambda run: send("a"))
    with open_engine(tmp_path) as engine:
        ((_, item),) = engine.inbox()
        engine.deny(item.id, reason="no")
    for _ in range(2):
        done = live(tmp_path, lambda run: send("a"), resume=True)
        assert (done.status, done.exit_code) == ("failed", 9)


def test_a_model_reads_the_denial_as_the_result_of_its_call(tmp_path: Path) -> None:
    outside = Outside()
    send = mailer(outside, approval="always")
    model = by_turns(says("", mail("a")))

    def main(run: Any) -> Any:
        return [send, loop(run, model)][1]

    live(tmp_path, main)
    with open_engine(tmp_path) as engine:
        ((_, item),) = engine.inbox()
        engine.deny(item.id, reason="write to bob instead", actor="ann")
    assert live(tmp_path, main, resume=True).result == ["ann denied it: write to bob instead"]
    assert outside.sent == []


# --- superseded ------------------------------------------------------------------------------------------------------


def test_calls_side_by_side_do_not_supersede_each_other(tmp_path: Path) -> None:
    outside = Outside()
    send = mailer(outside, approval="always")

    async def main(run: Any) -> Any:
        import asyncio

        return await asyncio.gather(run.call(send, "a"), run.call(send, "b"))

    for resume in (False, True):
        waiting = live(tmp_path, main, resume=resume)
        assert [item.superseded_by for item in waiting.waiting_for] == [None, None]


def test_a_program_that_is_put_back_asks_for_the_first_call_again(tmp_path: Path) -> None:
    outside = Outside()
    send = mailer(outside, approval="always")
    live(tmp_path, lambda run: send("a"))
    live(tmp_path, lambda run: send("b"), resume=True)
    with open_engine(tmp_path) as engine:
        assert [(item.tool_call_id, item.superseded_by) for _, item in engine.inbox()] == [
            ("r1.1", "r1.2"), ("r1.2", None),
        ]  # fmt: skip
    live(tmp_path, lambda run: send("a"), resume=True)
    with open_engine(tmp_path) as engine:
        first = next(item for _, item in engine.inbox() if item.tool_call_id == "r1.1")
        assert first.superseded_by is None
        engine.approve(first.id)
    assert live(tmp_path, lambda run: send("a"), resume=True).status == "succeeded"
    assert outside.sent == ["a:"]


def test_a_superseded_question_does_not_hold_up_the_run(tmp_path: Path) -> None:
    outside = Outside()
    send = mailer(outside, approval="always")
    live(tmp_path, lambda run: send("a"))
    waiting = live(tmp_path, lambda run: send("b"), resume=True)
    assert [item.tool_call_id for item in waiting.waiting_for] == ["r1.2"]
    with open_engine(tmp_path) as engine:
        engine.approve(waiting.waiting_for[0].id)
        assert engine.outcome("r1").status == "queued"
    assert live(tmp_path, lambda run: send("b"), resume=True).status == "succeeded"
    assert outside.sent == ["b:"]
