"""A deadline that passes while nobody drives the run: each way to touch the run applies it (semantics #39)."""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from perdure import Engine, VerdictRefused
from tests.integration.engine_support import FAST
from tests.integration.test_doubts import SetClock

TOOLS = """
from perdure import CallContext, tool
SENT = []

@tool(side_effect_class="external", approval="always")
def wire(cents: int) -> int:
    return cents

@tool(side_effect_class="external", key_ttl="24h", max_attempts=3)
def keyed(*, call: CallContext) -> None:
    SENT.append(call.idempotency_key)
    raise KeyboardInterrupt

def main(run):
    return {call}
"""


class Place:
    """A ledger, a clock that is set, and a job with a deadline one hour from now."""

    def __init__(self, folder: Path, module: str, call: str) -> None:
        self.folder, self.clock = folder, SetClock()
        self.job = folder / "j.job.yaml"
        self.job.write_text(f"name: j\nagent: {{python: '{module}:main'}}\ndeadline: 2026-11-20T13:00:00Z\n", "utf-8")
        self.agent = folder / f"{module}.py"
        self.agent.write_text(TOOLS.format(call=call), "utf-8")

    def engine(self) -> Engine:
        return Engine(f"sqlite:///{self.folder}/ledger.db", state_dir=self.folder, clock=self.clock, tuning=FAST)


TOUCHES: dict[str, Callable[[Engine], Any]] = {
    "look at it": lambda engine: engine.outcome("r1"),
    "list the runs": lambda engine: engine.runs(),
    "look into the inbox": lambda engine: engine.inbox(),
}


@pytest.mark.parametrize("touch", TOUCHES)
def test_looking_is_enough(tmp_path: Path, touch: str) -> None:
    place = Place(tmp_path, f"deadline_{touch.replace(' ', '_')}", "wire(5)")
    with place.engine() as engine:
        assert engine.run(place.job, run_id="r1").reason == "approval"
        place.clock.moment += timedelta(hours=2)
        TOUCHES[touch](engine)
        (row,) = engine._ledger.read(lambda store: store.runs.newest(status=None, limit=1))
        assert (row.status, row.error_code) == ("failed", "deadline")
        assert engine.inbox() == []


def test_a_consent_that_comes_too_late_is_refused(tmp_path: Path) -> None:
    place = Place(tmp_path, "deadline_consent", "wire(5)")
    with place.engine() as engine:
        assert engine.run(place.job, run_id="r1").reason == "approval"
        ((_, item),) = engine.inbox()
        place.clock.moment += timedelta(hours=2)
        with pytest.raises(VerdictRefused):
            engine.approve(item.id)
        assert [call["error_code"] for call in engine.calls("r1")] == ["denied"]


def test_a_life_that_begins_too_late_sends_nothing_again_and_ends_the_run(tmp_path: Path) -> None:
    """Not even with the same key, and although a call is in doubt; the doubt stays in the inbox."""
    place = Place(tmp_path, "deadline_keyed", "keyed()")
    with place.engine() as engine, pytest.raises(KeyboardInterrupt):
        engine.run(place.job, run_id="r1")
    place.clock.moment += timedelta(hours=2)
    with place.engine() as engine:
        late = engine.resume("r1")
        assert (late.status, late.exit_code) == ("failed", 8), late
        assert "has passed" in (late.error_detail or "")  # this life said so itself, and nobody who looked later
        assert [item.kind for _, item in engine.inbox()] == ["in_doubt"]
        assert engine.call("r1.1")["status"] == "in_doubt"
    assert len(sys.modules["deadline_keyed"].SENT) == 1
