"""The rules of identity and challenge for function agents, over several lives of one run on a real ledger."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from perdure import (
    CallChallenged,
    CallFailed,
    DedupeConflict,
    ToolFailed,
    tool,
)
from tests.integration.engine_support import Crash, Outside, live, mailer, open_engine, statuses


def test_finished_calls_return_their_receipts_in_the_next_life(tmp_path: Path) -> None:
    outside = Outside()
    send = mailer(outside)

    def first(run: Any) -> Any:
        send("a")
        send("b")
        raise Crash

    def second(run: Any) -> Any:
        return [send("a"), send("b"), send("c")]

    assert live(tmp_path, first).status == "failed"
    done = live(tmp_path, second, resume=True)
    assert done.status == "succeeded"
    assert done.result == ["sent 1", "sent 2", "sent 3"]
    assert outside.sent == ["a:", "b:", "c:"]
    assert done.replayed == 2


def test_three_identical_reminders_in_one_life_are_three(tmp_path: Path) -> None:
    outside = Outside()
    send = mailer(outside)
    done = live(tmp_path, lambda run: [send("a", "x") for _ in range(3)])
    assert done.result == ["sent 1", "sent 2", "sent 3"]
    assert outside.count("a:x") == 3


def test_an_effect_of_an_earlier_life_with_other_arguments_is_challenged(tmp_path: Path) -> None:
    outside = Outside()
    send = mailer(outside, scope=["to"])

    def first(run: Any) -> Any:
        send("a", "written at 10:00")
        raise Crash

    def second(run: Any) -> Any:
        return send("a", "written at 11:00")

    live(tmp_path, first)
    waiting = live(tmp_path, second, resume=True)
    assert (waiting.status, waiting.reason, waiting.exit_code) == ("waiting", "challenge", 6)
    assert waiting.challenged == 1
    assert outside.sent == ["a:written at 10:00"]
    assert waiting.waiting_for[0].commands == (
        "perdure resolve r1.2 --same --state-dir " + str(tmp_path / "state"),
        "perdure resolve r1.2 --another --state-dir " + str(tmp_path / "state"),
    )


def _challenged(tmp_path: Path) -> tuple[Outside, Any]:
    outside = Outside()
    send = mailer(outside, scope=["to"])

    def first(run: Any) -> Any:
        send("a", "one")
        raise Crash

    def second(run: Any) -> Any:
        return send("a", "two")

    live(tmp_path, first)
    assert live(tmp_path, second, resume=True).reason == "challenge"
    return outside, second


def test_same_gives_the_earlier_receipt_and_sends_nothing(tmp_path: Path) -> None:
    outside, second = _challenged(tmp_path)
    with open_engine(tmp_path) as engine:
        engine.resolve("r1.2", "same")
    done = live(tmp_path, second, resume=True)
    assert (done.status, done.result, done.unmet) == ("succeeded", "sent 1", 0)
    assert outside.sent == ["a:one"]


def test_another_sends_it_once(tmp_path: Path) -> None:
    outside, second = _challenged(tmp_path)
    with open_engine(tmp_path) as engine:
        engine.resolve("r1.2", "another")
    done = live(tmp_path, second, resume=True)
    assert (done.status, done.result) == ("succeeded", "sent 2")
    assert outside.sent == ["a:one", "a:two"]


def test_a_verdict_binds_one_pair_only(tmp_path: Path) -> None:
    outside, _ = _challenged(tmp_path)
    with open_engine(tmp_path) as engine:
        engine.resolve("r1.2", "another")
    send = mailer(outside, scope=["to"])
    third = live(tmp_path, lambda run: send("a", "three"), resume=True)
    assert third.reason == "challenge"
    assert "your arguments change per life" in third.waiting_for[0].summary
    assert outside.sent == ["a:one"]


def test_repeat_allow_sends_without_a_question(tmp_path: Path) -> None:
    outside = Outside()
    send = mailer(outside, scope=["to"], repeat="allow")

    def first(run: Any) -> Any:
        send("a", "one")
        raise Crash

    live(tmp_path, first)
    assert live(tmp_path, lambda run: send("a", "two"), resume=True).status == "succeeded"
    assert outside.sent == ["a:one", "a:two"]


@pytest.mark.parametrize("answer", ["raise", "return"])
def test_on_challenge_tells_the_program_instead_of_a_person(tmp_path: Path, answer: str) -> None:
    outside = Outside()
    send = mailer(outside, scope=["to"])

    def first(run: Any) -> Any:
        send("a", "one")
        raise Crash

    def second(run: Any) -> Any:
        try:
            got = run.call(send, "a", "two", on_challenge=answer)
        except CallChallenged as challenged:
            got = challenged
        assert isinstance(got, CallChallenged)
        return str(got)

    live(tmp_path, first)
    done = live(tmp_path, second, resume=True)
    assert done.status == "succeeded"
    assert "r1.1" in done.result
    assert done.unmet == 1
    assert outside.sent == ["a:one"]


def test_a_declined_card_stays_declined_and_the_other_is_charged_once(tmp_path: Path) -> None:
    charged: list[str] = []

    @tool(side_effect_class="external", scope=["card"])
    def charge(card: str) -> str:
        if card == "A":
            raise ToolFailed("declined", retry=False)
        charged.append(card)
        return f"charged {card}"

    def main(run: Any, fails: bool) -> Any:
        try:
            charge("A")
        except CallFailed as failed:
            assert failed.error_type == "ToolFailed"
            result = charge("B")
        if fails:
            raise Crash
        return result

    live(tmp_path, lambda run: main(run, True))
    assert live(tmp_path, lambda run: main(run, False), resume=True).result == "charged B"
    assert charged == ["B"]


def test_resume_of_a_failed_run_tries_again_the_call_that_ended_it_and_its_first_cause(tmp_path: Path) -> None:
    tries: list[str] = []

    @tool(side_effect_class="external")
    def pay() -> str:
        tries.append("pay")
        if len(tries) == 1:
            raise ToolFailed("bank closed", retry=False)
        return "paid"

    def main(run: Any) -> Any:
        def inner() -> Any:
            return pay()

        return run.memo("outer", lambda: run.memo("inner", inner))

    failed = live(tmp_path, main)
    assert (failed.status, failed.error_code) == ("failed", "CallFailed")
    assert live(tmp_path, main).status == "failed", "the same id again returns the stored outcome"
    assert len(tries) == 1
    assert live(tmp_path, main, resume=True).result == "paid"
    assert len(tries) == 2


def test_tool_failed_is_retried_within_its_attempts(tmp_path: Path) -> None:
    tries: list[int] = []

    @tool(side_effect_class="external", max_attempts=3)
    def flaky() -> str:
        tries.append(1)
        raise ToolFailed("busy")

    done = live(tmp_path, lambda run: flaky())
    assert done.status == "failed"
    assert len(tries) == 3


def test_a_memo_is_computed_once_and_what_it_did_counts_as_met(tmp_path: Path) -> None:
    outside = Outside()
    send = mailer(outside, scope=["to"])
    computed: list[int] = []

    def compute(run: Any) -> str:
        computed.append(1)
        return str(send("a", "inside"))

    def first(run: Any) -> Any:
        run.memo("m", compute, run, key="k")
        raise Crash

    def second(run: Any) -> Any:
        return [run.memo("m", compute, run, key="k"), send("a", "a second one")]

    live(tmp_path, first)
    done = live(tmp_path, second, resume=True)
    assert (done.status, done.result) == ("succeeded", ["sent 1", "sent 2"])
    assert len(computed) == 1


def test_a_dedupe_key_returns_the_first_receipt_across_runs_and_refuses_another_scope(tmp_path: Path) -> None:
    outside = Outside()
    send = mailer(outside, scope=["to"])
    with open_engine(tmp_path) as engine:
        one = engine.run(lambda run: run.call(send, "a", "x", dedupe_key="invoice-7"), run_id="r1")
        with pytest.warns(RuntimeWarning, match="arguments differ"):
            two = engine.run(lambda run: run.call(send, "a", "y", dedupe_key="invoice-7"), run_id="r2")
        three = engine.run(lambda run: run.call(send, "b", "y", dedupe_key="invoice-7"), run_id="r3")
    assert (one.result, two.result) == ("sent 1", "sent 1")
    assert three.error_code == DedupeConflict.__name__
    assert outside.sent == ["a:x"]


def test_no_duplicate_external_actions_joins_the_first_call(tmp_path: Path) -> None:
    outside = Outside()
    send = mailer(outside, scope=["to"])
    job = tmp_path / "j.job.yaml"
    job.write_text("name: j\nagent: {python: 'agent_nodup:main'}\nconstraints: {no_duplicate_external_actions: true}\n")
    (tmp_path / "agent_nodup.py").write_text(
        "def main(run):\n    return [run.call('send', 'a'), run.call('send', 'a')]\n"
    )
    with open_engine(tmp_path, tools=[send]) as engine:
        done = engine.run(job, run_id="r1")
    assert done.result == ["sent 1", "sent 1"]
    assert outside.sent == ["a:"]


def test_repeat_of_must_name_the_newest_receipt(tmp_path: Path) -> None:
    outside = Outside()
    send = mailer(outside, scope=["to"], repeat="challenge")

    def main(run: Any) -> Any:
        send("a", "1")
        run.call(send, "a", "2", repeat_of=f"{run.run_id}.1")
        return run.call(send, "a", "3", repeat_of=f"{run.run_id}.1")

    done = live(tmp_path, main)
    assert done.status == "failed"
    assert "the newest is r1.2" in (done.error_detail or "")
    assert outside.sent == ["a:1", "a:2"]


def test_an_unmet_prepared_row_is_not_sent_but_cancelled(tmp_path: Path) -> None:
    outside, _ = _challenged(tmp_path)
    with open_engine(tmp_path) as engine:
        engine.resolve("r1.2", "another")
    done = live(tmp_path, lambda run: "nothing more", resume=True)
    assert (done.status, done.unmet) == ("succeeded", 1)
    assert statuses(tmp_path)["r1.2"] == "cancelled"
    assert outside.sent == ["a:one"]


def test_an_exception_of_an_effectful_tool_is_in_doubt_and_of_a_read_is_a_failure(tmp_path: Path) -> None:
    @tool(side_effect_class="external")
    def send() -> None:
        raise ConnectionResetError("after the last byte")

    @tool(side_effect_class="read_only")
    def read() -> None:
        raise ValueError("no such page")

    def main(run: Any) -> Any:
        with pytest.raises(CallFailed, match="no such page"):
            read()
        send()

    waiting = live(tmp_path, main)
    assert (waiting.status, waiting.reason, waiting.exit_code) == ("waiting", "in_doubt", 7)
    assert statuses(tmp_path) == {"r1.1": "failed", "r1.2": "in_doubt"}


@pytest.mark.parametrize("says", ["happened", "did_not_happen", "abandon"])
def test_a_person_settles_a_doubt(tmp_path: Path, says: str) -> None:
    from perdure import CallAbandoned

    tries: list[int] = []

    @tool(side_effect_class="external")
    def send() -> str:
        tries.append(1)
        if len(tries) == 1:
            raise ConnectionResetError
        return "second"

    def main(run: Any) -> Any:
        try:
            return send()
        except CallAbandoned:
            return "abandoned"

    assert live(tmp_path, main).reason == "in_doubt"
    with open_engine(tmp_path) as engine:
        engine.resolve("r1.1", says, result="a person saw it", actor="ann")
        assert engine.inbox() == []
        assert engine.outcome("r1").status == "queued"
    done = live(tmp_path, main, resume=True)
    expected = {"happened": "a person saw it", "did_not_happen": "second", "abandon": "abandoned"}[says]
    assert (done.status, done.result) == ("succeeded", expected)
    assert len(tries) == (2 if says == "did_not_happen" else 1)
