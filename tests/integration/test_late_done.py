"""A reply that comes late says "done", and no "no" stands against it: not a person's, not a force's, not a cancel's."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from perdure import Engine, ToolFailed, VerdictRefused, tool
from perdure.model.errors import LeaseLost
from perdure.model.toolcall import Evidence
from perdure.runtime import cancelling
from perdure.store.sql_store import SqlStore
from tests.integration.engine_support import Outside, mailer, open_engine

WHEN = "2026-11-22T10:00:00.000000Z"


def leave_reply(engine: Engine, call: str, attempt: int, *, ref: str | None = "m1") -> None:
    """Leave what a sender without any right to the run has said, as ``late_receipt`` does."""
    said = Evidence("reply", WHEN, "life 1 (pid 1)", attempt, "happened", '"sent late"', ref)
    engine._ledger.run(lambda store: store.calls.add_evidence(call, said))


def lost(run: Any) -> Any:
    """Lose the outcome of a call."""

    @tool(name="send", side_effect_class="external")
    def send(to: str, body: str = "") -> str:
        raise ConnectionResetError

    return run.call(send, "a")


@pytest.mark.parametrize("says", ["did_not_happen", "abandon"])
@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize("cancelled", [False, True])
def test_a_no_against_a_late_reply_is_refused_and_the_call_has_succeeded(
    tmp_path: Path, says: str, force: bool, cancelled: bool
) -> None:
    outside = Outside()
    send = mailer(outside)

    def main(run: Any) -> Any:
        return run.call(send, "a")

    with open_engine(tmp_path) as engine:
        assert engine.run(lost, run_id="r1").reason == "in_doubt"
        if cancelled:
            engine.cancel("r1")
        leave_reply(engine, "r1.1", 1)
        with pytest.raises(VerdictRefused, match=r"r1\.1 happened") as refused:
            engine.resolve("r1.1", says, force=force)
        assert refused.value.safe == "Nothing is sent again."
        assert [call["status"] for call in engine.calls("r1")] == ["succeeded"]
        assert engine.inbox() == []
        if not cancelled:
            assert (engine.resume("r1", main=main).result, outside.sent) == ("sent late", [])
        assert engine.verify().ok


def test_a_call_whose_second_attempt_was_not_done_takes_the_late_reply_to_the_first(tmp_path: Path) -> None:
    """A person said "no" about the first attempt, the second one did nothing: the first one had happened."""
    outside = Outside()
    send = mailer(outside)

    @tool(name="send", side_effect_class="external")
    def refusing(to: str, body: str = "") -> str:
        leave_reply(engine, "r1.1", 1)
        raise ToolFailed("the provider is closed", retry=False)

    def main(run: Any) -> Any:
        return run.call(send, "a")

    with open_engine(tmp_path) as engine:
        engine.run(lost, run_id="r1")
        engine.resolve("r1.1", "did_not_happen")
        again = engine.resume("r1", main=lambda run: run.call(refusing, "a"))
        assert (again.status, again.result) == ("succeeded", "sent late")
        assert outside.sent == []


@pytest.mark.parametrize("end", ["cancel", "forget"])
def test_a_call_that_was_taken_for_not_done_is_not_withdrawn_where_a_late_reply_says_that_it_was_done(
    tmp_path: Path, end: str
) -> None:
    with open_engine(tmp_path) as engine:
        engine.run(lost, run_id="r1")
        engine.resolve("r1.1", "did_not_happen")
        leave_reply(engine, "r1.1", 1)
        if end == "cancel":
            engine.cancel("r1")
        else:
            assert engine.resume("r1", main=lambda run: "never asks").status == "succeeded"
        assert [call["status"] for call in engine.calls("r1")] == ["succeeded"]
        if end == "forget":
            assert engine.outcome("r1").unmet == 1


def test_a_sender_that_comes_back_after_its_call_was_withdrawn_is_heard(tmp_path: Path) -> None:
    """Its run was cancelled over it, by force: what it brings back stands in the inbox, and nothing hides it."""
    begun, go_on, back = threading.Event(), threading.Event(), threading.Event()

    @tool(name="send", side_effect_class="external", timeout=0.05)
    def slow(to: str) -> str:
        begun.set()
        assert go_on.wait(60)
        return "sent after all"

    with open_engine(tmp_path) as engine:
        waits = engine.run(lambda run: run.call(slow, "a"), run_id="r1")
        assert (begun.is_set(), waits.reason) == (True, "in_doubt")
        engine.cancel("r1")
        engine.resolve("r1.1", "did_not_happen", force=True)
        assert [call["status"] for call in engine.calls("r1")] == ["cancelled"]
        go_on.set()
        while not engine.inbox():
            back.wait(0.01)
        ((_, item),) = engine.inbox()
        assert "a late reply says that it was done" in item.summary


def test_a_sender_that_comes_back_while_a_person_is_asked_settles_its_call(tmp_path: Path) -> None:
    begun, go_on, back = threading.Event(), threading.Event(), threading.Event()

    @tool(name="send", side_effect_class="external", timeout=0.05)
    def slow(to: str) -> str:
        begun.set()
        assert go_on.wait(60)
        return "sent after all"

    with open_engine(tmp_path) as engine:
        assert engine.run(lambda run: run.call(slow, "a"), run_id="r1").reason == "in_doubt"
        engine.cancel("r1")
        go_on.set()
        while engine.inbox():
            back.wait(0.01)
        assert [call["status"] for call in engine.calls("r1")] == ["succeeded"]


def test_work_without_an_effect_that_comes_back_to_a_cancelled_run_is_no_matter_for_a_person(tmp_path: Path) -> None:
    """The owner was taken for dead while it computed; nothing left the process, and nobody is asked to look anywhere."""

    def cancel_over_it() -> int:
        def cancel(store: SqlStore) -> None:
            row = store.runs.get("r1")
            assert row is not None
            cancelling._cancel_now(engine._around, store, row, actor="ann", reason="it looked dead")

        engine._ledger.run(cancel)
        return 42

    with open_engine(tmp_path) as engine:
        with pytest.raises(LeaseLost):
            engine.run(lambda run: run.memo("answer", cancel_over_it), run_id="r1")
        assert (engine.outcome("r1").status, engine.inbox()) == ("cancelled", [])


def test_a_memo_that_two_lives_have_computed_is_no_effect_that_was_done_twice(tmp_path: Path) -> None:
    """The next life was faster; a computation may be done as often as one likes."""

    def overtaken() -> int:
        def go_on_elsewhere(store: SqlStore) -> None:
            write = store.connection.write
            write("UPDATE runs SET lease_fence = lease_fence + 1 WHERE run_id = 'r1'", {})
            write(
                "UPDATE tool_calls SET status = 'succeeded', attempt = 2, response_ref = '42', finished_at = :now, "
                "started_at = :now WHERE tool_call_id = 'r1.1'",
                {"now": WHEN},
            )

        engine._ledger.run(go_on_elsewhere)
        return 42

    with open_engine(tmp_path) as engine:
        with pytest.raises(LeaseLost):
            engine.run(lambda run: run.memo("answer", overtaken), run_id="r1")
        assert (engine.outcome("r1").duplicates_found, engine.inbox()) == (0, [])
