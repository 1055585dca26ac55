"""A run that somebody ends: while it is queued, while it waits, while it runs, and after its process has died."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from perdure import Engine, NotFound, RunCancelled, RunSuspended, VerdictRefused, tool
from tests.integration.engine_support import Outside, live, mailer, open_engine


def accepted(engine: Engine, main: Any, run_id: str = "r1") -> None:
    """Leave a run as a process leaves it that dies before it has claimed it."""
    engine._prepare(main, None, run_id, False)


def statuses_of(engine: Engine) -> dict[str, str]:
    return {call["tool_call_id"]: call["status"] for call in engine.calls("r1", inner=True)}


def test_a_queued_run_is_cancelled_at_once_and_never_entered(tmp_path: Path) -> None:
    entered: list[int] = []

    def main(run: Any) -> None:
        entered.append(1)

    with open_engine(tmp_path) as engine:
        accepted(engine, main)
        assert [row.status for row in engine.runs()] == ["queued"]
        found = engine.cancel("r1", reason="not needed", actor="ann")
        assert (found.status, found.exit_code, found.note[:6]) == ("cancelled", 11, "by ann")
        assert found.note.endswith(": not needed")
        again = engine.run(main, run_id="r1")
        assert (again.status, again.exit_code, entered) == ("cancelled", 11, [])
        with pytest.raises(RunCancelled) as refused:
            engine.resume("r1", main=main)
        assert refused.value.exit_code == 11


def test_a_queued_run_is_seen_and_can_be_resumed(tmp_path: Path) -> None:
    with open_engine(tmp_path) as engine:
        accepted(engine, lambda run: "late")
        assert [(row.status, row.attempt) for row in engine.runs()] == [("queued", 0)]
    with open_engine(tmp_path) as engine:
        done = engine.resume("r1", main=lambda run: "late")
        assert (done.status, done.result, done.attempt) == ("succeeded", "late", 1)


def test_a_waiting_run_is_cancelled_with_its_open_questions(tmp_path: Path) -> None:
    outside = Outside()
    wire = mailer(outside, approval="always")

    def main(run: Any) -> None:
        wire("a")

    with open_engine(tmp_path) as engine:
        assert engine.run(main, run_id="r1").reason == "approval"
        ((_, item),) = engine.inbox()
        found = engine.cancel("r1")
        assert (found.status, found.reason, found.waiting_for, engine.inbox()) == ("cancelled", None, (), [])
        assert statuses_of(engine) == {"r1.1": "cancelled"}
        with pytest.raises(VerdictRefused):
            engine.approve(item.id)
        assert [step["status"] for step in engine.details("r1")["steps"]] == ["failed"]
    assert outside.sent == []


def test_a_call_in_doubt_stays_in_the_inbox_of_a_cancelled_run_and_can_be_settled(tmp_path: Path) -> None:
    @tool(side_effect_class="external")
    def send() -> None:
        raise ConnectionResetError

    with open_engine(tmp_path) as engine:
        assert engine.run(lambda run: send(), run_id="r1").reason == "in_doubt"
        assert engine.cancel("r1").status == "cancelled"
        ((_, item),) = engine.inbox()
        assert (item.kind, item.tool_call_id) == ("in_doubt", "r1.1")
        engine.resolve("r1.1", "happened", result="seen")
        assert (engine.inbox(), statuses_of(engine)) == ([], {"r1.1": "succeeded"})
        assert engine.outcome("r1").status == "cancelled"


def test_to_cancel_twice_is_to_cancel_once_and_an_ended_run_stays_as_it_ended(tmp_path: Path) -> None:
    with open_engine(tmp_path) as engine:
        accepted(engine, lambda run: None)
        first = engine.cancel("r1", actor="ann", reason="one")
        second = engine.cancel("r1", actor="bob", reason="two")
        assert (second.status, second.note) == ("cancelled", first.note)
        done = engine.run(lambda run: "done", run_id="r2")
        assert engine.cancel("r2").status == done.status == "succeeded"
        with pytest.raises(NotFound):
            engine.cancel("nobody")


def cancelled_from_elsewhere(folder: Path, begun: threading.Event, go_on: threading.Event) -> threading.Thread:
    """Cancel, as another process would, once the agent is at work, and let it go on then."""

    def act() -> None:
        assert begun.wait(600)
        with open_engine(folder) as other:
            assert other.cancel("r1", actor="ann").status == "running"
        go_on.set()

    person = threading.Thread(target=act)
    person.start()
    return person


@pytest.mark.parametrize("form", ["sync", "async"])
def test_what_is_in_flight_is_recorded_and_nothing_is_started_after(tmp_path: Path, form: str) -> None:
    """The wish is seen at the next start of a call, long before the next heartbeat."""
    sent: list[str] = []
    begun, go_on = threading.Event(), threading.Event()

    @tool(side_effect_class="external")
    def send(to: str) -> str:
        sent.append(to)
        if to == "a":
            begun.set()
            go_on.wait(60)
        return f"to {to}"

    said: list[BaseException] = []

    def main(run: Any) -> str:
        send("a")
        try:
            send("b")
        except BaseException as problem:
            said.append(problem)
        send("c")
        return "done"

    async def amain(run: Any) -> str:
        await run.call(send, "a")
        try:
            await run.call(send, "b")
        except BaseException as problem:
            said.append(problem)
        await run.call(send, "c")
        return "done"

    person = cancelled_from_elsewhere(tmp_path, begun, go_on)
    with open_engine(tmp_path) as engine:
        found = engine.run(main if form == "sync" else amain, run_id="r1")
        person.join()
        assert (found.status, found.exit_code, found.result) == ("cancelled", 11, None)
        assert sent == ["a"]
        assert statuses_of(engine) == {"r1.1": "succeeded"}
        assert isinstance(said[0], RunSuspended if form == "sync" else asyncio.CancelledError)
        assert engine.details("r1")["lives"][-1]["how"] == "cancelled"


def test_siblings_in_flight_are_recorded_whoever_sees_the_cancel_first(tmp_path: Path) -> None:
    sent: list[str] = []
    begun, go_on = threading.Event(), threading.Event()

    @tool(side_effect_class="external")
    def send(to: str) -> str:
        sent.append(to)
        if to == "slow":
            begun.set()
            go_on.wait(60)
        return to

    async def other(run: Any) -> None:
        await asyncio.to_thread(begun.wait, 5)
        with open_engine(tmp_path) as elsewhere:
            elsewhere.cancel("r1")
        try:
            await run.call(send, "after")
        finally:
            go_on.set()

    async def main(run: Any) -> None:
        await asyncio.gather(run.call(send, "slow"), other(run))

    with open_engine(tmp_path) as engine:
        assert engine.run(main, run_id="r1").status == "cancelled"
        assert (sent, statuses_of(engine)) == (["slow"], {"r1.1": "succeeded"})


def test_a_process_that_cancels_its_own_run_is_told_at_once(tmp_path: Path) -> None:
    with open_engine(tmp_path) as engine:

        def main(run: Any) -> str:
            engine.cancel(run.run_id, reason="enough")
            run.memo("more", lambda: 1)
            return "went on"

        found = engine.run(main, run_id="r1")
        assert (found.status, found.result) == ("cancelled", None)


def test_a_heartbeat_ends_a_life_that_calls_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from perdure.runtime import heartbeat

    monkeypatch.setattr(heartbeat, "HEARTBEAT_SECONDS", 0.02)
    begun = threading.Event()

    async def main(run: Any) -> None:
        begun.set()
        await asyncio.sleep(60)

    person = cancelled_from_elsewhere(tmp_path, begun, threading.Event())
    assert live(tmp_path, main).status == "cancelled"
    person.join()


def test_a_run_that_would_wait_is_cancelled_instead(tmp_path: Path) -> None:
    outside = Outside()
    wire = mailer(outside, approval="always")

    def main(run: Any) -> None:
        with open_engine(tmp_path) as other:
            assert other.cancel("r1").status == "running"
        wire("a")

    with open_engine(tmp_path) as engine:
        found = engine.run(main, run_id="r1")
        assert (found.status, engine.inbox(), outside.sent) == ("cancelled", [], [])


def test_a_program_that_had_come_to_its_end_has_succeeded(tmp_path: Path) -> None:
    """One of the two wins, and what is told is what happened: the wish came too late."""

    def main(run: Any) -> str:
        with open_engine(tmp_path) as other:
            assert other.cancel("r1").status == "running"
        return "all done"

    with open_engine(tmp_path) as engine:
        found = engine.run(main, run_id="r1")
        assert (found.status, found.result) == ("succeeded", "all done")
        assert engine.cancel("r1").status == "succeeded"


def test_a_failure_before_the_cancel_was_seen_can_be_gone_on_with(tmp_path: Path) -> None:
    def main(run: Any) -> str:
        if run.attempt == 1:
            with open_engine(tmp_path) as other:
                other.cancel("r1")
            raise ValueError("broken")
        return str(run.memo("more", lambda: "more"))

    assert live(tmp_path, main).status == "failed"
    assert live(tmp_path, main, resume=True).result == "more"


def test_of_many_runs_each_is_answered(tmp_path: Path) -> None:
    with open_engine(tmp_path) as engine:
        for number in range(3):
            accepted(engine, lambda run: None, f"q{number}")
        assert [engine.cancel(f"q{number}").status for number in range(3)] == ["cancelled"] * 3


def test_who_waits_for_an_answer_is_ended_too(tmp_path: Path) -> None:
    wire = mailer(Outside(), approval="always")

    def main(run: Any) -> None:
        wire("a")

    asked = threading.Event()

    def act() -> None:
        with open_engine(tmp_path) as other:
            asked.wait(60)
            other.cancel("r1")

    person = threading.Thread(target=act)
    person.start()
    with open_engine(tmp_path) as engine:
        seen = _when_asked(engine, asked)
        with pytest.MonkeyPatch.context() as patch:
            from perdure.runtime import heartbeat

            patch.setattr(heartbeat, "HEARTBEAT_SECONDS", 0.02)
            found = engine.run(main, run_id="r1", wait=True)
        person.join()
        seen.join()
        assert (found.status, engine.inbox()) == ("cancelled", [])


def _when_asked(engine: Engine, asked: threading.Event) -> threading.Thread:
    def look() -> None:
        stop = threading.Event()
        while not engine.inbox():
            stop.wait(0.01)
        asked.set()

    thread = threading.Thread(target=look)
    thread.start()
    return thread
