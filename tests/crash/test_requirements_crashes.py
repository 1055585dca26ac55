"""Small checks of single requirements (docs/requirements.md) that take a killed process and the provider's own count."""

import re
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.crash.loop import Bench
from tests.crash.programs import LOST_REPLIES, REFERENCE
from tests.crash.support import AFTER_TOOL, AT_POINT, CRASHED, LedgerFile

CALL_ID = "PERDURE_TEST_CRASH_AFTER_TOOL_CALL_ID"
AFTER_PHASE = "PERDURE_TEST_CRASH_AFTER_PHASE"
UNFINISHED = """
SELECT s.name FROM run_steps s WHERE s.status = 'succeeded' AND s.step_index > 0
EXCEPT SELECT s.name FROM run_steps s JOIN checkpoints c USING (step_id) WHERE c.checkpoint_type = 'step_boundary'
"""
TOO_EARLY = """
SELECT s.name FROM run_steps s JOIN checkpoints c USING (step_id)
WHERE c.checkpoint_type = 'step_boundary' AND s.status <> 'succeeded' AND s.step_index > 0
"""


def test_an_effect_is_recorded_then_started_then_done_then_finished(bench: Bench) -> None:
    """By timestamps: those of the ledger and that of the provider, which knows no ledger."""
    order = bench.order(REFERENCE, "order")
    assert bench.live(order, {}).exit_code == 0
    done = {
        line["what"]: datetime.fromtimestamp(line["at"], UTC) for line in bench.log.lines() if line["event"] == "effect"
    }
    sql = (
        "SELECT json_extract(request_ref, '$.what'), prepared_at, started_at, finished_at FROM tool_calls "
        "WHERE side_effect_class = 'external'"
    )
    told = LedgerFile(Path(order.state_dir)).ask(sql)
    assert len(told) == len(REFERENCE.effects) == len(done)
    for what, *times in told:
        prepared, started, finished = (datetime.fromisoformat(time) for time in times)
        assert prepared <= started <= done[what] <= finished, what


def test_the_provider_gets_one_key_on_every_attempt(bench: Bench) -> None:
    """The first reply is lost; the second request carries the key of the first, and so does the ledger."""
    passage = bench.passage(LOST_REPLIES, ())
    lines = [line for line in bench.log.lines() if line["path"] == "/keyed" and "key" in line]
    by_effect = {line["what"]: {other["key"] for other in lines if other["what"] == line["what"]} for line in lines}
    assert len(by_effect) == 2 and all(len(keys) == 1 for keys in by_effect.values())
    assert [line["event"] for line in lines].count("replayed") == 2
    assert passage.crashed_at is None


def test_a_step_its_checkpoint_and_its_cursor_are_stored_in_one_transaction(bench: Bench) -> None:
    """Killed at each point, the ledger never holds one of them without the others."""
    seen: set[str] = set()
    for number in range(1, 200):
        order = bench.order(REFERENCE, f"step{number}")
        ended = bench.live(order, {AT_POINT: str(number)})
        ledger = LedgerFile(Path(order.state_dir))
        if ended.crashed_at is None:
            break
        if ledger.ask("SELECT count(*) FROM sqlite_schema WHERE name = 'checkpoints'") == [(1,)]:
            assert ledger.ask(UNFINISHED) == ledger.ask(TOO_EARLY) == [], ended.crashed_at
        seen.add(re.sub(r" \(.*", "", ended.crashed_at))
    assert ended.exit_code == 0, ended
    assert seen >= {"before insert_checkpoint", "before move_step", "before run_pointers"}
    boundary = "SELECT state_snapshot_json, cursor_json FROM checkpoints WHERE checkpoint_type = 'step_boundary'"
    assert [bool(snapshot and cursor) for snapshot, cursor in ledger.ask(boundary)] == [True, True]


def test_a_finished_read_is_not_made_again_after_a_crash(bench: Bench) -> None:
    order = bench.order(REFERENCE, "read")
    assert bench.live(order, {AFTER_TOOL: "keyed"}).exit_code == CRASHED
    assert bench.live(replace(order, do="resume"), {}).exit_code == 0
    assert bench.provider.counts("read") == {"read:read": 1}


def test_the_crash_after_a_tool_is_before_its_receipt_and_after_its_effect(bench: Bench) -> None:
    """Document 001, ticket 1: the row says `running`, the provider says 1; after the resume both say once."""
    order = bench.order(REFERENCE, "knob")
    ended = bench.live(order, {AFTER_TOOL: "probed"})
    ledger = LedgerFile(Path(order.state_dir))
    started = [call for call in ledger.calls() if call.status == "running"]
    assert [call.tool_name for call in started] == ["probed"]
    assert bench.counts("knob")["probed"] == 1
    assert (ended.exit_code, ended.stderr.splitlines()[-1]) == (
        CRASHED,
        f"PERDURE CRASH after tool probed call {started[0].tool_call_id}",
    )
    passage = bench.recover(REFERENCE, replace(order, do="resume"))
    assert passage.answers == ()


@pytest.mark.parametrize(
    ("knobs", "after"),
    [
        ({CALL_ID: "job.4"}, "keyed"),
        ({CALL_ID: "job.4", AFTER_TOOL: "keyed"}, "keyed"),
        ({AFTER_TOOL: "keyed", AFTER_PHASE: "send"}, "keyed"),
    ],
)
def test_a_call_a_tool_and_a_phase_choose_the_moment_together(bench: Bench, knobs: dict[str, str], after: str) -> None:
    order = bench.order(REFERENCE, "together")
    ended = bench.live(order, knobs)
    assert ended.crashed_at == f"after tool {after} call job.4", ended


def test_knobs_that_name_different_moments_never_fire(bench: Bench) -> None:
    ended = bench.live(bench.order(REFERENCE, "never"), {CALL_ID: "job.4", AFTER_TOOL: "asked"})
    assert ended.exit_code == 0 and "crash knob did not fire" in ended.stderr
