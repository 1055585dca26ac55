"""A person's consent before a call is sent: single use, bound to one request, in time, edited, superseded."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from perdure import CallDenied, Engine, Outcome, ToolFailed, VerdictRefused, tool
from tests.integration.engine_support import FAST, Crash, Outside, live, mailer, open_engine, statuses
from tests.integration.test_doubts import SetClock
from tests.integration.test_turns import by_turns, loop, mail, says
from tests.integration.test_waiting import run_waiting

ALWAYS = "version: 1\nrules:\n  - {tool: send, approval: always%s}\n"


class Desk:
    """One ledger under a clock that is set, with a policy for the tool ``send``."""

    def __init__(self, folder: Path, more: str = "", text: str | None = None) -> None:
        self.folder, self.clock = folder, SetClock()
        self.policy = folder / "p.yaml"
        self.policy.write_text(text or ALWAYS % more, "utf-8")

    def engine(self) -> Engine:
        return Engine(
            f"sqlite:///{self.folder}/ledger.db", policies=[self.policy], clock=self.clock, tuning=FAST,
            state_dir=self.folder,
        )  # fmt: skip

    def live(self, main: Callable[..., Any], *, resume: bool = False) -> Outcome:
        with self.engine() as engine:
            return engine.resume("r1", main=main) if resume else engine.run(main, run_id="r1")

    def answer(self, act: Callable[[Engine, Any], Any]) -> Any:
        with self.engine() as engine:
            ((_, item),) = engine.inbox()
            return act(engine, item)

    def later(self, **much: float) -> None:
        self.clock.moment += timedelta(**much)


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
    with desk.engine() as engine, pytest.raises(VerdictRefused, match="no open question: approved at .* by"):
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


# --- in time ---------------------------------------------------------------------------------------------------------


def test_a_question_that_nobody_answers_in_time_refuses_the_call_and_frees_the_run(tmp_path: Path) -> None:
    outside = Outside()
    send = mailer(outside)
    desk = Desk(tmp_path, ", approval_expires: 24h")

    def main(run: Any) -> str:
        try:
            return send("a")
        except CallDenied as problem:
            return str(problem)

    waiting = desk.live(main)
    assert waiting.waiting_for[0].expires_at == "2026-11-21T12:00:00" + (waiting.waiting_for[0].expires_at or "")[19:]
    desk.later(hours=25)
    with desk.engine() as engine:
        assert engine.inbox() == []
        assert engine.outcome("r1").status == "queued"
        with pytest.raises(VerdictRefused, match="expired"):
            engine.approve(waiting.waiting_for[0].id)
    assert "nobody agreed to it by 2026-11-21" in desk.live(main, resume=True).result
    assert outside.sent == []


def test_the_answer_itself_is_too_late_where_nobody_has_looked_before(tmp_path: Path) -> None:
    outside = Outside()
    send = mailer(outside)
    desk = Desk(tmp_path, ", approval_expires: 1h")
    item = desk.live(lambda run: send("a")).waiting_for[0]
    desk.later(hours=2)
    with desk.engine() as engine, pytest.raises(VerdictRefused):
        engine.approve(item.id)
    assert desk.live(lambda run: send("a"), resume=True).error_code == "denied"
    assert outside.sent == []


def test_a_clock_that_was_set_back_revives_no_question(tmp_path: Path) -> None:
    """What is newest in the ledger counts where the wall clock lies before it (semantics #38)."""
    outside = Outside()
    send = mailer(outside)
    desk = Desk(tmp_path, ", approval_expires: 1h")
    item = desk.live(lambda run: send("a")).waiting_for[0]
    desk.later(hours=2)
    with desk.engine() as engine:
        engine.run(lambda run: 1, run_id="another")
    desk.later(hours=-2)
    with desk.engine() as engine, pytest.raises(VerdictRefused, match="expired"):
        engine.approve(item.id)


def test_a_run_that_an_expired_question_ended_asks_again_when_it_is_resumed(tmp_path: Path) -> None:
    outside = Outside()
    send = mailer(outside)
    desk = Desk(tmp_path, ", approval_expires: 1h")
    desk.live(lambda run: send("a"))
    desk.later(hours=2)
    assert desk.live(lambda run: send("a"), resume=True).error_code == "denied"
    assert desk.live(lambda run: send("a"), resume=True).reason == "approval"
    assert outside.sent == []
    desk.answer(lambda engine, item: engine.approve(item.id))
    assert desk.live(lambda run: send("a"), resume=True).status == "succeeded"
    assert outside.sent == ["a:"]


def test_a_waiting_process_sees_the_time_run_out(tmp_path: Path) -> None:
    outside = Outside()
    send = mailer(outside)
    policy = tmp_path / "p.yaml"
    policy.write_text(ALWAYS % ", approval_expires: 100ms", "utf-8")
    with open_engine(tmp_path, policies=[policy]) as engine:
        done = engine.run(lambda run: send("a"), run_id="r1", wait=True)
    assert (done.status, done.error_code, outside.sent) == ("failed", "denied", [])


def test_without_a_time_a_question_stays_open(tmp_path: Path) -> None:
    outside = Outside()
    send = mailer(outside)
    desk = Desk(tmp_path)
    desk.live(lambda run: send("a"))
    desk.later(days=400)
    desk.answer(lambda engine, item: engine.approve(item.id))
    assert desk.live(lambda run: send("a"), resume=True).status == "succeeded"


def test_what_was_decided_too_long_ago_is_asked_about_again_before_it_is_sent(tmp_path: Path) -> None:
    outside = Outside()
    send = mailer(outside)
    desk = Desk(tmp_path, ", valid_for: 24h")
    desk.live(lambda run: send("a"))
    desk.later(hours=20)
    desk.answer(lambda engine, item: engine.approve(item.id))
    desk.later(hours=23)  # the consent is younger than that
    desk.later(hours=2)
    again = desk.live(lambda run: send("a"), resume=True)
    assert (again.reason, outside.sent) == ("approval", [])
    assert "decided more than 86400 s ago" in again.waiting_for[0].summary
    desk.answer(lambda engine, item: engine.approve(item.id))
    desk.later(hours=23)
    assert desk.live(lambda run: send("a"), resume=True).status == "succeeded"
    assert outside.sent == ["a:"]


def test_the_same_key_is_not_sent_again_for_what_was_decided_too_long_ago(tmp_path: Path) -> None:
    keys: list[str] = []

    @tool(name="send", side_effect_class="external", key_ttl="30d", max_attempts=3)
    def send(to: str, *, call: Any) -> None:
        keys.append(call.idempotency_key)
        raise KeyboardInterrupt

    desk = Desk(tmp_path, text="version: 1\nrules:\n  - {tool: send, valid_for: 24h}\n")
    with pytest.raises(KeyboardInterrupt):
        desk.live(lambda run: send("a"))
    desk.later(hours=25)
    waiting = desk.live(lambda run: send("a"), resume=True)
    assert (waiting.reason, len(keys)) == ("in_doubt", 1)
    assert "longer ago than valid_for" in waiting.waiting_for[0].summary


# --- edited ----------------------------------------------------------------------------------------------------------


def test_an_edited_request_is_sent_once_and_met_by_the_program_that_asks_for_the_original(tmp_path: Path) -> None:
    outside = Outside()
    send = mailer(outside, approval="always", scope=["to"])

    def main(run: Any, fails: bool) -> str:
        got = send("ann", "hello")
        if fails:
            raise Crash
        return str(got)

    live(tmp_path, lambda run: main(run, True))
    with open_engine(tmp_path, tools=[send]) as engine:
        ((_, item),) = engine.inbox()
        assert engine.approve(item.id, edit={"body": "good day"}, actor="bob").status == "prepared"
        before = engine.call("r1.1")
    assert live(tmp_path, lambda run: main(run, True), resume=True).error_code == "Crash"
    assert live(tmp_path, lambda run: main(run, False), resume=True).result == "sent 1"
    assert outside.sent == ["ann:good day"]
    with open_engine(tmp_path) as engine:
        told = engine.call("r1.1")
    assert told["idempotency_key"] == before["idempotency_key"]
    assert told["edited"]["by"] == "bob"
    assert told["edited"]["asked_for"] == {"body": "hello", "to": "ann"}
    assert told["request"] == '{"body":"good day","to":"ann"}'
    assert statuses(tmp_path) == {"r1.1": "succeeded"}


def test_a_process_that_waits_sends_what_the_person_made_of_it(tmp_path: Path) -> None:
    outside = Outside()
    send = mailer(outside, approval="always")

    def answer(engine: Engine, item: Any) -> None:
        engine._registry.add(send)
        engine.approve(item.id, edit={"body": "edited"})

    done = run_waiting(tmp_path, lambda run: send("a", "asked"), answer)
    assert (done.status, outside.sent) == ("succeeded", ["a:edited"])


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        ({"amount": 5}, "has no argument 'amount'"),
        ({"to": 5}, "valid string"),
        ({"to": "boss@example.com"}, "not allowed, only"),
        ({}, "at least one argument"),
    ],
)
def test_an_edit_is_checked_as_the_call_itself_would_be(tmp_path: Path, edit: dict[str, Any], said: str) -> None:
    outside = Outside()
    send = mailer(outside)
    desk = Desk(tmp_path, ", allow_args: {to: ['*@example.org']}")
    desk.live(lambda run: send("a@example.org"))
    with desk.engine() as engine:
        engine._registry.add(send)
        ((_, item),) = engine.inbox()
        with pytest.raises(Exception, match=said):
            engine.approve(item.id, edit=edit)
        ((_, still),) = engine.inbox()
        assert (still.id, engine.call("r1.1")["status"]) == (item.id, "awaiting_approval")


