"""A completion report tells what people decided: answers, verdicts, grants, a cancel, and what an edit has changed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from perdure import Engine, tool
from tests.integration.engine_support import Crash, Outside, live, mailer, open_engine
from tests.integration.files_support import PAGE, report, workspace
from tests.integration.forks_support import letters
from tests.integration.job_support import Job


def _decided(document: dict[str, Any]) -> list[tuple[Any, ...]]:
    found = document["decisions"]
    assert found["in_all"] == len(found["decisions"])
    return [
        (item["actor"], item["kind"], item["says"], item["tool_call_id"], item["answer"], item["reason"])
        for item in found["decisions"]
    ]


def test_approvals_denials_and_answers_are_told_with_what_an_edit_has_changed(tmp_path: Path) -> None:
    outside = Outside()
    send = mailer(outside, approval="always", scope=["to"])

    def main(run: Any) -> str:
        send("ann", "hello")
        color = run.ask("which color?")
        try:
            send("bob")
        except Exception:
            return str(color)
        return "both"

    def answer(engine: Engine, item: Any) -> None:
        if item.kind == "question":
            engine.answer(item.id, "blue", actor="cleo")
        elif item.arguments["to"] == "ann":
            engine.approve(item.id, edit={"body": "good day"}, reason="politer", actor="cleo")
        else:
            engine.deny(item.id, reason="he left", actor="dora")

    found = live(tmp_path, main)
    while found.status == "waiting":
        with open_engine(tmp_path, tools=[send]) as engine:
            for _, item in engine.inbox():
                answer(engine, item)
        found = live(tmp_path, main)
    assert (found.result, outside.sent) == ("blue", ["ann:good day"])
    document = report(tmp_path)
    assert _decided(document) == [
        ("cleo", "approval", "approved", "r1.1", None, "politer"),
        ("cleo", "question", "answered", "r1.2", "blue", None),
        ("dora", "approval", "denied", "r1.3", None, "he left"),
    ]
    edited, *others = (item["changes"] for item in document["decisions"]["decisions"])
    assert edited == [{"argument": "body", "was": "hello", "now": "good day"}]
    assert others == [[], []]
    page = (workspace(tmp_path) / PAGE).read_text("utf-8")
    assert "## Decided by people (3)\n" in page
    assert '; body `"hello"` → `"good day"`; because `politer` (' in page
    assert "- cleo: answered `r1.2`" in page and "; `blue` (" in page


def test_verdicts_on_lost_calls_and_challenges_are_told(tmp_path: Path) -> None:
    outside = Outside()
    send = mailer(outside, scope=["to"])

    @tool(side_effect_class="external")
    def charge(order: str) -> str:
        raise ConnectionResetError(order)

    def first(run: Any) -> None:
        send("a", "one")
        raise Crash

    def second(run: Any) -> None:
        send("a", "two")
        charge("o1")

    live(tmp_path, first)
    live(tmp_path, second, resume=True)
    with open_engine(tmp_path) as engine:
        engine.resolve("r1.2", "same", actor="ann")
    live(tmp_path, second, resume=True)
    with open_engine(tmp_path) as engine:
        engine.resolve("r1.3", "happened", result="paid", reason="seen at the bank", actor="ann")
    assert live(tmp_path, second, resume=True).status == "succeeded"
    assert _decided(report(tmp_path)) == [
        ("ann", "challenge", "same", "r1.2", "r1.1", None),
        ("ann", "in_doubt", "happened", "r1.3", None, "seen at the bank"),
    ]


def test_grants_are_told_once_and_the_question_they_answer_is_no_second_decision(tmp_path: Path) -> None:
    job = Job(tmp_path, "budgets: {max_tool_calls: 1}\ndeadline: 2099-01-01T00:00:00Z")
    send = mailer(Outside())

    def main(run: Any) -> None:
        send("a")
        send("b")

    assert job.life(main).reason == "budget"
    with job.engine() as engine:
        engine.grant("r1", {"calls": 5, "deadline": "2099-01-02T00:00:00Z"}, actor="ann")
    assert job.life(main).status == "succeeded"
    document = json.loads((tmp_path / "workspaces/r1/job_completion_r1.json").read_text("utf-8"))
    assert _decided(document) == [
        ("ann", "grant", "granted", None, "calls=5", None),
        ("ann", "grant", "granted", None, "deadline=2099-01-02T00:00:00.000000Z", None),
    ]


def test_who_cancelled_a_run_and_why_is_told_and_a_run_without_people_tells_nothing(tmp_path: Path) -> None:
    with open_engine(tmp_path) as engine:
        engine.run(lambda run: run.ask("which?"), run_id="r1")
        engine.cancel("r1", reason="not needed", actor="ann")
        engine.run(lambda run: None, run_id="alone")
        alone = engine.completion("alone")
    assert _decided(report(tmp_path)) == [("ann", "cancel", "cancelled the run", None, None, "not needed")]
    assert alone["decisions"] == {"in_all": 0, "decisions": []}
    assert "Decided by people" not in (workspace(tmp_path).parent / "alone/job_completion_alone.md").read_text()


def test_the_report_of_a_fork_counts_inherited_and_simulated_calls_as_every_other_view_does(tmp_path: Path) -> None:
    main = letters(Outside())

    def with_a_memo(run: Any) -> Any:
        run.memo("first", lambda: 1)
        return main(run)

    with open_engine(tmp_path) as engine:
        engine.run(with_a_memo, run_id="p")
        fork = engine.fork("p", at="c4", main=with_a_memo, new_run_id="r1")
        plan = engine.fork_plan("p", at="c4")
        rows = engine.calls("r1")
        shown = engine.details("p")["checkpoints"]
    inherited = [row["tool_call_id"] for row in rows if row["inherited_from"]]
    simulated = [row["tool_call_id"] for row in rows if row["simulated"]]
    told = report(tmp_path)["fork"]
    assert (told["parent_run_id"], told["forked_from"], told["effects"]) == ("p", shown[3]["checkpoint_id"], "simulate")
    assert (
        (told["inherited"], told["simulated"]) == (fork.inherited, fork.simulated) == (len(inherited), len(simulated))
    )
    assert len(plan.receipts) == len(inherited) + 1, "the memo is a receipt, and no tool call"
    effects = report(tmp_path)["effects"]["calls"]
    assert {item["tool_call_id"] for item in effects if item["simulated"]} == set(simulated)
    assert all(bool(item["inherited_from"]) is not item["simulated"] for item in effects)
    page = (workspace(tmp_path) / PAGE).read_text("utf-8")
    assert f"- fork of p.c4, simulate: {fork.inherited} inherited, {fork.simulated} simulated\n" in page
    assert "simulated: nothing was sent" in page and "inherited from `p." in page
