"""One dedupe key in two runs: the call belongs to the run that made it, and only that run moves it."""

from __future__ import annotations

import asyncio
import threading
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from perdure import CallContext, DedupeConflict, Probe, tool
from tests.integration.engine_support import Outside, mailer, open_engine
from tests.integration.test_doubts import SetClock

pytestmark = pytest.mark.filterwarnings("ignore:perdure. dedupe_key:RuntimeWarning")


@pytest.mark.parametrize("form", ["sync", "async"])
def test_a_call_that_another_run_is_sending_is_waited_for_and_not_sent_again(tmp_path: Path, form: str) -> None:
    """Both are in their first life, so that the numbers of their fences are the same."""
    sent: list[str] = []
    begun, go_on = threading.Event(), threading.Event()

    @tool(name="send", side_effect_class="external", probe_lag=0)
    def send(to: str) -> str:
        sent.append(to)
        begun.set()
        assert go_on.wait(60)
        return f"sent {len(sent)}"

    @send.probe
    def find(call: Any) -> Probe:
        return Probe.not_happened(complete=True)

    def main(run: Any) -> Any:
        return run.call(send, "a", dedupe_key="k")

    async def amain(run: Any) -> Any:
        return await run.call(send, "a", dedupe_key="k")

    def first() -> None:
        with open_engine(tmp_path) as engine:
            engine.run(main, run_id="r1")

    life = threading.Thread(target=first)
    life.start()
    assert begun.wait(60)
    with open_engine(tmp_path) as engine:
        entered = main if form == "sync" else amain
        waits = engine.run(entered, run_id="r2")
        assert (waits.status, len(sent)) == ("queued", 1)
        assert [call["status"] for call in engine.calls("r1")] == ["running"]
        go_on.set()
        life.join(5)
        assert (engine.resume("r2", main=entered).result, sent) == ("sent 1", ["a"])
        assert [(run.run_id, run.status) for run in engine.runs()] == [("r2", "succeeded"), ("r1", "succeeded")]


def test_a_doubt_of_another_run_is_settled_there(tmp_path: Path) -> None:
    sent: list[str] = []

    @tool(name="pay", side_effect_class="external", key_ttl="1h", max_attempts=1)
    def lost(to: str, *, call: CallContext) -> str:
        sent.append(to)
        raise ConnectionResetError

    @tool(name="pay", side_effect_class="external", key_ttl="1h", max_attempts=5)
    def pay(to: str, *, call: CallContext) -> str:
        sent.append(to)
        return "paid"

    def main(run: Any) -> Any:
        return run.call(pay, "a", dedupe_key="k")

    with open_engine(tmp_path) as engine:
        assert engine.run(lambda run: run.call(lost, "a", dedupe_key="k"), run_id="r1").reason == "in_doubt"
        assert (engine.run(main, run_id="r2").status, sent) == ("queued", ["a"])
        assert [(run_id, item.tool_call_id) for run_id, item in engine.inbox()] == [("r1", "r1.1")]
        engine.resolve("r1.1", "happened", result="seen")
        assert (engine.resume("r2", main=main).result, sent) == ("seen", ["a"])


def test_a_call_that_was_not_done_in_a_cancelled_run_gives_its_key_back(tmp_path: Path) -> None:
    outside = Outside()

    @tool(name="send", side_effect_class="external")
    def lost(to: str, body: str = "") -> str:
        raise ConnectionResetError

    send = mailer(outside)

    def main(run: Any) -> Any:
        return run.call(send, "a", dedupe_key="k")

    with open_engine(tmp_path) as engine:
        engine.run(lambda run: run.call(lost, "a", dedupe_key="k"), run_id="r1")
        engine.cancel("r1")
        assert engine.run(main, run_id="r2").status == "queued"
        engine.resolve("r1.1", "did_not_happen")
        assert [call["status"] for call in engine.calls("r1")] == ["cancelled"]
        assert (engine.resume("r2", main=main).status, outside.sent) == ("succeeded", ["a:"])
        engine.prune(older_than=0)
        assert engine.verify().ok


def test_a_call_that_was_not_done_in_a_failed_run_is_left_to_a_resume_of_that_run(tmp_path: Path) -> None:
    clock = SetClock()
    deadline = tmp_path / "j.job.yaml"
    deadline.write_text("name: j\nagent: {python: 'agent_late:main'}\ndeadline: 2026-11-20T13:00:00Z\n", "utf-8")
    (tmp_path / "agent_late.py").write_text(
        "def main(run):\n    return run.call('lost', 'a', dedupe_key='k')\n", "utf-8"
    )

    @tool(name="lost", side_effect_class="external")
    def lost(to: str, body: str = "") -> str:
        raise ConnectionResetError

    with open_engine(tmp_path, clock=clock, tools=[lost]) as engine:
        assert engine.run(deadline, run_id="r1").reason == "in_doubt"
        clock.moment += timedelta(hours=2)
        assert engine.outcome("r1").error_code == "deadline"
        engine.resolve("r1.1", "did_not_happen")
        refused = engine.run(lambda run: run.call(lost, "a", dedupe_key="k"), run_id="r2")
        assert refused.error_code == DedupeConflict.__name__
        assert "was not done, and its run has ended" in (refused.error_detail or "")


def test_a_caller_that_gives_up_waiting_for_another_run_leaves_its_call_alone(tmp_path: Path) -> None:
    @tool(name="send", side_effect_class="external")
    def send(to: str) -> str:
        raise ConnectionResetError

    async def impatient(run: Any) -> str:
        try:
            await asyncio.wait_for(run.call(send, "a", dedupe_key="k"), 0.01)
        except TimeoutError:
            return "gave up"
        return "sent"

    with open_engine(tmp_path) as engine:
        engine.run(lambda run: run.call(send, "a", dedupe_key="k"), run_id="r1")
        assert engine.run(impatient, run_id="r2").result == "gave up"
        assert [call["status"] for call in engine.calls("r1")] == ["in_doubt"]
