"""Which time is charged: that in which a life is at work, and not that in which it waits for a person (C19)."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from perdure import Engine, tool
from perdure.testing import FakeClock
from tests.integration.job_support import Job


def answer_later(engine: Engine, clock: FakeClock, lives: list[Any], minutes: float) -> threading.Thread:
    """Let time pass once something waits for a person and nothing else moves, and then approve it."""
    looked = threading.Event()

    def passed() -> bool:
        operations = lives[0].operations
        with operations._lock:  # at this moment nothing looks at its row again either
            if operations.all_parked():
                clock.advance(minutes=minutes)
                return True
        return False

    def person() -> None:
        while not (engine.inbox() and passed()):
            looked.wait(0.001)
        engine.approve(engine.inbox()[0][1].id)

    thread = threading.Thread(target=person, daemon=True)
    thread.start()
    return thread


@pytest.mark.parametrize("is_async", [False, True])
def test_waiting_for_a_person_in_a_living_process_is_not_charged(tmp_path: Path, is_async: bool) -> None:
    job, lives = Job(tmp_path, "budgets: {max_wallclock_minutes: 30}"), list[Any]()

    @tool(name="wire", side_effect_class="external", approval="always")
    def wire(cents: int) -> int:
        return cents

    def main(run: Any) -> int:
        lives.append(run.door.life)
        job.clock.advance(minutes=5)
        return int(wire(5))

    async def main_async(run: Any) -> int:
        lives.append(run.door.life)
        job.clock.advance(minutes=5)
        found, _ = await asyncio.gather(run.call(wire, 5), run.memo("beside", int))
        return int(found)

    with job.engine() as engine:
        person = answer_later(engine, job.clock, lives, minutes=50)
        done = job.live_in(engine, main_async if is_async else main, wait=True)
        person.join()
        assert (done.status, done.result) == ("succeeded", 5)
        assert 5 <= engine.budgets("r1")[0].used < 6
