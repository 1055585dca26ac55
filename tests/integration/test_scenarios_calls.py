"""Scenarios of a call's life that one process can show, several lives of one run after another (docs/durability_test_matrix.md)."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from perdure import Engine, VerdictRefused, tool
from tests.integration.engine_support import FAST, Crash, Outside, live, mailer, open_engine, statuses
from tests.integration.test_doubts import SetClock


def test_a_function_agent_begins_at_its_start_and_meets_what_lies_before_the_last_checkpoint(tmp_path: Path) -> None:
    outside = Outside()
    send = mailer(outside)

    def main(run: Any) -> list[str]:
        sent = []
        for name in "abc":
            with run.step(f"to {name}"):
                sent.append(send(name))
        if run.attempt == 1:
            raise Crash
        return sent

    assert live(tmp_path, main).status == "failed"
    done = live(tmp_path, main, resume=True)
    assert (done.result, done.replayed) == (["sent 1", "sent 2", "sent 3"], 3)
    assert outside.sent == ["a:", "b:", "c:"]


def test_two_mails_to_one_person_about_one_thing_are_two(tmp_path: Path) -> None:
    outside = Outside()
    send = mailer(outside, scope=["to"])
    done = live(tmp_path, lambda run: [send("ann", body) for body in ("the draft", "the corrected draft")])
    assert (done.status, done.challenged) == ("succeeded", 0)
    assert outside.sent == ["ann:the draft", "ann:the corrected draft"]


def test_one_amount_paid_twice_on_purpose_is_paid_twice(tmp_path: Path) -> None:
    paid: list[tuple[str, int]] = []

    @tool(side_effect_class="external", scope=["account", "invoice"])
    def pay(account: str, invoice: str, cents: int) -> int:
        paid.append((invoice, cents))
        return len(paid)

    done = live(tmp_path, lambda run: [pay("acme", invoice, 500) for invoice in ("7", "8", "8")])
    assert (done.result, done.challenged) == ([1, 2, 3], 0)
    assert paid == [("7", 500), ("8", 500), ("8", 500)]


def test_branches_that_come_back_in_another_order_are_asked_nothing(tmp_path: Path) -> None:
    """On re-entry the fourth branch is faster than the fifth, whose mail it has not met yet, and waits instead of asking."""
    outside = Outside()
    send = mailer(outside)

    @tool(side_effect_class="read_only")
    async def fetch(name: str, late: int) -> str:
        await asyncio.sleep(0.001 * late)
        return name

    async def main(run: Any) -> list[str]:
        turn = 1 if run.attempt == 1 else -1

        async def branch(k: int) -> str:
            # The argument differs per life, so that the read is made again and its time is the one we want.
            await fetch(f"{run.attempt}-{k}", 5 + turn * k)
            if run.attempt == 1 and k == 4:
                raise Crash
            return str(await run.call(send, f"to{k}"))

        return await asyncio.gather(*(branch(k) for k in range(5)))

    assert live(tmp_path, main).status == "failed"
    done = live(tmp_path, main, resume=True)
    assert (done.status, done.challenged) == ("succeeded", 0)
    assert sorted(outside.sent) == [f"to{k}:" for k in range(5)]


def test_reads_and_finished_branches_go_on_while_a_call_is_in_doubt(tmp_path: Path) -> None:
    outside = Outside()
    send = mailer(outside)
    looked: list[int] = []

    @tool(side_effect_class="external")
    async def lose() -> None:
        raise ConnectionResetError

    @tool(side_effect_class="read_only")
    async def look(k: int) -> int:
        looked.append(k)
        return k

    async def main(run: Any) -> None:
        async def others() -> None:
            for k in range(3):
                await look(k)
            await run.call(send, "ann")

        await asyncio.gather(lose(), others())

    waiting = live(tmp_path, main)
    assert (waiting.status, waiting.reason) == ("waiting", "in_doubt")
    assert (looked, outside.sent) == ([0, 1, 2], [])


def test_an_approval_of_what_nobody_asks_for_any_more_is_cancelled(tmp_path: Path) -> None:
    """The code changed while a person was asked: the new request is asked about anew, the old answer sends nothing."""
    paid: list[int] = []

    @tool(side_effect_class="external", approval="always")
    def wire(cents: int) -> int:
        paid.append(cents)
        return cents

    assert live(tmp_path, lambda run: wire(500)).reason == "approval"
    with open_engine(tmp_path) as engine:
        assert live(tmp_path, lambda run: wire(700), resume=True).reason == "approval"
        (_, old), (_, new) = engine.inbox()
        assert (old.superseded_by, "superseded by r1.2" in old.summary) == ("r1.2", True)
        assert [tuple(change) for change in new.changes] == [("cents", 500, 700)]
        with pytest.raises(VerdictRefused, match=r"superseded by r1\.2"):
            engine.approve(old.id)
        engine.approve(new.id)
    done = live(tmp_path, lambda run: wire(700), resume=True)
    assert (done.result, paid) == (700, [700])
    assert statuses(tmp_path) == {"r1.1": "cancelled", "r1.2": "succeeded"}


def test_the_last_answer_makes_the_run_claimable_when_no_process_is_alive(tmp_path: Path) -> None:
    @tool(side_effect_class="external", approval="always")
    def wire(cents: int) -> int:
        return cents

    def main(run: Any) -> list[int]:
        return [wire(1), wire(2)]

    assert live(tmp_path, main).reason == "approval"
    with open_engine(tmp_path) as engine:
        ((_, item),) = engine.inbox()
        engine.approve(item.id)
        assert engine.outcome("r1").status == "queued"
    assert live(tmp_path, main, resume=True).reason == "approval"
    with open_engine(tmp_path) as engine:
        ((_, item),) = engine.inbox()
        assert engine.deny(item.id, reason="too much").status == "failed"
        assert engine.outcome("r1").status == "queued"


def test_a_deadline_that_passes_while_a_person_is_asked_ends_the_run_at_the_next_touch(tmp_path: Path) -> None:
    clock = SetClock()
    job = tmp_path / "j.job.yaml"
    job.write_text("name: j\nagent: {python: 'dead:main'}\ndeadline: 2026-11-20T13:00:00Z\n")
    (tmp_path / "dead.py").write_text(
        "from perdure import tool\n"
        "@tool(side_effect_class='external', approval='always')\n"
        "def wire(cents: int) -> int:\n    return cents\n"
        "def main(run):\n    return wire(5)\n"
    )
    ledger = f"sqlite:///{tmp_path}/ledger.db"
    with Engine(ledger, state_dir=tmp_path, clock=clock, tuning=FAST) as engine:
        assert engine.run(job, run_id="r1").reason == "approval"
        clock.moment += timedelta(hours=2)
        late = engine.resume("r1")
        assert (late.status, late.exit_code, late.error_code) == ("failed", 8, "deadline"), late
        assert engine.inbox() == []
        assert [(call["status"], call["error_code"]) for call in engine.calls("r1")] == [("failed", "denied")]
        assert engine.call("r1.1")["error_detail"].startswith("it expired: the deadline")


def test_a_deadline_that_passes_while_a_person_is_asked_ends_the_run_and_keeps_the_doubt(tmp_path: Path) -> None:
    """What is in doubt stays in the inbox of the ended run, and can be settled there."""
    clock = SetClock()
    job = tmp_path / "j.job.yaml"
    job.write_text("name: j\nagent: {python: 'dead_in_doubt:main'}\ndeadline: 2026-11-20T13:00:00Z\n")
    (tmp_path / "dead_in_doubt.py").write_text(
        "from perdure import tool\n"
        "@tool(side_effect_class='external')\n"
        "def lose() -> None:\n    raise ConnectionResetError\n"
        "def main(run):\n    return lose()\n"
    )
    ledger = f"sqlite:///{tmp_path}/ledger.db"
    with Engine(ledger, state_dir=tmp_path, clock=clock, tuning=FAST) as engine:
        assert engine.run(job, run_id="r1").reason == "in_doubt"
        clock.moment += timedelta(hours=2)
        late = engine.resume("r1")
        assert (late.status, late.exit_code) == ("failed", 8), late
        ((_, item),) = engine.inbox()
        assert item.kind == "in_doubt" and item.tool_call_id == "r1.1"
        with pytest.raises(VerdictRefused):
            engine.resolve("r1.1", "same")
        assert engine.resolve("r1.1", "happened", result=None).status == "succeeded"
        assert engine.inbox() == []
