"""Consent, counted at a provider of its own: what nobody agreed to is never sent, what somebody agreed to once."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest

import perdure
from tests.crash.child import Order
from tests.crash.loop import Bench, Program
from tests.crash.support import AT_POINT, ROOT, LedgerFile

WAITING, REFUSED = 6, 9
JOB = Program("consent:main", {})


def agree(order: Order, edit: dict[str, str] | None = None) -> None:
    """A person in another process agrees to what is asked, maybe with other arguments."""
    jobs = str(ROOT / "tests/crash/jobs")
    with perdure.open(state_dir=order.state_dir) as engine:
        sys.path.insert(0, jobs)
        try:
            engine.add_tools(["consent"] if edit else [])
        finally:
            sys.path.remove(jobs)
        ((_, item),) = engine.inbox()
        engine.approve(item.id, edit=edit)


@pytest.mark.parametrize("edited", [False, True])
def test_an_approved_call_is_sent_once_wherever_the_life_that_sends_it_is_killed(bench: Bench, edited: bool) -> None:
    """Killed at every third point between the answer and the end; before the answer nothing has left."""
    killed = 0
    for number in range(1, 200, 3):
        tag = f"n{number}"
        order = bench.order(JOB, tag)
        assert bench.live(order, {}).exit_code == WAITING
        assert bench.counts(tag) == {}
        agree(order, {"what": f"{tag}:edited"} if edited else None)
        ended = bench.live(replace(order, do="resume"), {AT_POINT: str(number)})
        if ended.crashed_at is None:
            break
        killed += 1
        for _ in range(3):
            ended = bench.live(replace(order, do="resume"), {})
            if ended.exit_code == 0:
                break
            bench.person(order).answer(ended.says["waiting_for"])
        assert bench.counts(tag) == {"edited" if edited else "asked": 1}, (number, ended)
    assert killed > 3


def test_what_nobody_agrees_to_in_time_is_never_sent(bench: Bench, tmp_path: Path) -> None:
    rules = tmp_path / "p.yaml"
    rules.write_text("version: 1\nrules:\n  - {tool: letter, approval_expires: 1h}\n", "utf-8")
    order, environ = bench.order(JOB, "late"), {"PERDURE_POLICIES_PATH": str(rules)}
    assert bench.live(order, environ).exit_code == WAITING
    assert bench.live(replace(order, do="resume", clock_ahead_seconds=7200.0), environ).exit_code == REFUSED
    assert bench.counts("late") == {}
    assert [call.status for call in LedgerFile(Path(order.state_dir)).calls()] == ["failed"]
