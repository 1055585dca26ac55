"""Consent that comes too late, or was given too long ago."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from perdure import CallDenied, VerdictRefused, tool
from tests.integration.approval_support import ALWAYS, Desk
from tests.integration.engine_support import Outside, mailer, open_engine


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

    def lasts_two_hours(run: Any) -> None:
        desk.later(hours=2)
        raise KeyboardInterrupt  # nobody looks into the inbox meanwhile

    with desk.engine() as engine, pytest.raises(KeyboardInterrupt):
        engine.run(lasts_two_hours, run_id="another")
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


def forecast(desk: Desk) -> str:
    """Return what the next life would do with the only open call."""
    with desk.engine() as engine:
        (call,) = engine.forecast("r1")["calls"]
    return str(call["then"])


def test_the_same_key_is_not_sent_again_for_what_was_decided_too_long_ago(tmp_path: Path) -> None:
    keys: list[str] = []

    @tool(name="send", side_effect_class="external", key_ttl="30d", max_attempts=3)
    def send(to: str, *, call: Any) -> None:
        keys.append(call.idempotency_key)
        raise KeyboardInterrupt

    desk = Desk(tmp_path, text="version: 1\nrules:\n  - {tool: send, valid_for: 24h}\n")
    with pytest.raises(KeyboardInterrupt):
        desk.live(lambda run: send("a"))
    assert forecast(desk) == "sent_again"
    desk.later(hours=25)
    assert forecast(desk) == "person_asked"
    waiting = desk.live(lambda run: send("a"), resume=True)
    assert (waiting.reason, len(keys)) == ("in_doubt", 1)
    assert "longer ago than valid_for" in waiting.waiting_for[0].summary