def test_an_edit_needs_the_tool_to_check_it_by(tmp_path: Path) -> None:
    send = mailer(Outside(), approval="always")
    live(tmp_path, lambda run: send("a"))
    with open_engine(tmp_path) as engine:
        ((_, item),) = engine.inbox()
        engine._registry.find = lambda namespace, name: None  # type: ignore[method-assign]
        engine._registry.copy = lambda: engine._registry  # type: ignore[method-assign]
        with pytest.raises(VerdictRefused, match="does not know the tool send"):
            engine.approve(item.id, edit={"to": "b"})


def test_what_was_sent_once_is_not_edited_any_more(tmp_path: Path) -> None:
    """Its key has left with the arguments as they were; a provider may remember both."""
    tries: list[str] = []

    @tool(name="send", side_effect_class="external")
    def send(to: str) -> str:
        tries.append(to)
        raise ToolFailed("busy")

    desk = Desk(tmp_path, text="version: 1\nrules:\n  - {tool: send, max_attempts: 1}\n")
    desk.live(lambda run: send("a"))
    desk.policy.write_text(ALWAYS % ", max_attempts: 3", "utf-8")
    assert desk.live(lambda run: send("a"), resume=True).reason == "approval"
    with desk.engine() as engine:
        engine._registry.add(send)
        ((_, item),) = engine.inbox()
        with pytest.raises(VerdictRefused, match="its key was sent before"):
            engine.approve(item.id, edit={"to": "b"})


