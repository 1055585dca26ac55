"""A person approves a call with changed arguments: what is sent, who meets it, and what it is kin to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from perdure import Engine, ToolFailed, VerdictRefused, tool
from tests.integration.approval_support import ALWAYS, Desk
from tests.integration.engine_support import Crash, Outside, live, mailer, open_engine, statuses
from tests.integration.test_waiting import run_waiting


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
