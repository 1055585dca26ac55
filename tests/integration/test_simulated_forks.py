"""Simulated forks: the parent's receipt, a stand-in or a stop, and nothing goes out (R121, C20)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from perdure import ToolFailed, tool
from perdure.model.errors import (
    SimulationMissing,
)
from perdure.model.run import RunStatus
from tests.integration.engine_support import Outside, mailer, open_engine


def test_a_simulated_call_gets_the_parents_receipt_else_the_tools_own_stand_in(tmp_path: Path) -> None:
    outside = Outside()
    send = mailer(outside, scope=["to"])

    @send.simulate
    def pretend(to: str, body: str = "") -> str:
        return f"as if sent to {to}"

    def main(run: Any) -> list[str]:
        run.checkpoint()
        return [send(to) for to in run.inputs["to"]]

    with open_engine(tmp_path) as engine:
        engine.run(main, {"to": ["a", "b"]}, run_id="p")
        fork = engine.fork("p", at="c1", inputs={"to": ["b", "c", "b"]}, main=main, new_run_id="f")
        shown = engine.call("f.2")
    assert fork.result == ["sent 2", "as if sent to c", "sent 2"]
    assert outside.sent == ["a:", "b:"]
    assert [item["detail"] for item in shown["evidence"]] == ["the tool's simulate function"]


def test_a_simulation_that_nothing_stands_in_for_stops_the_run_and_names_three_ways_out(tmp_path: Path) -> None:
    outside = Outside()
    send = mailer(outside, scope=["to"])

    def main(run: Any) -> str:
        try:
            return str(send(run.inputs["to"]))
        except SimulationMissing:
            return "the program goes on as if nothing were wrong"

    with open_engine(tmp_path) as engine:
        engine.run(main, {"to": "a"}, run_id="p")
        fork = engine.fork("p", at="start", inputs={"to": "b"}, main=main)
    assert (fork.status, fork.error_code, fork.exit_code) == ("failed", "simulation_missing", 2)
    assert fork.error_detail is not None
    assert all(way in fork.error_detail for way in ("@send.simulate", "later checkpoint of p", "--effects live"))
    assert outside.sent == ["a:"]


def test_a_definite_failure_of_the_parent_fails_again_in_a_simulation_and_is_tried_again_live(tmp_path: Path) -> None:
    broken = [True]
    tried: list[str] = []

    @tool(side_effect_class="external", scope=["card"])
    def charge(card: str) -> str:
        tried.append(card)
        if broken:
            raise ToolFailed("declined", retry=False)
        return "charged"

    def main(run: Any) -> str:
        run.checkpoint()
        return str(charge("a"))

    with open_engine(tmp_path) as engine:
        assert engine.run(main, run_id="p").status is RunStatus.FAILED
        fork = engine.fork("p", main=main)
        assert (fork.status, fork.error_code) == ("failed", "CallFailed") and "declined" in (fork.error_detail or "")
        assert tried == ["a"]
        broken.clear()
        live = engine.fork("p", effects="live", main=main)
    assert (live.status, live.result) == ("succeeded", "charged")


@pytest.mark.parametrize("is_async", [False, True])
def test_a_live_fork_uses_no_value_that_came_from_a_simulated_effect(tmp_path: Path, is_async: bool) -> None:
    """A memo, a read and a file made after a simulated call hold what it gave back, and no argument shows it."""
    outside, read = Outside(), list[str]()
    send = mailer(outside)
    last = {"receipt": ""}

    @tool(name="look", side_effect_class="read_only")
    def look() -> str:
        read.append(last["receipt"])
        return f"looked at {last['receipt']}"

    @send.simulate
    def pretend(to: str, body: str = "") -> str:
        return "as if"

    def told(run: Any) -> str:
        (run.workspace / "told.txt").write_text(last["receipt"], "utf-8")
        return f"told of {last['receipt']}"

    def main(run: Any) -> list[str]:
        before = run.memo("before", lambda: "the same")
        last["receipt"] = send("a")
        after = run.memo("after", lambda: told(run))
        seen = look()
        run.checkpoint()
        return [before, after, seen]

    async def main_async(run: Any) -> list[str]:
        before = await run.memo("before", lambda: "the same")
        last["receipt"] = await run.call(send, "a")
        after = await run.memo("after", lambda: told(run))
        seen = await run.call(look)
        await run.checkpoint()
        return [before, after, seen]

    chosen = main_async if is_async else main
    with open_engine(tmp_path) as engine:
        engine.run(lambda run: "nothing yet", run_id="p")
        trial = engine.fork("p", at="start", main=chosen, new_run_id="f")
        assert trial.result == ["the same", "told of as if", "looked at as if"]
        plan = engine.fork_plan("f", effects="live")
        assert [row.tool_name for row in plan.receipts] == ["before"]
        live = engine.fork("f", effects="live", main=chosen, new_run_id="g")
        assert live.result == ["the same", "told of sent 1", "looked at sent 1"]
        assert (Path(live.workspace) / "told.txt").read_text("utf-8") == "sent 1"
        again = engine.fork("f", main=chosen, new_run_id="h")
        assert again.result == trial.result
    assert (outside.sent, read) == (["a:"], ["as if", "sent 1"])


def test_a_live_fork_of_a_simulated_one_takes_nothing_for_done_that_was_only_simulated(tmp_path: Path) -> None:
    outside = Outside()
    send = mailer(outside, scope=["to"])

    @send.simulate
    def pretend(to: str, body: str = "") -> str:
        return "as if"

    def main(run: Any) -> list[str]:
        run.checkpoint()
        inside = run.memo("inside", lambda: send("in a memo"))
        first = [inside, *(send(to) for to in run.inputs["to"])]
        run.checkpoint()
        return first

    with open_engine(tmp_path) as engine:
        engine.run(lambda run: run.checkpoint(), {"to": []}, run_id="p")
        trial = engine.fork("p", inputs={"to": ["a", "b"]}, main=main, new_run_id="f")
        assert trial.result == ["as if"] * 3 and outside.sent == []
        live = engine.fork("f", effects="live", main=main, new_run_id="g")
    assert live.status is RunStatus.SUCCEEDED
    assert outside.sent == ["in a memo:", "a:", "b:"]