def test_an_edit_that_changes_the_scope_is_looked_at_beside_its_new_kin(tmp_path: Path) -> None:
    """Life one wrote to ann; what was meant for bob is edited into a second mail to ann, which nobody has met yet."""
    outside = Outside()
    send = mailer(outside, scope=["to"])
    desk = Desk(tmp_path, text="version: 1\nrules:\n  - {tool: send, approval: {when: {to: bob}}}\n")

    def main(run: Any) -> Any:
        if run.attempt == 1:
            send("ann", "first")
        return send("bob", "second")

    assert desk.live(main).reason == "approval"
    with desk.engine() as engine:
        engine._registry.add(send)
        ((_, item),) = engine.inbox()
        engine.approve(item.id, edit={"to": "ann"})
    asked = desk.live(main, resume=True)
    assert (asked.reason, outside.sent) == ("challenge", ["ann:first"])
    desk.answer(lambda engine, item: engine.resolve(item.tool_call_id, "another"))
    assert desk.live(main, resume=True).status == "succeeded"
    assert outside.sent == ["ann:first", "ann:second"]


def test_a_later_call_finds_what_an_edit_has_done_among_its_kin(tmp_path: Path) -> None:
    outside = Outside()
    send = mailer(outside, scope=["to"])
    desk = Desk(tmp_path, text="version: 1\nrules:\n  - {tool: send, approval: {when: {to: bob}}}\n")

    def first(run: Any) -> Any:
        send("bob", "x")
        raise Crash

    desk.live(first)
    with desk.engine() as engine:
        engine._registry.add(send)
        ((_, item),) = engine.inbox()
        engine.approve(item.id, edit={"to": "ann"})
    assert desk.live(first, resume=True).error_code == "Crash"
    asked = desk.live(lambda run: send("ann", "y"), resume=True)
    assert (asked.reason, outside.sent) == ("challenge", ["ann:x"])


def test_the_owner_of_a_dedupe_key_keeps_it_when_its_request_is_edited(tmp_path: Path) -> None:
    outside = Outside()
    send = mailer(outside, approval="always", scope=["to"])

    def main(run: Any) -> Any:
        return run.call(send, "bob", dedupe_key="order-1")

    live(tmp_path, main)
    with open_engine(tmp_path, tools=[send]) as engine:
        ((_, item),) = engine.inbox()
        engine.approve(item.id, edit={"to": "ann"})
    assert live(tmp_path, main, resume=True).result == "sent 1"
    assert outside.sent == ["ann:"]


def test_a_job_that_wants_no_duplicates_joins_what_an_edit_has_done(tmp_path: Path) -> None:
    sent: list[str] = []
    (tmp_path / "edited_job.py").write_text(
        "from perdure import tool\nSENT = []\n"
        "@tool(side_effect_class='external', approval={'when': {'to': 'bob'}})\n"
        "def send(to: str) -> str:\n    SENT.append(to)\n    return to\n"
        "def main(run):\n    return [send('bob'), send('ann')]\n",
        "utf-8",
    )
    job = tmp_path / "e.job.yaml"
    job.write_text(
        "name: e\nagent: {python: 'edited_job:main'}\nconstraints: {no_duplicate_external_actions: true}\n", "utf-8"
    )
    with open_engine(tmp_path) as engine:
        assert engine.run(job, run_id="r1").reason == "approval"
        ((_, item),) = engine.inbox()
        engine.approve(item.id, edit={"to": "ann"})  # the job says where its tool is
        done = engine.resume("r1")
    import sys

    sent = sys.modules["edited_job"].SENT
    assert (done.result, sent) == (["ann", "ann"], ["ann"])


# --- superseded ------------------------------------------------------------------------------------------------------


def test_calls_side_by_side_do_not_supersede_each_other(tmp_path: Path) -> None:
    outside = Outside()
    send = mailer(outside, approval="always")

    async def main(run: Any) -> Any:
        import asyncio

        return await asyncio.gather(run.call(send, "a"), run.call(send, "b"))

    live(tmp_path, main)
    waiting = live(tmp_path, main, resume=True)
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
